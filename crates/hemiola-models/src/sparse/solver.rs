//! The solver: look at all columns, choose some, work on those, and again, until the gap is closed.
//!
//! A round chooses the columns that are nearest to having a coefficient, solves the problem over those alone about as well as is worth it, and surveys all columns that
//! are not screened out. The survey gives the duality gap, so there is never a doubt about how good a solution is; it also says whether the next
//! round needs other columns. The same solver goes from one penalty to the next, starting where it is.
//!
//! **Invariants:** the objective does not grow from round to round. All peers hold the same coefficients, bit for bit, because they compute them from
//! the same sums. `slopes` are those of the last survey for all columns alive.

use super::descend::WorkingSet;
use super::field::Field;
use super::gap::{Dual, nearest};
use super::kernel::Value;
use super::logistic::{Margins, newton};
use super::loss::{Loss, entropy};
use super::polish::polish;
use super::quadratic::{Penalty, Quadratic};
use super::scaling::{Residual, Scaling};
use super::schedule::{Schedule, Scheduled};
use hemiola::Result;

/// Columns worked on in the first round, and how many for each that has a coefficient later.
const FIRST: usize = 500;
const PER_COEFFICIENT: f64 = 1.5;
/// The problem over chosen columns is solved until what it fails by is this share of what all columns failed by.
const ENOUGH: f64 = 0.1;
/// Passes of coordinate descent between two steps of conjugate gradients.
const PASSES: usize = 5;
/// Both are done so many times in a round at most.
const TURNS: usize = 100;
/// What is below this share of the largest sum is rounding.
const ROUNDING: f64 = 1e-15;
/// Chances of a class are taken for no less than this.
const RAREST: f64 = 1e-10;
/// After so many rounds without any progress there will be none.
const PATIENCE: u32 = 10;

/// Where a solver is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Survey {
    /// Loss and penalty.
    pub(super) objective: f64,
    /// The duality gap, in shares of the objective without any coefficient.
    pub(super) gap: f64,
    /// The loss alone, in the same shares.
    pub(super) unexplained: f64,
    /// How many coefficients are not 0.
    pub(super) support: usize,
    /// How many columns are not screened out.
    pub(super) alive: usize,
    /// By how much the condition for a minimum fails along one coefficient at most.
    pub(super) violation: f64,
    /// What the column pulls that pulls most.
    pull: f64,
}

/// Sums over coefficients, and what is the most of columns.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    pull: f64,
    violation: f64,
    support: usize,
    square: f64,
    sum: f64,
}

impl Tally {
    fn and(self, other: Self) -> Self {
        Self {
            pull: self.pull.max(other.pull),
            violation: self.violation.max(other.violation),
            support: self.support + other.support,
            square: self.square + other.square,
            sum: self.sum + other.sum,
        }
    }
}

/// A problem and its coefficients.
#[derive(Clone, Debug)]
pub(super) struct Solver {
    pub(super) loss: Loss,
    pub(super) penalty: Penalty,
    pub(super) scaling: Scaling,
    /// Of centred and scaled columns.
    pub(super) coefficients: Vec<f64>,
    pub(super) residual: Residual,
    /// Of this peer's rows.
    pub(super) target: Vec<f64>,
    /// Of the logistic loss.
    pub(super) margins: Option<Margins>,
    /// Of all peers.
    pub(super) rows: f64,
    /// The mean target, by which predictions without coefficients begin.
    mean: f64,
    /// The objective without any coefficient.
    start: f64,
    slopes: Vec<f64>,
    dual: Dual,
    working: WorkingSet,
    size: usize,
    survey: Survey,
    /// Rounds since the gap or the objective has last fallen by more than rounding.
    stalled: u32,
    /// Columns that were visited, over all rounds.
    pub(super) visited: u64,
    /// How coordinate descent is scheduled, if not block by block; and what its chance comes from.
    schedule: Option<(Schedule, u64)>,
}

impl Solver {
    /// *Collective.* Looks at the data; all coefficients are 0, and the penalty so large that they stay it.
    pub(super) fn begin<T: Value>(
        field: &mut Field<'_, '_, T>,
        loss: Loss,
        target: Vec<f64>,
        intercept: bool,
        standardize: bool,
    ) -> Result<Self> {
        let columns = field.design().columns();
        let mut sums = [target.len() as f64, target.iter().sum(), target.iter().map(|y| y * y).sum()];
        field.sum(&mut sums)?;
        let [rows, sum, square] = sums;
        let mean = if intercept { sum / rows } else { 0.0 };
        let (margins, residual) = match loss {
            Loss::Squared => {
                (None, Residual { values: target.clone(), shift: -mean, weights: Vec::new(), weight: rows })
            }
            Loss::Logistic => {
                // A fold may have one class alone, which no finite intercept explains.
                let chance = mean.clamp(RAREST, 1.0 - RAREST);
                let margins = Margins::new(target.len(), if intercept { (chance / (1.0 - chance)).ln() } else { 0.0 });
                let values = margins.residual(&target);
                (Some(margins), Residual { values, shift: 0.0, weights: Vec::new(), weight: rows })
            }
        };
        let all: Vec<u32> = (0..columns as u32).collect();
        let mut moments = vec![[0.0; 3]; columns];
        field.look(&all, &residual.values, false, &mut moments)?;
        let scaling = Scaling::new(&moments, rows, intercept, standardize);
        let moved = residual.shift * residual.weight;
        let slope =
            |(at, moment): (usize, &[f64; 3])| (moment[0] + moved * scaling.mean[at]) * scaling.scale[at] / rows;
        let slopes: Vec<f64> = moments.iter().enumerate().map(slope).collect();
        let dual = Dual::new(&scaling.curve);
        let mut solver = Self {
            loss,
            penalty: Penalty { l1: f64::INFINITY, l2: 0.0 },
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
            size: FIRST,
            survey: Survey {
                objective: 0.0,
                gap: 0.0,
                unexplained: 1.0,
                support: 0,
                alive: 0,
                violation: 0.0,
                pull: 0.0,
            },
            stalled: 0,
            visited: columns as u64,
            schedule: None,
            scaling,
        };
        let (found, _) = solver.losses(field)?;
        // What is constant, but for rounding, is explained.
        solver.start = if found <= ROUNDING * square / rows { 0.0 } else { found };
        solver.survey.objective = found;
        Ok(solver)
    }

    /// The same with a schedule.
    pub(super) fn scheduled(mut self, schedule: Option<Schedule>, seed: u64) -> Self {
        self.schedule = schedule.map(|schedule| (schedule, seed));
        self
    }

    /// *Collective.* Starts from coefficients of columns as they are in the data.
    pub(super) fn restore<T: Value>(
        &mut self,
        field: &mut Field<'_, '_, T>,
        coefficients: &[(u32, f64)],
    ) -> Result<()> {
        let known = coefficients.iter().filter(|(column, _)| self.scaling.curve[*column as usize] > 0.0);
        let (columns, by): (Vec<u32>, Vec<f64>) =
            known.map(|(column, value)| (*column, value / self.scaling.scale[*column as usize])).unzip();
        for (column, by) in columns.iter().zip(&by) {
            self.coefficients[*column as usize] = *by;
        }
        self.moved(field, &columns, &by)
    }

    /// *Collective.* Coefficients have changed: what is left to explain follows.
    fn moved<T: Value>(&mut self, field: &mut Field<'_, '_, T>, columns: &[u32], by: &[f64]) -> Result<()> {
        let Self { penalty, scaling, residual, rows, margins, target, .. } = self;
        if columns.is_empty() {
            return Ok(());
        }
        match margins {
            Some(margins) => margins.step(field, scaling, (columns, by), target, residual),
            None => Quadratic::new(field, scaling, residual, *penalty, *rows).step((columns, by), &[], &mut []),
        }
    }

    /// The smallest `l1` for which all coefficients are 0. To be asked before the first round.
    pub(super) fn largest(&self) -> f64 {
        self.dual.alive.iter().fold(0.0, |most, column| most.max(self.slopes[*column as usize].abs()))
    }

    /// *Collective.* Turns to another penalty.
    pub(super) fn aim<T: Value>(&mut self, field: &mut Field<'_, '_, T>, penalty: Penalty) -> Result<()> {
        self.penalty = penalty;
        let fresh = self.coefficients.iter().all(|b| *b == 0.0);
        self.dual = Dual::new(&self.scaling.root);
        self.stalled = 0;
        self.judge(field, !fresh)
    }

    /// Where it is.
    pub(super) fn survey(&self) -> Survey {
        self.survey
    }

    /// Whether rounds make no more progress: what is left of the gap is rounding.
    pub(super) fn is_exhausted(&self) -> bool {
        self.stalled >= PATIENCE
    }

    /// *Collective.* Chooses columns, works on those, and surveys.
    pub(super) fn round<T: Value>(&mut self, field: &mut Field<'_, '_, T>) -> Result<()> {
        self.screen(field)?;
        let wanted = (self.survey.support as f64 * PER_COEFFICIENT) as usize;
        self.size = self.size.max(wanted);
        let chosen = self.choose(field)?;
        self.working.admit(&chosen, field.together(), self.coefficients.len());
        let target = ENOUGH * self.survey.violation;
        match self.loss {
            Loss::Squared => self.improve(field, target)?,
            Loss::Logistic => newton(self, field, target)?,
        }
        let before = self.survey;
        self.judge(field, true)?;
        let fallen = self.survey.gap < 0.99 * before.gap || self.survey.objective < before.objective * (1.0 - ROUNDING);
        self.stalled = if fallen { 0 } else { self.stalled + 1 };
        Ok(())
    }

    /// The columns to work on: those with a coefficient, and those whose constraint is the nearest, in units of how far a step moves it.
    fn choose<T: Value>(&self, field: &mut Field<'_, '_, T>) -> Result<Vec<u32>> {
        let Self { scaling, coefficients, slopes, dual, size, .. } = self;
        let distance = |column: &u32| {
            let at = *column as usize;
            let b = coefficients[at];
            let distance = if b == 0.0 { (self.survey.pull - slopes[at].abs()) / scaling.root[at] } else { -1.0 };
            (distance, *column)
        };
        let parts = field.share(&dual.alive, |columns| nearest(columns.iter().map(distance).collect(), *size))?;
        let mut columns: Vec<u32> = nearest(parts.concat(), *size).into_iter().map(|(_, column)| column).collect();
        columns.sort_unstable();
        Ok(columns)
    }

    /// The columns that are worked on.
    pub(super) fn working(&mut self) -> &mut WorkingSet {
        &mut self.working
    }

    /// *Collective.* Solves the quadratic problem over the chosen columns.
    pub(super) fn improve<T: Value>(&mut self, field: &mut Field<'_, '_, T>, target: f64) -> Result<()> {
        let Self { penalty, scaling, coefficients, residual, working, visited, rows, schedule, .. } = self;
        let mut problem = Quadratic::new(field, scaling, residual, *penalty, *rows);
        let columns = working.columns();
        let mut slopes = vec![0.0; columns.len()];
        let scheduled = schedule.map(|(schedule, seed)| Scheduled::new(&mut problem, &columns, schedule, seed));
        let mut scheduled = scheduled.transpose()?;
        for _ in 0..TURNS {
            *visited += match &mut scheduled {
                None => working.descend(&mut problem, coefficients, PASSES, target)?,
                Some(scheduled) => scheduled.descend(&mut problem, coefficients, PASSES)?,
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

    /// Takes what is screened out, and its coefficients.
    fn screen<T: Value>(&mut self, field: &mut Field<'_, '_, T>) -> Result<()> {
        let Self { loss, penalty, scaling, coefficients, dual, .. } = self;
        let gap = (self.survey.objective - dual.value).max(0.0);
        let bounds = (gap, loss.steepest());
        let kept = field.share(&dual.alive, |columns| dual.within_reach(columns, *penalty, bounds, &scaling.root))?;
        let kept = kept.concat();
        let mut left = Vec::new();
        if kept.len() < dual.alive.len() {
            let mut of_kept = kept.iter().peekable();
            let gone = dual.alive.iter().filter(|column| of_kept.next_if_eq(column).is_none());
            left = gone.copied().filter(|column| coefficients[*column as usize] != 0.0).collect();
            dual.alive = kept;
        }
        let by: Vec<f64> = left.iter().map(|column| -coefficients[*column as usize]).collect();
        for column in &left {
            coefficients[*column as usize] = 0.0;
        }
        self.moved(field, &left, &by)
    }

    /// *Collective.* The mean loss, and for the squared loss the mean of target times residual.
    fn losses<T: Value>(&self, field: &Field<'_, '_, T>) -> Result<(f64, f64)> {
        let mut sums = match &self.margins {
            None => {
                let square = self.residual.square(&self.residual.values, self.residual.shift);
                let met = self.target.iter().zip(self.residual.iter()).map(|(y, u)| (y - self.mean) * u).sum();
                [0.5 * square, met]
            }
            Some(margins) => [margins.loss(&self.target), 0.0],
        };
        field.sum(&mut sums)?;
        Ok((sums[0] / self.rows, sums[1] / self.rows))
    }

    /// *Collective.* Slopes of all columns alive (if they have changed), the dual point, the gap.
    fn judge<T: Value>(&mut self, field: &mut Field<'_, '_, T>, changed: bool) -> Result<()> {
        if changed {
            let Self { penalty, scaling, residual, rows, dual, slopes, visited, .. } = self;
            let mut found = vec![0.0; dual.alive.len()];
            Quadratic::new(field, scaling, residual, *penalty, *rows).slopes(&dual.alive, &mut found)?;
            *visited += dual.alive.len() as u64;
            for (column, slope) in dual.alive.iter().zip(found) {
                slopes[*column as usize] = slope;
            }
        }
        let (loss, met) = self.losses(field)?;
        let Self { penalty, coefficients, slopes, dual, .. } = self;
        let tally = |tally: Tally, column: &u32| {
            let (b, slope) = (coefficients[*column as usize], slopes[*column as usize]);
            tally.and(Tally {
                pull: (slope - penalty.l2 * b).abs(),
                violation: penalty.violation(slope, b),
                support: usize::from(b != 0.0),
                square: b * b,
                sum: b.abs(),
            })
        };
        let tallies = field.share(&dual.alive, |columns| columns.iter().fold(Tally::default(), tally))?;
        let Tally { pull: most, violation, support, square, sum } =
            tallies.into_iter().fold(Tally::default(), Tally::and);
        let bound = if most > 0.0 { penalty.l1 / most } else { f64::INFINITY };
        let (scale, value) = match self.loss {
            Loss::Squared => {
                // The best multiple of the residual is the maximum of a parabola, or the largest that is allowed.
                let bend = 2.0 * loss + penalty.l2 * square;
                let scale = if bend > 0.0 { (met / bend).clamp(-bound, bound) } else { 0.0 };
                (scale, scale * met - 0.5 * scale * scale * bend)
            }
            Loss::Logistic => {
                let scale = bound.min(1.0);
                let mut sums = [self.residual.values.iter().map(|u| entropy(scale * u.abs())).sum()];
                field.sum(&mut sums)?;
                (scale, sums[0] / self.rows - 0.5 * scale * scale * penalty.l2 * square)
            }
        };
        dual.offer(value, scale, |column| slopes[column] - penalty.l2 * coefficients[column]);
        let objective = loss + penalty.l1_cost(sum) + 0.5 * penalty.l2 * square;
        let share = |value: f64| if self.start > 0.0 { value / self.start } else { 0.0 };
        self.survey = Survey {
            objective,
            gap: share((objective - dual.value).max(0.0)),
            unexplained: share(loss),
            support,
            alive: dual.alive.len(),
            violation,
            pull: most,
        };
        Ok(())
    }
}
