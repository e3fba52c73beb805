//! Executable form of a strategy: pieces (shards of variables), and units of pieces that travel
//! together.
//!
//! **Invariant:** a plan depends on model and strategy only, so all peers have the same one.

use crate::error::{Error, Result};
use crate::ids::{PieceId, UnitId, VariableId};
use crate::shard_layout::ShardLayout;
use crate::table_row::HEADER_CELLS;
use bytes::Bytes;
use hemiola_collective_proto::graph::Topology;
use hemiola_collective_proto::{Algorithm, Compression, GossipSync, Route};
use hemiola_core::Rank;
use hemiola_strategy::{
    CostModel, GradientKind, LinkSpec, ModelSpec, ResourceSpec, ShardPlacement, Strategy, StrategyNode, Synchronizer,
    TableConsistency, VariableSpec,
};
use hemiola_tables_proto::{Consistency, KeySpace, RowDelivery, ShardId, TableMessage, TableSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

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
        /// Members in their order and groups; `None` for all peers in rank order.
        route: Option<Route>,
    },
    /// Gradients are summed on the owner, which updates and broadcasts the values.
    ParameterServer {
        /// Peer that updates the unit.
        owner: Rank,
        /// Route of the gradients; `None` for all peers.
        route: Option<Route>,
        /// Route of the values; `None` for all peers.
        proxies: Option<Route>,
    },
    /// The unit is a row of a table; its server applies gradients and returns values by clocks.
    Table {
        /// Peer that holds the row.
        owner: Rank,
        /// Consistency model of the copies.
        consistency: TableConsistency,
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
        /// Peers that an average waits for.
        synchronization: GossipSync,
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
            SyncMethod::AllReduce { route, .. } => route.as_ref().is_none_or(|route| route.contains(peer)),
            SyncMethod::SufficientFactors | SyncMethod::Gossip { .. } | SyncMethod::ServedRows { .. } => true,
            SyncMethod::ParameterServer { owner, .. } | SyncMethod::Table { owner, .. } => *owner == peer,
        }
    }

    /// Tells whether a peer has the new values after a step without asking for them.
    #[must_use]
    pub fn reaches(&self, peer: Rank) -> bool {
        match &self.method {
            SyncMethod::ParameterServer { proxies: Some(proxies), .. } => proxies.contains(peer),
            SyncMethod::ParameterServer { proxies: None, .. } => true,
            _ => self.is_updated_by(peer),
        }
    }

    /// First of the peers that update their copies of the unit alike.
    #[must_use]
    pub fn first_updater(&self) -> Rank {
        match &self.method {
            SyncMethod::AllReduce { route: Some(route), .. } => route.members().min().unwrap_or(Rank::ROOT),
            SyncMethod::ParameterServer { owner, .. } | SyncMethod::Table { owner, .. } => *owner,
            _ => Rank::ROOT,
        }
    }

    /// Tells whether gradients travel through a compressor. Factors are never compressed further.
    pub(crate) fn is_compressed(&self) -> bool {
        self.compression != Compression::Plain && !matches!(self.method, SyncMethod::SufficientFactors)
    }
}

/// Unit that is a row of a table. It is the only row of its shard, so it has a clock of its own.
#[derive(Clone, Debug)]
pub struct TableChunkPlan {
    /// Unit of the chunk.
    pub unit: UnitId,
    /// Shard and row of the chunk: its number among all chunks.
    pub shard: ShardId,
    /// Specification of the table, whose width is that of this chunk.
    pub spec: Arc<TableSpec>,
    /// Owner of each chunk, by shard.
    pub(crate) owners: Arc<[Rank]>,
}

/// All pieces and units of a model.
#[derive(Clone, Debug)]
pub struct SyncPlan {
    /// Variables of the model.
    pub model: ModelSpec,
    /// Number of peers of the strategy.
    pub peers: usize,
    /// Peers that train. The others may serve; their batches are empty.
    pub replicas: Vec<Rank>,
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
    /// Units in tables, by shard.
    pub tables: Vec<TableChunkPlan>,
}

impl SyncPlan {
    /// Builds the plan of a verified strategy. Units are in reverse order of variables, the order
    /// in which backpropagation completes gradients.
    ///
    /// # Panics
    /// If the strategy is not [verified](Strategy::verify) for this model.
    pub fn new(model: &ModelSpec, strategy: &Strategy) -> Result<Self> {
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
        route_to_replicas(&mut nodes, strategy);
        let mut units = build_units(&pieces, &nodes, &staleness);
        for unit in &mut units {
            if let (SyncMethod::AllReduce { algorithm, route }, true) =
                (&mut unit.method, leaves_algorithm_open(&nodes[unit.pieces[0]]))
            {
                let among = match route.as_ref().map(Route::groups) {
                    None => strategy.peers,
                    Some([members]) => members.len(),
                    Some(groups) => groups.len(),
                };
                *algorithm = default_algorithm(among, unit.length);
            }
        }
        let (model, peers, tables) = (model.clone(), strategy.peers, table_chunks(&units, strategy.peers));
        let replicas = strategy.replicas.clone();
        Ok(Self { model, peers, replicas, pieces, units, staleness, structured, shard_counts, tables })
    }

    /// Tells whether a peer trains. The others serve, and their batches are empty.
    #[must_use]
    pub fn trains(&self, peer: Rank) -> bool {
        self.replicas.contains(&peer)
    }

    /// Tells whether only some of the peers train.
    #[must_use]
    pub fn is_subset(&self) -> bool {
        self.replicas.len() < self.peers
    }

    /// Tells whether a step sums something over all peers. If not, the plan needs no number of all
    /// peers either, and no peer waits for the batch sizes of the others.
    #[must_use]
    pub fn sums_over_peers(&self) -> bool {
        let alone = |unit: &SyncUnit| matches!(unit.method, SyncMethod::Table { .. } | SyncMethod::Gossip { .. });
        !self.units.iter().all(alone)
    }

    /// Tells whether copies may differ after a step, because peers read tables at different times.
    #[must_use]
    pub fn has_stale_tables(&self) -> bool {
        let stale = |unit: &SyncUnit| matches!(unit.method, SyncMethod::Table { consistency, .. } if consistency != TableConsistency::Bsp);
        self.units.iter().any(stale)
    }

    /// Decodes a message of a chunk that `from` has sent.
    pub fn decode_table_message(&self, bytes: &Bytes, from: Rank) -> Result<TableMessage<f32>> {
        // The width of a row depends on its chunk, whose number is in the header.
        let number =
            bytes.get(4..8).map_or(0, |number| u32::from_le_bytes([number[0], number[1], number[2], number[3]]));
        let problem = "a table message names a chunk that does not exist";
        let chunk = self.tables.get(number as usize).ok_or(Error::Driver { step: 0, problem })?;
        Ok(TableMessage::decode(bytes, from, &chunk.spec)?)
    }

    /// Returns the name of a variable.
    #[must_use]
    pub fn name(&self, variable: VariableId) -> &str {
        &self.model.variables[variable].name
    }

    /// Tells whether a part of the variable is averaged by gossip, so that copies differ.
    #[must_use]
    pub fn is_gossip(&self, variable: VariableId) -> bool {
        let gossip = |unit: &SyncUnit| matches!(unit.method, SyncMethod::Gossip { .. });
        self.units.iter().any(|unit| gossip(unit) && unit.variables.contains(&variable))
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

/// Limits updates and values to the peers that train, where a node does not name a route itself.
/// Compressed gradients, factors and rows travel between all peers; those that do not train send
/// none.
fn route_to_replicas(nodes: &mut [StrategyNode], strategy: &Strategy) {
    if strategy.replicas.len() == strategy.peers {
        return;
    }
    let mut ranks = strategy.replicas.clone();
    ranks.sort_unstable();
    let direct = Route::direct(ranks);
    for node in nodes {
        let plain = node.compression == Compression::Plain;
        match node.synchronizer {
            Synchronizer::AllReduce { .. } if plain => _ = node.route.get_or_insert_with(|| direct.clone()),
            Synchronizer::ParameterServer => {
                if plain {
                    node.route.get_or_insert_with(|| direct.clone());
                }
                node.proxies.get_or_insert_with(|| direct.clone());
            }
            _ => {}
        }
    }
}

/// Returns the chunks of all units in tables.
fn table_chunks(units: &[SyncUnit], peers: usize) -> Vec<TableChunkPlan> {
    let in_table = |(index, unit): (usize, &SyncUnit)| match unit.method {
        SyncMethod::Table { owner, consistency } => Some((UnitId::new(index), owner, consistency, unit.length)),
        _ => None,
    };
    let chunks: Vec<(UnitId, Rank, TableConsistency, usize)> = units.iter().enumerate().filter_map(in_table).collect();
    let owners: Arc<[Rank]> = chunks.iter().map(|(_, owner, ..)| *owner).collect();
    let chunk = |(index, (unit, _, consistency, length)): (usize, &(UnitId, Rank, TableConsistency, usize))| {
        let keys = KeySpace::Fixed(chunks.len() as u64);
        let mut spec = TableSpec::new(&format!("chunk {index}"), keys, HEADER_CELLS + length);
        (spec.shards, spec.clients, spec.delivery) = (chunks.len(), peers, RowDelivery::Pull);
        spec.consistency = match consistency {
            TableConsistency::Ssp(steps) => Consistency::Ssp(*steps),
            TableConsistency::Async => Consistency::Async,
            _ => Consistency::Bsp,
        };
        TableChunkPlan { unit: *unit, shard: ShardId::new(index as u32), spec: Arc::new(spec), owners: owners.clone() }
    };
    chunks.iter().enumerate().map(chunk).collect()
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
        (Synchronizer::ParameterServer | Synchronizer::Table { .. }, ShardPlacement::On(owner)) => Some(*owner),
        (Synchronizer::ParameterServer, ShardPlacement::Sharded(owners)) => Some(owners[piece.shard % owners.len()]),
        _ => None,
    }
}

fn build_units(pieces: &[VariablePiece], nodes: &[StrategyNode], staleness: &[u64]) -> Vec<SyncUnit> {
    let mut units: Vec<SyncUnit> = Vec::new();
    let mut groups: BTreeMap<u32, UnitId> = BTreeMap::new();
    // Served units with their staleness, the newest last; only the newest of its kind has room.
    let mut open: Vec<(UnitId, u64)> = Vec::new();
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
                SyncMethod::AllReduce { algorithm: algorithm.unwrap_or(Algorithm::Ring), route: node.route.clone() }
            }
            (Synchronizer::ParameterServer, _) => SyncMethod::ParameterServer {
                owner: owner(piece, node).expect("the strategy is verified"),
                route: node.route.clone(),
                proxies: node.proxies.clone(),
            },
            (Synchronizer::Table { consistency }, _) => {
                let owner = owner(piece, node).expect("the strategy is verified");
                SyncMethod::Table { owner, consistency: *consistency }
            }
            (Synchronizer::ParameterServerRows, ShardPlacement::Sharded(owners)) => {
                SyncMethod::ServedRows { owners: owners.clone() }
            }
            (Synchronizer::ParameterServerRows, ShardPlacement::On(owner)) => {
                SyncMethod::ServedRows { owners: vec![*owner] }
            }
            (Synchronizer::SufficientFactors, _) => SyncMethod::SufficientFactors,
            (Synchronizer::Gossip(plan), _) => {
                SyncMethod::Gossip { topology: plan.topology.clone(), synchronization: plan.synchronization }
            }
            (other, placement) => unreachable!("the verifier rejects {other:?} with {placement:?}"),
        };
        let stale = staleness[piece.variable];
        let joined = match &method {
            SyncMethod::AllReduce { .. } => node.group().and_then(|group| groups.get(&group).copied()),
            SyncMethod::ParameterServer { owner, .. } | SyncMethod::Table { owner, .. }
                if node.compression == Compression::Plain =>
            {
                let fits = |(unit, staleness): &&(UnitId, u64)| *staleness == stale && units[*unit].method == method;
                open.iter()
                    .rev()
                    .find(fits)
                    .map(|(unit, _)| *unit)
                    .filter(|unit| units[*unit].length + piece.layout.len() <= room(owner))
            }
            _ => None,
        };
        let unit = joined.unwrap_or(UnitId::new(units.len()));
        if joined.is_none() {
            match (&method, node.group()) {
                (SyncMethod::AllReduce { .. }, Some(group)) => drop(groups.insert(group, unit)),
                (SyncMethod::ParameterServer { .. } | SyncMethod::Table { .. }, _)
                    if node.compression == Compression::Plain =>
                {
                    open.push((unit, stale));
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
