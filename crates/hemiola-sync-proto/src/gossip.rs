//! Gossip averaging (decentralized): every peer updates its own copy with its own gradient, and
//! averages the copy with those of its neighbours.
//!
//! | action | stage |
//! |---|---|
//! | update on every peer with its own gradient | |
//! | averaging with neighbours | |
//!
//! A unit takes its turn in the stage of gradients and starts no collective in it: all peers then
//! average their units in the same order.

use crate::effect::CollectiveOutput;
use crate::error::Result;
use crate::gradient::SummedGradient;
use crate::unit_protocol::{NewValues, UnitAction, UnitContext, UnitProtocol, UnitValues};

/// Gossip averaging of a unit; its only state is the round in flight.
#[derive(Debug)]
pub(crate) struct GossipUnitSync;

impl GossipUnitSync {
    pub(crate) fn begin(gradient: Vec<f32>) -> (Self, UnitAction) {
        (Self, UnitAction::Apply(SummedGradient::Dense(gradient)))
    }
}

impl UnitProtocol for GossipUnitSync {
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction> {
        Ok(UnitAction::Store(NewValues::Dense(output.into_elements(unit.step)?)))
    }

    fn on_applied(&mut self, updated: UnitValues<'_>) -> UnitAction {
        UnitAction::Average(updated.concat())
    }
}
