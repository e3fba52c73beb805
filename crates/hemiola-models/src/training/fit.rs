//! Result of a training run, the same for all estimators.

use super::TrainingReport;
use hemiola_cluster::Result;
use hemiola_loops::LoopProfile;

/// Result of a training run: the fitted model and the report of the run.
#[derive(Clone, Debug)]
pub struct Fit<M> {
    /// Model of the best epoch with a validation set, or else of the last.
    pub model: M,
    /// Report of the run.
    pub report: TrainingReport,
    /// Profile of the computation, if [`FitOptions::with_profiling`](super::FitOptions) was set and
    /// the algorithm is a single loop: matrix factorization with a loss of ratings.
    pub profile: Option<LoopProfile>,
}

impl<M> Fit<M> {
    /// Converts the model, and keeps the rest.
    pub(crate) fn try_map<N>(self, convert: impl FnOnce(M) -> Result<N>) -> Result<Fit<N>> {
        let Self { model, report, profile } = self;
        Ok(Fit { model: convert(model)?, report, profile })
    }
}
