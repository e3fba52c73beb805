//! Sparse regression: lasso, elastic net, and logistic regression with an L1 penalty.
//!
//! The objective is that of scikit-learn, `mean loss + lambda (l1_ratio |b|₁ + (1 − l1_ratio)/2
//! |b|²)`, over coefficients `b` of columns and an unpenalized intercept. Rows are distributed over
//! peers and their workers; coefficients are replicated. A round surveys all columns, optimizes a
//! working set by coordinate descent and conjugate gradients in turn, and ends with the duality
//! gap, which bounds the distance from the minimum. `docs/guides/sparse-regression.md` has more.
//!
//! | file | concept |
//! |---|---|
//! | `settings` | settings and their builder |
//! | `examples`, `problem` | the rows of a peer, and the training problem |
//! | `design`, `dense`, `csc`, `kernel` | features by columns, and sums over their rows |
//! | `row_reducer` | sums over the rows of all workers and peers: the only place where peers communicate |
//! | `scaling` | implicit centring and scaling of columns |
//! | `quadratic` | the quadratic subproblem over selected columns |
//! | `working_set`, `polish` | coordinate descent; conjugate gradients while signs do not change |
//! | `coordinate_program`, `schedule` | coordinate descent as a scheduled program |
//! | `column_correlations` | correlations of columns, for schedules |
//! | `loss`, `logistic` | losses; the log loss as a sequence of quadratic subproblems |
//! | `duality_gap` | the dual problem: the gap, screening, and distances of columns |
//! | `solver` | rounds of the solver |
//! | `train` | rounds as epochs of training |
//! | `tune` | search and cross-validation |
//! | `path`, `cross_validation` | regularization path and choice of the penalty |
//! | `path_report` | both of them in reports |
//! | `model`, `metrics` | the trained model, prediction, saving and metrics |

mod column_correlations;
mod coordinate_program;
mod cross_validation;
mod csc;
mod dense;
mod design;
mod duality_gap;
mod examples;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod kernel;
mod logistic;
mod loss;
mod metrics;
mod model;
mod path;
mod path_report;
mod polish;
mod problem;
mod quadratic;
mod row_reducer;
mod scaling;
mod schedule;
mod settings;
mod solver;
mod train;
mod tune;
mod working_set;

use crate::input::InputSchema;
pub use cross_validation::CrossValidation;
pub use csc::CscMatrix;
pub use dense::DenseColumns;
pub use design::FeatureColumns;
pub use examples::SparseExamples;
pub use kernel::ColumnValue;
pub use loss::SparseLoss;
pub(crate) use metrics::{confusion_of, metrics_of};
pub use model::{SparseEvaluation, SparseModel, SparsePrediction};
pub use path::{LambdaGrid, PathPoint};
pub use path_report::{CoefficientPath, FeaturePath, RegularizationReport};
pub use schedule::{CoordinateSchedule, ScheduleStudy, StudyLimits, UpdateOrder};
pub use settings::{Lambda, SparseRegressionBuilder, SparseSettings};

/// Sparse regression estimator: settings of a model to be trained.
///
/// ```
/// use hemiola_models::SparseRegression;
/// use hemiola_models::sparse::{FeatureColumns, DenseColumns, SparseExamples, Lambda, SparseLoss};
///
/// hemiola::standalone(1).workers(2).run(|cluster| {
///     // Four columns of eight rows; the target is twice the second, and a little of the third.
///     let value = |row: usize, column: usize| ((row * (column + 3)) % 7) as f32;
///     let columns = (0..4).flat_map(|column| (0..8).map(move |row| value(row, column))).collect();
///     let target = (0..8).map(|row| f64::from(2.0 * value(row, 1) + 0.01 * value(row, 2))).collect();
///     let examples = SparseExamples::new(FeatureColumns::Dense(DenseColumns::new(8, 4, columns)), target);
///     let lasso = SparseRegression::builder(SparseLoss::Squared).lambda(Lambda::Value(0.1)).build()?;
///     let model = lasso.fit_rows(cluster, examples)?.model;
///     assert_eq!(model.coefficients.len(), 1);
///     assert!((model.coefficients[0].1 - 2.0).abs() < 0.1);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseRegression {
    settings: SparseSettings,
    input: Option<InputSchema>,
}

impl SparseRegression {
    /// Returns a builder with default settings.
    pub fn builder(loss: SparseLoss) -> SparseRegressionBuilder {
        SparseRegressionBuilder::new(loss)
    }

    /// Returns a copy with another penalty.
    pub fn with_lambda(&self, lambda: Lambda) -> Result<Self, crate::Error> {
        let changed = SparseRegressionBuilder::from(self.settings.clone()).lambda(lambda).build()?;
        Ok(changed.with_input(self.input.clone()))
    }

    /// Sets the layout of the files that the data are read from. The model keeps it, so that new
    /// files are read alike.
    #[must_use]
    pub fn with_input(mut self, schema: Option<InputSchema>) -> Self {
        self.input = schema;
        self
    }
}
