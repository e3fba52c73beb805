//! Specification of a table. Every peer builds the same value, and shards and caches are created
//! from it.
//!
//! **Invariant:** the shard that owns a row and the initial values of a row are functions of this
//! value alone. Peers agree on both without communication.

use crate::cells::RowCells;
use crate::dtype::ComputeType;
use crate::error::{Error, Result};
use crate::partition;
use crate::priority::CommPolicy;
use hemiola_core::WorkerId;
use hemiola_core::rng::PhiloxRng;
use serde::{Deserialize, Serialize};

hemiola_core::define_ids! {
    /// Id of a client of a table: the caches that the workers of one peer share.
    ClientId;
    /// Id of a shard of a table.
    ShardId;
}

/// Consistency model of a table: the freshness that a read guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consistency {
    /// Bulk synchronous parallel. A worker sees all updates of earlier clocks, no update of the
    /// current clock from other workers, and its own updates at once. Results are bit-identical
    /// whatever the timing.
    Bsp,
    /// Stale synchronous parallel with bound `s`. A worker at clock `c` sees at least all updates
    /// of clocks up to `c - s - 1`.
    Ssp(u64),
    /// Asynchronous: reads have no freshness bound.
    Async,
}

impl Consistency {
    /// Staleness bound in clocks; `u64::MAX` for asynchronous tables.
    #[must_use]
    pub const fn staleness(self) -> u64 {
        match self {
            Self::Bsp => 0,
            Self::Ssp(staleness) => staleness,
            Self::Async => u64::MAX,
        }
    }
}

/// Delivery of changed rows to the clients that cache them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowDelivery {
    /// A shard pushes changed rows to every client that requested them once and still caches them.
    /// The default.
    #[default]
    Push,
    /// A client requests a row again when its copy is too old. This is better where rows are seldom
    /// read twice. An asynchronous table has no bound, so a pulled copy stays until it is evicted.
    Pull,
}

/// Key space of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeySpace {
    /// Dense keys `0..n`, known in advance.
    Fixed(u64),
    /// Any 64-bit key. A row is created when it is first named.
    Growing,
}

/// Initial values of a row, before any update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum RowInitializer {
    /// All cells are zero. The default.
    #[default]
    Zero,
    /// All cells have this value.
    Constant(f64),
    /// Uniform values in `low..high`, a function of seed, row and column.
    Uniform {
        /// Random seed of the table.
        seed: u64,
        /// Lower bound of the values, inclusive.
        low: f64,
        /// Upper bound of the values, exclusive.
        high: f64,
    },
    /// Normally distributed values, a function of seed, row and column.
    Normal {
        /// Random seed of the table.
        seed: u64,
        /// Mean of the distribution.
        mean: f64,
        /// Standard deviation of the distribution.
        std_dev: f64,
    },
}

impl RowInitializer {
    /// Initial value of one cell.
    #[must_use]
    pub fn value(&self, row: u64, column: usize) -> f64 {
        match *self {
            Self::Zero => 0.0,
            Self::Constant(value) => value,
            Self::Uniform { seed, low, high } => PhiloxRng::new(seed).uniform(row, column as u64, low..high),
            Self::Normal { seed, mean, std_dev } => PhiloxRng::new(seed).normal(row, column as u64, mean, std_dev),
        }
    }
}

/// Policy for updates that contain NaN or infinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NonFinitePolicy {
    /// Fail with an error that names table, row, column and worker. The default.
    #[default]
    Reject,
    /// Drop the update of that row and count it.
    Drop,
}

/// Default message size: the values are still in the CPU cache when they are sent, read or applied,
/// and a message with its headers fits a receive buffer of 256 KiB.
const MESSAGE_BYTES: usize = 240 << 10;

/// Default send window: 4 GB/s at a round trip of 1 ms, and 16 messages of rows.
const WINDOW_BYTES: usize = 4 << 20;

/// Specification of a table, identical on all peers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Table name, used in messages and errors.
    pub name: String,
    /// Number of columns of a row.
    pub width: usize,
    /// Sparse rows store only the columns that are not zero.
    pub sparse: bool,
    /// Key space of the rows.
    pub key_space: KeySpace,
    /// Consistency model of reads.
    pub consistency: Consistency,
    /// Delivery of changed rows.
    pub delivery: RowDelivery,
    /// Initial values of new rows.
    pub initializer: RowInitializer,
    /// Policy for NaN and infinity in updates.
    pub non_finite: NonFinitePolicy,
    /// Number of shards of the table.
    pub shards: usize,
    /// Number of clients: peers with workers.
    pub clients: usize,
    /// Capacity of a client's cache per shard, in rows. It is exceeded only by rows that workers
    /// wait for or, in tables with versions, compute with.
    pub cache_rows: usize,
    /// Approximate maximum size of a message in bytes.
    pub message_bytes: usize,
    /// Rows in bytes that a shard sends to a client without an acknowledgement. Rows that change
    /// while the window is full are merged, and requests wait.
    pub window_bytes: usize,
    /// Policy for bandwidth-managed communication: spare bandwidth carries rows and updates before
    /// a clock needs them. `None` sends nothing eagerly.
    pub comm_policy: Option<CommPolicy>,
}

impl TableSpec {
    /// Creates the spec of a dense BSP table with pushed rows, zero initialization, one shard, one
    /// client and an unbounded cache.
    #[must_use]
    pub fn new(name: &str, key_space: KeySpace, width: usize) -> Self {
        Self {
            name: name.to_owned(),
            width,
            sparse: false,
            key_space,
            consistency: Consistency::Bsp,
            delivery: RowDelivery::Push,
            initializer: RowInitializer::Zero,
            non_finite: NonFinitePolicy::Reject,
            shards: 1,
            clients: 1,
            cache_rows: usize::MAX,
            message_bytes: MESSAGE_BYTES,
            window_bytes: WINDOW_BYTES,
            comm_policy: None,
        }
    }

    /// Checks that the settings are consistent.
    pub fn validate(&self) -> Result<()> {
        let bad = |problem: &str| Err(Error::BadSpec { table: self.name.clone(), problem: problem.to_owned() });
        if self.width == 0 || u32::try_from(self.width).is_err() {
            return bad("the number of columns must be between 1 and 2^32 - 1");
        }
        if self.shards == 0 || self.clients == 0 {
            return bad("it needs at least one shard and one client");
        }
        if self.sparse && self.initializer != RowInitializer::Zero {
            return bad("sparse rows start with zeros; omit the initializer, or make the table dense");
        }
        Ok(())
    }

    /// Shard that owns a row. Neighbouring rows have different owners, so popular low ids are
    /// spread evenly.
    #[must_use]
    #[inline]
    pub fn shard_of(&self, row: u64) -> ShardId {
        match self.key_space {
            KeySpace::Fixed(_) => partition::interleaved(row, self.shards),
            KeySpace::Growing => partition::hashed(row, self.shards),
        }
    }

    /// Maximum number of rows of a shard; `None` if the key space is unbounded.
    #[must_use]
    pub fn max_rows(&self) -> Option<u64> {
        match self.key_space {
            KeySpace::Fixed(rows) => Some(rows.div_ceil(self.shards as u64)),
            KeySpace::Growing => None,
        }
    }

    /// Checks that the table has this row.
    pub fn check_row(&self, row: u64) -> Result<()> {
        match self.key_space {
            KeySpace::Fixed(rows) if row >= rows => Err(Error::RowOutOfRange { table: self.name.clone(), row, rows }),
            _ => Ok(()),
        }
    }

    /// Checks that these cells can be added to a row.
    pub fn check_cells<W: ComputeType>(&self, row: u64, cells: &RowCells<'_, W>) -> Result<()> {
        let table = || self.name.clone();
        match *cells {
            RowCells::Dense(values) if values.len() != self.width || self.sparse => {
                Err(Error::WrongWidth { table: table(), row, expected: self.width, found: values.len() })
            }
            RowCells::Dense(_) => Ok(()),
            RowCells::Sparse { columns, values } => {
                if columns.len() != values.len() {
                    return Err(Error::WrongWidth {
                        table: table(),
                        row,
                        expected: columns.len(),
                        found: values.len(),
                    });
                }
                let bad = |column| Error::BadColumn { table: table(), row, column, width: self.width };
                if let Some(pair) = columns.windows(2).find(|pair| pair[0] >= pair[1]) {
                    return Err(bad(pair[1]));
                }
                columns.last().filter(|last| **last as usize >= self.width).map_or(Ok(()), |last| Err(bad(*last)))
            }
        }
    }

    /// Error for an update that contains NaN or infinity.
    #[must_use]
    pub fn not_finite(&self, row: u64, column: usize, worker: WorkerId, client: ClientId) -> Error {
        Error::NotFinite { table: self.name.clone(), row, column, worker, client }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_evenly_over_shards() {
        for key_space in [KeySpace::Fixed(1 << 40), KeySpace::Growing] {
            let spec = TableSpec { shards: 4, ..TableSpec::new("t", key_space, 1) };
            for stride in [1, 2, 3, 4096, 1 << 20] {
                let mut share = [0; 4];
                (0..4000).for_each(|at| share[spec.shard_of(at * stride).index()] += 1);
                if key_space == KeySpace::Growing || stride == 1 {
                    assert!(share.iter().all(|rows| (700..1300).contains(rows)), "{stride}: {share:?}");
                }
            }
        }
    }

    #[test]
    fn initial_values_depend_on_seed_row_and_column_alone() {
        let initializer = RowInitializer::Normal { seed: 3, mean: 1.0, std_dev: 0.1 };
        assert_eq!(initializer.value(7, 2).to_bits(), initializer.value(7, 2).to_bits());
        assert_ne!(initializer.value(7, 2).to_bits(), initializer.value(8, 2).to_bits());
        assert_ne!(initializer.value(7, 2).to_bits(), initializer.value(7, 3).to_bits());
        let uniform = RowInitializer::Uniform { seed: 3, low: -1.0, high: 1.0 };
        assert!((0..1000).all(|row| (-1.0..1.0).contains(&uniform.value(row, 0))));
    }

    #[test]
    fn wrong_rows_columns_and_widths_are_errors() {
        let spec = TableSpec::new("w", KeySpace::Fixed(10), 3);
        assert_eq!(
            spec.check_row(10).unwrap_err().to_string(),
            "table `w` has no row 10: its keys are `0..10`; enlarge the table, or omit `rows` for an unbounded key space"
        );
        assert!(spec.check_row(9).is_ok());
        let error = spec.check_cells(4, &RowCells::Dense(&[1.0_f32; 4])).unwrap_err();
        assert_eq!(error.to_string(), "row 4 of table `w` has 3 columns, but 4 values were given");
        for columns in [[1, 1], [2, 1], [1, 3]] {
            assert!(spec.check_cells(4, &RowCells::Sparse { columns: &columns, values: &[1.0_f32; 2] }).is_err());
        }
        assert!(spec.check_cells(4, &RowCells::Sparse { columns: &[0, 2], values: &[1.0_f32; 2] }).is_ok());
    }
}
