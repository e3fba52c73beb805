//! What a table is: the value that every peer builds alike and that shards and caches are made from.
//!
//! **Invariant:** which shard owns a row, and what a row is before anybody has touched it, are functions of this value alone, so
//! all peers agree without asking each other.

use crate::cells::Cells;
use crate::error::{Error, Result};
use crate::number::Number;
use crate::priority::Managed;
use hemiola_array::random::Values;
use hemiola_core::WorkerId;
use serde::{Deserialize, Serialize};

hemiola_core::numbers! {
    /// The number of a table's client: the cache that the workers of one peer share.
    ClientId;
    /// The number of a shard of a table.
    ShardId;
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consistency {
    /// A worker sees everything of the clocks before its own, nothing of the same clock from others, and its own updates at once.
    /// The same job gives the same bits, whatever the timing.
    Bsp,
    /// A worker at clock `c` sees at least everything of the clocks up to `c - s - 1`.
    Ssp(u64),
    /// No bound.
    Async,
}

impl Consistency {
    /// By how many clocks a read may lag.
    #[must_use]
    pub const fn staleness(self) -> u64 {
        match self {
            Self::Bsp => 0,
            Self::Ssp(staleness) => staleness,
            Self::Async => u64::MAX,
        }
    }
}

/// How changed rows come to those who read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// A shard sends changed rows to everybody who has asked for them once and still has them.
    #[default]
    Push,
    /// A cache asks again when its copy is too old. Better where rows are seldom read twice. An
    /// asynchronous table has no "too old": there a copy that is pulled stays until it is evicted.
    Pull,
}

/// The id space of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ids {
    /// Rows `0..n`.
    Fixed(u64),
    /// Any 64-bit key; a row begins to exist when it is first named.
    Growing,
}

/// What a row is before anybody has touched it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Defaults {
    /// Zeros.
    #[default]
    Zero,
    /// The same value everywhere.
    Constant(f64),
    /// Uniform values in `low..high`, by seed, row and column.
    Uniform {
        /// The seed.
        seed: u64,
        /// The lowest value.
        low: f64,
        /// Above the highest.
        high: f64,
    },
    /// Normal values, by seed, row and column.
    Normal {
        /// The seed.
        seed: u64,
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        deviation: f64,
    },
}

impl Defaults {
    /// The value in a column of a new row.
    #[must_use]
    pub fn value(&self, row: u64, column: usize) -> f64 {
        match *self {
            Self::Zero => 0.0,
            Self::Constant(value) => value,
            Self::Uniform { seed, low, high } => Values::new(seed).uniform(row, column as u64, low..high),
            Self::Normal { seed, mean, deviation } => Values::new(seed).normal(row, column as u64, mean, deviation),
        }
    }
}

/// What happens to an update with NaN or infinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NonFinite {
    /// It is an error that names table, row, column and worker.
    #[default]
    Refuse,
    /// The update of that row is left out and counted.
    Drop,
}

/// What was just written is still in the processor's cache when it is sent, or read and applied; and with what stands around it, it fits into
/// a receive buffer of 256 KiB.
const MESSAGE_BYTES: usize = 240 << 10;

/// A table, as all peers know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name, for messages.
    pub name: String,
    /// Columns of a row.
    pub width: usize,
    /// Whether rows hold only the columns that are not zero.
    pub sparse: bool,
    /// Which rows there are.
    pub ids: Ids,
    /// How fresh reads are.
    pub consistency: Consistency,
    /// How rows travel.
    pub delivery: Delivery,
    /// What new rows hold.
    pub defaults: Defaults,
    /// What to do with NaN and infinity.
    pub non_finite: NonFinite,
    /// Number of shards.
    pub shards: usize,
    /// Number of clients: peers with workers.
    pub clients: usize,
    /// Rows that a client keeps of each shard. More are kept only while workers wait for them or, in tables with versions,
    /// compute with them.
    pub cache_rows: usize,
    /// Messages are about this large at most.
    pub message_bytes: usize,
    /// Whether spare bandwidth is spent on sending rows and updates before a clock asks for them, and on which first.
    pub managed: Option<Managed>,
}

impl Spec {
    /// A dense table with BSP, pushed rows, zeros as defaults, one shard and one client, whose caches hold everything.
    #[must_use]
    pub fn new(name: &str, ids: Ids, width: usize) -> Self {
        Self {
            name: name.to_owned(),
            width,
            sparse: false,
            ids,
            consistency: Consistency::Bsp,
            delivery: Delivery::Push,
            defaults: Defaults::Zero,
            non_finite: NonFinite::Refuse,
            shards: 1,
            clients: 1,
            cache_rows: usize::MAX,
            message_bytes: MESSAGE_BYTES,
            managed: None,
        }
    }

    /// Whether such a table can be.
    pub fn check(&self) -> Result<()> {
        let bad = |problem: &str| Err(Error::BadSpec { table: self.name.clone(), problem: problem.to_owned() });
        if self.width == 0 || u32::try_from(self.width).is_err() {
            return bad("rows need between 1 and 2^32 - 1 columns");
        }
        if self.shards == 0 || self.clients == 0 {
            return bad("it needs at least one shard and one client");
        }
        if self.sparse && self.defaults != Defaults::Zero {
            return bad("sparse rows begin with zeros; leave the default out, or make the table dense");
        }
        Ok(())
    }

    /// The shard that owns a row. Neighbours have different owners, so that popular low ids are spread.
    #[must_use]
    #[inline]
    pub fn shard_of(&self, row: u64) -> ShardId {
        let spread = match self.ids {
            Ids::Fixed(_) => row,
            // The high half of a product: independent of the bits that the hash tables of shards use.
            Ids::Growing => ((u128::from(row ^ 0x5851_f42d_4c95_7f2d) * 0xda94_2042_e4dd_58b5) >> 64) as u64,
        };
        let shards = self.shards as u64;
        // A division takes as long as everything else that a read of a cached row needs.
        ShardId::new(if shards.is_power_of_two() { spread & (shards - 1) } else { spread % shards } as u32)
    }

    /// How many rows a shard can have, if that is known.
    #[must_use]
    pub fn most_rows(&self) -> Option<u64> {
        match self.ids {
            Ids::Fixed(rows) => Some(rows.div_ceil(self.shards as u64)),
            Ids::Growing => None,
        }
    }

    /// Whether the table has this row.
    pub fn check_row(&self, row: u64) -> Result<()> {
        match self.ids {
            Ids::Fixed(rows) if row >= rows => Err(Error::RowOutOfRange { table: self.name.clone(), row, rows }),
            _ => Ok(()),
        }
    }

    /// Whether these cells can be added to a row.
    pub fn check_cells<W: Number>(&self, row: u64, cells: &Cells<'_, W>) -> Result<()> {
        let table = || self.name.clone();
        match *cells {
            Cells::Dense(values) if values.len() != self.width || self.sparse => {
                Err(Error::WrongWidth { table: table(), row, expected: self.width, found: values.len() })
            }
            Cells::Dense(_) => Ok(()),
            Cells::Sparse { columns, values } => {
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

    /// The error for an update that is not finite.
    #[must_use]
    pub fn not_finite(&self, row: u64, column: usize, worker: WorkerId, client: ClientId) -> Error {
        Error::NotFinite { table: self.name.clone(), row, column, worker, client }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_gets_its_share_of_any_ids() {
        for ids in [Ids::Fixed(1 << 40), Ids::Growing] {
            let spec = Spec { shards: 4, ..Spec::new("t", ids, 1) };
            for stride in [1, 2, 3, 4096, 1 << 20] {
                let mut share = [0; 4];
                (0..4000).for_each(|at| share[spec.shard_of(at * stride).index()] += 1);
                if ids == Ids::Growing || stride == 1 {
                    assert!(share.iter().all(|rows| (700..1300).contains(rows)), "{stride}: {share:?}");
                }
            }
        }
    }

    #[test]
    fn defaults_depend_on_seed_row_and_column_alone() {
        let defaults = Defaults::Normal { seed: 3, mean: 1.0, deviation: 0.1 };
        assert_eq!(defaults.value(7, 2).to_bits(), defaults.value(7, 2).to_bits());
        assert_ne!(defaults.value(7, 2).to_bits(), defaults.value(8, 2).to_bits());
        assert_ne!(defaults.value(7, 2).to_bits(), defaults.value(7, 3).to_bits());
        let uniform = Defaults::Uniform { seed: 3, low: -1.0, high: 1.0 };
        assert!((0..1000).all(|row| (-1.0..1.0).contains(&uniform.value(row, 0))));
    }

    #[test]
    fn wrong_rows_columns_and_widths_are_named() {
        let spec = Spec::new("w", Ids::Fixed(10), 3);
        assert_eq!(
            spec.check_row(10).unwrap_err().to_string(),
            "table `w` has no row 10: its rows are 0 to 10, without the last; make the table larger, or let its ids grow"
        );
        assert!(spec.check_row(9).is_ok());
        let error = spec.check_cells(4, &Cells::Dense(&[1.0_f32; 4])).unwrap_err();
        assert_eq!(error.to_string(), "row 4 of table `w` has 3 columns, and 4 values were given for it");
        for columns in [[1, 1], [2, 1], [1, 3]] {
            assert!(spec.check_cells(4, &Cells::Sparse { columns: &columns, values: &[1.0_f32; 2] }).is_err());
        }
        assert!(spec.check_cells(4, &Cells::Sparse { columns: &[0, 2], values: &[1.0_f32; 2] }).is_ok());
    }
}
