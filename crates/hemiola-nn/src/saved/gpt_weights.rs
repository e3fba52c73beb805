//! Weights of GPT-2 in a safetensors file with Hugging Face's names.
//!
//! Their linear layers (`Conv1D`) are `[inputs, outputs]`, as ours. Scale and shift of a
//! normalization are `weight` and `bias` there. The output layer (`lm_head`) is the table of token
//! embeddings and is not stored. Names may begin with `transformer.`; masks of attention
//! (`attn.bias`), which some files hold, are ignored.
//!
//! **Invariant:** a file is read only if every parameter of the net is in it, with its shape.

use crate::error::Error;
use crate::models::{Gpt, GptConfig};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::BTreeMap;
use std::path::Path;

/// Elements of a head in all published sizes of GPT-2.
const HEAD_SIZE: usize = 64;

/// Reads a file of weights. Sizes are those of the file; `config` gives the rest: dropout, label
/// smoothing, seed, and the number of heads if it divides the width, else heads have 64 elements.
pub fn read(path: &Path, config: &GptConfig, device: &Device) -> Result<(GptConfig, Gpt), Error> {
    let damaged = |problem: String| Error::Weights { path: path.to_owned(), problem };
    let bytes = std::fs::read(path).map_err(|error| damaged(error.to_string()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| damaged(error.to_string()))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.tensors() {
        tensors.insert(name.strip_prefix("transformer.").unwrap_or(&name).to_owned(), view);
    }
    let shape = |name: &str| match tensors.get(name).map(TensorView::shape) {
        Some([rows, columns]) if *rows > 0 && *columns > 0 => Ok([*rows, *columns]),
        Some(shape) => Err(damaged(format!("`{name}` has the shape {shape:?} and not two dimensions"))),
        None => Err(damaged(format!("it has no `{name}`, so it is not a GPT-2 model"))),
    };
    let ([vocabulary_size, width], [context_length, other]) = (shape("wte.weight")?, shape("wpe.weight")?);
    if width != other {
        return Err(damaged(format!("embeddings of tokens have {width} elements, those of positions {other}")));
    }
    let blocks = (0..tensors.len()).take_while(|block| tensors.contains_key(&format!("h.{block}.ln_1.weight"))).count();
    let fits = |heads: usize| heads > 0 && width.is_multiple_of(heads);
    let heads = if fits(config.heads) { config.heads } else { width / HEAD_SIZE };
    if !fits(heads) {
        return Err(damaged(format!("an embedding of {width} cannot be divided into {} heads", config.heads)));
    }
    let config = GptConfig { vocabulary_size, context_length, embedding_size: width, heads, blocks, ..config.clone() };
    // A file that lacks parameters is refused before memory is taken for the net.
    let expected = crate::saved::NetArchitecture::Gpt(config.clone()).parameters();
    let found = tensors.values().map(|view| view.shape().iter().product::<usize>() as u128).sum::<u128>();
    if found < expected {
        return Err(damaged(format!("it has {found} numbers, and a net of these sizes has {expected}")));
    }
    let mut reader = WeightReader { tensors: &tensors, device, path: Vec::new(), problem: None };
    let net = config.init(device).map(&mut reader);
    reader.problem.map_or(Ok((config, net)), |problem| Err(damaged(problem)))
}

/// Writes the weights of a net to a new file.
pub fn write(path: &Path, net: &Gpt) -> Result<(), Error> {
    let failed = |problem: String| Error::Weights { path: path.to_owned(), problem };
    let mut collector = WeightCollector::default();
    net.visit(&mut collector);
    let views: Result<Vec<_>, _> = collector
        .found
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
        .collect();
    let written = views.and_then(|views| {
        let note = [("format".to_owned(), "pt".to_owned())].into_iter().collect();
        safetensors::serialize_to_file(views, Some(note), path)
    });
    written.map_err(|error: safetensors::SafeTensorError| failed(error.to_string()))
}

/// Name of a parameter in Hugging Face's files.
fn their_name(path: &[String]) -> String {
    let mut name = path.join(".");
    for (ours, theirs) in [(".gamma", ".weight"), (".beta", ".bias")] {
        if let Some(layer) = name.strip_suffix(ours) {
            name = format!("{layer}{theirs}");
        }
    }
    name
}

/// Numbers of a tensor in single precision.
fn numbers(view: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let dtype = match view.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        other => return Err(format!("its data type is {other:?}; use F32, F16 or BF16")),
    };
    let bytes = burn::tensor::Bytes::from_bytes_vec(view.data().to_vec());
    let data = TensorData::from_bytes(bytes, view.shape().to_vec(), dtype);
    data.convert::<f32>().try_into_vec().map_err(|error| format!("{error:?}"))
}

/// Replaces every parameter by that of the file.
struct WeightReader<'a> {
    tensors: &'a BTreeMap<String, TensorView<'a>>,
    device: &'a Device,
    path: Vec<String>,
    problem: Option<String>,
}

impl ModuleMapper for WeightReader<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (name, shape) = (their_name(&self.path), param.lazy_shape().to_vec());
        let found = match self.tensors.get(&name) {
            None => Err("it is missing".to_owned()),
            Some(view) if view.shape() != shape => Err(format!("its shape is {:?} instead of {shape:?}", view.shape())),
            Some(view) => numbers(view),
        };
        match found {
            Ok(values) => Param::from_data(TensorData::new(values, shape), self.device),
            Err(problem) => {
                self.problem.get_or_insert(format!("`{name}`: {problem}"));
                param
            }
        }
    }
}

/// Collects names, shapes and bytes of all parameters.
#[derive(Default)]
struct WeightCollector {
    path: Vec<String>,
    found: Vec<(String, Vec<usize>, Vec<u8>)>,
}

impl ModuleVisitor for WeightCollector {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = param.val().into_data().convert::<f32>();
        let bytes = data.iter::<f32>().flat_map(f32::to_le_bytes).collect();
        self.found.push((their_name(&self.path), param.lazy_shape().to_vec(), bytes));
    }
}
