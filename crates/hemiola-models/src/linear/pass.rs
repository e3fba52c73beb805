//! A worker's way over its examples: dual coordinate ascent on its own copy of the model.
//!
//! Of `workers` who change the model at the same time and are averaged afterwards, each makes the change it wants `workers` times as large, and pays for that in the
//! curvature of its steps: its problem is the whole one with every example in `workers` copies. The average of the copies then is
//! the model plus all changes (`γ = 1, σ' = K` of Ma et al. 2015).
//!
//! In the first round of an epoch all examples are visited. Those whose dual variable is at the end of its range and would leave it are *idle*; they are left out
//! until the epoch ends, which for hinges spares most of the work (shrinking, as in liblinear, but with nothing to be kept between epochs).
//!
//! **Invariant:** `model` moves by `workers · Σ Δα y x`, and the order of visits depends on the seed, the epoch, the round, the worker and the problem
//! alone.

use super::loss::Loss;
use super::shard::Shard;

/// A worker and its part of the problem.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) shard: Shard,
    /// Which of all workers it is.
    number: u64,
    /// Squared lengths, with the bias.
    squares: Vec<f64>,
    /// By problem, the dual variables.
    pub(super) duals: Vec<Vec<f64>>,
    /// By problem, the places of examples that are not idle in this epoch.
    busy: Vec<Vec<u32>>,
    /// Its copy of the model, problem after problem.
    pub(super) model: Vec<f64>,
}

/// What all workers have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) loss: Loss,
    pub(super) c: f64,
    /// The value of the last feature of all examples.
    pub(super) bias: f64,
    /// Weights of a problem, that of the bias the last.
    pub(super) width: usize,
    /// Workers of all peers.
    pub(super) workers: usize,
    pub(super) seed: u64,
}

impl Part {
    pub(super) fn new(shard: Shard, number: usize, problems: usize, rules: &Rules) -> Self {
        let squares = (0..shard.len()).map(|place| shard.row(place).square() + rules.bias * rules.bias).collect();
        let duals = vec![vec![0.0; shard.len()]; problems];
        let model = vec![0.0; problems * rules.width];
        Self { shard, number: number as u64, squares, duals, busy: vec![Vec::new(); problems], model }
    }

    /// A round from the model that was agreed on.
    pub(super) fn round(&mut self, rules: &Rules, (epoch, round): (u32, u32), agreed: &[f64]) {
        self.model.copy_from_slice(agreed);
        let (two_classes, width) = (self.duals.len() == 1, rules.width);
        let factor = rules.workers as f64;
        for (problem, model) in self.model.chunks_exact_mut(width).enumerate() {
            let (duals, busy) = (&mut self.duals[problem], &mut self.busy[problem]);
            if round == 0 {
                busy.clear();
                busy.extend(0..self.shard.len() as u32);
            }
            Chance::of([rules.seed, self.number, problem as u64, u64::from(epoch), u64::from(round)]).shuffle(busy);
            let positive = if two_classes { 1 } else { problem as u32 };
            busy.retain(|place| {
                let place = *place as usize;
                let (row, dual) = (self.shard.row(place), &mut duals[place]);
                let sign = if self.shard.classes[place] == positive { 1.0 } else { -1.0 };
                let margin = sign * (row.dot(model) + rules.bias * model[width - 1]);
                let step = rules.loss.step(margin, *dual, factor * self.squares[place], rules.c);
                let change = step.alpha - *dual;
                // The whole of an unchanged example need not be written.
                if change.abs() > 0.0 {
                    *dual = step.alpha;
                    row.add_to(model, factor * change * sign);
                    model[width - 1] += factor * change * sign * rules.bias;
                }
                !step.idle
            });
        }
    }

    /// What the dual variables add to the dual objective.
    pub(super) fn gain(&self, rules: &Rules) -> f64 {
        self.duals.iter().flatten().map(|alpha| rules.loss.gain(*alpha, rules.c)).sum()
    }
}

/// Random numbers for orders: `SplitMix64`.
struct Chance(u64);

impl Chance {
    fn of(numbers: [u64; 5]) -> Self {
        let mut chance = Self(0);
        for number in numbers {
            chance.0 ^= number;
            chance.0 = chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn shuffle(&mut self, places: &mut [u32]) {
        for end in (1..places.len()).rev() {
            let other = (u128::from(self.next()) * (end as u128 + 1)) >> 64;
            places.swap(end, other as usize);
        }
    }
}
