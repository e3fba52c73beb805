//! Metrics of predictions: classes, probabilities, quantities and rankings.
//!
//! Each metric is one function over plain values, with the definition of scikit-learn where it has
//! the metric. All models and commands compute their metrics here. Sums of distributed evaluations
//! are kept in an [`ExactSum`], whose value does not depend on the order of additions, so that an
//! evaluation has the same bits on any number of peers and workers.
//!
//! | name in reports | meaning | best |
//! |---|---|---|
//! | `accuracy` | [fraction of correct classes](ClassCounts::accuracy) | 1 |
//! | `precision`, `recall`, `f1` | [of the second of two classes](ClassCounts::scores) | 1 |
//! | `precision-macro`, `recall-macro`, `f1-macro` | [mean over more than two classes](Averaging::Macro) | 1 |
//! | `precision-weighted`, `recall-weighted`, `f1-weighted` | [mean weighted by class sizes](Averaging::Weighted) | 1 |
//! | `auc` | [area under the ROC curve](roc_auc) | 1 |
//! | `pr-auc` | [average precision](average_precision), the area under the precision-recall curve | 1 |
//! | `logloss` | [mean negative log-probability of the true class](log_loss) | 0 |
//! | `brier` | [mean squared error of the probabilities](brier) | 0 |
//! | `rmse`, `mae`, `r2` | [errors of quantities](ErrorSums) | 0, 0, 1 |
//! | `recall@k`, `precision@k`, `ndcg@k`, `map@k`, `mrr@k` | [of the first k of a ranking](RankedHits) | 1 |
//! | `coverage@k` | fraction of all items that are among the first k of any ranking | – |
//! | `perplexity` | [document completion](crate::lda::DocumentCompletion) | 1 |
//!
//! ```
//! use hemiola_models::metrics::{RankedHits, average_precision, roc_auc};
//! let scored = [(0.1, false), (0.4, false), (0.35, true), (0.8, true)];
//! assert_eq!(roc_auc(&scored), Some(0.75));
//! assert!((average_precision(&scored).unwrap() - 0.8333333333333333).abs() < 1e-15);
//! // A user likes three items, two of which are ranked first and fourth.
//! let ranking = RankedHits::new(vec![0, 3], 3);
//! assert_eq!((ranking.precision(4), ranking.reciprocal_rank(4)), (0.5, 1.0));
//! ```

mod classes;
mod errors;
mod exact_sum;
mod names;
mod probabilities;
mod rankings;
mod scores;

pub use classes::{Averaging, ClassCounts, ClassScores};
pub use errors::{ErrorSums, mae, r2, rmse};
pub use exact_sum::ExactSum;
pub use names::{MetricName, UnknownMetric};
pub use probabilities::{MIN_PROBABILITY, brier, log_loss};
pub(crate) use probabilities::{brier_of, log_loss_of};
pub use rankings::RankedHits;
pub use scores::{average_precision, roc_auc};
