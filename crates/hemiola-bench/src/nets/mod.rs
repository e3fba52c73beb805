//! `hemiola bench nets` and `hemiola bench nets-timeline`. A build without the feature `nets` answers with the command that builds it.

#[cfg(not(feature = "nets"))]
mod absent;
#[cfg(feature = "nets")]
mod measurement;
#[cfg(feature = "nets")]
mod present;
#[cfg(feature = "nets")]
mod timeline;

#[cfg(not(feature = "nets"))]
pub use absent::{NetsTimelineBench, NnBench};
#[cfg(feature = "nets")]
pub use present::NnBench;
#[cfg(feature = "nets")]
pub use timeline::NetsTimelineBench;
