//! Limits, deadlines and fairness under load, and malicious peers. Each of these tests failed once.

use crate::collectives::certificates;
use crate::support::{EventRecorder, free_address, over_tcp, peer, short_deadlines, tcp_job, with_watchdog};
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Purpose, Rank};
use hemiola_net::testing::encode_frame_of;
use hemiola_net::{FrameKey, FrameKind, TcpLimits};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn out(lane: Lane, channel: ChannelId, bytes: Vec<u8>) -> OutgoingMessage {
    OutgoingMessage { lane, channel, purpose: Purpose::Custom, payload: bytes.into() }
}

/// Returns limits that are reached soon.
fn small_limits() -> TcpLimits {
    let mut limits = TcpLimits::default();
    limits.inbound = 1 << 20;
    limits.bulk_queue = 1 << 20;
    limits
}

#[test]
fn a_receive_keeps_its_deadline_under_traffic() {
    with_watchdog(|| {
        let stop = AtomicBool::new(false);
        let outcomes = tcp_job(2, |cluster| {
            let (busy, idle) =
                (ChannelId::of(ChannelOwner::Application, 1), ChannelId::of(ChannelOwner::Application, 2));
            if cluster.is_root() {
                let (busy, idle) = (cluster.open_channel(busy, Lane::Bulk), cluster.open_channel(idle, Lane::Bulk));
                let waited = std::thread::scope(|scope| {
                    let stop = &stop;
                    scope.spawn(move || while busy.receive(Duration::from_secs(1)).is_ok() {});
                    let start = Instant::now();
                    let error = idle.receive_from(Rank::new(1), Duration::from_millis(300)).unwrap_err();
                    assert!(error.to_string().starts_with("nothing arrived within 0."), "{error}");
                    stop.store(true, Ordering::SeqCst);
                    start.elapsed()
                });
                cluster.barrier()?;
                Ok(waited)
            } else {
                let start = Instant::now();
                while !stop.load(Ordering::SeqCst) && start.elapsed() < Duration::from_secs(5) {
                    cluster.send(Rank::ROOT, out(Lane::Bulk, busy, vec![1; 100_000]))?;
                }
                cluster.barrier()?;
                Ok(Duration::ZERO)
            }
        });
        // The stream ends by itself after 5 s; a deadline that is kept comes long before.
        let waited = *outcomes[0].as_ref().unwrap();
        assert!(waited < Duration::from_secs(4), "waited {waited:?} instead of 0.3 s");
    });
}

#[test]
fn a_heartbeat_cannot_panic_the_monitor() {
    with_watchdog(|| {
        let outcomes = tcp_job(2, |cluster| {
            if !cluster.is_root() {
                // One wait: driver, reason "", no peer, u64::MAX s and 999,999,999 ns.
                let mut bytes = vec![1, 0, 0, 0];
                bytes.extend([0xff; 9]);
                bytes.push(1);
                bytes.extend([0xff, 0x93, 0xeb, 0xdc, 0x03]);
                // For longer than the silence after which a peer without a monitor would be lost.
                let start = Instant::now();
                while start.elapsed() < short_deadlines().silence * 3 / 2 {
                    cluster
                        .send(Rank::ROOT, out(Lane::Control, ChannelId::of(ChannelOwner::Monitor, 0), bytes.clone()))?;
                    std::thread::park_timeout(Duration::from_millis(10));
                }
                return cluster.barrier();
            }
            cluster.barrier()
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

/// Sends messages without payload, which no peer consumes, until one is refused.
fn send_empty(cluster: &Cluster, done: &AtomicBool) -> bool {
    let mut refused = false;
    if cluster.is_root() {
        for _ in 0..4_000_000 {
            refused = cluster
                .send(Rank::new(1), out(Lane::Bulk, ChannelId::of(ChannelOwner::Application, 1), Vec::new()))
                .is_err();
            if refused {
                break;
            }
        }
        done.store(true, Ordering::SeqCst);
    }
    // A peer that computed would put the deadline of the sender off.
    while !done.load(Ordering::SeqCst) {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    refused
}

#[test]
fn empty_messages_are_bounded_too() {
    with_watchdog(|| {
        let mut deadlines = short_deadlines();
        deadlines.wait = Duration::from_secs(2);
        let (address, done) = (free_address(), AtomicBool::new(false));
        let builders =
            (0..2).map(|rank| peer(rank, 2, address).limits(small_limits()).deadlines(deadlines.clone())).collect();
        let outcomes = over_tcp(builders, |cluster| Ok(send_empty(cluster, &done)));
        assert!(outcomes[0].as_ref().unwrap(), "4 million messages are unconsumed with a limit of 1 MiB");
    });
}

#[test]
fn a_peer_whose_socket_is_not_read_is_not_silent() {
    with_watchdog(|| {
        let address = free_address();
        let builders = (0..2).map(|rank| peer(rank, 2, address).limits(small_limits())).collect();
        let outcomes = over_tcp(builders, |cluster| {
            let channel = ChannelId::of(ChannelOwner::Application, 1);
            if cluster.is_root() {
                std::thread::park_timeout(short_deadlines().silence * 2); // computes
                let receiver = cluster.open_channel(channel, Lane::Control);
                for _ in 0..400 {
                    receiver.receive_from(Rank::new(1), Duration::from_secs(10)).map_err(Error::program)?;
                }
            } else {
                for _ in 0..400 {
                    cluster.send(Rank::ROOT, out(Lane::Control, channel, vec![1; 100_000]))?;
                }
            }
            cluster.barrier()
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

#[test]
fn a_slow_consumer_is_no_flood() {
    with_watchdog(|| {
        let address = free_address();
        let builders = (0..2).map(|rank| peer(rank, 2, address).limits(small_limits())).collect();
        let outcomes = over_tcp(builders, |cluster| {
            let (rows, end) =
                (ChannelId::of(ChannelOwner::Application, 1), ChannelId::of(ChannelOwner::Application, 2));
            if cluster.is_root() {
                let (rows, end) = (cluster.open_channel(rows, Lane::Bulk), cluster.open_channel(end, Lane::Bulk));
                std::thread::scope(|scope| {
                    let consumer = scope.spawn(move || {
                        for _ in 0..400 {
                            rows.receive(Duration::from_secs(10)).map_err(Error::program)?;
                            std::thread::park_timeout(Duration::from_millis(3));
                        }
                        Ok(())
                    });
                    let waited = end.receive_from(Rank::new(1), Duration::from_secs(15)).map_err(Error::program);
                    consumer.join().unwrap().and(waited.map(drop))
                })?;
            } else {
                for _ in 0..400 {
                    cluster.send(Rank::ROOT, out(Lane::Bulk, rows, vec![1; 100_000]))?;
                }
                cluster.send(Rank::ROOT, out(Lane::Bulk, end, Vec::new()))?;
            }
            cluster.barrier()
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

#[test]
fn an_unauthenticated_client_cannot_grow_the_error_of_the_root() {
    with_watchdog(|| {
        let address = free_address();
        let mut deadlines = short_deadlines();
        deadlines.join = Duration::from_secs(4);
        let recorder = Arc::new(EventRecorder::default());
        let client = std::thread::spawn(move || {
            // A refusal with a reason of 3,000 letters, in the place of a hello.
            let payload = [&[4, 6, 0xb8, 0x17][..], &[b'A'; 3000]].concat();
            let frame = encode_frame_of(FrameKind::Handshake, &FrameKey::PUBLIC, 0, &payload);
            for _ in 0..100 {
                let mut stream = loop {
                    match std::net::TcpStream::connect(address) {
                        Ok(stream) => break stream,
                        Err(_) => std::thread::yield_now(),
                    }
                };
                let _ = stream.write_all(&frame);
                std::mem::forget(stream);
            }
        });
        let error =
            peer(0, 2, address).deadlines(deadlines).observer(recorder.clone()).build().unwrap_err().to_string();
        client.join().unwrap();
        assert!(recorder.contains("it sent a refusal out of turn"));
        assert!(error.len() < 10_000, "the error has {} bytes", error.len());
    });
}

#[test]
fn concurrent_traffic_loses_nothing_and_keeps_its_order() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        let tls = certificates(folder.path(), "hemiola");
        for round in 0..4 {
            let mut limits = TcpLimits::default();
            limits.inbound = if round < 2 { 1 << 20 } else { 64 << 20 };
            limits.bulk_queue = 256 << 10;
            limits.control_queue = 64 << 10;
            let address = free_address();
            let builders = (0..3)
                .map(|rank| {
                    let builder = peer(rank, 3, address).limits(limits.clone());
                    if round % 2 == 1 { builder.tls(tls.clone()) } else { builder }
                })
                .collect();
            let outcomes = over_tcp(builders, |cluster| {
                let me = cluster.rank();
                std::thread::scope(|scope| {
                    for lane in Lane::ALL {
                        for kind in 0..3_u64 {
                            let channel = ChannelId::of(ChannelOwner::Application, kind * 2 + lane.index() as u64);
                            let count = if lane == Lane::Control { 1500 } else { 150 };
                            let most = if lane == Lane::Control { 3_000 } else { 200_000 };
                            let receiver = cluster.open_channel(channel, lane);
                            for to in Rank::all(3).filter(|to| *to != me) {
                                scope.spawn(move || {
                                    for number in 0..count {
                                        let length = 8 + (number * 7919 + kind * 31) % most;
                                        let mut bytes = vec![number as u8; length as usize];
                                        bytes[..8].copy_from_slice(&number.to_le_bytes());
                                        if number % 97 == 3 {
                                            std::thread::park_timeout(Duration::from_micros(300 * kind));
                                        }
                                        cluster.send(to, out(lane, channel, bytes)).unwrap();
                                    }
                                });
                            }
                            let check = |message: &hemiola_core::Message, next: &mut u64| {
                                let number = u64::from_le_bytes(message.payload[..8].try_into().unwrap());
                                assert_eq!(number, *next);
                                assert!(message.payload[8..].iter().all(|byte| *byte == number as u8));
                                *next += 1;
                            };
                            let timeout = Duration::from_secs(15);
                            let receiver = Arc::new(receiver);
                            if kind == 0 {
                                scope.spawn(move || {
                                    let mut next = [0_u64; 3];
                                    for _ in 0..2 * count {
                                        let message = receiver.receive(timeout).unwrap();
                                        check(&message, &mut next[message.from.index()]);
                                    }
                                });
                            } else {
                                for from in Rank::all(3).filter(|from| *from != me) {
                                    let receiver = receiver.clone();
                                    scope.spawn(move || {
                                        let mut next = 0;
                                        for _ in 0..count {
                                            check(&receiver.receive_from(from, timeout).unwrap(), &mut next);
                                            if next % 50 == 7 {
                                                std::thread::park_timeout(Duration::from_millis(kind));
                                            }
                                        }
                                    });
                                }
                            }
                        }
                    }
                });
                cluster.barrier()
            });
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        }
    });
}

#[test]
fn messages_that_tls_decrypted_together_are_all_delivered() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        let tls = certificates(folder.path(), "hemiola");
        let address = free_address();
        let builders = (0..2).map(|rank| peer(rank, 2, address).tls(tls.clone())).collect();
        let outcomes = over_tcp(builders, |cluster| {
            let (large, small) =
                (ChannelId::of(ChannelOwner::Application, 0), ChannelId::of(ChannelOwner::Application, 1));
            let (large_receiver, small_receiver) =
                (cluster.open_channel(large, Lane::Bulk), cluster.open_channel(small, Lane::Bulk));
            for round in 0..50 {
                if cluster.is_root() {
                    // This one is read by the thread that waits for it; no thread waits for the next ones.
                    large_receiver.receive_from(Rank::new(1), Duration::from_secs(20)).map_err(Error::program)?;
                    for _ in 0..3 {
                        small_receiver.receive(Duration::from_secs(5)).map_err(Error::program)?;
                    }
                } else {
                    cluster.send(Rank::ROOT, out(Lane::Bulk, large, vec![7; 100_000 + round * 997]))?;
                    for _ in 0..3 {
                        cluster.send(Rank::ROOT, out(Lane::Bulk, small, vec![8; 100]))?;
                    }
                }
                cluster.barrier()?;
            }
            Ok(())
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

#[test]
fn broadcasts_with_different_roots_are_an_error() {
    // Peer 3 is a child of peer 2 in the trees of both roots, so it detects the difference.
    let root = |cluster: &Cluster| if cluster.rank().index() == 3 { Rank::new(2) } else { Rank::ROOT };
    with_watchdog(|| {
        let outcome = standalone(4).run(|cluster| cluster.broadcast_from(root(cluster), 1));
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("from root 2, but peer 2") && error.contains("from root 0"), "{error}");
    });
}

#[test]
fn waiting_for_own_workers_is_no_stall() {
    with_watchdog(|| {
        let mut deadlines = short_deadlines();
        deadlines.stall = Duration::from_millis(200); // checked with every heartbeat, every 0.3 s
        let recorder = Arc::new(EventRecorder::default());
        // Workers compute for several heartbeats.
        let work = |cluster: &Cluster| {
            let (env, start) = (cluster.env().clone(), cluster.env().now());
            cluster.each_worker(|_| while env.now() - start < Duration::from_millis(1500) {}).map(drop)
        };
        standalone(2).deadlines(deadlines).observer(recorder.clone()).run(work).unwrap();
        assert!(!recorder.contains("stalled"), "{recorder:?}");
    });
}
