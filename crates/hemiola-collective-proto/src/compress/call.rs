//! One compressed call of one peer, as every driver runs it: its stages, their tags and buffers.
//!
//! A [`CompressedCall`] turns the stages of a [`CompressedCollective`] into ordinary
//! [`CollectiveCall`]s, one after the other. The driver carries the messages of the current stage
//! and lends it the [buffer](CompressedCall::buffer).
//!
//! **Invariants.** The tags of all stages are taken when the call begins, so peers agree on them
//! whatever happens in between. The compressor is lent and always valid: updated on success,
//! unchanged after a failure.

use super::{CollectiveContext, CollectiveGoal, CollectiveStage, CompressedBuffer, CompressedCollective, NextStage};
use crate::protocol::{
    BorrowedMessage, CallBuffer, CallSetup, CollectiveCall, CollectiveMachine, TagRange, TagSequence,
};
use crate::{Compressor, Error, Result};

/// Continuation of a compressed call after a stage.
#[derive(Debug)]
pub enum StageEnd {
    /// Another stage follows, in the same buffer.
    Next(Box<CollectiveCall>),
    /// The call is complete, with the result that [`CollectiveGoal`] describes.
    Done(Vec<f32>),
}

/// Compressed call in flight on one peer.
#[derive(Debug)]
pub struct CompressedCall {
    setup: CallSetup,
    /// Tags of the stages to come.
    tags: TagRange,
    stages: u64,
    collective: CompressedCollective,
    buffer: CompressedBuffer,
}

impl CompressedCall {
    /// Begins with a vector, and returns the first stage. After an error nothing has changed.
    pub fn begin(
        setup: CallSetup,
        tags: &TagSequence,
        compressor: &mut Compressor,
        vector: &[f32],
        goal: CollectiveGoal,
        context: CollectiveContext,
    ) -> Result<(Self, CollectiveCall)> {
        let (collective, stage) = CompressedCollective::begin(compressor, vector, goal, context)?;
        let stages = CompressedCollective::stage_count(compressor.compression(), goal);
        Self::with_stage(setup, tags.take(stages), stages, collective, stage, compressor)
    }

    /// Begins with the factors of a matrix of this shape, and returns the first stage and a
    /// compressor to continue with.
    pub fn begin_factors(
        setup: CallSetup,
        tags: &TagSequence,
        factors: (&[f32], &[f32]),
        shape: (usize, usize),
        context: CollectiveContext,
    ) -> Result<(Self, CollectiveCall, Compressor)> {
        let (collective, stage, mut compressor) = CompressedCollective::begin_factors(factors, shape, context)?;
        let stages = CompressedCollective::stage_count(compressor.compression(), CollectiveGoal::AllReduce);
        let (call, first) = Self::with_stage(setup, tags.take(stages), stages, collective, stage, &mut compressor)?;
        Ok((call, first, compressor))
    }

    fn with_stage(
        setup: CallSetup,
        tags: TagRange,
        stages: u64,
        collective: CompressedCollective,
        stage: CollectiveStage,
        compressor: &mut Compressor,
    ) -> Result<(Self, CollectiveCall)> {
        let mut call = Self { setup, tags, stages, collective, buffer: CompressedBuffer::U8(Vec::new()) };
        let first = call.start(stage, compressor)?;
        Ok((call, first))
    }

    /// Number of tags that the call has taken.
    #[must_use]
    pub fn stages(&self) -> u64 {
        self.stages
    }

    /// Buffer of the current stage, to be lent to it.
    pub fn buffer(&mut self) -> &mut CompressedBuffer {
        &mut self.buffer
    }

    /// Continues after a stage that is done.
    pub fn finish_stage(&mut self, compressor: &mut Compressor) -> Result<StageEnd> {
        let received = std::mem::replace(&mut self.buffer, CompressedBuffer::U8(Vec::new()));
        match self.collective.advance(compressor, received)? {
            NextStage::Done(result) => Ok(StageEnd::Done(result)),
            NextStage::Stage(stage) => Ok(StageEnd::Next(Box::new(self.start(stage, compressor)?))),
        }
    }

    /// Gives up after a stage has failed: the compressor returns to its previous state.
    pub fn abort(&mut self, compressor: &mut Compressor) {
        self.collective.abort(compressor);
    }

    fn start(&mut self, stage: CollectiveStage, compressor: &mut Compressor) -> Result<CollectiveCall> {
        let CollectiveStage { operation, buffer, label } = stage;
        let call = if let Some(tag) = self.tags.next() {
            CollectiveCall::begin(self.setup, tag, &operation, buffer.kind())
        } else {
            let problem = format!("it has more than the {} stages that it took tags for", self.stages);
            Err(Error::InvalidCall { peers: self.setup.peers, problem })
        };
        self.buffer = buffer;
        match call {
            Ok(call) => Ok(call.with_label(label.as_ref())),
            Err(error) => {
                self.abort(compressor);
                Err(error)
            }
        }
    }
}

impl CallBuffer for CompressedBuffer {
    fn advance_machine(
        &mut self,
        machine: &mut CollectiveMachine,
        send: &mut dyn FnMut(BorrowedMessage<'_>) -> bool,
    ) -> Result<bool> {
        match self {
            Self::F32(elements) => machine.advance(elements, send),
            Self::Bf16(elements) => machine.advance(elements, send),
            Self::F16(elements) => machine.advance(elements, send),
            Self::I64(elements) => machine.advance(elements, send),
            Self::U8(elements) => machine.advance(elements, send),
        }
    }
}
