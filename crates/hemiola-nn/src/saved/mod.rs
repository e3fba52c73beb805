//! Use of a saved net: prediction, evaluation, generation, recommendation and export.
//!
//! [`SavedNet`] reads a folder that [`NetFit`](crate::training::NetFit) has saved with a
//! [description](NetDescription). It needs no cluster and no training data. A saved net is used as
//! one of three kinds:
//!
//! | file | concept |
//! |---|---|
//! | [`saved_net`](SavedNet) | description and weights of a folder |
//! | [`description`](NetDescription) | what the use of a net needs besides its weights |
//! | [`architecture`](NetArchitecture) | kind and sizes of a net |
//! | [`image_classifier`](ImageClassifier) | classes of images, by `mlp`, `cnn` and `resnet` |
//! | [`language_model`](LanguageModel) | perplexity and generated text, by `lstm`, `transformer` and `gpt` |
//! | [`gpt_weights`] | weights of `gpt` in files of Hugging Face |
//! | `torch_weights` | [weights for PyTorch](SavedNet::to_torch_safetensors) |
//! | [`rating_model`](RatingModel) | ratings and recommendations, by `ncf` |
//!
//! ```
//! use burn::tensor::Device;
//! use hemiola_nn::data::synthetic::SyntheticImages;
//! use hemiola_nn::models::MlpConfig;
//! use hemiola_nn::saved::{NetArchitecture, NetDescription, SavedNet};
//! use hemiola_nn::training::{Checkpoints, FitOptions, NetFit};
//! use hemiola_nn::{Optimizer, Trainer};
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path().join("net");
//!
//! let images = SyntheticImages { examples: 200, seed: 1, ..SyntheticImages::default() }.dataset();
//! let config = MlpConfig { inputs: 64, hidden: vec![32], classes: 4, seed: 1 };
//! hemiola_cluster::standalone(1).run(|cluster| {
//!     let device = Device::flex();
//!     let net = config.init(&device.clone().autodiff());
//!     let architecture = NetArchitecture::Mlp(config.clone());
//!     let description = NetDescription { architecture, input: (&images).into() };
//!     let fit = NetFit::new(&images, &device).epochs(3).batch_size(20).description(description);
//!     let options = FitOptions::new().with_checkpoints(Checkpoints::new(&folder));
//!     fit.fit_with(Trainer::builder(cluster, net, Optimizer::adam(0.01)), options)
//! })?;
//!
//! let classifier = SavedNet::open(&folder)?.image_classifier(&Device::flex())?;
//! let evaluation = classifier.evaluate(&images)?;
//! assert!(evaluation.metrics["accuracy"] > 0.5);
//! let best = &classifier.predict(&images.take(3))?[0];
//! println!("{} with probability {:.3}", classifier.input().classes[best.class], best.probability);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod architecture;
pub(crate) mod description;
pub mod gpt_weights;
mod image_classifier;
mod language_model;
mod rating_model;
mod saved_net;
mod torch_weights;

pub use architecture::NetArchitecture;
pub use description::{ImageInput, NetDescription, NetInput, RatingInput, TextInput};
pub use image_classifier::{ImageClassifier, ImageEvaluation, ImagePrediction};
pub use language_model::{GenerationOptions, LanguageModel, TextEvaluation};
pub use rating_model::{RatingEvaluation, RatingModel};
pub use saved_net::{SavedNet, SavedWeights};
