//! Jobs of several processes: this very test binary, started once per peer to run one test.

#![expect(clippy::print_stdout, reason = "how a peer process tells what it found")]

use crate::support::{number, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective::{Algorithm, Encoding, MakeCollectives as _, MakeMixing as _, OnLoss, Operator, Topology};
use std::process::{Child, Command, Stdio};

/// Starts `peers` processes that run the test `name`.
pub(crate) fn start(peers: u32, name: &str, meet: &std::path::Path) -> Vec<Child> {
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture"]).env("HEMIOLA_WORKERS", "1");
        command.env("HEMIOLA_RANK", rank.to_string()).env("HEMIOLA_SIZE", peers.to_string());
        command.env("HEMIOLA_RENDEZVOUS", format!("file:{}/meet", meet.display())).env("HEMIOLA_TEST_PEER", "1");
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    (0..peers).map(start).collect()
}

/// A digest of sums in all ways, of lengths from nothing to what no queue holds at once, and of encoded ones.
fn sums(cluster: &Cluster) -> Result<String> {
    let collectives = cluster.collectives()?;
    let me = cluster.rank().index();
    let ways = [
        Algorithm::Ring,
        Algorithm::Tree,
        Algorithm::HalvingDoubling,
        Algorithm::Doubling,
        Algorithm::TwoLevel { group: 2 },
    ];
    let mut digest = 0_u64;
    for (turn, algorithm) in ways.into_iter().enumerate() {
        for length in [0, 1, 300, 30_000, 5_000_000 / (turn + 1)] {
            let vector = || (0..length).map(|place| number(me, place % 5003) as f32).collect::<Vec<f32>>();
            let mut here = vector();
            let begun = collectives.by(algorithm).begin_all_reduce(vector(), Operator::Sum)?;
            collectives.by(algorithm).all_reduce(&mut here, Operator::Sum)?;
            assert_eq!(begun.finish()?, here);
            for value in here {
                digest = digest.rotate_left(7).wrapping_mul(31).wrapping_add(u64::from(value.to_bits()));
            }
        }
    }
    for encoding in [
        Encoding::Bf16,
        Encoding::F16,
        Encoding::OneBit { block: 100 },
        Encoding::TopK { keep: 5000 },
        Encoding::LowRank { rank: 2 },
    ] {
        let collectives = collectives.by(Algorithm::Ring);
        let mut encoder = collectives.matrix_encoder(encoding, 701, 499)?;
        for _ in 0..2 {
            let mut here: Vec<f32> = (0..701 * 499).map(|place| number(me, place % 5003) as f32).collect();
            let (vector, twin) = (here.clone(), encoder.clone());
            let begun = collectives.begin_all_reduce_encoded(vector, Operator::Sum, twin)?;
            collectives.all_reduce_encoded(&mut here, Operator::Sum, &mut encoder)?;
            let (twin, there) = begun.finish();
            assert!(there? == here && twin == encoder, "{encoding}");
            for value in here {
                digest = digest.rotate_left(7).wrapping_mul(31).wrapping_add(u64::from(value.to_bits()));
            }
        }
    }
    Ok(format!("{digest:x}"))
}

#[test]
fn the_peer_of_three() {
    if std::env::var_os("HEMIOLA_TEST_PEER").is_some() {
        println!("said: {}.", hemiola_cluster::run(sums).unwrap());
    }
}

#[test]
fn processes_get_the_bits_of_threads() {
    with_watchdog(|| {
        let expected = format!("said: {}.", standalone(3).run(sums).unwrap()[0]);
        let meet = tempfile::tempdir().unwrap();
        for peer in start(3, "processes::the_peer_of_three", meet.path()) {
            let output = peer.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains(&expected), "{said}, expected {expected}");
        }
    });
}

fn killed(cluster: &Cluster) -> Result<()> {
    let collectives = cluster.collectives()?;
    collectives.barrier()?;
    if cluster.rank().index() == 1 {
        println!("ready");
        // Until it is killed.
        loop {
            std::thread::park();
        }
    }
    collectives.all_reduce(&mut vec![1.0_f32; 1 << 20], Operator::Sum)
}

#[test]
fn the_peer_beside_one_that_is_killed() {
    if std::env::var_os("HEMIOLA_TEST_PEER").is_some() {
        println!("ended: {:?}", hemiola_cluster::run(killed).map_err(|error| error.lost_peer().unwrap().rank.number()));
    }
}

#[test]
fn the_neighbours_of_a_killed_process_fail_and_name_it() {
    with_watchdog(|| {
        let meet = tempfile::tempdir().unwrap();
        let mut peers = start(3, "processes::the_peer_beside_one_that_is_killed", meet.path());
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(peers[1].stdout.take().unwrap()));
        assert!(lines.any(|line| line.unwrap().contains("ready")));
        peers[1].kill().unwrap();
        for (rank, peer) in peers.into_iter().enumerate() {
            let output = peer.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(rank == 1 || said.contains("ended: Err(1)"), "peer {rank}: {said}");
        }
    });
}

/// Averages until it is over; peer 1 waits to be killed in round 10.
fn outliving(cluster: &Cluster) -> Result<Vec<u32>> {
    let graph = cluster.graph(&Topology::RootExpander)?;
    let mut mixing = cluster.mixing::<f32>(&graph, 100_000).on_loss(OnLoss::Drop).build()?;
    let mut values = vec![cluster.rank().index() as f32; 100_000];
    for round in 0..60 {
        if round == 10 && cluster.rank().index() == 1 {
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        mixing.mix(&mut values)?;
    }
    // Those who are left still meet, here and at the end.
    cluster.barrier()?;
    Ok(mixing.tally().lost.iter().map(|rank| rank.number()).collect())
}

#[test]
fn the_peer_that_outlives_another() {
    if std::env::var_os("HEMIOLA_TEST_PEER").is_some() {
        println!("ended: {:?}", hemiola_cluster::run(outliving));
    }
}

#[test]
fn a_killed_process_is_outlived_by_its_neighbours() {
    with_watchdog(|| {
        let meet = tempfile::tempdir().unwrap();
        let mut peers = start(4, "processes::the_peer_that_outlives_another", meet.path());
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(peers[1].stdout.take().unwrap()));
        assert!(lines.any(|line| line.unwrap().contains("ready")));
        peers[1].kill().unwrap();
        for (rank, peer) in peers.into_iter().enumerate() {
            let output = peer.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(rank == 1 || said.contains("ended: Ok([1])"), "peer {rank}: {said}");
        }
    });
}

/// Messages of a gibibyte each: summed, in half the bytes, and broadcast as bytes.
fn gigabyte(cluster: &Cluster) -> Result<()> {
    const LENGTH: usize = 1 << 28;
    let collectives = cluster.collectives()?;
    let (me, peers) = (cluster.rank().index(), cluster.size());
    // Small whole numbers: sums are exact in every type.
    let own = |peer: usize, place: usize| ((place + peer) % 61) as f32;
    let expected: Vec<f32> = (0..61).map(|place| (0..peers).map(|peer| own(peer, place)).sum()).collect();
    let mut encoder = collectives.encoder(Encoding::Bf16, LENGTH)?;
    for encoded in [false, true] {
        let mut vector: Vec<f32> = (0..LENGTH).map(|place| own(me, place)).collect();
        if encoded {
            collectives.all_reduce_encoded(&mut vector, Operator::Sum, &mut encoder)?;
        } else {
            collectives.all_reduce(&mut vector, Operator::Sum)?;
        }
        let wrong = vector.chunks(61).position(|chunk| *chunk != expected[..chunk.len()]);
        assert_eq!(wrong, None, "encoded: {encoded}");
    }
    let mut bytes: Vec<u8> =
        if me == 1 { (0..1 << 30).map(|place: u32| (place % 251) as u8).collect() } else { vec![0; 1 << 30] };
    collectives.broadcast(hemiola_core::Rank::new(1), &mut bytes)?;
    assert_eq!(bytes.iter().zip(0_u32..).position(|(byte, place)| u32::from(*byte) != place % 251), None);
    Ok(())
}

#[test]
fn the_peer_with_a_gigabyte() {
    if std::env::var_os("HEMIOLA_TEST_PEER").is_some() {
        println!("ended: {:?}", hemiola_cluster::run(gigabyte));
    }
}

#[test]
#[ignore = "needs 12 GB of memory and a minute: cargo test -p hemiola-collective -- --ignored gigabyte"]
fn messages_of_a_gigabyte_arrive() {
    let meet = tempfile::tempdir().unwrap();
    for peer in start(2, "processes::the_peer_with_a_gigabyte", meet.path()) {
        let output = peer.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("ended: Ok(())"), "{said}");
    }
}
