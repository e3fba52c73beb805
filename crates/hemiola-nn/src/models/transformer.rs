//! Transformer language model (Vaswani et al. 2017): predicts the next token from the tokens before
//! it. Normalization comes before `head_size` part of a block (Radford et al. 2019).

use super::batch::{self, EvalMetrics, NeuralNet, TextBatch};
use super::initializer::{LINEAR_GAIN, LayerInitializer, RELU_GAIN};
use crate::layers::{Embedding, GeluForm, LayerNorm, Linear, causal_attention, gelu};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// Sizes and seed of a [`Transformer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerConfig {
    /// Vocabulary size. Default: 10,000, of the Penn Treebank.
    pub vocabulary_size: usize,
    /// Maximum sequence length. Default: 64.
    pub context_length: usize,
    /// Size of embeddings and activations, a multiple of `heads`. Default: 128.
    pub embedding_size: usize,
    /// Number of attention heads. Default: 4.
    pub heads: usize,
    /// Number of blocks. Default: 2.
    pub blocks: usize,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self { vocabulary_size: 10_000, context_length: 64, embedding_size: 128, heads: 4, blocks: 2, seed: 1 }
    }
}

impl TransformerConfig {
    /// Creates the network with seeded initial weights on `device`.
    ///
    /// # Panics
    /// If the embedding size is not a multiple of the number of heads.
    #[must_use]
    pub fn init(&self, device: &Device) -> Transformer {
        assert_eq!(
            self.embedding_size % self.heads,
            0,
            "{} heads cannot share an embedding size of {}",
            self.heads,
            self.embedding_size
        );
        let mut initializer = LayerInitializer::new(self.seed, device);
        let norm = || LayerNorm::new(self.embedding_size, 1e-5, device);
        Transformer {
            token_embedding: initializer.embedding(self.vocabulary_size, self.embedding_size, 0.05),
            position_embedding: initializer.embedding(self.context_length, self.embedding_size, 0.05),
            blocks: (0..self.blocks).map(|_| TransformerBlock::new(&mut initializer, self, norm)).collect(),
            norm: norm(),
            output: initializer.linear(self.embedding_size, self.vocabulary_size, LINEAR_GAIN),
        }
    }
}

/// A transformer language model; see the module documentation.
#[derive(Module, Debug)]
pub struct Transformer {
    token_embedding: Embedding,
    position_embedding: Embedding,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    output: Linear,
}

impl Transformer {
    /// Logits of the next token, `[batch, sequence, vocabulary]`.
    #[must_use]
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let ([_, positions], device) = (tokens.dims(), tokens.device());
        let indices = Tensor::<1, Int>::arange(0..positions.cast_signed() as i64, &device).reshape([1, positions]);
        let mut signal = self.token_embedding.forward(tokens) + self.position_embedding.forward(indices);
        for block in &self.blocks {
            signal = block.forward(signal);
        }
        self.output.forward(self.norm.forward(signal))
    }
}

impl NeuralNet for Transformer {
    type Batch = TextBatch;

    fn loss(&self, batch: &TextBatch) -> Tensor<1> {
        let (logits, next) = batch::flatten_positions(self.forward(batch.tokens.clone()), batch.targets.clone());
        batch::cross_entropy(logits, next)
    }

    fn evaluate(&self, batch: &TextBatch) -> EvalMetrics {
        let (logits, next) = batch::flatten_positions(self.forward(batch.tokens.clone()), batch.targets.clone());
        batch::evaluate(logits, next)
    }
}

/// Self-attention and a feed-forward layer, both with skip connections.
#[derive(Module, Debug)]
struct TransformerBlock {
    attention_norm: LayerNorm,
    /// Queries, keys and values in one projection.
    qkv: Linear,
    attention_output: Linear,
    mlp_norm: LayerNorm,
    mlp_hidden: Linear,
    mlp_output: Linear,
    heads: usize,
}

impl TransformerBlock {
    fn new(initializer: &mut LayerInitializer<'_>, config: &TransformerConfig, norm: impl Fn() -> LayerNorm) -> Self {
        let width = config.embedding_size;
        // Keeps the sum of all skip connections at about the scale of one block.
        let share = LINEAR_GAIN / (2.0 * config.blocks as f32).sqrt();
        Self {
            attention_norm: norm(),
            qkv: initializer.linear(width, 3 * width, LINEAR_GAIN),
            attention_output: initializer.linear(width, width, share),
            mlp_norm: norm(),
            mlp_hidden: initializer.linear(width, 4 * width, RELU_GAIN),
            mlp_output: initializer.linear(4 * width, width, share),
            heads: config.heads,
        }
    }

    fn forward(&self, signal: Tensor<3>) -> Tensor<3> {
        let qkv = self.qkv.forward(self.attention_norm.forward(signal.clone()));
        let signal = signal + self.attention_output.forward(causal_attention(qkv, self.heads));
        let hidden = self.mlp_hidden.forward(self.mlp_norm.forward(signal.clone()));
        signal + self.mlp_output.forward(gelu(hidden, GeluForm::Exact))
    }
}
