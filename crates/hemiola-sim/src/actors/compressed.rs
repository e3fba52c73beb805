//! Compressed collectives, several in flight. Each is a sequence of plain collectives whose buffers
//! a compressor produces and consumes.
//!
//! All peers start the same operations in the same order. The next update of a vector starts when
//! its compressor has returned. As in `hemiola-collective`, an operation reserves the tags of all
//! its collectives at its start, since a later tag must not depend on the time at which an earlier
//! collective ends.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::compress::{
    CollectiveContext, CollectiveGoal, CollectiveStage, CompressedBuffer, CompressedCollective, NextStage,
};
use hemiola_collective_proto::protocol::{BorrowedMessage, CollectiveBody, CollectiveMachine, HEADER_BYTES};
use hemiola_collective_proto::{CollectiveMessage, Compression, Compressor, Tag};
use hemiola_core::{Lane, Rank};
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest buffer in bytes whose collective uses the control lane.
const CONTROL_LANE_BYTES: usize = 1 << 13;

/// A vector with a sequence of updates.
#[derive(Clone, Debug)]
pub struct CompressedVector {
    /// Compression of the vector.
    pub compression: Compression,
    /// Collective that the vector takes part in.
    pub goal: CollectiveGoal,
    /// Number of rows; a plain vector has one column.
    pub rows: usize,
    /// Number of columns; see [`CompressedVector::rows`].
    pub columns: usize,
    /// Updates of this peer. For [sufficient factors](Compression::SufficientFactors): all `u`,
    /// then all `v`.
    pub updates: Vec<Vec<f32>>,
}

/// Settings of a peer.
#[derive(Clone, Debug)]
pub struct CompressedSetup {
    /// Rank, number of peers, operator and algorithm.
    pub collective: CollectiveContext,
    /// Vectors, all with the same number of updates.
    pub vectors: Vec<CompressedVector>,
    /// Maximum number of operations in flight.
    pub in_flight: usize,
    /// Bytes of elements in a message.
    pub segment: usize,
    /// Duration of the computation before each operation.
    pub before: SimDuration,
    /// Injected fault: a tag is reserved when its collective starts.
    pub tags_late: bool,
}

/// Result of one update, or the reason why all peers refused it.
pub type UpdateResult = Result<Vec<f32>, String>;

/// An operation in flight, at one of its collectives.
#[derive(Debug)]
struct CompressedInFlight {
    vector: usize,
    compressor: Compressor,
    protocol: CompressedCollective,
    tags: Range<u64>,
    tag: u64,
    machine: CollectiveMachine,
    buffer: CompressedBuffer,
}

/// A peer that performs compressed collectives.
#[derive(Debug)]
pub struct CompressedActor {
    setup: CompressedSetup,
    /// Compressors by vector; `None` while the vector is in flight.
    compressors: Vec<Option<Compressor>>,
    in_flight: Vec<CompressedInFlight>,
    /// Messages of collectives that have not started here.
    early: BTreeMap<u64, Vec<CollectiveMessage>>,
    next_tag: u64,
    begun: usize,
    computing: bool,
    /// Results by vector and update.
    results: Vec<Vec<UpdateResult>>,
}

/// Evaluates an expression with the elements of a buffer of any type.
macro_rules! with {
    ($buffer:expr, $elements:ident => $body:expr) => {
        match $buffer {
            CompressedBuffer::F32($elements) => $body,
            CompressedBuffer::Bf16($elements) => $body,
            CompressedBuffer::F16($elements) => $body,
            CompressedBuffer::I64($elements) => $body,
            CompressedBuffer::U8($elements) => $body,
        }
    };
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl CompressedActor {
    /// Creates one of the peers.
    pub fn new(setup: CompressedSetup) -> Result<Self, String> {
        let compressor = |CompressedVector { compression, rows, columns, .. }: &CompressedVector| match compression {
            // Every operation on factors brings a compressor of its own.
            Compression::SufficientFactors { .. } => Compressor::new(Compression::Plain, 0),
            _ => Compressor::for_matrix(*compression, *rows, *columns),
        };
        let compressors = setup.vectors.iter().map(|vector| compressor(vector).map(Some).map_err(text));
        Ok(Self {
            compressors: compressors.collect::<Result<_, _>>()?,
            in_flight: Vec::new(),
            early: BTreeMap::new(),
            next_tag: 0,
            begun: 0,
            computing: false,
            results: vec![Vec::new(); setup.vectors.len()],
            setup,
        })
    }

    /// Results of the updates of a vector.
    pub fn results(&self, vector: usize) -> &[UpdateResult] {
        &self.results[vector]
    }

    /// Residual of a vector: the part of its updates that was not sent.
    #[must_use]
    pub fn residual(&self, vector: usize) -> &[f32] {
        self.compressors[vector].as_ref().map_or(&[], Compressor::residual)
    }

    /// Returns the next vector and update.
    fn next(&self) -> Option<(usize, usize)> {
        let vectors = self.setup.vectors.len();
        let (update, vector) = (self.begun / vectors, self.begun % vectors);
        (update < self.setup.vectors[vector].updates.len()).then_some((vector, update))
    }

    /// Starts the computation before the next operation, if its compressor is available and another
    /// one may be in flight.
    fn prepare(&mut self, context: &mut ActorContext<'_, CollectiveMessage>) {
        let Some((vector, _)) = self.next() else {
            if self.in_flight.is_empty() {
                context.end_wait(0);
            }
            return;
        };
        if self.computing {
            return;
        }
        if self.in_flight.len() < self.setup.in_flight && self.compressors[vector].is_some() {
            context.end_wait(0);
            self.computing = true;
            context.compute(0, "computes", self.setup.before, 0);
        } else {
            context.begin_wait(0, "waits for a collective");
        }
    }

    fn begin(&mut self, vector: usize, update: usize) -> ActorResult {
        let CompressedVector { compression, goal, rows, columns, updates } = &self.setup.vectors[vector];
        let (given, collective) = (&updates[update], self.setup.collective);
        let mut compressor = self.compressors[vector].take().ok_or("the compressor is in use")?;
        let (protocol, stage) = if let Compression::SufficientFactors { .. } = compression {
            let pairs = given.len() / (rows + columns);
            let (protocol, stage, fresh) =
                CompressedCollective::begin_factors(given.split_at(pairs * rows), (*rows, *columns), collective)
                    .map_err(text)?;
            compressor = fresh;
            (protocol, stage)
        } else {
            CompressedCollective::begin(&mut compressor, given, *goal, collective).map_err(text)?
        };
        let stages = if self.setup.tags_late { 1 } else { CompressedCollective::stage_count(*compression, *goal) };
        let mut tags = self.next_tag..self.next_tag + stages;
        self.next_tag = tags.end;
        let tag = tags.next().ok_or("an operation without a collective")?;
        let machine = self.machine(tag, &stage)?;
        self.in_flight.push(CompressedInFlight {
            vector,
            compressor,
            protocol,
            tags,
            tag,
            machine,
            buffer: stage.buffer,
        });
        Ok(())
    }

    fn machine(&self, tag: u64, stage: &CollectiveStage) -> Result<CollectiveMachine, String> {
        let (kind, CollectiveContext { me, peers, .. }) = (stage.buffer.kind(), self.setup.collective);
        let segment = (self.setup.segment / kind.bytes()).max(1);
        let machine =
            CollectiveMachine::new(Tag::new(tag), me, peers, &stage.operation, kind, segment).map_err(text)?;
        Ok(match &stage.label {
            Some(label) => machine.with_label(label),
            None => machine,
        })
    }

    /// Advances one operation as far as possible; returns its result when it ends.
    fn advance(
        &mut self,
        index: usize,
        context: &mut ActorContext<'_, CollectiveMessage>,
    ) -> Result<Option<UpdateResult>, String> {
        loop {
            let operation = &mut self.in_flight[index];
            for message in self.early.remove(&operation.tag).unwrap_or_default() {
                operation.machine.receive(message).map_err(text)?;
            }
            let whole = with!(&operation.buffer, elements => size_of_val(&elements[..]));
            let lane = if whole <= CONTROL_LANE_BYTES { Lane::Control } else { Lane::Bulk };
            let mut send = |lent: BorrowedMessage<'_>| {
                context.send(lent.to, lane, lent.elements.len() + HEADER_BYTES + FRAME, lent.to_message());
                true
            };
            let over = with!(&mut operation.buffer, elements => operation.machine.advance(elements, &mut send));
            if !over.map_err(text)? {
                return Ok(None);
            }
            let received = std::mem::replace(&mut operation.buffer, CompressedBuffer::U8(Vec::new()));
            let stage = match operation.protocol.advance(&mut operation.compressor, received) {
                Ok(NextStage::Done(numbers)) => return Ok(Some(Ok(numbers))),
                Err(refused) => return Ok(Some(Err(text(refused)))),
                Ok(NextStage::Stage(stage)) => stage,
            };
            let tag = match operation.tags.next() {
                Some(tag) => tag,
                None if self.setup.tags_late => {
                    self.next_tag += 1;
                    self.next_tag - 1
                }
                None => return Err("an operation has more collectives than announced".to_owned()),
            };
            let machine = self.machine(tag, &stage)?;
            let operation = &mut self.in_flight[index];
            (operation.tag, operation.machine, operation.buffer) = (tag, machine, stage.buffer);
        }
    }

    fn make_progress(&mut self, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        let mut index = 0;
        while index < self.in_flight.len() {
            let Some(result) = self.advance(index, context)? else {
                index += 1;
                continue;
            };
            let CompressedInFlight { vector, compressor, .. } = self.in_flight.remove(index);
            self.results[vector].push(result);
            self.compressors[vector] = Some(compressor);
        }
        self.prepare(context);
        Ok(())
    }
}

impl Actor for CompressedActor {
    type Message = CollectiveMessage;

    fn on_start(&mut self, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        self.prepare(context);
        Ok(())
    }

    fn on_message(
        &mut self,
        from: Rank,
        message: CollectiveMessage,
        context: &mut ActorContext<'_, CollectiveMessage>,
    ) -> ActorResult {
        if let CollectiveBody::Failed(disagreement) = &message.body {
            return Err(format!("peer {from} reports that peers disagree: {disagreement:?}"));
        }
        self.early.entry(message.tag.number()).or_default().push(message);
        self.make_progress(context)
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        self.computing = false;
        let (vector, update) = self.next().ok_or("no operation is due")?;
        self.begin(vector, update)?;
        self.begun += 1;
        self.make_progress(context)
    }

    fn is_done(&self) -> bool {
        self.next().is_none() && self.in_flight.is_empty()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let wait = |operation: &CompressedInFlight| {
            let what = format!("a message of collective {}, {}", operation.tag, operation.machine.call());
            Some(PendingWait::new("driver", what, vec![operation.machine.waits_for()?]))
        };
        self.in_flight.iter().filter_map(wait).collect()
    }
}
