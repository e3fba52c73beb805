//! Optimizers of Burn, which work on tensors.
//!
//! A piece becomes a tensor of one dimension and back. That costs copies that our own rules do without, and is there so that whatever a program uses already goes on to work.

use super::Saved;
use burn::optim::{DynOptimizer, DynState, StateSink, StateSource};
use burn::tensor::{DType, Device, Tensor, TensorData};
use std::sync::Arc;

/// An optimizer of Burn.
#[derive(Clone)]
pub(super) struct Foreign {
    rule: Arc<dyn DynOptimizer>,
    name: &'static str,
}

/// What it remembers of a piece.
#[derive(Clone, Default)]
pub(super) struct Memory(Option<DynState>);

const PREFIX: &str = "piece";
/// Their steps need a whole tensor.
const BY_TENSOR: [&str; 4] = ["::Lamb", "::Adafactor", "::AdaFactor", "::Muon"];

impl Foreign {
    pub(super) fn new<O: burn::optim::Optimizer>(rule: O) -> Self {
        Self { rule: Arc::new(rule), name: std::any::type_name::<O>() }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_by_number(&self) -> bool {
        !BY_TENSOR.iter().any(|name| self.name.ends_with(name))
    }

    pub(super) fn update(&self, rate: f64, values: &mut [f32], gradient: &[f32], memory: &mut Memory) {
        let device = Device::flex();
        let tensor = |numbers: &[f32]| {
            Tensor::<1>::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), (&device, DType::F32))
        };
        let (tensor, gradient) = (tensor(values), tensor(gradient));
        let (updated, state) =
            self.rule.step_dyn(1, rate, tensor.into_bridge(), gradient.into_bridge(), memory.0.take());
        memory.0 = state;
        let updated = Tensor::<1>::from_bridge(updated).into_data();
        values.copy_from_slice(updated.as_slice().expect("what was given as f32 comes back as f32"));
    }

    pub(super) fn save(&self, memory: &Memory) -> Result<Vec<Saved>, String> {
        let Some(state) = &memory.0 else { return Ok(Vec::new()) };
        let mut sink = StateSink::default();
        self.rule.state_flatten(PREFIX, state, &mut sink);
        let tensors = sink.tensors.into_iter().map(|(name, data)| {
            let shape = data.shape().to_vec();
            let numbers = data.convert::<f32>().try_into_vec::<f32>().map_err(|error| format!("{error:?}"))?;
            Ok((name, shape, numbers))
        });
        let scalars = sink.scalars.into_iter().map(|(name, value)| {
            let number = u64::try_from(value).map_err(|_| format!("{} keeps {name}, which is no count", self.name))?;
            // Exact for counts up to 2^48.
            Ok((name, Vec::new(), vec![(number >> 24) as f32, (number & 0xff_ffff) as f32]))
        });
        tensors.chain(scalars).collect()
    }

    pub(super) fn load(&self, saved: Vec<Saved>, memory: &mut Memory) -> Result<(), String> {
        if saved.is_empty() {
            memory.0 = None;
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
        memory.0 = self.rule.state_unflatten(1, PREFIX, &mut source, &Device::flex());
        if memory.0.is_none() { Err(format!("{} cannot go on from what was saved", self.name)) } else { Ok(()) }
    }
}
