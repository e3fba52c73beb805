//! A worker on the ring: takes blocks in, does their jobs, passes them on.

use super::Rotating;
use crate::error::Error;
use crate::meet::encoded;
use crate::plan::ring::Seat;
use hemiola_cluster::{Cluster, Mailbox, Reason, panic_message};
use hemiola_core::{ChannelId, Lane, Outgoing, Purpose, Rank, Waiter, WorkerId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// What goes from a worker to the next.
#[derive(Serialize, Deserialize)]
pub(super) enum Word<J> {
    Block {
        home: usize,
        block: usize,
        jobs: Vec<J>,
    },
    /// The sender, or one before it, has failed.
    Stop,
}

/// The way in or out: a queue of this peer, or another peer.
pub(super) enum Door<Q, P> {
    Queue(Q),
    Peer(P),
}

/// Where blocks come from, and where they go.
type Entry<'s, J> = Door<Receiver<Word<J>>, (Rank, &'s Mailbox)>;
type Exit<J> = Door<Sender<Word<J>>, (Rank, ChannelId)>;

/// Why a worker did not come to the end.
pub(super) enum Stopped {
    /// It failed, for all to hear of.
    Failed(Error),
    /// It heard that another has.
    Heard,
    /// There is nobody to tell.
    Lost(hemiola_cluster::Error),
}

impl Stopped {
    /// The one that says more.
    pub(super) fn or(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Heard, _) | (Self::Failed(_), Self::Lost(_)) => other,
            _ => self,
        }
    }

    /// What others should hear.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Failed(error) => Some(error.to_string()),
            Self::Heard => None,
            Self::Lost(error) => Some(error.to_string()),
        }
    }
}

impl From<hemiola_cluster::Error> for Stopped {
    fn from(error: hemiola_cluster::Error) -> Self {
        Self::Lost(error)
    }
}

pub(super) struct Station<'s, P: Rotating> {
    cluster: &'s Cluster,
    worker: usize,
    program: &'s P,
    rotation: u64,
    seat: Seat,
    /// Blocks that are here and have not run, in the order of [`Seat::next`].
    here: VecDeque<Vec<P::Job>>,
    /// Its own blocks that are back, by number.
    back: BTreeMap<usize, Vec<P::Job>>,
    own: &'s mut P::Own,
    partial: P::Partial,
    entry: Entry<'s, P::Job>,
    exit: Exit<P::Job>,
}

impl<'s, P: Rotating> Station<'s, P> {
    #[expect(clippy::too_many_arguments, reason = "it is made in one place, from what is in scope there")]
    pub(super) fn new(
        cluster: &'s Cluster,
        worker: usize,
        (program, rotation): (&'s P, u64),
        seat: Seat,
        home: Vec<Vec<P::Job>>,
        own: &'s mut P::Own,
        entry: Entry<'s, P::Job>,
        exit: Exit<P::Job>,
    ) -> Self {
        let (here, back, partial) = (home.into(), BTreeMap::new(), P::Partial::default());
        Self { cluster, worker, program, rotation, seat, here, back, own, partial, entry, exit }
    }

    /// Its blocks, if they are back, and what it found.
    pub(super) fn leave(self) -> (Vec<Vec<P::Job>>, P::Partial) {
        let alone = self.here.into_iter();
        (self.back.into_values().chain(alone).collect(), self.partial)
    }

    /// Runs steps: in step `k` the blocks of the seat `k` before this one. In the last, its own come back. How long it worked.
    pub(super) fn run(&mut self, steps: Range<usize>) -> Result<Duration, Stopped> {
        let outcome = self.steps(steps);
        if outcome.is_err() {
            // If the next one is gone, it has failed, too.
            let _ = self.pass_on(Word::Stop);
        }
        outcome
    }

    fn steps(&mut self, steps: Range<usize>) -> Result<Duration, Stopped> {
        let mut busy = Duration::ZERO;
        for step in steps {
            for _ in 0..self.seat.blocks_of(step) {
                if step > 0 {
                    self.take_in()?;
                }
                if step < self.seat.seats() {
                    busy += self.work()?;
                }
            }
        }
        Ok(busy)
    }

    /// Waits for the next block.
    fn take_in(&mut self) -> Result<(), Stopped> {
        // Alone on a ring, blocks stay.
        if self.seat.due().is_none() {
            return Ok(());
        }
        let reason = Reason { what: "a block of rotation", number: Some(self.rotation), site: None };
        let waiter = Waiter::Worker(WorkerId::new(self.worker as u32));
        let word = match &self.entry {
            Door::Queue(queue) => {
                let _waiting = self.cluster.waiting(waiter, reason, None);
                match queue.recv_timeout(self.cluster.deadlines().wait) {
                    Ok(word) => word,
                    Err(RecvTimeoutError::Disconnected) => Word::Stop,
                    Err(RecvTimeoutError::Timeout) => {
                        return Err(Stopped::Lost(hemiola_cluster::Error::TimedOut {
                            reason: format!("{reason} from the worker before"),
                            waited: self.cluster.deadlines().wait,
                            report: format!("\n{}", self.cluster.stall_report()),
                        }));
                    }
                }
            }
            Door::Peer((from, mailbox)) => {
                let message = self.cluster.receive(mailbox, *from, waiter, reason)?;
                let nonsense = |error: postcard::Error| {
                    let (round, reason) = (self.rotation, error.to_string());
                    Stopped::Failed(Error::Nonsense { round, rank: *from, reason })
                };
                postcard::from_bytes(&message.payload).map_err(nonsense)?
            }
        };
        let Word::Block { home, block, jobs } = word else { return Err(Stopped::Heard) };
        let out_of_turn = |error: crate::plan::ring::OutOfTurn| {
            let (round, rank, reason) = (self.rotation, self.cluster.rank(), error.to_string());
            Stopped::Failed(Error::Nonsense { round, rank, reason })
        };
        if self.seat.arrived(home, block).map_err(out_of_turn)? {
            self.back.insert(block, jobs);
        } else {
            self.here.push_back(jobs);
        }
        Ok(())
    }

    /// Does the jobs of the next block and passes it on. How long that took.
    fn work(&mut self) -> Result<Duration, Stopped> {
        let (Some((home, block)), Some(mut jobs)) = (self.seat.next(), self.here.pop_front()) else {
            return Ok(Duration::ZERO);
        };
        let start = self.cluster.env().now();
        let mut at = 0;
        let (program, own, partial) = (self.program, &mut *self.own, &mut self.partial);
        let done = catch_unwind(AssertUnwindSafe(|| {
            for job in &mut jobs {
                program.update(job, own, partial);
                at += 1;
            }
        }));
        if let Err(panic) = done {
            let (round, rank, message) = (self.rotation, self.cluster.rank(), panic_message(&*panic));
            let job = jobs.get(at).map(|job| format!("{job:?}")).unwrap_or_default();
            return Err(Stopped::Failed(Error::Job { job, round, rank, message }));
        }
        let busy = self.cluster.env().now() - start;
        self.seat.ran();
        if self.seat.seats() == 1 {
            self.here.push_back(jobs);
        } else {
            self.pass_on(Word::Block { home, block, jobs })?;
        }
        Ok(busy)
    }

    fn pass_on(&self, word: Word<P::Job>) -> Result<(), Stopped> {
        match &self.exit {
            Door::Queue(queue) => queue.send(word).map_err(|_| Stopped::Heard),
            Door::Peer((to, channel)) => {
                let payload = encoded(&word)?.into();
                let message = Outgoing { lane: Lane::Bulk, channel: *channel, purpose: Purpose::Rotation, payload };
                Ok(self.cluster.send(*to, message)?)
            }
        }
    }
}
