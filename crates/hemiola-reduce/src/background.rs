//! Collectives that go on while the program computes.
//!
//! A service of the cluster carries them on, oldest first: while the oldest waits for a message, the others send and take in what they can. All peers begin the same
//! collectives in the same order, so the oldest of the peer that is furthest behind can always go on. **Invariant:** whatever becomes of a
//! collective that was begun, whoever finishes it hears of it: by its result, its error, or word that the cluster has ended.

use crate::error::Error;
use crate::flight::{Flight, Progress};
use crate::outcome::{Awaited, Outcome, Wake};
use hemiola_cluster::{Cluster, Ending, Link, Result, Service};
use hemiola_collective::protocol::{Element, Tag};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long the oldest is waited for while others might go on.
const TURN: Duration = Duration::from_millis(1);
/// The same when there is no other: long enough to cost nothing, short enough to notice the end.
const ALONE: Duration = Duration::from_millis(20);
/// How long a sleeper goes without looking around; it is woken for everything it needs to know.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// A collective that was begun: something the service can carry on, whatever its elements are.
pub(crate) trait Begun: Send {
    /// Goes on; whether it is over, well or badly. Waits up to `timeout` if it cannot go on at once.
    fn carry_on(&mut self, timeout: Duration) -> bool;
}

struct Queue {
    /// Nothing once the service has ended.
    coming: Mutex<Option<Vec<Box<dyn Begun>>>>,
    wake: Condvar,
}

struct Job<T: Element> {
    flight: Flight,
    elements: Vec<T>,
    tag: Tag,
    outcome: Arc<Outcome<Result<Vec<T>>>>,
    over: bool,
}

impl<T: Element> Job<T> {
    fn end(&mut self, result: Result<Vec<T>>) {
        self.over = true;
        self.outcome.tell(result);
    }
}

impl<T: Element> Begun for Job<T> {
    fn carry_on(&mut self, timeout: Duration) -> bool {
        let step = self.flight.advance(&mut self.elements).and_then(|progress| {
            match progress {
                Progress::Done => return Ok(true),
                Progress::Waits(peer) | Progress::Full(peer) => self.outcome.waits_for(peer),
            }
            Ok(self.flight.wait(progress, timeout)? && self.flight.advance(&mut self.elements)? == Progress::Done)
        });
        match step {
            Ok(false) => {}
            Ok(true) => {
                let elements = std::mem::take(&mut self.elements);
                self.end(Ok(elements));
            }
            Err(error) => self.end(Err(error)),
        }
        self.over
    }
}

impl<T: Element> Drop for Job<T> {
    fn drop(&mut self) {
        if !self.over {
            let ended = Error::Ended { call: self.flight.call().to_string(), tag: self.tag.number() };
            self.end(Err(ended.into()));
        }
    }
}

/// The service, started with the first collective that is begun.
pub(crate) struct Background {
    queue: Arc<Queue>,
    service: Service,
}

impl Background {
    pub(crate) fn start(cluster: &Cluster) -> Result<Self> {
        let queue = Arc::new(Queue { coming: Mutex::new(Some(Vec::new())), wake: Condvar::new() });
        let (inside, waking) = (queue.clone(), queue.clone());
        let wake = move || {
            drop(waking.coming.lock());
            waking.wake.notify_all();
        };
        let service = cluster.service("collective", wake, move |ending| {
            serve(&inside, ending);
            Ok(())
        })?;
        Ok(Self { queue, service })
    }

    pub(crate) fn begin<T: Element>(
        &self,
        flight: Flight,
        elements: Vec<T>,
        tag: Tag,
        (link, wake): (Link, Option<Wake>),
    ) -> Pending<T> {
        let (outcome, awaited) = Outcome::new(link, flight.reason(), tag, wake);
        self.carry(Box::new(Job { flight, elements, tag, outcome, over: false }));
        Pending::new(awaited)
    }

    /// Takes something to be carried on.
    pub(crate) fn carry(&self, job: Box<dyn Begun>) {
        if let Some(coming) = &mut *self.queue.coming.lock() {
            coming.push(job);
        }
        // If the service has ended, the job was dropped just now, and has said so.
        self.queue.wake.notify_all();
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Background").field("service", &self.service).finish_non_exhaustive()
    }
}

/// Carries on what has begun until the cluster ends.
fn serve(queue: &Queue, ending: &Ending) {
    let mut flying: VecDeque<Box<dyn Begun>> = VecDeque::new();
    while !ending.has_come() {
        {
            let mut coming = queue.coming.lock();
            if flying.is_empty() && coming.as_ref().is_some_and(Vec::is_empty) && !ending.has_come() {
                queue.wake.wait_for(&mut coming, LOOK_AROUND);
            }
            flying.extend(coming.iter_mut().flat_map(|coming| coming.drain(..)));
        }
        let mut timeout = if flying.len() > 1 { TURN } else { ALONE };
        flying.retain_mut(|job| {
            let over = job.carry_on(timeout);
            // Only one is waited for, or the others would wait for its turn too.
            timeout = Duration::ZERO;
            !over
        });
    }
    drop(queue.coming.lock().take());
}

/// A collective that goes on by itself. Dropping this lets it go on, and its result is lost.
#[must_use = "the result comes from `finish`"]
pub struct Pending<T> {
    awaited: Awaited<Result<Vec<T>>>,
}

impl<T> Pending<T> {
    pub(crate) fn new(awaited: Awaited<Result<Vec<T>>>) -> Self {
        Self { awaited }
    }

    /// Which collective of its handle this is, by count.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.awaited.tag()
    }

    /// Whether [`Pending::finish`] would return at once.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.awaited.is_over()
    }

    /// Waits until it is over; the elements that were given to it, changed as the collective says.
    pub fn finish(self) -> Result<Vec<T>> {
        self.awaited.finish()
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pending").field("tag", &self.tag()).finish_non_exhaustive()
    }
}
