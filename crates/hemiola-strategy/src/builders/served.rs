//! Strategies of parameter servers.

use crate::cluster::Cluster;
use crate::model::{Model, Variable};
use crate::node::Node;
use crate::partition::Partitioning;
use crate::strategy::Plan;
use hemiola_core::Rank;

/// Smaller variables are not worth cutting: a message costs more than what is saved.
const SMALL_BYTES: u64 = 64 << 10;
/// What `BytePS` cuts variables into.
const PIECE_BYTES: u64 = 4_096_000;

/// A plan by which a variable is served, cut like this, by these peers.
fn served(variable: &Variable, partitioning: Partitioning, peers: Vec<Rank>) -> Plan {
    let nodes = peers.into_iter().map(Node::served).collect();
    Plan { variable: variable.name.clone(), shape: variable.shape.clone(), partitioning, nodes }
}

pub(super) fn on_first(model: &Model) -> Vec<Plan> {
    model.variables.iter().map(|variable| served(variable, Partitioning::whole(variable), vec![Rank::ROOT])).collect()
}

/// Deals shards out, the largest first, each to the peer that has the fewest bytes; among equals to the lowest rank.
struct Dealer {
    bytes: Vec<u64>,
}

impl Dealer {
    fn new(cluster: &Cluster) -> Self {
        Self { bytes: vec![0; cluster.size()] }
    }

    fn deal(&mut self, bytes: u64) -> Rank {
        let least = (0..self.bytes.len()).min_by_key(|peer| self.bytes[*peer]).expect("a cluster has peers");
        self.bytes[least] += bytes;
        Rank::new(least as u32)
    }
}

/// A plan for each variable, cut as `cut` says, its shards dealt out over all peers.
pub(super) fn dealt(model: &Model, cluster: &Cluster, cut: impl Fn(&Variable) -> Partitioning) -> Vec<Plan> {
    let mut dealer = Dealer::new(cluster);
    let mut largest_first: Vec<(usize, usize, u64)> = Vec::new();
    let cuts: Vec<Partitioning> = model.variables.iter().map(cut).collect();
    for (at, (variable, partitioning)) in model.variables.iter().zip(&cuts).enumerate() {
        let shards = partitioning.cut(&variable.shape);
        largest_first.extend(shards.iter().enumerate().map(|(shard, piece)| (at, shard, 4 * piece.elements())));
    }
    largest_first.sort_by_key(|(at, shard, bytes)| (std::cmp::Reverse(*bytes), *at, *shard));
    let mut homes: Vec<Vec<Rank>> = cuts.iter().map(|partitioning| vec![Rank::ROOT; partitioning.shards()]).collect();
    for (at, shard, bytes) in largest_first {
        homes[at][shard] = dealer.deal(bytes);
    }
    let plans = model.variables.iter().zip(cuts).zip(homes);
    plans.map(|((variable, partitioning), peers)| served(variable, partitioning, peers)).collect()
}

pub(super) fn balanced(model: &Model, cluster: &Cluster) -> Vec<Plan> {
    dealt(model, cluster, Partitioning::whole)
}

/// Into how many shards a variable is cut, at most, so that none is small.
pub(super) fn cut_large(variable: &Variable, most: usize) -> Partitioning {
    let pieces = usize::try_from(variable.bytes() / SMALL_BYTES).unwrap_or(usize::MAX).clamp(1, most);
    Partitioning::along(variable, longest(variable), pieces)
}

pub(super) fn partitioned(model: &Model, cluster: &Cluster, most: usize) -> Vec<Plan> {
    dealt(model, cluster, |variable| cut_large(variable, most))
}

pub(super) fn pieces(model: &Model, cluster: &Cluster) -> Vec<Plan> {
    dealt(model, cluster, |variable| {
        let pieces = usize::try_from(variable.bytes().div_ceil(PIECE_BYTES)).unwrap_or(usize::MAX);
        Partitioning::along(variable, longest(variable), pieces)
    })
}

/// The dimension with the most elements; of equals the first, whose shards are contiguous.
fn longest(variable: &Variable) -> usize {
    let extents = variable.shape.iter().enumerate();
    extents.rev().max_by_key(|(_, extent)| **extent).map_or(0, |(dimension, _)| dimension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Link;
    use crate::node::Placement;

    fn bytes_by_peer(plans: &[Plan], peers: usize) -> Vec<u64> {
        let mut bytes = vec![0; peers];
        for (shard, node) in plans.iter().flat_map(Plan::shards) {
            let Placement::On(peer) = node.placement else { panic!("{node:?}") };
            bytes[peer.index()] += 4 * shard.elements();
        }
        bytes
    }

    fn model() -> Model {
        let sizes = [7, 5_000_000, 300_000, 299_993, 12, 65_536, 4_000_000, 1];
        let variables = sizes.iter().enumerate().map(|(at, size)| Variable::dense(format!("v{at}"), [*size]));
        Model::new(variables.collect()).unwrap()
    }

    #[test]
    fn bytes_are_balanced_as_far_as_whole_variables_allow() {
        let cluster = Cluster::uniform(3, Link::bits(1e9, 0.0));
        let whole = bytes_by_peer(&balanced(&model(), &cluster), 3);
        assert_eq!(whole.iter().max(), Some(&20_000_000), "the largest is alone: {whole:?}");
        let cut = bytes_by_peer(&partitioned(&model(), &cluster, 3), 3);
        assert!(*cut.iter().max().unwrap() as f64 <= 1.02 * *cut.iter().min().unwrap() as f64, "{cut:?}");
    }

    #[test]
    fn pieces_are_of_a_size() {
        let cluster = Cluster::uniform(3, Link::bits(1e9, 0.0));
        let plans = pieces(&model(), &cluster);
        let sizes: Vec<u64> = plans.iter().flat_map(Plan::shards).map(|(shard, _)| 4 * shard.elements()).collect();
        assert!(sizes.iter().all(|bytes| *bytes <= PIECE_BYTES), "{sizes:?}");
        assert_eq!(plans[1].nodes.len(), 5);
    }

    #[test]
    fn the_longest_dimension_is_cut() {
        assert_eq!(longest(&Variable::dense("v", [3, 9, 9])), 1);
        assert_eq!(longest(&Variable::dense("v", [])), 0);
        assert_eq!(cut_large(&Variable::dense("v", [3, 1_000_003]), 8).0, [1, 8]);
        assert_eq!(cut_large(&Variable::dense("v", [100]), 8).0, [1]);
    }
}
