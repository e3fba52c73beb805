//! Jobs of several processes: this test binary, started once per peer to run one test.

#![expect(clippy::print_stdout, reason = "how a peer process tells what it found")]

use crate::support::{number, with_watchdog};
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective::{
    Algorithm, CollectiveExt as _, Compression, GossipExt as _, PeerLossPolicy, ReduceOp, Topology,
};
use hemiola_testkit::PeerProcesses;

/// Starts peers of one worker each that run the entry point `name`.
fn start(peers: u32, name: &str) -> PeerProcesses {
    PeerProcesses::start(peers, name, |_, command| {
        command.env("HEMIOLA_WORKERS", "1");
    })
}

/// Digest of sums by all algorithms, of lengths from zero to more than a queue holds, and of
/// compressed ones.
fn sums(cluster: &Cluster) -> Result<String> {
    let communicator = cluster.communicator()?;
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
            let vector = || (0..length).map(|index| number(me, index % 5003) as f32).collect::<Vec<f32>>();
            let mut here = vector();
            let pending = communicator.with_algorithm(algorithm).begin_all_reduce(vector(), ReduceOp::Sum)?;
            communicator.with_algorithm(algorithm).all_reduce(&mut here, ReduceOp::Sum)?;
            assert_eq!(pending.wait()?, here);
            for value in here {
                digest = digest.rotate_left(7).wrapping_mul(31).wrapping_add(u64::from(value.to_bits()));
            }
        }
    }
    for compression in [
        Compression::Bf16,
        Compression::F16,
        Compression::OneBit { block: 100 },
        Compression::TopK { keep: 5000 },
        Compression::LowRank { rank: 2 },
    ] {
        let communicator = communicator.with_algorithm(Algorithm::Ring);
        let mut compressor = communicator.matrix_compressor(compression, 701, 499)?;
        for _ in 0..2 {
            let mut here: Vec<f32> = (0..701 * 499).map(|index| number(me, index % 5003) as f32).collect();
            let (vector, twin) = (here.clone(), compressor.clone());
            let pending = communicator.begin_all_reduce_compressed(vector, ReduceOp::Sum, twin)?;
            communicator.all_reduce_compressed(&mut here, ReduceOp::Sum, &mut compressor)?;
            let (twin, there) = pending.wait();
            assert!(there? == here && twin == compressor, "{compression}");
            for value in here {
                digest = digest.rotate_left(7).wrapping_mul(31).wrapping_add(u64::from(value.to_bits()));
            }
        }
    }
    Ok(format!("{digest:x}"))
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_of_three() {
    println!("said: {}.", hemiola_cluster::run(sums).unwrap());
}

#[test]
fn processes_get_the_bits_of_threads() {
    with_watchdog(|| {
        let expected = format!("said: {}.", standalone(3).run(sums).unwrap()[0]);
        for printed in start(3, "processes::the_peer_of_three").finish() {
            assert!(printed.contains(&expected), "{printed}, expected {expected}");
        }
    });
}

fn killed(cluster: &Cluster) -> Result<()> {
    let communicator = cluster.communicator()?;
    communicator.barrier()?;
    if cluster.rank().index() == 1 {
        println!("ready");
        // Waits to be killed.
        loop {
            std::thread::park();
        }
    }
    communicator.all_reduce(&mut vec![1.0_f32; 1 << 20], ReduceOp::Sum)
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_beside_one_that_is_killed() {
    println!("ended: {:?}", hemiola_cluster::run(killed).map_err(|error| error.lost_peer().unwrap().rank.number()));
}

#[test]
fn the_neighbours_of_a_killed_process_fail_and_name_it() {
    with_watchdog(|| {
        let mut peers = start(3, "processes::the_peer_beside_one_that_is_killed");
        peers.peers()[1].wait_for_line("ready");
        peers.peers()[1].kill().unwrap();
        for (rank, output) in peers.outputs().into_iter().enumerate() {
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(rank == 1 || printed.contains("ended: Err(1)"), "peer {rank}: {printed}");
        }
    });
}

/// Averages until the end; peer 1 waits to be killed in round 10.
fn excluding(cluster: &Cluster) -> Result<Vec<u32>> {
    let graph = cluster.graph(&Topology::RootExpander)?;
    let mut gossip = cluster.gossip::<f32>(&graph, 100_000).on_peer_loss(PeerLossPolicy::Exclude).build()?;
    let mut values = vec![cluster.rank().index() as f32; 100_000];
    for round in 0..60 {
        if round == 10 && cluster.rank().index() == 1 {
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        gossip.average(&mut values)?;
    }
    // The remaining peers still synchronize, here and at the end.
    cluster.barrier()?;
    Ok(gossip.stats().lost.iter().map(|rank| rank.number()).collect())
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_that_excludes_another() {
    println!("ended: {:?}", hemiola_cluster::run(excluding));
}

#[test]
fn a_killed_process_is_excluded_by_its_neighbours() {
    with_watchdog(|| {
        let mut peers = start(4, "processes::the_peer_that_excludes_another");
        peers.peers()[1].wait_for_line("ready");
        peers.peers()[1].kill().unwrap();
        for (rank, output) in peers.outputs().into_iter().enumerate() {
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(rank == 1 || printed.contains("ended: Ok([1])"), "peer {rank}: {printed}");
        }
    });
}

/// Messages of a gibibyte each: summed, in half the bytes, and broadcast as bytes.
fn gigabyte(cluster: &Cluster) -> Result<()> {
    const LENGTH: usize = 1 << 28;
    let communicator = cluster.communicator()?;
    let (me, peers) = (cluster.rank().index(), cluster.size());
    // Small whole numbers, whose sums are exact in every type.
    let own = |peer: usize, index: usize| ((index + peer) % 61) as f32;
    let expected: Vec<f32> = (0..61).map(|index| (0..peers).map(|peer| own(peer, index)).sum()).collect();
    let mut compressor = communicator.compressor(Compression::Bf16, LENGTH)?;
    for compressed in [false, true] {
        let mut vector: Vec<f32> = (0..LENGTH).map(|index| own(me, index)).collect();
        if compressed {
            communicator.all_reduce_compressed(&mut vector, ReduceOp::Sum, &mut compressor)?;
        } else {
            communicator.all_reduce(&mut vector, ReduceOp::Sum)?;
        }
        let wrong = vector.chunks(61).position(|chunk| *chunk != expected[..chunk.len()]);
        assert_eq!(wrong, None, "compressed: {compressed}");
    }
    let mut bytes: Vec<u8> =
        if me == 1 { (0..1 << 30).map(|index: u32| (index % 251) as u8).collect() } else { vec![0; 1 << 30] };
    communicator.broadcast(hemiola_core::Rank::new(1), &mut bytes)?;
    assert_eq!(bytes.iter().zip(0_u32..).position(|(byte, index)| u32::from(*byte) != index % 251), None);
    Ok(())
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_with_a_gigabyte() {
    println!("ended: {:?}", hemiola_cluster::run(gigabyte));
}

#[test]
#[ignore = "needs 12 GB of memory and a minute: cargo test -p hemiola-collective -- --ignored gigabyte"]
fn messages_of_a_gigabyte_arrive() {
    for printed in start(2, "processes::the_peer_with_a_gigabyte").finish() {
        assert!(printed.contains("ended: Ok(())"), "{printed}");
    }
}
