//! Weights of a saved net in a safetensors file that `load_state_dict` of PyTorch takes.
//!
//! Names and layouts are those of the PyTorch module that `docs/guides/export.md` shows for each
//! kind: linear layers are `[outputs, inputs]`, scale and shift of a normalization are `weight` and
//! `bias`. An LSTM has the gates in PyTorch's order (input, forget, cell, output), and its forget
//! bias of 1 is added to the stored one. GPT-2 has the names and layouts of Hugging Face, see
//! [`gpt_weights`](super::gpt_weights).
//!
//! **Invariant:** every weight of the net is in the file, and the same net gives the same bytes.

use super::{NetArchitecture, NetDescription, NetInput, SavedNet, SavedWeights};
use crate::error::Error;
use crate::models::{LstmConfig, ResnetConfig};
use burn::tensor::Device;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Alignment of the first tensor of a safetensors file.
const ALIGNMENT: usize = 8;

impl SavedNet {
    /// Returns the weights by their name in PyTorch, with the shapes and layouts there.
    pub fn torch_weights(&self) -> Result<BTreeMap<String, SavedWeights>, Error> {
        self.check_weights()?;
        let mut tensors = BTreeMap::new();
        for (path, weights) in self.weights() {
            if let (NetArchitecture::Lstm(config), Some(rest)) =
                (&self.description().architecture, path.strip_prefix("layers."))
            {
                let (layer, part) = rest.split_once(".gates.").ok_or_else(|| self.unknown(path))?;
                lstm_tensors(config, layer, part, weights, &mut tensors);
                continue;
            }
            let renamed = renamed(&self.description().architecture, path);
            let (name, layout) = renamed.ok_or_else(|| self.unknown(path))?;
            tensors.insert(name, if layout == Layout::Transposed { transposed(weights) } else { weights.clone() });
        }
        if let NetArchitecture::Ncf(config) = &self.description().architecture {
            tensors.insert("mean".to_owned(), SavedWeights { shape: Vec::new(), values: vec![config.mean_rating] });
        }
        Ok(tensors)
    }

    /// Encodes [`torch_weights`](Self::torch_weights) as a safetensors file. Its metadata have a key
    /// `hemiola`: architecture, classes, normalization of images and vocabulary as JSON.
    pub fn to_torch_safetensors(&self) -> Result<Vec<u8>, Error> {
        Ok(encode(&self.torch_weights()?, self.description()))
    }

    /// Returns an error unless the weights are all those of the architecture.
    fn check_weights(&self) -> Result<(), Error> {
        let device = Device::flex();
        match &self.description().input {
            NetInput::Images(_) => self.image_classifier(&device).map(drop),
            NetInput::Text(_) => self.language_model(&device).map(drop),
            NetInput::Ratings(_) => self.rating_model(&device).map(drop),
        }
    }

    fn unknown(&self, path: &str) -> Error {
        self.damaged(format!("it has weights `{path}`, which this kind of net does not have"))
    }
}

/// Order of the elements in PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Same,
    /// Rows and columns are exchanged.
    Transposed,
}

/// Returns the name in PyTorch of the weights with a path, and their layout.
fn renamed(architecture: &NetArchitecture, path: &str) -> Option<(String, Layout)> {
    let (module, leaf) = path.rsplit_once('.')?;
    let theirs = match leaf {
        "gamma" => "weight",
        "beta" => "bias",
        other => other,
    };
    let plain = || Some((format!("{module}.{theirs}"), Layout::Same));
    let linear = |module: &str| {
        let layout = if leaf == "weight" { Layout::Transposed } else { Layout::Same };
        Some((format!("{module}.{theirs}"), layout))
    };
    match architecture {
        // Linear layers of GPT-2 are `[inputs, outputs]` there, too.
        NetArchitecture::Gpt(_) => plain(),
        _ if module == "output" && !matches!(architecture, NetArchitecture::Resnet(_)) => linear(module),
        NetArchitecture::Mlp(_) => linear(module),
        NetArchitecture::Cnn(_) | NetArchitecture::Ncf(_) if module.starts_with("hidden") => linear(module),
        NetArchitecture::Cnn(_) | NetArchitecture::Ncf(_) | NetArchitecture::Lstm(_) => plain(),
        NetArchitecture::Transformer(_) => match module.strip_prefix("blocks.") {
            None => plain(),
            Some(rest) => {
                let (block, part) = rest.split_once('.')?;
                let within = |part: &str| format!("blocks.{block}.{part}");
                match part {
                    "attention_norm" => Some((within(&format!("norm1.{theirs}")), Layout::Same)),
                    "mlp_norm" => Some((within(&format!("norm2.{theirs}")), Layout::Same)),
                    "qkv" if leaf == "weight" => Some((within("self_attn.in_proj_weight"), Layout::Transposed)),
                    "qkv" => Some((within("self_attn.in_proj_bias"), Layout::Same)),
                    "attention_output" => linear(&within("self_attn.out_proj")),
                    "mlp_hidden" => linear(&within("linear1")),
                    "mlp_output" => linear(&within("linear2")),
                    _ => None,
                }
            }
        },
        NetArchitecture::Resnet(_) if module == "output" => linear("fc"),
        NetArchitecture::Resnet(config) => Some((format!("{}.{theirs}", resnet_module(config, module)?), Layout::Same)),
    }
}

/// Returns the name in torchvision of a convolution or normalization of a residual network.
fn resnet_module(config: &ResnetConfig, module: &str) -> Option<String> {
    let (place, kind) = module.rsplit_once('.')?;
    let name = |number: usize| match kind {
        "convolution" => Some(format!("conv{number}")),
        "norm" => Some(format!("bn{number}")),
        _ => None,
    };
    let Some(rest) = place.strip_prefix("blocks.") else { return (place == "first").then(|| name(1)).flatten() };
    let (index, part) = rest.split_once('.')?;
    let mut block: usize = index.parse().ok()?;
    let mut stage = 0;
    while block >= config.blocks_of(stage) && stage < config.stages.len() {
        block -= config.blocks_of(stage);
        stage += 1;
    }
    let within = match part {
        "first" => name(1)?,
        "second" => name(2)?,
        "third" => name(3)?,
        "shortcut" => format!("downsample.{}", usize::from(kind == "norm")),
        _ => return None,
    };
    Some(format!("layer{}.{block}.{within}", stage + 1))
}

/// Adds the weights or the bias of an LSTM layer. Ours are one layer over the input and the previous
/// output, with the gates input, forget, output and cell.
fn lstm_tensors(
    config: &LstmConfig,
    layer: &str,
    part: &str,
    weights: &SavedWeights,
    tensors: &mut BTreeMap<String, SavedWeights>,
) {
    let hidden = config.hidden_size;
    // Gates of PyTorch by our index.
    let order = [0, 1, 3, 2];
    if part == "bias" {
        let value = |gate: usize, unit: usize| {
            let forget = if gate == 1 { 1.0 } else { 0.0 };
            weights.values[order[gate] * hidden + unit] + forget
        };
        let values = (0..4).flat_map(|gate| (0..hidden).map(move |unit| value(gate, unit))).collect();
        let zeros = vec![0.0; 4 * hidden];
        tensors.insert(format!("lstm.bias_ih_l{layer}"), SavedWeights { shape: vec![4 * hidden], values });
        tensors.insert(format!("lstm.bias_hh_l{layer}"), SavedWeights { shape: vec![4 * hidden], values: zeros });
        return;
    }
    let inputs = weights.shape[0] - hidden;
    let rows = |from: usize, count: usize| {
        let row = |output: usize| {
            let column = order[output / hidden] * hidden + output % hidden;
            (from..from + count).map(move |input| weights.values[input * 4 * hidden + column])
        };
        SavedWeights { shape: vec![4 * hidden, count], values: (0..4 * hidden).flat_map(row).collect() }
    };
    tensors.insert(format!("lstm.weight_ih_l{layer}"), rows(0, inputs));
    tensors.insert(format!("lstm.weight_hh_l{layer}"), rows(inputs, hidden));
}

/// Exchanges rows and columns of a matrix.
fn transposed(weights: &SavedWeights) -> SavedWeights {
    let [rows, columns] = [weights.shape[0], weights.shape[1]];
    let values = (0..columns).flat_map(|column| (0..rows).map(move |row| weights.values[row * columns + column]));
    SavedWeights { shape: vec![columns, rows], values: values.collect() }
}

/// Encodes tensors by name. The `safetensors` crate would write metadata in an order that changes
/// from run to run.
fn encode(tensors: &BTreeMap<String, SavedWeights>, description: &NetDescription) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let note = serde_json::to_string(description).expect("a description is plain data");
    header.insert("__metadata__".to_owned(), json!({ "format": "pt", "hemiola": note }));
    let mut end = 0;
    for (name, SavedWeights { shape, values }) in tensors {
        let start = end;
        end += values.len() * size_of::<f32>();
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, end] });
        header.insert(name.clone(), entry);
    }
    let mut header = Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let mut bytes = Vec::with_capacity(ALIGNMENT + header.len() + end);
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header);
    for weights in tensors.values() {
        bytes.extend(weights.values.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{CnnConfig, NcfConfig, TransformerConfig};
    use crate::saved::{ImageInput, RatingInput};
    use safetensors::SafeTensors;

    fn names(architecture: &NetArchitecture, paths: &[&str]) -> Vec<String> {
        let name = |path: &&str| {
            let (name, layout) = renamed(architecture, path).unwrap();
            if layout == Layout::Transposed { format!("{name} transposed") } else { name }
        };
        paths.iter().map(name).collect()
    }

    #[test]
    fn names_are_those_of_the_documented_modules() {
        let cnn = NetArchitecture::Cnn(CnnConfig::default());
        assert_eq!(
            names(&cnn, &["first.weight", "hidden.weight", "hidden.bias", "output.weight"]),
            ["first.weight", "hidden.weight transposed", "hidden.bias", "output.weight transposed"]
        );
        let ncf = NetArchitecture::Ncf(NcfConfig::default());
        assert_eq!(names(&ncf, &["users.weight", "hidden.1.weight"]), ["users.weight", "hidden.1.weight transposed"]);
        let transformer = NetArchitecture::Transformer(TransformerConfig::default());
        assert_eq!(
            names(
                &transformer,
                &["blocks.1.qkv.weight", "blocks.1.qkv.bias", "blocks.0.mlp_norm.gamma", "norm.beta", "output.bias"]
            ),
            [
                "blocks.1.self_attn.in_proj_weight transposed",
                "blocks.1.self_attn.in_proj_bias",
                "blocks.0.norm2.weight",
                "norm.bias",
                "output.bias"
            ]
        );
        let resnet = ResnetConfig { stage_blocks: vec![1, 2], stages: vec![8, 16], ..ResnetConfig::default() };
        let resnet = NetArchitecture::Resnet(resnet);
        assert_eq!(
            names(
                &resnet,
                &[
                    "first.convolution.weight",
                    "first.norm.gamma",
                    "blocks.0.second.convolution.weight",
                    "blocks.1.shortcut.convolution.weight",
                    "blocks.1.shortcut.norm.beta",
                    "blocks.2.first.norm.beta",
                    "output.weight"
                ]
            ),
            [
                "conv1.weight",
                "bn1.weight",
                "layer1.0.conv2.weight",
                "layer2.0.downsample.0.weight",
                "layer2.0.downsample.1.bias",
                "layer2.1.bn1.bias",
                "fc.weight transposed"
            ]
        );
        assert_eq!(renamed(&transformer, "blocks.1.other.weight"), None);
        assert_eq!(renamed(&resnet, "blocks.1.fourth.norm.beta"), None);
    }

    #[test]
    fn gates_of_an_lstm_have_the_order_of_pytorch() {
        let config = LstmConfig { hidden_size: 1, embedding_size: 2, ..LstmConfig::default() };
        let mut tensors = BTreeMap::new();
        // Rows: two inputs and the previous output; columns: input, forget, output gate, cell.
        let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
        lstm_tensors(&config, "0", "weight", &SavedWeights { shape: vec![3, 4], values }, &mut tensors);
        let bias = SavedWeights { shape: vec![4], values: vec![0.1, 0.2, 0.3, 0.4] };
        lstm_tensors(&config, "0", "bias", &bias, &mut tensors);
        assert_eq!(tensors["lstm.weight_ih_l0"].shape, [4, 2]);
        assert_eq!(tensors["lstm.weight_ih_l0"].values, [1.0, 5.0, 2.0, 6.0, 4.0, 8.0, 3.0, 7.0]);
        assert_eq!(tensors["lstm.weight_hh_l0"].values, [9.0, 10.0, 12.0, 11.0]);
        assert_eq!(tensors["lstm.bias_ih_l0"].values, [0.1, 1.2, 0.4, 0.3]);
        assert_eq!(tensors["lstm.bias_hh_l0"].values, [0.0; 4]);
    }

    #[test]
    fn files_have_the_tensors_and_the_description() {
        let tensors = BTreeMap::from([
            ("a".to_owned(), SavedWeights { shape: vec![2, 1], values: vec![1.5, -2.0] }),
            ("mean".to_owned(), SavedWeights { shape: vec![], values: vec![3.0] }),
        ]);
        let images = ImageInput { shape: [1, 2, 2], normalization: vec![[1.0, 2.0]], classes: vec!["a".to_owned()] };
        let architecture = NetArchitecture::Cnn(CnnConfig::default());
        let description = NetDescription { architecture, input: NetInput::Images(images) };
        let bytes = encode(&tensors, &description);
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("a").unwrap().shape(), [2, 1]);
        assert_eq!(file.tensor("a").unwrap().data(), [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat());
        assert_eq!(file.tensor("mean").unwrap().data(), 3.0_f32.to_le_bytes());
        let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
        let note = &metadata.metadata().as_ref().unwrap()["hemiola"];
        assert_eq!(serde_json::from_str::<NetDescription>(note).unwrap(), description);
        let ratings = NetDescription { input: NetInput::Ratings(RatingInput::default()), ..description };
        assert_ne!(encode(&tensors, &ratings), bytes);
    }
}
