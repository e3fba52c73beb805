//! A recurrent language model (Hochreiter and Schmidhuber 1997; Zaremba et al. 2014): which word comes next, by the words before it in a piece of text.
//!
//! Each layer is one linear layer over the word at a position and what is remembered of the positions before. It begins every piece with nothing remembered, so that pieces may be shuffled and divided over peers.

use super::batch::{self, Judged, Net, TextBatch};
use super::draw::{Draw, PLAIN};
use crate::layers::{Embedding, Linear};
use burn::module::Module;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// How large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LstmConfig {
    /// Words that there are. Default: 10,000, of the Penn Treebank.
    pub words: usize,
    /// Numbers that stand for a word. Default: 128.
    pub width: usize,
    /// Numbers that a layer remembers. Default: 128.
    pub memory: usize,
    /// Layers. Default: 1.
    pub layers: usize,
    /// What first values come from. Default: 1.
    pub seed: u64,
}

impl Default for LstmConfig {
    fn default() -> Self {
        Self { words: 10_000, width: 128, memory: 128, layers: 1, seed: 1 }
    }
}

impl LstmConfig {
    /// The net.
    #[must_use]
    pub fn init(&self, device: &Device) -> Lstm {
        let mut draw = Draw::new(self.seed, device);
        let words = draw.embedding(self.words, self.width, 0.5);
        let mut inputs = self.width;
        let mut layers = Vec::new();
        for _ in 0..self.layers {
            layers.push(Layer { gates: draw.linear(inputs + self.memory, 4 * self.memory, PLAIN) });
            inputs = self.memory;
        }
        Lstm { words, layers, output: draw.linear(inputs, self.words, PLAIN) }
    }
}

/// The net.
#[derive(Module, Debug)]
pub struct Lstm {
    words: Embedding,
    layers: Vec<Layer>,
    output: Linear,
}

impl Lstm {
    /// Scores by example, position and word that may come next.
    #[must_use]
    pub fn forward(&self, words: Tensor<2, Int>) -> Tensor<3> {
        let [_, positions] = words.dims();
        let words = self.words.forward(words);
        let mut signals: Vec<Tensor<2>> =
            (0..positions).map(|position| words.clone().narrow(1, position, 1).squeeze_dim(1)).collect();
        for layer in &self.layers {
            signals = layer.forward(signals);
        }
        self.output.forward(Tensor::stack::<3>(signals, 1))
    }
}

impl Net for Lstm {
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

/// What is let in, kept, let out, and news: four outputs for each number that is remembered.
#[derive(Module, Debug)]
struct Layer {
    gates: Linear,
}

impl Layer {
    /// Signals by position, each by example and number.
    fn forward(&self, signals: Vec<Tensor<2>>) -> Vec<Tensor<2>> {
        let memory = self.gates.weight.dims()[1] / 4;
        let mut past: Option<[Tensor<2>; 2]> = None;
        let mut told = Vec::with_capacity(signals.len());
        for signal in signals {
            let [before, kept] = past.take().unwrap_or_else(|| {
                let nothing = Tensor::zeros([signal.dims()[0], memory], &signal.device());
                [nothing.clone(), nothing]
            });
            let gates = self.gates.forward(Tensor::cat(vec![signal, before], 1));
            let gate = |number: usize| gates.clone().narrow(1, number * memory, memory);
            // In the beginning most is kept: a gate of 0 would forget half at each position.
            let kept = sigmoid(gate(1) + 1.0) * kept + sigmoid(gate(0)) * gate(3).tanh();
            let here = sigmoid(gate(2)) * kept.clone().tanh();
            told.push(here.clone());
            past = Some([here, kept]);
        }
        told
    }
}
