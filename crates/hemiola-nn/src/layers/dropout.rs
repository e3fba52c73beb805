//! Dropout (Srivastava et al. 2014) whose masks are a function of seed, step and example.
//!
//! Burn draws masks from a generator that all threads of a process share, so a run would not be
//! repeatable. Here an element is dropped by a counter-based random number for the seed of the
//! layer, the step of training, the key of the example and the position of the element. Any number
//! of peers, and a resumed run, therefore drop the same elements.
//!
//! **Request.** As for [structured gradients](super), a layer learns from the identities of its
//! flags that it is in training, and in which step. Without a request, as in evaluation, it returns
//! its input.

use super::dense_flag;
use burn::module::{Flag, Module, Param, ParamId};
use burn::tensor::{Tensor, TensorData};
use hemiola_core::rng::{PhiloxRng, mix64};

/// Field name of the flag that requests dropout.
pub(crate) const DROPOUT_FLAG: &str = "dropout_requested";
/// Field name of the flag whose identity is the step.
pub(crate) const STEP_FLAG: &str = "dropout_step";
/// Identity of a flag that requests dropout.
const REQUEST_ID: u64 = 0x5b91_c0de_d209_6a47;

/// Returns a flag of a dropout layer for a pass: in training in this step, or `None` in evaluation.
pub(crate) fn request_dropout(name: &str, flag: &Param<Flag>, step: Option<u64>) -> Param<Flag> {
    let id = match step {
        Some(_) if name == DROPOUT_FLAG => ParamId::from(REQUEST_ID),
        Some(step) => ParamId::from(step),
        None => ParamId::new(),
    };
    Param::initialized(id, Flag::new(flag.is_enabled()))
}

/// Sets a fraction of the elements to zero in training, and scales the others up.
#[derive(Module, Debug)]
#[expect(clippy::struct_field_names, reason = "names of flags are unique among all layers")]
pub struct Dropout {
    dropout_requested: Param<Flag>,
    dropout_step: Param<Flag>,
    rate: f64,
    seed: u64,
}

impl Dropout {
    /// Creates a layer that drops this fraction of elements. Layers of a net have different seeds.
    ///
    /// # Panics
    /// If the fraction is not from 0 to below 1.
    #[must_use]
    pub fn new(rate: f64, seed: u64) -> Self {
        assert!((0.0..1.0).contains(&rate), "a dropout rate is from 0 to below 1, not {rate}");
        Self { dropout_requested: dense_flag(), dropout_step: dense_flag(), rate, seed }
    }

    /// Tells whether [`forward`](Self::forward) drops elements now.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.rate > 0.0 && self.dropout_requested.id.val() == REQUEST_ID
    }

    /// Applies the layer. The first dimension of `input` is the batch, and `keys` has one number for
    /// each example, such as a hash of its tokens; it may be empty if the layer is not
    /// [active](Self::is_active).
    ///
    /// # Panics
    /// If the layer is active and the number of keys is not the batch size.
    #[must_use]
    pub fn forward<const D: usize>(&self, input: Tensor<D>, keys: &[u64]) -> Tensor<D> {
        if !self.is_active() {
            return input;
        }
        let dims = input.dims();
        assert_eq!(keys.len(), dims[0], "one key for each example");
        let width = dims[1..].iter().product::<usize>();
        let generator = PhiloxRng::new(mix64(self.seed ^ mix64(self.dropout_step.id.val())));
        let kept = (1.0 / (1.0 - self.rate)) as f32;
        let mut mask = Vec::with_capacity(keys.len() * width);
        for key in keys {
            mask.extend(
                (0..width as u64).map(|at| if generator.random_bool(at, *key, self.rate) { 0.0 } else { kept }),
            );
        }
        let mask = Tensor::from_data(TensorData::new(mask, dims), (&input.device(), input.dtype()));
        input * mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn in_step(layer: &Dropout, step: Option<u64>) -> Dropout {
        Dropout {
            dropout_requested: request_dropout(DROPOUT_FLAG, &layer.dropout_requested, step),
            dropout_step: request_dropout(STEP_FLAG, &layer.dropout_step, step),
            ..layer.clone()
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "kept elements are scaled by exactly this")]
    fn masks_depend_on_seed_step_and_example_only() {
        let device = Device::flex();
        let mask = |seed, step, keys: &[u64]| {
            let layer = in_step(&Dropout::new(0.25, seed), Some(step));
            layer
                .forward(Tensor::<2>::ones([keys.len(), 1000], &device), keys)
                .into_data()
                .try_into_vec::<f32>()
                .unwrap()
        };
        let both = mask(1, 5, &[7, 8]);
        assert_eq!(mask(1, 5, &[8, 7]), [&both[1000..], &both[..1000]].concat());
        assert_eq!(mask(1, 5, &[8])[..], both[1000..]);
        for other in [mask(2, 5, &[7]), mask(1, 6, &[7]), mask(1, 5, &[9])] {
            assert_ne!(other[..], both[..1000]);
        }
        let dropped = both.iter().filter(|value| **value == 0.0).count();
        // 500 of 2000 elements are expected; 100 are five standard deviations.
        assert!((400..600).contains(&dropped), "{dropped}");
        assert!(both.iter().all(|value| *value == 0.0 || *value == 4.0 / 3.0));
    }

    #[test]
    fn evaluation_drops_nothing() {
        let layer = Dropout::new(0.5, 1);
        let input = Tensor::<2>::ones([2, 3], &Device::flex());
        assert_eq!(layer.forward(input.clone(), &[]).into_data(), input.clone().into_data());
        let after = in_step(&in_step(&layer, Some(3)), None);
        assert!(!after.is_active());
        assert_eq!(after.forward(input.clone(), &[]).into_data(), input.into_data());
    }
}
