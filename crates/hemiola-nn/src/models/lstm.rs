//! LSTM language model (Hochreiter and Schmidhuber 1997; Zaremba et al. 2014): predicts the next
//! token from the tokens before it.
//!
//! Each LSTM layer is one linear layer over the current input and the previous output. The state is
//! zero at the start of every sequence, so sequences can be shuffled and divided over peers.

use super::batch::{self, EvalMetrics, NeuralNet, TextBatch};
use super::initializer::{LINEAR_GAIN, LayerInitializer};
use crate::layers::{Embedding, Linear, lstm_sequence};
use burn::module::Module;
use burn::tensor::activation::sigmoid;
use burn::tensor::{Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// Sizes and seed of a [`Lstm`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LstmConfig {
    /// Vocabulary size. Default: 10,000, of the Penn Treebank.
    pub vocabulary_size: usize,
    /// Size of token embeddings. Default: 128.
    pub embedding_size: usize,
    /// Size of the hidden state of a layer. Default: 128.
    pub hidden_size: usize,
    /// Number of LSTM layers. Default: 1.
    pub layers: usize,
    /// Random seed of the initial weights. Default: 1.
    pub seed: u64,
}

impl Default for LstmConfig {
    fn default() -> Self {
        Self { vocabulary_size: 10_000, embedding_size: 128, hidden_size: 128, layers: 1, seed: 1 }
    }
}

impl LstmConfig {
    /// Creates the network with seeded initial weights on `device`.
    #[must_use]
    pub fn init(&self, device: &Device) -> Lstm {
        let mut initializer = LayerInitializer::new(self.seed, device);
        let token_embedding = initializer.embedding(self.vocabulary_size, self.embedding_size, 0.5);
        let mut inputs = self.embedding_size;
        let mut layers = Vec::new();
        for _ in 0..self.layers {
            layers.push(LstmLayer {
                gates: initializer.linear(inputs + self.hidden_size, 4 * self.hidden_size, LINEAR_GAIN),
            });
            inputs = self.hidden_size;
        }
        Lstm { token_embedding, layers, output: initializer.linear(inputs, self.vocabulary_size, LINEAR_GAIN) }
    }
}

/// An LSTM language model; see the module documentation.
#[derive(Module, Debug)]
pub struct Lstm {
    token_embedding: Embedding,
    layers: Vec<LstmLayer>,
    output: Linear,
}

impl Lstm {
    /// Logits of the next token, `[batch, sequence, vocabulary]`.
    #[must_use]
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let mut signal = self.token_embedding.forward(tokens);
        for layer in &self.layers {
            signal = layer.forward(&signal);
        }
        self.output.forward(signal)
    }

    /// Logits of the next token after each of `tokens`, which continue the sequence that `state` has
    /// seen. Updates `state`.
    #[must_use]
    pub fn forward_from(&self, tokens: Tensor<2, Int>, state: &mut LstmState) -> Tensor<3> {
        state.layers.resize(self.layers.len(), None);
        let mut signals = by_position(&self.token_embedding.forward(tokens));
        for (layer, state) in self.layers.iter().zip(&mut state.layers) {
            signals = layer.forward_from(signals, state);
        }
        self.output.forward(Tensor::stack::<3>(signals, 1))
    }
}

/// State of a [`Lstm`] after a part of a sequence; the default is that of an empty sequence.
#[derive(Clone, Debug, Default)]
pub struct LstmState {
    /// Output and cell of each layer, `[batch, hidden]`; `None` before the first position.
    layers: Vec<Option<[Tensor<2>; 2]>>,
}

impl NeuralNet for Lstm {
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

/// Input, forget and output gate, and cell candidate: four outputs for each element of the state.
#[derive(Module, Debug)]
struct LstmLayer {
    gates: Linear,
}

/// Divides `[batch, positions, features]` into one tensor `[batch, features]` for each position.
fn by_position(signal: &Tensor<3>) -> Vec<Tensor<2>> {
    let [_, positions, _] = signal.dims();
    (0..positions).map(|position| signal.clone().narrow(1, position, 1).squeeze_dim(1)).collect()
}

impl LstmLayer {
    /// Processes whole sequences, `[batch, positions, features]`.
    fn forward(&self, signal: &Tensor<3>) -> Tensor<3> {
        match lstm_sequence(&self.gates, signal) {
            Some(outputs) => outputs,
            None => Tensor::stack(self.forward_from(by_position(signal), &mut None), 1),
        }
    }

    /// Processes a sequence that continues another: one tensor `[batch, features]` for each position.
    /// `state` is the output and the cell of the last position.
    fn forward_from(&self, signals: Vec<Tensor<2>>, state: &mut Option<[Tensor<2>; 2]>) -> Vec<Tensor<2>> {
        let hidden_size = self.gates.weight.dims()[1] / 4;
        let mut outputs = Vec::with_capacity(signals.len());
        for signal in signals {
            let [hidden, cell] = state.take().unwrap_or_else(|| {
                let zeros = Tensor::zeros([signal.dims()[0], hidden_size], &signal.device());
                [zeros.clone(), zeros]
            });
            let gates = self.gates.forward(Tensor::cat(vec![signal, hidden], 1));
            let gate = |number: usize| gates.clone().narrow(1, number * hidden_size, hidden_size);
            // A forget bias of 1: with 0, half of the state would be lost at each position.
            let cell = sigmoid(gate(1) + 1.0) * cell + sigmoid(gate(0)) * gate(3).tanh();
            let output = sigmoid(gate(2)) * cell.clone().tanh();
            outputs.push(output.clone());
            *state = Some([output, cell]);
        }
        outputs
    }
}
