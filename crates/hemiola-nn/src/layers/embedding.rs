//! Embedding whose gradient can be taken as rows.

use super::structured_gradients::StructuredGradientOps;
use super::{dense_flag, wants_structured};
use burn::backend::Dispatch;
use burn::module::{Flag, Initializer, Module, Param};
use burn::nn;
use burn::tensor::{DType, Device, Int, Tensor};
use hemiola_sync::row_key::{KEY_BASE, KEY_LEN};

/// Configuration of an [`Embedding`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `init`"]
pub struct EmbeddingConfig {
    inner: nn::EmbeddingConfig,
}

impl EmbeddingConfig {
    /// Sets the number of rows and the embedding size.
    pub fn new(rows: usize, width: usize) -> Self {
        Self { inner: nn::EmbeddingConfig::new(rows, width) }
    }

    /// Sets the initializer of the rows.
    pub fn with_initializer(mut self, initializer: Initializer) -> Self {
        self.inner = self.inner.with_initializer(initializer);
        self
    }

    /// Creates the layer on `device`.
    #[must_use]
    pub fn init(&self, device: &Device) -> Embedding {
        Embedding { rows: dense_flag(), weight: self.inner.init(device).weight }
    }
}

/// Embedding lookup with the results of Burn's [`nn::Embedding`].
#[derive(Module, Debug)]
pub struct Embedding {
    rows: Param<Flag>,
    /// Embedding matrix of shape `[rows, width]`.
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// Looks up the rows with these indices: `[batch, sequence]` to `[batch, sequence, width]`.
    #[must_use]
    pub fn forward(&self, rows: Tensor<2, Int>) -> Tensor<3> {
        let weight = self.weight.val();
        if !wants_structured(&self.rows) {
            return burn::tensor::module::embedding(weight, rows);
        }
        let ([examples, positions], width) = (rows.dims(), weight.dims()[1]);
        let count = examples * positions;
        let flat: Tensor<1, Int> = rows.reshape([count]);
        let half = i64::try_from(KEY_BASE).unwrap_or(i64::MAX);
        let high = flat.clone().div_scalar(half);
        let low = flat.clone() - high.clone().mul_scalar(half);
        let keys = Tensor::stack::<2>(vec![high, low], 1).float().cast(DType::F32).reshape([count, KEY_LEN]).detach();
        let found = Dispatch::lookup_rows(weight.into_dispatch(), flat.into_dispatch(), keys.into_dispatch());
        Tensor::<2>::from_dispatch(found).reshape([examples, positions, width])
    }
}
