//! Agreement on the order of units: from the second step on, all peers start units in the order in
//! which gradients arrived on peer 0 in the first step.
//!
//! **Invariant:** every peer starts the broadcast of the order once, when it has all gradients of
//! its first step. Units of later steps start after the broadcast.

use crate::effect::{CollectiveId, CollectiveOp, CollectiveSource, SyncChannel, SyncEffect};
use crate::error::{Error, Result};
use crate::ids::{UnitId, VariableId};
use crate::kernel::UpdateKernel;
use crate::plan::SyncPlan;
use crate::sync_node::SyncNode;
use hemiola_core::Rank;

/// State of the agreement on one peer.
#[derive(Debug)]
pub(crate) enum UnitOrderAgreement {
    /// Gradients of the first step are arriving.
    Collecting {
        first_step: u64,
        /// Variables with a gradient, in the order of arrival.
        arrived: Vec<VariableId>,
        /// Number of variables that have not arrived.
        missing: usize,
    },
    InFlight,
    Agreed,
}

impl UnitOrderAgreement {
    pub(crate) fn new(plan: &SyncPlan, first_step: u64) -> Self {
        if !plan.sums_over_peers() {
            // Nothing waits for all peers; gossip averages in the order of the plan.
            return Self::Agreed;
        }
        Self::Collecting { first_step, arrived: Vec::new(), missing: plan.model.variables.len() }
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self, Self::InFlight)
    }
}

impl<K: UpdateKernel> SyncNode<K> {
    /// Records the arrival of a gradient. Starts the broadcast after the last one of the first
    /// step. Variables without a gradient do not count for the order.
    pub(crate) fn record_arrival(&mut self, step: u64, variable: VariableId, is_absent: bool) {
        let UnitOrderAgreement::Collecting { first_step, arrived, missing } = &mut self.order_agreement else { return };
        if step != *first_step {
            return;
        }
        if !is_absent {
            arrived.push(variable);
        }
        *missing -= 1;
        if *missing > 0 {
            return;
        }
        let order = if self.rank == Rank::ROOT {
            let order = self.plan.order_by_arrival(arrived).into_iter();
            order.map(|unit| i64::try_from(unit.index()).unwrap_or(i64::MAX)).collect()
        } else {
            vec![0; self.plan.units.len()]
        };
        self.order_agreement = UnitOrderAgreement::InFlight;
        self.effects.push_back(SyncEffect::Start {
            id: CollectiveId { step, source: CollectiveSource::UnitOrder },
            channel: SyncChannel::UnitOrder,
            op: CollectiveOp::BroadcastOrder { order },
        });
    }

    /// Event: the order of peer 0 has arrived.
    pub(crate) fn complete_order(&mut self, step: u64, order: &[usize]) -> Result<()> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !self.order_agreement.is_in_flight() || !sorted.into_iter().eq(0..self.plan.units.len()) {
            let problem = "an order of units completed that is not in flight or does not name each unit once";
            return Err(Error::Driver { step: step + 1, problem });
        }
        let order: Vec<UnitId> = order.iter().copied().map(UnitId::new).collect();
        self.orders.iter_mut().for_each(|stage| stage.reorder(&order));
        self.order_agreement = UnitOrderAgreement::Agreed;
        Ok(())
    }
}
