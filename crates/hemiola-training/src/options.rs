//! Options of a fit: callback, checkpoints, profiling.

use crate::{Callback, Checkpoints, TargetMetric};
use hemiola_array::save::SaveLock;
use std::fmt;

/// Options of a fit. The default has no callback, saves no checkpoints and does not profile.
#[derive(Default)]
#[must_use]
#[non_exhaustive]
pub struct FitOptions<'a> {
    /// Callback of the run.
    pub callback: Option<&'a mut dyn Callback>,
    /// Folder and interval of checkpoints.
    pub checkpoints: Option<Checkpoints>,
    /// Lock of the checkpoint folder, on the root, if the caller took it beforehand.
    pub lock: Option<SaveLock>,
    /// True to measure the computation of each block.
    pub profiled: bool,
    /// Metric that selects the best epoch and stops training, if it is not the model's own.
    pub metric: Option<TargetMetric>,
}

impl<'a> FitOptions<'a> {
    /// Creates options without callback, checkpoints and profiling.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the callback of the run.
    pub fn with_callback(mut self, callback: &'a mut dyn Callback) -> Self {
        self.callback = Some(callback);
        self
    }

    /// Saves checkpoints during training and at the end, so that training can resume from them.
    pub fn with_checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }

    /// Measures the computation of each block, for models whose run time can be
    /// [predicted](hemiola_loops::LoopProfile).
    pub fn with_profiling(mut self) -> Self {
        self.profiled = true;
        self
    }

    /// Selects the best epoch, and stops training, by another metric of the model. Without a value of
    /// it, the objective decides.
    pub fn with_metric(mut self, metric: TargetMetric) -> Self {
        self.metric = Some(metric);
        self
    }

    /// Passes in a lock of the checkpoint folder that the caller holds already; see
    /// [`Checkpoints::lock`]. It is released when training has ended.
    pub fn with_lock(mut self, lock: Option<SaveLock>) -> Self {
        self.lock = lock;
        self
    }
}

impl fmt::Debug for FitOptions<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FitOptions")
            .field("callback", &self.callback.is_some())
            .field("checkpoints", &self.checkpoints)
            .finish_non_exhaustive()
    }
}
