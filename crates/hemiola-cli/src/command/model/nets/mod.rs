//! Neural networks: `hemiola train mlp`, `cnn`, `resnet`, `lstm`, `transformer` and `ncf`, with the
//! feature `nets`. In a build without it the commands say how to enable them.
//!
//! | file | concept |
//! |---|---|
//! | `net_args` | arguments of all nets |
//! | `images`, `text`, `ratings` | the commands, grouped by their data |
//! | `net_command` | from flags and data to a training run of the library |
//! | `net_size` | memory of a net, checked before it is built |
//! | `absent` | the commands in a build without nets |

#[cfg(not(feature = "nets"))]
mod absent;
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
mod text;

#[cfg(not(feature = "nets"))]
pub(crate) use absent::{TrainCnn, TrainLstm, TrainMlp, TrainNcf, TrainResnet, TrainTransformer};
#[cfg(feature = "nets")]
pub(crate) use images::{TrainCnn, TrainMlp, TrainResnet};
#[cfg(feature = "nets")]
pub(crate) use ratings::TrainNcf;
#[cfg(feature = "nets")]
pub(crate) use text::{TrainLstm, TrainTransformer};
