//! Coordinate descent over a working set, block by block.
//!
//! One coefficient after the other goes to the minimum along itself. Columns stand in blocks: the slopes of a block are found together, and within it
//! the products of its columns with each other say how one change moves the slopes of the others, so that the result is that of going column by column.
//! What a block has changed is told to the rows along with the question for the slopes of the next: one piece of work and one all-reduce for each block.
//!
//! **Invariant:** no step makes the objective of the [`Quadratic`] grow. Blocks keep their columns while those are worked on, so that products are computed
//! once.

use super::kernel::Value;
use super::quadratic::Quadratic;
use hemiola::Result;

/// Columns that are visited together.
#[derive(Clone, Debug)]
struct Block {
    columns: Vec<u32>,
    /// Of columns with each other, or empty as long as nobody has asked.
    products: Vec<f64>,
}

/// The columns that are worked on.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkingSet {
    blocks: Vec<Block>,
}

impl WorkingSet {
    /// Takes in columns, `together` in a block. Blocks with none of them are left out.
    pub(super) fn admit(&mut self, chosen: &[u32], together: usize, columns: usize) {
        let mut wanted = vec![false; columns];
        for column in chosen {
            wanted[*column as usize] = true;
        }
        self.blocks.retain(|block| block.columns.iter().any(|column| wanted[*column as usize]));
        for column in self.blocks.iter().flat_map(|block| &block.columns) {
            wanted[*column as usize] = false;
        }
        let new: Vec<u32> = chosen.iter().copied().filter(|column| wanted[*column as usize]).collect();
        let block = |columns: &[u32]| Block { columns: columns.to_vec(), products: Vec::new() };
        self.blocks.extend(new.chunks(together).map(block));
    }

    /// Rows have other weights: products are to be computed anew.
    pub(super) fn forget_products(&mut self) {
        for block in &mut self.blocks {
            block.products.clear();
        }
    }

    /// All columns, block after block.
    pub(super) fn columns(&self) -> Vec<u32> {
        self.blocks.iter().flat_map(|block| &block.columns).copied().collect()
    }

    /// Goes over all columns up to `passes` times, or until nothing moves by more than `still` (in units of slopes). How many columns were visited.
    pub(super) fn descend<T: Value>(
        &mut self,
        problem: &mut Quadratic<'_, '_, '_, T>,
        coefficients: &mut [f64],
        passes: usize,
        still: f64,
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
                most = most.max(block.settle(problem, coefficients, &mut slopes, (&mut changed, &mut by)));
                visited += block.columns.len() as u64;
            }
            if most <= still {
                break;
            }
        }
        problem.step((&changed, &by), &[], &mut [])?;
        Ok(visited)
    }
}

impl Block {
    /// Takes each coefficient to the minimum along itself. How far the one that moved most has moved, in units of slopes.
    fn settle<T>(
        &self,
        problem: &Quadratic<'_, '_, '_, T>,
        coefficients: &mut [f64],
        slopes: &mut [f64],
        (changed, by): (&mut Vec<u32>, &mut Vec<f64>),
    ) -> f64 {
        let (count, mut most) = (self.columns.len(), 0.0_f64);
        for (place, column) in self.columns.iter().enumerate() {
            let (curve, b) = (problem.scaling.curve[*column as usize], &mut coefficients[*column as usize]);
            let found = problem.penalty.minimum(slopes[place], *b, curve);
            let change = found - *b;
            if change == 0.0 {
                continue;
            }
            *b = found;
            changed.push(*column);
            by.push(change);
            most = most.max(change.abs() * (curve + problem.penalty.l2));
            if count > 1 {
                let row = &self.products[place * count..(place + 1) * count];
                for (slope, product) in slopes[place + 1..].iter_mut().zip(&row[place + 1..]) {
                    *slope -= product * change;
                }
            }
        }
        most
    }
}
