//! Executable form of a strategy: pieces with their values, and units of pieces that travel
//! together.

use super::shard_layout::ShardLayout;
use crate::error::Error;
use crate::ids::{PieceId, UnitId, VariableId};
use crate::optimizer::OptimizerState;
use crate::variables::{GradientForm, VariableInfo};
use hemiola_collective::{Algorithm, Compression};
use hemiola_collective_proto::graph::Topology;
use hemiola_core::Rank;
use hemiola_strategy::{CostModel, LinkSpec, ResourceSpec, ShardPlacement, Strategy, StrategyNode, Synchronizer};
use std::collections::BTreeMap;

/// Maximum bucket size in elements, for pieces with the same owner.
const MAX_BUCKET_ELEMENTS: usize = 1 << 18;
/// Number of buckets per owner to aim for, so that communication overlaps the backward pass: most
/// of the data is sent before the last gradient is ready.
const BUCKETS_PER_OWNER: usize = 8;
/// Minimum bucket size in elements.
const MIN_BUCKET_ELEMENTS: usize = 1 << 10;

/// A shard of a variable, with its values and optimizer state.
pub(crate) struct VariablePiece {
    pub(crate) variable: VariableId,
    /// Index of the shard in its variable.
    pub(crate) shard: usize,
    pub(crate) block: ShardLayout,
    /// Shape of the shard as a matrix.
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) values: Vec<f32>,
    /// Optimizer state, on peers that update the piece.
    pub(crate) state: OptimizerState,
    /// Rows without a gradient stay unchanged, whichever way they travel.
    pub(crate) row_wise: bool,
}

/// Method that synchronizes the copies of a unit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SyncMethod {
    AllReduce { algorithm: Algorithm },
    ParameterServer { owner: Rank },
    SufficientFactors,
    ServedRows { owners: Vec<Rank> },
    Gossip { topology: Topology },
}

/// Pieces that travel as one message.
#[derive(Clone, Debug)]
pub(crate) struct SyncUnit {
    pub(crate) method: SyncMethod,
    pub(crate) compression: Compression,
    pub(crate) pieces: Vec<PieceId>,
    /// Variables of the pieces, without duplicates.
    pub(crate) variables: Vec<VariableId>,
    pub(crate) length: usize,
}

/// All pieces and units of a model.
pub(crate) struct SyncPlan {
    pub(crate) pieces: Vec<VariablePiece>,
    pub(crate) units: Vec<SyncUnit>,
    /// Staleness bound in steps, by variable.
    pub(crate) staleness: Vec<u64>,
    /// Tells which gradients are taken in structured form, by variable.
    pub(crate) structured: Vec<bool>,
    /// Number of pieces, by variable.
    pub(crate) shard_counts: Vec<usize>,
}

impl SyncPlan {
    /// Builds the plan of a verified strategy. Units are in reverse order of variables, the order
    /// in which backpropagation completes gradients.
    pub(crate) fn new(found: &[VariableInfo], strategy: &Strategy) -> Result<Self, Error> {
        if strategy.replicas.len() != strategy.peers {
            let missing = Rank::all(strategy.peers).find(|rank| !strategy.replicas.contains(rank));
            let what = format!("a strategy in which peer {} does not train", missing.map_or(0, Rank::number));
            let reason = "every peer takes part in training; give such a peer empty batches".to_owned();
            return Err(Error::Unsupported { feature: what, reason });
        }
        let (mut pieces, mut nodes) = (Vec::new(), Vec::new());
        for (index, variable) in found.iter().enumerate() {
            let plan = strategy.plan(&variable.name).expect("the strategy is verified");
            for (number, (shard, node)) in plan.shards().enumerate() {
                let block = ShardLayout::new(&variable.shape, &shard);
                let mut values = Vec::with_capacity(block.len());
                block.gather(&variable.values, &mut values);
                let (rows, width) = shard.matrix();
                let row_wise = variable.gradient_form == GradientForm::Rows;
                let state = OptimizerState::default();
                pieces.push(VariablePiece {
                    variable: VariableId::new(index),
                    shard: number,
                    block,
                    rows,
                    width,
                    values,
                    state,
                    row_wise,
                });
                nodes.push(node.clone());
            }
        }
        let shard_counts =
            (0..found.len()).map(|index| pieces.iter().filter(|piece| piece.variable.index() == index).count());
        let shard_counts: Vec<usize> = shard_counts.collect();
        let mut staleness = vec![0; found.len()];
        let mut structured = vec![false; found.len()];
        for (piece, node) in pieces.iter().zip(&nodes) {
            staleness[piece.variable] = node.staleness.max(staleness[piece.variable]);
            if matches!(node.synchronizer, Synchronizer::SufficientFactors | Synchronizer::ParameterServerRows) {
                check_gradient_form(&found[piece.variable], node)?;
                structured[piece.variable] = true;
            }
        }
        let mut units = build_units(&pieces, &nodes, &staleness);
        for unit in &mut units {
            if let (SyncMethod::AllReduce { algorithm }, true) =
                (&mut unit.method, leaves_algorithm_open(&nodes[unit.pieces[0]]))
            {
                *algorithm = default_algorithm(strategy.peers, unit.length);
            }
        }
        Ok(Self { pieces, units, staleness, structured, shard_counts })
    }
}

/// Tells whether the strategy does not name an all-reduce algorithm.
fn leaves_algorithm_open(node: &StrategyNode) -> bool {
    matches!(node.synchronizer, Synchronizer::AllReduce { algorithm: None, .. })
}

/// Fastest algorithm for a message of this length on a network of 1 Gbit/s. Measured link speeds
/// are not used on purpose: another algorithm sums in another order and gives other bits, and a
/// training must be repeatable.
fn default_algorithm(peers: usize, length: usize) -> Algorithm {
    let network = ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4));
    let replicas: Vec<Rank> = Rank::all(peers).collect();
    CostModel::new(&network, &replicas).all_reduce(None, Compression::Plain, (length, 1)).1
}

/// Refuses a synchronizer that needs another gradient form than the layer gives.
fn check_gradient_form(found: &VariableInfo, node: &StrategyNode) -> Result<(), Error> {
    let (needed, layer) = match node.synchronizer {
        Synchronizer::SufficientFactors => (GradientForm::Factors, "layers::Linear"),
        _ => (GradientForm::Rows, "layers::Embedding"),
    };
    if found.gradient_form == needed {
        return Ok(());
    }
    let what = format!("{:?} for `{}`", node.synchronizer, found.name);
    let reason = format!("its layer gives a dense gradient; use `hemiola_nn::{layer}` instead of Burn's");
    Err(Error::Unsupported { feature: what, reason })
}

/// Returns the rank that serves a piece, if the strategy has a parameter server for it.
fn owner(piece: &VariablePiece, node: &StrategyNode) -> Option<Rank> {
    match (&node.synchronizer, &node.placement) {
        (Synchronizer::ParameterServer, ShardPlacement::On(owner)) => Some(*owner),
        (Synchronizer::ParameterServer, ShardPlacement::Sharded(owners)) => Some(owners[piece.shard % owners.len()]),
        _ => None,
    }
}

fn build_units(pieces: &[VariablePiece], nodes: &[StrategyNode], staleness: &[u64]) -> Vec<SyncUnit> {
    let mut units: Vec<SyncUnit> = Vec::new();
    let mut groups: BTreeMap<u32, UnitId> = BTreeMap::new();
    // Unit with free capacity, by owner and staleness.
    let mut open: BTreeMap<(Rank, u64), UnitId> = BTreeMap::new();
    let mut served: BTreeMap<Rank, usize> = BTreeMap::new();
    for (piece, node) in pieces.iter().zip(nodes) {
        if let Some(owner) = owner(piece, node) {
            *served.entry(owner).or_default() += piece.block.len();
        }
    }
    let room = |owner: &Rank| (served[owner] / BUCKETS_PER_OWNER).clamp(MIN_BUCKET_ELEMENTS, MAX_BUCKET_ELEMENTS);
    for (index, (piece, node)) in pieces.iter().zip(nodes).enumerate().rev() {
        let method = match (&node.synchronizer, &node.placement) {
            (Synchronizer::AllReduce { algorithm, .. }, _) => {
                SyncMethod::AllReduce { algorithm: algorithm.unwrap_or(Algorithm::Ring) }
            }
            (Synchronizer::ParameterServer, _) => {
                SyncMethod::ParameterServer { owner: owner(piece, node).expect("the strategy is verified") }
            }
            (Synchronizer::ParameterServerRows, ShardPlacement::Sharded(owners)) => {
                SyncMethod::ServedRows { owners: owners.clone() }
            }
            (Synchronizer::ParameterServerRows, ShardPlacement::On(owner)) => {
                SyncMethod::ServedRows { owners: vec![*owner] }
            }
            (Synchronizer::SufficientFactors, _) => SyncMethod::SufficientFactors,
            (Synchronizer::Gossip(topology), _) => SyncMethod::Gossip { topology: topology.clone() },
            (other, placement) => unreachable!("the verifier rejects {other:?} with {placement:?}"),
        };
        let stale = staleness[piece.variable];
        let joined = match &method {
            SyncMethod::AllReduce { .. } => node.group().and_then(|group| groups.get(&group).copied()),
            SyncMethod::ParameterServer { owner } if node.compression == Compression::Plain => open
                .get(&(*owner, stale))
                .copied()
                .filter(|unit| units[*unit].length + piece.block.len() <= room(owner)),
            _ => None,
        };
        let unit = joined.unwrap_or(UnitId::new(units.len()));
        if joined.is_none() {
            match (&method, node.group()) {
                (SyncMethod::AllReduce { .. }, Some(group)) => drop(groups.insert(group, unit)),
                (SyncMethod::ParameterServer { owner }, _) if node.compression == Compression::Plain => {
                    open.insert((*owner, stale), unit);
                }
                _ => {}
            }
            units.push(SyncUnit {
                method,
                compression: node.compression,
                pieces: Vec::new(),
                variables: Vec::new(),
                length: 0,
            });
        }
        let unit = &mut units[unit];
        unit.pieces.push(PieceId::new(index));
        unit.length += piece.block.len();
        if !unit.variables.contains(&piece.variable) {
            unit.variables.push(piece.variable);
        }
    }
    units
}
