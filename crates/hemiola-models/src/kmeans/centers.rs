//! Centers of clusters, and the nearest one of a row.
//!
//! Squared distances are `|x|² - 2 x·c + |c|²`, so a sparse row costs its nonzero values alone.
//! Centers are stored column by column: the products of a value with all centers are contiguous.

use crate::examples::ExampleBlock;

/// Centers of all clusters.
#[derive(Clone, Debug)]
pub(super) struct ClusterCenters {
    clusters: usize,
    /// Coordinate of each cluster, by column.
    by_column: Vec<f64>,
    /// Squared norm of each center.
    norms: Vec<f64>,
}

/// Nearest center of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NearestCenter {
    pub(super) cluster: usize,
    /// Squared distance.
    pub(super) square: f64,
}

impl ClusterCenters {
    /// Creates centers from rows of coordinates, one per cluster.
    pub(super) fn new(rows: &[f64], columns: usize) -> Self {
        let clusters = rows.len() / columns;
        let mut by_column = vec![0.0; rows.len()];
        for (cluster, row) in rows.chunks_exact(columns).enumerate() {
            for (column, value) in row.iter().enumerate() {
                by_column[column * clusters + cluster] = *value;
            }
        }
        let norms = rows.chunks_exact(columns).map(|row| row.iter().map(|value| value * value).sum()).collect();
        Self { clusters, by_column, norms }
    }

    /// Returns the squared distances of a row from all centers in `squares`.
    pub(super) fn squares(&self, block: &ExampleBlock, row: usize, squares: &mut Vec<f64>) {
        squares.clear();
        squares.resize(self.clusters, 0.0);
        let mut norm = 0.0;
        for (column, value) in block.row(row) {
            let value = f64::from(value);
            norm += value * value;
            let centers = &self.by_column[column * self.clusters..][..self.clusters];
            for (product, center) in squares.iter_mut().zip(centers) {
                *product += value * center;
            }
        }
        for (square, center) in squares.iter_mut().zip(&self.norms) {
            // A negative distance is rounding error.
            *square = (norm - 2.0 * *square + center).max(0.0);
        }
    }

    /// Returns the nearest center of a row; the first of equally near ones. `squares` is scratch
    /// space.
    pub(super) fn nearest(&self, block: &ExampleBlock, row: usize, squares: &mut Vec<f64>) -> NearestCenter {
        self.squares(block, row, squares);
        let mut best = NearestCenter { cluster: 0, square: f64::INFINITY };
        for (cluster, square) in squares.iter().enumerate() {
            if *square < best.square {
                best = NearestCenter { cluster, square: *square };
            }
        }
        best
    }
}
