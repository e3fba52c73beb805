//! Loop context: read-only data of a running loop, shared by all workers of a peer.

use crate::Error;
use crate::arrays::LoopArrays;
use crate::plan::ArrayPlacement;
use crate::run::clock_schedule::ClockSchedule;
use crate::run::row_requests::RowRequests;
use hemiola_analysis::Access;
use hemiola_cluster::{Cluster, panic_message};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Loop context: read-only data of a running loop, shared by all workers of a peer.
#[derive(Clone, Copy)]
pub struct LoopContext<'l, 'a> {
    pub(crate) cluster: &'l Cluster,
    pub(crate) arrays: &'l LoopArrays<'a>,
    pub(crate) placements: &'l [ArrayPlacement],
    pub(crate) names: &'static [&'static str],
    /// All accesses of the captured names in the body.
    pub(crate) accesses: &'static [Access],
    /// Name of the loop in messages.
    pub(crate) title: &'l str,
    /// Number of peers that run blocks.
    pub(crate) peers_used: usize,
    /// Clocks of captured tables in this pass, by the index of their names.
    pub(crate) clocks: &'l [Option<Arc<ClockSchedule>>],
    /// Channel for row requests. Present if arrays are served.
    pub(crate) requests: Option<&'l Arc<RowRequests>>,
}

impl LoopContext<'_, '_> {
    /// Converts a panic of an update rule into an error.
    pub(crate) fn rule_error(&self, panic: &(dyn Any + Send)) -> hemiola_cluster::Error {
        Error::Rule { site: self.title.to_owned(), rank: self.cluster.rank(), message: panic_message(panic) }.into()
    }
}

impl fmt::Debug for LoopContext<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoopContext").field("names", &self.names).finish_non_exhaustive()
    }
}
