//! Export of nets: weights for PyTorch as safetensors, and ONNX graphs of image classifiers.
//!
//! An ONNX graph takes bytes, `images` `[batch, channels, rows, columns]`, and normalizes them as in
//! training. Its outputs are `label`, `probabilities` and `logits`.

use super::super::export::ExportFormat;
use super::saved::open;
use crate::error::CommandError;
use hemiola_cluster::Error;
use hemiola_nn::models::Device;
use hemiola_nn::saved::{ImageInput, NetArchitecture, NetInput, SavedNet};
use hemiola_onnx::{Attribute, ElementType, Extent, OnnxGraph};
use std::path::Path;

const BATCH: Extent = Extent::Named("batch");

/// Encodes a saved net.
pub(in super::super) fn export_net(folder: &Path, format: ExportFormat) -> anyhow::Result<Vec<u8>> {
    let net = open(folder)?;
    if format == ExportFormat::Safetensors {
        return Ok(net.to_torch_safetensors().map_err(Error::from)?);
    }
    let architecture = &net.description().architecture;
    let (NetArchitecture::Mlp(_) | NetArchitecture::Cnn(_), NetInput::Images(input)) =
        (architecture, &net.description().input)
    else {
        let kind = architecture.kind();
        let message = format!("a net of the kind `{kind}` is not exported to ONNX, only `mlp` and `cnn` are");
        return Err(CommandError::usage(message).hint("export it for PyTorch, as `.safetensors`").into());
    };
    // Refuses weights that do not fit the sizes.
    net.image_classifier(&Device::flex()).map_err(Error::from)?;
    NetGraph { graph: OnnxGraph::new(architecture.kind()), net: &net }.encode(architecture, input)
}

/// Graph of a net in construction.
struct NetGraph<'a> {
    graph: OnnxGraph,
    net: &'a SavedNet,
}

impl NetGraph<'_> {
    fn encode(mut self, architecture: &NetArchitecture, input: &ImageInput) -> anyhow::Result<Vec<u8>> {
        self.graph.metadata("hemiola.model", architecture.kind());
        self.graph.metadata("hemiola.classes", &serde_json::to_string(&input.classes)?);
        let mut value = self.normalized(input);
        if let NetArchitecture::Cnn(_) = architecture {
            for layer in ["first", "second"] {
                value = self.convolution(layer, &value)?;
            }
        }
        value = self.graph.node("Flatten", &[&value], &[("axis", Attribute::Int(1))]);
        let hidden = match architecture {
            NetArchitecture::Mlp(config) => (0..config.hidden.len()).map(|layer| format!("hidden.{layer}")).collect(),
            _ => vec!["hidden".to_owned()],
        };
        for layer in hidden {
            value = self.linear(&layer, &value)?;
            value = self.graph.node("Relu", &[&value], &[]);
        }
        let logits = self.linear("output", &value)?;
        let Self { mut graph, .. } = self;
        let axis = ("axis", Attribute::Int(1));
        let best = graph.node("ArgMax", &[&logits], &[axis.clone(), ("keepdims", Attribute::Int(0))]);
        let labels = graph.texts("labels", &input.classes);
        let label = graph.node("Gather", &[&labels, &best], &[]);
        let probabilities = graph.node("Softmax", &[&logits], &[axis]);
        let by_class = [BATCH, Extent::Fixed(input.classes.len())];
        graph.output("label", &label, ElementType::Text, &[BATCH]);
        graph.output("probabilities", &probabilities, ElementType::F32, &by_class);
        graph.output("logits", &logits, ElementType::F32, &by_class);
        Ok(graph.to_bytes()?)
    }

    /// Adds the input, with mean 0 and standard deviation 1 by channel.
    fn normalized(&mut self, input: &ImageInput) -> String {
        let [channels, rows, columns] = input.shape;
        let shape = [BATCH, Extent::Fixed(channels), Extent::Fixed(rows), Extent::Fixed(columns)];
        let bytes = self.graph.input("images", ElementType::U8, &shape);
        let numbers = self.graph.cast(&bytes, ElementType::F32);
        let of_channels = |part: usize| input.normalization.iter().map(|tone| tone[part]).collect::<Vec<f32>>();
        let mean = self.graph.floats("mean", &[channels, 1, 1], &of_channels(0));
        let deviation = self.graph.floats("deviation", &[channels, 1, 1], &of_channels(1));
        let centred = self.graph.node("Sub", &[&numbers, &mean], &[]);
        self.graph.node("Div", &[&centred, &deviation], &[])
    }

    /// Adds a convolution with a window of 5, max pooling and a rectifier.
    fn convolution(&mut self, layer: &str, value: &str) -> anyhow::Result<String> {
        let weight = self.constant(&format!("{layer}.weight"))?;
        let window = |size: i64| ("kernel_shape", Attribute::Ints(vec![size; 2]));
        let pads = ("pads", Attribute::Ints(vec![2; 4]));
        let value = self.graph.node("Conv", &[value, &weight], &[window(5), pads]);
        let strides = ("strides", Attribute::Ints(vec![2; 2]));
        let value = self.graph.node("MaxPool", &[&value], &[window(2), strides]);
        Ok(self.graph.node("Relu", &[&value], &[]))
    }

    /// Adds a linear layer.
    fn linear(&mut self, layer: &str, value: &str) -> anyhow::Result<String> {
        let weight = self.constant(&format!("{layer}.weight"))?;
        let bias = self.constant(&format!("{layer}.bias"))?;
        Ok(self.graph.node("Gemm", &[value, &weight, &bias], &[]))
    }

    /// Adds saved weights. A linear layer has `[inputs, outputs]`.
    fn constant(&mut self, path: &str) -> anyhow::Result<String> {
        let missing = || CommandError::usage(format!("the net has no weights `{path}`")).hint("train it again");
        let weights = self.net.weights().get(path).ok_or_else(missing)?;
        Ok(self.graph.floats(path, &weights.shape, &weights.values))
    }
}
