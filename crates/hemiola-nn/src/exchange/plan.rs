//! A strategy as the exchange carries it out: pieces with their values, and units of what travels together.

use super::block::Block;
use crate::error::Error;
use crate::optimizer::State;
use crate::variables::{Found, Parts};
use hemiola_collective::{Algorithm, Encoding};
use hemiola_collective_proto::graph::Topology;
use hemiola_core::Rank;
use hemiola_strategy::{Cluster, Costs, Link, Node, Placement, Strategy, Synchronizer};
use std::collections::BTreeMap;

/// Served pieces of one owner travel together up to so many numbers,
const FUSED: usize = 1 << 18;
/// or such a part of what it serves, so that most of that has gone when the last gradient comes,
const FUSED_PART: usize = 8;
/// but not below so many.
const LEAST_FUSED: usize = 1 << 10;

/// A shard of a variable, with its values.
pub(crate) struct Piece {
    /// Its variable's place.
    pub(crate) variable: usize,
    /// Which of its variable's shards it is.
    pub(crate) shard: usize,
    pub(crate) block: Block,
    /// As a matrix.
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) values: Vec<f32>,
    /// What the optimizer remembers, where this peer updates it.
    pub(crate) state: State,
    /// Rows without a gradient are left alone, whatever way they travel.
    pub(crate) by_rows: bool,
}

/// How a unit's copies agree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Way {
    Sum { algorithm: Algorithm },
    Served { owner: Rank },
    Factors,
    Rows { owners: Vec<Rank> },
    Mix { topology: Topology },
}

/// What travels together.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) way: Way,
    pub(crate) encoding: Encoding,
    /// Places of its pieces.
    pub(crate) pieces: Vec<usize>,
    /// Places of their variables.
    pub(crate) variables: Vec<usize>,
    pub(crate) length: usize,
}

/// All pieces and units.
pub(crate) struct Layout {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) units: Vec<Unit>,
    /// By variable: how many steps its values may lag.
    pub(crate) staleness: Vec<u64>,
    /// By variable: whether its gradient is taken in parts.
    pub(crate) in_parts: Vec<bool>,
    /// By variable: how many pieces it has.
    pub(crate) cuts: Vec<usize>,
}

impl Layout {
    /// Lays out what was found as a verified strategy says. Units come in the reverse order of variables, as gradients do.
    pub(crate) fn new(found: &[Found], strategy: &Strategy) -> Result<Self, Error> {
        if strategy.replicas.len() != strategy.peers {
            let missing = Rank::all(strategy.peers).find(|rank| !strategy.replicas.contains(rank));
            let what = format!("a strategy in which peer {} does not train", missing.map_or(0, Rank::number));
            let reason = "every peer of a trainer trains; give those that should not no examples".to_owned();
            return Err(Error::Unsupported { what, reason });
        }
        let (mut pieces, mut nodes) = (Vec::new(), Vec::new());
        for (place, variable) in found.iter().enumerate() {
            let plan = strategy.plan(&variable.name).expect("the strategy is verified");
            for (at, (shard, node)) in plan.shards().enumerate() {
                let block = Block::new(&variable.shape, &shard);
                let mut values = Vec::with_capacity(block.len());
                block.gather(&variable.values, &mut values);
                let (rows, width) = shard.matrix();
                let by_rows = variable.parts == Parts::Rows;
                let state = State::default();
                pieces.push(Piece { variable: place, shard: at, block, rows, width, values, state, by_rows });
                nodes.push(node.clone());
            }
        }
        let cuts = (0..found.len()).map(|place| pieces.iter().filter(|piece| piece.variable == place).count());
        let cuts: Vec<usize> = cuts.collect();
        let mut staleness = vec![0; found.len()];
        let mut in_parts = vec![false; found.len()];
        for (piece, node) in pieces.iter().zip(&nodes) {
            staleness[piece.variable] = node.staleness.max(staleness[piece.variable]);
            if matches!(node.synchronizer, Synchronizer::Factors | Synchronizer::ServedRows) {
                check_parts(&found[piece.variable], node)?;
                in_parts[piece.variable] = true;
            }
        }
        let mut units = units(&pieces, &nodes, &staleness);
        for unit in &mut units {
            if let (Way::Sum { algorithm }, true) = (&mut unit.way, free_to_choose(&nodes[unit.pieces[0]])) {
                *algorithm = usual(strategy.peers, unit.length);
            }
        }
        Ok(Self { pieces, units, staleness, in_parts, cuts })
    }
}

/// Whether nobody has said in which way a sum is formed.
fn free_to_choose(node: &Node) -> bool {
    matches!(node.synchronizer, Synchronizer::AllReduce { algorithm: None, .. })
}

/// The fastest way for so many numbers on an ordinary network. Not by what is measured here: sums in another order have other bits, and a training should repeat its own.
fn usual(peers: usize, length: usize) -> Algorithm {
    let network = Cluster::uniform(peers, Link::bits(1e9, 1e-4));
    let replicas: Vec<Rank> = Rank::all(peers).collect();
    Costs::new(&network, &replicas).all_reduce(None, Encoding::Plain, (length, 1)).1
}

/// Whether the layer of a variable can give its gradient as the strategy wants it.
fn check_parts(found: &Found, node: &Node) -> Result<(), Error> {
    let (needed, layer) = match node.synchronizer {
        Synchronizer::Factors => (Parts::Factors, "layers::Linear"),
        _ => (Parts::Rows, "layers::Embedding"),
    };
    if found.parts == needed {
        return Ok(());
    }
    let what = format!("{:?} for {}", node.synchronizer, found.name);
    let reason = format!("its layer gives its gradient as a whole; use hemiola_nn::{layer} in place of Burn's");
    Err(Error::Unsupported { what, reason })
}

/// Who serves a piece, if anybody does.
fn owner(piece: &Piece, node: &Node) -> Option<Rank> {
    match (&node.synchronizer, &node.placement) {
        (Synchronizer::Served, Placement::On(owner)) => Some(*owner),
        (Synchronizer::Served, Placement::Sharded(owners)) => Some(owners[piece.shard % owners.len()]),
        _ => None,
    }
}

fn units(pieces: &[Piece], nodes: &[Node], staleness: &[u64]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut groups: BTreeMap<u32, usize> = BTreeMap::new();
    // Of an owner: the unit that still has room.
    let mut open: BTreeMap<(Rank, u64), usize> = BTreeMap::new();
    let mut served: BTreeMap<Rank, usize> = BTreeMap::new();
    for (piece, node) in pieces.iter().zip(nodes) {
        if let Some(owner) = owner(piece, node) {
            *served.entry(owner).or_default() += piece.block.len();
        }
    }
    let room = |owner: &Rank| (served[owner] / FUSED_PART).clamp(LEAST_FUSED, FUSED);
    for (place, (piece, node)) in pieces.iter().zip(nodes).enumerate().rev() {
        let way = match (&node.synchronizer, &node.placement) {
            (Synchronizer::AllReduce { algorithm, .. }, _) => {
                Way::Sum { algorithm: algorithm.unwrap_or(Algorithm::Ring) }
            }
            (Synchronizer::Served, _) => Way::Served { owner: owner(piece, node).expect("the strategy is verified") },
            (Synchronizer::ServedRows, Placement::Sharded(owners)) => Way::Rows { owners: owners.clone() },
            (Synchronizer::ServedRows, Placement::On(owner)) => Way::Rows { owners: vec![*owner] },
            (Synchronizer::Factors, _) => Way::Factors,
            (Synchronizer::Mix(topology), _) => Way::Mix { topology: topology.clone() },
            (other, placement) => unreachable!("the verifier lets no {other:?} with {placement:?} pass"),
        };
        let stale = staleness[piece.variable];
        let joined = match &way {
            Way::Sum { .. } => node.group().and_then(|group| groups.get(&group).copied()),
            Way::Served { owner } if node.encoding == Encoding::Plain => open
                .get(&(*owner, stale))
                .copied()
                .filter(|unit| units[*unit].length + piece.block.len() <= room(owner)),
            _ => None,
        };
        let unit = joined.unwrap_or(units.len());
        if joined.is_none() {
            match (&way, node.group()) {
                (Way::Sum { .. }, Some(group)) => drop(groups.insert(group, unit)),
                (Way::Served { owner }, _) if node.encoding == Encoding::Plain => {
                    open.insert((*owner, stale), unit);
                }
                _ => {}
            }
            units.push(Unit { way, encoding: node.encoding, pieces: Vec::new(), variables: Vec::new(), length: 0 });
        }
        let unit = &mut units[unit];
        unit.pieces.push(place);
        unit.length += piece.block.len();
        if !unit.variables.contains(&piece.variable) {
            unit.variables.push(piece.variable);
        }
    }
    units
}
