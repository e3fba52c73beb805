//! Joining: refused connections, and the errors on both sides.

use crate::support::{EventRecorder, free_address, over_tcp, peer, short_deadlines, with_watchdog};
use hemiola_cluster::{Cluster, Error};
use hemiola_core::ErrorKind;
use hemiola_net::testing::encode_frame_of;
use hemiola_net::{FrameKey, FrameKind, Secret};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Runs a valid job of two, and `intruder` beside it once the root listens. Returns the events of the
/// root.
pub(crate) fn beside_a_valid_job(intruder: impl FnOnce(std::net::SocketAddr) + Send) -> Arc<EventRecorder> {
    let address = free_address();
    let recorder = Arc::new(EventRecorder::default());
    std::thread::scope(|scope| {
        let root = peer(0, 2, address).observer(recorder.clone());
        let root = scope.spawn(move || root.run(|cluster| cluster.barrier()));
        // Until rank 1 joins, the root waits, so the intruder connects before the job is complete.
        intruder(address);
        let other = peer(1, 2, address).run(|cluster| cluster.barrier());
        other.unwrap();
        root.join().unwrap().unwrap();
    });
    recorder
}

pub(crate) fn connect(address: std::net::SocketAddr) -> TcpStream {
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_second_peer_with_the_same_rank_is_refused_and_harms_no_other() {
    with_watchdog(|| {
        let address = free_address();
        let recorder = Arc::new(EventRecorder::default());
        // Three peers: 0, 1 and a second 1; then 2 completes the job.
        std::thread::scope(|scope| {
            let root = peer(0, 3, address).observer(recorder.clone());
            let root = scope.spawn(move || root.run(|cluster| cluster.all_gather(cluster.rank().index())));
            let duplicates: Vec<_> = (0..2)
                .map(|_| scope.spawn(move || peer(1, 3, address).run(|cluster| cluster.all_gather(1_usize))))
                .collect();
            while !recorder.contains("refused") {
                std::thread::yield_now();
            }
            let third = scope.spawn(move || peer(2, 3, address).run(|cluster| cluster.all_gather(2_usize)));
            assert_eq!(root.join().unwrap().unwrap(), [0, 1, 2]);
            assert_eq!(third.join().unwrap().unwrap(), [0, 1, 2]);
            let outcomes: Vec<_> = duplicates.into_iter().map(|peer| peer.join().unwrap()).collect();
            let refused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
            assert_eq!(refused.len(), 1);
            let text = refused[0].to_string();
            assert!(text.contains("rank 1 is taken by process"), "{text}");
            assert_eq!(refused[0].kind(), ErrorKind::Usage);
        });
        assert!(recorder.contains("two peers were given the same rank"));
    });
}

#[test]
fn a_wrong_secret_is_refused_on_both_sides() {
    with_watchdog(|| {
        let recorder = beside_a_valid_job(|address| {
            let outcome =
                peer(1, 2, address).secret(Secret::new("a guess of the secret")).run(|cluster| cluster.barrier());
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("the job secret or the job does not match"), "{error}");
        });
        assert!(recorder.contains("the job secret or the job does not match"));
    });
}

#[test]
fn a_wrong_size_a_wrong_rank_and_another_job_are_refused_on_both_sides() {
    with_watchdog(|| {
        let recorder = beside_a_valid_job(|address| {
            let refusal = |builder: hemiola_cluster::ClusterBuilder| {
                builder.run(|cluster| cluster.barrier()).unwrap_err().to_string()
            };
            let error = refusal(peer(1, 3, address));
            assert!(error.contains("it expects a job of 3 peers, this job has 2"), "{error}");
            let error = refusal(peer(1, 2, address).job("another"));
            assert!(error.contains("the job secret or the job does not match"), "{error}");
        });
        assert!(recorder.contains("it expects a job of 3 peers, this job has 2"));
        assert!(recorder.contains("the job secret or the job does not match"));
    });
}

#[test]
fn silent_and_foreign_connections_do_not_delay_the_job() {
    with_watchdog(|| {
        let mut silent = Vec::new();
        let recorder = beside_a_valid_job(|address| {
            silent.extend((0..5).map(|_| connect(address)));
            let mut browser = connect(address);
            browser.write_all(b"GET / HTTP/1.1\r\nHost: here\r\nAccept: text/html\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            browser.read_to_end(&mut answer).unwrap_or(0);
        });
        assert!(recorder.contains("not a hemiola frame"));
    });
}

#[test]
fn a_peer_of_another_release_is_refused() {
    with_watchdog(|| {
        let recorder = beside_a_valid_job(|address| {
            let mut bytes = encode_frame_of(FrameKind::Handshake, &FrameKey::PUBLIC, 0, b"");
            bytes[4] = 99;
            let mut old = connect(address);
            old.write_all(&bytes).unwrap();
            // The answer is a frame of this version, from which the other release can tell the difference.
            let mut answer = [0; 5];
            old.read_exact(&mut answer).unwrap();
            assert_eq!(answer[4], hemiola_net::PROTOCOL_VERSION);
        });
        assert!(recorder.contains("wire version 99 instead of 2"));
    });
}

#[test]
fn missing_peers_are_named_to_the_joined_ones() {
    with_watchdog(|| {
        let address = free_address();
        let mut deadlines = short_deadlines();
        deadlines.join = Duration::from_secs(2);
        let builders = [0, 2].map(|rank| peer(rank, 4, address).deadlines(deadlines.clone())).into();
        let outcomes = over_tcp(builders, |cluster| cluster.barrier());
        let errors: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect();
        assert!(errors[0].starts_with("cannot join the job: waited 2."), "{}", errors[0]);
        assert!(errors[0].ends_with("s for peers 1, 3"), "{}", errors[0]);
        assert!(errors[1].contains("the root aborted the job: waited 2."), "{}", errors[1]);
    });
}

#[test]
fn a_missing_root_is_reported_with_its_address() {
    with_watchdog(|| {
        let address = free_address();
        let mut deadlines = short_deadlines();
        deadlines.join = Duration::from_millis(500);
        let error = peer(1, 2, address).deadlines(deadlines).run(|cluster| cluster.barrier()).unwrap_err();
        assert!(error.to_string().contains(&format!("peer 1 cannot reach the root at {address} after 0.5")), "{error}");
        assert_eq!(error.kind(), ErrorKind::External);
    });
}

#[test]
fn a_public_address_without_a_secret_is_refused() {
    let builder = Cluster::builder()
        .peer(0, 2)
        .rendezvous("127.0.0.1:29999".parse().unwrap())
        .bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let error = builder.build().unwrap_err();
    assert!(error.to_string().contains("refusing to listen on 0.0.0.0:29999"), "{error}");
    assert!(error.to_string().contains("HEMIOLA_SECRET"), "{error}");
}

#[test]
fn a_taken_port_is_an_error_with_the_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = peer(0, 2, address).build().unwrap_err();
    assert!(error.to_string().contains(&format!("cannot listen on {address}")), "{error}");
}

#[test]
fn launcher_variables_of_torchrun_make_a_job() {
    with_watchdog(|| {
        let address = free_address();
        let variables = |rank: usize| -> BTreeMap<String, String> {
            let (host, port) = (address.ip().to_string(), address.port().to_string());
            let pairs =
                [("RANK", rank.to_string()), ("WORLD_SIZE", "2".into()), ("MASTER_ADDR", host), ("MASTER_PORT", port)];
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
        };
        let builders = (0..2).map(|rank| Cluster::builder().from_variables(&variables(rank)).unwrap()).collect();
        let outcomes = over_tcp(builders, |cluster| cluster.all_gather(cluster.rank().number()));
        assert!(outcomes.into_iter().all(|outcome| outcome.unwrap() == [0, 1]));
    });
}

#[test]
fn invalid_settings_name_the_variable() {
    let complaint = |name: &str, value: &str| {
        let variables = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        match Cluster::builder().from_variables(&variables) {
            Err(error @ Error::Setting { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(complaint("HEMIOLA_WORKERS", "many"), "HEMIOLA_WORKERS: `many` is not a number of threads");
    assert_eq!(complaint("HEMIOLA_WAIT_SECONDS", "-1"), "HEMIOLA_WAIT_SECONDS: `-1` is not a duration above zero");
    assert_eq!(complaint("HEMIOLA_BIND", "here"), "HEMIOLA_BIND: `here` is not an IP address");
    assert!(complaint("HEMIOLA_TLS_CERT", "/x").starts_with("HEMIOLA_TLS_KEY: TLS needs"));
}

#[test]
fn typing_errors_in_numbers_are_caught_before_anything_is_allocated() {
    let complaint = |builder: hemiola_cluster::ClusterBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(
        complaint(Cluster::builder().peer(0, 99_999_999_999)),
        "HEMIOLA_SIZE: 99999999999 peers exceed the limit of 65536"
    );
    assert_eq!(
        complaint(Cluster::builder().workers(10_000_000)),
        "HEMIOLA_WORKERS: 10000000 workers exceed the limit of 4096"
    );
    assert_eq!(complaint(Cluster::builder().peer(1 << 32, 2)), "peer: rank 4294967295 is outside of a job of 2 peers");
}

#[test]
fn a_peer_that_gives_up_while_others_connect_is_the_one_to_blame() {
    with_watchdog(|| {
        let address = free_address();
        let mut hasty = short_deadlines();
        hasty.join = Duration::from_secs(2);
        let mut patient = short_deadlines();
        patient.join = Duration::from_secs(40);
        // Peer 2 cannot reach peer 1, which advertises a wrong address and gives up first.
        let builders = vec![
            peer(0, 3, address).deadlines(patient.clone()),
            peer(1, 3, address).deadlines(hasty).advertise("127.0.0.1:1"),
            peer(2, 3, address).deadlines(patient),
        ];
        let outcomes = over_tcp(builders, |cluster| cluster.barrier());
        let errors: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect();
        assert!(errors[0].contains("peer 1 at 127.0.0.1:1 was lost while the job was joining"), "{}", errors[0]);
        assert!(errors[2].contains("the root aborted the job") && errors[2].contains("peer 1 at"), "{}", errors[2]);
    });
}

#[test]
#[ignore = "entry point of a child process"]
fn the_root_process() {
    let address = std::env::var("TEST_ADDRESS").unwrap().parse().unwrap();
    peer(0, 2, address).run(|cluster| cluster.barrier()).unwrap();
}

#[test]
fn a_full_disk_behind_standard_error_is_harmless() {
    with_watchdog(|| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let address = free_address();
        let mut root = std::process::Command::new(std::env::current_exe().unwrap())
            .args(hemiola_testkit::entry_arguments("joining::the_root_process"))
            .env("TEST_ADDRESS", address.to_string())
            .stdout(std::process::Stdio::null())
            .stderr(full)
            .spawn()
            .unwrap();
        // The root reports a refused connection on standard error.
        let mut intruder = connect(address);
        intruder.write_all(b"GET / HTTP/1.1\r\nHost: here\r\nAccept: text/html\r\n\r\n").unwrap();
        intruder.read_to_end(&mut Vec::new()).unwrap_or(0);
        peer(1, 2, address).run(|cluster| cluster.barrier()).unwrap();
        assert!(root.wait().unwrap().success());
    });
}

#[test]
fn peers_that_expect_other_servers_are_refused_when_they_join() {
    with_watchdog(|| {
        let recorder = beside_a_valid_job(|address| {
            // It is configured as a server; the job of the root has none.
            let outcome = peer(1, 2, address).servers(1).as_server().run(|cluster| cluster.barrier());
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("expects 1 of the peers to be dedicated servers, this job has 0"), "{error}");
            assert!(error.contains("HEMIOLA_SERVERS"), "{error}");
        });
        assert!(recorder.contains("this job has 0"));
    });
}
