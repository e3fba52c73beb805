//! An inbox that takes its time, and an environment in which none passes.

use hemiola_core::{Env, Inbox, Message, Moment, PeerLost, Task};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// An inbox that, told of a loss, stays in the call until the test lets it go on.
pub(crate) struct Hesitant {
    told: (SyncSender<()>, parking_lot::Mutex<Receiver<()>>),
    go_on: (SyncSender<()>, parking_lot::Mutex<Receiver<()>>),
}

impl Hesitant {
    pub(crate) fn new() -> Arc<Self> {
        let pair = || {
            let (sender, receiver) = sync_channel(1);
            (sender, parking_lot::Mutex::new(receiver))
        };
        Arc::new(Self { told: pair(), go_on: pair() })
    }

    /// Waits until the inbox is told of a loss, does `look`, and lets it go on.
    pub(crate) fn while_it_hears(&self, look: impl FnOnce()) {
        self.told.1.lock().recv_timeout(PATIENCE).expect("nobody told of a loss");
        look();
        self.go_on.0.send(()).unwrap();
    }
}

impl Inbox for Hesitant {
    fn deliver(&self, _message: Message) {}

    fn lost(&self, _loss: PeerLost) {
        self.told.0.send(()).unwrap();
        self.go_on.1.lock().recv_timeout(PATIENCE).expect("the test did not let go");
    }
}

/// Time stands still.
#[derive(Debug)]
pub(crate) struct Still;

impl Env for Still {
    fn now(&self) -> Moment {
        Moment::from_nanos(0)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(4);
    }

    fn pause(&self, _duration: Duration) {}

    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<Task> {
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(Task::new(move || thread.join().unwrap()))
    }
}
