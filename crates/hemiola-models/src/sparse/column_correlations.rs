//! Correlations of columns: how much two concurrent coordinate updates interfere.
//!
//! Correlations are computed from all rows where that is cheap, and otherwise from a sample of
//! rows: a schedule needs to know which columns are correlated, not to many digits. All peers must
//! compute the same numbers, or they would schedule different jobs; so with several peers the
//! sampled rows are gathered once.

use super::design::DesignMatrix;
use super::kernel::ColumnValue;
use hemiola_cluster::{Cluster, Result};
use hemiola_schedule::order::CorrelationCache;

/// Maximum number of sampled rows of a dense column.
const MAX_SAMPLED_ROWS: usize = 8192;
/// Maximum number of entries gathered from all peers.
const MAX_GATHERED_ENTRIES: usize = 1 << 23;

type CorrelationFn<'d> = Box<dyn Fn(usize, usize) -> f64 + Sync + 'd>;

/// Correlations of selected columns by their indices, computed on demand and cached.
pub(super) struct ColumnCorrelations<'d> {
    cache: CorrelationCache<CorrelationFn<'d>>,
}

impl<'d> ColumnCorrelations<'d> {
    /// *Collective.* Creates the correlations of `columns`, centred if there is an intercept.
    pub(super) fn new<T: ColumnValue>(
        cluster: &Cluster,
        design: &'d DesignMatrix<T>,
        columns: &'d [u32],
        intercept: bool,
    ) -> Result<Self> {
        let rows = design.rows();
        let source: CorrelationFn<'d> = if cluster.size() == 1 {
            let every = if design.is_sparse() { 1 } else { rows.div_ceil(MAX_SAMPLED_ROWS).max(1) };
            Box::new(move |a, b| {
                let sums = design.pair(columns[a], columns[b], every);
                correlation(sums, rows.div_ceil(every), intercept)
            })
        } else {
            let entries = columns.iter().map(|column| design.entries(*column, 1).count()).sum::<usize>();
            let of_peers: Vec<(usize, usize)> = cluster.all_gather((rows, entries))?;
            let all: usize = of_peers.iter().map(|of| of.1).sum();
            let every = all.div_ceil(MAX_GATHERED_ENTRIES).max(1);
            let first: usize = of_peers[..cluster.rank().index()].iter().map(|of| of.0).sum();
            let of = |column: &u32| -> Vec<(usize, f32)> {
                design.entries(*column, every).map(|(row, value)| (first + row, value as f32)).collect()
            };
            let own: Vec<Vec<(usize, f32)>> = columns.iter().map(of).collect();
            let mut gathered = vec![Vec::new(); columns.len()];
            for of_peer in cluster.all_gather(own)? {
                for (column, entries) in gathered.iter_mut().zip(of_peer) {
                    column.extend(entries);
                }
            }
            let rows = of_peers.iter().map(|of| of.0.div_ceil(every)).sum();
            Box::new(move |a, b| correlation(merged(&gathered[a], &gathered[b]), rows, intercept))
        };
        Ok(Self { cache: CorrelationCache::new(source) })
    }

    /// Returns the absolute correlation of two columns by index.
    pub(super) fn between(&self, a: usize, b: usize) -> f64 {
        self.cache.between(a, b)
    }
}

/// Sums over two columns: of each, of their squares, and of their product.
pub(super) type PairSums = [f64; 5];

fn correlation([a, b, of_a, of_b, both]: PairSums, rows: usize, intercept: bool) -> f64 {
    let rows = rows as f64;
    let less = |product: f64, left: f64, right: f64| if intercept { product - left * right / rows } else { product };
    let (of_a, of_b) = (less(of_a, a, a), less(of_b, b, b));
    // A column that is constant in the sampled rows interferes with no other.
    if of_a <= 0.0 || of_b <= 0.0 { 0.0 } else { (less(both, a, b) / (of_a * of_b).sqrt()).abs().min(1.0) }
}

/// Sums over two lists of entries sorted by row.
fn merged(left: &[(usize, f32)], right: &[(usize, f32)]) -> PairSums {
    let sums = |list: &[(usize, f32)]| {
        let values = || list.iter().map(|(_, value)| f64::from(*value));
        (values().sum::<f64>(), values().map(|value| value * value).sum::<f64>())
    };
    let ((a, of_a), (b, of_b)) = (sums(left), sums(right));
    let (mut at, mut both) = (0, 0.0);
    for (row, value) in left {
        while right.get(at).is_some_and(|(other, _)| other < row) {
            at += 1;
        }
        if let Some((other, of_right)) = right.get(at)
            && other == row
        {
            both += f64::from(*value) * f64::from(*of_right);
        }
    }
    [a, b, of_a, of_b, both]
}
