//! Simulated network: late starts and messages that overtake each other, everything a transport may
//! do that loses nothing.

use bytes::Bytes;
use hemiola_collective_proto::protocol::{
    BorrowedMessage, CallFailure, CallProgress, CallSetup, CollectiveBody, CollectiveCall, EarlyMessages, TagSequence,
};
use hemiola_collective_proto::{CollectiveElement, CollectiveMessage, Error, Operation, Tag};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use std::collections::BTreeMap;

/// Calls of one peer in flight, and the messages of calls that it has not begun.
pub(crate) struct Peer {
    setup: CallSetup,
    tags: TagSequence,
    pub(crate) early: EarlyMessages,
    pub(crate) calls: BTreeMap<Tag, CollectiveCall>,
}

impl Peer {
    pub(crate) fn new(me: Rank, peers: usize) -> Self {
        Self::with_setup(CallSetup::new(me, peers))
    }

    pub(crate) fn with_setup(setup: CallSetup) -> Self {
        let (tags, early, calls) = (TagSequence::starting_at(0), EarlyMessages::default(), BTreeMap::new());
        Self { setup, tags, early, calls }
    }

    pub(crate) fn begin<T: CollectiveElement>(&mut self, operation: &Operation) -> Result<Tag, Error> {
        let tag = self.tags.take_one();
        self.calls.insert(tag, CollectiveCall::begin(self.setup, tag, operation, T::KIND)?);
        Ok(tag)
    }

    /// Advances a call until it waits, or has sent `window` bytes. Returns true when it is done. Like
    /// every driver, sends the notices of a failure and forgets the call.
    pub(crate) fn advance<T: CollectiveElement>(
        &mut self,
        tag: Tag,
        elements: &mut [T],
        window: usize,
        out: &mut Vec<CollectiveMessage>,
    ) -> Result<bool, Error> {
        let call = self.calls.get_mut(&tag).unwrap();
        let mut sent = 0;
        let mut send = |message: BorrowedMessage<'_>| {
            let room = sent < window;
            if room {
                sent += message.elements.len();
                out.push(message.to_message());
            }
            room
        };
        let received = self.early.take(tag).into_iter().try_for_each(|message| call.receive(message));
        match received.and_then(|()| call.advance(elements, &mut send)) {
            Ok(CallProgress::Done) => {
                self.calls.remove(&tag);
                Ok(true)
            }
            Ok(CallProgress::Waiting(_) | CallProgress::Blocked(_)) => Ok(false),
            Err(CallFailure { error, notices }) => {
                out.extend(notices);
                if !matches!(error, Error::WrongLength { .. } | Error::WrongElementKind { .. }) {
                    self.calls.remove(&tag);
                }
                Err(error)
            }
        }
    }
}

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
    let setup = |me| CallSetup::new(me, peers).segment_bytes(segment_bytes);
    let mut nodes: Vec<Peer> = Rank::all(peers).map(|me| Peer::with_setup(setup(me))).collect();
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
                pending[peer].push((job, nodes[peer].begin::<T>(&jobs[job].operation).unwrap()));
                count[peer] += 1;
                idle = 0;
            }
            1 if !pending[peer].is_empty() => {
                let index = random.below(pending[peer].len());
                let (job, tag) = pending[peer][index];
                let before = pool.len();
                let over = nodes[peer].advance(tag, &mut jobs[job].data[peer], window, &mut pool).unwrap();
                // A call that is neither done nor waiting must have been stopped by the window.
                assert!(over || nodes[peer].calls[&tag].waits_for().is_some() || pool.len() > before);
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
                nodes[message.to.index()].early.keep(over_the_wire(&message, &mut random));
                idle = 0;
            }
            _ => {}
        }
        if pool.is_empty() && pending.iter().all(Vec::is_empty) && count.iter().all(|&count| count == jobs.len()) {
            assert!(nodes.iter().all(|node| node.early.is_empty() && node.calls.is_empty()));
            return jobs.into_iter().map(|job| job.data).collect();
        }
    }
}
