//! Monitor thread of a peer: sends heartbeats, detects silent peers, explains stalls.
//!
//! It owns the [`Liveness`] state and the [`ProgressTable`] of the latest heartbeats. It never
//! blocks on another peer: a heartbeat for which there is no room is skipped.

use crate::error::{Error, Result};
use crate::liveness::Liveness;
use crate::progress::{Heartbeat, ProgressTable, WorkMeter};
use crate::stop_request::StopRequest;
use crate::waits::WaitRegistry;
use crate::work_source::WorkSource;
use hemiola_core::{
    ChannelId, ChannelOwner, ClusterEvent, Deadlines, Env, Lane, LastHeartbeat, LossCause, Moment, Observer,
    OutgoingMessage, PeerLost, Purpose, Rank, StallReport, ThreadHandle, Transport, WaitSummary,
};
use hemiola_net::{ChannelReceiver, Router};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

const HEARTBEATS: ChannelId = ChannelId::of(ChannelOwner::Monitor, 0);

/// State that the monitor shares with the cluster.
#[derive(Debug)]
pub(crate) struct Monitor {
    transport: Arc<dyn Transport>,
    env: Arc<dyn Env>,
    observer: Arc<dyn Observer>,
    deadlines: Deadlines,
    waits: Arc<WaitRegistry>,
    work: WorkSource,
    progress: Mutex<ProgressTable>,
    stop: Mutex<bool>,
    wake: Condvar,
    thread: Mutex<Option<ThreadHandle>>,
    stop_request: StopRequest,
}

impl Monitor {
    /// Sends an event to the observer.
    pub(crate) fn observe(&self, event: &ClusterEvent) {
        self.observer.observe(event);
    }

    pub(crate) fn start(
        transport: &Arc<dyn Transport>,
        router: &Arc<Router>,
        env: &Arc<dyn Env>,
        observer: &Arc<dyn Observer>,
        deadlines: &Deadlines,
        waits: &Arc<WaitRegistry>,
        work: WorkSource,
    ) -> Result<Arc<Self>> {
        let monitor = Arc::new(Self {
            transport: transport.clone(),
            env: env.clone(),
            observer: observer.clone(),
            deadlines: deadlines.clone(),
            waits: waits.clone(),
            work,
            progress: Mutex::new(ProgressTable::new(transport.size(), env.now())),
            stop: Mutex::new(false),
            wake: Condvar::new(),
            thread: Mutex::new(None),
            stop_request: StopRequest::default(),
        });
        let heartbeats = router.open_channel(HEARTBEATS, Lane::Control, transport, env);
        let (body, router) = (monitor.clone(), router.clone());
        let name = format!("hemiola-monitor-{}", transport.rank());
        let thread = env.spawn(name, Box::new(move || body.run(&heartbeats, &router))).map_err(Error::Thread)?;
        *monitor.thread.lock() = Some(thread);
        Ok(monitor)
    }

    pub(crate) fn stop_request(&self) -> &StopRequest {
        &self.stop_request
    }

    /// Sets the moment at which the request to stop is set, or removes it.
    pub(crate) fn set_time_limit(&self, limit: Option<Moment>) {
        // The lock keeps the thread from falling asleep between its look at the limit and this.
        let lock = self.stop.lock();
        self.stop_request.set_limit(limit);
        self.wake.notify_all();
        drop(lock);
    }

    /// Stops the thread and waits for it.
    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.wake.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
    }

    /// Returns the local waits and the last known waits of the other peers.
    pub(crate) fn report(&self) -> StallReport {
        let rank = self.transport.rank();
        let remote = self.progress.lock().others(rank, self.env.now());
        StallReport { rank, local: self.waits.summary(), remote }
    }

    /// Last progress of the peers that a wait for `peer` depends on; see [`ProgressTable`].
    pub(crate) fn last_progress(&self, peer: Option<Rank>) -> Moment {
        self.progress.lock().last_progress(peer)
    }

    fn run(&self, heartbeats: &ChannelReceiver, router: &Router) {
        let Deadlines { silence, stall, .. } = self.deadlines;
        let mut liveness = Liveness::new(silence, self.deadlines.heartbeat(), self.env.now());
        let mut report_at = stall;
        let mut meter = WorkMeter::new(self.env.now(), self.work.read(&*self.env));
        loop {
            while let Some(message) = heartbeats.try_receive() {
                // A heartbeat that cannot be decoded is still a sign of life, which the transport
                // has recorded.
                if let Ok(heartbeat) = postcard::from_bytes(&message.payload) {
                    self.progress.lock().record(message.from, heartbeat, self.env.now());
                }
            }
            let now = self.env.now();
            let rank = self.transport.rank();
            let others = Rank::all(self.transport.size()).filter(|other| *other != rank && !router.is_gone(*other));
            let verdict = liveness.check(now, others.map(|other| (other, self.transport.last_heard(other))));
            for (silent, silence) in verdict.silent {
                let (address, cause) = (self.transport.address(silent), LossCause::Silent { silence });
                let loss = PeerLost { rank: silent, address, cause, last_heard: silence };
                self.observer.observe(&ClusterEvent::Lost(loss.clone()));
                self.transport.disconnect(loss);
            }
            if verdict.heartbeat_due {
                self.send_heartbeats(router, &mut meter);
                report_at = self.report_stall(report_at);
            }
            let mut stop = self.stop.lock();
            if *stop {
                return;
            }
            self.stop_request.update(self.env.now());
            let next = self.stop_request.limit().map_or(verdict.next, |limit| limit.min(verdict.next));
            self.wake.wait_for(&mut stop, (next - self.env.now()).max(Duration::from_millis(1)));
            if *stop {
                return;
            }
        }
    }

    fn send_heartbeats(&self, router: &Router, meter: &mut WorkMeter) {
        let now = self.env.now();
        let computing = meter.has_worked(now, self.work.read(&*self.env));
        let heartbeat = Heartbeat { waits: self.waits.summary(), ended_waits: self.waits.ended(), computing };
        let bytes = postcard::to_stdvec(&heartbeat).expect("heartbeats are plain data");
        let rank = self.transport.rank();
        self.progress.lock().record(rank, heartbeat, now);
        for other in Rank::all(self.transport.size()).filter(|other| *other != rank && !router.is_gone(*other)) {
            let payload = bytes.clone().into();
            let message =
                OutgoingMessage { lane: Lane::Control, channel: HEARTBEATS, purpose: Purpose::Liveness, payload };
            // No room means that other messages are under way, which is a sign of life too; losses
            // are detected elsewhere.
            let _ = self.transport.send(other, message, Duration::ZERO);
        }
    }

    /// Reports a stall if the longest wait is due. Returns the duration at which the next report is
    /// due.
    fn report_stall(&self, report_at: Duration) -> Duration {
        let stall = self.report();
        // Waiting for the own workers is not a stall, however long it lasts, while they compute.
        let own_silence = self.env.now() - self.progress.lock().progress_of(stall.rank);
        let stuck_here = own_silence >= self.deadlines.stall;
        let for_others = stall.local.iter().filter(|wait| wait.peer.is_some() || stuck_here);
        let Some(longest) = for_others.map(|wait| wait.waited).max() else { return self.deadlines.stall };
        if longest < self.deadlines.stall {
            return self.deadlines.stall;
        }
        if longest < report_at {
            return report_at;
        }
        // One report is enough: the lowest waiting rank writes it.
        let waits_long = |heartbeat: &LastHeartbeat| {
            let for_others = |wait: &WaitSummary| wait.peer.is_some() || !heartbeat.computing;
            heartbeat.waits.iter().any(|wait| for_others(wait) && wait.waited >= self.deadlines.stall)
        };
        let lower = stall.remote.iter().take_while(|(other, _)| *other < stall.rank);
        if !lower.into_iter().any(|(_, heartbeat)| heartbeat.as_ref().is_some_and(waits_long)) {
            self.observer.observe(&ClusterEvent::Stalled(stall));
        }
        longest * 2
    }
}
