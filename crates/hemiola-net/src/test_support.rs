//! Test doubles: a sink that blocks on a loss, and an environment in which time stands still.

use hemiola_core::{Env, Message, MessageSink, Moment, PeerLost, ThreadHandle};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Timeout far beyond the duration of these tests.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Sink that blocks in the report of a loss until the test resumes it.
pub(crate) struct BlockingSink {
    loss_reported: (SyncSender<()>, parking_lot::Mutex<Receiver<()>>),
    resume: (SyncSender<()>, parking_lot::Mutex<Receiver<()>>),
}

impl BlockingSink {
    pub(crate) fn new() -> Arc<Self> {
        let pair = || {
            let (sender, receiver) = sync_channel(1);
            (sender, parking_lot::Mutex::new(receiver))
        };
        Arc::new(Self { loss_reported: pair(), resume: pair() })
    }

    /// Waits until a loss is reported, runs `check`, and resumes the sink.
    pub(crate) fn while_blocked(&self, check: impl FnOnce()) {
        self.loss_reported.1.lock().recv_timeout(TIMEOUT).expect("no loss was reported");
        check();
        self.resume.0.send(()).unwrap();
    }
}

impl MessageSink for BlockingSink {
    fn deliver(&self, _message: Message) {}

    fn peer_lost(&self, _loss: PeerLost) {
        self.loss_reported.0.send(()).unwrap();
        self.resume.1.lock().recv_timeout(TIMEOUT).expect("the test did not resume the sink");
    }
}

/// Environment in which time stands still.
#[derive(Debug)]
pub(crate) struct FrozenTimeEnv;

impl Env for FrozenTimeEnv {
    fn now(&self) -> Moment {
        Moment::from_nanos(0)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(4);
    }

    fn sleep(&self, _duration: Duration) {}

    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<ThreadHandle> {
        let thread = std::thread::Builder::new().name(name).spawn(body)?;
        Ok(ThreadHandle::new(move || thread.join().unwrap()))
    }
}
