//! Simulated network: late starts and messages that overtake each other, everything a transport may
//! do that loses nothing.

use bytes::Bytes;
use hemiola_collective_proto::protocol::CollectiveBody;
use hemiola_collective_proto::{CollectiveElement, CollectiveEngine, CollectiveMessage, Operation, Tag};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;

/// Collective with the input of each peer.
pub(crate) struct Job<T> {
    pub(crate) operation: Operation,
    pub(crate) data: Vec<Vec<T>>,
}

/// Serializes and parses a message, at an address that depends on the seed.
pub(crate) fn over_the_wire(message: &CollectiveMessage, random: &mut SplitMix64) -> CollectiveMessage {
    let bytes = message.to_payload().into_bytes();
    let shift = random.below(9);
    let shifted: Bytes = std::iter::repeat_n(0, shift).chain(bytes).collect::<Vec<u8>>().into();
    CollectiveMessage::from_bytes(message.from, message.to, &shifted.slice(shift..))
        .expect("a serialized message can be parsed")
}

/// Runs jobs, all of them in flight at once, in a random order of events. Returns the result of
/// each peer for each job.
///
/// # Panics
/// If no event is possible any more and not all jobs are done.
pub(crate) fn run<T: CollectiveElement>(
    mut jobs: Vec<Job<T>>,
    peers: usize,
    segment_bytes: usize,
    seed: u64,
) -> Vec<Vec<Vec<T>>> {
    let mut random = SplitMix64::new(seed);
    let window = [1, 100, usize::MAX][random.below(3)];
    let engine =
        |me, peers, segment, window| CollectiveEngine::new(me, peers).segment_bytes(segment).window_bytes(window);
    let mut engines: Vec<CollectiveEngine> =
        Rank::all(peers).map(|me| engine(me, peers, segment_bytes, window)).collect();
    let mut pending: Vec<Vec<(usize, Tag)>> = vec![Vec::new(); peers];
    let mut count = vec![0; peers];
    let mut pool: Vec<CollectiveMessage> = Vec::new();
    let mut idle = 0;
    loop {
        // If this many random choices change nothing, nothing can change any more.
        idle += 1;
        assert!(idle < 10_000 * peers * jobs.len().max(1), "no progress, seed {seed}");
        let peer = random.below(peers);
        match random.below(4) {
            0 if count[peer] < jobs.len() => {
                let job = count[peer];
                pending[peer].push((job, engines[peer].begin::<T>(&jobs[job].operation).unwrap()));
                count[peer] += 1;
                idle = 0;
            }
            1 if !pending[peer].is_empty() => {
                let index = random.below(pending[peer].len());
                let (job, tag) = pending[peer][index];
                let before = pool.len();
                let over = engines[peer].advance(tag, &mut jobs[job].data[peer], &mut pool).unwrap();
                // An engine that is neither done nor waiting must have been stopped by the window.
                assert!(over || engines[peer].waits_for(tag).is_some() || pool.len() > before);
                if over {
                    pending[peer].remove(index);
                    idle = 0;
                }
                if pool.len() > before {
                    idle = 0;
                }
            }
            2 | 3 if !pool.is_empty() => {
                let message = pool.swap_remove(random.below(pool.len()));
                assert!(matches!(message.body, CollectiveBody::Elements(_)));
                engines[message.to.index()].deliver(over_the_wire(&message, &mut random)).unwrap();
                idle = 0;
            }
            _ => {}
        }
        if pool.is_empty() && pending.iter().all(Vec::is_empty) && count.iter().all(|&count| count == jobs.len()) {
            assert!(engines.iter().all(|engine| engine.early_bytes() == 0 && engine.waits().next().is_none()));
            return jobs.into_iter().map(|job| job.data).collect();
        }
    }
}
