//! Constructors of dense arrays: constant, random, or computed from keys.
//!
//! **Invariant:** the value of a cell depends on the seed and its key, never on the layout or the
//! number of peers.

use crate::dist::agree::agree;
use crate::dist::array::{DenseBlock, DistArray, Storage};
use crate::dist::build::{cluster_workers, in_parallel};
use crate::dist::element::Element;
use crate::dist::partition::{ArrayLayout, PartitionedDimension};
use crate::{DenseArray, Partitioner, Shape};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;
use std::ops::Range;

/// Extension trait of [`Cluster`] that creates dense arrays. All methods are *collective*.
///
/// ```
/// use hemiola_array::ArrayExt;
/// use hemiola_core::Seed;
/// let noise = |peers| {
///     hemiola_cluster::standalone(peers)
///         .run(|cluster| cluster.uniform([100, 8], 0.0..0.1, Seed(7))?.collect())
/// };
/// assert_eq!(noise(1)?[0], noise(3)?[0]); // the same values on any number of peers
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub trait ArrayExt {
    /// Creates an array of values drawn uniformly from `range`.
    fn uniform<const N: usize>(&self, shape: [usize; N], range: Range<f32>, seed: Seed) -> Result<DistArray<f32, N>>;

    /// Creates an array of normally distributed values.
    fn normal<const N: usize>(
        &self,
        shape: [usize; N],
        mean: f32,
        deviation: f32,
        seed: Seed,
    ) -> Result<DistArray<f32, N>>;

    /// Creates an array of default values: 0 for numbers.
    fn zeros<T: Element + Default, const N: usize>(&self, shape: [usize; N]) -> Result<DistArray<T, N>>;

    /// Creates an array whose cells are computed from their keys.
    #[expect(
        clippy::wrong_self_convention,
        reason = "named like `std::array::from_fn`; the cluster is the owner, not the input"
    )]
    fn from_fn<T: Element + Default, const N: usize>(
        &self,
        shape: [usize; N],
        value: impl Fn([usize; N]) -> T + Sync,
    ) -> Result<DistArray<T, N>>;
}

impl ArrayExt for Cluster {
    fn uniform<const N: usize>(&self, shape: [usize; N], range: Range<f32>, seed: Seed) -> Result<DistArray<f32, N>> {
        let rng = PhiloxRng::new(seed.0);
        from_index_fn(self, shape, |linear, _| rng.uniform_f32(linear as u64, 0, range.clone()))
    }

    fn normal<const N: usize>(
        &self,
        shape: [usize; N],
        mean: f32,
        deviation: f32,
        seed: Seed,
    ) -> Result<DistArray<f32, N>> {
        let rng = PhiloxRng::new(seed.0);
        from_index_fn(self, shape, |linear, _| {
            rng.normal(linear as u64, 0, f64::from(mean), f64::from(deviation)) as f32
        })
    }

    fn zeros<T: Element + Default, const N: usize>(&self, shape: [usize; N]) -> Result<DistArray<T, N>> {
        from_index_fn(self, shape, |_, _| T::default())
    }

    fn from_fn<T: Element + Default, const N: usize>(
        &self,
        shape: [usize; N],
        value: impl Fn([usize; N]) -> T + Sync,
    ) -> Result<DistArray<T, N>> {
        from_index_fn(self, shape, |_, key| value(key))
    }
}

/// Default layout of dense arrays: equal ranges of the first dimension, one per worker.
pub(crate) fn row_layout<const N: usize>(cluster: &Cluster, shape: Shape<N>) -> Result<ArrayLayout> {
    let peers = cluster.size();
    let partitioner = Partitioner::equal(shape.extent(0), peers * cluster_workers(cluster)?);
    Ok(ArrayLayout { space: PartitionedDimension { dimension: 0, partitioner }, time: None, peers })
}

fn from_index_fn<T: Element + Default, const N: usize>(
    cluster: &Cluster,
    extents: [usize; N],
    value: impl Fn(usize, [usize; N]) -> T + Sync,
) -> Result<DistArray<T, N>> {
    let shape = Shape::new(extents);
    let layout = row_layout(cluster, shape)?;
    agree(cluster, shape.cells())?;
    let ranges =
        layout.parts_of(cluster.rank()).map(|part| layout.space.partitioner.range(part).unwrap_or(0..0)).collect();
    let blocks = in_parallel(cluster, ranges, |range: Range<usize>| {
        let mut part = extents;
        part[0] = range.end - range.start;
        let before = if range.start == 0 { 0 } else { range.start * (shape.cells()? / shape.extent(0)) };
        let cells = DenseArray::from_fn(Shape::new(part), |linear| {
            let linear = before + linear;
            value(linear, shape.key(linear))
        })?;
        Ok(DenseBlock { first: range.start, cells })
    })?;
    let blocks = agree(cluster, blocks)?;
    DistArray::from_local_storage(cluster, shape, layout, Storage::Dense(blocks))
}
