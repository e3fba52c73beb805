//! Model selection: cross-validation, and search for good settings.
//!
//! [`cross_validate`] trains a model on all folds but one and evaluates it on the other, for each
//! fold. [`search`](search()) tries settings of a [`SearchSpace`], each a *trial*, and returns the
//! best model, trained on all data. Both work for every [`Tunable`] estimator.
//!
//! ```
//! use hemiola_models::linear::{LinearLoss, data};
//! use hemiola_models::prelude::*;
//! use hemiola_models::selection::{FoldBy, SearchSettings, SilentSearch, Tunable, cross_validate, search};
//!
//! hemiola::standalone(2).workers(1).run(|cluster| {
//!     let examples = data::synthetic(cluster, 600, Seed(1))?;
//!     let logistic = LinearClassifier::builder(LinearLoss::Logistic).build()?;
//!     let found = cross_validate(cluster, &logistic, &examples, (5, &FoldBy::Class, Seed(1)), &mut |_, _| true)?;
//!     assert!(found.mean["accuracy"] > 0.6 && found.folds.len() == 5);
//!
//!     let space = logistic.space_of("c=0.01..10 log").map_err(hemiola::cluster::Error::from)?;
//!     let settings = SearchSettings { trials: 4, ..SearchSettings::new(space) };
//!     let best = search(cluster, &logistic, &examples, None, &settings, &mut SilentSearch)?;
//!     assert_eq!(best.report.trials.len(), 4);
//!     let model = best.train(cluster, &examples, FitOptions::new())?.model;
//!     assert!(model.evaluate(cluster, &examples)?.metrics["accuracy"] > 0.6);
//!     Ok(())
//! })?;
//! # Ok::<(), hemiola::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`tunable`](Tunable) | estimator whose settings can be searched |
//! | [`space`](SearchSpace) | ranges of settings, and points in them |
//! | [`schedule`](SearchMethod) | order of trials: random, grid, or successive halving |
//! | [`report`](SearchReport) | all trials with their settings and metrics |
//! | [`store`](TrialStore) | folder of an unfinished search |
//! | [`search`](search()) | the search |
//! | [`folds`](FoldBy) | assignment of records to folds |
//! | [`records`](RecordSelection) | selection of records of a data set |
//! | [`cross_validation`](cross_validate) | cross-validation |

mod cross_validation;
mod folds;
mod records;
mod report;
mod schedule;
mod search;
mod space;
mod store;
mod tunable;

pub use cross_validation::{CrossValidationReport, FoldObserver, FoldResult, cross_validate, cross_validate_with};
pub use folds::{FoldAssignment, FoldBy, FoldRole};
pub use records::RecordSelection;
pub use report::{SearchReport, TrialEpoch, TrialRecord, TrialStatus};
pub use schedule::SearchMethod;
pub use search::{SearchObserver, SearchOutcome, SearchSettings, SilentSearch, search};
pub use space::{ParameterDomain, SearchSpace, SettingValue, SettingValues, SpaceError};
pub use store::TrialStore;
pub(crate) use tunable::setting;
pub use tunable::{Parameter, ParameterKind, Tunable};
