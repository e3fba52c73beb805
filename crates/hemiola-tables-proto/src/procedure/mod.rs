//! What a shard does with an update: a server procedure (Bösen, section 3.4).
//!
//! A procedure owns some numbers beside each row (its *state*, kept by the shard and part of every snapshot) and may keep more of
//! its own, which [`save`](Procedure::save) and [`load`](Procedure::load) carry over a restart. The shard calls it when a row is
//! created, when an update is applied, when a copy of the row is sent, and asks whether it may send copies that nobody waits for.
//!
//! | file | procedure |
//! |---|---|
//! | [`additive`] | [`Add`], [`Sgd`]: clients see their own updates at once |
//! | [`adagrad`] | [`AdaGrad`] |
//! | [`adam`] | [`Adam`] |
//! | [`adarevision`] | [`AdaRevision`], which knows how late an update is, in both forms |
//! | [`provided`] | all of these as plain data |
//!
//! **Contract:** `apply` is a function of its arguments and of what the procedure has seen of this row before, so that rows can be
//! spread over any number of shards. It must leave the row alone if it returns an error.

pub mod adagrad;
pub mod adam;
pub mod adarevision;
pub mod additive;
pub mod provided;

use crate::cells::Cells;
pub use adagrad::AdaGrad;
pub use adam::Adam;
pub use adarevision::AdaRevision;
pub use additive::{Add, Sgd};
pub use provided::Provided;
use std::fmt;

/// What a client shows of its own updates before the shard has applied them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<W> {
    /// They are added.
    Add,
    /// This many times them is added.
    Scaled(W),
    /// Nothing: only the shard knows what an update does, so the cache is read-only, and updates computed from
    /// different versions of a row are kept apart.
    ReadOnly,
}

impl<W: Copy> View<W> {
    /// What own updates are multiplied by; nothing if they are added as they are.
    pub(crate) fn factor(&self) -> Option<W> {
        if let Self::Scaled(factor) = self { Some(*factor) } else { None }
    }
}

/// An update of one row, as a procedure sees it.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a, W> {
    /// The row.
    pub key: u64,
    /// The version of the row it was computed from.
    pub version: u64,
    /// The sum of what workers added.
    pub cells: Cells<'a, W>,
    /// What the client carried back; empty if nothing was sent with rows.
    pub carried: &'a [W],
}

/// The version an update was computed from is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion;

/// A server-side update rule.
pub trait Procedure<W>: fmt::Debug + Send {
    /// What clients show of their own updates. Sparse tables take only procedures that add.
    fn view(&self) -> View<W>;

    /// How many numbers of state a row of this width has.
    fn state_width(&self, width: usize) -> usize {
        let _ = width;
        0
    }

    /// Which of a row's state is sent along with copies and comes back with updates; as many numbers as the row has columns, or none.
    fn carried<'a>(&self, state: &'a [W]) -> &'a [W] {
        let _ = state;
        &[]
    }

    /// A row begins to exist; its state is zeros.
    fn created(&self, key: u64, row: &mut [W], state: &mut [W]) {
        let _ = (key, row, state);
    }

    /// Applies an update to a dense row.
    fn apply(&self, update: &Update<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion>;

    /// A copy of a row in this version goes to a client.
    fn sent(&mut self, key: u64, version: u64, state: &[W]) {
        let _ = (key, version, state);
    }

    /// A client has done with `copies` copies of a row in this version.
    fn released(&mut self, key: u64, version: u64, copies: u32) {
        let _ = (key, version, copies);
    }

    /// Whether clients have to say when they have done with a copy.
    fn wants_releases(&self) -> bool {
        false
    }

    /// Whether copies may be sent that nobody waits for.
    fn may_send(&self) -> bool {
        true
    }

    /// This procedure as data, for servers that do not run the program; nothing for a program's own.
    fn provided(&self) -> Option<Provided> {
        None
    }

    /// What has to survive a restart, besides the state of rows.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes back what [`save`](Procedure::save) gave. An error says what is wrong with it.
    fn load(&mut self, saved: &[u8]) -> Result<(), String> {
        if saved.is_empty() {
            Ok(())
        } else {
            Err("the procedure had saved something, and this one keeps nothing".to_owned())
        }
    }
}
