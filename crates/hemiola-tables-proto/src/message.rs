//! What clients and shards say to each other. [`wire`](crate::wire) gives it bytes; in one process it is handed over as it is.

use crate::batch::Batch;
use crate::clock::Clock;
use crate::number::Cell;

/// From a client to a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum ToShard<W: Cell> {
    /// "Send me these rows once everything before `need` is in them." With pushed rows: and all changes of them from then on.
    Get {
        /// Everything of earlier clocks must be in them.
        need: Clock,
        /// The rows.
        keys: Vec<u64>,
    },
    /// "Add this; it was computed in `clock`."
    Update {
        /// The clock of the workers that computed it.
        clock: Clock,
        /// By row, with the version each was computed from.
        batch: Batch<W>,
        /// What the procedure has clients carry back: as many values for each row as it has columns, or none at all.
        carried: Vec<W>,
    },
    /// "My workers have finished everything before this clock, and you have all of it."
    Clock(Clock),
    /// "I do not have these any more; do not push them."
    Forget {
        /// The rows.
        keys: Vec<u64>,
    },
    /// "I shall send no more updates computed from these copies."
    Release {
        /// Row, version, and how many copies of it came.
        copies: Vec<(u64, u64, u32)>,
    },
    /// "I am going to use these; lease them to me if nobody else has them."
    Intend {
        /// The rows.
        keys: Vec<u64>,
    },
    /// "I have sent what I had for these; the leases are yours again."
    Return {
        /// The rows.
        keys: Vec<u64>,
    },
}

/// From a shard to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ToClient<C: Cell, W: Cell> {
    /// Rows as they are now.
    Rows {
        /// All updates of earlier clocks are in them, and in every row pushed before and not since.
        fresh: Clock,
        /// Updates of this client up to this message are in them.
        included: u64,
        /// Whether they were asked for, rather than pushed.
        reply: bool,
        /// The rows.
        batch: Batch<C>,
        /// What clients are to carry back with updates.
        carried: Vec<W>,
    },
    /// "Nobody else has copies of these: keep updates of them until I recall the lease."
    Lease {
        /// The rows.
        keys: Vec<u64>,
    },
    /// "Somebody else needs these: send what you have for them, and the leases."
    Recall {
        /// The rows.
        keys: Vec<u64>,
    },
}
