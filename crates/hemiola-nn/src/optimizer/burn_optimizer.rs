//! Burn's optimizers, which work on tensors.
//!
//! A piece is copied into a one-dimensional tensor and back. The rules of this crate avoid these
//! copies. Burn's optimizers are supported so that programs can keep the one they use.

use super::NamedArray;
use burn::optim::{DynOptimizer, DynState, StateSink, StateSource};
use burn::tensor::{DType, Device, Tensor, TensorData};
use std::sync::Arc;

/// An optimizer of Burn, with its type name.
#[derive(Clone)]
pub(super) struct BurnOptimizer {
    rule: Arc<dyn DynOptimizer>,
    name: &'static str,
}

/// State of a Burn optimizer for one piece.
#[derive(Clone, Default)]
pub(super) struct BurnOptimizerState(Option<DynState>);

const PREFIX: &str = "piece";
/// Optimizers whose update of an element depends on the whole tensor.
const TENSOR_WISE: [&str; 4] = ["::Lamb", "::Adafactor", "::AdaFactor", "::Muon"];

impl BurnOptimizer {
    pub(super) fn new<O: burn::optim::Optimizer>(rule: O) -> Self {
        Self { rule: Arc::new(rule), name: std::any::type_name::<O>() }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_elementwise(&self) -> bool {
        !TENSOR_WISE.iter().any(|name| self.name.ends_with(name))
    }

    pub(super) fn update(&self, rate: f64, values: &mut [f32], gradient: &[f32], state: &mut BurnOptimizerState) {
        let device = Device::flex();
        let tensor = |numbers: &[f32]| {
            Tensor::<1>::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), (&device, DType::F32))
        };
        let (tensor, gradient) = (tensor(values), tensor(gradient));
        let (updated, next) = self.rule.step_dyn(1, rate, tensor.into_bridge(), gradient.into_bridge(), state.0.take());
        state.0 = next;
        let updated = Tensor::<1>::from_bridge(updated).into_data();
        values.copy_from_slice(updated.as_slice().expect("an f32 tensor stays f32"));
    }

    pub(super) fn save(&self, state: &BurnOptimizerState) -> Result<Vec<NamedArray>, String> {
        let Some(state) = &state.0 else { return Ok(Vec::new()) };
        let mut sink = StateSink::default();
        self.rule.state_flatten(PREFIX, state, &mut sink);
        let tensors = sink.tensors.into_iter().map(|(name, data)| {
            let shape = data.shape().to_vec();
            let numbers = data.convert::<f32>().try_into_vec::<f32>().map_err(|error| format!("{error:?}"))?;
            Ok((name, shape, numbers))
        });
        let scalars = sink.scalars.into_iter().map(|(name, value)| {
            let number = u64::try_from(value)
                .map_err(|_| format!("optimizer `{}` has the state `{name}`, which is not a count", self.name))?;
            // Exact for counts up to 2^48.
            Ok((name, Vec::new(), vec![(number >> 24) as f32, (number & 0xff_ffff) as f32]))
        });
        tensors.chain(scalars).collect()
    }

    pub(super) fn load(&self, saved: Vec<NamedArray>, state: &mut BurnOptimizerState) -> Result<(), String> {
        if saved.is_empty() {
            state.0 = None;
            return Ok(());
        }
        let (scalars, tensors): (Vec<_>, Vec<_>) = saved.into_iter().partition(|(_, shape, _)| shape.is_empty());
        let scalars = scalars.into_iter().map(|(name, _, numbers)| {
            let number = (numbers[0] as u64) << 24 | numbers[1] as u64;
            (name, number.into())
        });
        let mut source = StateSource::new(scalars.collect());
        for (name, shape, numbers) in tensors {
            source.insert_tensor(name, TensorData::new(numbers, shape));
        }
        state.0 = self.rule.state_unflatten(1, PREFIX, &mut source, &Device::flex());
        if state.0.is_none() { Err(format!("optimizer `{}` cannot use the saved state", self.name)) } else { Ok(()) }
    }
}
