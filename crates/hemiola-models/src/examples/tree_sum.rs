//! Sum over blocks in the order of one fixed binary tree.
//!
//! Floating-point addition is not associative, so a sum usually depends on the number of workers
//! and peers among whom it is divided. Here the blocks are the leaves of a complete binary tree, and
//! an inner node is the sum of its left child and its right one, in this order. A worker has a range
//! of consecutive blocks and sums the largest subtrees in it; those of all workers, then of all
//! peers, are combined further up.
//!
//! **Invariant:** the result is that of one worker which sums the whole tree, bit for bit, on any
//! number of workers and peers.

use super::BlockedRows;
use hemiola_cluster::{Cluster, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Range;

/// Level of a node above the leaves, and its index within the level.
type NodeAddress = (u32, usize);

/// *Collective.* Returns the sum over the blocks of all peers, equal on every peer; `None` without
/// blocks. If a peer is asked to stop, blocks are left out and all peers get that error. `leaf`
/// computes the summand of a block of this peer by its local index.
///
/// Every peer receives the sums of all others: one for each peer, if the number of peers is a power
/// of two.
pub(crate) fn tree_sum<T: Serialize + DeserializeOwned + Send>(
    cluster: &Cluster,
    rows: &BlockedRows,
    leaf: impl Fn(usize) -> T + Sync,
    add: impl Fn(T, T) -> T + Sync,
) -> Result<Option<T>> {
    let tree = BlockTree { leaves: rows.total_blocks() };
    let own = rows.own_blocks();
    let stop = cluster.stop_request();
    let counted = |number: usize| (!stop.is_accepted()).then(|| leaf(number - own.start));
    let added = |left: Option<T>, right: Option<T>| Some(add(left?, right?));
    let of_workers = cluster.each_worker(|worker| {
        let share = |index: usize| own.start + index * own.len() / worker.count();
        let mut sums = BTreeMap::new();
        tree.subtrees(&(share(worker.index())..share(worker.index() + 1)), &mut |address| {
            sums.insert(address, tree.sum(address, &counted, &added));
        });
        sums
    })?;
    let sums = of_workers.into_iter().flatten().map(|(address, sum)| Some((address, sum?)));
    // `None` if a worker of this peer was asked to stop.
    let mut sums: Option<BTreeMap<NodeAddress, T>> = sums.collect();
    if cluster.size() > 1 {
        let of_peer = sums.map(|mut sums| {
            let mut of_peer = Vec::new();
            tree.subtrees(&own, &mut |address| {
                of_peer.extend(tree.combine(address, &mut sums, &add).map(|sum| (address, sum)));
            });
            of_peer
        });
        let all: Option<Vec<Vec<(NodeAddress, T)>>> = cluster.all_gather(of_peer)?.into_iter().collect();
        sums = all.map(|all| all.into_iter().flatten().collect());
    }
    let mut sums = sums.ok_or(Error::Stopped)?;
    Ok(tree.combine(tree.root(), &mut sums, &add))
}

/// Adds the second vector to the first.
pub(crate) fn add_in_place(mut left: Vec<f64>, right: Vec<f64>) -> Vec<f64> {
    for (left, right) in left.iter_mut().zip(right) {
        *left += right;
    }
    left
}

/// Complete binary tree over `0..leaves`; leaves beyond the last are absent.
#[derive(Clone, Copy)]
struct BlockTree {
    leaves: usize,
}

impl BlockTree {
    fn root(self) -> NodeAddress {
        (self.leaves.next_power_of_two().trailing_zeros(), 0)
    }

    /// Returns the leaves below a node.
    fn span(self, (level, index): NodeAddress) -> Range<usize> {
        let end = self.leaves.min((index + 1) << level);
        end.min(index << level)..end
    }

    /// Visits the largest nodes whose leaves are all in `range`, from left to right.
    fn subtrees(self, range: &Range<usize>, visit: &mut impl FnMut(NodeAddress)) {
        self.subtrees_below(self.root(), range, visit);
    }

    fn subtrees_below(self, address: NodeAddress, range: &Range<usize>, visit: &mut impl FnMut(NodeAddress)) {
        let span = self.span(address);
        if span.start >= range.end.min(span.end) || span.end <= range.start {
            return;
        }
        if range.start <= span.start && span.end <= range.end {
            visit(address);
        } else {
            let (level, index) = address;
            self.subtrees_below((level - 1, 2 * index), range, visit);
            self.subtrees_below((level - 1, 2 * index + 1), range, visit);
        }
    }

    /// Sums all leaves below a node.
    fn sum<T>(self, (level, index): NodeAddress, leaf: &impl Fn(usize) -> T, add: &impl Fn(T, T) -> T) -> T {
        if level == 0 {
            return leaf(index);
        }
        let left = self.sum((level - 1, 2 * index), leaf, add);
        let right = (level - 1, 2 * index + 1);
        if self.span(right).is_empty() { left } else { add(left, self.sum(right, leaf, add)) }
    }

    /// Combines the sums of nodes to that of a node above them.
    fn combine<T>(
        self,
        address: NodeAddress,
        sums: &mut BTreeMap<NodeAddress, T>,
        add: &impl Fn(T, T) -> T,
    ) -> Option<T> {
        if let Some(sum) = sums.remove(&address) {
            return Some(sum);
        }
        let (level, index) = address;
        if level == 0 || self.span(address).is_empty() {
            return None;
        }
        let left = self.combine((level - 1, 2 * index), sums, add);
        match (left, self.combine((level - 1, 2 * index + 1), sums, add)) {
            (Some(left), Some(right)) => Some(add(left, right)),
            (left, right) => left.or(right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_array::ArrayExt;

    #[test]
    fn sums_have_the_same_bits_on_any_cluster() {
        let sum = |peers: usize, workers: usize, rows: usize| {
            let sums = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
                let features =
                    cluster.from_fn([rows, 1], |[row, _]| 1.0 / (row as f32 + 0.7))?.entries().materialize()?;
                let rows = BlockedRows::distribute(cluster, &features, None, rows, 1, |_| false)?.train;
                let leaf = |index: usize| {
                    let block = &rows.blocks[index];
                    (0..block.len()).flat_map(|row| block.row(row)).map(|(_, value)| f64::from(value)).sum::<f64>()
                };
                Ok(tree_sum(cluster, &rows, leaf, |left: f64, right| left + right)?.map(f64::to_bits))
            });
            let sums = sums.unwrap();
            assert!(sums.iter().all(|sum| *sum == sums[0]));
            sums[0]
        };
        for rows in [1, 5, 64, 700] {
            let serial = sum(1, 1, rows);
            let exact: f64 = (0..rows).map(|row| f64::from(1.0 / (row as f32 + 0.7))).sum();
            assert!((f64::from_bits(serial.unwrap()) - exact).abs() < 1e-9);
            for (peers, workers) in [(1, 3), (2, 1), (3, 2), (4, 1), (5, 1)] {
                assert_eq!(sum(peers, workers, rows), serial, "{rows} rows on {peers} peers of {workers} workers");
            }
        }
    }

    #[test]
    fn the_tree_adds_each_leaf_once_in_a_fixed_shape() {
        let tree = BlockTree { leaves: 5 };
        let text = |range: Range<usize>| {
            let mut all = Vec::new();
            tree.subtrees(&range, &mut |address| {
                all.push(tree.sum(address, &|leaf| leaf.to_string(), &|left, right| format!("({left}{right})")));
            });
            all.join(" ")
        };
        assert_eq!(text(0..5), "(((01)(23))4)");
        assert_eq!(text(1..4), "1 (23)");
        assert_eq!(text(4..5), "4");
        assert_eq!(text(2..2), "");
    }
}
