//! Sending entries to the peer that holds their block.
//!
//! Each worker deals its pieces out to blocks, column by column; blocks of other peers travel by [`exchange`].
//! **Invariant:** a block receives its entries in the order of the source: from the lowest rank first, and in the order each
//! peer read them.

use crate::dist::element::Element;
use crate::dist::exchange::exchange;
use crate::dist::homes::Homes;
use crate::dist::partition::Layout;
use crate::dist::place::in_parallel;
use crate::sparse::deal::{deal_block, deal_builder};
use crate::sparse::{KeyColumn, SparseBlock, SparseBuilder};
use hemiola_cluster::Cluster;
use hemiola_core::Rank;

/// Entries that this peer brings into a shuffle.
#[derive(Debug)]
pub(crate) enum Piece<'a, T, const N: usize> {
    /// Collected for it.
    Built(SparseBuilder<T, N>),
    /// Of an array that stays as it is.
    Held(&'a SparseBlock<T, N>),
}

impl<T: Element, const N: usize> Piece<'_, T, N> {
    /// The key columns, chunk by chunk.
    pub(crate) fn keys(&self) -> Vec<&[KeyColumn; N]> {
        match self {
            Self::Built(builder) => builder.columns().map(|(keys, _)| keys).collect(),
            Self::Held(block) => vec![block.columns()],
        }
    }

    fn into_builder(self) -> SparseBuilder<T, N> {
        match self {
            Self::Built(builder) => builder,
            Self::Held(block) => {
                let mut builder = SparseBuilder::new();
                builder.push_columns(block.columns().clone(), block.values().to_vec());
                builder
            }
        }
    }

    /// Deals the entries out to blocks.
    fn dealt(self, blocks: usize, homes: &Homes<'_>) -> Vec<SparseBuilder<T, N>> {
        let mut dealt: Vec<SparseBuilder<T, N>> = (0..blocks).map(|_| SparseBuilder::new()).collect();
        let home = |keys: &_, positions, parts: &mut _| homes.fill(keys, positions, parts);
        match self {
            Self::Built(builder) => deal_builder(builder, &mut dealt, home),
            Self::Held(block) => deal_block(block, &mut dealt, home),
        }
        dealt
    }
}

/// *Collective.* Moves entries to the peers that hold them; the builders of this peer's blocks, in block order.
pub(crate) fn send_home<T: Element, const N: usize>(
    cluster: &Cluster,
    pieces: Vec<Piece<'_, T, N>>,
    layout: &Layout,
) -> hemiola_cluster::Result<Vec<SparseBuilder<T, N>>> {
    let blocks = layout.parts() * layout.blocks_per_part();
    if blocks == 1 {
        return Ok(vec![joined(pieces.into_iter().map(Piece::into_builder))]);
    }
    let homes = Homes::new(layout);
    let scattered = in_parallel(cluster, pieces, |piece| Ok(piece.dealt(blocks, &homes)))??;
    let mut scattered: Vec<_> = scattered.into_iter().map(Vec::into_iter).collect();
    let mut dealt = (0..blocks).map(|_| joined(scattered.iter_mut().filter_map(Iterator::next)));
    // Blocks lie part by part, and peers hold consecutive parts.
    let of = |peer: Rank| layout.parts_of(peer).len() * layout.blocks_per_part();
    let outgoing = Rank::all(cluster.size()).map(|peer| dealt.by_ref().take(of(peer)).collect()).collect();
    let received = exchange(cluster, outgoing, of(cluster.rank()))?;
    let mut received: Vec<_> = received.into_iter().map(Vec::into_iter).collect();
    Ok((0..of(cluster.rank())).map(|_| joined(received.iter_mut().filter_map(Iterator::next))).collect())
}

fn joined<T, const N: usize>(builders: impl Iterator<Item = SparseBuilder<T, N>>) -> SparseBuilder<T, N> {
    let mut whole = SparseBuilder::new();
    builders.for_each(|builder| whole.append(builder));
    whole
}
