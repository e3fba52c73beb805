//! Who is refused, and what both sides hear.

use crate::support::{Witness, free_address, over_tcp, peer, quick, with_watchdog};
use hemiola_cluster::{Cluster, Error};
use hemiola_core::ErrorKind;
use hemiola_net::{FrameHeader, FrameKind, Secret};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Runs a good job of two, and `stranger` beside it once the root listens; what the root's observer heard.
fn beside_a_good_job(stranger: impl FnOnce(std::net::SocketAddr) + Send) -> Arc<Witness> {
    let address = free_address();
    let witness = Arc::new(Witness::default());
    std::thread::scope(|scope| {
        let root = peer(0, 2, address).observer(witness.clone());
        let root = scope.spawn(move || root.run(|cluster| cluster.barrier()));
        // Until rank 1 joins, the root waits, so the stranger is there before the job is complete.
        stranger(address);
        let other = peer(1, 2, address).run(|cluster| cluster.barrier());
        other.unwrap();
        root.join().unwrap().unwrap();
    });
    witness
}

fn connect(address: std::net::SocketAddr) -> TcpStream {
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_second_peer_with_the_same_rank_is_refused_and_harms_nobody() {
    with_watchdog(|| {
        let address = free_address();
        let witness = Arc::new(Witness::default());
        // Three peers: 0, 1 and a second 1; then 2 completes the job.
        std::thread::scope(|scope| {
            let root = peer(0, 3, address).observer(witness.clone());
            let root = scope.spawn(move || root.run(|cluster| cluster.all_gather(cluster.rank().index())));
            let twins: Vec<_> = (0..2)
                .map(|_| scope.spawn(move || peer(1, 3, address).run(|cluster| cluster.all_gather(1_usize))))
                .collect();
            while !witness.heard("refused") {
                std::thread::yield_now();
            }
            let third = scope.spawn(move || peer(2, 3, address).run(|cluster| cluster.all_gather(2_usize)));
            assert_eq!(root.join().unwrap().unwrap(), [0, 1, 2]);
            assert_eq!(third.join().unwrap().unwrap(), [0, 1, 2]);
            let outcomes: Vec<_> = twins.into_iter().map(|twin| twin.join().unwrap()).collect();
            let refused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
            assert_eq!(refused.len(), 1);
            let text = refused[0].to_string();
            assert!(text.contains("rank 1 is taken by process"), "{text}");
            assert_eq!(refused[0].kind(), ErrorKind::Usage);
        });
        assert!(witness.heard("two peers were given the same rank"));
    });
}

#[test]
fn a_wrong_secret_is_refused_on_both_sides() {
    with_watchdog(|| {
        let witness = beside_a_good_job(|address| {
            let outcome = peer(1, 2, address).secret(Secret::new("guess")).run(|cluster| cluster.barrier());
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("the job secret does not match"), "{error}");
        });
        assert!(witness.heard("the job secret does not match"));
    });
}

#[test]
fn a_wrong_size_a_wrong_rank_and_another_job_are_refused_on_both_sides() {
    with_watchdog(|| {
        let witness = beside_a_good_job(|address| {
            let refusal = |builder: hemiola_cluster::ClusterBuilder| {
                builder.run(|cluster| cluster.barrier()).unwrap_err().to_string()
            };
            let error = refusal(peer(1, 3, address));
            assert!(error.contains("it expects a job of 3 peers, this job has 2"), "{error}");
            let error = refusal(peer(1, 2, address).job("another"));
            assert!(error.contains("it belongs to another run"), "{error}");
        });
        assert!(witness.heard("it expects a job of 3 peers, this job has 2"));
        assert!(witness.heard("it belongs to another run"));
    });
}

#[test]
fn strangers_who_say_nothing_or_nonsense_do_not_hold_up_the_job() {
    with_watchdog(|| {
        let mut silent = Vec::new();
        let witness = beside_a_good_job(|address| {
            silent.extend((0..5).map(|_| connect(address)));
            let mut browser = connect(address);
            browser.write_all(b"GET / HTTP/1.1\r\nHost: here\r\nAccept: text/html\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            browser.read_to_end(&mut answer).unwrap_or(0);
        });
        assert!(witness.heard("not a hemiola frame"));
    });
}

#[test]
fn a_peer_of_another_release_is_told() {
    with_watchdog(|| {
        let witness = beside_a_good_job(|address| {
            let header = FrameHeader {
                kind: FrameKind::Handshake,
                purpose: hemiola_core::Purpose::Liveness,
                length: 0,
                job: hemiola_core::JobId::from_name("hemiola"),
                sequence: 0,
                channel: hemiola_core::ChannelId::new(0),
            };
            let mut bytes = header.encode();
            bytes[4] = 99;
            let mut old = connect(address);
            old.write_all(&bytes).unwrap();
            // The answer is a frame of our version, from which the other release can tell as much.
            let mut answer = [0; 5];
            old.read_exact(&mut answer).unwrap();
            assert_eq!(answer[4], hemiola_net::PROTOCOL_VERSION);
        });
        assert!(witness.heard("wire version 99 instead of 1"));
    });
}

#[test]
fn missing_peers_are_named_to_those_who_came() {
    with_watchdog(|| {
        let address = free_address();
        let mut deadlines = quick();
        deadlines.join = Duration::from_secs(2);
        let builders = [0, 2].map(|rank| peer(rank, 4, address).deadlines(deadlines.clone())).into();
        let outcomes = over_tcp(builders, |cluster| cluster.barrier());
        let errors: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect();
        assert!(errors[0].starts_with("the peers could not meet: waited 2."), "{}", errors[0]);
        assert!(errors[0].ends_with("s for peers 1, 3"), "{}", errors[0]);
        assert!(errors[1].contains("the root called the job off: waited 2."), "{}", errors[1]);
    });
}

#[test]
fn a_root_that_never_comes_is_reported_with_its_address() {
    with_watchdog(|| {
        let address = free_address();
        let mut deadlines = quick();
        deadlines.join = Duration::from_millis(500);
        let error = peer(1, 2, address).deadlines(deadlines).run(|cluster| cluster.barrier()).unwrap_err();
        assert!(error.to_string().contains(&format!("peer 1 cannot reach the root at {address} after 0.5")), "{error}");
        assert_eq!(error.kind(), ErrorKind::World);
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
fn settings_that_make_no_sense_name_the_variable() {
    let complaint = |name: &str, value: &str| {
        let variables = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        match Cluster::builder().from_variables(&variables) {
            Err(error @ Error::Setting { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(complaint("HEMIOLA_WORKERS", "many"), "HEMIOLA_WORKERS: `many` is not a number of threads");
    assert_eq!(complaint("HEMIOLA_WAIT_SECONDS", "-1"), "HEMIOLA_WAIT_SECONDS: `-1` is not a time above zero");
    assert_eq!(complaint("HEMIOLA_BIND", "here"), "HEMIOLA_BIND: `here` is not an IP address");
    assert!(complaint("HEMIOLA_TLS_CERT", "/x").starts_with("HEMIOLA_TLS_KEY: TLS needs"));
}

#[test]
fn slips_in_numbers_are_caught_before_anything_is_reserved() {
    let complaint = |builder: hemiola_cluster::ClusterBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(
        complaint(Cluster::builder().peer(0, 99_999_999_999)),
        "HEMIOLA_SIZE: 99999999999 peers are more than 65536"
    );
    assert_eq!(
        complaint(Cluster::builder().workers(10_000_000)),
        "HEMIOLA_WORKERS: 10000000 workers are more than 4096"
    );
    assert_eq!(complaint(Cluster::builder().peer(1 << 32, 2)), "peer: rank 4294967295 does not exist in a job of 2");
}

#[test]
fn a_peer_that_gives_up_while_others_link_up_is_the_one_to_blame() {
    with_watchdog(|| {
        let address = free_address();
        let mut hasty = quick();
        hasty.join = Duration::from_secs(2);
        let mut patient = quick();
        patient.join = Duration::from_secs(40);
        // Peer 2 cannot reach peer 1, which says it is somewhere else, and gives up first.
        let builders = vec![
            peer(0, 3, address).deadlines(patient.clone()),
            peer(1, 3, address).deadlines(hasty).advertise("127.0.0.1:1"),
            peer(2, 3, address).deadlines(patient),
        ];
        let outcomes = over_tcp(builders, |cluster| cluster.barrier());
        let errors: Vec<_> = outcomes.into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect();
        assert!(errors[0].contains("peer 1 at 127.0.0.1:1 went away while the job came together"), "{}", errors[0]);
        assert!(errors[2].contains("the root called the job off") && errors[2].contains("peer 1 at"), "{}", errors[2]);
    });
}

#[test]
fn the_root_process() {
    if !crate::support::as_process() {
        return;
    }
    let address = std::env::var("TEST_ADDRESS").unwrap().parse().unwrap();
    peer(0, 2, address).run(|cluster| cluster.barrier()).unwrap();
}

#[test]
fn a_full_disk_behind_standard_error_harms_nobody() {
    with_watchdog(|| {
        let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
            println!("skipped: there is no /dev/full");
            return;
        };
        let address = free_address();
        let mut root = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["joining::the_root_process", "--exact", "--nocapture", "--test-threads=1"])
            .env("HEMIOLA_TEST_PROCESS", "1")
            .env("TEST_ADDRESS", address.to_string())
            .stdout(std::process::Stdio::null())
            .stderr(full)
            .spawn()
            .unwrap();
        // Turning a stranger away is something the root tells on standard error.
        let mut stranger = connect(address);
        stranger.write_all(b"GET / HTTP/1.1\r\nHost: here\r\nAccept: text/html\r\n\r\n").unwrap();
        stranger.read_to_end(&mut Vec::new()).unwrap_or(0);
        peer(1, 2, address).run(|cluster| cluster.barrier()).unwrap();
        assert!(root.wait().unwrap().success());
    });
}

#[test]
fn peers_that_expect_other_servers_are_refused_when_they_join() {
    with_watchdog(|| {
        let witness = beside_a_good_job(|address| {
            // It takes itself for a server; the root knows of none.
            let outcome = peer(1, 2, address).servers(1).as_server().run(|cluster| cluster.barrier());
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("expects 1 of the peers to be dedicated servers, this job has 0"), "{error}");
            assert!(error.contains("HEMIOLA_SERVERS"), "{error}");
        });
        assert!(witness.heard("this job has 0"));
    });
}
