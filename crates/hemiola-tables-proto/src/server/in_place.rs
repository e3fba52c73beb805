//! In-place use of a shard within one process: workers read and update it without messages, caches
//! or copies.
//!
//! Each worker counts as a client. This form serves SSP and asynchronous tables: all updates are
//! visible at once, which both models allow. Under BSP a worker must not see other workers' updates
//! of its clock, so BSP tables use clients and servers, with messages passed as values.
//! **Invariant:** a shard is used in place or by messages, never both; the driver ensures this.

use super::ShardServer;
use super::rows::RowWrite;
use crate::cells::RowCells;
use crate::clock::Clock;
use crate::dtype::StorageType;
use crate::error::{Error, Result};
use crate::spec::{ClientId, Consistency, NonFinitePolicy};
use hemiola_core::WorkerId;

/// Number of rows that are prefetched while one is updated.
const PREFETCH_DISTANCE: usize = 16;

/// Row as a worker reads it in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InPlaceRow<'a, C: StorageType> {
    /// Cells of the row.
    pub cells: RowCells<'a, C>,
    /// Number of updates applied to the row.
    pub version: u64,
    /// Attachment to be passed with updates that are computed from this row.
    pub attachment: &'a [C::Compute],
}

impl<C: StorageType> ShardServer<C> {
    /// Checks that the table can be used in place.
    pub fn check_in_place(&self) -> Result<()> {
        let problem = if self.spec.consistency == Consistency::Bsp {
            "BSP hides updates until a clock closes, which needs clients and servers"
        } else if self.rule.tracks_copies() {
            "its update rule keeps versions for clients, and there are none; use the form of the rule with attachments"
        } else {
            return Ok(());
        };
        Err(Error::BadSpec { table: self.spec.name.clone(), problem: format!("it cannot be used in place: {problem}") })
    }

    /// Reads a row for a worker at `clock`. Returns `None` if updates that are due are missing; the
    /// worker must then wait until the minimum clock moves.
    pub fn read_in_place(&mut self, clock: Clock, key: u64) -> Result<Option<InPlaceRow<'_, C>>> {
        if clock.saturating_sub(self.spec.consistency.staleness()) > self.clocks.min() {
            return Ok(None);
        }
        let slot = self.slot_in_place(key)?;
        let attachment = self.rule.attachment(self.rows.state(slot));
        Ok(Some(InPlaceRow { cells: self.rows.cells(slot), version: self.rows.version(slot), attachment }))
    }

    #[inline]
    fn slot_in_place(&mut self, key: u64) -> Result<u32> {
        if let Some(slot) = self.rows.find(key) {
            return Ok(slot);
        }
        self.spec.check_row(key)?;
        Ok(self.rows.ensure(key, &self.spec, &*self.rule))
    }

    /// Applies an update to one row.
    pub fn update_in_place(
        &mut self,
        worker: ClientId,
        clock: Clock,
        key: u64,
        write: &RowWrite<'_, C::Compute>,
    ) -> Result<()> {
        self.spec.check_cells(key, &write.cells)?;
        if let Some(column) = write.cells.not_finite() {
            if self.spec.non_finite == NonFinitePolicy::Drop {
                self.dropped += 1;
                return Ok(());
            }
            return Err(self.spec.not_finite(key, column, WorkerId::new(worker.index() as u32), ClientId::new(0)));
        }
        let slot = self.slot_in_place(key)?;
        self.latest_applied = self.latest_applied.max(Some(clock));
        self.write(slot, clock, write)
    }

    /// Updates many dense rows. `values` holds the rows of a whole call, and `positions` the index
    /// of each key's row in it. This is several times as fast as single updates if the rows are not
    /// in the CPU cache, because rows are prefetched while others are updated. Nothing is changed
    /// if any update is invalid.
    pub fn update_many_in_place(
        &mut self,
        worker: ClientId,
        clock: Clock,
        keys: &[u64],
        positions: &[usize],
        values: &[C::Compute],
    ) -> Result<()> {
        let width = self.spec.width;
        if self.spec.sparse || self.has_attachments {
            let problem = "bulk updates need dense rows and an update rule without attachments".to_owned();
            return Err(Error::BadSpec { table: self.spec.name.clone(), problem });
        }
        let row = |position: usize| values.get(position * width..(position + 1) * width);
        for (key, position) in keys.iter().zip(positions) {
            self.spec.check_row(*key)?;
            let Some(row) = row(*position) else {
                let (table, row, found) = (self.spec.name.clone(), *key, values.len());
                return Err(Error::WrongWidth { table, row, expected: (position + 1) * width, found });
            };
            if let Some(column) = RowCells::Dense(row).not_finite() {
                if self.spec.non_finite == NonFinitePolicy::Drop {
                    return self.update_one_by_one(worker, clock, keys, positions, values);
                }
                let worker = WorkerId::new(worker.index() as u32);
                return Err(self.spec.not_finite(*key, column, worker, ClientId::new(0)));
            }
        }
        self.latest_applied = self.latest_applied.max(Some(clock));
        // Slots are looked up some rows before the update, and the index is prefetched some rows
        // before that.
        let mut slots = [0; PREFETCH_DISTANCE];
        keys.iter().take(PREFETCH_DISTANCE).for_each(|key| self.rows.prefetch_key(*key));
        for at in 0..keys.len() + PREFETCH_DISTANCE {
            if let Some(done) = at.checked_sub(PREFETCH_DISTANCE) {
                let values = &values[positions[done] * width..][..width];
                let write = RowWrite { version: 0, cells: RowCells::Dense(values), attachment: &[] };
                self.write(slots[done % PREFETCH_DISTANCE], clock, &write)?;
            }
            if let Some(key) = keys.get(at) {
                if let Some(later) = keys.get(at + PREFETCH_DISTANCE) {
                    self.rows.prefetch_key(*later);
                }
                slots[at % PREFETCH_DISTANCE] = self.slot_in_place(*key)?;
                self.rows.prefetch(slots[at % PREFETCH_DISTANCE]);
            }
        }
        Ok(())
    }

    /// Slow path for the rare case that some updates are not finite and must be dropped.
    fn update_one_by_one(
        &mut self,
        worker: ClientId,
        clock: Clock,
        keys: &[u64],
        positions: &[usize],
        values: &[C::Compute],
    ) -> Result<()> {
        let width = self.spec.width;
        keys.iter().zip(positions).try_for_each(|(key, position)| {
            let write =
                RowWrite { version: 0, cells: RowCells::Dense(&values[position * width..][..width]), attachment: &[] };
            self.update_in_place(worker, clock, *key, &write)
        })
    }

    /// Ends a worker's clock, or its work. Returns the new minimum if it moved, so that waiters can
    /// be woken.
    pub fn clock_in_place(&mut self, worker: ClientId, to: Clock) -> Result<Option<Clock>> {
        self.clocks.advance(worker.index(), to).map_err(|backward| Error::backward(&self.spec.name, backward))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection_rng::SelectionRng;
    use crate::spec::{KeySpace, ShardId, TableSpec};
    use crate::update_rule::{Addition, SnapshotAdaRevision};
    use std::sync::Arc;

    fn server(consistency: Consistency) -> ShardServer<f32> {
        let spec = TableSpec { consistency, clients: 2, ..TableSpec::new("w", KeySpace::Fixed(10), 2) };
        ShardServer::new(Arc::new(spec), ShardId::new(0), Box::new(Addition), Clock::ZERO, SelectionRng::new(0))
            .unwrap()
    }

    #[test]
    fn the_staleness_bound_holds_in_place() {
        let mut server = server(Consistency::Ssp(1));
        server.check_in_place().unwrap();
        let [fast, slow] = [0, 1].map(ClientId::new);
        let write = RowWrite { version: 0, cells: RowCells::Dense(&[1.0, 2.0]), attachment: &[] };
        server.update_in_place(fast, Clock::ZERO, 3, &write).unwrap();
        assert_eq!(server.clock_in_place(fast, Clock::new(1)), Ok(None));
        let seen = server.read_in_place(Clock::new(1), 3).unwrap().unwrap();
        assert_eq!((seen.cells, seen.version), (RowCells::Dense(&[1.0, 2.0]), 1));
        assert_eq!(server.clock_in_place(fast, Clock::new(2)), Ok(None));
        assert_eq!(server.read_in_place(Clock::new(2), 3), Ok(None));
        assert_eq!(server.clock_in_place(slow, Clock::new(1)), Ok(Some(Clock::new(1))));
        assert!(server.read_in_place(Clock::new(2), 3).unwrap().is_some());
    }

    #[test]
    fn invalid_updates_are_errors() {
        let mut server = server(Consistency::Async);
        let write = |value| RowWrite { version: 0, cells: value, attachment: &[] };
        let mut update = |key, cells| server.update_in_place(ClientId::new(1), Clock::ZERO, key, &write(cells));
        assert!(matches!(update(10, RowCells::Dense(&[0.0; 2])), Err(Error::RowOutOfRange { .. })));
        assert!(matches!(update(1, RowCells::Dense(&[0.0; 3])), Err(Error::WrongWidth { .. })));
        let Err(Error::NotFinite { worker, column: 1, .. }) = update(1, RowCells::Dense(&[0.0, f32::NAN])) else {
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
    fn bulk_updates_equal_single_updates() {
        let spec = Arc::new(TableSpec { consistency: Consistency::Async, ..TableSpec::new("w", KeySpace::Growing, 3) });
        let server = || {
            ShardServer::<f32>::new(
                spec.clone(),
                ShardId::new(0),
                Box::new(Addition),
                Clock::ZERO,
                SelectionRng::new(0),
            )
            .unwrap()
        };
        let (mut one, mut many) = (server(), server());
        // Some rows occur more than once.
        let keys: Vec<u64> = (0..100).map(|at| at * at % 37).collect();
        let values: Vec<f32> = (0..300_u16).map(f32::from).collect();
        // In two calls, each with every other row.
        for odd in [0, 1] {
            let positions: Vec<usize> = (0..100).filter(|position| position % 2 == odd).collect();
            let some: Vec<u64> = positions.iter().map(|position| keys[*position]).collect();
            many.update_many_in_place(ClientId::new(0), Clock::ZERO, &some, &positions, &values).unwrap();
        }
        for (key, values) in keys.iter().zip(values.chunks(3)) {
            let write = RowWrite { version: 0, cells: RowCells::Dense(values), attachment: &[] };
            one.update_in_place(ClientId::new(0), Clock::ZERO, *key, &write).unwrap();
        }
        for key in 0..37 {
            assert_eq!(one.read_in_place(Clock::ZERO, key), many.read_in_place(Clock::ZERO, key));
        }
    }

    #[test]
    fn non_finite_updates_can_be_dropped() {
        let spec = TableSpec {
            consistency: Consistency::Async,
            non_finite: NonFinitePolicy::Drop,
            ..TableSpec::new("w", KeySpace::Growing, 1)
        };
        let mut server = ShardServer::<f32>::new(
            Arc::new(spec),
            ShardId::new(0),
            Box::new(Addition),
            Clock::ZERO,
            SelectionRng::new(0),
        )
        .unwrap();
        let write = RowWrite { version: 0, cells: RowCells::Dense(&[f32::NAN]), attachment: &[] };
        server.update_in_place(ClientId::new(0), Clock::ZERO, 1, &write).unwrap();
        let values = [1.0, f32::INFINITY, 2.0];
        server.update_many_in_place(ClientId::new(0), Clock::ZERO, &[1, 2, 3], &[0, 1, 2], &values).unwrap();
        assert_eq!(server.dropped(), 2);
        let rows = [1, 2, 3].map(|key| server.read_in_place(Clock::ZERO, key).unwrap().unwrap().cells.values()[0]);
        assert_eq!(rows.map(f32::to_bits), [1.0_f32, 0.0, 2.0].map(f32::to_bits));
    }

    #[test]
    fn tables_that_need_messages_are_rejected() {
        assert!(server(Consistency::Bsp).check_in_place().is_err());
        let spec = Arc::new(TableSpec { consistency: Consistency::Async, ..TableSpec::new("w", KeySpace::Growing, 2) });
        let keeping = Box::new(SnapshotAdaRevision::new(0.1, 5));
        let server =
            ShardServer::<f32>::new(spec, ShardId::new(0), keeping, Clock::ZERO, SelectionRng::new(0)).unwrap();
        assert!(server.check_in_place().unwrap_err().to_string().contains("the form of the rule with attachments"));
    }
}
