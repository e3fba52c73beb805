//! Collectives and averages on clusters: threads of this process, and processes.

mod conditions;
mod encoded;
mod goals;
mod mixing;
mod overlap;
mod processes;
mod sums;
mod support;
