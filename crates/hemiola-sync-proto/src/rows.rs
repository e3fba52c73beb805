//! Served rows: peers send the rows of an embedding that their batch touched to the owners of the
//! rows. Owners update them and send the new values to all peers.
//!
//! | action | stage |
//! |---|---|
//! | all-gather of lengths | gradients |
//! | all-to-all of touched rows (push) | payloads |
//! | update on the owners | |
//! | all-gather of lengths | values |
//! | all-gather of changed rows (pull) | rows |
//!
//! **Invariant:** owners sum rows in the order of ranks, so results do not depend on timing.

use crate::effect::{CollectiveOp, CollectiveOutput};
use crate::error::Result;
use crate::gradient::SummedGradient;
use crate::row_key::{add_rows, key_of};
use crate::stage::SyncStage;
use crate::unit_protocol::{NewValues, UnitAction, UnitContext, UnitProtocol, UnitValues, padded, wire_length};
use hemiola_core::Rank;
use std::collections::BTreeMap;

/// Unit whose rows have owners.
#[derive(Debug)]
pub(crate) enum RowSync {
    /// All-gather of lengths in flight; touched rows of this peer, by owner.
    PushLengths(Vec<Vec<f32>>),
    /// All-to-all of rows in flight; lengths by sender and owner.
    Push(Vec<usize>),
    /// All-gather of lengths in flight; changed rows of this owner.
    PullLengths(Vec<f32>),
    /// All-gather of changed rows in flight; length of each owner's rows.
    Pull(Vec<usize>),
}

impl RowSync {
    pub(crate) fn begin(unit: UnitContext<'_>, touched: &[f32], owners: &[Rank]) -> (Self, UnitAction) {
        let by_owner = group_by_owner(touched, unit.piece.width, owners, unit.peers);
        let lengths = by_owner.iter().map(|rows| wire_length(rows)).collect();
        let op = CollectiveOp::AllGatherLengths { lengths };
        (Self::PushLengths(by_owner), UnitAction::Start(SyncStage::Gradients, op))
    }
}

impl UnitProtocol for RowSync {
    fn on_output(&mut self, unit: UnitContext<'_>, output: CollectiveOutput) -> Result<UnitAction> {
        match self {
            Self::PushLengths(by_owner) => {
                let lengths = output.into_integers(unit.step)?;
                let blocks = by_owner.iter().flat_map(|rows| padded(rows, &lengths)).collect();
                *self = Self::Push(lengths);
                Ok(UnitAction::Start(SyncStage::Payloads, CollectiveOp::AllToAll { blocks }))
            }
            Self::Push(lengths) => {
                let blocks = output.into_elements(unit.step)?;
                let longest = blocks.len() / unit.peers;
                let mut sums = BTreeMap::new();
                for from in 0..unit.peers {
                    let length = lengths[from * unit.peers + unit.rank.index()];
                    add_rows(&mut sums, &blocks[from * longest..from * longest + length], unit.piece.width);
                }
                Ok(UnitAction::Apply(nonzero_rows(sums)))
            }
            Self::PullLengths(changed) => {
                let lengths = output.into_integers(unit.step)?;
                let block = padded(changed, &lengths);
                *self = Self::Pull(lengths);
                Ok(UnitAction::Start(SyncStage::Rows, CollectiveOp::AllGather { block }))
            }
            Self::Pull(lengths) => {
                Ok(UnitAction::Store(NewValues::Rows(output.into_elements(unit.step)?, std::mem::take(lengths))))
            }
        }
    }

    fn on_applied(&mut self, updated: UnitValues<'_>) -> UnitAction {
        let changed = updated.updated_rows();
        let op = CollectiveOp::AllGatherLengths { lengths: vec![wire_length(&changed)] };
        *self = Self::PullLengths(changed);
        UnitAction::Start(SyncStage::Values, op)
    }
}

/// Sums rows that occur several times, and groups them by owner.
fn group_by_owner(touched: &[f32], width: usize, owners: &[Rank], peers: usize) -> Vec<Vec<f32>> {
    let mut sums = BTreeMap::new();
    add_rows(&mut sums, touched, width);
    let mut by_owner = vec![Vec::new(); peers];
    for (row, numbers) in sums {
        let owner = &mut by_owner[owners[row % owners.len()].index()];
        owner.extend(key_of(row));
        owner.extend(numbers);
    }
    by_owner
}

/// Keeps the rows whose gradient is not zero.
fn nonzero_rows(sums: BTreeMap<usize, Vec<f32>>) -> SummedGradient {
    let touched = sums.into_iter().filter(|(_, numbers)| numbers.iter().any(|number| *number != 0.0));
    let (rows, numbers): (Vec<usize>, Vec<Vec<f32>>) = touched.unzip();
    SummedGradient::Rows(rows, numbers.concat())
}
