//! Collectives: a program gives equal results on threads, TCP and TLS.

use crate::support::{free_address, over_tcp, peer, tcp_job, with_watchdog};
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Purpose, Rank};
use hemiola_net::TlsConfig;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Calls every collective of a driver; returns a value that depends on all of them.
fn call_all_collectives(cluster: &Cluster) -> Result<(Vec<usize>, String, Vec<u64>)> {
    let rank = cluster.rank().index();
    for _ in 0..20 {
        cluster.barrier()?;
    }
    let ranks = cluster.all_gather(rank)?;
    let word = cluster.broadcast(format!("from {rank}"))?;
    // Large enough for the bulk lane, and different on every peer.
    let large: Vec<u64> = (0..40_000).map(|value| value * (rank as u64 + 1)).collect();
    let last = Rank::new(cluster.size() as u32 - 1);
    let largest = cluster.broadcast_from(last, large.clone())?;
    assert_eq!(largest[3], 3 * cluster.size() as u64);
    let all = cluster.all_gather(large)?;
    assert_eq!(cluster.all_gather(())?, vec![(); cluster.size()]);
    Ok((ranks, word, all.iter().map(|values| values.iter().sum()).collect()))
}

#[test]
fn threads_tcp_and_any_size_agree() {
    with_watchdog(|| {
        for size in [1, 2, 3, 4, 7] {
            let threads = standalone(size).run(call_all_collectives).unwrap();
            assert!(threads.iter().all(|result| *result == threads[0]));
            assert_eq!(threads[0].0, (0..size).collect::<Vec<_>>());
            assert_eq!(threads[0].1, "from 0");
            let tcp: Vec<_> = tcp_job(size, call_all_collectives).into_iter().map(Result::unwrap).collect();
            assert_eq!(tcp, threads);
        }
    });
}

/// Creates an authority and the certificate of a peer in `folder`.
pub(crate) fn certificates(folder: &Path, name: &str) -> TlsConfig {
    certificates_of(folder, [name]).into_iter().next().unwrap()
}

/// Creates an authority, and certificates made out to `names`, in `folder`.
pub(crate) fn certificates_of<const N: usize>(folder: &Path, names: [&str; N]) -> [TlsConfig; N] {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    names.map(|name| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let [ca, cert, secret] = ["ca.pem", "cert.pem", "key.pem"].map(|file| folder.join(file));
        std::fs::write(&ca, authority_certificate.pem()).unwrap();
        std::fs::write(&cert, certificate.pem()).unwrap();
        std::fs::write(&secret, key.serialize_pem()).unwrap();
        TlsConfig::from_files(&cert, &secret, &ca).unwrap()
    })
}

#[test]
fn tls_gives_the_same_results() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        let tls = certificates(folder.path(), "hemiola");
        let address = free_address();
        let builders = (0..3).map(|rank| peer(rank, 3, address).tls(tls.clone())).collect();
        let results: Vec<_> = over_tcp(builders, call_all_collectives).into_iter().map(Result::unwrap).collect();
        assert_eq!(results, standalone(3).run(call_all_collectives).unwrap());
    });
}

#[test]
fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    with_watchdog(|| {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let address = free_address();
        let mut deadlines = crate::support::short_deadlines();
        deadlines.join = Duration::from_secs(3);
        let root = peer(0, 2, address).tls(certificates(ours.path(), "hemiola")).deadlines(deadlines.clone());
        let other = peer(1, 2, address).tls(certificates(theirs.path(), "hemiola")).deadlines(deadlines);
        let outcomes = over_tcp(vec![root, other], |cluster| cluster.barrier());
        let [root, other] = [0, 1].map(|rank: usize| outcomes[rank].as_ref().unwrap_err().to_string());
        assert!(root.contains("waited 3.") && root.contains("for peer 1; refused 127.0.0.1"), "{root}");
        assert!(other.contains("certificate"), "{other}");
    });
}

#[test]
fn a_rendezvous_file_brings_its_own_secret_and_is_removed() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rendezvous");
        let builder = |rank| {
            Cluster::builder().peer(rank, 3).workers(1).rendezvous(format!("file:{}", path.display()).parse().unwrap())
        };
        let results = over_tcp((0..3).map(builder).collect(), |cluster| cluster.all_gather(cluster.rank().number()));
        assert!(results.into_iter().all(|result| result.unwrap() == [0, 1, 2]));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the folder is empty afterwards");
    });
}

#[test]
fn two_clusters_live_in_one_process() {
    with_watchdog(|| {
        std::thread::scope(|scope| {
            let jobs: Vec<_> = (0..2)
                .map(|job: u32| {
                    scope.spawn(move || {
                        standalone(3).run(|cluster| {
                            let sum: u32 = cluster.all_gather(cluster.rank().number() + job * 10)?.iter().sum();
                            Ok(sum)
                        })
                    })
                })
                .collect();
            let sums: Vec<_> = jobs.into_iter().map(|job| job.join().unwrap().unwrap()).collect();
            assert_eq!(sums, [[3; 3], [33; 3]]);
        });
    });
}

#[test]
fn each_worker_runs_once_on_every_worker_and_may_borrow() {
    with_watchdog(|| {
        let seen = [const { AtomicUsize::new(0) }; 4];
        standalone(1)
            .workers(4)
            .run(|cluster| {
                for _ in 0..100 {
                    let ids = cluster.each_worker(|worker| {
                        seen[worker.index()].fetch_add(1, Ordering::Relaxed);
                        worker.index()
                    })?;
                    assert_eq!(ids, [0, 1, 2, 3]);
                }
                Ok(())
            })
            .unwrap();
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 100));
    });
}

#[test]
fn a_panicking_worker_is_an_error_with_its_message() {
    with_watchdog(|| {
        let error = standalone(2)
            .workers(2)
            .run(|cluster| {
                cluster.each_worker(|worker| assert!(worker.index() == 0 || cluster.is_root(), "no luck today"))?;
                cluster.barrier()
            })
            .unwrap_err();
        assert_eq!(error.to_string(), "worker 1 of peer 1 panicked: no luck today");
    });
}

#[test]
fn traffic_is_counted_by_peer_lane_and_purpose() {
    with_watchdog(|| {
        let program = |cluster: &Cluster| {
            cluster.barrier()?;
            let channel = ChannelId::of(ChannelOwner::Application, 1);
            let receiver = cluster.open_channel(channel, Lane::Bulk);
            let to = Rank::new(1 - cluster.rank().number());
            let payload = vec![7_u8; 100_000].into();
            cluster.send(to, OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Custom, payload })?;
            let message = receiver.receive_from(to, Duration::from_secs(10)).unwrap();
            assert_eq!(message.payload.as_ptr() as usize % 64 * usize::from(message.payload.len() > 65_536), 0);
            cluster.barrier()?;
            Ok(cluster.traffic())
        };
        for traffic in tcp_job(2, program).into_iter().map(Result::unwrap) {
            let custom: Vec<_> = traffic.lines.iter().filter(|line| line.purpose == Purpose::Custom).collect();
            assert_eq!(custom.len(), 1);
            assert_eq!((custom[0].lane, custom[0].messages_sent, custom[0].messages_received), (Lane::Bulk, 1, 1));
            assert_eq!((custom[0].bytes_sent, custom[0].bytes_received), (100_044, 100_044));
            assert!(traffic.lines.iter().any(|line| line.purpose == Purpose::Barrier && line.lane == Lane::Control));
        }
    });
}

#[test]
fn messages_of_one_sender_keep_their_order_under_load() {
    with_watchdog(|| {
        const COUNT: u32 = 3_000;
        let program = |cluster: &Cluster| {
            let channel = ChannelId::of(ChannelOwner::Application, 2);
            let receiver = cluster.open_channel(channel, Lane::Control);
            if cluster.is_root() {
                let mut next = vec![0; cluster.size()];
                for _ in 0..COUNT as usize * (cluster.size() - 1) {
                    let message = receiver.receive(Duration::from_secs(10)).unwrap();
                    let (number, _) = message.payload.split_first_chunk::<4>().unwrap();
                    assert_eq!(u32::from_le_bytes(*number), next[message.from.index()]);
                    next[message.from.index()] += 1;
                }
            } else {
                for number in 0..COUNT {
                    // Mixed sizes, so that frames are gathered and split in many ways.
                    let mut payload = number.to_le_bytes().to_vec();
                    payload.resize(4 + (number as usize * 37) % 3_000, 0);
                    let purpose = Purpose::Custom;
                    cluster.send(
                        Rank::ROOT,
                        OutgoingMessage { lane: Lane::Control, channel, purpose, payload: payload.into() },
                    )?;
                }
            }
            cluster.barrier()
        };
        assert!(tcp_job(3, program).iter().all(Result::is_ok));
        standalone(3).run(program).unwrap();
    });
}

#[test]
fn messages_to_the_own_rank_and_to_an_unknown_rank() {
    with_watchdog(|| {
        let program = |cluster: &Cluster| {
            let channel = ChannelId::of(ChannelOwner::Application, 3);
            let receiver = cluster.open_channel(channel, Lane::Control);
            let message = |text: &'static str| OutgoingMessage {
                lane: Lane::Control,
                channel,
                purpose: Purpose::Custom,
                payload: text.as_bytes().to_vec().into(),
            };
            cluster.send(cluster.rank(), message("me"))?;
            assert_eq!(receiver.receive(Duration::from_secs(1)).unwrap().payload, "me");
            let error = cluster.send(Rank::new(9), message("unknown")).unwrap_err();
            assert_eq!(error.to_string(), "there is no peer 9 in a job of 2");
            cluster.barrier()
        };
        assert!(tcp_job(2, program).iter().all(Result::is_ok));
        standalone(2).run(program).unwrap();
    });
}

#[test]
fn a_root_that_does_not_exist_is_refused() {
    let error = standalone(2).run(|cluster| cluster.broadcast_from(Rank::new(5), 1)).unwrap_err();
    assert!(matches!(error, Error::Transport(_)), "{error}");
}

#[test]
fn servers_take_part_only_in_calls_that_include_them() {
    with_watchdog(|| {
        let serve = |cluster: &Cluster| {
            assert!(cluster.is_server());
            assert_eq!((cluster.size(), cluster.workers()), (5, 0));
            assert_eq!(cluster.all_gather(cluster.rank().index())?, [0, 1, 2, 3, 4]);
            assert_eq!(cluster.broadcast(7)?, 1);
            Ok(())
        };
        let ranks = standalone(3).servers(2, serve).run(|cluster| {
            assert_eq!((cluster.size(), cluster.workers(), cluster.is_server()), (3, 1, false));
            assert_eq!(cluster.servers().map(Rank::index).collect::<Vec<_>>(), [3, 4]);
            assert_eq!(cluster.all_gather(cluster.rank().index())?, [0, 1, 2]);
            let everyone = cluster.with_servers();
            assert_eq!(everyone.all_gather(cluster.rank().index())?, [0, 1, 2, 3, 4]);
            cluster.barrier()?;
            assert_eq!(everyone.broadcast(1)?, 1);
            cluster.barrier()?;
            Ok(cluster.rank().index())
        });
        assert_eq!(ranks.unwrap(), [0, 1, 2]);
    });
}
