//! Variables of a Burn module: collected by a visitor, replaced by a mapper.
//!
//! **Invariant:** the visitor and the mapper meet trainable parameters in the same order, that of
//! the fields of the module. The index of a variable is its position in that order. A parameter
//! without a gradient (a running mean, a frozen layer) is not a variable.

use crate::error::Error;
use crate::hook::{GradientSink, HookChain};
use crate::layers::{self, DROPOUT_FLAG, FACTORS_FLAG, ROWS_FLAG, STEP_FLAG};
use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor, TensorData};
use hemiola_strategy::{GradientKind, ModelSpec, VariableSpec};
use hemiola_sync::{PendingValues, VariableId};
use std::collections::BTreeMap;

/// Form in which a layer gives the gradient of its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GradientForm {
    /// A dense tensor of the shape of the weights.
    Dense,
    /// Sufficient factors: inputs and output gradients.
    Factors,
    /// Rows of an embedding that were looked up.
    Rows,
}

/// Name, shape, gradient form and initial values of a variable.
#[derive(Debug)]
pub(crate) struct VariableInfo {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) gradient_form: GradientForm,
    /// Data type of forward and backward passes. Values, sums and updates are always `f32`.
    pub(crate) precision: DType,
    pub(crate) values: Vec<f32>,
}

/// Collects all variables of a module, in the order of its fields.
pub(crate) fn find<M: Module>(module: &M) -> Result<Vec<VariableInfo>, Error> {
    let mut collector = VariableCollector::default();
    module.visit(&mut collector);
    if let Some((variable, problem)) = collector.problem {
        return Err(Error::Variable { variable, problem });
    }
    if collector.found.is_empty() {
        let problem = "it has no parameter that needs a gradient; unfreeze a layer".to_owned();
        return Err(Error::Variable { variable: "the model".to_owned(), problem });
    }
    Ok(collector.found)
}

/// Describes variables for a strategy. `examples` (batch size) and `positions` (sequence length)
/// are those of one peer; they give the number of factors and of touched rows.
pub(crate) fn describe(found: &[VariableInfo], examples: u64, positions: u64) -> Result<ModelSpec, Error> {
    let variables = found.iter().map(|VariableInfo { name, shape, gradient_form, .. }| {
        let gradient = match gradient_form {
            GradientForm::Dense => GradientKind::Dense,
            GradientForm::Factors => GradientKind::Product { pairs: examples * positions },
            GradientForm::Rows => GradientKind::Rows { touched: (examples * positions).min(shape[0] as u64) },
        };
        VariableSpec { name: name.clone(), shape: shape.clone(), gradient }
    });
    Ok(ModelSpec::new(variables.collect())?)
}

#[derive(Default)]
struct VariableCollector {
    path: Vec<String>,
    /// Gradient form of layers that give more than a dense gradient, by path.
    layers: BTreeMap<String, GradientForm>,
    found: Vec<VariableInfo>,
    problem: Option<(String, String)>,
}

impl ModuleVisitor for VariableCollector {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_flag(&mut self, _flag: &Param<Flag>) {
        if let Some((last, layer)) = self.path.split_last() {
            let gradient_form = match last.as_str() {
                FACTORS_FLAG => GradientForm::Factors,
                ROWS_FLAG => GradientForm::Rows,
                _ => return,
            };
            self.layers.insert(layer.join("."), gradient_form);
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
        let gradient_form =
            if is_weight { self.layers.get(&layer).copied() } else { None }.unwrap_or(GradientForm::Dense);
        let data = value.inner().into_data();
        let shape = data.shape().to_vec();
        let precision = data.dtype();
        if !matches!(precision, DType::F32 | DType::BF16 | DType::F16) {
            let problem = format!("its data type is `{precision:?}`; use F32, BF16 or F16");
            self.problem.get_or_insert((name, problem));
            return;
        }
        match to_f32(data) {
            Ok(values) => self.found.push(VariableInfo { name, shape, gradient_form, precision, values }),
            Err(problem) => drop(self.problem.get_or_insert((name, problem))),
        }
    }
}

/// Converts tensor data to `f32`.
pub(crate) fn to_f32(data: TensorData) -> Result<Vec<f32>, String> {
    let data = if data.dtype() == DType::F32 { data } else { data.convert::<f32>() };
    data.try_into_vec::<f32>().map_err(|error| format!("{error:?}"))
}

/// Bindings of a model for one pass: one entry per variable in each slice.
pub(crate) struct PassContext<'a> {
    pub(crate) names: &'a [String],
    /// Data type of the pass.
    pub(crate) precisions: &'a [DType],
    /// Tells which gradients are taken in structured form (factors or rows).
    pub(crate) structured: &'a [bool],
    /// Values, which may still be on their way.
    pub(crate) values: &'a [PendingValues],
    /// Step of training, which the masks of dropout depend on.
    pub(crate) step: u64,
    /// Receiver of gradients; `None` without a backward pass.
    pub(crate) sink: Option<GradientSink>,
}

impl PassContext<'_> {
    /// Binds every variable to a value that is fetched when the variable is first used. A forward
    /// pass waits for the variables of its first layers while those of later layers are still in
    /// flight.
    pub(crate) fn bind_model<M: Module>(&self, module: M) -> M {
        module.map(&mut ParameterBinder { pass: self, path: Vec::new(), next: 0, chain: HookChain::default() })
    }
}

struct ParameterBinder<'a, 'p> {
    pass: &'a PassContext<'p>,
    path: Vec<String>,
    next: usize,
    chain: HookChain,
}

impl ModuleMapper for ParameterBinder<'_, '_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        let Some((last, layer)) = self.path.split_last() else { return flag };
        if last == DROPOUT_FLAG || last == STEP_FLAG {
            return layers::request_dropout(last, &flag, self.pass.sink.as_ref().map(|_| self.pass.step));
        }
        if last != FACTORS_FLAG && last != ROWS_FLAG {
            return flag;
        }
        // The flag comes before the weights. If the weights are a variable, they are the next one.
        let weights = format!("{}.weight", layer.join("."));
        let weights = weights.trim_start_matches('.');
        let is_next = self.pass.names.get(self.next).is_some_and(|name| name == weights);
        let structured = self.pass.sink.is_some() && is_next && self.pass.structured[self.next];
        layers::request_structured(flag, structured)
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let index = self.next;
        if self.pass.names.get(index) != Some(&self.path.join(".")) {
            return param;
        }
        self.next += 1;
        let (values, sink) = (self.pass.values[index].clone(), self.pass.sink.clone());
        let (precision, chain) = (self.pass.precisions[index], self.chain.clone());
        let (device, shape) = (param.lazy_device(), param.lazy_shape());
        let value = {
            let shape = shape.clone();
            move |device: &burn::tensor::Device, _: bool| {
                let tensor = Tensor::<D>::from_data(TensorData::new(values.wait(), shape), (device, precision));
                match &sink {
                    Some(sink) => chain.hook(tensor.require_grad(), VariableId::new(index), sink),
                    None => tensor,
                }
            }
        };
        Param::uninitialized(param.id, value, device, true, shape)
    }
}
