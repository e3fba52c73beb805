//! Interface of the synchronizers. Each is a state machine of one unit in one step.
//!
//! A machine begins with the gradient of its unit. It returns one [`UnitAction`] at a time, and
//! continues when the action has its result: after a collective by `on_output`, after an update by
//! `on_applied`. [`UnitAction::Store`] is the last one. Machines know nothing of turns and earlier
//! steps: the [`SyncNode`](crate::SyncNode) delays an action until it may happen.

use crate::all_reduce::AllReduceSync;
use crate::effect::{CollectiveOp, CollectiveOutput};
use crate::error::Result;
use crate::gossip::GossipUnitSync;
use crate::gradient::SummedGradient;
use crate::parameter_server::ParameterServerSync;
use crate::plan::{SyncMethod, SyncUnit, VariablePiece};
use crate::row_key;
use crate::rows::RowSync;
use crate::stage::SyncStage;
use crate::sufficient_factors::FactorSync;
use hemiola_collective_proto::Compressor;
use hemiola_core::Rank;

/// Next action of a unit.
#[derive(Debug)]
pub(crate) enum UnitAction {
    /// Starts a collective, when it is the unit's turn in this stage.
    Start(SyncStage, CollectiveOp),
    /// Averages the values of the unit with neighbours.
    Average(Vec<f32>),
    /// Multiplies the factor pairs of all peers and applies the product.
    Multiply(Vec<f32>),
    /// Updates the pieces, when all earlier steps are applied and the scale is known.
    Apply(SummedGradient),
    /// Stores values and completes the unit, when all earlier steps are applied.
    Store(NewValues),
}

/// Values that a unit stores at its end.
#[derive(Debug)]
pub(crate) enum NewValues {
    /// The update on this peer has stored them already.
    Updated,
    /// Values of all pieces, concatenated.
    Dense(Vec<f32>),
    /// Rows with keys, one padded block for each peer, and the length of each block.
    Rows(Vec<f32>, Vec<usize>),
}

/// Position of a unit in the model and in the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitContext<'a> {
    pub(crate) unit: &'a SyncUnit,
    /// First piece; the only one of units with structured gradients.
    pub(crate) piece: &'a VariablePiece,
    pub(crate) step: u64,
    pub(crate) rank: Rank,
    pub(crate) peers: usize,
}

/// Values of a unit after an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitValues<'a> {
    pub(crate) unit: &'a SyncUnit,
    pub(crate) piece: &'a VariablePiece,
    /// Values of all pieces of the model.
    pub(crate) values: &'a [Vec<f32>],
    /// Updated rows of the only piece, if the gradient had rows.
    pub(crate) rows: &'a [usize],
}

impl UnitValues<'_> {
    /// Concatenates the values of the unit's pieces.
    pub(crate) fn concat(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.unit.length);
        self.unit.pieces.iter().for_each(|piece| values.extend_from_slice(&self.values[*piece]));
        values
    }

    /// Serializes the updated rows with their keys.
    pub(crate) fn updated_rows(&self) -> Vec<f32> {
        row_key::with_keys(self.rows, &self.values[self.unit.pieces[0]], self.piece.width)
    }
}

/// State machine of one unit in one step.
pub(crate) trait UnitProtocol {
    /// Continues with the result of the collective that the last action started.
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction>;

    /// Continues after the update that the last action asked for.
    fn on_applied(&mut self, _updated: UnitValues<'_>) -> UnitAction {
        UnitAction::Store(NewValues::Updated)
    }
}

/// State machine of a unit, by its synchronization method.
#[derive(Debug)]
pub(crate) enum UnitSync {
    AllReduce(AllReduceSync),
    ParameterServer(ParameterServerSync),
    SufficientFactors(FactorSync),
    Rows(RowSync),
    Gossip(GossipUnitSync),
}

impl UnitSync {
    /// Begins with the gradient of this peer: dense, or the structured payload.
    pub(crate) fn begin(
        unit: UnitContext<'_>,
        gradient: Vec<f32>,
        compressor: Option<Compressor>,
    ) -> (Self, UnitAction) {
        match &unit.unit.method {
            SyncMethod::AllReduce { algorithm, route } => {
                let (sync, action) = AllReduceSync::begin((*algorithm, route.clone()), gradient, compressor);
                (Self::AllReduce(sync), action)
            }
            SyncMethod::ParameterServer { owner, route, proxies } => {
                let routes = (route.clone(), proxies.clone());
                let (sync, action) = ParameterServerSync::begin(*owner, routes, gradient, compressor);
                (Self::ParameterServer(sync), action)
            }
            SyncMethod::SufficientFactors => {
                let (sync, action) = FactorSync::begin(gradient);
                (Self::SufficientFactors(sync), action)
            }
            SyncMethod::ServedRows { owners } => {
                let (sync, action) = RowSync::begin(unit, &gradient, owners);
                (Self::Rows(sync), action)
            }
            SyncMethod::Gossip { .. } => {
                let (sync, action) = GossipUnitSync::begin(gradient);
                (Self::Gossip(sync), action)
            }
            SyncMethod::Table { .. } => unreachable!("units in tables take no turn"),
        }
    }
}

impl UnitProtocol for UnitSync {
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction> {
        match self {
            Self::AllReduce(sync) => sync.on_output(unit, output),
            Self::ParameterServer(sync) => sync.on_output(unit, output),
            Self::SufficientFactors(sync) => sync.on_output(unit, output),
            Self::Rows(sync) => sync.on_output(unit, output),
            Self::Gossip(sync) => sync.on_output(unit, output),
        }
    }

    fn on_applied(&mut self, updated: UnitValues<'_>) -> UnitAction {
        match self {
            Self::AllReduce(sync) => sync.on_applied(updated),
            Self::ParameterServer(sync) => sync.on_applied(updated),
            Self::SufficientFactors(sync) => sync.on_applied(updated),
            Self::Rows(sync) => sync.on_applied(updated),
            Self::Gossip(sync) => sync.on_applied(updated),
        }
    }
}

/// Length as it travels.
pub(crate) fn wire_length(block: &[f32]) -> i64 {
    i64::try_from(block.len()).unwrap_or(i64::MAX)
}

/// Pads a block with zeros to the longest of all lengths, as an all-gather needs.
pub(crate) fn padded(block: &[f32], lengths: &[usize]) -> Vec<f32> {
    let length = lengths.iter().copied().max().unwrap_or(0);
    let mut padded = Vec::with_capacity(length);
    padded.extend_from_slice(block);
    padded.resize(length, 0.0);
    padded
}
