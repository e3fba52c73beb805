//! Messages between clients and shards. [`wire`](crate::wire) encodes them; within a process they
//! are passed as values.

use crate::batch::RowBatch;
use crate::clock::Clock;
use crate::dtype::StorageType;

/// Message from a client to a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage<W: StorageType> {
    /// Requests rows once all updates of clocks before `need` are applied. With push delivery it
    /// also subscribes to later changes.
    Get {
        /// All updates of earlier clocks must be applied before the reply.
        need: Clock,
        /// Keys of the requested rows.
        keys: Vec<u64>,
    },
    /// Sends summed updates to be applied.
    Update {
        /// Clock in which the workers computed the updates.
        clock: Clock,
        /// Updates by row, with the version that each was computed from.
        batch: RowBatch<W>,
        /// Attachments that the update rule asked for: one value per column for each row, or empty.
        attachment: Vec<W>,
    },
    /// All workers of the client have finished the clocks before this one, and their updates have
    /// been sent.
    Clock(Clock),
    /// Unsubscribes from rows that the client has evicted.
    Forget {
        /// Keys of the evicted rows.
        keys: Vec<u64>,
    },
    /// Releases copies: no further update will be computed from them.
    Release {
        /// Row, version, and number of copies released.
        copies: Vec<(u64, u64, u32)>,
    },
    /// Signals intent to use rows. The shard leases them to the client if it is the only user.
    Intend {
        /// Keys of the intended rows.
        keys: Vec<u64>,
    },
    /// Returns leases. The pending sums of these rows precede this message.
    Return {
        /// Keys of the returned rows.
        keys: Vec<u64>,
    },
}

/// Message from a shard to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerMessage<C: StorageType, W: StorageType> {
    /// Current values of rows.
    Rows {
        /// All updates of earlier clocks are applied to these rows, and to every row pushed before
        /// and not since.
        fresh: Clock,
        /// Sequence number: the client's messages up to this one are applied to the rows.
        included: u64,
        /// The rows answer a request; otherwise they are pushed.
        reply: bool,
        /// Rows with their versions.
        batch: RowBatch<C>,
        /// Attachments that clients return with their updates.
        attachment: Vec<W>,
    },
    /// Grants leases: no other client has copies, so the client keeps its updates until a recall.
    Lease {
        /// Keys of the leased rows.
        keys: Vec<u64>,
    },
    /// Recalls leases: another client needs the rows.
    Recall {
        /// Keys of the recalled rows.
        keys: Vec<u64>,
    },
}
