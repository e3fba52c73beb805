//! Training of a net over epochs: evaluation, stopping, checkpoints, resuming, callbacks, report.
//!
//! [`NetFit`] trains any [`NeuralNet`](crate::models::NeuralNet) on any
//! [`Dataset`](crate::data::Dataset). The loop over epochs is that of `hemiola-training`, as for
//! all models; its options and reports are re-exported here. A [`Trainer`](crate::Trainer) by
//! itself runs single steps, for programs with a loop of their own.
//!
//! A Burn module of your own, with evaluation and checkpoints:
//!
//! ```
//! use burn::module::Module;
//! use burn::tensor::{Device, Tensor, activation::relu};
//! use hemiola_nn::data::synthetic::SyntheticImages;
//! use hemiola_nn::layers::{Linear, LinearConfig};
//! use hemiola_nn::models::batch::{self, EvalMetrics, ImageBatch, NeuralNet};
//! use hemiola_nn::training::{Checkpoints, FitOptions, NetFit, NetMetric};
//! use hemiola_nn::{Optimizer, Trainer};
//!
//! #[derive(Module, Debug)]
//! struct Net { hidden: Linear, output: Linear }
//!
//! impl Net {
//!     fn forward(&self, batch: &ImageBatch) -> Tensor<2> {
//!         self.output.forward(relu(self.hidden.forward(batch.images.clone().flatten::<2>(1, 3))))
//!     }
//! }
//! impl NeuralNet for Net {
//!     type Batch = ImageBatch;
//!     fn loss(&self, batch: &ImageBatch) -> Tensor<1> {
//!         batch::cross_entropy(self.forward(batch), batch.labels.clone())
//!     }
//!     fn evaluate(&self, batch: &ImageBatch) -> EvalMetrics {
//!         batch::evaluate(self.forward(batch), batch.labels.clone())
//!     }
//! }
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("net");
//!
//! hemiola_cluster::standalone(2).run(|cluster| {
//!     let device = Device::flex();
//!     let layer = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&device.clone().autodiff());
//!     let net = Net { hidden: layer(64, 32), output: layer(32, 4) };
//!     let images = SyntheticImages { examples: 500, seed: 1, ..SyntheticImages::default() }.dataset();
//!     let (train, test) = (images.take(400), images.skip(400));
//!     let fit = NetFit::new(&train, &device).validation(&test).metric(NetMetric::Accuracy).batch_size(20).epochs(3);
//!     let options = FitOptions::new().with_checkpoints(Checkpoints::new(&folder));
//!     let trained = fit.fit_with(Trainer::builder(cluster, net, Optimizer::adam(0.01)), options)?;
//!     let accuracy = trained.report.result.validation.unwrap()["accuracy"];
//!     assert!(accuracy > 0.5, "{accuracy}");
//!     Ok(())
//! })?;
//! assert!(folder.join("net/manifest.json").is_file()); // with the history of the run
//! # Ok::<(), hemiola_cluster::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`net_fit`](NetFit) | settings of a run, and its result |
//! | `net_learner` | one epoch, evaluation and checkpoint, for the loop over epochs |
//! | `batch_loader` | threads that make the batches of coming steps |
//! | `pause` | agreement of peers on the step at which training pauses |
//! | [`net_metric`](NetMetric) | validation metrics |
//! | [`journal`](check_checkpoints) | history of a run in the checkpoint of its trainer |

mod batch_loader;
mod journal;
mod net_fit;
mod net_learner;
mod net_metric;
mod pause;

pub use journal::check_checkpoints;
pub use net_fit::{FittedNet, NetFit};
pub use net_metric::NetMetric;

pub use hemiola_training::{
    Callback, CheckpointInterval, Checkpoints, ClusterInfo, DatasetInfo, EpochProgress, FitOptions, Metrics,
    NoCallback, TargetMetric, TrainingControl, TrainingLimits, TrainingReport, TrainingSummary,
};
