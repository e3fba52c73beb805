//! Tampering: frames that are cut, changed, replayed or too long, on real connections through a proxy.
//!
//! In each case both sides must end with a typed error that blames the connection, and no wrong
//! message may be delivered.

use crate::support::{Tamper, free_address, over_tcp, peer, proxy, short_deadlines, with_watchdog};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::{ChannelId, ChannelOwner, ErrorKind, Lane, LossCause, OutgoingMessage, Purpose, Rank};
use hemiola_net::FrameKey;
use hemiola_net::testing::encode_frame;
use std::time::Duration;

/// Number of the proxied connection that is the bulk lane of a job of two.
const BULK: usize = 2;
const PAYLOAD: usize = 300_000;

/// Rank 1 sends known payloads to the root over a proxied bulk lane. Returns the results of both.
fn bulk_through(tamper: impl Fn() -> Tamper + Send + 'static) -> [Result<()>; 2] {
    let address = free_address();
    let detour = proxy(address, tamper);
    let builders = vec![peer(0, 2, address), peer(1, 2, detour)];
    let program = |cluster: &Cluster| {
        let channel = ChannelId::of(ChannelOwner::Application, 1);
        if cluster.is_root() {
            let receiver = cluster.open_channel(channel, Lane::Bulk);
            for number in 0..20_u8 {
                let message =
                    receiver.receive_from(Rank::new(1), Duration::from_secs(20)).map_err(|error| match error {
                        hemiola_net::ReceiveError::Lost(loss) => Error::Lost(loss),
                        other => Error::program(other),
                    })?;
                assert!(message.payload.iter().all(|byte| *byte == number), "a wrong message was delivered");
            }
        } else {
            for number in 0..20_u8 {
                let payload = vec![number; PAYLOAD].into();
                cluster.send(
                    Rank::ROOT,
                    OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Custom, payload },
                )?;
            }
        }
        cluster.barrier()
    };
    over_tcp(builders, program).try_into().unwrap()
}

fn reason(outcome: &Result<()>) -> String {
    match outcome {
        Err(Error::Lost(loss)) => match &loss.cause {
            LossCause::Corrupt { reason } => reason.clone(),
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}

/// Changes the stream once `after` bytes of the bulk lane have passed.
fn once(
    after: usize,
    change: impl Fn(Vec<u8>) -> Option<Vec<u8>> + Send + Clone + 'static,
) -> impl Fn() -> Tamper + Send {
    move || {
        let change = change.clone();
        let mut passed = 0;
        let mut changed = false;
        Box::new(move |connection, bytes| {
            passed += bytes.len();
            if connection != BULK || changed || passed < after {
                return Some(bytes);
            }
            changed = true;
            change(bytes)
        })
    }
}

#[test]
fn a_transparent_proxy_changes_nothing() {
    with_watchdog(|| {
        let outcomes = bulk_through(|| Box::new(|_, bytes| Some(bytes)));
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

#[test]
fn a_flipped_bit_is_detected() {
    with_watchdog(|| {
        let outcomes = bulk_through(once(1_000_000, |mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            Some(bytes)
        }));
        assert!(reason(&outcomes[0]).contains("bytes have changed in transit"), "{outcomes:?}");
        // The sender is alive and receives the reason.
        let other = outcomes[1].as_ref().unwrap_err().to_string();
        assert!(other.contains("lost peer 0") && other.contains("bytes have changed in transit"), "{other}");
    });
}

#[test]
fn missing_bytes_are_detected() {
    with_watchdog(|| {
        let outcomes = bulk_through(once(1_000_000, |bytes| Some(bytes[..bytes.len() / 2].to_vec())));
        let reason = reason(&outcomes[0]);
        assert!(reason.contains("not authentic") || reason.contains("not a hemiola frame"), "{outcomes:?}");
        assert!(outcomes[1].is_err());
    });
}

#[test]
fn a_cut_connection_is_a_lost_peer() {
    with_watchdog(|| {
        let outcomes = bulk_through(once(1_000_000, |_| None));
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Lost(_)))), "{outcomes:?}");
    });
}

#[test]
fn a_replayed_frame_is_detected() {
    with_watchdog(|| {
        // Two frames of this connection are its handshake; the next one is replayed.
        let outcomes = bulk_through(|| {
            let mut seen = Vec::new();
            Box::new(move |connection, bytes| {
                if connection != BULK || seen.len() > 400_000 {
                    return Some(bytes);
                }
                seen.extend_from_slice(&bytes);
                // The boundary after two handshake frames and one payload.
                let handshake = first_frames(&seen, 2)?;
                let boundary = handshake + PAYLOAD + 44;
                if seen.len() < boundary {
                    return Some(bytes);
                }
                let start = seen.len() - bytes.len();
                let again = seen[handshake..boundary].to_vec();
                let mut out = seen[start..boundary].to_vec();
                out.extend(again);
                out.extend(&seen[boundary..]);
                seen.resize(500_000, 0);
                Some(out)
            })
        });
        assert!(reason(&outcomes[0]).contains("a frame is missing or repeated"), "{outcomes:?}");
    });
}

/// Returns the length of the first `count` frames of a stream, or of all of it if they are not
/// complete yet.
fn first_frames(stream: &[u8], count: usize) -> Option<usize> {
    let mut at = 0;
    for _ in 0..count {
        let Some(length) = stream.get(at + 8..at + 12) else { return Some(stream.len()) };
        at += 44 + u32::from_le_bytes(length.try_into().ok()?) as usize;
    }
    Some(at)
}

/// Replaces the first frame after the handshake of the bulk lane by `frame`.
fn replace_first(frame: Vec<u8>) -> impl Fn() -> Tamper + Send {
    move || {
        let frame = frame.clone();
        let mut seen = Vec::new();
        let mut done = false;
        Box::new(move |connection, bytes| {
            if connection != BULK || done {
                return Some(bytes);
            }
            seen.extend_from_slice(&bytes);
            let handshake = first_frames(&seen, 2)?;
            if seen.len() <= handshake {
                return Some(bytes);
            }
            done = true;
            Some([&seen[seen.len() - bytes.len()..handshake], &frame].concat())
        })
    }
}

#[test]
fn a_frame_of_a_man_in_the_middle_is_refused() {
    with_watchdog(|| {
        // It has seen the whole handshake, and knows everything but the secret.
        let outcomes = bulk_through(replace_first(encode_frame(&FrameKey::PUBLIC, 0, &vec![0; PAYLOAD])));
        assert!(reason(&outcomes[0]).contains("a frame header is not authentic"), "{outcomes:?}");
        assert_eq!(outcomes[0].as_ref().unwrap_err().kind(), ErrorKind::External);
    });
}

#[test]
fn a_changed_handshake_is_an_external_failure() {
    with_watchdog(|| {
        for position in [0, 4, 8, 60] {
            let address = free_address();
            let detour = proxy(address, move || {
                let mut passed = 0;
                Box::new(move |connection, mut bytes| {
                    if connection == 0 && (passed..passed + bytes.len()).contains(&position) {
                        bytes[position - passed] ^= 0x40;
                    }
                    passed += bytes.len();
                    Some(bytes)
                })
            });
            let mut deadlines = short_deadlines();
            deadlines.join = Duration::from_millis(500);
            let builders = [peer(0, 2, address), peer(1, 2, detour)];
            let outcomes =
                over_tcp(builders.map(|peer| peer.deadlines(deadlines.clone())).into(), |cluster| cluster.barrier());
            for outcome in outcomes {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::External, "byte {position}: {error}");
            }
        }
    });
}
