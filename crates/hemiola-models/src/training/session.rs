//! What accompanies a training: who watches, and where checkpoints go.

use super::{Checkpoints, Watch};
use hemiola::array::save::SaveLock;
use std::fmt;

/// What accompanies a training. Without anything, nobody watches and nothing is saved.
///
/// ```
/// use hemiola::prelude::*;
/// use hemiola_models::MatrixFactorization;
/// use hemiola_models::training::{Checkpoints, Session};
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("model");
/// hemiola::standalone(1).run(|cluster| {
///     let ratings = cluster.from_fn([30, 20], |[user, item]| ((user + item) % 5) as f32)?.entries().materialize()?;
///     let fit = |epochs: u32, resume: bool| {
///         let session = Session::new().saving(Checkpoints::new(&folder).resume(resume));
///         MatrixFactorization::builder().rank(4).epochs(epochs).build()?.fit_with(cluster, &ratings, None, session)
///     };
///     fit(2, false)?;
///     let trained = fit(5, true)?; // goes on after the second epoch, to the same bits as five at once
///     assert_eq!(trained.report.progress.len(), 5);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct Session<'a> {
    pub(super) watch: Option<&'a mut dyn Watch>,
    pub(super) checkpoints: Option<Checkpoints>,
    /// Of the checkpoints' folder, on the root, if it was taken before.
    pub(super) lock: Option<SaveLock>,
    pub(crate) profiled: bool,
}

impl<'a> Session<'a> {
    /// Nobody watches and nothing is saved.
    pub fn new() -> Self {
        Self::default()
    }

    /// Somebody is told how it goes.
    pub fn watched(mut self, watch: &'a mut dyn Watch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// The model is saved on the way and at the end, so that training can go on from there.
    pub fn saving(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }

    /// What passes compute is measured, block by block, for models that can be [predicted](hemiola::loops::Profile) from that.
    pub fn profiled(mut self) -> Self {
        self.profiled = true;
        self
    }

    /// The lock of the checkpoints' folder is held already, and given back when training has ended; see [`Checkpoints::lock`].
    pub fn holding(mut self, lock: Option<SaveLock>) -> Self {
        self.lock = lock;
        self
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("watched", &self.watch.is_some())
            .field("checkpoints", &self.checkpoints)
            .finish()
    }
}
