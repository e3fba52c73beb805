//! All-reduce: gradients are summed on all peers, and every peer updates its copy. Along a route,
//! its members do so, and the copies of other peers stay as they are.
//!
//! | action | stage |
//! |---|---|
//! | all-reduce of gradients, possibly compressed or in two levels | gradients |
//! | update on every member | |

use crate::effect::{CollectiveOp, CollectiveOutput};
use crate::error::Result;
use crate::gradient::SummedGradient;
use crate::stage::SyncStage;
use crate::unit_protocol::{NewValues, UnitAction, UnitContext, UnitProtocol};
use hemiola_collective_proto::compress::CollectiveGoal;
use hemiola_collective_proto::{Algorithm, Compressor, Route};

/// All-reduce of a unit; its only state is the collective in flight.
#[derive(Debug)]
pub(crate) struct AllReduceSync;

impl AllReduceSync {
    pub(crate) fn begin(
        (algorithm, route): (Algorithm, Option<Route>),
        elements: Vec<f32>,
        compressor: Option<Compressor>,
    ) -> (Self, UnitAction) {
        let op = match compressor {
            Some(compressor) => {
                CollectiveOp::Compressed { goal: CollectiveGoal::AllReduce, algorithm, elements, compressor }
            }
            None => CollectiveOp::AllReduce { algorithm, route, elements },
        };
        (Self, UnitAction::Start(SyncStage::Gradients, op))
    }
}

impl UnitProtocol for AllReduceSync {
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction> {
        let elements = output.into_elements(unit.step)?;
        Ok(if unit.unit.is_updated_by(unit.rank) {
            UnitAction::Apply(SummedGradient::Dense(elements))
        } else {
            UnitAction::Store(NewValues::Updated)
        })
    }
}
