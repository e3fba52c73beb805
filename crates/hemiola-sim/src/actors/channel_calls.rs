//! Collectives in flight of a `SyncNode`, on the channels that the node names.
//!
//! Each channel has its own tags and its own messages that arrived early, as each has a
//! communicator of its own on a cluster. The call of an operation comes from `CallPlan`, which the
//! runtime uses as well. **Invariant:** a message advances the call of its channel and tag only, so
//! the work per message does not depend on the number of calls in flight.

use crate::actor::ActorContext;
use crate::actors::FRAME;
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::compress::{CompressedCall, StageEnd};
use hemiola_collective_proto::protocol::{
    BorrowedMessage, CallFailure, CallProgress, CallSetup, EarlyMessages, ElementKind, TagSequence,
};
use hemiola_collective_proto::{CollectiveCall, CollectiveMessage, Compressor, Operation};
use hemiola_sync_proto::{CallPlan, CollectiveId, CollectiveOp, CollectiveOutput, SyncChannel, TableMessage};

/// Message between the nodes of two peers.
#[derive(Clone, Debug)]
pub enum SyncMessage {
    /// Message of a collective.
    Collective {
        /// Channel of the collective.
        channel: SyncChannel,
        /// Message of the collective.
        message: CollectiveMessage,
    },
    /// Message of a table.
    Table(TableMessage<f32>),
}

/// Result of a collective that has completed.
pub(super) type CompletedCall = (CollectiveId, CollectiveOutput);

/// Buffer of a call in flight, by the type of its elements.
#[derive(Debug)]
enum CallData {
    Elements(Vec<f32>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    /// A compressed call, and the compressor that it was lent.
    Compressed(Box<(CompressedCall, Compressor)>),
}

#[derive(Debug)]
struct ChannelCall {
    id: CollectiveId,
    channel: SyncChannel,
    /// The call, or the current stage of a compressed one.
    stage: CollectiveCall,
    data: CallData,
}

/// Tags and early messages of one channel.
#[derive(Debug)]
struct CallChannel {
    tags: TagSequence,
    early: EarlyMessages,
}

/// All collectives in flight of one peer.
#[derive(Debug)]
pub(super) struct ChannelCalls {
    setup: CallSetup,
    /// By channel, in the order of [`SyncChannel::ALL`].
    channels: Vec<CallChannel>,
    in_flight: Vec<ChannelCall>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl ChannelCalls {
    pub(super) fn new(setup: CallSetup) -> Self {
        let channel = |_| CallChannel { tags: TagSequence::starting_at(0), early: EarlyMessages::default() };
        Self { setup, channels: SyncChannel::ALL.map(channel).into(), in_flight: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Starts a collective; returns its result if it completes at once.
    pub(super) fn start(
        &mut self,
        id: CollectiveId,
        channel: SyncChannel,
        op: CollectiveOp,
        context: &mut ActorContext<'_, SyncMessage>,
    ) -> Result<Option<CompletedCall>, String> {
        let (setup, tags) = (self.setup, &self.channels[channel.index()].tags);
        let begin = |operation: &Operation, kind: ElementKind| {
            CollectiveCall::begin(setup, tags.take_one(), operation, kind).map_err(text)
        };
        let (stage, data) = match op.call_plan(setup.me, setup.peers) {
            CallPlan::Elements(operation, buffer) => (begin(&operation, ElementKind::F32)?, CallData::Elements(buffer)),
            CallPlan::Integers(operation, buffer) => (begin(&operation, ElementKind::I64)?, CallData::Integers(buffer)),
            CallPlan::Numbers(operation, buffer) => (begin(&operation, ElementKind::F64)?, CallData::Numbers(buffer)),
            CallPlan::Compressed { goal, context, elements, mut compressor } => {
                let begun = CompressedCall::begin(setup, tags, &mut compressor, &elements, goal, context);
                let (call, stage) = begun.map_err(text)?;
                (stage, CallData::Compressed(Box::new((call, compressor))))
            }
        };
        self.in_flight.push(ChannelCall { id, channel, stage, data });
        self.advance(self.in_flight.len() - 1, context)
    }

    /// Takes a message; returns the result of its collective if that completes.
    pub(super) fn receive(
        &mut self,
        channel: SyncChannel,
        message: CollectiveMessage,
        context: &mut ActorContext<'_, SyncMessage>,
    ) -> Result<Option<CompletedCall>, String> {
        let tag = message.tag;
        self.channels[channel.index()].early.keep(message);
        match self.in_flight.iter().position(|call| call.channel == channel && call.stage.tag() == tag) {
            Some(index) => self.advance(index, context),
            None => Ok(None),
        }
    }

    /// Advances a call as far as possible; removes it and returns its result when it is complete.
    fn advance(
        &mut self,
        index: usize,
        context: &mut ActorContext<'_, SyncMessage>,
    ) -> Result<Option<CompletedCall>, String> {
        loop {
            let ChannelCall { channel, stage, data, .. } = &mut self.in_flight[index];
            let (lane, channel) = (stage.lane(), *channel);
            let mut send = |lent: BorrowedMessage<'_>| {
                let message = SyncMessage::Collective { channel, message: lent.to_message() };
                context.send(lent.to, lane, lent.wire_bytes() + FRAME, message);
                true
            };
            let arrived = self.channels[channel.index()].early.take(stage.tag());
            let received = arrived.into_iter().try_for_each(|message| stage.receive(message));
            let progress = received.and_then(|()| match data {
                CallData::Elements(buffer) => stage.advance(&mut buffer[..], &mut send),
                CallData::Integers(buffer) => stage.advance(&mut buffer[..], &mut send),
                CallData::Numbers(buffer) => stage.advance(&mut buffer[..], &mut send),
                CallData::Compressed(call) => stage.advance(call.0.buffer(), &mut send),
            });
            match progress {
                Ok(CallProgress::Done) => {}
                Ok(CallProgress::Waiting(_) | CallProgress::Blocked(_)) => return Ok(None),
                Err(CallFailure { error, .. }) => return Err(error.to_string()),
            }
            let mut sum = None;
            if let CallData::Compressed(call) = data {
                let (call, compressor) = &mut **call;
                match call.finish_stage(compressor).map_err(text)? {
                    StageEnd::Done(result) => sum = Some(result),
                    StageEnd::Next(next) => {
                        *stage = *next;
                        continue;
                    }
                }
            }
            let ChannelCall { id, data, .. } = self.in_flight.remove(index);
            let output = match data {
                CallData::Elements(buffer) => CollectiveOutput::Elements(buffer),
                CallData::Integers(buffer) => CollectiveOutput::Integers(buffer),
                CallData::Numbers(buffer) => CollectiveOutput::Numbers(buffer),
                CallData::Compressed(call) => CollectiveOutput::Compressed(call.1, sum.unwrap_or_default()),
            };
            return Ok(Some((id, output)));
        }
    }

    /// Messages that calls in flight wait for.
    pub(super) fn pending_waits(&self) -> Vec<PendingWait> {
        let wait = |call: &ChannelCall| {
            let ChannelCall { id, channel, stage, .. } = call;
            let what = format!(
                "a message of collective {} of {channel:?}, {}, for {:?} of step {}",
                stage.tag(),
                stage.signature(),
                id.source,
                id.step
            );
            Some(PendingWait::new("synchronization", what, vec![stage.waits_for()?]))
        };
        self.in_flight.iter().filter_map(wait).collect()
    }
}
