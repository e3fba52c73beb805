//! A table in one process: workers read and update the shard itself, without messages, caches or copies.
//!
//! Each worker counts as a client. This is for SSP and Async: own updates and everybody else's are visible at once, which both
//! allow. Under BSP a worker must not see others' updates of its clock, so there the usual machines are used, with messages handed over
//! as values. **Invariant:** a shard is used in place or by messages, not both; it is the driver's to see to that.

use super::Server;
use super::rows::Write;
use crate::cells::Cells;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::number::Cell;
use crate::spec::{ClientId, Consistency, NonFinite};
use hemiola_core::WorkerId;

/// So many rows are on their way from memory while one is changed.
const AHEAD: usize = 16;

/// A row, as a worker reads it in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing<'a, C: Cell> {
    /// Its cells.
    pub cells: Cells<'a, C>,
    /// How many updates are in it.
    pub version: u64,
    /// What the procedure wants back with updates that are computed from it.
    pub carried: &'a [C::Wide],
}

impl<C: Cell> Server<C> {
    /// Whether such a table can be used in place.
    pub fn check_in_place(&self) -> Result<()> {
        let problem = if self.spec.consistency == Consistency::Bsp {
            "BSP hides updates until a clock closes, and there is no such place"
        } else if self.procedure.wants_releases() {
            "its procedure keeps versions for clients, and there are none; have the old sum carried"
        } else {
            return Ok(());
        };
        Err(Error::BadSpec { table: self.spec.name.clone(), problem: format!("in one place: {problem}") })
    }

    /// A row, for a worker at `clock`; nothing if not everything is in it that is due, and the worker has to wait until the minimum has moved.
    pub fn read_in_place(&mut self, clock: Clock, key: u64) -> Result<Option<Standing<'_, C>>> {
        if clock.back(self.spec.consistency.staleness()) > self.clocks.min() {
            return Ok(None);
        }
        let slot = self.slot_in_place(key)?;
        let carried = self.procedure.carried(self.rows.state(slot));
        Ok(Some(Standing { cells: self.rows.cells(slot), version: self.rows.version(slot), carried }))
    }

    #[inline]
    fn slot_in_place(&mut self, key: u64) -> Result<u32> {
        if let Some(slot) = self.rows.find(key) {
            return Ok(slot);
        }
        self.spec.check_row(key)?;
        Ok(self.rows.ensure(key, &self.spec, &*self.procedure))
    }

    /// Updates a row.
    pub fn update_in_place(
        &mut self,
        worker: ClientId,
        clock: Clock,
        key: u64,
        write: &Write<'_, C::Wide>,
    ) -> Result<()> {
        self.spec.check_cells(key, &write.cells)?;
        if let Some(column) = write.cells.not_finite() {
            if self.spec.non_finite == NonFinite::Drop {
                self.dropped += 1;
                return Ok(());
            }
            return Err(self.spec.not_finite(key, column, WorkerId::new(worker.index() as u32), ClientId::new(0)));
        }
        let slot = self.slot_in_place(key)?;
        self.latest = self.latest.max(Some(clock));
        self.write(slot, clock, write)
    }

    /// Updates many rows, each by as many values as it has columns: `values` are those of a whole call, and `places` say which of its rows each
    /// key is. Several times as fast as one by one if the rows are not in the processor's cache: while one is changed, others are on their
    /// way. Nothing is changed if something is wrong with one of them.
    pub fn update_many_in_place(
        &mut self,
        worker: ClientId,
        clock: Clock,
        keys: &[u64],
        places: &[usize],
        values: &[C::Wide],
    ) -> Result<()> {
        let width = self.spec.width;
        if self.spec.sparse || self.carries {
            let problem = "rows of dense tables whose updates carry nothing can be updated by the slice".to_owned();
            return Err(Error::BadSpec { table: self.spec.name.clone(), problem });
        }
        let row = |place: usize| values.get(place * width..(place + 1) * width);
        for (key, place) in keys.iter().zip(places) {
            self.spec.check_row(*key)?;
            let Some(row) = row(*place) else {
                let (table, row, found) = (self.spec.name.clone(), *key, values.len());
                return Err(Error::WrongWidth { table, row, expected: (place + 1) * width, found });
            };
            if let Some(column) = Cells::Dense(row).not_finite() {
                if self.spec.non_finite == NonFinite::Drop {
                    return self.update_one_by_one(worker, clock, keys, places, values);
                }
                let worker = WorkerId::new(worker.index() as u32);
                return Err(self.spec.not_finite(*key, column, worker, ClientId::new(0)));
            }
        }
        self.latest = self.latest.max(Some(clock));
        // Slots are found a while before rows are changed, and what finding them needs is asked for a while before that.
        let mut slots = [0; AHEAD];
        keys.iter().take(AHEAD).for_each(|key| self.rows.prefetch_key(*key));
        for at in 0..keys.len() + AHEAD {
            if let Some(done) = at.checked_sub(AHEAD) {
                let values = &values[places[done] * width..][..width];
                let write = Write { version: 0, cells: Cells::Dense(values), carried: &[] };
                self.write(slots[done % AHEAD], clock, &write)?;
            }
            if let Some(key) = keys.get(at) {
                if let Some(later) = keys.get(at + AHEAD) {
                    self.rows.prefetch_key(*later);
                }
                slots[at % AHEAD] = self.slot_in_place(*key)?;
                self.rows.prefetch(slots[at % AHEAD]);
            }
        }
        Ok(())
    }

    /// Some update is not finite, which is rare, and is to be left out.
    fn update_one_by_one(
        &mut self,
        worker: ClientId,
        clock: Clock,
        keys: &[u64],
        places: &[usize],
        values: &[C::Wide],
    ) -> Result<()> {
        let width = self.spec.width;
        keys.iter().zip(places).try_for_each(|(key, place)| {
            let write = Write { version: 0, cells: Cells::Dense(&values[place * width..][..width]), carried: &[] };
            self.update_in_place(worker, clock, *key, &write)
        })
    }

    /// Ends a worker's clock, or everything. Returns the minimum if it moved, so that those who wait for it can go on.
    pub fn clock_in_place(&mut self, worker: ClientId, to: Clock) -> Result<Option<Clock>> {
        self.clocks.advance(worker.index(), to).map_err(|backward| Error::backward(&self.spec.name, backward))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedure::{AdaRevision, Add};
    use crate::random::Random;
    use crate::spec::{Ids, ShardId, Spec};
    use std::sync::Arc;

    fn server(consistency: Consistency) -> Server<f32> {
        let spec = Spec { consistency, clients: 2, ..Spec::new("w", Ids::Fixed(10), 2) };
        Server::new(Arc::new(spec), ShardId::new(0), Box::new(Add), Clock::ZERO, Random::new(0)).unwrap()
    }

    #[test]
    fn the_bound_holds_without_messages() {
        let mut server = server(Consistency::Ssp(1));
        server.check_in_place().unwrap();
        let [fast, slow] = [0, 1].map(ClientId::new);
        let write = Write { version: 0, cells: Cells::Dense(&[1.0, 2.0]), carried: &[] };
        server.update_in_place(fast, Clock::ZERO, 3, &write).unwrap();
        assert_eq!(server.clock_in_place(fast, Clock::new(1)), Ok(None));
        let seen = server.read_in_place(Clock::new(1), 3).unwrap().unwrap();
        assert_eq!((seen.cells, seen.version), (Cells::Dense(&[1.0, 2.0]), 1));
        assert_eq!(server.clock_in_place(fast, Clock::new(2)), Ok(None));
        assert_eq!(server.read_in_place(Clock::new(2), 3), Ok(None));
        assert_eq!(server.clock_in_place(slow, Clock::new(1)), Ok(Some(Clock::new(1))));
        assert!(server.read_in_place(Clock::new(2), 3).unwrap().is_some());
    }

    #[test]
    fn mistakes_are_named() {
        let mut server = server(Consistency::Async);
        let write = |value| Write { version: 0, cells: value, carried: &[] };
        let mut update = |key, cells| server.update_in_place(ClientId::new(1), Clock::ZERO, key, &write(cells));
        assert!(matches!(update(10, Cells::Dense(&[0.0; 2])), Err(Error::RowOutOfRange { .. })));
        assert!(matches!(update(1, Cells::Dense(&[0.0; 3])), Err(Error::WrongWidth { .. })));
        let Err(Error::NotFinite { worker, column: 1, .. }) = update(1, Cells::Dense(&[0.0, f32::NAN])) else {
            panic!()
        };
        assert_eq!(worker.index(), 1);
        assert!(server.read_in_place(Clock::ZERO, 10).is_err());
        let mut many = |keys: &[u64], values: &[f32]| {
            server.update_many_in_place(ClientId::new(1), Clock::ZERO, keys, &[0, 1], values)
        };
        assert!(matches!(many(&[1, 10], &[0.0; 4]), Err(Error::RowOutOfRange { row: 10, .. })));
        assert!(matches!(many(&[1, 2], &[0.0; 3]), Err(Error::WrongWidth { .. })));
        assert!(matches!(
            many(&[1, 2], &[0.0, 0.0, f32::INFINITY, 0.0]),
            Err(Error::NotFinite { row: 2, column: 0, .. })
        ));
        assert!(server.rows().is_empty(), "nothing was changed");
    }

    #[test]
    fn many_updates_are_as_many_single_ones() {
        let spec = Arc::new(Spec { consistency: Consistency::Async, ..Spec::new("w", Ids::Growing, 3) });
        let server =
            || Server::<f32>::new(spec.clone(), ShardId::new(0), Box::new(Add), Clock::ZERO, Random::new(0)).unwrap();
        let (mut one, mut many) = (server(), server());
        // Some rows come more than once.
        let keys: Vec<u64> = (0..100).map(|at| at * at % 37).collect();
        let values: Vec<f32> = (0..300_u16).map(f32::from).collect();
        // In two calls, each with every other row.
        for odd in [0, 1] {
            let places: Vec<usize> = (0..100).filter(|place| place % 2 == odd).collect();
            let some: Vec<u64> = places.iter().map(|place| keys[*place]).collect();
            many.update_many_in_place(ClientId::new(0), Clock::ZERO, &some, &places, &values).unwrap();
        }
        for (key, values) in keys.iter().zip(values.chunks(3)) {
            let write = Write { version: 0, cells: Cells::Dense(values), carried: &[] };
            one.update_in_place(ClientId::new(0), Clock::ZERO, *key, &write).unwrap();
        }
        for key in 0..37 {
            assert_eq!(one.read_in_place(Clock::ZERO, key), many.read_in_place(Clock::ZERO, key));
        }
    }

    #[test]
    fn updates_that_are_not_finite_can_be_dropped() {
        let spec =
            Spec { consistency: Consistency::Async, non_finite: NonFinite::Drop, ..Spec::new("w", Ids::Growing, 1) };
        let mut server =
            Server::<f32>::new(Arc::new(spec), ShardId::new(0), Box::new(Add), Clock::ZERO, Random::new(0)).unwrap();
        let write = Write { version: 0, cells: Cells::Dense(&[f32::NAN]), carried: &[] };
        server.update_in_place(ClientId::new(0), Clock::ZERO, 1, &write).unwrap();
        let values = [1.0, f32::INFINITY, 2.0];
        server.update_many_in_place(ClientId::new(0), Clock::ZERO, &[1, 2, 3], &[0, 1, 2], &values).unwrap();
        assert_eq!(server.dropped(), 2);
        let rows = [1, 2, 3].map(|key| server.read_in_place(Clock::ZERO, key).unwrap().unwrap().cells.values()[0]);
        assert_eq!(rows.map(f32::to_bits), [1.0_f32, 0.0, 2.0].map(f32::to_bits));
    }

    #[test]
    fn tables_that_need_messages_say_so() {
        assert!(server(Consistency::Bsp).check_in_place().is_err());
        let spec = Arc::new(Spec { consistency: Consistency::Async, ..Spec::new("w", Ids::Growing, 2) });
        let keeping = Box::new(AdaRevision::with_snapshots(0.1, 5));
        let server = Server::<f32>::new(spec, ShardId::new(0), keeping, Clock::ZERO, Random::new(0)).unwrap();
        assert!(server.check_in_place().unwrap_err().to_string().contains("have the old sum carried"));
    }
}
