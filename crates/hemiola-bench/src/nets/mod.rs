//! `hemiola bench nets`. A build without the feature `nets` answers with the command that builds it.

#[cfg(not(feature = "nets"))]
mod absent;
#[cfg(feature = "nets")]
mod measurement;
#[cfg(feature = "nets")]
mod present;

#[cfg(not(feature = "nets"))]
pub use absent::NnBench;
#[cfg(feature = "nets")]
pub use present::NnBench;
