//! Compressed collectives, several in flight. Each is a sequence of plain collectives whose buffers
//! a compressor produces and consumes.
//!
//! All peers start the same operations in the same order. The next update of a vector starts when
//! its compressor has returned. As in `hemiola-collective`, an operation reserves the tags of all
//! its collectives at its start, since a later tag must not depend on the time at which an earlier
//! collective ends. An operation that fails, because peers make different calls or a vector cannot
//! be compressed, ends with its error, and the others go on.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::units::SimDuration;
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::compress::{CollectiveContext, CollectiveGoal, CompressedCall, StageEnd};
use hemiola_collective_proto::protocol::{
    BorrowedMessage, CallFailure, CallProgress, CallSetup, EarlyMessages, TagSequence,
};
use hemiola_collective_proto::{CollectiveCall, CollectiveMessage, Compression, Compressor, Error, Tag};
use hemiola_core::Rank;

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

/// Result of one update, or the error with which it failed on all peers.
pub type UpdateResult = Result<Vec<f32>, Error>;

/// An operation in flight, at one of its collectives.
#[derive(Debug)]
struct CompressedInFlight {
    vector: usize,
    compressor: Compressor,
    call: CompressedCall,
    stage: CollectiveCall,
    /// Tag of the stage on the wire.
    tag: Tag,
}

/// A peer that performs compressed collectives.
#[derive(Debug)]
pub struct CompressedActor {
    setup: CompressedSetup,
    /// Compressors by vector; `None` while the vector is in flight.
    compressors: Vec<Option<Compressor>>,
    in_flight: Vec<CompressedInFlight>,
    tags: TagSequence,
    /// Tags on the wire of a peer that takes them late, by fault.
    late_tags: TagSequence,
    early: EarlyMessages,
    begun: usize,
    computing: bool,
    /// Results by vector and update.
    results: Vec<Vec<UpdateResult>>,
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
            tags: TagSequence::starting_at(0),
            late_tags: TagSequence::starting_at(0),
            early: EarlyMessages::default(),
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
        let setup = CallSetup::new(collective.me, collective.peers).segment_bytes(self.setup.segment);
        let (call, stage) = if let Compression::SufficientFactors { .. } = compression {
            let (pairs, shape) = (given.len() / (rows + columns), (*rows, *columns));
            let factors = given.split_at(pairs * rows);
            let (call, stage, fresh) =
                CompressedCall::begin_factors(setup, &self.tags, factors, shape, collective).map_err(text)?;
            compressor = fresh;
            (call, stage)
        } else {
            CompressedCall::begin(setup, &self.tags, &mut compressor, given, *goal, collective).map_err(text)?
        };
        let tag = self.wire_tag(&stage);
        self.in_flight.push(CompressedInFlight { vector, compressor, call, stage, tag });
        Ok(())
    }

    fn wire_tag(&self, stage: &CollectiveCall) -> Tag {
        if self.setup.tags_late { self.late_tags.take_one() } else { stage.tag() }
    }

    /// Advances one operation as far as possible; returns its result when it ends.
    fn advance(&mut self, index: usize, context: &mut ActorContext<'_, CollectiveMessage>) -> Option<UpdateResult> {
        loop {
            let CompressedInFlight { compressor, call, stage, tag, .. } = &mut self.in_flight[index];
            let lane = stage.lane();
            let mut send = |lent: BorrowedMessage<'_>| {
                let message = CollectiveMessage { tag: *tag, ..lent.to_message() };
                context.send(message.to, lane, message.wire_bytes() + FRAME, message);
                true
            };
            let received = self.early.take(*tag).into_iter().try_for_each(|message| stage.receive(message));
            match received.and_then(|()| stage.advance(call.buffer(), &mut send)) {
                Ok(CallProgress::Waiting(_) | CallProgress::Blocked(_)) => return None,
                Ok(CallProgress::Done) => {}
                Err(CallFailure { error, notices }) => {
                    call.abort(compressor);
                    for notice in notices {
                        let notice = CollectiveMessage { tag: *tag, ..notice };
                        context.send(notice.to, CallFailure::LANE, notice.wire_bytes() + FRAME, notice);
                    }
                    return Some(Err(error));
                }
            }
            match call.finish_stage(compressor) {
                Ok(StageEnd::Done(numbers)) => return Some(Ok(numbers)),
                Err(refused) => return Some(Err(refused)),
                Ok(StageEnd::Next(next)) => {
                    let tag = self.wire_tag(&next);
                    let operation = &mut self.in_flight[index];
                    (operation.tag, operation.stage) = (tag, *next);
                }
            }
        }
    }

    fn make_progress(&mut self, context: &mut ActorContext<'_, CollectiveMessage>) {
        let mut index = 0;
        while index < self.in_flight.len() {
            let Some(result) = self.advance(index, context) else {
                index += 1;
                continue;
            };
            let CompressedInFlight { vector, compressor, .. } = self.in_flight.remove(index);
            self.results[vector].push(result);
            self.compressors[vector] = Some(compressor);
        }
        self.prepare(context);
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
        _: Rank,
        message: CollectiveMessage,
        context: &mut ActorContext<'_, CollectiveMessage>,
    ) -> ActorResult {
        self.early.keep(message);
        self.make_progress(context);
        Ok(())
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, CollectiveMessage>) -> ActorResult {
        self.computing = false;
        let (vector, update) = self.next().ok_or("no operation is due")?;
        self.begin(vector, update)?;
        self.begun += 1;
        self.make_progress(context);
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.next().is_none() && self.in_flight.is_empty()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let wait = |operation: &CompressedInFlight| {
            let what = format!("a message of collective {}, {}", operation.tag, operation.stage.signature());
            Some(PendingWait::new("driver", what, vec![operation.stage.waits_for()?]))
        };
        self.in_flight.iter().filter_map(wait).collect()
    }
}
