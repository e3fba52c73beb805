//! Peers that begin late, messages that overtake each other: everything a transport may do that loses nothing.

use bytes::Bytes;
use hemiola_collective_proto::protocol::Body;
use hemiola_collective_proto::{Element, Engine, Message, Operation, Random, Tag};
use hemiola_core::Rank;

/// A collective with what each peer brings.
pub(crate) struct Job<T> {
    pub(crate) operation: Operation,
    pub(crate) data: Vec<Vec<T>>,
}

/// Sends a message through its bytes, at an address that depends on the seed.
pub(crate) fn over_the_wire(message: &Message, random: &mut Random) -> Message {
    let bytes = message.to_payload().into_bytes();
    let shift = random.below(9);
    let shifted: Bytes = std::iter::repeat_n(0, shift).chain(bytes).collect::<Vec<u8>>().into();
    Message::from_bytes(message.from, message.to, &shifted.slice(shift..)).expect("what is written can be read")
}

/// Runs jobs, all of them in flight at once, in a random order of everything. Gives what each peer has at the end of each job.
///
/// # Panics
/// If nothing can happen any more and not all is done.
pub(crate) fn run<T: Element>(
    mut jobs: Vec<Job<T>>,
    peers: usize,
    segment_bytes: usize,
    seed: u64,
) -> Vec<Vec<Vec<T>>> {
    let mut random = Random::new(seed);
    let window = [1, 100, usize::MAX][random.below(3)];
    let engine = |me, peers, segment, window| Engine::new(me, peers).segment_bytes(segment).window_bytes(window);
    let mut engines: Vec<Engine> = Rank::all(peers).map(|me| engine(me, peers, segment_bytes, window)).collect();
    let mut begun: Vec<Vec<(usize, Tag)>> = vec![Vec::new(); peers];
    let mut count = vec![0; peers];
    let mut pool: Vec<Message> = Vec::new();
    let mut idle = 0;
    loop {
        // A state in which this many random choices change nothing would be one in which nothing can change.
        idle += 1;
        assert!(idle < 10_000 * peers * jobs.len().max(1), "nothing happens any more, seed {seed}");
        let peer = random.below(peers);
        match random.below(4) {
            0 if count[peer] < jobs.len() => {
                let job = count[peer];
                begun[peer].push((job, engines[peer].begin::<T>(&jobs[job].operation).unwrap()));
                count[peer] += 1;
                idle = 0;
            }
            1 if !begun[peer].is_empty() => {
                let place = random.below(begun[peer].len());
                let (job, tag) = begun[peer][place];
                let before = pool.len();
                let over = engines[peer].advance(tag, &mut jobs[job].data[peer], &mut pool).unwrap();
                // Whoever is not over and waits for nobody must have been stopped by the window.
                assert!(over || engines[peer].waits_for(tag).is_some() || pool.len() > before);
                if over {
                    begun[peer].remove(place);
                    idle = 0;
                }
                if pool.len() > before {
                    idle = 0;
                }
            }
            2 | 3 if !pool.is_empty() => {
                let message = pool.swap_remove(random.below(pool.len()));
                assert!(matches!(message.body, Body::Elements(_)));
                engines[message.to.index()].deliver(over_the_wire(&message, &mut random)).unwrap();
                idle = 0;
            }
            _ => {}
        }
        if pool.is_empty() && begun.iter().all(Vec::is_empty) && count.iter().all(|&count| count == jobs.len()) {
            assert!(engines.iter().all(|engine| engine.early_bytes() == 0 && engine.waits().next().is_none()));
            return jobs.into_iter().map(|job| job.data).collect();
        }
    }
}
