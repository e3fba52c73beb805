//! The training loop of all models: epochs, validation, stopping criteria, callbacks, checkpoints
//! and reports.
//!
//! The loop knows no model. A model family implements [`EpochLearner`]: one epoch, the evaluation
//! of the validation set, and the save of a checkpoint. [`EpochLoop`] does the rest, so that all
//! models stop, save, resume and report alike. `hemiola-models` runs it for models of distributed
//! arrays, `hemiola-nn` for neural networks. A model of your own:
//!
//! ```
//! use hemiola_cluster::{Cluster, Result};
//! use hemiola_training::{
//!     CheckpointMetadata, DatasetInfo, EpochLearner, EpochLoop, EpochResult, Metrics, NoCallback, TargetMetric,
//!     TrainingLimits, TrainingSpec,
//! };
//! use std::{path::Path, time::Duration};
//!
//! /// Minimizes `(x - 3)²` by gradient descent.
//! struct Descent(f64);
//!
//! impl EpochLearner for Descent {
//!     fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
//!         self.0 -= 0.2 * (self.0 - 3.0);
//!         let objective = (self.0 - 3.0).powi(2);
//!         Ok(EpochResult::new(objective, Metrics::new(), Duration::from_millis(1), 1))
//!     }
//!
//!     fn evaluate(&mut self) -> Result<Option<Metrics>> {
//!         Ok(None)
//!     }
//!
//!     fn save(&mut self, _folder: &Path, _metadata: CheckpointMetadata) -> Result<()> {
//!         Ok(()) // called with `EpochLoop::checkpoints` only
//!     }
//! }
//!
//! hemiola_cluster::standalone(2).run(|cluster: &Cluster| {
//!     let limits = TrainingLimits { epochs: 100, target: Some(1e-3), ..TrainingLimits::default() };
//!     let spec = TrainingSpec {
//!         model: "descent",
//!         settings: &0.2,
//!         seed: 1,
//!         limits: &limits,
//!         metric: TargetMetric::minimize("objective"),
//!         data: DatasetInfo { shape: vec![1], train: 1, validation: 0 },
//!     };
//!     let mut run = EpochLoop::new(cluster, spec);
//!     let stop_reason = run.run(&mut Descent(0.0), &mut NoCallback)?;
//!     let report = run.report(stop_reason)?;
//!     assert_eq!(report.result.stop_reason, "target reached");
//!     assert!(report.progress.len() < 25);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola_cluster::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`epoch_loop`](EpochLoop) | the loop over epochs, for any [`EpochLearner`] |
//! | [`epoch_control`](EpochControl) | checkpoints within an epoch |
//! | [`spec`](TrainingSpec) | description of a run: model, settings, limits, data |
//! | [`metric`](TargetMetric) | target metric and its direction |
//! | [`limits`](TrainingLimits) | stopping criteria: epochs, seconds, target, early stopping |
//! | [`callback`](Callback) | messages and progress for the caller, who may stop training |
//! | [`progress`](EpochProgress) | state of a run after an epoch |
//! | [`options`](FitOptions) | options of a fit: callback, checkpoints, profiling |
//! | [`peer_agreement`](check_same_settings) | all peers have the same settings |
//! | [`checkpoint`](Checkpoints) | folder and interval of checkpoints; their metadata |
//! | [`report`](TrainingReport) | the JSON report of a training run |
//! | [`error`] | errors of resuming |

mod callback;
mod checkpoint;
mod epoch_control;
mod epoch_loop;
pub mod error;
mod limits;
mod metric;
mod options;
mod peer_agreement;
mod progress;
mod report;
mod spec;

pub use callback::{Callback, NoCallback, TrainingControl};
pub use checkpoint::{CheckpointInterval, CheckpointMetadata, Checkpoints, comparable_settings};
pub use epoch_control::EpochControl;
pub use epoch_loop::{EpochEnd, EpochLearner, EpochLoop, EpochResult};
pub use error::Error;
pub use limits::{StopDecision, TrainingLimits};
pub use metric::TargetMetric;
pub use options::FitOptions;
pub use peer_agreement::{check_same_settings, check_same_values};
pub use progress::{EpochProgress, Metrics};
pub use report::{ClusterInfo, DatasetInfo, TrainingReport, TrainingSummary};
pub use spec::TrainingSpec;
