//! Completion of a non-blocking collective: set once by the background thread, awaited by the
//! program.

use hemiola_cluster::{PeerHandle, WaitReason};
use hemiola_collective_proto::protocol::Tag;
use hemiola_core::{RECHECK_INTERVAL, Rank, Waiter};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Callback for arrivals and completions.
pub(crate) type NotifyFn = Arc<dyn Fn() + Send + Sync>;

/// Completion as seen by the background thread.
pub(crate) struct Completion<R> {
    state: Mutex<CompletionState<R>>,
    done: Condvar,
    on_complete: Option<NotifyFn>,
}

struct CompletionState<R> {
    result: Option<R>,
    /// Peer that the collective waits for, for stall reports.
    peer: Option<Rank>,
}

impl<R> Completion<R> {
    pub(crate) fn new(
        peer_handle: PeerHandle,
        reason: WaitReason,
        tag: Tag,
        on_complete: Option<NotifyFn>,
    ) -> (Arc<Self>, CompletionHandle<R>) {
        let state = Mutex::new(CompletionState { result: None, peer: None });
        let completion = Arc::new(Self { state, done: Condvar::new(), on_complete });
        (completion.clone(), CompletionHandle { completion, peer_handle, reason, tag })
    }

    pub(crate) fn waits_for(&self, peer: Rank) {
        self.state.lock().peer = Some(peer);
    }

    pub(crate) fn complete(&self, result: R) {
        self.state.lock().result = Some(result);
        self.done.notify_all();
        if let Some(on_complete) = &self.on_complete {
            on_complete();
        }
    }
}

/// Completion as seen by the program.
pub(crate) struct CompletionHandle<R> {
    completion: Arc<Completion<R>>,
    peer_handle: PeerHandle,
    reason: WaitReason,
    tag: Tag,
}

impl<R> CompletionHandle<R> {
    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.completion.state.lock().result.is_some()
    }

    pub(crate) fn wait(self) -> R {
        let mut state = self.completion.state.lock();
        loop {
            let peer = state.peer;
            let _waiting = self.peer_handle.waiting(Waiter::Driver, self.reason, peer);
            while state.peer == peer {
                if let Some(result) = state.result.take() {
                    return result;
                }
                // The background thread gives up by itself at the deadline, so this wait has one as
                // well.
                self.completion.done.wait_for(&mut state, RECHECK_INTERVAL);
            }
        }
    }
}
