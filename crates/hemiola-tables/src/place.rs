//! Tables of one process: workers read and update the shards themselves, each behind its lock. Nothing is sent and nothing is copied.

use crate::error::refused;
use crate::parking::{Parking, Wait};
use hemiola_cluster::{Reason, Result};
use hemiola_core::{Waiter, WorkerId};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::server::in_place::Standing;
use hemiola_tables_proto::server::rows::Write;
use hemiola_tables_proto::{ClientId, Clock, Server, Spec};
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::Arc;

/// The shards of the only peer.
pub(crate) struct Place<C: Cell> {
    pub(crate) spec: Arc<Spec>,
    pub(crate) servers: Vec<Mutex<Server<C>>>,
    pub(crate) parking: Parking,
}

fn client(worker: WorkerId) -> ClientId {
    ClientId::new(worker.index() as u32)
}

impl<C: Cell> Place<C> {
    pub(crate) fn get<T>(
        &self,
        worker: WorkerId,
        clock: Clock,
        key: u64,
        site: &'static Location<'static>,
        read: impl FnOnce(Standing<'_, C>) -> T,
    ) -> Result<T> {
        let server = &self.servers[self.spec.shard_of(key).index()];
        loop {
            if let Some(standing) = server.lock().read_in_place(clock, key).map_err(refused)? {
                return Ok(read(standing));
            }
            let need = clock.back(self.spec.consistency.staleness());
            let reason = Reason {
                what: "the other workers of a table, to come to clock",
                number: Some(need.units()),
                site: Some(site),
            };
            let wait = Wait { waiter: Waiter::Worker(worker), reason, peer: None, details: &String::new };
            self.parking.wait_until(|| server.lock().min() >= need, wait)?;
        }
    }

    pub(crate) fn update(&self, worker: WorkerId, clock: Clock, key: u64, write: &Write<'_, C::Wide>) -> Result<()> {
        let server = &self.servers[self.spec.shard_of(key).index()];
        server.lock().update_in_place(client(worker), clock, key, write).map_err(refused)
    }

    /// Adds to many rows, given by shard with their places among those given. Shards that others work on come later, so that workers seldom
    /// wait for each other.
    pub(crate) fn update_many(
        &self,
        worker: WorkerId,
        clock: Clock,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        values: &[C::Wide],
    ) -> Result<()> {
        let shards = self.servers.len();
        // Workers begin at different shards.
        let first = worker.index() * shards / self.spec.clients.max(1);
        let order = (0..shards).map(|at| (first + at) % shards).filter(|shard| !by_shard[*shard].0.is_empty());
        let mut left: Vec<usize> = order.collect();
        let mut patient = false;
        while !left.is_empty() {
            let before = left.len();
            let mut outcome = Ok(());
            left.retain(|shard| {
                let (keys, places) = &by_shard[*shard];
                let locked = if patient { Some(self.servers[*shard].lock()) } else { self.servers[*shard].try_lock() };
                let Some(mut server) = locked.filter(|_| outcome.is_ok()) else { return true };
                patient = false;
                outcome = server.update_many_in_place(client(worker), clock, keys, places, values);
                false
            });
            outcome.map_err(refused)?;
            patient = left.len() == before;
        }
        Ok(())
    }

    pub(crate) fn advance(&self, worker: WorkerId, to: Clock) -> Result<()> {
        self.parking.check()?;
        let mut moved = false;
        for server in &self.servers {
            moved |= server.lock().clock_in_place(client(worker), to).map_err(refused)?.is_some();
        }
        if moved {
            self.parking.move_on();
        }
        Ok(())
    }

    pub(crate) fn clock_of(&self, worker: WorkerId) -> Clock {
        self.servers.iter().map(|server| server.lock().clocks().of(worker.index())).min().unwrap_or(Clock::INFINITE)
    }
}
