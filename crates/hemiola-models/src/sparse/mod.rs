//! Sparse regression: lasso, elastic net, and logistic regression whose penalty makes most coefficients 0.
//!
//! Minimized is what scikit-learn minimizes, `mean loss + lambda (ratio |b|₁ + (1 − ratio)/2 |b|²)`, over coefficients `b` of columns and an intercept
//! that costs nothing. Rows are divided among peers and their workers; coefficients are the same everywhere. A round looks at all columns, works on
//! those that are near to having a coefficient, by coordinate descent and conjugate gradients in turn, and ends with the duality gap, so that
//! it is known how far from the minimum one can be. `docs/models.md` has more.
//!
//! | file | concept |
//! |---|---|
//! | `settings` | what a user chooses |
//! | `examples`, `ground` | the rows of a peer, and the way to the others |
//! | `design`, `dense`, `csc`, `kernel` | features by columns, and sums over their rows |
//! | `field` | sums over the rows of all workers and peers: the one place where anybody waits for others |
//! | `scaling` | columns centred and scaled without being changed |
//! | `quadratic` | the problem over some columns |
//! | `descend`, `polish` | coordinate descent; conjugate gradients where signs do not change |
//! | `coordinates`, `couplings`, `schedule` | coordinate descent as a scheduled program; which columns disturb each other |
//! | `loss`, `logistic` | losses; the log loss as a sequence of quadratic problems |
//! | `gap` | the dual problem: the gap, which columns can be left out, which are near |
//! | `solver` | rounds |
//! | `train` | rounds as epochs of a training |
//! | `path`, `cross_validation` | many penalties, and which is the best |
//! | `model`, `figures` | what comes out, how good it is, and how it is kept |

mod coordinates;
mod couplings;
mod cross_validation;
mod csc;
mod dense;
mod descend;
mod design;
mod examples;
mod field;
mod figures;
mod gap;
mod ground;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod kernel;
mod logistic;
mod loss;
mod model;
mod path;
mod polish;
mod quadratic;
mod scaling;
mod schedule;
mod settings;
mod solver;
mod train;

pub use cross_validation::CrossValidation;
pub use csc::Csc;
pub use dense::Dense;
pub use design::Columns;
pub use examples::Examples;
pub use kernel::Value;
pub use loss::Loss;
pub use model::{Evaluation, Model, Prediction};
pub use path::{Grid, Point};
pub use schedule::{Next, Schedule, Study, Until};
pub use settings::{Builder, Lambda, Settings};
pub use train::Trained;

/// An untrained sparse regression.
///
/// ```
/// use hemiola_models::SparseRegression;
/// use hemiola_models::sparse::{Columns, Dense, Examples, Lambda, Loss};
///
/// hemiola::standalone(1).workers(2).run(|cluster| {
///     // Four columns of eight rows; the target is twice the second, and a little of the third.
///     let value = |row: usize, column: usize| ((row * (column + 3)) % 7) as f32;
///     let columns = (0..4).flat_map(|column| (0..8).map(move |row| value(row, column))).collect();
///     let target = (0..8).map(|row| f64::from(2.0 * value(row, 1) + 0.01 * value(row, 2))).collect();
///     let examples = Examples::new(Columns::Dense(Dense::new(8, 4, columns)), target);
///     let lasso = SparseRegression::builder(Loss::Squared).lambda(Lambda::Value(0.1)).build()?;
///     let model = lasso.fit_rows(cluster, examples)?.model;
///     assert_eq!(model.coefficients.len(), 1);
///     assert!((model.coefficients[0].1 - 2.0).abs() < 0.1);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseRegression {
    settings: Settings,
}

impl SparseRegression {
    /// Collects settings, from good defaults.
    pub fn builder(loss: Loss) -> Builder {
        Builder::new(loss)
    }

    /// The same with another penalty.
    pub fn with_lambda(&self, lambda: Lambda) -> Result<Self, crate::Error> {
        Builder::from(self.settings.clone()).lambda(lambda).build()
    }

    /// What it will be trained with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
