//! The variables of a Burn module: found by a visitor, replaced by a mapper.
//!
//! **Invariant:** both see trainable parameters in the same order, that of the fields of the module; a variable's *place* is its number in it. A parameter that needs no gradient (a running mean, a frozen layer) is none.

use crate::error::Error;
use crate::hook::{Chain, Sink};
use crate::layers::{self, FACTORS, ROWS};
use crate::slots::Slots;
use crate::trace::{Line, Trace};
use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor, TensorData};
use hemiola_strategy::{Gradient, Model, Variable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a layer can tell of its weights' gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Nothing: it is a matrix.
    Whole,
    /// It is made of factors.
    Factors,
    /// It is made of rows.
    Rows,
}

/// A variable as it was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) parts: Parts,
    /// What passes compute with. Values, sums and updates are single precision whatever it is.
    pub(crate) precision: DType,
    pub(crate) values: Vec<f32>,
}

/// All variables of a module.
pub(crate) fn find<M: Module>(module: &M) -> Result<Vec<Found>, Error> {
    let mut finder = Finder::default();
    module.visit(&mut finder);
    if let Some((variable, problem)) = finder.problem {
        return Err(Error::Variable { variable, problem });
    }
    if finder.found.is_empty() {
        let problem = "the model has no parameter that needs a gradient".to_owned();
        return Err(Error::Variable { variable: "(none)".to_owned(), problem });
    }
    Ok(finder.found)
}

/// The variables as a strategy sees them; `examples` and `positions` are those of one peer's batch.
pub(crate) fn describe(found: &[Found], examples: u64, positions: u64) -> Result<Model, Error> {
    let variables = found.iter().map(|Found { name, shape, parts, .. }| {
        let gradient = match parts {
            Parts::Whole => Gradient::Dense,
            Parts::Factors => Gradient::Product { pairs: examples * positions },
            Parts::Rows => Gradient::Rows { touched: (examples * positions).min(shape[0] as u64) },
        };
        Variable { name: name.clone(), shape: shape.clone(), gradient }
    });
    Ok(Model::new(variables.collect())?)
}

#[derive(Default)]
struct Finder {
    path: Vec<String>,
    /// Layers that can tell more of their weights, by path.
    layers: BTreeMap<String, Parts>,
    found: Vec<Found>,
    problem: Option<(String, String)>,
}

impl ModuleVisitor for Finder {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_flag(&mut self, _flag: &Param<Flag>) {
        if let Some((last, layer)) = self.path.split_last() {
            let parts = match last.as_str() {
                FACTORS => Parts::Factors,
                ROWS => Parts::Rows,
                _ => return,
            };
            self.layers.insert(layer.join("."), parts);
        }
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        if !value.is_require_grad() {
            return;
        }
        let name = self.path.join(".");
        let layer = self.path.split_last().map_or(String::new(), |(_, layer)| layer.join("."));
        let is_weight = self.path.last().is_some_and(|last| last == "weight");
        let parts = if is_weight { self.layers.get(&layer).copied() } else { None }.unwrap_or(Parts::Whole);
        let data = value.inner().into_data();
        let shape = data.shape().to_vec();
        let precision = data.dtype();
        if !matches!(precision, DType::F32 | DType::BF16 | DType::F16) {
            let problem = format!("its numbers are {precision:?}, and nets are trained with F32, BF16 or F16");
            self.problem.get_or_insert((name, problem));
            return;
        }
        match singles(data) {
            Ok(values) => self.found.push(Found { name, shape, parts, precision, values }),
            Err(problem) => drop(self.problem.get_or_insert((name, problem))),
        }
    }
}

/// Numbers in single precision.
pub(crate) fn singles(data: TensorData) -> Result<Vec<f32>, String> {
    let data = if data.dtype() == DType::F32 { data } else { data.convert::<f32>() };
    data.try_into_vec::<f32>().map_err(|error| format!("{error:?}"))
}

/// What the copy of a model for one pass is made of.
pub(crate) struct Pass<'a> {
    /// The name of each variable, by place.
    pub(crate) names: &'a [String],
    /// What it is computed with.
    pub(crate) precisions: &'a [DType],
    /// Whether its gradient is taken in parts.
    pub(crate) in_parts: &'a [bool],
    /// How many updates its values must have in them.
    pub(crate) versions: &'a [u64],
    /// Where values come from.
    pub(crate) slots: &'a Arc<Slots>,
    /// Whether values may be asked for once more.
    pub(crate) keeps: &'a [bool],
    /// Where gradients go; nowhere if there is no backward pass.
    pub(crate) sink: Option<Sink>,
    pub(crate) trace: Option<&'a Arc<Trace>>,
}

impl Pass<'_> {
    /// The module with each variable's value looked for when it is first used: a forward pass waits for the variables of its first layers while those of later ones are still on their way.
    pub(crate) fn renew<M: Module>(&self, module: M) -> M {
        module.map(&mut Renewer { pass: self, path: Vec::new(), next: 0, chain: Chain::default() })
    }
}

struct Renewer<'a, 'p> {
    pass: &'a Pass<'p>,
    path: Vec<String>,
    next: usize,
    chain: Chain,
}

impl ModuleMapper for Renewer<'_, '_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        let Some((last, layer)) = self.path.split_last() else { return flag };
        if last != FACTORS && last != ROWS {
            return flag;
        }
        // The flag comes before the weights, which are the next variable if they are one at all.
        let weights = format!("{}.weight", layer.join("."));
        let weights = weights.trim_start_matches('.');
        let is_next = self.pass.names.get(self.next).is_some_and(|name| name == weights);
        let parts = self.pass.sink.is_some() && is_next && self.pass.in_parts[self.next];
        layers::asking(flag, parts)
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let place = self.next;
        if self.pass.names.get(place) != Some(&self.path.join(".")) {
            return param;
        }
        self.next += 1;
        let (slots, sink, again) = (self.pass.slots.clone(), self.pass.sink.clone(), self.pass.keeps[place]);
        let trace = self.pass.trace.map(|trace| (trace.clone(), self.pass.names[place].clone()));
        let (version, precision, chain) = (self.pass.versions[place], self.pass.precisions[place], self.chain.clone());
        let (device, shape) = (param.lazy_device(), param.lazy_shape());
        let value = {
            let shape = shape.clone();
            move |device: &burn::tensor::Device, _: bool| {
                let start = trace.as_ref().map_or(0.0, |(trace, _)| trace.now());
                let values = slots.wait(place, version, again);
                if let Some((trace, name)) = trace {
                    trace.ended(name, Line::Wait, start);
                }
                let tensor = Tensor::<D>::from_data(TensorData::new(values, shape), (device, precision));
                match &sink {
                    Some(sink) => chain.hook(tensor.require_grad(), place, sink),
                    None => tensor,
                }
            }
        };
        Param::uninitialized(param.id, value, device, true, shape)
    }
}
