//! Shuffle of entries to the peers that own their blocks.
//!
//! Each worker scatters its inputs to blocks, column by column; blocks of other peers are sent by
//! [`shuffle`]. **Invariant:** a block receives its entries in the order of the source: from the
//! lowest rank first, and in the order each peer read them.

use crate::dist::block_lookup::BlockLookup;
use crate::dist::build::in_parallel;
use crate::dist::element::Element;
use crate::dist::partition::ArrayLayout;
use crate::dist::shuffle::shuffle;
use crate::sparse::scatter::{scatter_block, scatter_builder};
use crate::sparse::{KeyColumn, SparseBlock, SparseBuilder};
use hemiola_cluster::Cluster;
use hemiola_core::Rank;

/// Entries that this peer brings into a shuffle.
#[derive(Debug)]
pub(crate) enum ShuffleInput<'a, T, const N: usize> {
    /// Entries that were collected into a builder.
    Builder(SparseBuilder<T, N>),
    /// Block of an array that remains unchanged.
    Block(&'a SparseBlock<T, N>),
}

impl<T: Element, const N: usize> ShuffleInput<'_, T, N> {
    /// Key columns, chunk by chunk.
    pub(crate) fn keys(&self) -> Vec<&[KeyColumn; N]> {
        match self {
            Self::Builder(builder) => builder.columns().map(|(keys, _)| keys).collect(),
            Self::Block(block) => vec![block.columns()],
        }
    }

    fn into_builder(self) -> SparseBuilder<T, N> {
        match self {
            Self::Builder(builder) => builder,
            Self::Block(block) => {
                let mut builder = SparseBuilder::new();
                builder.push_columns(block.columns().clone(), block.values().to_vec());
                builder
            }
        }
    }

    /// Scatters the entries to blocks.
    fn scatter(self, blocks: usize, lookup: &BlockLookup<'_>) -> Vec<SparseBuilder<T, N>> {
        let mut scattered: Vec<SparseBuilder<T, N>> = (0..blocks).map(|_| SparseBuilder::new()).collect();
        let block_of = |keys: &_, positions, parts: &mut _| lookup.fill(keys, positions, parts);
        match self {
            Self::Builder(builder) => scatter_builder(builder, &mut scattered, block_of),
            Self::Block(block) => scatter_block(block, &mut scattered, block_of),
        }
        scattered
    }
}

/// *Collective.* Moves entries to the owners of their blocks; returns the builders of this peer's
/// blocks, in block order.
pub(crate) fn shuffle_to_owners<T: Element, const N: usize>(
    cluster: &Cluster,
    inputs: Vec<ShuffleInput<'_, T, N>>,
    layout: &ArrayLayout,
) -> hemiola_cluster::Result<Vec<SparseBuilder<T, N>>> {
    let blocks = layout.parts() * layout.blocks_per_part();
    if blocks == 1 {
        return Ok(vec![concatenate(inputs.into_iter().map(ShuffleInput::into_builder))]);
    }
    let lookup = BlockLookup::new(layout);
    let scattered = in_parallel(cluster, inputs, |input| Ok(input.scatter(blocks, &lookup)))??;
    let mut scattered: Vec<_> = scattered.into_iter().map(Vec::into_iter).collect();
    let mut per_block = (0..blocks).map(|_| concatenate(scattered.iter_mut().filter_map(Iterator::next)));
    // Blocks are numbered part by part, and peers own consecutive parts.
    let of = |peer: Rank| layout.parts_of(peer).len() * layout.blocks_per_part();
    let outgoing = Rank::all(cluster.size()).map(|peer| per_block.by_ref().take(of(peer)).collect()).collect();
    let received = shuffle(cluster, outgoing, of(cluster.rank()))?;
    let mut received: Vec<_> = received.into_iter().map(Vec::into_iter).collect();
    Ok((0..of(cluster.rank())).map(|_| concatenate(received.iter_mut().filter_map(Iterator::next))).collect())
}

fn concatenate<T, const N: usize>(builders: impl Iterator<Item = SparseBuilder<T, N>>) -> SparseBuilder<T, N> {
    let mut whole = SparseBuilder::new();
    builders.for_each(|builder| whole.append(builder));
    whole
}
