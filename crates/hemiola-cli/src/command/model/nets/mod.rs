//! `hemiola train mlp`, `cnn`, `resnet`, `lstm`, `transformer` and `ncf`, with the feature `nets`. Without it the commands say how to get them.
//!
//! | file | concept |
//! |---|---|
//! | `net_args` | what all of them can be told |
//! | `images`, `text`, `ratings` | one command for each net, by what it is trained on |
//! | `training` | the loop around the steps of any net |
//! | `folder` | what is in `--output` |
//! | `absent` | a build without them |

#[cfg(not(feature = "nets"))]
mod absent;
#[cfg(feature = "nets")]
mod folder;
#[cfg(feature = "nets")]
mod images;
#[cfg(feature = "nets")]
mod net_args;
#[cfg(feature = "nets")]
mod ratings;
#[cfg(feature = "nets")]
mod text;
#[cfg(feature = "nets")]
mod training;

#[cfg(not(feature = "nets"))]
pub(crate) use absent::{TrainCnn, TrainLstm, TrainMlp, TrainNcf, TrainResnet, TrainTransformer};
#[cfg(feature = "nets")]
pub(crate) use images::{TrainCnn, TrainMlp, TrainResnet};
#[cfg(feature = "nets")]
pub(crate) use ratings::TrainNcf;
#[cfg(feature = "nets")]
pub(crate) use text::{TrainLstm, TrainTransformer};
