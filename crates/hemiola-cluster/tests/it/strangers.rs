//! Strangers: connections of others, which must neither get in, nor keep peers out, nor learn
//! anything.

use crate::collectives::certificates_of;
use crate::joining::{beside_a_valid_job, connect};
use crate::support::{EventRecorder, free_address, over_tcp, peer, short_deadlines, with_watchdog};
use hemiola_cluster::{Cluster, ClusterBuilder, Error};
use hemiola_core::{ErrorKind, JobId};
use hemiola_net::testing::encode_frame_of;
use hemiola_net::{FrameKey, FrameKind, Secret};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns a peer that was given an address by a launcher, and no secret.
fn without_secret(rank: usize, address: SocketAddr, temporary: &Path) -> ClusterBuilder {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let variables: BTreeMap<String, String> = [
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", "2".into()),
        ("MASTER_ADDR", host),
        ("MASTER_PORT", port),
        ("TMPDIR", temporary.display().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    Cluster::builder().from_variables(&variables).unwrap().workers(1).deadlines(short_deadlines())
}

#[test]
fn a_job_that_was_given_no_secret_cannot_be_joined_without_one() {
    with_watchdog(|| {
        let address = free_address();
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let recorder = Arc::new(EventRecorder::default());
        std::thread::scope(|scope| {
            let root = without_secret(0, address, ours.path()).observer(recorder.clone());
            let root = scope.spawn(move || root.run(|cluster| cluster.barrier()));
            drop(connect(address));
            // Another user has another folder, and may guess.
            let error = without_secret(1, address, theirs.path()).build().unwrap_err();
            assert!(error.to_string().contains("HEMIOLA_SECRET"), "{error}");
            let guess = without_secret(1, address, theirs.path()).secret(Secret::new("a guess of the secret"));
            let error = guess.build().unwrap_err();
            assert!(error.to_string().contains("the job secret or the job does not match"), "{error}");
            without_secret(1, address, ours.path()).run(|cluster| cluster.barrier()).unwrap();
            root.join().unwrap().unwrap();
        });
        // The folder stays, empty and private.
        let folder = std::fs::read_dir(ours.path()).unwrap().next().unwrap().unwrap().path();
        assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    });
}

#[test]
fn a_job_that_others_can_reach_does_not_start_without_a_secret() {
    // An address for documentation, which no host has: nothing is sent to it.
    let far: SocketAddr = "192.0.2.1:29500".parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let error = without_secret(rank, far, folder.path()).build().unwrap_err();
        assert!(error.to_string().contains("openssl rand"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}

#[test]
fn a_short_secret_is_refused() {
    let error = peer(0, 2, free_address()).secret(Secret::new("x")).build().unwrap_err();
    assert!(error.to_string().contains("a secret of 1 bytes can be guessed"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_flood_of_connections_keeps_no_peer_out() {
    with_watchdog(|| {
        let stop = AtomicBool::new(false);
        let address = free_address();
        let hello = encode_frame_of(FrameKind::Handshake, &FrameKey::PUBLIC, 0, &[&[0][..], &[7; 32]].concat());
        let recorder = Arc::new(EventRecorder::default());
        std::thread::scope(|scope| {
            // A connection that is not displaced keeps its place until the job gives up.
            let mut deadlines = short_deadlines();
            deadlines.handshake = 10 * deadlines.join;
            let root = peer(0, 2, address).observer(recorder.clone()).deadlines(deadlines);
            let root = scope.spawn(move || root.run(|cluster| cluster.barrier()));
            // Silent ones, those that stop within the first message, and those that stop after it.
            let silent: Vec<TcpStream> = (0..400).map(|_| connect(address)).collect();
            let halves: Vec<TcpStream> = (0..300)
                .map(|_| {
                    let mut stream = connect(address);
                    let _ = stream.write_all(&hello[..40]); // it may have been dropped already
                    stream
                })
                .collect();
            let (stop, hello) = (&stop, &hello);
            let flood = scope.spawn(move || {
                let mut connected = 0;
                let mut open = std::collections::VecDeque::new();
                while !stop.load(Ordering::Relaxed) || connected < 300 {
                    if let Ok(mut stream) = TcpStream::connect(address) {
                        let _ = stream.write_all(hello);
                        open.push_back(stream);
                        connected += 1;
                    } else if stop.load(Ordering::Relaxed) {
                        break; // the job has formed and nobody listens any more
                    }
                    if open.len() > 300 {
                        open.pop_front();
                    }
                }
            });
            peer(1, 2, address).run(|cluster| cluster.barrier()).unwrap();
            root.join().unwrap().unwrap();
            stop.store(true, Ordering::Relaxed);
            flood.join().unwrap();
            drop((silent, halves));
        });
        let lines = recorder.0.lock().unwrap().len();
        assert!(lines < 40, "{lines} lines about refused connections");
    });
}

#[test]
fn the_job_is_not_told_to_strangers() {
    with_watchdog(|| {
        beside_a_valid_job(|address| {
            let job = JobId::from_name("hemiola").number().to_le_bytes();
            for first in [&b"GET / HTTP/1.1\r\nHost: here\r\nAccept: text/html\r\n\r\n"[..], &[0; 100]] {
                let mut stranger = connect(address);
                stranger.write_all(first).unwrap();
                let mut answer = Vec::new();
                stranger.read_to_end(&mut answer).unwrap_or(0);
                assert!(!answer.is_empty());
                assert!(!answer.windows(8).any(|window| window == job), "{answer:?}");
            }
        });
    });
}

#[test]
fn traffic_that_leaves_the_host_without_tls_is_reported_once() {
    with_watchdog(|| {
        let recorder = Arc::new(EventRecorder::default());
        let address = free_address();
        let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let root = peer(0, 2, address).bind(everywhere).observer(recorder.clone());
        let other = peer(1, 2, address).observer(recorder.clone());
        let outcomes = over_tcp(vec![root, other], |cluster| cluster.barrier());
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let reports = recorder.0.lock().unwrap().iter().filter(|line| line.contains("Unencrypted")).count();
        assert_eq!(reports, 1);
    });
}

#[test]
fn a_certificate_made_out_to_another_name_is_refused_on_both_sides() {
    with_watchdog(|| {
        let folder = tempfile::tempdir().unwrap();
        for (names, refused) in [(["hemiola", "other"], 0), (["other", "hemiola"], 1)] {
            let [ours, theirs] = certificates_of(folder.path(), names);
            let address = free_address();
            let mut deadlines = short_deadlines();
            deadlines.join = Duration::from_secs(1);
            let root = peer(0, 2, address).tls(ours).deadlines(deadlines.clone());
            let other = peer(1, 2, address).tls(theirs).deadlines(deadlines);
            let outcomes = over_tcp(vec![root, other], |cluster| cluster.barrier());
            let reason = match &outcomes[refused] {
                Err(error @ Error::Join(_)) => error.to_string(),
                other => panic!("{other:?}"),
            };
            assert!(reason.contains("not valid for name"), "{reason}");
        }
    });
}
