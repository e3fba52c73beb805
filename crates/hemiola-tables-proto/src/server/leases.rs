//! Leases of rows to their only user. `client::intents` explains leases and why no sum is lost.
//!
//! **Invariants:** a row is leased to a client only while no other client has a copy of it. While
//! it is leased, no other client is given a copy; requests wait until the lease is returned. No
//! lease is granted while a snapshot is in progress, and a snapshot is read out only when all
//! leases are returned.

use super::ShardServer;
use crate::dtype::StorageType;
use crate::message::ServerMessage;
use crate::spec::{ClientId, Consistency, RowDelivery};
use crate::update_rule::LocalApply;
use std::collections::BTreeMap;

/// Leases that are granted at present.
#[derive(Debug, Default)]
pub(super) struct LeaseRegistry {
    /// By row: the holder, and true if the lease was recalled.
    out: BTreeMap<u64, (ClientId, bool)>,
    /// Number of recalled leases.
    recalled: usize,
    /// By row: the clients that wait for its return.
    waiting: BTreeMap<u64, Vec<ClientId>>,
}

impl LeaseRegistry {
    /// Client that holds the lease of a row.
    pub(super) fn holder(&self, key: u64) -> Option<ClientId> {
        self.out.get(&key).map(|(holder, _)| *holder)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Rows leased to a client.
    pub(super) fn of(&self, client: ClientId) -> Vec<u64> {
        self.out.iter().filter(|(_, (holder, _))| *holder == client).map(|(key, _)| *key).collect()
    }
}

impl<C: StorageType> ShardServer<C> {
    /// Leases rows to a client if it is their only user.
    pub(super) fn lease(&mut self, to: ClientId, keys: Vec<u64>) {
        let possible = self.spec.delivery == RowDelivery::Push
            && self.spec.consistency != Consistency::Bsp
            && self.rule.local_apply() != LocalApply::Never
            && self.snapshot.is_none();
        let mut granted = keys;
        granted.retain(|key| {
            let alone = self.rows.find(*key).is_some_and(|slot| self.rows.only_subscriber(slot) == Some(to));
            possible && alone && self.leases.holder(*key).is_none()
        });
        if !granted.is_empty() {
            self.leases.out.extend(granted.iter().map(|key| (*key, (to, false))));
            self.send_control(to, ServerMessage::Lease { keys: granted });
        }
    }

    /// Removes rows leased to other clients from a request; `from` receives them once they are
    /// returned.
    pub(super) fn without_leased(&mut self, from: ClientId, keys: &[u64]) -> Vec<u64> {
        let (free, leased): (Vec<u64>, Vec<u64>) =
            keys.iter().partition(|key| self.leases.holder(**key).is_none_or(|holder| holder == from));
        for key in &leased {
            self.leases.waiting.entry(*key).or_default().push(from);
        }
        self.recall(&leased);
        free
    }

    /// Recalls leases that are not recalled yet.
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
            self.send_control(holder, ServerMessage::Recall { keys });
        }
    }

    /// Returns true if recalled leases are outstanding. Until then the shard may lack sums of
    /// closed clocks.
    #[must_use]
    pub fn awaits_leases(&self) -> bool {
        self.leases.recalled > 0
    }

    /// Recalls all leases that are granted.
    pub fn recall_all(&mut self) {
        let keys: Vec<u64> = self.leases.out.keys().copied().collect();
        self.recall(&keys);
    }

    /// Accepts returned leases and answers the clients that waited for the rows.
    pub(super) fn accept_returned(&mut self, from: ClientId, keys: &[u64]) {
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

    fn send_control(&mut self, to: ClientId, body: ServerMessage<C, C::Compute>) {
        let message = self.clients[to.index()].stream.send(body);
        self.out.push(super::ServerOutgoing { to, message, urgent: true });
    }
}
