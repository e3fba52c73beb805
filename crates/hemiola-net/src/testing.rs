//! Attacks on the wire format, for tests and benchmarks: frames that are altered on their way.
//!
//! Works on the decoder alone, without a socket.

use crate::buffer::BufferPool;
use crate::decoder::FrameDecoder;
use crate::frame::{FrameHeader, FrameKind};
use crate::frame_authentication::{FrameKey, SessionKeys};
use crate::join::handshake::{ConnectionIntent, HandshakeMessage};
use hemiola_core::rng::SplitMix64;
use hemiola_core::{ChannelId, Lane, Purpose, Rank};

/// Result of [`alter_frames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlteredFrames {
    /// Number of frames that were altered.
    pub altered: usize,
    /// Number of altered frames at which the decoder ended the stream with an error.
    pub noticed: usize,
    /// Number of altered frames that were delivered.
    pub delivered: usize,
}

/// Returns data frame number `sequence` under `key` as it travels.
#[must_use]
pub fn encode_frame(key: &FrameKey, sequence: u64, payload: &[u8]) -> Vec<u8> {
    encode_frame_of(FrameKind::Data, key, sequence, payload)
}

/// Returns frame number `sequence` of this kind under `key` as it travels.
#[must_use]
pub fn encode_frame_of(kind: FrameKind, key: &FrameKey, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let channel = ChannelId::new(sequence * 3);
    let header = FrameHeader { kind, purpose: Purpose::Custom, length: payload.len() as u32, channel };
    let header = header.encode(key, sequence);
    let mut tag = key.start_frame(sequence, &header);
    tag.update(payload);
    [&header[..], payload, &tag.finish()].concat()
}

/// Alters `count` frames one after the other and counts those that a receiver notices. Each has one
/// to four changed bytes, or is repeated, missing, or moved behind its successor, as `seed` decides.
/// Every byte position of a small frame has its turn.
#[must_use]
pub fn alter_frames(count: usize, seed: u64) -> AlteredFrames {
    let key = SessionKeys::expand(&[seed as u8; 32]).dialer;
    let mut random = SplitMix64::new(seed);
    let mut outcome = AlteredFrames { altered: 0, noticed: 0, delivered: 0 };
    for number in 0..count {
        let payload: Vec<u8> = (0..random.below(300)).map(|_| random.next_u64() as u8).collect();
        let mut frames: Vec<Vec<u8>> = (0..3).map(|sequence| encode_frame(&key, sequence, &payload)).collect();
        match random.below(10) {
            0 => {
                let first = frames[0].clone();
                frames[1] = first;
            }
            1 => drop(frames.remove(1)),
            2 => frames.swap(1, 2),
            _ => {
                let length = frames[1].len();
                frames[1][number % length] ^= 1 << random.below(8);
                for _ in 0..random.below(4) {
                    // Never the position above, so that the frame stays altered.
                    let position = (number + 1 + random.below(length - 1)) % length;
                    frames[1][position] = random.next_u64() as u8;
                }
            }
        }
        let (delivered, failed) = decode(&key, &frames.concat());
        outcome.altered += 1;
        outcome.noticed += usize::from(failed);
        outcome.delivered += delivered.saturating_sub(1); // the first frame is genuine
    }
    outcome
}

/// Returns the number of delivered frames, and true if the stream ended with an error.
fn decode(key: &FrameKey, mut stream: &[u8]) -> (usize, bool) {
    let mut decoder = FrameDecoder::new(key.clone(), 1 << 20, BufferPool::new(0));
    let mut delivered = 0;
    while !stream.is_empty() {
        let [space, _] = decoder.space();
        let count = space.len().min(stream.len());
        space[..count].copy_from_slice(&stream[..count]);
        stream = &stream[count..];
        if decoder.filled(count, &mut |_, _| delivered += 1).is_err() {
            return (delivered, true);
        }
    }
    (delivered, false)
}

/// Returns a key for frames that differs by `seed`.
#[must_use]
pub fn frame_key(seed: u8) -> FrameKey {
    SessionKeys::expand(&[seed; 32]).dialer
}

/// Returns one message of each kind that a peer which is not authenticated yet may send, encoded.
///
/// # Panics
/// Never: the messages are plain data.
#[must_use]
pub fn handshake_messages() -> Vec<Vec<u8>> {
    let connect = ConnectionIntent::Connect { rank: Rank::new(1), lane: Lane::Bulk };
    let messages = [
        HandshakeMessage::Hello { nonce: [1; 32] },
        HandshakeMessage::Challenge { nonce: [2; 32] },
        HandshakeMessage::Claim { intent: connect, proof: [3; 32] },
        HandshakeMessage::Welcome { proof: [4; 32] },
    ];
    messages.iter().map(|message| postcard::to_stdvec(message).expect("a message is plain data")).collect()
}

/// Returns true if `bytes` are an encoded message of a handshake.
#[must_use]
pub fn accepts_handshake_message(bytes: &[u8]) -> bool {
    postcard::from_bytes::<HandshakeMessage>(bytes).is_ok()
}
