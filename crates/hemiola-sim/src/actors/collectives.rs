//! Collectives, one after the other or several in flight, with a computation before each.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::protocol::{CollectiveBody, HEADER_BYTES};
use hemiola_collective_proto::{CollectiveElement, CollectiveEngine, CollectiveMessage, Operation, Tag};
use hemiola_core::{Lane, Rank};

/// Largest buffer in bytes whose collective uses the control lane.
const CONTROL_LANE_BYTES: usize = 1 << 13;

/// A collective with the buffer of this peer, which holds the result afterwards.
#[derive(Clone, Debug)]
pub struct CollectiveJob<T> {
    /// Operation of all peers.
    pub operation: Operation,
    /// Buffer of this peer.
    pub elements: Vec<T>,
    /// Duration of the computation before it.
    pub before: SimDuration,
}

/// Injected fault: changes a message before it is sent.
pub type MessageFault = fn(&mut CollectiveMessage);

/// A peer that executes a list of collectives.
#[derive(Debug)]
pub struct CollectiveActor<T> {
    engine: CollectiveEngine,
    jobs: Vec<CollectiveJob<T>>,
    /// Jobs in flight with their tags.
    in_flight: Vec<(usize, Tag)>,
    started: usize,
    completed: usize,
    computing: bool,
    /// Maximum number of collectives in flight.
    max_in_flight: usize,
    fault: Option<MessageFault>,
}

impl<T: CollectiveElement> CollectiveActor<T> {
    /// Creates a peer with these jobs. Messages carry up to `segment_bytes` bytes of elements.
    #[must_use]
    pub fn new(
        me: Rank,
        peers: usize,
        jobs: Vec<CollectiveJob<T>>,
        max_in_flight: usize,
        segment_bytes: usize,
    ) -> Self {
        let engine = CollectiveEngine::new(me, peers).segment_bytes(segment_bytes);
        let max_in_flight = max_in_flight.max(1);
        Self {
            engine,
            jobs,
            in_flight: Vec::new(),
            started: 0,
            completed: 0,
            computing: false,
            max_in_flight,
            fault: None,
        }
    }

    /// Injects a fault into outgoing messages.
    #[must_use]
    pub fn with_faults(mut self, fault: Option<MessageFault>) -> Self {
        self.fault = fault;
        self
    }

    /// Jobs with their buffers.
    #[must_use]
    pub fn jobs(&self) -> &[CollectiveJob<T>] {
        &self.jobs
    }

    /// Starts the computation before the next collective, if another one may be in flight.
    fn next(&mut self, context: &mut ActorContext<'_, CollectiveMessage>) {
        if self.started < self.jobs.len() && !self.computing && self.in_flight.len() < self.max_in_flight {
            context.end_wait(0);
            self.computing = true;
            context.compute(0, "computes", self.jobs[self.started].before, 0);
        } else if self.started < self.jobs.len() || !self.in_flight.is_empty() {
            if !self.computing {
                context.begin_wait(0, "waits for a collective");
            }
        } else {
            context.end_wait(0);
        }
    }

    /// Advances all collectives in flight as far as possible.
    fn advance(&mut self, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        let mut out = Vec::new();
        let mut index = 0;
        while index < self.in_flight.len() {
            let (number, tag) = self.in_flight[index];
            let job = &mut self.jobs[number];
            let bytes = size_of_val(&job.elements[..]);
            let lane = if bytes <= CONTROL_LANE_BYTES { Lane::Control } else { Lane::Bulk };
            let done = self.engine.advance(tag, &mut job.elements, &mut out).map_err(|error| error.to_string())?;
            for mut message in out.drain(..) {
                if let Some(fault) = self.fault {
                    fault(&mut message);
                }
                let CollectiveBody::Elements(elements) = &message.body else {
                    return Err("peers run different collectives".to_owned());
                };
                context.send(message.to, lane, elements.len() + HEADER_BYTES + FRAME, message);
            }
            if done {
                self.in_flight.remove(index);
                self.completed += 1;
            } else {
                index += 1;
            }
        }
        self.next(context);
        Ok(())
    }
}

impl<T: CollectiveElement> Actor for CollectiveActor<T> {
    type Message = CollectiveMessage;

    fn on_start(&mut self, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        self.next(context);
        Ok(())
    }

    fn on_message(
        &mut self,
        _: Rank,
        message: CollectiveMessage,
        context: &mut ActorContext<'_, CollectiveMessage>,
    ) -> ActorResult {
        self.engine.deliver(message).map_err(|error| error.to_string())?;
        self.advance(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        self.computing = false;
        let number = self.started;
        let tag = self.engine.begin::<T>(&self.jobs[number].operation).map_err(|error| error.to_string())?;
        self.in_flight.push((number, tag));
        self.started += 1;
        self.advance(context)
    }

    fn is_done(&self) -> bool {
        self.completed == self.jobs.len()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let wait = |wait: hemiola_collective_proto::protocol::CollectiveWait| {
            PendingWait::new("driver", format!("a message of collective {}: {}", wait.tag, wait.call), vec![wait.peer])
        };
        self.engine.waits().map(wait).collect()
    }
}
