//! Sufficient factors (Poseidon; Zhang et al. 2017): peers exchange the inputs and output gradients
//! of a linear layer. Every peer multiplies the factors of all peers and updates its copy.
//!
//! | action | stage |
//! |---|---|
//! | all-gather of lengths | gradients |
//! | all-gather of factors | payloads |
//! | product and update on every peer | |
//!
//! **Invariant:** factors are multiplied in the order of ranks, so all peers get the same bits.

use crate::effect::{CollectiveOp, CollectiveOutput};
use crate::error::Result;
use crate::stage::SyncStage;
use crate::unit_protocol::{UnitAction, UnitContext, UnitProtocol, padded, wire_length};

/// Unit whose gradient travels as factors.
#[derive(Debug)]
pub(crate) enum FactorSync {
    /// All-gather of lengths in flight; factors of this peer.
    Lengths(Vec<f32>),
    /// All-gather of factors in flight; length of each peer's factors.
    Factors(Vec<usize>),
}

impl FactorSync {
    pub(crate) fn begin(factors: Vec<f32>) -> (Self, UnitAction) {
        let op = CollectiveOp::AllGatherLengths { lengths: vec![wire_length(&factors)] };
        (Self::Lengths(factors), UnitAction::Start(SyncStage::Gradients, op))
    }
}

impl UnitProtocol for FactorSync {
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction> {
        match self {
            Self::Lengths(own) => {
                let lengths = output.into_integers(unit.step)?;
                let block = padded(own, &lengths);
                *self = Self::Factors(lengths);
                Ok(UnitAction::Start(SyncStage::Payloads, CollectiveOp::AllGather { block }))
            }
            Self::Factors(lengths) => {
                let blocks = output.into_elements(unit.step)?;
                let longest = blocks.len() / lengths.len().max(1);
                let mut pairs = Vec::with_capacity(lengths.iter().sum());
                for (from, length) in lengths.iter().enumerate() {
                    pairs.extend_from_slice(&blocks[from * longest..from * longest + length]);
                }
                Ok(UnitAction::Multiply(pairs))
            }
        }
    }
}
