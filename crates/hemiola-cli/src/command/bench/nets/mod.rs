//! `hemiola bench nets`, with the feature `nets`. Without it the command says how to get it.

#[cfg(not(feature = "nets"))]
mod absent;
#[cfg(feature = "nets")]
mod figures;
#[cfg(feature = "nets")]
mod present;

#[cfg(not(feature = "nets"))]
pub(crate) use absent::Nets;
#[cfg(feature = "nets")]
pub(crate) use present::Nets;
