//! Training of models that consist of distributed arrays.
//!
//! The loop over epochs, stopping criteria, callbacks and reports are those of
//! [`hemiola_training`], which nets use as well; they are re-exported here. This module adds what
//! arrays need: checkpoints of the best and the newest model, and digests of the data.
//!
//! ```
//! use hemiola::prelude::*;
//! use hemiola_models::prelude::*;
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("model");
//! hemiola::standalone(1).run(|cluster| {
//!     let ratings = cluster.from_fn([30, 20], |[user, item]| ((user + item) % 5) as f32)?.entries().materialize()?;
//!     let fit = |epochs: u32, resume: bool| {
//!         let options = FitOptions::new().with_checkpoints(Checkpoints::new(&folder).resume(resume));
//!         let settings = MatrixFactorization::builder().rank(4).epochs(epochs).validation(0.0).build()?;
//!         settings.fit_with(cluster, &ratings, None, options)
//!     };
//!     fit(2, false)?;
//!     let trained = fit(5, true)?; // resumes after epoch 2, bit-identical to five epochs at once
//!     assert_eq!(trained.report.progress.len(), 5);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`fit`](Fit) | result of a fit: model and report |
//! | [`fit_loop`](fit_loop()) | fit of any [`TrainingAlgorithm`] over arrays |
//! | [`checkpoint`](Checkpointable) | checkpoints of the best and the newest model |
//! | [`digest`](digest()) | fingerprint of the data, to detect changes |

mod checkpoint;
mod digest;
mod fit;
mod fit_loop;

pub(crate) use checkpoint::MODEL_KEY;
pub use checkpoint::{Checkpointable, check_checkpoints};
pub use digest::digest;
pub(crate) use digest::{hash_combine, labelled_digest};
pub use fit::Fit;
pub use fit_loop::{TrainingAlgorithm, fit_loop};
pub use hemiola_training::{
    Callback, CheckpointInterval, CheckpointMetadata, Checkpoints, ClusterInfo, DatasetInfo, EpochEnd, EpochProgress,
    EpochResult, FitOptions, Metrics, NoCallback, StopDecision, TargetMetric, TrainingControl, TrainingLimits,
    TrainingReport, TrainingSpec, TrainingSummary, check_same_settings, check_same_values,
};
