//! Number of parameters of a net, estimated before memory is taken for it.
//!
//! A failed allocation ends the process without a message, so flags and vocabularies that ask for
//! more memory than there is are refused first. The estimate counts matrices and leaves out what
//! is small beside them.

use hemiola_models::memory::ensure_available;
use hemiola_nn::models::{CnnConfig, GptConfig, LstmConfig, MlpConfig, NcfConfig, ResnetConfig, TransformerConfig};

/// Bytes per parameter: weight, gradient and two moments of the optimizer, in single precision.
const BYTES_PER_PARAMETER: u128 = 16;

/// Configuration of a net whose size can be estimated.
pub(super) trait NetSize {
    /// Returns the approximate number of parameters.
    fn parameters(&self) -> u128;

    /// Returns an error if this machine has less memory than training needs.
    fn check_memory(&self) -> Result<(), hemiola_models::Error> {
        let parameters = self.parameters();
        ensure_available(parameters * BYTES_PER_PARAMETER, || format!("a net of {parameters} parameters"))
    }
}

/// Number of weights between layers of these sizes.
fn dense(sizes: &[usize]) -> u128 {
    sizes.windows(2).map(|pair| pair[0] as u128 * pair[1] as u128).sum()
}

impl NetSize for MlpConfig {
    fn parameters(&self) -> u128 {
        dense(&[&[self.inputs], &self.hidden[..], &[self.classes]].concat())
    }
}

impl NetSize for CnnConfig {
    fn parameters(&self) -> u128 {
        let [_, height, width] = self.image_shape;
        let [first, second] = self.channels;
        // Two convolutions of 3 x 3, each with pooling to half the size.
        9 * dense(&[self.image_shape[0], first, second])
            + dense(&[second * (height / 4) * (width / 4), self.hidden, self.classes])
    }
}

impl NetSize for ResnetConfig {
    /// Flags of residual networks are too small to matter.
    fn parameters(&self) -> u128 {
        0
    }
}

impl NetSize for LstmConfig {
    fn parameters(&self) -> u128 {
        let Self { vocabulary_size, embedding_size, hidden_size, layers, .. } = *self;
        let cell = 4 * dense(&[embedding_size.max(hidden_size) + hidden_size, hidden_size]);
        dense(&[vocabulary_size, embedding_size]) + dense(&[hidden_size, vocabulary_size]) + layers as u128 * cell
    }
}

impl NetSize for TransformerConfig {
    fn parameters(&self) -> u128 {
        let Self { vocabulary_size, context_length, embedding_size, blocks, .. } = *self;
        let embeddings = dense(&[2 * vocabulary_size + context_length, embedding_size]);
        embeddings + 12 * blocks as u128 * dense(&[embedding_size, embedding_size])
    }
}

impl NetSize for GptConfig {
    fn parameters(&self) -> u128 {
        let Self { vocabulary_size, context_length, embedding_size, blocks, .. } = *self;
        let embeddings = dense(&[vocabulary_size + context_length, embedding_size]);
        embeddings + 12 * blocks as u128 * dense(&[embedding_size, embedding_size])
    }
}

impl NetSize for NcfConfig {
    fn parameters(&self) -> u128 {
        let embeddings = dense(&[2 * (self.users + self.items), self.embedding_size]);
        embeddings + dense(&[&[2 * self.embedding_size], &self.hidden[..], &[1]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_layers_are_refused() {
        let small = MlpConfig::default();
        assert!(small.check_memory().is_ok());
        let huge = MlpConfig { hidden: vec![10_000_000, 10_000_000], ..small };
        let told = huge.check_memory().unwrap_err().to_string();
        assert!(told.starts_with("a net of 1000"), "{told}");
        let wordy = LstmConfig { vocabulary_size: 3_000_000_000, ..LstmConfig::default() };
        assert!(wordy.check_memory().is_err());
    }
}
