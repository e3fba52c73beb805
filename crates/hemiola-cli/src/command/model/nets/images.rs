//! `hemiola train mlp`, `cnn` and `resnet`: image classification.

use super::super::train_args::TrainArgs;
use super::super::train_defaults::TrainDefaults;
use super::net_args::{AFTER_HELP, NetArgs};
use super::net_command::{NetCommand, NetData, NetKind};
use crate::error::CommandError;
use crate::suggest;
use clap::Args;
use hemiola_nn::data::synthetic::SyntheticImages;
use hemiola_nn::data::{Dataset as _, ImageDataset};
use hemiola_nn::models::{CnnConfig, MlpConfig, ResnetConfig, ResnetPreset};
use hemiola_nn::saved::NetInput;
use hemiola_nn::training::NetMetric;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

const METRIC: NetMetric = NetMetric::Accuracy;

/// Flags of image classifiers.
#[derive(Args, Debug)]
struct ImageArgs {
    /// Folder with the four files of MNIST, or of a set in its format, or with the binary files of
    /// CIFAR-10; optionally compressed [default: synthetic images]
    #[arg(long, short, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Train on the first N images only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_examples: Option<u32>,
}

impl ImageArgs {
    fn must_exist(&self) -> anyhow::Result<()> {
        match &self.data {
            Some(folder) if !folder.is_dir() => {
                let failure = CommandError::usage(format!("`{}` is not a folder", folder.display()));
                let general = "give the folder with the files of MNIST or CIFAR-10";
                Err(failure.hint(suggest::path_hint(folder).as_deref().unwrap_or(general)).into())
            }
            _ => Ok(()),
        }
    }

    /// Loads the training set and the validation set. Synthetic images have the given shape.
    fn load<C>(
        &self,
        shape: [usize; 3],
        count: usize,
        seed: u64,
        config: impl FnOnce(&ImageDataset) -> C,
    ) -> anyhow::Result<NetData<ImageDataset, C>> {
        let [train, valid] = if let Some(folder) = &self.data {
            ImageDataset::read(folder)?
        } else {
            let all = SyntheticImages { shape, classes: 10, examples: count + count / 5, seed }.dataset();
            [all.take(count), all.skip(count)]
        };
        let train = match self.max_examples {
            Some(limit) => train.take(limit as usize),
            None => train,
        };
        let valid = valid.normalized_as(&train);
        let [channels, rows, columns] = train.shape();
        let origin = if self.data.is_some() { "" } else { "synthetic " };
        let headline = format!(
            "{} {origin}images of {rows} by {columns} pixels in {channels} channel{}, {} for validation, of {} classes",
            train.len(),
            if channels == 1 { "" } else { "s" },
            valid.len(),
            train.classes()
        );
        let shape = vec![train.len(), channels, rows, columns];
        let (config, input) = (config(&train), NetInput::from(&train));
        Ok(NetData { train, valid: Some(valid), headline, config, input, sequence_length: 1, shape })
    }
}

const MLP_HELP: &str = "\
Examples:
  Synthetic images:
    hemiola train mlp

  MNIST on two local peers, with an explanation of the synchronization of each variable:
    hemiola train mlp --data mnist --peers 2 --epochs 5 --explain

  Save the net, and resume later on another number of peers:
    hemiola train mlp --data mnist --output net --epochs 5
    hemiola train mlp --data mnist --output net --epochs 10 --peers 4 --resume
";

/// Arguments of `hemiola train mlp`.
#[derive(Args, Debug)]
#[command(after_help = format!("{MLP_HELP}\n{AFTER_HELP}"), mut_args(|argument| TrainDefaults::IMAGES.complete(argument)))]
pub(crate) struct TrainMlp {
    #[command(flatten)]
    images_args: ImageArgs,

    #[command(flatten)]
    sizes: MlpSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct MlpSizes {
    /// Sizes of the hidden layers.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "256,128", value_parser = clap::value_parser!(u32).range(1..))]
    hidden: Vec<u32>,
}

impl TrainMlp {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { images_args, sizes, flags, common } = &self;
        images_args.must_exist()?;
        let load = || {
            images_args.load([1, 28, 28], 6000, common.seed, |images| MlpConfig {
                inputs: images.shape().iter().product(),
                hidden: sizes.hidden.iter().map(|neurons| *neurons as usize).collect(),
                classes: images.classes(),
                seed: common.seed,
            })
        };
        let kind = NetKind { name: "mlp", metric: METRIC };
        NetCommand { kind, common, flags }.execute(sizes, load, MlpConfig::init)
    }
}

const CNN_HELP: &str = "\
Examples:
  Synthetic images:
    hemiola train cnn

  MNIST on two local peers, until the validation accuracy is 98.5 %:
    hemiola train cnn --data mnist --peers 2 --target 0.985
";

/// Arguments of `hemiola train cnn`.
#[derive(Args, Debug)]
#[command(after_help = format!("{CNN_HELP}\n{AFTER_HELP}"), mut_args(|argument| TrainDefaults::IMAGES.complete(argument)))]
pub(crate) struct TrainCnn {
    #[command(flatten)]
    images_args: ImageArgs,

    #[command(flatten)]
    sizes: CnnSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct CnnSizes {
    /// Output channels of the two convolutions.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "8,16", value_parser = clap::value_parser!(u32).range(1..))]
    channels: Vec<u32>,

    /// Size of the hidden layer.
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(1..))]
    hidden: u32,
}

impl TrainCnn {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { images_args, sizes, flags, common } = &self;
        images_args.must_exist()?;
        let &[first, second] = &*sizes.channels else {
            return Err(CommandError::usage("`--channels` takes two numbers")
                .hint("for example `--channels 8,16`")
                .into());
        };
        let load = || {
            images_args.load([1, 28, 28], 3000, common.seed, |images| CnnConfig {
                image_shape: images.shape(),
                channels: [first as usize, second as usize],
                hidden: sizes.hidden as usize,
                classes: images.classes(),
                seed: common.seed,
            })
        };
        let kind = NetKind { name: "cnn", metric: METRIC };
        NetCommand { kind, common, flags }.execute(sizes, load, CnnConfig::init)
    }
}

const RESNET_HELP: &str = "\
Examples:
  Synthetic images:
    hemiola train resnet

  CIFAR-10 on four local peers, with the usual settings:
    hemiola train resnet --data cifar-10-batches-bin --peers 4 --batch-size 128 --optimizer sgd --momentum 0.9 --lr 0.1 --lr-schedule cosine --epochs 50 --output net
";

/// Arguments of `hemiola train resnet`.
#[derive(Args, Debug)]
#[command(after_help = format!("{RESNET_HELP}\n{AFTER_HELP}"), mut_args(|argument| TrainDefaults::IMAGES.complete(argument)))]
pub(crate) struct TrainResnet {
    #[command(flatten)]
    images_args: ImageArgs,

    #[command(flatten)]
    sizes: ResnetSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct ResnetSizes {
    /// Known network, in place of --blocks and --stages: `resnet18` or `resnet50`, with group
    /// normalization. Images below 64 x 64 are not reduced before the first stage.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["blocks", "stages"])]
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<ResnetPreset>,

    /// Residual blocks per stage: 3 for ResNet-20, 5 for ResNet-32, 9 for ResNet-56.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,

    /// Channels of each stage, multiples of 8.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "16,32,64", value_parser = clap::value_parser!(u32).range(8..))]
    stages: Vec<u32>,
}

impl TrainResnet {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { images_args, sizes, flags, common } = &self;
        images_args.must_exist()?;
        if let Some(odd) = sizes.stages.iter().find(|channels| **channels % 8 != 0) {
            let failure = CommandError::usage(format!("`--stages` has {odd} channels, which is not a multiple of 8"));
            return Err(failure.hint("for example `--stages 16,32,64`").into());
        }
        let load = || {
            images_args.load([3, 32, 32], 1000, common.seed, |images| match sizes.preset {
                Some(preset) => preset.config(images.shape(), images.classes(), common.seed),
                None => ResnetConfig {
                    image_channels: images.shape()[0],
                    stages: sizes.stages.iter().map(|channels| *channels as usize).collect(),
                    blocks: sizes.blocks as usize,
                    classes: images.classes(),
                    seed: common.seed,
                    ..ResnetConfig::default()
                },
            })
        };
        let kind = NetKind { name: "resnet", metric: METRIC };
        NetCommand { kind, common, flags }.execute(sizes, load, ResnetConfig::init)
    }
}
