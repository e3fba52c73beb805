//! A small language model of attention (Vaswani et al. 2017): which word comes next, by the words before it in a piece of text. Signals are normalized before each part of a block (Radford et al. 2019).

use super::batch::{self, Judged, Net, TextBatch};
use super::draw::{Draw, PLAIN, RELU};
use crate::layers::{Embedding, Linear};
use burn::module::Module;
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::activation::{gelu, softmax};
use burn::tensor::{Bool, Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// How large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformerConfig {
    /// Words that there are. Default: 10,000, of the Penn Treebank.
    pub words: usize,
    /// The most words that a piece of text may have. Default: 64.
    pub positions: usize,
    /// Numbers that stand for a word, a multiple of `heads`. Default: 128.
    pub width: usize,
    /// Ways to look at other words. Default: 4.
    pub heads: usize,
    /// Blocks. Default: 2.
    pub blocks: usize,
    /// What first values come from. Default: 1.
    pub seed: u64,
}

impl Default for TransformerConfig {
    fn default() -> Self {
        Self { words: 10_000, positions: 64, width: 128, heads: 4, blocks: 2, seed: 1 }
    }
}

impl TransformerConfig {
    /// The net.
    ///
    /// # Panics
    /// If the width is no multiple of the heads.
    #[must_use]
    pub fn init(&self, device: &Device) -> Transformer {
        assert_eq!(self.width % self.heads, 0, "{} heads share {} numbers", self.heads, self.width);
        let mut draw = Draw::new(self.seed, device);
        let norm = || LayerNormConfig::new(self.width).init(device);
        Transformer {
            words: draw.embedding(self.words, self.width, 0.05),
            places: draw.embedding(self.positions, self.width, 0.05),
            blocks: (0..self.blocks).map(|_| Block::new(&mut draw, self, norm)).collect(),
            norm: norm(),
            output: draw.linear(self.width, self.words, PLAIN),
        }
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct Transformer {
    words: Embedding,
    places: Embedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
    output: Linear,
}

impl Transformer {
    /// Scores by example, position and word that may come next.
    #[must_use]
    pub fn forward(&self, words: Tensor<2, Int>) -> Tensor<3> {
        let ([_, positions], device) = (words.dims(), words.device());
        let places = Tensor::<1, Int>::arange(0..positions.cast_signed() as i64, &device).reshape([1, positions]);
        let mut signal = self.words.forward(words) + self.places.forward(places);
        // Nobody sees what comes after.
        let hidden = Tensor::<2, Bool>::tril_mask([positions; 2], 0, &device);
        for block in &self.blocks {
            signal = block.forward(signal, &hidden);
        }
        self.output.forward(self.norm.forward(signal))
    }
}

impl Net for Transformer {
    type Batch = TextBatch;

    fn loss(&self, batch: &TextBatch) -> Tensor<1> {
        let (scores, next) = batch::each_position(self.forward(batch.words.clone()), batch.next.clone());
        batch::cross_entropy(scores, next)
    }

    fn judge(&self, batch: &TextBatch) -> Judged {
        let (scores, next) = batch::each_position(self.forward(batch.words.clone()), batch.next.clone());
        batch::judge(scores, next)
    }
}

/// Attention, and a hidden layer at each position.
#[derive(Module, Debug)]
struct Block {
    before_attention: LayerNorm,
    /// What a position asks, what it answers to, and what it says.
    asked: Linear,
    heard: Linear,
    before_hidden: LayerNorm,
    hidden: Linear,
    added: Linear,
    heads: usize,
}

impl Block {
    fn new(draw: &mut Draw<'_>, config: &TransformerConfig, norm: impl Fn() -> LayerNorm) -> Self {
        let width = config.width;
        // So that the sum of all blocks begins no larger than one.
        let share = PLAIN / (2.0 * config.blocks as f32).sqrt();
        Self {
            before_attention: norm(),
            asked: draw.linear(width, 3 * width, PLAIN),
            heard: draw.linear(width, width, share),
            before_hidden: norm(),
            hidden: draw.linear(width, 4 * width, RELU),
            added: draw.linear(4 * width, width, share),
            heads: config.heads,
        }
    }

    fn forward(&self, signal: Tensor<3>, hidden: &Tensor<2, Bool>) -> Tensor<3> {
        let heard = self.attend(self.before_attention.forward(signal.clone()), hidden);
        let signal = signal + self.heard.forward(heard);
        let added = gelu(self.hidden.forward(self.before_hidden.forward(signal.clone())));
        signal + self.added.forward(added)
    }

    fn attend(&self, signal: Tensor<3>, hidden: &Tensor<2, Bool>) -> Tensor<3> {
        let [examples, positions, width] = signal.dims();
        let each = width / self.heads;
        let asked = self.asked.forward(signal);
        let part = |number: usize| {
            let part = asked.clone().narrow(2, number * width, width);
            part.reshape([examples, positions, self.heads, each]).swap_dims(1, 2)
        };
        let scores = part(0).matmul(part(1).swap_dims(2, 3)) / (each as f32).sqrt();
        let weights = softmax(scores.mask_fill(hidden.clone().unsqueeze::<4>(), f32::NEG_INFINITY), 3);
        weights.matmul(part(2)).swap_dims(1, 2).reshape([examples, positions, width])
    }
}
