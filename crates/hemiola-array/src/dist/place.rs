//! From what each peer has read to an array: agree on the shape, decide the cut, send entries home, sort.

use crate::dist::agree::agree;
use crate::dist::array::{DistArray, Storage};
use crate::dist::element::Element;
use crate::dist::partition::{Layout, Partition};
use crate::dist::shuffle::{Piece, send_home};
use crate::sparse::{DuplicatePolicy, SparseBlock, SparseBuilder};
use crate::{Histogram, Result, Shape};
use hemiola_cluster::Cluster;
use parking_lot::Mutex;

/// Bins of a histogram that decides a cut: exact up to a million indices, and 8 MB at most to exchange.
const BINS: usize = 1 << 20;

/// What this peer has read, in the order of the source.
pub(crate) struct Pieces<'a, T, const N: usize> {
    pub(crate) pieces: Vec<Piece<'a, T, N>>,
    /// The shape, where the source knows it.
    pub(crate) known: Option<Shape<N>>,
}

impl<'a, T, const N: usize> Pieces<'a, T, N> {
    /// What was collected into builders.
    pub(crate) fn built(builders: Vec<SparseBuilder<T, N>>, known: Option<Shape<N>>) -> Self {
        Self { pieces: builders.into_iter().map(Piece::Built).collect(), known }
    }

    /// What the blocks of an array hold.
    pub(crate) fn held(blocks: &'a [SparseBlock<T, N>], shape: Shape<N>) -> Self {
        Self { pieces: blocks.iter().map(Piece::Held).collect(), known: Some(shape) }
    }
}

/// *Collective.* Makes an array of what all peers have read.
pub(crate) fn place<T: Element, const N: usize>(
    cluster: &Cluster,
    pieces: Pieces<'_, T, N>,
    partition: &Partition,
    duplicates: DuplicatePolicy<T>,
) -> hemiola_cluster::Result<DistArray<T, N>> {
    place_with(cluster, pieces, partition, |builder, shape, order| builder.finish(shape, order, duplicates))
}

/// *Collective.* The same where `finish` makes a block of the entries that came for it, given shape and order.
pub(crate) fn place_with<T: Element, U: Element, const N: usize>(
    cluster: &Cluster,
    pieces: Pieces<'_, T, N>,
    partition: &Partition,
    finish: impl Fn(SparseBuilder<T, N>, Shape<N>, [usize; N]) -> Result<SparseBlock<U, N>> + Sync,
) -> hemiola_cluster::Result<DistArray<U, N>> {
    let Pieces { pieces, known } = pieces;
    let shape = match known {
        Some(shape) => shape,
        None => discover(cluster, &pieces)?,
    };
    let layout = decide(cluster, &pieces, shape, partition)?;
    finish_at_home(cluster, pieces, shape, layout, finish)
}

/// *Collective.* The same where shape and division are decided.
pub(crate) fn place_by<T: Element, const N: usize>(
    cluster: &Cluster,
    builders: Vec<SparseBuilder<T, N>>,
    shape: Shape<N>,
    layout: Layout,
    duplicates: DuplicatePolicy<T>,
) -> hemiola_cluster::Result<DistArray<T, N>> {
    let Pieces { pieces, .. } = Pieces::built(builders, None);
    finish_at_home(cluster, pieces, shape, layout, |builder, shape, order| builder.finish(shape, order, duplicates))
}

fn finish_at_home<T: Element, U: Element, const N: usize>(
    cluster: &Cluster,
    pieces: Vec<Piece<'_, T, N>>,
    shape: Shape<N>,
    layout: Layout,
    finish: impl Fn(SparseBuilder<T, N>, Shape<N>, [usize; N]) -> Result<SparseBlock<U, N>> + Sync,
) -> hemiola_cluster::Result<DistArray<U, N>> {
    let homes = send_home(cluster, pieces, &layout)?;
    let order = order::<N>(&layout);
    let blocks = agree(cluster, in_parallel(cluster, homes, |builder| finish(builder, shape, order))?)?;
    DistArray::assemble(cluster, shape, layout, Storage::Sparse(blocks))
}

pub(crate) fn discover<T: Element, const N: usize>(
    cluster: &Cluster,
    pieces: &[Piece<'_, T, N>],
) -> hemiola_cluster::Result<Shape<N>> {
    let mut extents = vec![0; N];
    for piece in pieces {
        match piece {
            Piece::Built(builder) => widen(&mut extents, builder.shape().extents().into_iter()),
            Piece::Held(block) => widen(&mut extents, block.shape().extents().into_iter()),
        }
    }
    let mut all = vec![0; N];
    for extents in cluster.all_gather(extents)? {
        widen(&mut all, extents.into_iter());
    }
    Ok(Shape::new(std::array::from_fn(|dimension| all[dimension])))
}

fn widen(extents: &mut [u64], others: impl Iterator<Item = u64>) {
    for (extent, other) in extents.iter_mut().zip(others) {
        *extent = other.max(*extent);
    }
}

fn decide<T: Element, const N: usize>(
    cluster: &Cluster,
    pieces: &[Piece<'_, T, N>],
    shape: Shape<N>,
    partition: &Partition,
) -> hemiola_cluster::Result<Layout> {
    let mut histograms: Vec<(usize, Histogram)> = Vec::new();
    for dimension in partition.balanced_dimensions() {
        let mut histogram = Histogram::new(shape.extent(dimension), BINS);
        for keys in pieces.iter().flat_map(Piece::keys) {
            histogram.add_all(&keys[dimension]);
        }
        histograms.push((dimension, merged(cluster, histogram)?));
    }
    let of = |wanted| {
        let found = histograms.iter().find(|(dimension, _)| *dimension == wanted);
        found.map(|(_, histogram)| histogram.clone()).expect("balanced dimensions have a histogram")
    };
    Ok(partition.decide(shape, cluster.size(), cluster_workers(cluster)?, of))
}

/// *Collective.* The sum of every peer's histogram, on every peer.
pub(crate) fn merged(cluster: &Cluster, histogram: Histogram) -> hemiola_cluster::Result<Histogram> {
    let mut all = cluster.all_gather(histogram)?.into_iter();
    let mut sum = all.next().expect("there is at least one peer");
    all.for_each(|other| sum.merge(&other));
    Ok(sum)
}

/// *Collective.* Workers per peer; the most any has, if they differ.
pub(crate) fn cluster_workers(cluster: &Cluster) -> hemiola_cluster::Result<usize> {
    Ok(cluster.all_gather(cluster.workers())?.into_iter().max().unwrap_or(1))
}

/// Entries are sorted by the space dimension first, then by the others in order.
fn order<const N: usize>(layout: &Layout) -> [usize; N] {
    let space = layout.space.dimension;
    let mut dimensions = std::iter::once(space).chain((0..N).filter(|dimension| *dimension != space));
    std::array::from_fn(|_| dimensions.next().expect("as many dimensions as there are"))
}

/// Does `work` for each item on this peer's workers; results in order, or the first error in order.
pub(crate) fn in_parallel<I: Send, O: Send>(
    cluster: &Cluster,
    items: Vec<I>,
    work: impl Fn(I) -> Result<O> + Sync,
) -> hemiola_cluster::Result<Result<Vec<O>>> {
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(count));
    cluster.each_worker(|_| {
        loop {
            let Some((index, item)) = queue.lock().next() else { break };
            let result = work(item);
            done.lock().push((index, result));
        }
    })?;
    let mut done = done.into_inner();
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// The entries of blocks as builders again, one per block.
pub(crate) fn reopened<T: Clone, const N: usize>(blocks: &[SparseBlock<T, N>]) -> Vec<SparseBuilder<T, N>> {
    let reopen = |block: &SparseBlock<T, N>| {
        let mut builder = SparseBuilder::new();
        builder.push_columns(std::array::from_fn(|dimension| block.keys(dimension).clone()), block.values().to_vec());
        builder
    };
    blocks.iter().map(reopen).collect()
}
