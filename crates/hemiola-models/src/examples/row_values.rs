//! Values computed for each row of a feature matrix, gathered on every peer.

use super::{BlockedRows, ExampleBlock};
use hemiola_array::DistArray;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{Algorithm, CollectiveExt, ReduceOp};

/// *Collective.* Returns `width` values for each row, by row, equal on every peer. `fill` computes
/// those of a row of a block. Values in columns from `columns` on are dropped.
pub(crate) fn row_values(
    cluster: &Cluster,
    features: &DistArray<f32, 2>,
    columns: usize,
    width: usize,
    fill: impl Fn(&ExampleBlock, usize, &mut [f64]) + Sync,
) -> Result<Vec<f64>> {
    let rows = features.shape().extent(0);
    let blocks = BlockedRows::distribute(cluster, features, None, rows, columns, |_| false)?.train.blocks;
    let of_blocks = block_values(cluster, &blocks, width, fill)?;
    let mut all = vec![0.0; rows * width];
    let numbers = blocks.iter().flat_map(|block| &block.numbers);
    for (row, values) in numbers.zip(of_blocks.chunks_exact(width)) {
        all[row * width..][..width].copy_from_slice(values);
    }
    // Each row is nonzero on one peer only.
    cluster.communicator()?.with_algorithm(Algorithm::Ring).all_reduce(&mut all, ReduceOp::Sum)?;
    Ok(all)
}

/// Returns `width` values for each row of the blocks of this peer, in order.
pub(crate) fn block_values(
    cluster: &Cluster,
    blocks: &[ExampleBlock],
    width: usize,
    fill: impl Fn(&ExampleBlock, usize, &mut [f64]) + Sync,
) -> Result<Vec<f64>> {
    let of_workers = cluster.each_worker(|worker| {
        let share = |index: usize| index * blocks.len() / worker.count();
        let own = &blocks[share(worker.index())..share(worker.index() + 1)];
        let mut values = vec![0.0; own.iter().map(ExampleBlock::len).sum::<usize>() * width];
        let mut rows = values.chunks_exact_mut(width);
        for block in own {
            for (row, values) in (0..block.len()).zip(&mut rows) {
                fill(block, row, values);
            }
        }
        values
    })?;
    Ok(of_workers.concat())
}

/// Returns a value for each block of this peer, in order; workers share the blocks.
pub(crate) fn each_block<T: Send>(
    cluster: &Cluster,
    blocks: &[ExampleBlock],
    value: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>> {
    let of_workers = cluster.each_worker(|worker| {
        let share = |index: usize| index * blocks.len() / worker.count();
        (share(worker.index())..share(worker.index() + 1)).map(&value).collect::<Vec<T>>()
    })?;
    Ok(of_workers.into_iter().flatten().collect())
}
