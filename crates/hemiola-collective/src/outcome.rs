//! What becomes of a collective that was begun: told once by the service that carries it on, awaited by whoever finishes it.

use hemiola_cluster::{Link, Reason};
use hemiola_collective_proto::protocol::Tag;
use hemiola_core::{Rank, Waiter};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// How long a sleeper goes without looking around; it is woken for everything it needs to know.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// Called when something that was begun is over.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// The service's side.
pub(crate) struct Outcome<R> {
    state: Mutex<State<R>>,
    over: Condvar,
    wake: Option<Wake>,
}

struct State<R> {
    result: Option<R>,
    /// Whom it waits for, for reports.
    peer: Option<Rank>,
}

impl<R> Outcome<R> {
    pub(crate) fn new(link: Link, reason: Reason, tag: Tag, wake: Option<Wake>) -> (Arc<Self>, Awaited<R>) {
        let state = Mutex::new(State { result: None, peer: None });
        let outcome = Arc::new(Self { state, over: Condvar::new(), wake });
        (outcome.clone(), Awaited { outcome, link, reason, tag })
    }

    pub(crate) fn waits_for(&self, peer: Rank) {
        self.state.lock().peer = Some(peer);
    }

    pub(crate) fn tell(&self, result: R) {
        self.state.lock().result = Some(result);
        self.over.notify_all();
        if let Some(wake) = &self.wake {
            wake();
        }
    }
}

/// The program's side.
pub(crate) struct Awaited<R> {
    outcome: Arc<Outcome<R>>,
    link: Link,
    reason: Reason,
    tag: Tag,
}

impl<R> Awaited<R> {
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    pub(crate) fn is_over(&self) -> bool {
        self.outcome.state.lock().result.is_some()
    }

    pub(crate) fn finish(self) -> R {
        let mut state = self.outcome.state.lock();
        loop {
            let peer = state.peer;
            let _waiting = self.link.waiting(Waiter::Driver, self.reason, peer);
            while state.peer == peer {
                if let Some(result) = state.result.take() {
                    return result;
                }
                // The service gives up by itself at the deadline, so this wait has one, too.
                self.outcome.over.wait_for(&mut state, LOOK_AROUND);
            }
        }
    }
}
