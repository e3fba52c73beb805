//! Options of a fit: callback, checkpoints, profiling.

use super::{Callback, Checkpoints};
use hemiola::array::save::SaveLock;
use std::fmt;

/// Options of a fit. The default has no callback, saves no checkpoints and does not profile.
///
/// ```
/// use hemiola::prelude::*;
/// use hemiola_models::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("model");
/// hemiola::standalone(1).run(|cluster| {
///     let ratings = cluster.from_fn([30, 20], |[user, item]| ((user + item) % 5) as f32)?.entries().materialize()?;
///     let fit = |epochs: u32, resume: bool| {
///         let options = FitOptions::new().with_checkpoints(Checkpoints::new(&folder).resume(resume));
///         let settings = MatrixFactorization::builder().rank(4).epochs(epochs).validation(0.0).build()?;
///         settings.fit_with(cluster, &ratings, None, options)
///     };
///     fit(2, false)?;
///     let trained = fit(5, true)?; // resumes after epoch 2, bit-identical to five epochs at once
///     assert_eq!(trained.report.progress.len(), 5);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct FitOptions<'a> {
    pub(super) callback: Option<&'a mut dyn Callback>,
    pub(super) checkpoints: Option<Checkpoints>,
    /// Lock of the checkpoint folder, on the root, if the caller took it beforehand.
    pub(super) lock: Option<SaveLock>,
    pub(crate) profiled: bool,
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
    /// [predicted](hemiola::loops::LoopProfile).
    pub fn with_profiling(mut self) -> Self {
        self.profiled = true;
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
            .finish()
    }
}
