//! Executable form of a strategy: pieces (shards of variables), and units of pieces that travel
//! together.
//!
//! **Invariant:** a plan depends on model and strategy only, so all peers have the same one.

use crate::error::{Error, Result};
use crate::ids::{PieceId, UnitId, VariableId};
use crate::shard_layout::ShardLayout;
use hemiola_collective_proto::graph::Topology;
use hemiola_collective_proto::{Algorithm, Compression};
use hemiola_core::Rank;
use hemiola_strategy::{
    CostModel, GradientKind, LinkSpec, ModelSpec, ResourceSpec, ShardPlacement, Strategy, StrategyNode, Synchronizer,
    VariableSpec,
};
use std::collections::BTreeMap;

/// Maximum bucket size in elements, for pieces with the same owner.
const MAX_BUCKET_ELEMENTS: usize = 1 << 18;
/// Number of buckets per owner to aim for, so that communication overlaps the backward pass: most
/// of the data is sent before the last gradient is ready.
const BUCKETS_PER_OWNER: usize = 8;
/// Minimum bucket size in elements.
const MIN_BUCKET_ELEMENTS: usize = 1 << 10;

/// A shard of a variable.
#[derive(Clone, Debug)]
pub struct VariablePiece {
    /// Variable of the shard.
    pub variable: VariableId,
    /// Index of the shard in its variable.
    pub shard: usize,
    /// Position of the shard in its variable.
    pub layout: ShardLayout,
    /// Number of rows of the shard as a matrix.
    pub rows: usize,
    /// Number of columns of the shard as a matrix.
    pub width: usize,
    /// Rows without a gradient stay unchanged, whichever way they travel.
    pub row_wise: bool,
}

/// Method that synchronizes the copies of a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum SyncMethod {
    /// Gradients are summed on all peers, and every peer updates.
    AllReduce {
        /// Algorithm, which determines the order of summation.
        algorithm: Algorithm,
    },
    /// Gradients are summed on the owner, which updates and broadcasts the values.
    ParameterServer {
        /// Peer that updates the unit.
        owner: Rank,
    },
    /// Factors are gathered on all peers, and every peer multiplies and updates.
    SufficientFactors,
    /// Touched rows are summed and updated by their owners.
    ServedRows {
        /// Owners of the rows, in turn.
        owners: Vec<Rank>,
    },
    /// Peers update with their own gradient and average with neighbours.
    Gossip {
        /// Communication graph.
        topology: Topology,
    },
}

/// Pieces that travel as one message.
#[derive(Clone, Debug)]
pub struct SyncUnit {
    /// Method that synchronizes the copies.
    pub method: SyncMethod,
    /// Compression of the gradients.
    pub compression: Compression,
    /// Pieces in the order in which they are concatenated.
    pub pieces: Vec<PieceId>,
    /// Variables of the pieces, without duplicates.
    pub variables: Vec<VariableId>,
    /// Number of elements of all pieces.
    pub length: usize,
}

impl SyncUnit {
    /// Tells whether a peer updates pieces of the unit.
    #[must_use]
    pub fn is_updated_by(&self, peer: Rank) -> bool {
        match &self.method {
            SyncMethod::AllReduce { .. }
            | SyncMethod::SufficientFactors
            | SyncMethod::Gossip { .. }
            | SyncMethod::ServedRows { .. } => true,
            SyncMethod::ParameterServer { owner } => *owner == peer,
        }
    }

    /// Tells whether gradients travel through a compressor. Factors are never compressed further.
    pub(crate) fn is_compressed(&self) -> bool {
        self.compression != Compression::Plain && !matches!(self.method, SyncMethod::SufficientFactors)
    }
}

/// All pieces and units of a model.
#[derive(Clone, Debug)]
pub struct SyncPlan {
    /// Variables of the model.
    pub model: ModelSpec,
    /// Number of peers of the strategy.
    pub peers: usize,
    /// Shards of all variables, those of the first variable first.
    pub pieces: Vec<VariablePiece>,
    /// Units in reverse order of variables.
    pub units: Vec<SyncUnit>,
    /// Staleness bound in steps, by variable.
    pub staleness: Vec<u64>,
    /// Tells which gradients are taken in structured form, by variable.
    pub structured: Vec<bool>,
    /// Number of pieces, by variable.
    pub shard_counts: Vec<usize>,
}

impl SyncPlan {
    /// Builds the plan of a verified strategy. Units are in reverse order of variables, the order
    /// in which backpropagation completes gradients.
    ///
    /// # Panics
    /// If the strategy is not [verified](Strategy::verify) for this model.
    pub fn new(model: &ModelSpec, strategy: &Strategy) -> Result<Self> {
        if strategy.replicas.len() != strategy.peers {
            let missing = Rank::all(strategy.peers).find(|rank| !strategy.replicas.contains(rank));
            let what = format!("a strategy in which peer {} does not train", missing.map_or(0, Rank::number));
            let reason = "every peer takes part in training; give such a peer empty batches".to_owned();
            return Err(Error::Unsupported { feature: what, reason });
        }
        let variables = &model.variables;
        let (mut pieces, mut nodes) = (Vec::new(), Vec::new());
        for (index, variable) in variables.iter().enumerate() {
            let plan = strategy.plan(&variable.name).expect("the strategy is verified");
            for (number, (shard, node)) in plan.shards().enumerate() {
                let (rows, width) = shard.matrix();
                pieces.push(VariablePiece {
                    variable: VariableId::new(index),
                    shard: number,
                    layout: ShardLayout::new(&variable.shape, &shard),
                    rows,
                    width,
                    row_wise: matches!(variable.gradient, GradientKind::Rows { .. }),
                });
                nodes.push(node.clone());
            }
        }
        let mut shard_counts = vec![0; variables.len()];
        let mut staleness = vec![0; variables.len()];
        let mut structured = vec![false; variables.len()];
        for (piece, node) in pieces.iter().zip(&nodes) {
            shard_counts[piece.variable] += 1;
            staleness[piece.variable] = node.staleness.max(staleness[piece.variable]);
            if matches!(node.synchronizer, Synchronizer::SufficientFactors | Synchronizer::ParameterServerRows) {
                check_gradient_kind(&variables[piece.variable], node)?;
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
        Ok(Self { model: model.clone(), peers: strategy.peers, pieces, units, staleness, structured, shard_counts })
    }

    /// Returns the name of a variable.
    #[must_use]
    pub fn name(&self, variable: VariableId) -> &str {
        &self.model.variables[variable].name
    }

    /// Returns the unit of a piece.
    ///
    /// # Panics
    /// If the plan has no such piece.
    #[must_use]
    pub fn unit_of(&self, piece: PieceId) -> &SyncUnit {
        self.units.iter().find(|unit| unit.pieces.contains(&piece)).expect("every piece belongs to a unit")
    }

    /// Returns the number of updates that the values of a variable need before the forward pass of
    /// a step may read them.
    #[must_use]
    pub fn needed_version(&self, variable: VariableId, step: u64) -> u64 {
        step.saturating_sub(self.staleness[variable])
    }

    /// Orders units by the arrival of their last gradient. Units with a variable that has not
    /// arrived come last.
    #[must_use]
    pub(crate) fn order_by_arrival(&self, arrived: &[VariableId]) -> Vec<UnitId> {
        let mut arrival = vec![usize::MAX; self.model.variables.len()];
        arrived.iter().enumerate().for_each(|(position, variable)| arrival[*variable] = position);
        let mut order: Vec<UnitId> = (0..self.units.len()).map(UnitId::new).collect();
        order.sort_by_key(|unit| self.units[*unit].variables.iter().map(|variable| arrival[*variable]).max());
        order
    }

    /// Gathers the values of every piece from those of all variables.
    #[must_use]
    pub fn gather_values(&self, values: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let gather = |piece: &VariablePiece| {
            let mut own = Vec::with_capacity(piece.layout.len());
            piece.layout.gather(&values[piece.variable], &mut own);
            own
        };
        self.pieces.iter().map(gather).collect()
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

/// Refuses a synchronizer that needs another gradient than the variable has.
fn check_gradient_kind(variable: &VariableSpec, node: &StrategyNode) -> Result<()> {
    let (fits, needed) = match node.synchronizer {
        Synchronizer::SufficientFactors => (
            matches!(variable.gradient, GradientKind::Product { .. }),
            "sufficient factors, such as `hemiola_nn::layers::Linear`",
        ),
        _ => (
            matches!(variable.gradient, GradientKind::Rows { .. }),
            "touched rows, such as `hemiola_nn::layers::Embedding`",
        ),
    };
    if fits {
        return Ok(());
    }
    let feature = format!("{:?} for `{}`", node.synchronizer, variable.name);
    let reason = format!("its layer gives a dense gradient; use a layer that gives {needed}; or use another strategy");
    Err(Error::Unsupported { feature, reason })
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
            *served.entry(owner).or_default() += piece.layout.len();
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
                .filter(|unit| units[*unit].length + piece.layout.len() <= room(owner)),
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
        unit.length += piece.layout.len();
        if !unit.variables.contains(&piece.variable) {
            unit.variables.push(piece.variable);
        }
    }
    units
}
