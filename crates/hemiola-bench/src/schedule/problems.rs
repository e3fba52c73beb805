//! Synthetic lasso problems.

use hemiola::core::rng::PhiloxRng;
use hemiola_models::sparse::{CscMatrix, DenseColumns, FeatureColumns, SparseExamples};

/// Features by columns, and targets.
pub(super) struct LassoProblem {
    columns: FeatureColumns<f32>,
    target: Vec<f64>,
}

impl LassoProblem {
    /// The rows, for one peer that has them all.
    pub(super) fn examples(&self) -> SparseExamples<f32> {
        SparseExamples::new(self.columns.clone(), self.target.clone())
    }

    /// Dense problem whose neighbouring columns are correlated.
    pub(super) fn dense(rows: usize, columns: usize, correlation: f64) -> Self {
        let values = PhiloxRng::new(1);
        let rest = (1.0 - correlation * correlation).sqrt();
        let mut all: Vec<f32> = Vec::with_capacity(rows * columns);
        for column in 0..columns {
            for row in 0..rows {
                let fresh = values.normal(row as u64, column as u64, 0.0, 1.0);
                let before = all.len().checked_sub(rows).map(|at| f64::from(all[at]));
                all.push(before.map_or(fresh, |before| correlation * before + rest * fresh) as f32);
            }
        }
        let mut target = vec![0.0; rows];
        for chosen in 0..(columns / 100).max(1) as u64 {
            let column = values.random_below(chosen, u64::MAX, columns as u64) as usize;
            let weight = values.normal(chosen, u64::MAX - 1, 0.0, 1.0);
            for (target, value) in target.iter_mut().zip(&all[column * rows..]) {
                *target += weight * f64::from(*value);
            }
        }
        noisy(values, &mut target, 5.0);
        Self { columns: FeatureColumns::Dense(DenseColumns::new(rows, columns, all)), target }
    }

    /// Sparse problem with about 200 values per row and columns of very different frequency.
    pub(super) fn sparse(rows: usize, columns: usize) -> Self {
        let values = PhiloxRng::new(2);
        let per_row = 200.min(columns / 4).max(1);
        // Frequencies fall as the power 0.8 of the rank; the sum up to a rank goes with the power 0.2.
        let end = ((columns + 50) as f64).powf(0.2);
        let start = 50_f64.powf(0.2);
        let rank = |at: f64| ((start + at * (end - start)).powf(5.0) - 50.0) as usize;
        let mut entries: Vec<(u32, u32, f32)> = Vec::with_capacity(rows * per_row);
        for entry in 0..(rows * per_row) as u64 {
            // Spread over all numbers, so that frequent ones are not neighbours.
            let column = rank(values.random_f64(entry, 0)).min(columns - 1) * 7919 % columns;
            let value = values.normal(entry, 1, 0.0, 1.0).abs() + 0.1;
            entries.push((column as u32, (entry / per_row as u64) as u32, value as f32));
        }
        entries.sort_by_key(|(column, row, _)| (*column, *row));
        entries.dedup_by_key(|(column, row, _)| (*column, *row));
        let mut starts = vec![0; columns + 1];
        for (column, ..) in &entries {
            starts[*column as usize + 1] += 1;
        }
        for column in 0..columns {
            starts[column + 1] += starts[column];
        }
        let mut target = vec![0.0; rows];
        for chosen in 0..(columns / 100).max(1) as u64 {
            let column = rank(values.random_f64(chosen, 2) * 0.5).min(columns - 1) * 7919 % columns;
            let weight = values.normal(chosen, 3, 0.0, 1.0);
            for (_, row, value) in &entries[starts[column]..starts[column + 1]] {
                target[*row as usize] += weight * f64::from(*value);
            }
        }
        let mean = target.iter().sum::<f64>() / rows as f64;
        for target in &mut target {
            *target -= mean;
        }
        noisy(values, &mut target, 1.0);
        let (at, kept) = entries.into_iter().map(|(_, row, value)| (row, value)).unzip();
        Self { columns: FeatureColumns::Sparse(CscMatrix::new(rows, &starts, at, kept)), target }
    }
}

/// Adds noise with a signal-to-noise ratio of `ratio`.
fn noisy(values: PhiloxRng, target: &mut [f64], ratio: f64) {
    let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let noise: Vec<f64> = (0..target.len() as u64).map(|row| values.normal(row, u64::MAX - 2, 0.0, 1.0)).collect();
    let scale = norm(target) / norm(&noise).max(f64::MIN_POSITIVE) / ratio;
    for (target, noise) in target.iter_mut().zip(&noise) {
        *target += scale * noise;
    }
}
