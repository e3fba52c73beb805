//! All-reduce: gradients are summed on all peers, and every peer updates its copy.
//!
//! | action | stage |
//! |---|---|
//! | all-reduce of gradients, possibly compressed | gradients |
//! | update on every peer | |

use crate::effect::{CollectiveOp, CollectiveOutput};
use crate::error::Result;
use crate::gradient::SummedGradient;
use crate::stage::SyncStage;
use crate::unit_protocol::{UnitAction, UnitContext, UnitProtocol};
use hemiola_collective_proto::compress::CollectiveGoal;
use hemiola_collective_proto::{Algorithm, Compressor};

/// All-reduce of a unit; its only state is the collective in flight.
#[derive(Debug)]
pub(crate) struct AllReduceSync;

impl AllReduceSync {
    pub(crate) fn begin(
        algorithm: Algorithm,
        elements: Vec<f32>,
        compressor: Option<Compressor>,
    ) -> (Self, UnitAction) {
        let op = match compressor {
            Some(compressor) => {
                CollectiveOp::Compressed { goal: CollectiveGoal::AllReduce, algorithm, elements, compressor }
            }
            None => CollectiveOp::AllReduce { algorithm, elements },
        };
        (Self, UnitAction::Start(SyncStage::Gradients, op))
    }
}

impl UnitProtocol for AllReduceSync {
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction> {
        Ok(UnitAction::Apply(SummedGradient::Dense(output.into_elements(unit.step)?)))
    }
}
