//! GPT-2 (Radford et al. 2019): a transformer language model whose output layer shares the token
//! embeddings.
//!
//! Modules and parameters are named and laid out as in Hugging Face's GPT-2, apart from scale and
//! shift of normalizations (`gamma` and `beta` in Burn), so that
//! [weights](crate::saved::gpt_weights) can be exchanged. Dropout is applied to embeddings and to
//! the outputs of attention and feed-forward layers. It is not applied to attention weights.

use super::batch::{self, EvalMetrics, NeuralNet, TextBatch};
use super::initializer::LayerInitializer;
use crate::layers::{self, Dropout, GeluForm, LayerNorm, Linear, causal_attention, gelu};
use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor};
use hemiola_core::rng::mix64;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number that is added to variances of normalizations.
const NORM_EPSILON: f64 = 1e-5;
/// Standard deviation of initial weights.
const DEVIATION: f32 = 0.02;

/// Sizes, regularization and seed of a [`Gpt`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GptConfig {
    /// Vocabulary size. Default: 50,257.
    pub vocabulary_size: usize,
    /// Maximum sequence length. Default: 1024.
    pub context_length: usize,
    /// Size of embeddings and activations, a multiple of `heads`. Default: 768.
    pub embedding_size: usize,
    /// Number of attention heads. Default: 12.
    pub heads: usize,
    /// Number of blocks. Default: 12.
    pub blocks: usize,
    /// Fraction of activations that are dropped in training. Default: 0.1.
    pub dropout: f64,
    /// Label smoothing in training. Default: 0.
    pub label_smoothing: f64,
    /// Random seed of the initial weights and of dropout. Default: 1.
    pub seed: u64,
}

impl Default for GptConfig {
    fn default() -> Self {
        GptPreset::Gpt2.config()
    }
}

/// Known sizes of GPT-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GptPreset {
    /// 6 blocks of 6 heads, width 384, context 256, dropout 0.2: for small texts, on CPUs.
    Nano,
    /// GPT-2 small: 12 blocks of 12 heads, width 768, context 1024.
    Gpt2,
}

impl GptPreset {
    /// Returns the configuration of the preset, with the vocabulary size of GPT-2.
    #[must_use]
    pub const fn config(self) -> GptConfig {
        let (embedding_size, heads, blocks, context_length, dropout) = match self {
            Self::Nano => (384, 6, 6, 256, 0.2),
            Self::Gpt2 => (768, 12, 12, 1024, 0.1),
        };
        GptConfig {
            vocabulary_size: 50_257,
            context_length,
            embedding_size,
            heads,
            blocks,
            dropout,
            label_smoothing: 0.0,
            seed: 1,
        }
    }
}

impl FromStr for GptPreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nano" => Ok(Self::Nano),
            "gpt2" => Ok(Self::Gpt2),
            _ => Err(format!("`{text}` is no preset; use `nano` or `gpt2`")),
        }
    }
}

impl fmt::Display for GptPreset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nano => "nano",
            Self::Gpt2 => "gpt2",
        })
    }
}

impl GptConfig {
    /// Creates the network with seeded initial weights on `device`.
    ///
    /// # Panics
    /// If the embedding size is not a multiple of the number of heads, or a fraction is not from 0
    /// to below 1.
    #[must_use]
    pub fn init(&self, device: &Device) -> Gpt {
        let (width, heads) = (self.embedding_size, self.heads);
        assert_eq!(width % heads, 0, "{heads} heads cannot share an embedding size of {width}");
        assert!((0.0..1.0).contains(&self.label_smoothing), "label smoothing is from 0 to below 1");
        let mut initializer = LayerInitializer::new(self.seed, device);
        // A uniform distribution has the deviation `bound / √3`.
        let bound = DEVIATION * 3.0_f32.sqrt();
        let mut table = |rows: usize| Table { weight: initializer.embedding(rows, width, bound).weight };
        let (wte, wpe) = (table(self.vocabulary_size), table(self.context_length));
        let mut layers = 0;
        let mut dropout = || {
            layers += 1;
            Dropout::new(self.dropout, mix64(self.seed).wrapping_add(layers))
        };
        let embedding_dropout = dropout();
        let blocks = (0..self.blocks).map(|_| GptBlock::new(&mut initializer, self, &mut dropout, device));
        Gpt {
            wte,
            wpe,
            embedding_dropout,
            h: blocks.collect(),
            ln_f: LayerNorm::new(width, NORM_EPSILON, device),
            label_smoothing: self.label_smoothing,
        }
    }
}

/// A GPT-2 language model; see the module documentation.
#[derive(Module, Debug)]
pub struct Gpt {
    wte: Table,
    wpe: Table,
    embedding_dropout: Dropout,
    h: Vec<GptBlock>,
    ln_f: LayerNorm,
    label_smoothing: f64,
}

/// Embeddings with a dense gradient, since those of tokens are weights of the output layer as well.
#[derive(Module, Debug)]
struct Table {
    weight: Param<Tensor<2>>,
}

impl Gpt {
    /// Logits of the next token, `[batch, sequence, vocabulary]`.
    ///
    /// # Panics
    /// If the sequences are longer than the context.
    #[must_use]
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let ([examples, positions], device) = (tokens.dims(), tokens.device());
        let keys = if self.embedding_dropout.is_active() { example_keys(&tokens) } else { Vec::new() };
        let table = self.wte.weight.val();
        let [vocabulary, width] = table.dims();
        let indices = Tensor::<1, Int>::arange(0..positions.cast_signed() as i64, &device).reshape([1, positions]);
        let embedded = burn::tensor::module::embedding(table.clone(), tokens)
            + burn::tensor::module::embedding(self.wpe.weight.val(), indices);
        let mut signal = self.embedding_dropout.forward(embedded, &keys);
        for block in &self.h {
            signal = block.forward(signal, &keys);
        }
        let signal = self.ln_f.forward(signal).reshape([examples * positions, width]);
        signal.matmul(table.transpose()).reshape([examples, positions, vocabulary])
    }
}

/// Hash of the tokens of each example.
fn example_keys(tokens: &Tensor<2, Int>) -> Vec<u64> {
    let [_, positions] = tokens.dims();
    let numbers: Vec<u64> = tokens.to_data().iter::<i64>().map(i64::cast_unsigned).collect();
    let hash = |row: &[u64]| row.iter().fold(0, |hash, token| mix64(hash ^ token.wrapping_add(1)));
    numbers.chunks(positions.max(1)).map(hash).collect()
}

impl NeuralNet for Gpt {
    type Batch = TextBatch;

    fn loss(&self, batch: &TextBatch) -> Tensor<1> {
        let (logits, next) = batch::flatten_positions(self.forward(batch.tokens.clone()), batch.targets.clone());
        layers::cross_entropy(logits, next, self.label_smoothing as f32)
    }

    fn evaluate(&self, batch: &TextBatch) -> EvalMetrics {
        let (logits, next) = batch::flatten_positions(self.forward(batch.tokens.clone()), batch.targets.clone());
        batch::evaluate(logits, next)
    }
}

/// Self-attention and a feed-forward layer, both after a normalization and with skip connections.
#[derive(Module, Debug)]
struct GptBlock {
    ln_1: LayerNorm,
    attn: GptAttention,
    ln_2: LayerNorm,
    mlp: GptMlp,
}

#[derive(Module, Debug)]
struct GptAttention {
    /// Queries, keys and values in one projection.
    c_attn: Linear,
    c_proj: Linear,
    dropout: Dropout,
    heads: usize,
}

#[derive(Module, Debug)]
struct GptMlp {
    c_fc: Linear,
    c_proj: Linear,
    dropout: Dropout,
}

impl GptBlock {
    fn new(
        initializer: &mut LayerInitializer<'_>,
        config: &GptConfig,
        mut dropout: impl FnMut() -> Dropout,
        device: &Device,
    ) -> Self {
        let width = config.embedding_size;
        // The sum of all skip connections keeps the scale of one block.
        let share = 1.0 / (2.0 * config.blocks as f32).sqrt();
        let mut linear = |inputs: usize, outputs: usize, factor: f32| {
            initializer.linear(inputs, outputs, DEVIATION * (inputs as f32).sqrt() * factor)
        };
        Self {
            ln_1: LayerNorm::new(width, NORM_EPSILON, device),
            attn: GptAttention {
                c_attn: linear(width, 3 * width, 1.0),
                c_proj: linear(width, width, share),
                dropout: dropout(),
                heads: config.heads,
            },
            ln_2: LayerNorm::new(width, NORM_EPSILON, device),
            mlp: GptMlp {
                c_fc: linear(width, 4 * width, 1.0),
                c_proj: linear(4 * width, width, share),
                dropout: dropout(),
            },
        }
    }

    fn forward(&self, signal: Tensor<3>, keys: &[u64]) -> Tensor<3> {
        let attended = causal_attention(self.attn.c_attn.forward(self.ln_1.forward(signal.clone())), self.attn.heads);
        let signal = signal + self.attn.dropout.forward(self.attn.c_proj.forward(attended), keys);
        let hidden = gelu(self.mlp.c_fc.forward(self.ln_2.forward(signal.clone())), GeluForm::Tanh);
        signal + self.mlp.dropout.forward(self.mlp.c_proj.forward(hidden), keys)
    }
}
