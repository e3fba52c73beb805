//! Frame decoder: bytes in, frames out, without a socket.
//!
//! The driver asks for [`FrameDecoder::space`], reads into it, and reports the number of bytes.
//! Small frames are cut out of one staging area. The rest of a large payload is read directly into
//! its final buffer. In the same call, the bytes between it and the next payload go into the
//! staging area: its tag and the next header. No more is read there, since further bytes would
//! have to be copied. So a stream of large frames takes one call and no copy per frame.
//!
//! A buffer is taken only when bytes are about to be read into it: the consumer of the previous
//! frame has often dropped it by then, so that one buffer serves a whole stream and stays in the
//! cache.
//!
//! **Invariants:** nothing is allocated for a payload before its header has passed all checks,
//! including the size limit; an announced payload takes memory as its bytes arrive; a frame is
//! delivered after its tag has matched; after an error the decoder returns no further frame; no
//! input makes it panic.

use crate::buffer::{BufferPool, MIN_POOLED_BYTES, PooledBuffer};
use crate::frame::{FrameError, FrameHeader, HEADER_BYTES, TRAILER_BYTES};
use crate::frame_authentication::{FrameKey, FrameTag};
use bytes::Bytes;

/// Size of the staging area, and of the largest read into it.
const STAGING_BYTES: usize = 64 * 1024;
/// Most bytes of a payload that are read at once: few enough to compute the tag while they are
/// in the cache.
const DIRECT_BYTES: usize = 256 * 1024;
/// Bytes between two payloads.
const GAP_BYTES: usize = TRAILER_BYTES + HEADER_BYTES;

/// Splits a byte stream into frames.
#[derive(Debug)]
pub struct FrameDecoder {
    key: FrameKey,
    limit: usize,
    /// Number of the next frame under this key.
    sequence: u64,
    /// True while a key may change after every frame: then at most one frame is decoded at a time.
    stepwise: bool,
    pool: BufferPool,
    staging: Box<[u8]>,
    /// Bytes of `staging` that are already consumed.
    start: usize,
    /// Bytes of `staging` that are filled.
    end: usize,
    /// Header that has passed all checks and whose payload has no buffer yet.
    announced: Option<AnnouncedFrame>,
    /// Frame whose payload or trailer is not complete yet.
    open: Option<PartialFrame>,
    /// True if the last frame was large, so the next is likely to be large too: only its header is
    /// read ahead of its buffer.
    streaming: bool,
    failed: Option<FrameError>,
}

/// Header that has passed all checks, with its bytes, which the tag of the frame covers.
#[derive(Clone, Copy, Debug)]
struct AnnouncedFrame {
    header: FrameHeader,
    bytes: [u8; HEADER_BYTES],
}

#[derive(Debug)]
struct PartialFrame {
    header: FrameHeader,
    body: PayloadBuffer,
    filled: usize,
    tag: FrameTag,
}

#[derive(Debug)]
enum PayloadBuffer {
    Small(Vec<u8>),
    Pooled(PooledBuffer),
}

impl PayloadBuffer {
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Pooled(buffer) => buffer.bytes_mut(),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Small(bytes) => bytes.into(),
            Self::Pooled(buffer) => buffer.into_bytes(),
        }
    }
}

impl PartialFrame {
    fn missing(&self) -> usize {
        self.header.length as usize - self.filled
    }

    /// Copies the bytes of the payload from the front of `ready`; returns their number.
    fn add(&mut self, ready: &[u8]) -> usize {
        let piece = &ready[..self.missing().min(ready.len())];
        self.tag.update(piece);
        self.body.bytes_mut()[self.filled..self.filled + piece.len()].copy_from_slice(piece);
        self.filled += piece.len();
        piece.len()
    }
}

impl FrameDecoder {
    /// Creates a decoder for frames under `key` with at most `limit` bytes of payload.
    #[must_use]
    pub fn new(key: FrameKey, limit: usize, pool: BufferPool) -> Self {
        Self {
            key,
            limit,
            sequence: 0,
            stepwise: false,
            pool,
            staging: vec![0; STAGING_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            announced: None,
            open: None,
            streaming: false,
            failed: None,
        }
    }

    /// Sets the maximum payload. It is low until the peer has authenticated.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Sets the key of all following frames, which are counted from zero again.
    pub fn set_key(&mut self, key: FrameKey) {
        self.key = key;
        self.sequence = 0;
    }

    /// Decodes at most one frame per call from now on, or all that have arrived.
    pub(crate) fn set_stepwise(&mut self, stepwise: bool) {
        self.stepwise = stepwise;
    }

    /// Decodes bytes that have already arrived; for a decoder that works stepwise.
    pub(crate) fn decode_arrived(&mut self, deliver: &mut dyn FnMut(FrameHeader, Bytes)) -> Result<(), FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = if self.announced.is_none() { self.decode_staged(deliver) } else { Ok(()) };
        self.failed = result.err();
        result
    }

    /// Returns true if the stream is at a frame boundary.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.open.is_none() && self.announced.is_none() && self.start == self.end
    }

    /// Returns the spaces for the next bytes, to be filled in this order. The first is never empty.
    pub fn space(&mut self) -> [&mut [u8]; 2] {
        if let Some(announced) = self.announced.take() {
            let mut open = self.start_frame(&announced);
            self.start += open.add(&self.staging[self.start..self.end]);
            self.open = Some(open);
        }
        // Less than a header or a trailer is left over here, so this moves a few bytes at most.
        self.staging.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let direct = self.direct_bytes();
        let due = if self.open.is_some() { GAP_BYTES } else { HEADER_BYTES };
        let Some(open) = self.open.as_mut().filter(|_| direct > 0) else {
            let until = if self.streaming && self.end < due { due } else { STAGING_BYTES };
            return [&mut self.staging[self.end..until], &mut []];
        };
        // The payload has taken everything from the staging area, since it still misses bytes.
        let gap = if direct == open.missing() { GAP_BYTES } else { 0 };
        let filled = open.filled;
        [&mut open.body.bytes_mut()[filled..filled + direct], &mut self.staging[..gap]]
    }

    /// Decodes the first `count` bytes of [`space`](Self::space), which the caller has filled.
    /// Passes each complete frame to `deliver`.
    ///
    /// # Panics
    /// If `count` exceeds the space.
    pub fn filled(&mut self, count: usize, deliver: &mut dyn FnMut(FrameHeader, Bytes)) -> Result<(), FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let direct = self.direct_bytes().min(count);
        if let Some(open) = self.open.as_mut().filter(|_| direct > 0) {
            let end = open.filled + direct;
            open.tag.update(&open.body.bytes_mut()[open.filled..end]);
            open.filled = end;
        }
        let count = count - direct;
        assert!(count <= self.staging.len() - self.end, "more bytes than there was space for");
        self.end += count;
        let result = if count > 0 { self.decode_staged(deliver) } else { Ok(()) };
        self.failed = result.err();
        result
    }

    /// Returns the number of following bytes that go directly into a payload buffer.
    fn direct_bytes(&self) -> usize {
        match &self.open {
            Some(open @ PartialFrame { body: PayloadBuffer::Pooled(_), .. }) => open.missing().min(DIRECT_BYTES),
            _ => 0,
        }
    }

    fn decode_staged(&mut self, deliver: &mut dyn FnMut(FrameHeader, Bytes)) -> Result<(), FrameError> {
        loop {
            let decoded = if self.open.is_some() { self.finish_open()? } else { self.decode_next()? };
            let Some((header, payload)) = decoded else { return Ok(()) };
            self.sequence += 1;
            deliver(header, payload);
            if self.stepwise {
                return Ok(());
            }
        }
    }

    /// Decodes the next header, and the whole frame if it is in the staging area.
    fn decode_next(&mut self) -> Result<Option<(FrameHeader, Bytes)>, FrameError> {
        let ready = &self.staging[self.start..self.end];
        let Some((bytes, after)) = ready.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = self.check_header(bytes)?;
        let length = header.length as usize;
        self.streaming = length >= MIN_POOLED_BYTES;
        self.start += HEADER_BYTES;
        let Some((payload, rest)) = after.split_at_checked(length) else {
            self.announced = Some(AnnouncedFrame { header, bytes: *bytes });
            return Ok(None);
        };
        let Some(received) = rest.first_chunk::<TRAILER_BYTES>() else {
            self.announced = Some(AnnouncedFrame { header, bytes: *bytes });
            return Ok(None);
        };
        let mut tag = self.key.start_frame(self.sequence, bytes);
        tag.update(payload);
        if !tag.matches(received) {
            return Err(FrameError::FrameTag);
        }
        let payload = Bytes::copy_from_slice(payload);
        self.start += length + TRAILER_BYTES;
        Ok(Some((header, payload)))
    }

    /// Adds the staged bytes to the open frame, and returns it once it is complete.
    fn finish_open(&mut self) -> Result<Option<(FrameHeader, Bytes)>, FrameError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let ready = &self.staging[self.start..self.end];
        let count = open.add(ready);
        self.start += count;
        let Some(received) = ready[count..].first_chunk::<TRAILER_BYTES>().filter(|_| open.missing() == 0) else {
            return Ok(None);
        };
        self.start += TRAILER_BYTES;
        let Some(PartialFrame { header, body, tag, .. }) = self.open.take() else { return Ok(None) };
        if tag.matches(received) { Ok(Some((header, body.into_bytes()))) } else { Err(FrameError::FrameTag) }
    }

    /// Checks a header before anything is allocated for its payload.
    fn check_header(&self, bytes: &[u8; HEADER_BYTES]) -> Result<FrameHeader, FrameError> {
        let header = FrameHeader::decode(bytes, &self.key, self.sequence)?;
        if header.length as usize > self.limit {
            return Err(FrameError::TooLong { length: header.length as usize, limit: self.limit });
        }
        Ok(header)
    }

    fn start_frame(&self, announced: &AnnouncedFrame) -> PartialFrame {
        let length = announced.header.length as usize;
        let body = if length < MIN_POOLED_BYTES {
            PayloadBuffer::Small(vec![0; length])
        } else {
            PayloadBuffer::Pooled(self.pool.take(length))
        };
        let tag = self.key.start_frame(self.sequence, &announced.bytes);
        PartialFrame { header: announced.header, body, filled: 0, tag }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameKind;
    use crate::frame_authentication::SessionKeys;
    use crate::testing::encode_frame;
    use hemiola_core::{ChannelId, Purpose};
    use proptest::prelude::*;

    const LIMIT: usize = 300_000;

    fn key() -> FrameKey {
        SessionKeys::expand(&[7; 32]).dialer
    }

    fn frame(sequence: u64, payload: &[u8]) -> Vec<u8> {
        encode_frame(&key(), sequence, payload)
    }

    fn decoder() -> FrameDecoder {
        FrameDecoder::new(key(), LIMIT, BufferPool::new(1 << 20))
    }

    /// Feeds `stream` in reads of the given sizes (cycled), as a socket would return them.
    fn feed(decoder: &mut FrameDecoder, stream: &[u8], sizes: &[usize]) -> (Vec<Bytes>, Result<(), FrameError>) {
        let mut frames = Vec::new();
        let mut rest = stream;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let [first, second] = decoder.space();
            assert!(!first.is_empty());
            let count = rest.len().min(first.len() + second.len()).min((*size).max(1));
            let split = count.min(first.len());
            first[..split].copy_from_slice(&rest[..split]);
            second[..count - split].copy_from_slice(&rest[split..count]);
            rest = &rest[count..];
            if let Err(error) = decoder.filled(count, &mut |_, payload| frames.push(payload)) {
                return (frames, Err(error));
            }
        }
        (frames, Ok(()))
    }

    fn payload(length: usize, seed: u8) -> Vec<u8> {
        (0..length).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn frames_survive_any_cutting_of_the_stream(
            lengths in prop::collection::vec(prop_oneof![0..200_usize, 0..LIMIT], 1..5),
            sizes in prop::collection::vec(prop_oneof![1..100_usize, 1..300_000_usize], 1..6),
        ) {
            let payloads: Vec<_> = lengths.iter().enumerate().map(|(seed, length)| payload(*length, seed as u8)).collect();
            let stream: Vec<u8> = payloads.iter().enumerate().flat_map(|(at, bytes)| frame(at as u64, bytes)).collect();
            // Single bytes are slow for large streams and exercise the same code.
            let sizes: Vec<_> = sizes.iter().map(|size| if stream.len() > 100_000 { (*size).max(500) } else { *size }).collect();
            let mut decoder = decoder();
            let (frames, result) = feed(&mut decoder, &stream, &sizes);
            prop_assert_eq!(result, Ok(()));
            prop_assert!(decoder.is_between_frames());
            prop_assert_eq!(frames.len(), payloads.len());
            for (frame, payload) in frames.iter().zip(&payloads) {
                prop_assert_eq!(frame, payload);
            }
        }

        #[test]
        fn a_flipped_bit_is_an_error_and_never_a_wrong_frame(
            length in prop_oneof![0..200_usize, 60_000..100_000_usize],
            position in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            let good = payload(length, 1);
            let mut stream = frame(0, &good);
            let at = position.index(stream.len());
            stream[at] ^= 1 << bit;
            let (frames, _) = feed(&mut decoder(), &stream, &[50_000]);
            // A larger length may leave the frame open; no wrong frame is ever delivered.
            prop_assert!(frames.is_empty());
        }

        #[test]
        fn random_bytes_never_panic(stream in prop::collection::vec(any::<u8>(), 0..5_000), size in 1..6_000_usize) {
            let (frames, _) = feed(&mut decoder(), &stream, &[size]);
            prop_assert!(frames.is_empty());
        }

        #[test]
        fn a_cut_stream_gives_no_half_frame(cut in any::<prop::sample::Index>()) {
            let stream = [frame(0, &payload(500, 1)), frame(1, &payload(70_000, 2))].concat();
            let cut = cut.index(stream.len());
            let mut decoder = decoder();
            let (frames, result) = feed(&mut decoder, &stream[..cut], &[40_000]);
            prop_assert_eq!(result, Ok(()));
            prop_assert_eq!(frames.len(), usize::from(cut >= 544));
            prop_assert_eq!(decoder.is_between_frames(), cut == 0 || cut == 544);
        }
    }

    #[test]
    fn a_stream_of_large_frames_reads_only_headers_ahead() {
        let mut decoder = decoder();
        let payloads: Vec<_> = (0..4).map(|seed| payload(100_000, seed)).collect();
        let stream: Vec<u8> = (0..).zip(&payloads).flat_map(|(at, bytes)| frame(at, bytes)).collect();
        let mut rest = &stream[..];
        let (mut staged, mut frames) = (0, Vec::new());
        while !rest.is_empty() {
            let within = decoder.open.is_some() || decoder.announced.is_some();
            let [first, second] = decoder.space();
            let (one, two) = (first.len().min(rest.len()), second.len().min(rest.len().saturating_sub(first.len())));
            first[..one].copy_from_slice(&rest[..one]);
            second[..two].copy_from_slice(&rest[one..one + two]);
            // The first read does not know the next frame yet.
            if !frames.is_empty() {
                staged += if within { two } else { one };
            }
            rest = &rest[one + two..];
            decoder.filled(one + two, &mut |_, payload| frames.push(payload)).unwrap();
        }
        assert_eq!(frames, payloads);
        assert!(staged <= 3 * GAP_BYTES, "{staged} bytes were read to be copied");
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_allocated() {
        let pool = BufferPool::new(1 << 40);
        let mut decoder = FrameDecoder::new(key(), 1000, pool.clone());
        let header = FrameHeader {
            kind: FrameKind::Data,
            purpose: Purpose::Custom,
            length: u32::MAX,
            channel: ChannelId::new(0),
        };
        let (_, result) = feed(&mut decoder, &header.encode(&key(), 0), &[40]);
        assert_eq!(result, Err(FrameError::TooLong { length: u32::MAX as usize, limit: 1000 }));
        assert!(decoder.open.is_none() && decoder.announced.is_none());
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn a_replayed_frame_is_refused_and_nothing_follows() {
        let stream = [frame(0, b"once"), frame(0, b"once"), frame(1, b"next")].concat();
        let mut decoder = decoder();
        let (frames, result) = feed(&mut decoder, &stream, &[10_000]);
        assert_eq!(frames, ["once"]);
        assert_eq!(result, Err(FrameError::HeaderTag));
        let (frames, result) = feed(&mut decoder, &frame(1, b"next"), &[10_000]);
        assert!(frames.is_empty());
        assert_eq!(result, Err(FrameError::HeaderTag));
    }

    #[test]
    fn foreign_protocols_are_distinguished() {
        let (_, result) = feed(&mut decoder(), b"GET / HTTP/1.1\r\nHost: example\r\nAccept: */*\r\n\r\n", &[10_000]);
        assert_eq!(result, Err(FrameError::NotHemiola { found: *b"GET " }));
    }

    #[test]
    fn missing_swapped_and_foreign_frames_are_refused() {
        let other_direction = encode_frame(&SessionKeys::expand(&[7; 32]).acceptor, 0, b"back");
        let other_session = encode_frame(&SessionKeys::expand(&[8; 32]).dialer, 0, b"old");
        for stream in [frame(1, b"second"), other_direction, other_session] {
            let (frames, result) = feed(&mut decoder(), &stream, &[10_000]);
            assert_eq!((frames.len(), result), (0, Err(FrameError::HeaderTag)));
        }
    }

    #[test]
    fn a_stepwise_decoder_waits_for_the_next_key() {
        let next = SessionKeys::expand(&[9; 32]).dialer;
        let stream = [frame(0, b"last of the old"), encode_frame(&next, 0, b"first of the new")].concat();
        let mut decoder = decoder();
        decoder.set_stepwise(true);
        let (mut frames, result) = feed(&mut decoder, &stream, &[10_000]);
        assert_eq!(result, Ok(()));
        assert_eq!(frames, ["last of the old"]);
        decoder.set_key(next);
        decoder.decode_arrived(&mut |_, payload| frames.push(payload)).unwrap();
        assert_eq!(frames, ["last of the old", "first of the new"]);
    }

    #[test]
    fn ten_thousand_altered_frames_are_all_noticed() {
        let outcome = crate::testing::alter_frames(10_000, 1);
        assert_eq!(outcome, crate::testing::AlteredFrames { altered: 10_000, noticed: 10_000, delivered: 0 });
    }
}
