//! Frames on their way out of one connection.
//!
//! Payloads are never copied: a write gathers the unsent parts of the first frames in the queue into one vectored
//! call, small frames together, large ones in pieces of [`PIECE_BYTES`] that are summed just before they are written,
//! while they are in the cache. **Invariant:** a payload byte is written only after it has been summed.

use crate::checksum::Checksum;
use crate::frame::{FrameHeader, HEADER_BYTES, OVERHEAD_BYTES, TRAILER_BYTES};
use crate::tcp::stream::Stream;
use hemiola_core::Payload;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Bytes gathered for one write: few enough to stay in a second-level cache between being summed and being copied, and
/// many enough that the cost of a call does not show (on the machine of `docs/performance.md`, 256 KiB reach two thirds
/// of the rate, and 2 MiB no more than this).
const PIECE_BYTES: usize = 512 * 1024;
/// Slices gathered for one write; well under the system's limit of 1,024.
const SLICES: usize = 64;

#[derive(Debug)]
struct Pending {
    header: [u8; HEADER_BYTES],
    payload: Payload,
    length: usize,
    /// Payload bytes in `sum`.
    summed: usize,
    sum: Checksum,
    /// The final sum, once everything is summed.
    trailer: [u8; TRAILER_BYTES],
    /// Bytes of the whole frame that are written.
    written: usize,
}

impl Pending {
    fn total(&self) -> usize {
        self.length + OVERHEAD_BYTES
    }

    /// Sums payload bytes until those before `until` are covered.
    fn sum_until(&mut self, until: usize) {
        let until = until.min(self.length);
        if self.summed < until {
            for slice in window(&self.payload, self.summed, until) {
                self.sum.update(slice);
            }
            self.summed = until;
        }
        if self.summed == self.length {
            self.trailer = self.sum.value().to_le_bytes();
        }
    }

    /// Adds the parts that are summed and not written, in order.
    fn unsent<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        if self.written < HEADER_BYTES {
            slices.push(IoSlice::new(&self.header[self.written..]));
        }
        let body = self.written.saturating_sub(HEADER_BYTES).min(self.length);
        slices.extend(window(&self.payload, body, self.summed).map(IoSlice::new));
        if self.summed == self.length {
            let sent = self.written.saturating_sub(HEADER_BYTES + self.length);
            slices.push(IoSlice::new(&self.trailer[sent..]));
        }
    }
}

/// The bytes from `start` to `end` of a payload, as slices of its parts.
fn window(payload: &Payload, start: usize, end: usize) -> impl Iterator<Item = &[u8]> {
    let mut offset = 0;
    payload.parts().filter_map(move |part| {
        let (from, to) = (start.saturating_sub(offset).min(part.len()), end.saturating_sub(offset).min(part.len()));
        offset += part.len();
        (from < to).then(|| &part[from..to])
    })
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    queue: VecDeque<Pending>,
    /// Bytes of the queued frames that are not written yet.
    queued: usize,
    /// Number of the next frame.
    sequence: u64,
    /// Set when the last frame has been queued.
    pub(crate) closed: bool,
}

impl Outbound {
    /// Continues a connection on which `sequence` frames have been sent.
    pub(crate) fn starting_at(sequence: u64) -> Self {
        Self { sequence, ..Self::default() }
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of the next frame.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Adds a frame. Its header's sequence and length are set here.
    pub(crate) fn push(&mut self, mut header: FrameHeader, payload: Payload) {
        let length = payload.len();
        header.sequence = self.sequence;
        header.length = length as u32;
        self.sequence += 1;
        self.queued += length + OVERHEAD_BYTES;
        self.queue.push_back(Pending {
            header: header.encode(),
            payload,
            length,
            summed: 0,
            sum: Checksum::new(),
            trailer: [0; TRAILER_BYTES],
            written: 0,
        });
    }

    /// Drops everything, because the connection is gone.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.queued = 0;
    }

    /// Writes until the queue is empty, the socket is full, or `pieces` writes have been made.
    pub(crate) fn pump(&mut self, stream: &Stream, pieces: usize) -> io::Result<()> {
        for _ in 0..pieces {
            if self.queue.is_empty() {
                break;
            }
            match self.write_once(stream) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_once(&mut self, stream: &Stream) -> io::Result<()> {
        let mut gathered = 0;
        let mut frames = 0;
        for pending in &mut self.queue {
            let body = pending.written.saturating_sub(HEADER_BYTES);
            pending.sum_until(body + PIECE_BYTES - gathered);
            frames += 1;
            gathered += pending.total() - pending.written;
            if gathered >= PIECE_BYTES || frames * 3 >= SLICES {
                break;
            }
        }
        let mut slices = Vec::with_capacity(frames * 3);
        for pending in self.queue.iter().take(frames) {
            pending.unsent(&mut slices);
        }
        slices.truncate(SLICES);
        let mut written = stream.write(&slices)?;
        self.queued -= written;
        while written > 0 {
            let first = self.queue.front_mut().expect("more was written than was queued");
            let rest = first.total() - first.written;
            if written < rest {
                first.written += written;
                break;
            }
            written -= rest;
            self.queue.pop_front();
        }
        Ok(())
    }
}
