//! Neural networks: `hemiola train mlp`, `cnn`, `resnet`, `lstm`, `transformer`, `gpt` and `ncf`,
//! with the feature `nets`. In a build without it the commands say how to enable them.
//!
//! | file | concept |
//! |---|---|
//! | `net_args` | arguments of all nets |
//! | `images`, `text`, `gpt`, `ratings` | the commands, grouped by their data |
//! | `net_command` | from flags and data to a training run of the library |
//! | `generate` | `hemiola generate` |
//! | `export` | export for PyTorch and ONNX |
//! | `saved` | use of saved nets by `evaluate`, `predict`, `recommend` and `similar` |
//! | `net_size` | memory of a net, checked before it is built |
//! | `absent` | the commands in a build without nets |

#[cfg(not(feature = "nets"))]
mod absent;
#[cfg(feature = "nets")]
mod export;
#[cfg(feature = "nets")]
mod generate;
#[cfg(feature = "nets")]
mod gpt;
#[cfg(feature = "nets")]
mod images;
#[cfg(feature = "nets")]
mod net_args;
#[cfg(feature = "nets")]
mod net_command;
#[cfg(feature = "nets")]
mod net_size;
#[cfg(feature = "nets")]
mod ratings;
#[cfg(feature = "nets")]
mod saved;
#[cfg(feature = "nets")]
mod text;

use super::names::TitlesFile;
use hemiola_array::save::PartReader;
use std::path::Path;

#[cfg(not(feature = "nets"))]
pub(crate) use absent::{
    GenerateArgs, TrainCnn, TrainGpt, TrainLstm, TrainMlp, TrainNcf, TrainResnet, TrainTransformer,
};
#[cfg(not(feature = "nets"))]
pub(super) use absent::{export_net, use_net};
#[cfg(feature = "nets")]
pub(super) use export::export_net;
#[cfg(feature = "nets")]
pub(crate) use generate::GenerateArgs;
#[cfg(feature = "nets")]
pub(crate) use gpt::TrainGpt;
#[cfg(feature = "nets")]
pub(crate) use images::{TrainCnn, TrainMlp, TrainResnet};
#[cfg(feature = "nets")]
pub(crate) use ratings::TrainNcf;
#[cfg(feature = "nets")]
pub(super) use saved::use_net;
#[cfg(feature = "nets")]
pub(crate) use text::{TrainLstm, TrainTransformer};

/// Use of a saved net by a command for all models.
#[cfg_attr(not(feature = "nets"), expect(dead_code, reason = "a build without nets refuses all uses"))]
pub(super) enum NetUse<'a> {
    /// Metrics on data.
    Evaluate { data: &'a str },
    /// Predictions for data, or of a user for items.
    Predict { data: Option<&'a str>, user: Option<&'a str>, items: &'a [String], titles: &'a TitlesFile },
    /// Best items of a user, without those `seen`.
    Recommend {
        user: Option<&'a str>,
        count: usize,
        seen: &'a [String],
        seen_in: Option<&'a str>,
        titles: &'a TitlesFile,
    },
    /// Items that resemble an item.
    Similar { item: &'a str, count: usize, titles: &'a TitlesFile },
}

/// Returns true if the folder has a net, and no model of another kind.
pub(super) fn is_net(folder: &Path) -> bool {
    !PartReader::exists(folder) && PartReader::exists(&folder.join("net"))
}
