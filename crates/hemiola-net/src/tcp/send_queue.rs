//! Send queue of one connection.
//!
//! Payloads are never copied: a write gathers the unsent parts of the first frames in the queue
//! into one vectored call. Small frames are gathered together; large ones are written in pieces of
//! [`PIECE_BYTES`], which become part of the frame's tag just before they are written, while they
//! are in the cache. **Invariants:** a payload byte is written only after it is part of the tag; a
//! frame number is used once per key.
//!
//! A payload may end in a borrowed *tail*. Then the frame is written at once, directly from the
//! caller's memory, and the part that the socket does not take is copied and queued.

use crate::frame::{FrameHeader, HEADER_BYTES, TRAILER_BYTES};
use crate::frame_authentication::{FrameKey, FrameTag};
use crate::tcp::stream::PeerStream;
use bytes::Bytes;
use hemiola_core::FRAME_OVERHEAD_BYTES;
use hemiola_core::Payload;
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Bytes gathered for one write: few enough to stay in a second-level cache between tag and copy, and enough to hide the cost of the call (on the machine of `benchmarks/results`, 256 KiB
/// reach two thirds of the rate, and 2 MiB no more than this).
const PIECE_BYTES: usize = 512 * 1024;
/// Largest payload whose tag is computed when it is queued, so that no state is kept for it.
const TAGGED_AT_ONCE_BYTES: usize = 64 * 1024;
/// Slices gathered for one write; well under the system's limit of 1,024.
const SLICES: usize = 64;

#[derive(Debug)]
struct QueuedFrame {
    header: [u8; HEADER_BYTES],
    payload: Payload,
    /// Payload bytes in front of `payload` that were written and dropped.
    dropped: usize,
    length: usize,
    /// Payload bytes covered by the tag.
    tagged: usize,
    /// Tag of the bytes so far; `None` once it covers the whole payload.
    tag: Option<Box<FrameTag>>,
    /// Final tag.
    trailer: [u8; TRAILER_BYTES],
    /// Bytes of the whole frame that are written.
    written: usize,
}

impl QueuedFrame {
    fn new(key: &FrameKey, sequence: u64, header: &FrameHeader, payload: Payload, tail: &[u8]) -> Self {
        let length = header.length as usize;
        let header = header.encode(key, sequence);
        let mut tag = key.start_frame(sequence, &header);
        let mut frame =
            Self { header, payload, dropped: 0, length, tagged: 0, tag: None, trailer: [0; TRAILER_BYTES], written: 0 };
        if length <= TAGGED_AT_ONCE_BYTES {
            payload_slices(&frame.payload, tail, 0, length).for_each(|slice| tag.update(slice));
            frame.tagged = length;
            frame.trailer = tag.finish();
        } else {
            frame.tag = Some(Box::new(tag));
        }
        frame
    }

    fn total(&self) -> usize {
        self.length + FRAME_OVERHEAD_BYTES
    }

    /// Returns the number of payload bytes that are written.
    fn body(&self) -> usize {
        self.written.saturating_sub(HEADER_BYTES).min(self.length)
    }

    /// Extends the tag to all payload bytes before `until`.
    fn tag_until(&mut self, until: usize, tail: &[u8]) {
        let Some(tag) = &mut self.tag else { return };
        let until = until.min(self.length);
        if self.tagged < until {
            for slice in payload_slices(&self.payload, tail, self.tagged - self.dropped, until - self.dropped) {
                tag.update(slice);
            }
            self.tagged = until;
        }
        if self.tagged == self.length
            && let Some(tag) = self.tag.take()
        {
            self.trailer = tag.finish();
        }
    }

    /// Adds the parts that are covered by the tag and not yet written, in order.
    fn unsent<'a>(&'a self, tail: &'a [u8], slices: &mut Vec<IoSlice<'a>>) {
        if self.written < HEADER_BYTES {
            slices.push(IoSlice::new(&self.header[self.written..]));
        }
        let body = self.body() - self.dropped;
        slices.extend(payload_slices(&self.payload, tail, body, self.tagged - self.dropped).map(IoSlice::new));
        if self.tag.is_none() {
            let sent = self.written.saturating_sub(HEADER_BYTES + self.length);
            slices.push(IoSlice::new(&self.trailer[sent..]));
        }
    }

    /// Copies the unwritten part of a borrowed tail into the frame.
    fn copy_tail(&mut self, tail: &[u8]) {
        let front = self.length - tail.len();
        let body = self.body();
        if body < front {
            let parts = self.payload.parts().cloned().chain(std::iter::once(Bytes::copy_from_slice(tail)));
            self.payload = Payload::from_parts(parts);
        } else {
            self.payload = Bytes::copy_from_slice(&tail[body - front..]).into();
            self.dropped = body;
        }
    }
}

/// Returns the bytes from `start` to `end` of a payload and its tail, as slices of their parts.
fn payload_slices<'a>(
    payload: &'a Payload,
    tail: &'a [u8],
    start: usize,
    end: usize,
) -> impl Iterator<Item = &'a [u8]> {
    let mut offset = 0;
    payload.parts().map(|part| &part[..]).chain(std::iter::once(tail)).filter_map(move |part| {
        let (from, to) = (start.saturating_sub(offset).min(part.len()), end.saturating_sub(offset).min(part.len()));
        offset += part.len();
        (from < to).then(|| &part[from..to])
    })
}

/// Queue of frames to be written to one connection.
#[derive(Debug)]
pub(crate) struct SendQueue {
    key: FrameKey,
    queue: VecDeque<QueuedFrame>,
    /// Bytes of the queued frames that are not yet written.
    queued: usize,
    /// Number of the next frame under this key.
    sequence: u64,
    /// Set when the last frame has been queued.
    pub(crate) closed: bool,
}

impl SendQueue {
    pub(crate) fn new(key: FrameKey) -> Self {
        Self { key, queue: VecDeque::new(), queued: 0, sequence: 0, closed: false }
    }

    /// Sets the key of all following frames, which are counted from zero again.
    pub(crate) fn set_key(&mut self, key: FrameKey) {
        self.key = key;
        self.sequence = 0;
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a frame. Sets the length in its header.
    pub(crate) fn push(&mut self, header: FrameHeader, payload: Payload) {
        let frame = self.start_frame(header, payload, &[]);
        self.queued += frame.total();
        self.queue.push_back(frame);
    }

    /// Adds a frame whose payload ends in a borrowed tail. Writes as much as the socket takes at
    /// once, if nothing else is queued.
    pub(crate) fn push_borrowed(
        &mut self,
        header: FrameHeader,
        payload: Payload,
        tail: &[u8],
        stream: &PeerStream,
    ) -> io::Result<()> {
        let mut frame = self.start_frame(header, payload, tail);
        if self.queue.is_empty() {
            while frame.written < frame.total() {
                frame.tag_until(frame.body() + PIECE_BYTES, tail);
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
            frame.copy_tail(tail);
            self.queued += frame.total() - frame.written;
            self.queue.push_back(frame);
        }
        Ok(())
    }

    fn start_frame(&mut self, mut header: FrameHeader, payload: Payload, tail: &[u8]) -> QueuedFrame {
        header.length = (payload.len() + tail.len()) as u32;
        let sequence = self.sequence;
        self.sequence += 1;
        QueuedFrame::new(&self.key, sequence, &header, payload, tail)
    }

    /// Drops all frames, because the connection is lost.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.queued = 0;
    }

    /// Writes until the queue is empty, the socket is full, or `pieces` writes have been made.
    pub(crate) fn pump(&mut self, stream: &PeerStream, pieces: usize) -> io::Result<()> {
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

    fn write_once(&mut self, stream: &PeerStream) -> io::Result<()> {
        let mut gathered = 0;
        let mut frames = 0;
        for frame in &mut self.queue {
            frame.tag_until(frame.body() + PIECE_BYTES - gathered, &[]);
            frames += 1;
            gathered += frame.total() - frame.written;
            if gathered >= PIECE_BYTES || frames * 3 >= SLICES {
                break;
            }
        }
        let mut slices = Vec::with_capacity(frames * 3);
        for frame in self.queue.iter().take(frames) {
            frame.unsent(&[], &mut slices);
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
    use crate::decoder::FrameDecoder;
    use crate::frame::FrameKind;
    use crate::tcp::stream::ReadWait;
    use hemiola_core::{ChannelId, Purpose};
    use std::net::{TcpListener, TcpStream};

    /// Sends frames with these front and tail lengths. Reads nothing before all are under way, and
    /// compares the received frames.
    fn send_borrowed_frames(lengths: &[(usize, usize)]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = PeerStream::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap(), None).unwrap();
        let receiver = PeerStream::new(listener.accept().unwrap().0, None).unwrap();
        let bytes = |length: usize, seed: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + seed) as u8).collect() };
        let mut send_queue = SendQueue::new(FrameKey::PUBLIC);
        let mut expected = Vec::new();
        for (seed, &(front, tail)) in lengths.iter().enumerate() {
            let channel = ChannelId::new(1);
            let (kind, purpose) = (FrameKind::Data, Purpose::Custom);
            let header = FrameHeader { kind, purpose, length: 0, channel };
            let (front, mut tail) = (bytes(front, seed), bytes(tail, seed + 100));
            expected.push([&front[..], &tail].concat());
            send_queue.push_borrowed(header, front.into(), &tail, &sender).unwrap();
            // The queue must not depend on the borrowed tail any more.
            tail.fill(0);
        }
        let mut decoder = FrameDecoder::new(FrameKey::PUBLIC, 1 << 30, BufferPool::new(0));
        let mut frames = Vec::new();
        while frames.len() < expected.len() {
            if let Ok(count) = receiver.read(decoder.space(), ReadWait::Brief) {
                decoder.filled(count, &mut |_, payload| frames.push(payload)).unwrap();
            }
            send_queue.pump(&sender, 1).unwrap();
        }
        assert!(frames == expected, "a received frame differs from the sent one");
        assert_eq!((send_queue.queued(), send_queue.is_empty()), (0, true));
    }

    #[test]
    fn borrowed_tails_arrive_complete_for_any_partial_write() {
        send_borrowed_frames(&[(128, 1000), (0, 5), (3, 0)]);
        // More than sockets take at once, cut within the tail; then nothing can be written at once
        // any more.
        send_borrowed_frames(&[(128, 20 << 20), (128, 300_000), (0, 1)]);
        // Cut in front of the tail.
        send_borrowed_frames(&[(20 << 20, 100_000), (5, 5)]);
    }
}
