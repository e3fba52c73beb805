//! Architecture of a saved net: its kind and the sizes of its layers.
//!
//! **Invariant:** a net is created only after the number of parameters of its architecture was
//! compared with that of its saved weights, so a damaged folder cannot ask for more memory than its
//! files have.

use crate::models::{CnnConfig, GptConfig, LstmConfig, MlpConfig, NcfConfig, ResnetConfig, TransformerConfig};
use serde::{Deserialize, Serialize};

/// Kind of a net, with the sizes of its layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum NetArchitecture {
    /// Multilayer perceptron.
    Mlp(MlpConfig),
    /// Two convolutions and two linear layers.
    Cnn(CnnConfig),
    /// Residual network.
    Resnet(ResnetConfig),
    /// LSTM language model.
    Lstm(LstmConfig),
    /// Transformer language model.
    Transformer(TransformerConfig),
    /// GPT-2.
    Gpt(GptConfig),
    /// Neural collaborative filtering.
    Ncf(NcfConfig),
}

impl NetArchitecture {
    /// Returns the number of trainable parameters.
    #[must_use]
    pub fn parameters(&self) -> u128 {
        match self {
            Self::Mlp(config) => layers(&[&[config.inputs], &config.hidden[..], &[config.classes]].concat()),
            Self::Cnn(config) => {
                let ([channels, rows, columns], [first, second]) = (config.image_shape, config.channels);
                let pixels = product(&[second, rows / 4, columns / 4]);
                let hidden = pixels.saturating_mul(config.hidden as u128).saturating_add(config.hidden as u128);
                let convolutions = product(&[channels, first, 25]).saturating_add(product(&[first, second, 25]));
                convolutions.saturating_add(hidden).saturating_add(layers(&[config.hidden, config.classes]))
            }
            Self::Resnet(config) => resnet(config),
            Self::Lstm(config) => {
                let LstmConfig { vocabulary_size, embedding_size, hidden_size, layers: count, .. } = *config;
                let gates =
                    |inputs: usize| layers(&[inputs.saturating_add(hidden_size), hidden_size.saturating_mul(4)]);
                let later = (count.saturating_sub(1) as u128).saturating_mul(gates(hidden_size));
                let last = if count == 0 { embedding_size } else { hidden_size };
                let first = if count == 0 { 0 } else { gates(embedding_size) };
                product(&[vocabulary_size, embedding_size])
                    .saturating_add(first)
                    .saturating_add(later)
                    .saturating_add(layers(&[last, vocabulary_size]))
            }
            Self::Transformer(config) => {
                let TransformerConfig { vocabulary_size, context_length, embedding_size: width, blocks, .. } = *config;
                transformer_trunk(vocabulary_size, context_length, width, blocks)
                    .saturating_add(layers(&[width, vocabulary_size]))
            }
            // The output layer is the table of embeddings.
            Self::Gpt(config) => {
                let GptConfig { vocabulary_size, context_length, embedding_size: width, blocks, .. } = *config;
                transformer_trunk(vocabulary_size, context_length, width, blocks)
            }
            Self::Ncf(config) => {
                let NcfConfig { users, items, embedding_size, hidden, .. } = config;
                let last = hidden.last().copied().unwrap_or(embedding_size.saturating_mul(2));
                product(&[users.saturating_add(*items), *embedding_size])
                    .saturating_add(layers(&[&[embedding_size.saturating_mul(2)], &hidden[..]].concat()))
                    .saturating_add(layers(&[last.saturating_add(*embedding_size), 1]))
            }
        }
    }

    /// Returns the name of the kind, as in `hemiola train KIND`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Mlp(_) => "mlp",
            Self::Cnn(_) => "cnn",
            Self::Resnet(_) => "resnet",
            Self::Lstm(_) => "lstm",
            Self::Transformer(_) => "transformer",
            Self::Gpt(_) => "gpt",
            Self::Ncf(_) => "ncf",
        }
    }

    /// Returns the reason why no net can have these sizes, if there is one.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Transformer(config) if config.heads == 0 || config.embedding_size % config.heads != 0 => {
                Some(format!("{} heads cannot share an embedding of {}", config.heads, config.embedding_size))
            }
            Self::Gpt(config) if config.heads == 0 || config.embedding_size % config.heads != 0 => {
                Some(format!("{} heads cannot share an embedding of {}", config.heads, config.embedding_size))
            }
            Self::Gpt(config)
                if ![config.dropout, config.label_smoothing].iter().all(|part| (0.0..1.0).contains(part)) =>
            {
                Some(format!("its dropout is {}, its label smoothing {}", config.dropout, config.label_smoothing))
            }
            Self::Resnet(config) if config.stages.is_empty() || config.stages.iter().any(|stage| stage % 8 != 0) => {
                Some(format!("its stages are {:?}, which are not multiples of 8", config.stages))
            }
            _ => None,
        }
    }
}

macro_rules! architecture_from {
    ($($config:ident => $kind:ident),*) => {
        $(impl From<$config> for NetArchitecture {
            fn from(config: $config) -> Self {
                Self::$kind(config)
            }
        })*
    };
}

architecture_from!(
    MlpConfig => Mlp,
    CnnConfig => Cnn,
    ResnetConfig => Resnet,
    LstmConfig => Lstm,
    TransformerConfig => Transformer,
    GptConfig => Gpt,
    NcfConfig => Ncf
);

/// Number of weights and biases of linear layers between these sizes.
fn layers(sizes: &[usize]) -> u128 {
    let layer = |pair: &[usize]| product(pair).saturating_add(pair[1] as u128);
    sizes.windows(2).map(layer).fold(0, u128::saturating_add)
}

fn product(factors: &[usize]) -> u128 {
    factors.iter().fold(1, |product, factor| product.saturating_mul(*factor as u128))
}

/// Embeddings, blocks and the last normalization of a transformer.
fn transformer_trunk(vocabulary_size: usize, context_length: usize, width: usize, blocks: usize) -> u128 {
    let wide = |factor: usize| width.saturating_mul(factor);
    let block = [layers(&[width, wide(3)]), layers(&[width, width]), layers(&[width, wide(4), width])]
        .into_iter()
        .fold(product(&[4, width]), u128::saturating_add);
    product(&[vocabulary_size.saturating_add(context_length), width])
        .saturating_add(block.saturating_mul(blocks as u128))
        .saturating_add(product(&[2, width]))
}

fn resnet(config: &ResnetConfig) -> u128 {
    let ResnetConfig { image_channels, stages, bottleneck, large_stem, classes, .. } = config;
    // A convolution without bias, and scale and shift of its normalization.
    let convolution =
        |from: usize, to: usize, window: usize| product(&[from, to, window, window]).saturating_add(product(&[2, to]));
    let mut before = stages.first().copied().unwrap_or(0);
    let mut sum = convolution(*image_channels, before, if *large_stem { 7 } else { 3 });
    for (stage, channels) in stages.iter().enumerate() {
        let (outputs, blocks) = (config.outputs_of(*channels), config.blocks_of(stage));
        let block = |inputs: usize| {
            let same = convolution(*channels, *channels, 3);
            if *bottleneck {
                let around = convolution(inputs, *channels, 1).saturating_add(convolution(*channels, outputs, 1));
                same.saturating_add(around)
            } else {
                same.saturating_add(convolution(inputs, *channels, 3))
            }
        };
        let mut first = block(before);
        if stage > 0 || before != outputs {
            first = first.saturating_add(convolution(before, outputs, 1));
        }
        let later = (blocks.saturating_sub(1) as u128).saturating_mul(block(outputs));
        if blocks > 0 {
            sum = sum.saturating_add(first).saturating_add(later);
            before = outputs;
        }
    }
    sum.saturating_add(layers(&[before, *classes]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ResnetPreset;
    use crate::variables;
    use burn::module::Module;
    use burn::tensor::Device;

    fn counted<M: Module>(net: &M) -> u128 {
        variables::find(net).unwrap().iter().map(|variable| variable.values.len() as u128).sum()
    }

    #[test]
    fn parameters_are_those_of_the_created_nets() {
        let device = Device::flex().autodiff();
        for hidden in [vec![], vec![5], vec![7, 3]] {
            let config = MlpConfig { inputs: 12, hidden: hidden.clone(), classes: 3, seed: 1 };
            assert_eq!(NetArchitecture::Mlp(config.clone()).parameters(), counted(&config.init(&device)));
            let config = NcfConfig { users: 5, items: 6, embedding_size: 4, hidden, ..NcfConfig::default() };
            assert_eq!(NetArchitecture::Ncf(config.clone()).parameters(), counted(&config.init(&device)));
        }
        let config = CnnConfig { image_shape: [2, 9, 12], channels: [3, 4], hidden: 5, classes: 3, seed: 1 };
        assert_eq!(NetArchitecture::Cnn(config.clone()).parameters(), counted(&config.init(&device)));
        for (stages, blocks) in [(vec![8], 1), (vec![8, 16], 2), (vec![16, 16, 8], 1)] {
            let config = ResnetConfig { stages, blocks, classes: 3, ..ResnetConfig::default() };
            assert_eq!(NetArchitecture::Resnet(config.clone()).parameters(), counted(&config.init(&device)));
        }
        let small =
            ResnetConfig { stages: vec![8, 16], stage_blocks: vec![1, 2], classes: 3, ..ResnetConfig::default() };
        for (bottleneck, large_stem) in [(false, true), (true, false), (true, true)] {
            let config = ResnetConfig { bottleneck, large_stem, ..small.clone() };
            assert_eq!(NetArchitecture::Resnet(config.clone()).parameters(), counted(&config.init(&device)));
        }
        // Published sizes: a batch normalization has as many parameters as ours.
        for (preset, parameters) in [(ResnetPreset::Resnet18, 11_689_512), (ResnetPreset::Resnet50, 25_557_032)] {
            assert_eq!(NetArchitecture::Resnet(preset.config([3, 224, 224], 1000, 1)).parameters(), parameters);
        }
        for layers in [1, 3] {
            let config = LstmConfig { vocabulary_size: 7, embedding_size: 5, hidden_size: 4, layers, seed: 1 };
            assert_eq!(NetArchitecture::Lstm(config.clone()).parameters(), counted(&config.init(&device)));
        }
        let config = TransformerConfig {
            vocabulary_size: 7,
            context_length: 5,
            embedding_size: 6,
            heads: 2,
            blocks: 2,
            seed: 1,
        };
        assert_eq!(NetArchitecture::Transformer(config.clone()).parameters(), counted(&config.init(&device)));
        let config = GptConfig {
            vocabulary_size: 7,
            context_length: 5,
            embedding_size: 6,
            heads: 2,
            blocks: 2,
            ..GptConfig::default()
        };
        assert_eq!(NetArchitecture::Gpt(config.clone()).parameters(), counted(&config.init(&device)));
        // Published sizes.
        assert_eq!(NetArchitecture::Gpt(GptConfig::default()).parameters(), 124_439_808);
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let huge = usize::MAX;
        let config =
            LstmConfig { vocabulary_size: huge, embedding_size: huge, hidden_size: huge, layers: huge, seed: 1 };
        assert!(NetArchitecture::Lstm(config).parameters() > 1 << 100);
        let heads = TransformerConfig { heads: 0, ..TransformerConfig::default() };
        assert!(NetArchitecture::Transformer(heads).problem().is_some());
    }
}
