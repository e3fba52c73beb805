//! Update rules: server-side optimizers that decide how a shard applies an update. Bösen (Wei et
//! al. 2015, section 3.4) calls them stored procedures.
//!
//! A rule owns some values beside each row (its *state*), which the shard stores and every snapshot
//! contains. A rule may keep more data of its own; [`save`](UpdateRule::save) and
//! [`load`](UpdateRule::load) preserve it over a restart. The shard calls the rule when a row is
//! created, when an update is applied and when a copy is sent, and asks whether it may send rows
//! eagerly.
//!
//! The arithmetic of the built-in rules is that of `hemiola-optim`. The files of this module adapt
//! it to rows: layout of the state, attachments, versions.
//!
//! | file | rules |
//! |---|---|
//! | `additive` | [`Addition`], [`Sgd`]: clients see their own updates at once |
//! | `adagrad` | [`AdaGrad`] |
//! | `adam` | [`Adam`] |
//! | [`adarevision`] | [`AdaRevision`] and [`SnapshotAdaRevision`], which account for the delay of an update |
//! | [`built_in`] | the rules above as plain data |
//!
//! **Contract:** `apply` is a function of its arguments and of what the rule has seen of this row
//! before, so rows can be spread over any number of shards. It must not change the row if it
//! returns an error.

mod adagrad;
mod adam;
pub mod adarevision;
mod additive;
pub mod built_in;

use crate::cells::RowCells;
pub use adarevision::SnapshotAdaRevision;
pub use additive::Addition;
pub use built_in::BuiltInRule;
pub use hemiola_optim::{AdaGrad, AdaRevision, Adam, Sgd};
use std::any::Any;
use std::fmt;

/// Treatment of a client's own updates in its cached rows before the shard has applied them
/// (read-your-writes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LocalApply<W> {
    /// The client adds its updates to the cached row.
    Add,
    /// The client adds its updates times this factor.
    AddScaled(W),
    /// The client does not apply updates, because only the shard knows their effect. The cache is
    /// read-only, and updates computed from different versions of a row are kept apart.
    Never,
}

impl<W: Copy> LocalApply<W> {
    /// Factor of own updates; `None` if they are added unscaled or not at all.
    pub(crate) fn factor(&self) -> Option<W> {
        if let Self::AddScaled(factor) = self { Some(*factor) } else { None }
    }
}

/// Update of one row, as an update rule receives it.
#[derive(Clone, Copy, Debug)]
pub struct RowUpdate<'a, W> {
    /// Key of the updated row.
    pub key: u64,
    /// Version of the row that the update was computed from.
    pub version: u64,
    /// Sum of the workers' increments.
    pub cells: RowCells<'a, W>,
    /// Attachment returned by the client; empty if rows are sent without one.
    pub attachment: &'a [W],
}

/// Error: the version that an update was computed from is no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion;

/// Server-side update rule: decides how a shard applies an update to a row.
pub trait UpdateRule<W>: fmt::Debug + Send {
    /// Treatment of own updates in client caches. Sparse tables require rules that add.
    fn local_apply(&self) -> LocalApply<W>;

    /// Number of state values of a row of this width.
    fn state_width(&self, width: usize) -> usize {
        let _ = width;
        0
    }

    /// Part of a row's state that is attached to copies and returned with updates: one value per
    /// column, or empty.
    fn attachment<'a>(&self, state: &'a [W]) -> &'a [W] {
        let _ = state;
        &[]
    }

    /// Initializes a new row and its state, which is zero.
    fn init_row(&self, key: u64, row: &mut [W], state: &mut [W]) {
        let _ = (key, row, state);
    }

    /// Applies an update to a dense row and its state.
    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion>;

    /// Called when a copy of a row in this version is sent to a client.
    fn on_send(&mut self, key: u64, version: u64, state: &[W]) {
        let _ = (key, version, state);
    }

    /// Called when a client releases `copies` copies of a row in this version.
    fn on_release(&mut self, key: u64, version: u64, copies: u32) {
        let _ = (key, version, copies);
    }

    /// Returns true if clients must report when they release a copy.
    fn tracks_copies(&self) -> bool {
        false
    }

    /// Returns true if rows may be sent eagerly now.
    fn allows_eager_send(&self) -> bool {
        true
    }

    /// This rule as a value of its own type, for an owner of the shard that reads what the rule
    /// keeps. `None` for rules without such data.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// This rule as data, for servers that do not run the user program; `None` for a user-defined
    /// rule.
    fn built_in(&self) -> Option<BuiltInRule> {
        None
    }

    /// Serializes what must survive a restart besides the state of rows.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Restores the output of [`save`](UpdateRule::save). The error describes the mismatch.
    fn load(&mut self, saved: &[u8]) -> Result<(), String> {
        if saved.is_empty() {
            Ok(())
        } else {
            Err("the saved update rule has data that this rule does not use".to_owned())
        }
    }
}
