//! Parameter server: gradients are summed on the owner of the unit, which updates the values and
//! broadcasts them.
//!
//! | action | stage |
//! |---|---|
//! | reduce of gradients to the owner, possibly compressed, or over the stations of a route | gradients |
//! | update on the owner | |
//! | broadcast of new values, possibly by proxies | values |
//!
//! The owner need not train. **Invariant:** proxies pass values on unchanged, so they never change
//! bits; a route changes the order of the sum.

use crate::effect::{CollectiveOp, CollectiveOutput};
use crate::error::Result;
use crate::gradient::SummedGradient;
use crate::stage::SyncStage;
use crate::unit_protocol::{NewValues, UnitAction, UnitContext, UnitProtocol, UnitValues};
use hemiola_collective_proto::compress::CollectiveGoal;
use hemiola_collective_proto::{Algorithm, Compressor, Route};
use hemiola_core::Rank;

/// Unit that a parameter server owns.
#[derive(Debug)]
pub(crate) struct ParameterServerSync {
    owner: Rank,
    proxies: Option<Route>,
    in_flight: ServerCollective,
}

#[derive(Clone, Copy, Debug)]
enum ServerCollective {
    Reduce,
    Broadcast,
}

impl ParameterServerSync {
    pub(crate) fn begin(
        owner: Rank,
        (route, proxies): (Option<Route>, Option<Route>),
        elements: Vec<f32>,
        compressor: Option<Compressor>,
    ) -> (Self, UnitAction) {
        let op = match compressor {
            Some(compressor) => {
                let goal = CollectiveGoal::Reduce { root: owner };
                CollectiveOp::Compressed { goal, algorithm: Algorithm::Tree, elements, compressor }
            }
            None => CollectiveOp::Reduce { root: owner, route, elements },
        };
        (Self { owner, proxies, in_flight: ServerCollective::Reduce }, UnitAction::Start(SyncStage::Gradients, op))
    }

    fn broadcast(&mut self, elements: Vec<f32>) -> UnitAction {
        self.in_flight = ServerCollective::Broadcast;
        let (root, route) = (self.owner, self.proxies.clone());
        UnitAction::Start(SyncStage::Values, CollectiveOp::Broadcast { root, route, elements })
    }
}

impl UnitProtocol for ParameterServerSync {
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction> {
        let elements = output.into_elements(unit.step)?;
        let is_owner = self.owner == unit.rank;
        Ok(match self.in_flight {
            ServerCollective::Reduce if is_owner => UnitAction::Apply(SummedGradient::Dense(elements)),
            ServerCollective::Reduce => self.broadcast(vec![0.0; unit.unit.length]),
            ServerCollective::Broadcast if is_owner || !unit.unit.reaches(unit.rank) => {
                UnitAction::Store(NewValues::Updated)
            }
            ServerCollective::Broadcast => UnitAction::Store(NewValues::Dense(elements)),
        })
    }

    fn on_applied(&mut self, updated: UnitValues<'_>) -> UnitAction {
        self.broadcast(updated.concat())
    }
}
