//! Arrays that are made up rather than read.
//!
//! **Invariant:** a cell's value depends on the seed and the cell's place in the array, never on how the array is divided
//! or how many peers there are.

use crate::dist::agree::agree;
use crate::dist::array::{DenseBlock, DistArray, Storage};
use crate::dist::element::Element;
use crate::dist::partition::{Axis, Layout};
use crate::dist::place::{cluster_workers, in_parallel};
use crate::random::Values;
use crate::{Cut, Dense, Shape};
use hemiola_cluster::{Cluster, Result};
use std::ops::Range;

/// Makes dense arrays on a cluster. All methods are *collective*.
///
/// ```
/// use hemiola_array::MakeArrays;
/// let noise = |peers| {
///     hemiola_cluster::standalone(peers).run(|cluster| cluster.uniform([100, 8], 0.0..0.1, 7)?.collect())
/// };
/// assert_eq!(noise(1)?[0], noise(3)?[0]); // the same values on any number of peers
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub trait MakeArrays {
    /// Values drawn evenly from a range.
    fn uniform<const N: usize>(&self, shape: [u64; N], range: Range<f32>, seed: u64) -> Result<DistArray<f32, N>>;

    /// Values drawn from a normal distribution.
    fn normal<const N: usize>(
        &self,
        shape: [u64; N],
        mean: f32,
        deviation: f32,
        seed: u64,
    ) -> Result<DistArray<f32, N>>;

    /// The default value everywhere: 0 for numbers.
    fn zeros<T: Element + Default, const N: usize>(&self, shape: [u64; N]) -> Result<DistArray<T, N>>;

    /// Every cell computed from its key.
    #[expect(
        clippy::wrong_self_convention,
        reason = "named as `Vec::from_fn` and its kin; the cluster is where it lies"
    )]
    fn from_fn<T: Element + Default, const N: usize>(
        &self,
        shape: [u64; N],
        value: impl Fn([u64; N]) -> T + Sync,
    ) -> Result<DistArray<T, N>>;
}

impl MakeArrays for Cluster {
    fn uniform<const N: usize>(&self, shape: [u64; N], range: Range<f32>, seed: u64) -> Result<DistArray<f32, N>> {
        let values = Values::new(seed);
        by_index(self, shape, |linear, _| values.uniform_f32(linear, 0, range.clone()))
    }

    fn normal<const N: usize>(
        &self,
        shape: [u64; N],
        mean: f32,
        deviation: f32,
        seed: u64,
    ) -> Result<DistArray<f32, N>> {
        let values = Values::new(seed);
        by_index(self, shape, |linear, _| values.normal(linear, 0, f64::from(mean), f64::from(deviation)) as f32)
    }

    fn zeros<T: Element + Default, const N: usize>(&self, shape: [u64; N]) -> Result<DistArray<T, N>> {
        by_index(self, shape, |_, _| T::default())
    }

    fn from_fn<T: Element + Default, const N: usize>(
        &self,
        shape: [u64; N],
        value: impl Fn([u64; N]) -> T + Sync,
    ) -> Result<DistArray<T, N>> {
        by_index(self, shape, |_, key| value(key))
    }
}

/// The layout of dense arrays: equal ranges of the first dimension, one per worker.
pub(crate) fn rows_layout<const N: usize>(cluster: &Cluster, shape: Shape<N>) -> Result<Layout> {
    let peers = cluster.size();
    let cut = Cut::equal(shape.extent(0), peers * cluster_workers(cluster)?);
    Ok(Layout { space: Axis { dimension: 0, cut }, time: None, peers })
}

fn by_index<T: Element + Default, const N: usize>(
    cluster: &Cluster,
    extents: [u64; N],
    value: impl Fn(u64, [u64; N]) -> T + Sync,
) -> Result<DistArray<T, N>> {
    let shape = Shape::new(extents);
    let layout = rows_layout(cluster, shape)?;
    agree(cluster, shape.cells())?;
    let ranges = layout.parts_of(cluster.rank()).map(|part| layout.space.cut.range(part).unwrap_or(0..0)).collect();
    let blocks = in_parallel(cluster, ranges, |range: Range<u64>| {
        let mut part = extents;
        part[0] = range.end - range.start;
        let before = if range.start == 0 { 0 } else { range.start * (shape.cells()? / shape.extent(0)) };
        let cells = Dense::from_fn(Shape::new(part), |linear| {
            let linear = before + linear;
            value(linear, shape.key(linear))
        })?;
        Ok(DenseBlock { first: range.start, cells })
    })?;
    let blocks = agree(cluster, blocks)?;
    DistArray::assemble(cluster, shape, layout, Storage::Dense(blocks))
}
