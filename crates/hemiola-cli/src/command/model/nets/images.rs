//! `hemiola train mlp`, `cnn` and `resnet`: image classification.

use super::super::train_args::TrainArgs;
use super::super::train_defaults::TrainDefaults;
use super::net_args::{AFTER_HELP, NetArgs};
use super::net_command::{NetCommand, NetData, NetKind};
use crate::error::CommandError;
use crate::suggest;
use clap::Args;
use hemiola_nn::data::synthetic::SyntheticImages;
use hemiola_nn::data::{Dataset as _, ImageAugmentation, ImageDataset, ImageReadOptions};
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
    /// Folder with the four files of MNIST, or of a set in its format; with the binary files of
    /// CIFAR-10; or with JPEG or PNG images, a folder for each class, in `train` and `val` or in one
    /// place [default: synthetic images]
    #[arg(long, short, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Train on the first N images only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_examples: Option<u32>,

    /// Image files: scale images to these rows and columns, and cut what is beyond them at both ends
    /// [default: all images have one size]
    #[arg(long, value_name = "N|ROWSxCOLUMNS", value_parser = image_size, requires = "data")]
    image_size: Option<ImageSize>,

    /// Image files without a validation set: the fraction of the images that becomes one.
    #[arg(long, value_name = "FRACTION", default_value = "0.2", value_parser = fraction)]
    validation: f64,

    /// Mirror half of the training images left to right, others in each epoch.
    #[arg(long)]
    random_flip: bool,

    /// Shift training images by up to N pixels, otherwise in each epoch: random cropping with a black
    /// margin.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(..=256))]
    random_crop: u32,
}

/// Rows and columns of images.
#[derive(Clone, Copy, Debug)]
struct ImageSize([usize; 2]);

/// Parses `N` or `ROWSxCOLUMNS`.
fn image_size(text: &str) -> Result<ImageSize, String> {
    let (rows, columns) = text.split_once(['x', 'X']).unwrap_or((text, text));
    let extent = |text: &str| text.parse::<usize>().ok().filter(|extent| (1..=4096).contains(extent));
    let size = extent(rows).zip(extent(columns)).map(|(rows, columns)| ImageSize([rows, columns]));
    size.ok_or_else(|| format!("`{text}` is no size from 1 to 4096, such as `64` or `48x64`"))
}

/// Parses a number from 0 to 0.9.
fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=0.9).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from 0 to 0.9, such as `0.2`"))
}

/// Settings of the training set that must not change when training is resumed.
#[derive(Debug, Serialize)]
struct ImageSettings<'a, S> {
    #[serde(flatten)]
    sizes: &'a S,
    #[serde(skip_serializing_if = "ImageAugmentation::is_identity")]
    augmentation: ImageAugmentation,
}

impl ImageArgs {
    fn must_exist(&self) -> anyhow::Result<()> {
        match &self.data {
            Some(folder) if !folder.is_dir() => {
                let failure = CommandError::usage(format!("`{}` is not a folder", folder.display()));
                let general =
                    "give a folder with the files of MNIST or CIFAR-10, or with a folder of images for each class";
                Err(failure.hint(suggest::path_hint(folder).as_deref().unwrap_or(general)).into())
            }
            _ => Ok(()),
        }
    }

    /// Random changes of training images.
    fn augmentation(&self, seed: u64) -> ImageAugmentation {
        ImageAugmentation { flip: self.random_flip, crop_padding: self.random_crop as usize, seed }
    }

    /// Returns the settings that are compared on resuming: sizes of the net, and augmentation.
    fn settings<'a, S: Serialize>(&self, sizes: &'a S, seed: u64) -> ImageSettings<'a, S> {
        ImageSettings { sizes, augmentation: self.augmentation(seed) }
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
            let size = self.image_size.map(|ImageSize(size)| size);
            ImageDataset::read_with(folder, &ImageReadOptions { size, validation: self.validation, seed })?
        } else {
            let all = SyntheticImages { shape, classes: 10, examples: count + count / 5, seed }.dataset();
            [all.take(count), all.skip(count)]
        };
        let train = match self.max_examples {
            Some(limit) => train.take(limit as usize),
            None => train,
        };
        let train = train.augmented(self.augmentation(seed));
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
        Ok(NetData {
            train,
            valid: Some(valid).filter(|valid| !valid.is_empty()),
            headline,
            config,
            input,
            sequence_length: 1,
            shape,
        })
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
        let settings = images_args.settings(sizes, common.seed);
        NetCommand { kind, common, flags }.execute(&settings, load, MlpConfig::init)
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
        let settings = images_args.settings(sizes, common.seed);
        NetCommand { kind, common, flags }.execute(&settings, load, CnnConfig::init)
    }
}

const RESNET_HELP: &str = "\
Examples:
  Synthetic images:
    hemiola train resnet

  CIFAR-10 on four local peers, with the usual settings:
    hemiola train resnet --data cifar-10-batches-bin --peers 4 --random-flip --random-crop 4 --batch-size 128 --optimizer sgd --momentum 0.9 --lr 0.1 --lr-schedule cosine --epochs 50 --output net
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
        let settings = images_args.settings(sizes, common.seed);
        NetCommand { kind, common, flags }.execute(&settings, load, ResnetConfig::init)
    }
}
