//! Parameters of a factorization machine, and the score of an example.
//!
//! A row of factors has a multiple of [`LANES`] numbers; those beyond the rank start at 0 and stay
//! 0, since the gradient of a factor has the same factor of other features in it. Sums are kept in
//! `LANES` lanes and added in one order, without fused multiply-add: results have the same bits on
//! every machine.
//!
//! **Invariant:** the `norm` of a feature is the squared norm of its factors. With it, the sum over
//! pairs takes one pass over the factors: `Σ_{i<j} v_i·v_j x_i x_j = ½ (|Σ x v|² − Σ x² |v|²)`
//! (Rendle 2010, lemma 3.1).

use hemiola_core::rng::PhiloxRng;

/// Number of parallel sums.
pub(super) const LANES: usize = 8;
/// Random stream of the factors.
const FACTOR_DRAW: u64 = 2;
/// Standard deviation of the initial factors of rank 1; the sum over factors has the same spread at
/// any rank.
const SPREAD: f64 = 0.2;
/// Initial sum of squared gradients: limits the first steps.
const FIRST_SUM: f32 = 1.0;

/// State of a feature besides its factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FeatureState {
    /// Weight of the feature alone.
    pub(super) weight: f32,
    /// AdaGrad sum of the weight.
    pub(super) weight_sum: f32,
    /// AdaGrad sum of the factors: mean over them.
    pub(super) factor_sum: f32,
    /// Squared norm of the factors.
    pub(super) norm: f32,
}

impl FeatureState {
    /// Width of a stored row.
    pub(super) const WIDTH: usize = 4;

    pub(super) fn to_row(self) -> [f32; 4] {
        [self.weight, self.weight_sum, self.factor_sum, self.norm]
    }

    pub(super) fn of_row([weight, weight_sum, factor_sum, norm]: [f32; 4]) -> Self {
        Self { weight, weight_sum, factor_sum, norm }
    }
}

/// Parameters of all features, replicated on all peers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FmParameters {
    /// Number of factors per feature, rounded up to whole lanes.
    pub(super) width: usize,
    /// Score of an example without features.
    pub(super) bias: f32,
    /// AdaGrad sum of the bias.
    pub(super) bias_sum: f32,
    /// Factors by feature.
    pub(super) factors: Vec<f32>,
    pub(super) states: Vec<FeatureState>,
}

impl FmParameters {
    /// Creates initial parameters, a function of the seed. Features that do not occur (`used`) have
    /// no effect.
    pub(super) fn start(rank: usize, used: &[bool], bias: f32, seed: u64) -> Self {
        let (width, values) = (row_width(rank), PhiloxRng::new(seed));
        let spread = SPREAD / (rank.max(1) as f64).sqrt().sqrt();
        let mut factors = vec![0.0; width * used.len()];
        let mut states = Vec::with_capacity(used.len());
        for (column, used) in used.iter().enumerate() {
            let row = &mut factors[column * width..][..width];
            for (index, factor) in row[..if *used { rank } else { 0 }].iter_mut().enumerate() {
                *factor = values.normal((column * rank + index) as u64, FACTOR_DRAW, 0.0, spread) as f32;
            }
            let norm = squared_norm(row);
            states.push(FeatureState { weight: 0.0, weight_sum: FIRST_SUM, factor_sum: FIRST_SUM, norm });
        }
        Self { width, bias, bias_sum: FIRST_SUM, factors, states }
    }

    /// Updates the bias by the summed slopes of a batch.
    pub(super) fn step_bias(&mut self, slope: f32, learning_rate: f32) {
        self.bias_sum += slope * slope;
        self.bias += learning_rate / self.bias_sum.sqrt() * slope;
    }

    /// Returns whether all numbers are finite.
    pub(super) fn is_finite(&self) -> bool {
        let finite = |state: &FeatureState| state.to_row().iter().all(|value| value.is_finite());
        self.bias.is_finite() && self.bias_sum.is_finite() && self.states.iter().all(finite)
    }

    /// Returns the number of features.
    pub(super) fn columns(&self) -> usize {
        self.states.len()
    }

    /// Computes the score of an example and `sums = Σ x v`.
    #[inline(always)]
    pub(super) fn score(&self, columns: &[u32], values: &[f32], sums: &mut [f32]) -> f32 {
        let (mut linear, mut squares) = (self.bias, 0.0_f32);
        for (column, value) in columns.iter().zip(values) {
            let state = &self.states[*column as usize];
            linear += state.weight * value;
            squares += state.norm * value * value;
        }
        let mut all = [0.0_f32; LANES];
        // Two chunks at a time: their sums are independent, and fit into registers.
        let (pairs, last) = sums.as_chunks_mut::<LANES>().0.as_chunks_mut::<2>();
        let first_of_last = 2 * pairs.len();
        for (pair, sums) in pairs.iter_mut().enumerate() {
            self.weighted_sum(columns, values, 2 * pair, sums, &mut all);
        }
        if let [last] = last {
            self.weighted_sum(columns, values, first_of_last, std::array::from_mut(last), &mut all);
        }
        linear + 0.5 * (total(all) - squares)
    }

    /// Computes some chunks of `Σ x v`, from `first` on, and adds their squares to `all`.
    #[inline(always)]
    fn weighted_sum<const N: usize>(
        &self,
        columns: &[u32],
        values: &[f32],
        first: usize,
        sums: &mut [[f32; LANES]; N],
        all: &mut [f32; LANES],
    ) {
        let (rows, chunks) = (self.factors.as_chunks::<LANES>().0, self.width / LANES);
        let mut found = [[0.0_f32; LANES]; N];
        for (column, value) in columns.iter().zip(values) {
            let start = *column as usize * chunks + first;
            for (lanes, row) in found.iter_mut().zip(&rows[start..start + N]) {
                for (lane, factor) in lanes.iter_mut().zip(row) {
                    *lane += value * factor;
                }
            }
        }
        for lanes in &found {
            add_squares(all, lanes);
        }
        *sums = found;
    }
}

/// Returns the number of stored factors per feature. Rank 0 has factors that stay 0.
pub(super) fn row_width(rank: usize) -> usize {
    rank.max(1).next_multiple_of(LANES)
}

/// Returns the squared norm of a row.
#[inline(always)]
fn squared_norm(row: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for row in row.as_chunks::<LANES>().0 {
        add_squares(&mut lanes, row);
    }
    total(lanes)
}

/// Adds the squares of a chunk.
#[inline(always)]
pub(super) fn add_squares(lanes: &mut [f32; LANES], chunk: &[f32; LANES]) {
    for (lane, value) in lanes.iter_mut().zip(chunk) {
        *lane += value * value;
    }
}

/// Sums the lanes: the upper half onto the lower half, repeatedly.
#[inline(always)]
pub(super) fn total(lanes: [f32; LANES]) -> f32 {
    let fours: [f32; LANES / 2] = std::array::from_fn(|at| lanes[at] + lanes[at + LANES / 2]);
    let [first, second, third, last] = fours;
    (first + third) + (second + last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_the_sum_over_all_pairs() {
        let columns: Vec<u32> = vec![0, 2, 3, 7, 11];
        let values = [1.0_f32, -0.5, 2.0, 0.25, 1.5];
        for rank in [0, 1, 5, 8, 19] {
            let mut parameters = FmParameters::start(rank, &[true; 12], 0.3, 5);
            for (column, state) in parameters.states.iter_mut().enumerate() {
                state.weight = 0.1 * column as f32 - 0.4;
            }
            let factor =
                |column: u32, index: usize| f64::from(parameters.factors[column as usize * parameters.width + index]);
            let mut expected = f64::from(parameters.bias);
            for (i, x) in columns.iter().zip(values) {
                expected += f64::from(parameters.states[*i as usize].weight) * f64::from(x);
                for (j, y) in columns.iter().zip(values).filter(|(j, _)| *j > i) {
                    let product: f64 = (0..rank).map(|index| factor(*i, index) * factor(*j, index)).sum();
                    expected += product * f64::from(x) * f64::from(y);
                }
            }
            let score = parameters.score(&columns, &values, &mut vec![0.0; parameters.width]);
            assert!((f64::from(score) - expected).abs() < 1e-5, "rank {rank}: {score} {expected}");
        }
    }

    #[test]
    fn features_that_do_not_occur_have_no_effect() {
        let parameters = FmParameters::start(4, &[true, false, true], 0.1, 1);
        let mut sums = vec![0.0; parameters.width];
        let with = parameters.score(&[0, 1, 2], &[1.0, 9.0, 1.0], &mut sums);
        let without = parameters.score(&[0, 2], &[1.0, 1.0], &mut sums);
        assert_eq!(with.to_bits(), without.to_bits());
    }
}
