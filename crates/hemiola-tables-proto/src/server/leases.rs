//! Rows that have moved to their only user. `client::intents` tells what a lease is and why nothing is lost.
//!
//! **Invariants:** a row is leased to a client only while no other client has a copy of it; while it is, nobody else is given one, and those who
//! ask wait until the lease is back. No lease is given while a snapshot is being taken, and a snapshot is read out only when all leases
//! are back.

use super::Server;
use crate::message::ToClient;
use crate::number::Cell;
use crate::procedure::View;
use crate::spec::{ClientId, Consistency, Delivery};
use std::collections::BTreeMap;

/// The leases that are out.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// By row: who has it, and whether it was recalled.
    out: BTreeMap<u64, (ClientId, bool)>,
    /// How many of them were recalled.
    recalled: usize,
    /// Who waits for a row to come back.
    waiting: BTreeMap<u64, Vec<ClientId>>,
}

impl Leases {
    /// Who has the lease of a row.
    pub(super) fn holder(&self, key: u64) -> Option<ClientId> {
        self.out.get(&key).map(|(holder, _)| *holder)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The rows that are leased to a client.
    pub(super) fn of(&self, client: ClientId) -> Vec<u64> {
        self.out.iter().filter(|(_, (holder, _))| *holder == client).map(|(key, _)| *key).collect()
    }
}

impl<C: Cell> Server<C> {
    /// Leases rows to a client, as far as nobody else has them.
    pub(super) fn lease(&mut self, to: ClientId, keys: Vec<u64>) {
        let possible = self.spec.delivery == Delivery::Push
            && self.spec.consistency != Consistency::Bsp
            && self.procedure.view() != View::ReadOnly
            && self.snapshot.is_none();
        let mut granted = keys;
        granted.retain(|key| {
            let alone = self.rows.find(*key).is_some_and(|slot| self.rows.only_subscriber(slot) == Some(to));
            possible && alone && self.leases.holder(*key).is_none()
        });
        if !granted.is_empty() {
            self.leases.out.extend(granted.iter().map(|key| (*key, (to, false))));
            self.post(to, ToClient::Lease { keys: granted });
        }
    }

    /// Leaves out the rows that are leased to others, and sees to it that `from` gets them once they are back.
    pub(super) fn without_leased(&mut self, from: ClientId, keys: &[u64]) -> Vec<u64> {
        let (free, leased): (Vec<u64>, Vec<u64>) =
            keys.iter().partition(|key| self.leases.holder(**key).is_none_or(|holder| holder == from));
        for key in &leased {
            self.leases.waiting.entry(*key).or_default().push(from);
        }
        self.recall(&leased);
        free
    }

    /// Asks for leases back that were not asked for yet.
    pub(super) fn recall(&mut self, keys: &[u64]) {
        let mut by_holder: BTreeMap<ClientId, Vec<u64>> = BTreeMap::new();
        for key in keys {
            if let Some((holder, recalled)) = self.leases.out.get_mut(key)
                && !std::mem::replace(recalled, true)
            {
                self.leases.recalled += 1;
                by_holder.entry(*holder).or_default().push(*key);
            }
        }
        for (holder, keys) in by_holder {
            self.post(holder, ToClient::Recall { keys });
        }
    }

    /// Whether leases that were asked for are not back yet. Until then the shard may lack sums of clocks that have ended.
    #[must_use]
    pub fn awaits_leases(&self) -> bool {
        self.leases.recalled > 0
    }

    /// Asks for all leases back.
    pub fn recall_all(&mut self) {
        let keys: Vec<u64> = self.leases.out.keys().copied().collect();
        self.recall(&keys);
    }

    /// Leases have come back: who waited gets the rows.
    pub(super) fn take_back(&mut self, from: ClientId, keys: &[u64]) {
        for key in keys {
            if self.leases.holder(*key) == Some(from) {
                let recalled = self.leases.out.remove(key).is_some_and(|(_, recalled)| recalled);
                self.leases.recalled -= usize::from(recalled);
                for client in self.leases.waiting.remove(key).unwrap_or_default() {
                    self.reply(client, &[*key]);
                }
            }
        }
    }

    fn post(&mut self, to: ClientId, body: ToClient<C, C::Wide>) {
        let envelope = self.clients[to.index()].stream.send(body);
        self.out.push(super::FromShard { to, envelope, urgent: true });
    }
}
