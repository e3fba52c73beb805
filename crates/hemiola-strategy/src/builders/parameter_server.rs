//! Strategies that serve every variable from parameter servers.

use crate::model::{ModelSpec, VariableSpec};
use crate::node::{StrategyNode, Synchronizer, TableConsistency};
use crate::partition::Partitioning;
use crate::resources::ResourceSpec;
use crate::strategy::VariablePlan;
use hemiola_core::Rank;

/// Variables below this size are not cut: a message costs more than it saves.
pub(super) const SMALL_BYTES: u64 = 64 << 10;
/// Size of the key-value chunks in tables, as in Poseidon (Zhang et al. 2017, section 3.4).
const CHUNK_BYTES: u64 = 2 << 20;
/// Size of the pieces of `BytePS`.
const PIECE_BYTES: u64 = 4_096_000;

/// Plan of a variable that is served by these peers, one per shard.
pub(super) fn served(variable: &VariableSpec, partitioning: Partitioning, peers: Vec<Rank>) -> VariablePlan {
    let nodes = peers.into_iter().map(StrategyNode::parameter_server).collect();
    VariablePlan { variable: variable.name.clone(), shape: variable.shape.clone(), partitioning, nodes }
}

pub(super) fn on_first_peer(model: &ModelSpec) -> Vec<VariablePlan> {
    model.variables.iter().map(|variable| served(variable, Partitioning::whole(variable), vec![Rank::ROOT])).collect()
}

/// Assigns shards, the largest first, each to the peer with the fewest bytes; among equals to the
/// lowest rank.
struct ShardAssigner {
    bytes: Vec<u64>,
}

impl ShardAssigner {
    fn new(cluster: &ResourceSpec) -> Self {
        Self { bytes: vec![0; cluster.size()] }
    }

    fn assign(&mut self, bytes: u64) -> Rank {
        let least = (0..self.bytes.len()).min_by_key(|peer| self.bytes[*peer]).expect("a cluster has peers");
        self.bytes[least] += bytes;
        Rank::new(least as u32)
    }
}

/// Plan of each variable, cut by `cut`, with its shards assigned to all peers.
pub(super) fn assign_shards(
    model: &ModelSpec,
    cluster: &ResourceSpec,
    cut: impl Fn(&VariableSpec) -> Partitioning,
) -> Vec<VariablePlan> {
    let mut dealer = ShardAssigner::new(cluster);
    let mut largest_first: Vec<(usize, usize, u64)> = Vec::new();
    let cuts: Vec<Partitioning> = model.variables.iter().map(cut).collect();
    for (index, (variable, partitioning)) in model.variables.iter().zip(&cuts).enumerate() {
        let shards = partitioning.cut(&variable.shape);
        largest_first.extend(shards.iter().enumerate().map(|(shard, piece)| (index, shard, 4 * piece.elements())));
    }
    largest_first.sort_by_key(|(index, shard, bytes)| (std::cmp::Reverse(*bytes), *index, *shard));
    let mut homes: Vec<Vec<Rank>> = cuts.iter().map(|partitioning| vec![Rank::ROOT; partitioning.shards()]).collect();
    for (index, shard, bytes) in largest_first {
        homes[index][shard] = dealer.assign(bytes);
    }
    let plans = model.variables.iter().zip(cuts).zip(homes);
    plans.map(|((variable, partitioning), peers)| served(variable, partitioning, peers)).collect()
}

pub(super) fn balanced(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    assign_shards(model, cluster, Partitioning::whole)
}

/// Partitioning of a variable into at most `most` shards, none of them small.
pub(super) fn cut_large(variable: &VariableSpec, most: usize) -> Partitioning {
    let pieces = usize::try_from(variable.bytes() / SMALL_BYTES).unwrap_or(usize::MAX).clamp(1, most);
    Partitioning::along(variable, longest(variable), pieces)
}

pub(super) fn partitioned(model: &ModelSpec, cluster: &ResourceSpec, most: usize) -> Vec<VariablePlan> {
    assign_shards(model, cluster, |variable| cut_large(variable, most))
}

/// Partitioning of a variable into shards of at most `most` bytes.
fn pieces_of(variable: &VariableSpec, most: u64) -> Partitioning {
    let pieces = usize::try_from(variable.bytes().div_ceil(most)).unwrap_or(usize::MAX);
    Partitioning::along(variable, longest(variable), pieces)
}

pub(super) fn byteps_pieces(model: &ModelSpec, cluster: &ResourceSpec) -> Vec<VariablePlan> {
    assign_shards(model, cluster, |variable| pieces_of(variable, PIECE_BYTES))
}

/// Tables of chunks, each on the peer with the fewest bytes.
pub(super) fn tables(model: &ModelSpec, cluster: &ResourceSpec, consistency: TableConsistency) -> Vec<VariablePlan> {
    let mut plans = assign_shards(model, cluster, |variable| pieces_of(variable, CHUNK_BYTES));
    for node in plans.iter_mut().flat_map(|plan| &mut plan.nodes) {
        node.synchronizer = Synchronizer::Table { consistency };
    }
    plans
}

/// Dimension with the most elements; of equals the first, whose shards are contiguous.
pub(super) fn longest(variable: &VariableSpec) -> usize {
    let extents = variable.shape.iter().enumerate();
    extents.rev().max_by_key(|(_, extent)| **extent).map_or(0, |(dimension, _)| dimension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::ShardPlacement;
    use crate::resources::LinkSpec;

    fn bytes_by_peer(plans: &[VariablePlan], peers: usize) -> Vec<u64> {
        let mut bytes = vec![0; peers];
        for (shard, node) in plans.iter().flat_map(VariablePlan::shards) {
            let ShardPlacement::On(peer) = node.placement else { panic!("{node:?}") };
            bytes[peer.index()] += 4 * shard.elements();
        }
        bytes
    }

    fn model() -> ModelSpec {
        let sizes = [7, 5_000_000, 300_000, 299_993, 12, 65_536, 4_000_000, 1];
        let variables = sizes.iter().enumerate().map(|(index, size)| VariableSpec::dense(format!("v{index}"), [*size]));
        ModelSpec::new(variables.collect()).unwrap()
    }

    #[test]
    fn bytes_are_balanced_as_far_as_whole_variables_allow() {
        let cluster = ResourceSpec::uniform(3, LinkSpec::bits(1e9, 0.0));
        let whole = bytes_by_peer(&balanced(&model(), &cluster), 3);
        assert_eq!(whole.iter().max(), Some(&20_000_000), "the largest is alone: {whole:?}");
        let cut = bytes_by_peer(&partitioned(&model(), &cluster, 3), 3);
        assert!(*cut.iter().max().unwrap() as f64 <= 1.02 * *cut.iter().min().unwrap() as f64, "{cut:?}");
    }

    #[test]
    fn pieces_are_of_a_size() {
        let cluster = ResourceSpec::uniform(3, LinkSpec::bits(1e9, 0.0));
        let plans = byteps_pieces(&model(), &cluster);
        let sizes: Vec<u64> =
            plans.iter().flat_map(VariablePlan::shards).map(|(shard, _)| 4 * shard.elements()).collect();
        assert!(sizes.iter().all(|bytes| *bytes <= PIECE_BYTES), "{sizes:?}");
        assert_eq!(plans[1].nodes.len(), 5);
    }

    #[test]
    fn the_longest_dimension_is_cut() {
        assert_eq!(longest(&VariableSpec::dense("v", [3, 9, 9])), 1);
        assert_eq!(longest(&VariableSpec::dense("v", [])), 0);
        assert_eq!(cut_large(&VariableSpec::dense("v", [3, 1_000_003]), 8).pieces, [1, 8]);
        assert_eq!(cut_large(&VariableSpec::dense("v", [100]), 8).pieces, [1]);
    }
}
