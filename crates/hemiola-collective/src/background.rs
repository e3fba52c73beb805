//! Collectives that go on while the program computes.
//!
//! A service of the cluster carries them on, oldest first, whenever a message has come for one of them or another is begun. All peers begin the same
//! collectives in the same order, so the oldest of the peer that is furthest behind can always go on. **Invariant:** whatever becomes of a
//! collective that was begun, whoever finishes it hears of it: by its result, its error, or word that the cluster has ended.

use crate::error::Error;
use crate::flight::{Flight, Progress};
use crate::outcome::{Awaited, Outcome, Wake};
use hemiola_cluster::{Cluster, Ending, Link, Result, Service};
use hemiola_collective_proto::protocol::{Element, Tag};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long until it is tried again to send what nobody had room for: nothing tells when there is.
const AGAIN: Duration = Duration::from_millis(1);
/// How long a sleeper goes without looking around; it is woken for everything else it needs to know.
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// The same while nothing is under way that could be late.
const IDLE: Duration = Duration::from_secs(1);

/// How far something came that was carried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// It is over, well or badly.
    Over,
    /// It waits for a message.
    Waits,
    /// It waits for somebody to have room.
    Full,
}

/// A collective that was begun: something the service can carry on, whatever its elements are.
pub(crate) trait Begun: Send {
    /// Has `ring` called whenever a message has come for it.
    fn with_bell(&mut self, ring: &Wake);

    /// Goes on as far as it can.
    fn carry_on(&mut self) -> Came;
}

struct Queue {
    /// Nothing once the service has ended.
    coming: Mutex<Option<Coming>>,
    wake: Condvar,
}

#[derive(Default)]
struct Coming {
    jobs: Vec<Box<dyn Begun>>,
    /// Something may have come for one of those that fly.
    rung: bool,
}

impl Queue {
    fn ring(&self) {
        if let Some(coming) = &mut *self.coming.lock() {
            coming.rung = true;
        }
        self.wake.notify_all();
    }
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
    fn with_bell(&mut self, ring: &Wake) {
        self.flight.with_bell(ring);
    }

    fn carry_on(&mut self) -> Came {
        loop {
            let went = self.flight.advance(&mut self.elements).and_then(|progress| {
                if let Progress::Waits(peer) | Progress::Full(peer) = progress {
                    self.outcome.waits_for(peer);
                }
                Ok((progress, self.flight.wait(progress, Duration::ZERO)?))
            });
            match went {
                Ok((Progress::Done, _)) => {
                    let elements = std::mem::take(&mut self.elements);
                    self.end(Ok(elements));
                }
                Ok((Progress::Waits(_), true)) => continue,
                Ok((Progress::Waits(_), false)) => return Came::Waits,
                Ok((Progress::Full(_), _)) => return Came::Full,
                Err(error) => self.end(Err(error)),
            }
            return Came::Over;
        }
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
        let queue = Arc::new(Queue { coming: Mutex::new(Some(Coming::default())), wake: Condvar::new() });
        let (inside, waking) = (queue.clone(), queue.clone());
        let service = cluster.service(
            "collective",
            move || waking.ring(),
            move |ending| {
                serve(&inside, ending);
                Ok(())
            },
        )?;
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
            coming.jobs.push(job);
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
fn serve(queue: &Arc<Queue>, ending: &Ending) {
    let ringing = queue.clone();
    let bell: Wake = Arc::new(move || ringing.ring());
    let mut flying: VecDeque<Box<dyn Begun>> = VecDeque::new();
    let mut patience = LOOK_AROUND;
    while !ending.has_come() {
        let mut begun = {
            let mut coming = queue.coming.lock();
            let quiet = |coming: &Option<Coming>| coming.as_ref().is_some_and(|it| it.jobs.is_empty() && !it.rung);
            if quiet(&coming) && !ending.has_come() {
                queue.wake.wait_for(&mut coming, if flying.is_empty() { IDLE } else { patience });
            }
            coming.as_mut().map(|coming| {
                coming.rung = false;
                std::mem::take(&mut coming.jobs)
            })
        };
        // A bell before the first look: whatever comes after that look rings.
        begun.iter_mut().flatten().for_each(|job| job.with_bell(&bell));
        flying.extend(begun.into_iter().flatten());
        patience = LOOK_AROUND;
        flying.retain_mut(|job| match job.carry_on() {
            Came::Over => false,
            Came::Waits => true,
            Came::Full => {
                patience = AGAIN;
                true
            }
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
