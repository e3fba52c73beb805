//! Frames on their way out of one connection.
//!
//! Payloads are never copied: a write gathers the unsent parts of the first frames in the queue into one vectored
//! call, small frames together, large ones in pieces of [`PIECE_BYTES`] that are summed just before they are written,
//! while they are in the cache. **Invariant:** a payload byte is written only after it has been summed.
//!
//! A payload may end in a *tail* that is only lent: then the frame is written at once, from where its bytes lie, and what the socket does not take is
//! copied and queued.

use crate::checksum::Checksum;
use crate::frame::{FrameHeader, HEADER_BYTES, OVERHEAD_BYTES, TRAILER_BYTES};
use crate::tcp::stream::Stream;
use bytes::Bytes;
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
    /// Payload bytes in front of `payload` that were written and are not kept.
    gone: usize,
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
    fn new(header: &FrameHeader, payload: Payload) -> Self {
        Self {
            header: header.encode(),
            payload,
            gone: 0,
            length: header.length as usize,
            summed: 0,
            sum: Checksum::new(),
            trailer: [0; TRAILER_BYTES],
            written: 0,
        }
    }

    fn total(&self) -> usize {
        self.length + OVERHEAD_BYTES
    }

    /// Payload bytes that are written.
    fn body(&self) -> usize {
        self.written.saturating_sub(HEADER_BYTES).min(self.length)
    }

    /// Sums payload bytes until those before `until` are covered.
    fn sum_until(&mut self, until: usize, tail: &[u8]) {
        let until = until.min(self.length);
        if self.summed < until {
            for slice in window(&self.payload, tail, self.summed - self.gone, until - self.gone) {
                self.sum.update(slice);
            }
            self.summed = until;
        }
        if self.summed == self.length {
            self.trailer = self.sum.value().to_le_bytes();
        }
    }

    /// Adds the parts that are summed and not written, in order.
    fn unsent<'a>(&'a self, tail: &'a [u8], slices: &mut Vec<IoSlice<'a>>) {
        if self.written < HEADER_BYTES {
            slices.push(IoSlice::new(&self.header[self.written..]));
        }
        let body = self.body() - self.gone;
        slices.extend(window(&self.payload, tail, body, self.summed - self.gone).map(IoSlice::new));
        if self.summed == self.length {
            let sent = self.written.saturating_sub(HEADER_BYTES + self.length);
            slices.push(IoSlice::new(&self.trailer[sent..]));
        }
    }

    /// Keeps a copy of what is not written of a tail.
    fn keep(&mut self, tail: &[u8]) {
        let front = self.length - tail.len();
        let body = self.body();
        if body < front {
            let parts = self.payload.parts().cloned().chain(std::iter::once(Bytes::copy_from_slice(tail)));
            self.payload = Payload::from_parts(parts);
        } else {
            self.payload = Bytes::copy_from_slice(&tail[body - front..]).into();
            self.gone = body;
        }
    }
}

/// The bytes from `start` to `end` of a payload and its tail, as slices of their parts.
fn window<'a>(payload: &'a Payload, tail: &'a [u8], start: usize, end: usize) -> impl Iterator<Item = &'a [u8]> {
    let mut offset = 0;
    payload.parts().map(|part| &part[..]).chain(std::iter::once(tail)).filter_map(move |part| {
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
    pub(crate) fn push(&mut self, header: FrameHeader, payload: Payload) {
        let header = self.number(header, payload.len());
        self.queued += payload.len() + OVERHEAD_BYTES;
        self.queue.push_back(Pending::new(&header, payload));
    }

    /// Adds a frame whose payload ends in a tail that is lent. Written at once as far as the socket takes it, if nothing else waits.
    pub(crate) fn push_lent(
        &mut self,
        header: FrameHeader,
        payload: Payload,
        tail: &[u8],
        stream: &Stream,
    ) -> io::Result<()> {
        let header = self.number(header, payload.len() + tail.len());
        let mut frame = Pending::new(&header, payload);
        if self.queue.is_empty() {
            while frame.written < frame.total() {
                frame.sum_until(frame.body() + PIECE_BYTES, tail);
                let mut slices = Vec::with_capacity(4);
                frame.unsent(tail, &mut slices);
                match stream.write(&slices) {
                    Ok(written) => frame.written += written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        if frame.written < frame.total() {
            frame.keep(tail);
            self.queued += frame.total() - frame.written;
            self.queue.push_back(frame);
        }
        Ok(())
    }

    fn number(&mut self, mut header: FrameHeader, length: usize) -> FrameHeader {
        header.sequence = self.sequence;
        header.length = length as u32;
        self.sequence += 1;
        header
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
            pending.sum_until(pending.body() + PIECE_BYTES - gathered, &[]);
            frames += 1;
            gathered += pending.total() - pending.written;
            if gathered >= PIECE_BYTES || frames * 3 >= SLICES {
                break;
            }
        }
        let mut slices = Vec::with_capacity(frames * 3);
        for pending in self.queue.iter().take(frames) {
            pending.unsent(&[], &mut slices);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferPool;
    use crate::decoder::Decoder;
    use crate::frame::FrameKind;
    use crate::tcp::stream::Patience;
    use hemiola_core::{ChannelId, JobId, Purpose};
    use std::net::{TcpListener, TcpStream};

    const JOB: JobId = JobId::new(7);

    /// Sends frames of these front and tail lengths, of which nothing is read before all are under way, and compares what is read then.
    fn send_lent(lengths: &[(usize, usize)]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = Stream::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap(), None).unwrap();
        let receiver = Stream::new(listener.accept().unwrap().0, None).unwrap();
        let bytes = |length: usize, seed: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + seed) as u8).collect() };
        let mut outbound = Outbound::default();
        let mut expected = Vec::new();
        for (seed, &(front, tail)) in lengths.iter().enumerate() {
            let channel = ChannelId::new(1);
            let (kind, purpose) = (FrameKind::Data, Purpose::Custom);
            let header = FrameHeader { kind, purpose, length: 0, job: JOB, sequence: 0, channel };
            let (front, mut tail) = (bytes(front, seed), bytes(tail, seed + 100));
            expected.push([&front[..], &tail].concat());
            outbound.push_lent(header, front.into(), &tail, &sender).unwrap();
            // It was only lent.
            tail.fill(0);
        }
        let mut decoder = Decoder::new(JOB, 1 << 30, BufferPool::new(0));
        let mut frames = Vec::new();
        while frames.len() < expected.len() {
            if let Ok(count) = receiver.read(decoder.space(), Patience::Brief) {
                decoder.filled(count, &mut |_, payload| frames.push(payload)).unwrap();
            }
            outbound.pump(&sender, 1).unwrap();
        }
        assert!(frames == expected, "a frame came that was not sent");
        assert_eq!((outbound.queued(), outbound.is_empty()), (0, true));
    }

    #[test]
    fn what_is_lent_arrives_whole_whatever_the_socket_takes() {
        send_lent(&[(128, 1000), (0, 5), (3, 0)]);
        // More than sockets take at once, cut in the tail; then nothing can be written at once any more.
        send_lent(&[(128, 20 << 20), (128, 300_000), (0, 1)]);
        // Cut in front of the tail.
        send_lent(&[(20 << 20, 100_000), (5, 5)]);
    }
}
