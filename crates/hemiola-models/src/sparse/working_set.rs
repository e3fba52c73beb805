//! Coordinate descent over a working set, block by block.
//!
//! One coefficient after another moves to the minimum along its coordinate. Columns are grouped in
//! blocks. The slopes of a block are computed together, and the Gram matrix of its columns tells
//! how one change moves the slopes of the others, so the result is that of going column by column.
//! The changes of a block are applied to the rows together with the computation of the next slopes:
//! one parallel task and one all-reduce per block.
//!
//! **Invariant:** no step increases the objective of the [`QuadraticProblem`]. Blocks keep their
//! columns while those are in the working set, so Gram matrices are computed once.

use super::kernel::ColumnValue;
use super::quadratic::QuadraticProblem;
use hemiola_cluster::Result;

/// Block of columns visited together.
#[derive(Clone, Debug)]
struct ColumnBlock {
    columns: Vec<u32>,
    /// Gram matrix of the columns, or empty until it is needed.
    products: Vec<f64>,
}

/// Working set: the columns under optimization.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkingSet {
    blocks: Vec<ColumnBlock>,
}

impl WorkingSet {
    /// Selects columns, `block_size` per block. Blocks without a selected column are dropped.
    pub(super) fn select(&mut self, chosen: &[u32], block_size: usize, columns: usize) {
        let mut wanted = vec![false; columns];
        for column in chosen {
            wanted[*column as usize] = true;
        }
        self.blocks.retain(|block| block.columns.iter().any(|column| wanted[*column as usize]));
        for column in self.blocks.iter().flat_map(|block| &block.columns) {
            wanted[*column as usize] = false;
        }
        let new: Vec<u32> = chosen.iter().copied().filter(|column| wanted[*column as usize]).collect();
        let block = |columns: &[u32]| ColumnBlock { columns: columns.to_vec(), products: Vec::new() };
        self.blocks.extend(new.chunks(block_size).map(block));
    }

    /// Discards the Gram matrices, after the row weights have changed.
    pub(super) fn invalidate_products(&mut self) {
        for block in &mut self.blocks {
            block.products.clear();
        }
    }

    /// Returns all columns, block by block.
    pub(super) fn columns(&self) -> Vec<u32> {
        self.blocks.iter().flat_map(|block| &block.columns).copied().collect()
    }

    /// Sweeps over all columns up to `passes` times, or until no coefficient moves by more than
    /// `tolerance` (in units of slopes). Returns the number of columns visited.
    pub(super) fn descend<T: ColumnValue>(
        &mut self,
        problem: &mut QuadraticProblem<'_, '_, '_, T>,
        coefficients: &mut [f64],
        passes: usize,
        tolerance: f64,
    ) -> Result<u64> {
        let (mut changed, mut by, mut slopes) = (Vec::new(), Vec::new(), Vec::new());
        let mut visited = 0;
        for _ in 0..passes {
            let mut most = 0.0_f64;
            for block in &mut self.blocks {
                slopes.resize(block.columns.len(), 0.0);
                problem.step((&changed, &by), &block.columns, &mut slopes)?;
                changed.clear();
                by.clear();
                if block.products.is_empty() && block.columns.len() > 1 {
                    block.products = problem.products(&block.columns)?;
                }
                most = most.max(block.minimize_each(problem, coefficients, &mut slopes, (&mut changed, &mut by)));
                visited += block.columns.len() as u64;
            }
            if most <= tolerance {
                break;
            }
        }
        problem.step((&changed, &by), &[], &mut [])?;
        Ok(visited)
    }
}

impl ColumnBlock {
    /// Moves each coefficient to the minimum along its coordinate. Returns the largest change, in
    /// units of slopes.
    fn minimize_each<T>(
        &self,
        problem: &QuadraticProblem<'_, '_, '_, T>,
        coefficients: &mut [f64],
        slopes: &mut [f64],
        (changed, by): (&mut Vec<u32>, &mut Vec<f64>),
    ) -> f64 {
        let (count, mut most) = (self.columns.len(), 0.0_f64);
        for (index, column) in self.columns.iter().enumerate() {
            let (curve, b) = (problem.scaling.curve[*column as usize], &mut coefficients[*column as usize]);
            let found = problem.penalty.minimum(slopes[index], *b, curve);
            let change = found - *b;
            if change == 0.0 {
                continue;
            }
            *b = found;
            changed.push(*column);
            by.push(change);
            most = most.max(change.abs() * (curve + problem.penalty.l2));
            if count > 1 {
                let row = &self.products[index * count..(index + 1) * count];
                for (slope, product) in slopes[index + 1..].iter_mut().zip(&row[index + 1..]) {
                    *slope -= product * change;
                }
            }
        }
        most
    }
}
