//! Collectives, one after the other or several in flight, with a computation before each.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::protocol::{
    BorrowedMessage, CallFailure, CallProgress, CallSetup, EarlyMessages, TagSequence,
};
use hemiola_collective_proto::{CollectiveCall, CollectiveElement, CollectiveMessage, Operation};
use hemiola_core::Rank;

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
    setup: CallSetup,
    tags: TagSequence,
    early: EarlyMessages,
    jobs: Vec<CollectiveJob<T>>,
    /// Jobs in flight with their calls.
    in_flight: Vec<(usize, CollectiveCall)>,
    started: usize,
    completed: usize,
    computing: bool,
    /// Maximum number of collectives in flight.
    max_in_flight: usize,
    fault: Option<MessageFault>,
}

impl<T: CollectiveElement> CollectiveActor<T> {
    /// Creates a peer with these jobs.
    #[must_use]
    pub fn new(setup: CallSetup, jobs: Vec<CollectiveJob<T>>, max_in_flight: usize) -> Self {
        let max_in_flight = max_in_flight.max(1);
        Self {
            setup,
            tags: TagSequence::starting_at(0),
            early: EarlyMessages::default(),
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
        let mut index = 0;
        while index < self.in_flight.len() {
            let (number, call) = &mut self.in_flight[index];
            let (elements, lane, fault) = (&mut self.jobs[*number].elements[..], call.lane(), self.fault);
            let mut send = |lent: BorrowedMessage<'_>| {
                let mut message = lent.to_message();
                if let Some(fault) = fault {
                    fault(&mut message);
                }
                context.send(message.to, lane, message.wire_bytes() + FRAME, message);
                true
            };
            let received = self.early.take(call.tag()).into_iter().try_for_each(|message| call.receive(message));
            match received.and_then(|()| call.advance(elements, &mut send)) {
                Ok(CallProgress::Done) => {
                    self.in_flight.remove(index);
                    self.completed += 1;
                }
                Ok(CallProgress::Waiting(_) | CallProgress::Blocked(_)) => index += 1,
                Err(CallFailure { error, .. }) => return Err(error.to_string()),
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
        self.early.keep(message);
        self.advance(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        self.computing = false;
        let number = self.started;
        let (tag, operation) = (self.tags.take_one(), &self.jobs[number].operation);
        let call = CollectiveCall::begin(self.setup, tag, operation, T::KIND).map_err(|error| error.to_string())?;
        self.in_flight.push((number, call));
        self.started += 1;
        self.advance(context)
    }

    fn is_done(&self) -> bool {
        self.completed == self.jobs.len()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let wait = |(_, call): &(usize, CollectiveCall)| {
            let what = format!("a message of collective {}: {}", call.tag(), call.signature());
            Some(PendingWait::new("driver", what, vec![call.waits_for()?]))
        };
        self.in_flight.iter().filter_map(wait).collect()
    }
}
