//! Building an array from the entries each peer has read: agree on the shape, resolve the layout,
//! shuffle the entries to their owners, sort.

use crate::dist::agree::agree;
use crate::dist::array::{DistArray, Storage};
use crate::dist::element::Element;
use crate::dist::owner_shuffle::{ShuffleInput, shuffle_to_owners};
use crate::dist::partition::{ArrayLayout, PartitionSpec};
use crate::sparse::{DuplicatePolicy, SparseBlock, SparseBuilder};
use crate::{Histogram, Result, Shape};
use hemiola_cluster::Cluster;
use parking_lot::Mutex;

/// Maximum bins of a histogram for a balanced partition: exact up to a million indices, and at most
/// 8 MB to exchange.
const BINS: usize = 1 << 20;

/// Entries that this peer has read, in the order of the source.
pub(crate) struct LocalEntries<'a, T, const N: usize> {
    pub(crate) inputs: Vec<ShuffleInput<'a, T, N>>,
    /// Shape of the array, if the source knows it.
    pub(crate) shape: Option<Shape<N>>,
}

impl<'a, T, const N: usize> LocalEntries<'a, T, N> {
    /// Entries that were collected into builders.
    pub(crate) fn from_builders(builders: Vec<SparseBuilder<T, N>>, shape: Option<Shape<N>>) -> Self {
        Self { inputs: builders.into_iter().map(ShuffleInput::Builder).collect(), shape }
    }

    /// Entries of the blocks of an array.
    pub(crate) fn from_blocks(blocks: &'a [SparseBlock<T, N>], shape: Shape<N>) -> Self {
        Self { inputs: blocks.iter().map(ShuffleInput::Block).collect(), shape: Some(shape) }
    }
}

/// *Collective.* Builds an array from the entries of all peers.
pub(crate) fn build_array<T: Element, const N: usize>(
    cluster: &Cluster,
    entries: LocalEntries<'_, T, N>,
    partition: &PartitionSpec,
    duplicates: DuplicatePolicy<T>,
) -> hemiola_cluster::Result<DistArray<T, N>> {
    build_array_with(cluster, entries, partition, |builder, shape, order| builder.finish(shape, order, duplicates))
}

/// *Collective.* Builds an array, with `finish` making a block of the entries received for it.
pub(crate) fn build_array_with<T: Element, U: Element, const N: usize>(
    cluster: &Cluster,
    entries: LocalEntries<'_, T, N>,
    partition: &PartitionSpec,
    finish: impl Fn(SparseBuilder<T, N>, Shape<N>, [usize; N]) -> Result<SparseBlock<U, N>> + Sync,
) -> hemiola_cluster::Result<DistArray<U, N>> {
    let LocalEntries { inputs, shape } = entries;
    let shape = match shape {
        Some(shape) => shape,
        None => discover_shape(cluster, &inputs)?,
    };
    let layout = resolve_layout(cluster, &inputs, shape, partition)?;
    finish_blocks(cluster, inputs, shape, layout, finish)
}

/// *Collective.* Builds an array with a given shape and layout.
pub(crate) fn build_array_in_layout<T: Element, const N: usize>(
    cluster: &Cluster,
    builders: Vec<SparseBuilder<T, N>>,
    shape: Shape<N>,
    layout: ArrayLayout,
    duplicates: DuplicatePolicy<T>,
) -> hemiola_cluster::Result<DistArray<T, N>> {
    let LocalEntries { inputs, .. } = LocalEntries::from_builders(builders, None);
    finish_blocks(cluster, inputs, shape, layout, |builder, shape, order| builder.finish(shape, order, duplicates))
}

fn finish_blocks<T: Element, U: Element, const N: usize>(
    cluster: &Cluster,
    inputs: Vec<ShuffleInput<'_, T, N>>,
    shape: Shape<N>,
    layout: ArrayLayout,
    finish: impl Fn(SparseBuilder<T, N>, Shape<N>, [usize; N]) -> Result<SparseBlock<U, N>> + Sync,
) -> hemiola_cluster::Result<DistArray<U, N>> {
    let builders = shuffle_to_owners(cluster, inputs, &layout)?;
    let order = sort_order::<N>(&layout);
    let blocks = agree(cluster, in_parallel(cluster, builders, |builder| finish(builder, shape, order))?)?;
    DistArray::from_local_storage(cluster, shape, layout, Storage::Sparse(blocks))
}

pub(crate) fn discover_shape<T: Element, const N: usize>(
    cluster: &Cluster,
    inputs: &[ShuffleInput<'_, T, N>],
) -> hemiola_cluster::Result<Shape<N>> {
    let mut extents = vec![0; N];
    for input in inputs {
        match input {
            ShuffleInput::Builder(builder) => widen(&mut extents, builder.shape().extents().into_iter()),
            ShuffleInput::Block(block) => widen(&mut extents, block.shape().extents().into_iter()),
        }
    }
    let mut all = vec![0; N];
    for extents in cluster.all_gather(extents)? {
        widen(&mut all, extents.into_iter());
    }
    Ok(Shape::new(std::array::from_fn(|dimension| all[dimension])))
}

fn widen(extents: &mut [usize], others: impl Iterator<Item = usize>) {
    for (extent, other) in extents.iter_mut().zip(others) {
        *extent = other.max(*extent);
    }
}

fn resolve_layout<T: Element, const N: usize>(
    cluster: &Cluster,
    inputs: &[ShuffleInput<'_, T, N>],
    shape: Shape<N>,
    partition: &PartitionSpec,
) -> hemiola_cluster::Result<ArrayLayout> {
    let mut histograms: Vec<(usize, Histogram)> = Vec::new();
    for dimension in partition.balanced_dimensions() {
        let mut histogram = Histogram::new(shape.extent(dimension), BINS);
        for keys in inputs.iter().flat_map(ShuffleInput::keys) {
            histogram.add_column(&keys[dimension]);
        }
        histograms.push((dimension, sum_histograms(cluster, histogram)?));
    }
    let of = |wanted| {
        let found = histograms.iter().find(|(dimension, _)| *dimension == wanted);
        found.map(|(_, histogram)| histogram.clone()).expect("every balanced dimension has a histogram")
    };
    Ok(partition.resolve(shape, cluster.size(), cluster_workers(cluster)?, of))
}

/// *Collective.* All-reduce of histograms: every peer gets the sum.
pub(crate) fn sum_histograms(cluster: &Cluster, histogram: Histogram) -> hemiola_cluster::Result<Histogram> {
    cluster.all_reduce(histogram, |sum, other| sum.merge(&other))
}

/// *Collective.* Workers per peer; the maximum if peers differ.
pub(crate) fn cluster_workers(cluster: &Cluster) -> hemiola_cluster::Result<usize> {
    Ok(cluster.all_gather(cluster.workers())?.into_iter().max().unwrap_or(1))
}

/// Sort order of entries: the space dimension first, then the others in order.
fn sort_order<const N: usize>(layout: &ArrayLayout) -> [usize; N] {
    let space = layout.space.dimension;
    let mut dimensions = std::iter::once(space).chain((0..N).filter(|dimension| *dimension != space));
    std::array::from_fn(|_| dimensions.next().expect("the iterator yields N dimensions"))
}

/// Runs `work` for each item on this peer's workers. Returns the results in order, or the first
/// error in order.
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
    Ok(by_number(done.into_inner()).map(|(_, result)| result).collect())
}

/// Returns numbered elements in the order of their numbers; elements with the same number keep
/// their order.
///
/// Sorts positions instead of elements: a sort of every element type would be most of the code of
/// the programs that read arrays.
pub(crate) fn by_number<T>(elements: Vec<(usize, T)>) -> impl Iterator<Item = (usize, T)> {
    let order = sorted_positions(&elements.iter().map(|(number, _)| *number).collect::<Vec<_>>());
    let mut elements: Vec<Option<(usize, T)>> = elements.into_iter().map(Some).collect();
    order.into_iter().filter_map(move |position| elements[position].take())
}

/// Returns the positions of numbers in ascending order of the numbers.
fn sorted_positions(numbers: &[usize]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..numbers.len()).collect();
    positions.sort_unstable_by_key(|position| (numbers[*position], *position));
    positions
}

/// Copies the entries of blocks into builders, one per block.
pub(crate) fn to_builders<T: Clone, const N: usize>(blocks: &[SparseBlock<T, N>]) -> Vec<SparseBuilder<T, N>> {
    let to_builder = |block: &SparseBlock<T, N>| {
        let mut builder = SparseBuilder::new();
        builder.push_columns(std::array::from_fn(|dimension| block.keys(dimension).clone()), block.values().to_vec());
        builder
    };
    blocks.iter().map(to_builder).collect()
}
