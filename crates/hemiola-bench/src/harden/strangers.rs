//! Strangers at a job on this host that waits for its second peer.
//!
//! Some know everything but the secret (the address, the name of the job, its size) and try to be
//! that peer. Others open connections and say nothing, or stop within the first message, and open a
//! new connection for each that is closed. The real peer comes last.

use anyhow::Context as _;
use hemiola_cluster::{Cluster, ClusterBuilder, Result};
use hemiola_core::rng::SplitMix64;
use hemiola_core::{ClusterEvent, Deadlines, Observer};
use hemiola_net::{FrameKey, FrameKind, Rendezvous, Secret, testing};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Threads that open connections.
const FLOODERS: usize = 4;

/// Observer that prints no refusals.
#[derive(Debug)]
struct SilentObserver;

impl Observer for SilentObserver {
    fn observe(&self, _: &ClusterEvent) {}
}

fn free_address() -> anyhow::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).context("no free port")
}

/// Peer of a job of two, which waits for the other for `patience` seconds.
fn peer(rank: usize, address: SocketAddr, secret: &Secret, patience: u64) -> ClusterBuilder {
    let mut deadlines = Deadlines::default();
    deadlines.join = Duration::from_secs(patience);
    Cluster::builder()
        .peer(rank, 2)
        .workers(1)
        .job("harden")
        .rendezvous(Rendezvous::Address(address.to_string()))
        .secret(secret.clone())
        .deadlines(deadlines)
        .observer(Arc::new(SilentObserver))
}

fn meet(builder: ClusterBuilder) -> Result<()> {
    builder.run(|cluster: &Cluster| -> Result<()> { cluster.barrier() })
}

/// Lets `strangers` try to join. Returns the number of those that got in.
pub(super) fn measure(strangers: usize, seed: u64) -> anyhow::Result<usize> {
    let address = free_address()?;
    let mut random = SplitMix64::new(seed);
    let mut secret = || Secret::new(format!("{:016x}{:016x}", random.next_u64(), random.next_u64()));
    let own = secret();
    let guesses: Vec<Secret> = (0..strangers).map(|_| secret()).collect();
    std::thread::scope(|scope| {
        let root = scope.spawn(|| meet(peer(0, address, &own, 60)));
        let joined = guesses.iter().filter(|guess| meet(peer(1, address, guess, 2)).is_ok()).count();
        meet(peer(1, address, &own, 60)).context("the real peer was kept out")?;
        root.join().map_err(|_| anyhow::anyhow!("the root panicked"))?.context("the root did not start")?;
        Ok(joined)
    })
}

/// Keeps `connections` open to a job that waits for its second peer, opens a new one for each that the
/// job closes, and then lets the peer join. Returns the seconds that the peer needed.
#[expect(clippy::disallowed_methods, reason = "a measurement of this machine")]
pub(super) fn flooded_join(connections: usize) -> anyhow::Result<f64> {
    let (address, secret) = (free_address()?, Secret::new("the secret of a flooded job"));
    let (stop, held) = (AtomicBool::new(false), std::sync::Barrier::new(FLOODERS + 1));
    std::thread::scope(|scope| {
        let root = scope.spawn(|| meet(peer(0, address, &secret, 300)));
        for flooder in 0..FLOODERS {
            let share = connections / FLOODERS + usize::from(flooder < connections % FLOODERS);
            let (stop, held) = (&stop, &held);
            scope.spawn(move || flood(address, share, held, stop));
        }
        held.wait();
        let start = Instant::now();
        let met = meet(peer(1, address, &secret, 300));
        let seconds = start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        met.context("the flood kept the real peer out")?;
        root.join().map_err(|_| anyhow::anyhow!("the root panicked"))?.context("the root did not start")?;
        Ok(seconds)
    })
}

/// Holds `count` connections until `stop` is set, and replaces those that are closed. Meets the
/// others at `held` when all were open once.
fn flood(address: SocketAddr, count: usize, held: &std::sync::Barrier, stop: &AtomicBool) {
    let hello = testing::encode_frame_of(FrameKind::Handshake, &FrameKey::PUBLIC, 0, &[0; 33]);
    // Every second connection stops within the first message, every third one after it.
    let connect = |number: usize| loop {
        match TcpStream::connect(address) {
            Ok(mut stream) => {
                let sent = [0, hello.len() / 2, hello.len()][number % 3];
                // The job may have closed the connection already.
                let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&hello[..sent]));
                return Some(stream);
            }
            // The root does not listen yet, or not any more.
            Err(_) if stop.load(Ordering::Relaxed) => return None,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut open: Vec<Option<TcpStream>> = (0..count).map(connect).collect();
    held.wait();
    while !stop.load(Ordering::Relaxed) {
        for (number, stream) in open.iter_mut().enumerate() {
            let mut byte = [0];
            let closed = match stream.as_mut().map(|stream| stream.read(&mut byte)) {
                Some(Err(error)) => error.kind() != std::io::ErrorKind::WouldBlock,
                Some(Ok(read)) => read == 0,
                None => false,
            };
            if closed && !stop.load(Ordering::Relaxed) {
                *stream = connect(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_stranger_joins() {
        assert_eq!(super::measure(3, 1).unwrap(), 0);
    }

    #[test]
    fn a_flood_keeps_no_peer_out() {
        assert!(super::flooded_join(600).unwrap() > 0.0);
    }
}
