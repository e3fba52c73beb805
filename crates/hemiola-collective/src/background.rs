//! Non-blocking collectives.
//!
//! One background thread, a service of the cluster, drives all of them, oldest first. It waits on a
//! single condition variable, signalled by arriving messages and by new submissions. All peers
//! start the same collectives in the same order, so the oldest one of the peer that is furthest
//! behind can always advance. **Invariant:** every non-blocking collective completes with its
//! result, its error, or the error that the cluster has ended.

use crate::completion::{Completion, CompletionHandle, NotifyFn};
use crate::error::Error;
use crate::in_flight::InFlightCollective;
use hemiola_cluster::{Cluster, PeerHandle, Result, ServiceHandle, ShutdownToken};
use hemiola_collective_proto::protocol::{CallProgress, CollectiveElement, Tag};
use hemiola_core::{POLL_INTERVAL, RECHECK_INTERVAL};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Interval between attempts to send to a peer without room; no event signals that there is room
/// again.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Result of polling a background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskPoll {
    /// The task is complete, with a result or an error.
    Ready,
    /// The task waits for a message.
    Pending,
    /// The task waits for a peer to have room.
    Blocked,
}

/// Task of the background thread: a non-blocking collective with any element type.
pub(crate) trait BackgroundTask: Send {
    /// Sets the callback that is called whenever a message for the task arrives.
    fn set_waker(&mut self, waker: &NotifyFn);

    /// Advances the task as far as possible.
    fn poll(&mut self) -> TaskPoll;
}

struct TaskQueue {
    /// `None` after the service has ended.
    queued: Mutex<Option<QueuedTasks>>,
    wake: Condvar,
}

#[derive(Default)]
struct QueuedTasks {
    tasks: Vec<Box<dyn BackgroundTask>>,
    /// A message may have arrived for a task in flight.
    notified: bool,
}

impl TaskQueue {
    fn notify(&self) {
        if let Some(queued) = &mut *self.queued.lock() {
            queued.notified = true;
        }
        self.wake.notify_all();
    }
}

struct CollectiveTask<T: CollectiveElement> {
    in_flight: InFlightCollective,
    elements: Vec<T>,
    completion: Arc<Completion<Result<Vec<T>>>>,
    completed: bool,
}

impl<T: CollectiveElement> CollectiveTask<T> {
    fn complete(&mut self, result: Result<Vec<T>>) {
        self.completed = true;
        self.completion.complete(result);
    }
}

impl<T: CollectiveElement> BackgroundTask for CollectiveTask<T> {
    fn set_waker(&mut self, waker: &NotifyFn) {
        self.in_flight.set_waker(waker);
    }

    fn poll(&mut self) -> TaskPoll {
        loop {
            let polled = self.in_flight.advance(&mut self.elements[..]).and_then(|progress| {
                if let CallProgress::Waiting(peer) | CallProgress::Blocked(peer) = progress {
                    self.completion.waits_for(peer);
                }
                Ok((progress, self.in_flight.wait(progress, Duration::ZERO)?))
            });
            match polled {
                Ok((CallProgress::Done, _)) => {
                    let elements = std::mem::take(&mut self.elements);
                    self.complete(Ok(elements));
                }
                Ok((CallProgress::Waiting(_), true)) => continue,
                Ok((CallProgress::Waiting(_), false)) => return TaskPoll::Pending,
                Ok((CallProgress::Blocked(_), _)) => return TaskPoll::Blocked,
                Err(error) => self.complete(Err(error)),
            }
            return TaskPoll::Ready;
        }
    }
}

impl<T: CollectiveElement> Drop for CollectiveTask<T> {
    fn drop(&mut self) {
        if !self.completed {
            let call = self.in_flight.call();
            let ended = Error::ClusterEnded { call: call.signature().to_string(), tag: call.tag().number() };
            self.complete(Err(ended.into()));
        }
    }
}

/// Handle of the background thread, which starts with the first non-blocking collective.
pub(crate) struct BackgroundDriver {
    queue: Arc<TaskQueue>,
    service: ServiceHandle,
}

impl BackgroundDriver {
    pub(crate) fn start(cluster: &Cluster) -> Result<Self> {
        let queue = Arc::new(TaskQueue { queued: Mutex::new(Some(QueuedTasks::default())), wake: Condvar::new() });
        let (inside, notified) = (queue.clone(), queue.clone());
        let service = cluster.service(
            "collective",
            move || notified.notify(),
            move |ending| {
                drive(&inside, ending);
                Ok(())
            },
        )?;
        Ok(Self { queue, service })
    }

    pub(crate) fn begin<T: CollectiveElement>(
        &self,
        in_flight: InFlightCollective,
        elements: Vec<T>,
        (peer_handle, on_complete): (PeerHandle, Option<NotifyFn>),
    ) -> PendingCollective<T> {
        let (completion, handle) =
            Completion::new(peer_handle, in_flight.reason(), in_flight.call().tag(), on_complete);
        self.submit(Box::new(CollectiveTask { in_flight, elements, completion, completed: false }));
        PendingCollective::new(handle)
    }

    /// Submits a task to the background thread.
    pub(crate) fn submit(&self, task: Box<dyn BackgroundTask>) {
        if let Some(queued) = &mut *self.queue.queued.lock() {
            queued.tasks.push(task);
        }
        // If the service has ended, the task was dropped just now, and has completed with an error.
        self.queue.wake.notify_all();
    }
}

impl fmt::Debug for BackgroundDriver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BackgroundDriver").field("service", &self.service).finish_non_exhaustive()
    }
}

/// Polls tasks until the cluster ends.
fn drive(queue: &Arc<TaskQueue>, ending: &ShutdownToken) {
    let notified = queue.clone();
    let waker: NotifyFn = Arc::new(move || notified.notify());
    let mut in_flight: VecDeque<Box<dyn BackgroundTask>> = VecDeque::new();
    let mut interval = POLL_INTERVAL;
    while !ending.is_shutdown_requested() {
        let mut submitted = {
            let mut queued = queue.queued.lock();
            let quiet = |queued: &Option<QueuedTasks>| {
                queued.as_ref().is_some_and(|queued| queued.tasks.is_empty() && !queued.notified)
            };
            if quiet(&queued) && !ending.is_shutdown_requested() {
                queue.wake.wait_for(&mut queued, if in_flight.is_empty() { RECHECK_INTERVAL } else { interval });
            }
            queued.as_mut().map(|queued| {
                queued.notified = false;
                std::mem::take(&mut queued.tasks)
            })
        };
        // The waker is set before the first poll, so that every later arrival is noticed.
        submitted.iter_mut().flatten().for_each(|task| task.set_waker(&waker));
        in_flight.extend(submitted.into_iter().flatten());
        interval = POLL_INTERVAL;
        in_flight.retain_mut(|task| match task.poll() {
            TaskPoll::Ready => false,
            TaskPoll::Pending => true,
            TaskPoll::Blocked => {
                interval = RETRY_INTERVAL;
                true
            }
        });
    }
    drop(queue.queued.lock().take());
}

/// Non-blocking collective. Dropping the handle does not stop it; its result is lost.
#[must_use = "the result comes from `wait`"]
pub struct PendingCollective<T> {
    handle: CompletionHandle<Result<Vec<T>>>,
}

impl<T> PendingCollective<T> {
    pub(crate) fn new(handle: CompletionHandle<Result<Vec<T>>>) -> Self {
        Self { handle }
    }

    /// Tag of the collective within its communicator.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.handle.tag()
    }

    /// Returns true if [`PendingCollective::wait`] would return at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.handle.is_ready()
    }

    /// Waits for completion and returns the given elements with the result of the collective.
    pub fn wait(self) -> Result<Vec<T>> {
        self.handle.wait()
    }
}

impl<T> fmt::Debug for PendingCollective<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PendingCollective").field("tag", &self.tag()).finish_non_exhaustive()
    }
}
