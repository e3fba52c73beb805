//! Loss of peers inside one process: peers that fall silent, stop reading, fail, panic, leave early or
//! make a different call.

use crate::support::{
    EventRecorder, Tamper, free_address, over_tcp, peer, proxy, short_deadlines, tcp_job, with_watchdog,
};
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::{ChannelId, ChannelOwner, Lane, LossCause, OutgoingMessage, Purpose, Rank, TransportError};
use std::sync::Arc;
use std::time::Duration;

fn lost_rank<T: std::fmt::Debug>(outcome: &Result<T>) -> (usize, LossCause) {
    match outcome {
        Err(Error::Lost(loss)) => (loss.rank.index(), loss.cause.clone()),
        other => panic!("expected a lost peer, got {other:?}"),
    }
}

/// Peer 2 fails; the others wait in a barrier.
fn fail_on_peer_two(cluster: &Cluster) -> Result<()> {
    cluster.barrier()?;
    if cluster.rank().index() == 2 {
        return Err("the disk is full".into());
    }
    cluster.barrier()
}

#[test]
fn a_failing_program_is_named_on_every_other_peer_with_its_reason() {
    with_watchdog(|| {
        let outcomes = tcp_job(4, fail_on_peer_two);
        assert_eq!(outcomes[2].as_ref().unwrap_err().to_string(), "the disk is full");
        for rank in [0, 1, 3] {
            // A peer may learn of it from another that gave up; the blamed peer is the same.
            let (lost, cause) = lost_rank(&outcomes[rank]);
            assert_eq!(lost, 2);
            assert_eq!(cause, LossCause::Failed { reason: "the disk is full".into() });
        }
        assert_eq!(standalone(4).run(fail_on_peer_two).unwrap_err().to_string(), "the disk is full");
    });
}

#[test]
fn a_panic_in_a_standalone_program_is_its_error() {
    with_watchdog(|| {
        let error = standalone(3)
            .run(|cluster| {
                assert!(cluster.rank().index() != 1, "index out of bounds");
                cluster.barrier()
            })
            .unwrap_err();
        assert_eq!(error.to_string(), "the program panicked on peer 1: index out of bounds");
    });
}

#[test]
fn a_peer_that_leaves_early_fails_the_peers_that_wait_for_it() {
    with_watchdog(|| {
        let program = |cluster: &Cluster| {
            if cluster.is_root() { cluster.barrier() } else { Ok(()) }
        };
        let outcomes = tcp_job(2, program);
        let text = outcomes[0].as_ref().unwrap_err().to_string();
        assert!(text.contains("peer 0 is in barrier #0 at"), "{text}");
        assert!(text.contains("but peer 1 is in the end of the program #0"), "{text}");
    });
}

#[test]
fn different_calls_are_an_error_with_both_call_sites() {
    with_watchdog(|| {
        let program = |cluster: &Cluster| {
            if cluster.is_root() {
                cluster.barrier()?;
            } else {
                cluster.all_gather(1)?;
            }
            Ok(())
        };
        let error = standalone(2).run(program).unwrap_err().to_string();
        assert!(error.contains("is in barrier #0 at") && error.contains("is in all_gather #0 at"), "{error}");
        assert!(error.matches("loss.rs:").count() == 2, "{error}");
        assert!(tcp_job(2, program).iter().all(Result::is_err));
    });
}

/// Stops forwarding bytes on connections from number `first` on, once `after` bytes have passed.
fn clogged(first: usize, after: usize) -> impl Fn() -> Tamper + Send {
    move || {
        let mut passed = 0;
        Box::new(move |connection, bytes| {
            passed += bytes.len();
            if connection >= first && passed > after {
                // Holds the stream open and reads nothing more from it, for longer than any test lasts.
                std::thread::park_timeout(Duration::from_mins(5));
            }
            Some(bytes)
        })
    }
}

#[test]
fn a_peer_that_stops_reading_makes_the_sender_give_up_at_its_deadline() {
    with_watchdog(|| {
        let address = free_address();
        let detour = proxy(address, clogged(2, 1_000_000));
        let mut deadlines = short_deadlines();
        deadlines.wait = Duration::from_secs(2);
        let builders = vec![peer(0, 2, address), peer(1, 2, detour).deadlines(deadlines)];
        let outcomes = over_tcp(builders, |cluster| {
            let channel = ChannelId::of(ChannelOwner::Application, 1);
            if !cluster.is_root() {
                for _ in 0..100 {
                    let payload = vec![0_u8; 4 << 20].into();
                    cluster.send(
                        Rank::ROOT,
                        OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Custom, payload },
                    )?;
                }
            }
            cluster.barrier()
        });
        match &outcomes[1] {
            Err(Error::Transport(TransportError::SendTimeout { peer, lane, queued, waited })) => {
                assert_eq!((peer.index(), *lane), (0, Lane::Bulk));
                assert!(*queued > 0 && *waited >= Duration::from_secs(2));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(lost_rank(&outcomes[0]).0, 1);
    });
}

#[test]
fn a_silent_peer_is_lost_at_its_deadline_on_both_sides() {
    with_watchdog(|| {
        let address = free_address();
        // Both lanes fall silent after the handshake and a first exchange.
        let detour = proxy(address, clogged(1, 2_000));
        let recorder = Arc::new(EventRecorder::default());
        let builders = vec![peer(0, 2, address).observer(recorder.clone()), peer(1, 2, detour)];
        let outcomes = over_tcp(builders, |cluster| {
            for _ in 0..10_000 {
                cluster.barrier()?;
            }
            Ok(())
        });
        let (rank, cause) = lost_rank(&outcomes[0]);
        assert_eq!(rank, 1);
        assert!(matches!(cause, LossCause::Silent { silence } if silence >= short_deadlines().silence), "{cause:?}");
        assert!(outcomes[1].is_err());
        assert!(recorder.contains("it has been silent for 3."));
    });
}

const COUNT: usize = 400;

#[test]
fn back_pressure_holds_the_sender_and_loses_nothing() {
    with_watchdog(|| {
        let mut limits = hemiola_net::TcpLimits::default();
        limits.inbound = 1 << 20;
        limits.bulk_queue = 1 << 20;
        let address = free_address();
        let builders = (0..2).map(|rank| peer(rank, 2, address).limits(limits.clone())).collect();
        let outcomes = over_tcp(builders, |cluster| {
            let channel = ChannelId::of(ChannelOwner::Application, 1);
            if cluster.is_root() {
                // Nothing is consumed until the other side has been blocked for long.
                cluster.barrier()?;
                let receiver = cluster.open_channel(channel, Lane::Bulk);
                for number in 0..COUNT {
                    let message = receiver.receive(Duration::from_secs(20)).map_err(Error::program)?;
                    assert_eq!(message.payload.len(), 100_000 + number);
                }
            } else {
                let sent = std::thread::scope(|scope| {
                    let sender = scope.spawn(|| {
                        (0..COUNT).try_for_each(|number| {
                            let payload = vec![1_u8; 100_000 + number].into();
                            let purpose = Purpose::Custom;
                            cluster.send(Rank::ROOT, OutgoingMessage { lane: Lane::Bulk, channel, purpose, payload })
                        })
                    });
                    // 40 MB do not fit into 2 MB of limits and the system's buffers, but the control lane is free.
                    let barrier = cluster.barrier();
                    sender.join().unwrap().and(barrier)
                });
                sent?;
            }
            cluster.barrier()
        });
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}

#[test]
fn a_stalled_wait_is_reported_with_everyone_and_ends_at_its_deadline() {
    with_watchdog(|| {
        let mut deadlines = short_deadlines();
        deadlines.stall = Duration::from_millis(600);
        deadlines.wait = Duration::from_secs(3);
        let recorder = Arc::new(EventRecorder::default());
        let outcome = standalone(3).deadlines(deadlines).observer(recorder.clone()).run(|cluster| {
            if cluster.rank().index() == 1 {
                // Stuck until the others have given up.
                while cluster.stall_report().remote.iter().any(|(_, heartbeat)| heartbeat.is_none()) {
                    std::thread::yield_now();
                }
                std::thread::park_timeout(Duration::from_secs(4));
            }
            cluster.barrier()
        });
        let text = match outcome {
            Err(error @ Error::TimedOut { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(text.contains("timed out after 3.0 s waiting for barrier #0 at"), "{text}");
        assert!(text.contains("from peer 1"), "{text}");
        assert!(text.contains("peer 1 neither computes nor waits"), "{text}");
        assert!(text.contains("peer 2 driver waits for barrier #0"), "{text}");
        assert!(recorder.contains("stalled: waits of all peers\n  peer 0 driver waits for barrier #0 at"));
    });
}

#[test]
fn a_failing_peer_does_not_report_the_loss_of_peers_that_leave_because_of_it() {
    use hemiola_cluster::launch::{StatusKind, StatusReport};
    with_watchdog(|| {
        // Repeated, because the others may or may not have left before the culprit has closed.
        for _ in 0..40 {
            let (address, folder) = (free_address(), tempfile::tempdir().unwrap());
            let status = std::collections::BTreeMap::from([(
                "HEMIOLA_STATUS_DIR".to_owned(),
                folder.path().to_str().unwrap().to_owned(),
            )]);
            let builders = (0..3).map(|rank| peer(rank, 3, address).from_variables(&status).unwrap()).collect();
            over_tcp(builders, fail_on_peer_two);
            let kind = |rank| StatusReport::read(folder.path(), Rank::new(rank)).unwrap().kind;
            assert_eq!([kind(0), kind(1), kind(2)], [StatusKind::LostPeer, StatusKind::LostPeer, StatusKind::Failed]);
        }
    });
}

#[test]
fn remaining_peers_continue_without_an_excluded_peer() {
    with_watchdog(|| {
        let finished = std::sync::atomic::AtomicUsize::new(0);
        // A peer may leave the cluster's own barrier while others are still in it, and would fail them there.
        let all_passed = std::sync::Barrier::new(4);
        let outcome = standalone(4).run(|cluster| {
            cluster.barrier()?;
            all_passed.wait();
            // The root fails, where trees begin.
            if cluster.is_root() {
                return Err("out of luck".into());
            }
            let loss = loop {
                match cluster.peer_handle().failure() {
                    Some(loss) => break loss,
                    None => std::thread::yield_now(),
                }
            };
            cluster.exclude(loss.rank);
            cluster.barrier()?;
            assert_eq!(cluster.all_gather(cluster.rank().index())?, [1, 2, 3]);
            assert_eq!(cluster.broadcast_from(Rank::new(2), cluster.rank().index())?, 2);
            let error = cluster.broadcast(0).unwrap_err();
            assert_eq!(error.lost_peer().unwrap().rank, Rank::ROOT);
            cluster.barrier()?;
            finished.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        });
        assert!(outcome.unwrap_err().to_string().contains("out of luck"));
        assert_eq!(finished.into_inner(), 3);
    });
}
