//! An embedding whose gradient can be had as rows.

use super::taken::TakenOps;
use super::{HALF, KEY, is_asked, unasked};
use burn::backend::Dispatch;
use burn::module::{Flag, Initializer, Module, Param};
use burn::nn;
use burn::tensor::{DType, Device, Int, Tensor};

/// Settings of an [`Embedding`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `init`"]
pub struct EmbeddingConfig {
    inner: nn::EmbeddingConfig,
}

impl EmbeddingConfig {
    /// So many rows of so many numbers.
    pub fn new(rows: usize, width: usize) -> Self {
        Self { inner: nn::EmbeddingConfig::new(rows, width) }
    }

    /// What the rows are in the beginning.
    pub fn with_initializer(mut self, initializer: Initializer) -> Self {
        self.inner = self.inner.with_initializer(initializer);
        self
    }

    /// The layer.
    #[must_use]
    pub fn init(&self, device: &Device) -> Embedding {
        Embedding { rows: unasked(), weight: self.inner.init(device).weight }
    }
}

/// Looks rows up, as Burn's [`nn::Embedding`].
#[derive(Module, Debug)]
pub struct Embedding {
    rows: Param<Flag>,
    /// Row by row.
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// The rows of these numbers, in their order.
    #[must_use]
    pub fn forward(&self, rows: Tensor<2, Int>) -> Tensor<3> {
        let weight = self.weight.val();
        if !is_asked(&self.rows) {
            return burn::tensor::module::embedding(weight, rows);
        }
        let ([examples, positions], width) = (rows.dims(), weight.dims()[1]);
        let count = examples * positions;
        let flat: Tensor<1, Int> = rows.reshape([count]);
        let half = i64::try_from(HALF).unwrap_or(i64::MAX);
        let high = flat.clone().div_scalar(half);
        let low = flat.clone() - high.clone().mul_scalar(half);
        let keys = Tensor::stack::<2>(vec![high, low], 1).float().cast(DType::F32).reshape([count, KEY]).detach();
        let found = Dispatch::looked_up(weight.into_dispatch(), flat.into_dispatch(), keys.into_dispatch());
        Tensor::<2>::from_dispatch(found).reshape([examples, positions, width])
    }
}
