//! The solver: survey all columns, choose a working set, optimize it, and repeat until the duality
//! gap is closed.
//!
//! A round chooses the columns nearest to having a coefficient, solves the problem over those to
//! moderate accuracy, and surveys all columns that are not screened out. The survey gives the
//! duality gap, so the quality of a solution is always known; it also tells whether the next round
//! needs other columns. The same solver continues from one penalty to the next (warm start).
//!
//! **Invariants:** the objective does not grow from round to round. All peers hold bit-identical
//! coefficients, because they compute them from the same sums. `slopes` are those of the last
//! survey for all active columns.

use super::duality_gap::{DualBound, nearest};
use super::kernel::ColumnValue;
use super::logistic::{LogisticMargins, newton};
use super::loss::{SparseLoss, entropy};
use super::polish::polish;
use super::quadratic::{ElasticNetPenalty, QuadraticProblem};
use super::row_reducer::RowReducer;
use super::scaling::{ColumnScaling, RowResidual};
use super::schedule::{CoordinateSchedule, ScheduledDescent};
use super::working_set::WorkingSet;
use hemiola_cluster::Result;

/// Size of the working set in the first round, and its later size per nonzero coefficient.
const INITIAL_WORKING_SET: usize = 500;
const WORKING_SET_GROWTH: f64 = 1.5;
/// The working-set problem is solved to this fraction of the violation over all columns.
const SUBPROBLEM_TOLERANCE: f64 = 0.1;
/// Passes of coordinate descent between two conjugate-gradient phases.
const DESCENT_PASSES: usize = 5;
/// Maximum number of alternations of both per round.
const MAX_ALTERNATIONS: usize = 100;
/// Sums below this fraction of the largest are rounding error.
const ROUNDING: f64 = 1e-15;
/// Lower bound of class probabilities.
const MIN_CLASS_PROBABILITY: f64 = 1e-10;
/// Rounds without progress after which the solver is exhausted.
const MAX_STALLED_ROUNDS: u32 = 10;

/// Optimality of the current point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OptimalityCheck {
    /// Objective: loss plus penalty.
    pub(super) objective: f64,
    /// Duality gap relative to the objective without coefficients.
    pub(super) gap: f64,
    /// Loss relative to the objective without coefficients.
    pub(super) unexplained: f64,
    /// Number of nonzero coefficients.
    pub(super) support: usize,
    /// Number of columns not screened out.
    pub(super) active: usize,
    /// Largest violation of the optimality condition.
    pub(super) violation: f64,
    /// Largest absolute correlation of a column with the residual.
    pull: f64,
}

/// Sums over coefficients, and maxima over columns.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnTally {
    pull: f64,
    violation: f64,
    support: usize,
    square: f64,
    sum: f64,
}

impl ColumnTally {
    fn merge(self, other: Self) -> Self {
        Self {
            pull: self.pull.max(other.pull),
            violation: self.violation.max(other.violation),
            support: self.support + other.support,
            square: self.square + other.square,
            sum: self.sum + other.sum,
        }
    }
}

/// Solver state: a problem and its coefficients.
#[derive(Clone, Debug)]
pub(super) struct SparseSolver {
    pub(super) loss: SparseLoss,
    pub(super) penalty: ElasticNetPenalty,
    pub(super) scaling: ColumnScaling,
    /// Coefficients of centred and scaled columns.
    pub(super) coefficients: Vec<f64>,
    pub(super) residual: RowResidual,
    /// Targets of this peer's rows.
    pub(super) target: Vec<f64>,
    /// Log-odds, for the logistic loss.
    pub(super) margins: Option<LogisticMargins>,
    /// Number of rows of all peers.
    pub(super) rows: f64,
    /// Mean target: the prediction without coefficients.
    mean: f64,
    /// Objective value without any coefficients.
    start: f64,
    slopes: Vec<f64>,
    dual: DualBound,
    working: WorkingSet,
    size: usize,
    survey: OptimalityCheck,
    /// Rounds since the gap or the objective last fell by more than rounding.
    stalled: u32,
    /// Columns visited, over all rounds.
    pub(super) visited: u64,
    /// Schedule of coordinate descent with its random seed; `None` updates block by block.
    schedule: Option<(CoordinateSchedule, u64)>,
}

impl SparseSolver {
    /// *Collective.* Computes the moments of the data. All coefficients are 0, and the penalty is
    /// infinite.
    pub(super) fn begin<T: ColumnValue>(
        reducer: &mut RowReducer<'_, '_, T>,
        loss: SparseLoss,
        target: Vec<f64>,
        intercept: bool,
        standardize: bool,
    ) -> Result<Self> {
        let columns = reducer.design().columns();
        let mut sums = [target.len() as f64, target.iter().sum(), target.iter().map(|y| y * y).sum()];
        reducer.sum(&mut sums)?;
        let [rows, sum, square] = sums;
        let mean = if intercept { sum / rows } else { 0.0 };
        let (margins, residual) = match loss {
            SparseLoss::Squared => {
                (None, RowResidual { values: target.clone(), shift: -mean, weights: Vec::new(), weight: rows })
            }
            SparseLoss::Logistic => {
                // A fold may have a single class, which no finite intercept explains.
                let chance = mean.clamp(MIN_CLASS_PROBABILITY, 1.0 - MIN_CLASS_PROBABILITY);
                let margins =
                    LogisticMargins::new(target.len(), if intercept { (chance / (1.0 - chance)).ln() } else { 0.0 });
                let values = margins.residual(&target);
                (Some(margins), RowResidual { values, shift: 0.0, weights: Vec::new(), weight: rows })
            }
        };
        let all: Vec<u32> = (0..columns as u32).collect();
        let mut moments = vec![[0.0; 3]; columns];
        reducer.moments(&all, &residual.values, false, &mut moments)?;
        let scaling = ColumnScaling::new(&moments, rows, intercept, standardize);
        let moved = residual.shift * residual.weight;
        let slope =
            |(at, moment): (usize, &[f64; 3])| (moment[0] + moved * scaling.mean[at]) * scaling.scale[at] / rows;
        let slopes: Vec<f64> = moments.iter().enumerate().map(slope).collect();
        let dual = DualBound::new(&scaling.curve);
        let mut solver = Self {
            loss,
            penalty: ElasticNetPenalty { l1: f64::INFINITY, l2: 0.0 },
            coefficients: vec![0.0; columns],
            residual,
            target,
            margins,
            rows,
            mean,
            start: 0.0,
            slopes,
            dual,
            working: WorkingSet::default(),
            size: INITIAL_WORKING_SET,
            survey: OptimalityCheck {
                objective: 0.0,
                gap: 0.0,
                unexplained: 1.0,
                support: 0,
                active: 0,
                violation: 0.0,
                pull: 0.0,
            },
            stalled: 0,
            visited: columns as u64,
            schedule: None,
            scaling,
        };
        let (found, _) = solver.losses(reducer)?;
        // A target that is constant up to rounding is fully explained.
        solver.start = if found <= ROUNDING * square / rows { 0.0 } else { found };
        solver.survey.objective = found;
        Ok(solver)
    }

    /// Sets the schedule of coordinate descent.
    pub(super) fn scheduled(mut self, schedule: Option<CoordinateSchedule>, seed: u64) -> Self {
        self.schedule = schedule.map(|schedule| (schedule, seed));
        self
    }

    /// *Collective.* Starts from coefficients in the scale of the data.
    pub(super) fn restore<T: ColumnValue>(
        &mut self,
        reducer: &mut RowReducer<'_, '_, T>,
        coefficients: &[(u32, f64)],
    ) -> Result<()> {
        let known = coefficients.iter().filter(|(column, _)| self.scaling.curve[*column as usize] > 0.0);
        let (columns, by): (Vec<u32>, Vec<f64>) =
            known.map(|(column, value)| (*column, value / self.scaling.scale[*column as usize])).unzip();
        for (column, by) in columns.iter().zip(&by) {
            self.coefficients[*column as usize] = *by;
        }
        self.apply_changes(reducer, &columns, &by)
    }

    /// *Collective.* Updates the residual after coefficients have changed.
    fn apply_changes<T: ColumnValue>(
        &mut self,
        reducer: &mut RowReducer<'_, '_, T>,
        columns: &[u32],
        by: &[f64],
    ) -> Result<()> {
        let Self { penalty, scaling, residual, rows, margins, target, .. } = self;
        if columns.is_empty() {
            return Ok(());
        }
        match margins {
            Some(margins) => margins.step(reducer, scaling, (columns, by), target, residual),
            None => {
                QuadraticProblem::new(reducer, scaling, residual, *penalty, *rows).step((columns, by), &[], &mut [])
            }
        }
    }

    /// Returns the smallest `l1` for which all coefficients are 0. Valid before the first round.
    pub(super) fn max_l1(&self) -> f64 {
        self.dual.active.iter().fold(0.0, |most, column| most.max(self.slopes[*column as usize].abs()))
    }

    /// *Collective.* Switches to another penalty.
    pub(super) fn set_penalty<T: ColumnValue>(
        &mut self,
        reducer: &mut RowReducer<'_, '_, T>,
        penalty: ElasticNetPenalty,
    ) -> Result<()> {
        self.penalty = penalty;
        let fresh = self.coefficients.iter().all(|b| *b == 0.0);
        self.dual = DualBound::new(&self.scaling.root);
        self.stalled = 0;
        self.check_optimality(reducer, !fresh)
    }

    /// Returns the optimality of the current point.
    pub(super) fn survey(&self) -> OptimalityCheck {
        self.survey
    }

    /// Returns whether rounds make no more progress: the rest of the gap is rounding error.
    pub(super) fn is_exhausted(&self) -> bool {
        self.stalled >= MAX_STALLED_ROUNDS
    }

    /// *Collective.* Chooses a working set, optimizes it, and surveys all columns.
    pub(super) fn round<T: ColumnValue>(&mut self, reducer: &mut RowReducer<'_, '_, T>) -> Result<()> {
        self.screen(reducer)?;
        let wanted = (self.survey.support as f64 * WORKING_SET_GROWTH) as usize;
        self.size = self.size.max(wanted);
        let chosen = self.choose(reducer)?;
        self.working.select(&chosen, reducer.block_size(), self.coefficients.len());
        let target = SUBPROBLEM_TOLERANCE * self.survey.violation;
        match self.loss {
            SparseLoss::Squared => self.improve(reducer, target)?,
            SparseLoss::Logistic => newton(self, reducer, target)?,
        }
        let before = self.survey;
        self.check_optimality(reducer, true)?;
        let fallen = self.survey.gap < 0.99 * before.gap || self.survey.objective < before.objective * (1.0 - ROUNDING);
        self.stalled = if fallen { 0 } else { self.stalled + 1 };
        Ok(())
    }

    /// Returns the working set: columns with a coefficient, and those nearest to their constraint,
    /// in units of how far a step moves it.
    fn choose<T: ColumnValue>(&self, reducer: &mut RowReducer<'_, '_, T>) -> Result<Vec<u32>> {
        let Self { scaling, coefficients, slopes, dual, size, .. } = self;
        let distance = |column: &u32| {
            let at = *column as usize;
            let b = coefficients[at];
            let distance = if b == 0.0 { (self.survey.pull - slopes[at].abs()) / scaling.root[at] } else { -1.0 };
            (distance, *column)
        };
        let parts = reducer.share(&dual.active, |columns| nearest(columns.iter().map(distance).collect(), *size))?;
        let mut columns: Vec<u32> = nearest(parts.concat(), *size).into_iter().map(|(_, column)| column).collect();
        columns.sort_unstable();
        Ok(columns)
    }

    /// Returns the working set for changes.
    pub(super) fn working(&mut self) -> &mut WorkingSet {
        &mut self.working
    }

    /// *Collective.* Solves the quadratic subproblem over the working set.
    pub(super) fn improve<T: ColumnValue>(&mut self, reducer: &mut RowReducer<'_, '_, T>, target: f64) -> Result<()> {
        let Self { penalty, scaling, coefficients, residual, working, visited, rows, schedule, .. } = self;
        let mut problem = QuadraticProblem::new(reducer, scaling, residual, *penalty, *rows);
        let columns = working.columns();
        let mut slopes = vec![0.0; columns.len()];
        let scheduled = schedule.map(|(schedule, seed)| ScheduledDescent::new(&mut problem, &columns, schedule, seed));
        let mut scheduled = scheduled.transpose()?;
        for _ in 0..MAX_ALTERNATIONS {
            *visited += match &mut scheduled {
                None => working.descend(&mut problem, coefficients, DESCENT_PASSES, target)?,
                Some(scheduled) => scheduled.descend(&mut problem, coefficients, DESCENT_PASSES)?,
            };
            problem.slopes(&columns, &mut slopes)?;
            *visited += columns.len() as u64;
            let violation = |(column, slope): (&u32, &f64)| penalty.violation(*slope, coefficients[*column as usize]);
            if columns.iter().zip(&slopes).map(violation).fold(0.0, f64::max) <= target {
                break;
            }
            let support = columns.iter().zip(&slopes).filter(|(column, _)| coefficients[**column as usize] != 0.0);
            let (support, of_support): (Vec<u32>, Vec<f64>) = support.unzip();
            *visited += polish(&mut problem, coefficients, (&support, &of_support), target)?;
        }
        Ok(())
    }

    /// Screens columns out, and removes their coefficients.
    fn screen<T: ColumnValue>(&mut self, reducer: &mut RowReducer<'_, '_, T>) -> Result<()> {
        let Self { loss, penalty, scaling, coefficients, dual, .. } = self;
        let gap = (self.survey.objective - dual.value).max(0.0);
        let bounds = (gap, loss.max_curvature());
        let kept = reducer.share(&dual.active, |columns| dual.unscreened(columns, *penalty, bounds, &scaling.root))?;
        let kept = kept.concat();
        let mut left = Vec::new();
        if kept.len() < dual.active.len() {
            let mut of_kept = kept.iter().peekable();
            let gone = dual.active.iter().filter(|column| of_kept.next_if_eq(column).is_none());
            left = gone.copied().filter(|column| coefficients[*column as usize] != 0.0).collect();
            dual.active = kept;
        }
        let by: Vec<f64> = left.iter().map(|column| -coefficients[*column as usize]).collect();
        for column in &left {
            coefficients[*column as usize] = 0.0;
        }
        self.apply_changes(reducer, &left, &by)
    }

    /// *Collective.* Returns the mean loss, and for the squared loss the mean of target times
    /// residual.
    fn losses<T: ColumnValue>(&self, reducer: &RowReducer<'_, '_, T>) -> Result<(f64, f64)> {
        let mut sums = match &self.margins {
            None => {
                let square = self.residual.square(&self.residual.values, self.residual.shift);
                let met = self.target.iter().zip(self.residual.iter()).map(|(y, u)| (y - self.mean) * u).sum();
                [0.5 * square, met]
            }
            Some(margins) => [margins.loss(&self.target), 0.0],
        };
        reducer.sum(&mut sums)?;
        Ok((sums[0] / self.rows, sums[1] / self.rows))
    }

    /// *Collective.* Computes slopes of all active columns (if they have changed), the dual point
    /// and the gap.
    fn check_optimality<T: ColumnValue>(&mut self, reducer: &mut RowReducer<'_, '_, T>, changed: bool) -> Result<()> {
        if changed {
            let Self { penalty, scaling, residual, rows, dual, slopes, visited, .. } = self;
            let mut found = vec![0.0; dual.active.len()];
            QuadraticProblem::new(reducer, scaling, residual, *penalty, *rows).slopes(&dual.active, &mut found)?;
            *visited += dual.active.len() as u64;
            for (column, slope) in dual.active.iter().zip(found) {
                slopes[*column as usize] = slope;
            }
        }
        let (loss, met) = self.losses(reducer)?;
        let Self { penalty, coefficients, slopes, dual, .. } = self;
        let tally = |tally: ColumnTally, column: &u32| {
            let (b, slope) = (coefficients[*column as usize], slopes[*column as usize]);
            tally.merge(ColumnTally {
                pull: (slope - penalty.l2 * b).abs(),
                violation: penalty.violation(slope, b),
                support: usize::from(b != 0.0),
                square: b * b,
                sum: b.abs(),
            })
        };
        let tallies = reducer.share(&dual.active, |columns| columns.iter().fold(ColumnTally::default(), tally))?;
        let ColumnTally { pull: most, violation, support, square, sum } =
            tallies.into_iter().fold(ColumnTally::default(), ColumnTally::merge);
        let bound = if most > 0.0 { penalty.l1 / most } else { f64::INFINITY };
        let (scale, value) = match self.loss {
            SparseLoss::Squared => {
                // The best multiple of the residual is the maximum of a parabola, or the largest
                // feasible one.
                let bend = 2.0 * loss + penalty.l2 * square;
                let scale = if bend > 0.0 { (met / bend).clamp(-bound, bound) } else { 0.0 };
                (scale, scale * met - 0.5 * scale * scale * bend)
            }
            SparseLoss::Logistic => {
                let scale = bound.min(1.0);
                let mut sums = [self.residual.values.iter().map(|u| entropy(scale * u.abs())).sum()];
                reducer.sum(&mut sums)?;
                (scale, sums[0] / self.rows - 0.5 * scale * scale * penalty.l2 * square)
            }
        };
        dual.offer(value, scale, |column| slopes[column] - penalty.l2 * coefficients[column]);
        let objective = loss + penalty.l1_cost(sum) + 0.5 * penalty.l2 * square;
        let share = |value: f64| if self.start > 0.0 { value / self.start } else { 0.0 };
        self.survey = OptimalityCheck {
            objective,
            gap: share((objective - dual.value).max(0.0)),
            unexplained: share(loss),
            support,
            active: dual.active.len(),
            violation,
            pull: most,
        };
        Ok(())
    }
}
