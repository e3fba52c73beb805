//! The thread that keeps a peer's promises about time: heartbeats out, silence noticed, stalls explained.
//!
//! It owns [`Liveness`] and what other peers last said of themselves. It never blocks on another peer: a heartbeat for
//! which there is no room is skipped.

use crate::error::{Error, Result};
use crate::liveness::Liveness;
use crate::waits::Waits;
use hemiola_core::{
    ChannelId, Deadlines, Env, Event, Lane, LastWords, LossCause, Moment, Observer, Outgoing, PeerLost, Purpose, Rank,
    Stall, Task, Transport, WaitSummary,
};
use hemiola_net::{Mailbox, Router};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// Top byte of the channels that belong to liveness.
const OWNER: u8 = 1;
const HEARTBEATS: ChannelId = ChannelId::of(OWNER, 0);

/// What another peer last said of itself, and when.
#[derive(Clone, Debug)]
struct Heartbeat {
    waits: Vec<WaitSummary>,
    when: Moment,
}

/// What the monitor shares with the cluster.
#[derive(Debug)]
pub(crate) struct Monitor {
    transport: Arc<dyn Transport>,
    env: Arc<dyn Env>,
    observer: Arc<dyn Observer>,
    deadlines: Deadlines,
    waits: Arc<Waits>,
    /// By rank: its latest heartbeat.
    heard: Mutex<Vec<Option<Heartbeat>>>,
    stop: Mutex<bool>,
    wake: Condvar,
    task: Mutex<Option<Task>>,
}

impl Monitor {
    pub(crate) fn start(
        transport: &Arc<dyn Transport>,
        board: &Arc<Router>,
        env: &Arc<dyn Env>,
        observer: &Arc<dyn Observer>,
        deadlines: &Deadlines,
        waits: &Arc<Waits>,
    ) -> Result<Arc<Self>> {
        let monitor = Arc::new(Self {
            transport: transport.clone(),
            env: env.clone(),
            observer: observer.clone(),
            deadlines: deadlines.clone(),
            waits: waits.clone(),
            heard: Mutex::new(vec![None; transport.size()]),
            stop: Mutex::new(false),
            wake: Condvar::new(),
            task: Mutex::new(None),
        });
        let heartbeats = board.open(HEARTBEATS, Lane::Control, transport, env);
        let (body, board) = (monitor.clone(), board.clone());
        let name = format!("hemiola-monitor-{}", transport.rank());
        let task = env.spawn(name, Box::new(move || body.run(&heartbeats, &board))).map_err(Error::Thread)?;
        *monitor.task.lock() = Some(task);
        Ok(monitor)
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.wake.notify_all();
        if let Some(task) = self.task.lock().take() {
            task.join();
        }
    }

    /// Who waits for what, as far as known here.
    pub(crate) fn report(&self) -> Stall {
        let now = self.env.now();
        let heard = self.heard.lock();
        let others = heard.iter().enumerate().map(|(index, said)| {
            let words = said.as_ref().map(|Heartbeat { waits, when }| {
                let age = now - *when;
                let waits = waits
                    .iter()
                    .cloned()
                    .map(|wait| WaitSummary { waited: wait.waited.saturating_add(age), ..wait })
                    .collect();
                LastWords { waits, age }
            });
            (Rank::new(index as u32), words)
        });
        let rank = self.transport.rank();
        Stall { rank, here: self.waits.summary(), others: others.filter(|(other, _)| *other != rank).collect() }
    }

    fn run(&self, heartbeats: &Mailbox, board: &Router) {
        let Deadlines { silence, stall, .. } = self.deadlines;
        let mut liveness = Liveness::new(silence, self.deadlines.heartbeat(), self.env.now());
        let mut report_at = stall;
        loop {
            while let Some(message) = heartbeats.try_receive() {
                // A heartbeat that cannot be read is still a sign of life, which the transport has noted.
                if let Ok(waits) = postcard::from_bytes(&message.payload) {
                    self.heard.lock()[message.from.index()] = Some(Heartbeat { waits, when: self.env.now() });
                }
            }
            let now = self.env.now();
            let rank = self.transport.rank();
            let others = Rank::all(self.transport.size()).filter(|other| *other != rank && !board.is_gone(*other));
            let verdict = liveness.look(now, others.map(|other| (other, self.transport.last_heard(other))));
            for (silent, silence) in verdict.silent {
                let (address, cause) = (self.transport.address(silent), LossCause::Silent { silence });
                let loss = PeerLost { rank: silent, address, cause, last_heard: silence };
                self.observer.observe(&Event::Lost(loss.clone()));
                self.transport.sever(loss);
            }
            if verdict.beat {
                self.beat(board);
                report_at = self.explain_stall(report_at);
            }
            let mut stop = self.stop.lock();
            if *stop {
                return;
            }
            self.wake.wait_for(&mut stop, (verdict.next - self.env.now()).max(Duration::from_millis(1)));
            if *stop {
                return;
            }
        }
    }

    fn beat(&self, board: &Router) {
        let waits = postcard::to_stdvec(&self.waits.summary()).expect("summaries are plain data");
        let rank = self.transport.rank();
        for other in Rank::all(self.transport.size()).filter(|other| *other != rank && !board.is_gone(*other)) {
            let payload = waits.clone().into();
            let message = Outgoing { lane: Lane::Control, channel: HEARTBEATS, purpose: Purpose::Liveness, payload };
            // No room means that plenty is on its way, which is a sign of life too; a loss is noticed by others.
            let _ = self.transport.send(other, message, Duration::ZERO);
        }
    }

    /// Shows the longest wait if it is due; returns the length at which the next one is.
    fn explain_stall(&self, report_at: Duration) -> Duration {
        let stall = self.report();
        // Waiting for one's own workers is not stalling, however long: they compute.
        let for_others = stall.here.iter().filter(|wait| wait.peer.is_some());
        let Some(longest) = for_others.map(|wait| wait.waited).max() else { return self.deadlines.stall };
        if longest < self.deadlines.stall {
            return self.deadlines.stall;
        }
        if longest < report_at {
            return report_at;
        }
        // One report is enough: the lowest rank that waits makes it.
        let is_long = |wait: &WaitSummary| wait.peer.is_some() && wait.waited >= self.deadlines.stall;
        let waits_long = |words: &LastWords| words.waits.iter().any(is_long);
        let lower = stall.others.iter().take_while(|(other, _)| *other < stall.rank);
        if !lower.into_iter().any(|(_, words)| words.as_ref().is_some_and(waits_long)) {
            self.observer.observe(&Event::Stalled(stall));
        }
        longest * 2
    }
}
