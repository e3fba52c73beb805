//! Encoded exchanges, several in flight: each is a few collectives, one after the other, whose numbers an encoder makes and takes in.
//!
//! All peers begin the same exchanges in the same order, the next update of a vector when its encoder is back. As in `hemiola-collective`, an exchange takes the tags of all its collectives when
//! it begins: that of its second must not depend on when its first has ended.

use crate::actor::{Actor, Context, Outcome};
use crate::actors::FRAME;
use crate::stuck::Wait;
use crate::units::Span;
use hemiola_collective_proto::encode::{Buffer, Exchange, Goal, Leg, Next, Place};
use hemiola_collective_proto::protocol::{Body, HEADER_BYTES, Lent, Machine};
use hemiola_collective_proto::{Encoder, Encoding, Message, Tag};
use hemiola_core::{Lane, Rank};
use std::collections::BTreeMap;
use std::ops::Range;

/// Exchanges on buffers up to this many bytes take the control lane.
const SMALL: usize = 1 << 13;

/// A vector that is exchanged again and again.
#[derive(Clone, Debug)]
pub struct Vector {
    /// How it travels.
    pub encoding: Encoding,
    /// What for.
    pub goal: Goal,
    /// Its shape; vectors have one column.
    pub rows: usize,
    /// See [`Vector::rows`].
    pub columns: usize,
    /// What this peer brings, update by update. Of [sufficient factors](Encoding::SufficientFactors) all `u`, then all `v`.
    pub updates: Vec<Vec<f32>>,
}

/// How a peer exchanges.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Who it is, and how numbers are combined.
    pub place: Place,
    /// What it exchanges. All have as many updates.
    pub vectors: Vec<Vector>,
    /// So many at once.
    pub in_flight: usize,
    /// Bytes of elements in a message.
    pub segment: usize,
    /// What it computes before each exchange.
    pub before: Span,
    /// Takes a tag when a collective begins: a fault to be found.
    pub tags_late: bool,
}

/// What came of one update: numbers, or why all refused it.
pub type Came = Result<Vec<f32>, String>;

/// An exchange in flight, at one of its collectives.
#[derive(Debug)]
struct Trip {
    vector: usize,
    encoder: Encoder,
    exchange: Exchange,
    tags: Range<u64>,
    tag: u64,
    machine: Machine,
    buffer: Buffer,
}

/// A peer that exchanges encoded vectors.
#[derive(Debug)]
pub struct Encoded {
    setup: Setup,
    /// By vector; away while its exchange is in flight.
    encoders: Vec<Option<Encoder>>,
    flying: Vec<Trip>,
    /// Messages of collectives that have not begun here.
    early: BTreeMap<u64, Vec<Message>>,
    next_tag: u64,
    begun: usize,
    computing: bool,
    /// By vector, update by update.
    came: Vec<Vec<Came>>,
}

/// Calls something with the numbers in a buffer, whatever their type.
macro_rules! with {
    ($buffer:expr, $elements:ident => $body:expr) => {
        match $buffer {
            Buffer::F32($elements) => $body,
            Buffer::Bf16($elements) => $body,
            Buffer::F16($elements) => $body,
            Buffer::I64($elements) => $body,
            Buffer::U8($elements) => $body,
        }
    };
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Encoded {
    /// One of the peers.
    pub fn new(setup: Setup) -> Result<Self, String> {
        let encoder = |Vector { encoding, rows, columns, .. }: &Vector| match encoding {
            // Every exchange of factors brings an encoder of its own.
            Encoding::SufficientFactors { .. } => Encoder::new(Encoding::Plain, 0),
            _ => Encoder::for_matrix(*encoding, *rows, *columns),
        };
        let encoders = setup.vectors.iter().map(|vector| encoder(vector).map(Some).map_err(text));
        Ok(Self {
            encoders: encoders.collect::<Result<_, _>>()?,
            flying: Vec::new(),
            early: BTreeMap::new(),
            next_tag: 0,
            begun: 0,
            computing: false,
            came: vec![Vec::new(); setup.vectors.len()],
            setup,
        })
    }

    /// What came of the updates of a vector.
    pub fn came(&self, vector: usize) -> &[Came] {
        &self.came[vector]
    }

    /// What this peer has not told yet of a vector.
    #[must_use]
    pub fn kept(&self, vector: usize) -> &[f32] {
        self.encoders[vector].as_ref().map_or(&[], Encoder::kept)
    }

    /// The vector and the update that come next.
    fn next(&self) -> Option<(usize, usize)> {
        let vectors = self.setup.vectors.len();
        let (update, vector) = (self.begun / vectors, self.begun % vectors);
        (update < self.setup.vectors[vector].updates.len()).then_some((vector, update))
    }

    /// Computes before the next, if there is room for it and its encoder is here.
    fn prepare(&mut self, context: &mut Context<'_, Message>) {
        let Some((vector, _)) = self.next() else {
            if self.flying.is_empty() {
                context.goes_on(0);
            }
            return;
        };
        if self.computing {
            return;
        }
        if self.flying.len() < self.setup.in_flight && self.encoders[vector].is_some() {
            context.goes_on(0);
            self.computing = true;
            context.compute(0, "computes", self.setup.before, 0);
        } else {
            context.waits(0, "waits for an exchange");
        }
    }

    fn begin(&mut self, vector: usize, update: usize) -> Outcome {
        let Vector { encoding, goal, rows, columns, updates } = &self.setup.vectors[vector];
        let (given, place) = (&updates[update], self.setup.place);
        let mut encoder = self.encoders[vector].take().ok_or("an encoder is away")?;
        let (exchange, leg) = if let Encoding::SufficientFactors { .. } = encoding {
            let pairs = given.len() / (rows + columns);
            let (exchange, leg, fresh) =
                Exchange::begin_factors(given.split_at(pairs * rows), (*rows, *columns), place).map_err(text)?;
            encoder = fresh;
            (exchange, leg)
        } else {
            Exchange::begin(&mut encoder, given, *goal, place).map_err(text)?
        };
        let legs = if self.setup.tags_late { 1 } else { Exchange::legs(*encoding, *goal) };
        let mut tags = self.next_tag..self.next_tag + legs;
        self.next_tag = tags.end;
        let tag = tags.next().ok_or("an exchange without a collective")?;
        let machine = self.machine(tag, &leg)?;
        self.flying.push(Trip { vector, encoder, exchange, tags, tag, machine, buffer: leg.buffer });
        Ok(())
    }

    fn machine(&self, tag: u64, leg: &Leg) -> Result<Machine, String> {
        let (kind, Place { me, peers, .. }) = (leg.buffer.kind(), self.setup.place);
        let segment = (self.setup.segment / kind.bytes()).max(1);
        let machine = Machine::new(Tag::new(tag), me, peers, &leg.operation, kind, segment).map_err(text)?;
        Ok(match &leg.label {
            Some(label) => machine.labelled(label),
            None => machine,
        })
    }

    /// Carries one exchange on as far as it goes; what came, if it is over.
    fn carry(&mut self, place: usize, context: &mut Context<'_, Message>) -> Result<Option<Came>, String> {
        loop {
            let trip = &mut self.flying[place];
            for message in self.early.remove(&trip.tag).unwrap_or_default() {
                trip.machine.receive(message).map_err(text)?;
            }
            let whole = with!(&trip.buffer, elements => size_of_val(&elements[..]));
            let lane = if whole <= SMALL { Lane::Control } else { Lane::Bulk };
            let mut send = |lent: Lent<'_>| {
                context.send(lent.to, lane, lent.elements.len() + HEADER_BYTES + FRAME, lent.to_message());
                true
            };
            let over = with!(&mut trip.buffer, elements => trip.machine.advance(elements, &mut send));
            if !over.map_err(text)? {
                return Ok(None);
            }
            let came = std::mem::replace(&mut trip.buffer, Buffer::U8(Vec::new()));
            let leg = match trip.exchange.advance(&mut trip.encoder, came) {
                Ok(Next::Done(numbers)) => return Ok(Some(Ok(numbers))),
                Err(refused) => return Ok(Some(Err(text(refused)))),
                Ok(Next::Leg(leg)) => leg,
            };
            let tag = match trip.tags.next() {
                Some(tag) => tag,
                None if self.setup.tags_late => {
                    self.next_tag += 1;
                    self.next_tag - 1
                }
                None => return Err("an exchange takes more collectives than it said".to_owned()),
            };
            let machine = self.machine(tag, &leg)?;
            let trip = &mut self.flying[place];
            (trip.tag, trip.machine, trip.buffer) = (tag, machine, leg.buffer);
        }
    }

    fn go_on(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        let mut place = 0;
        while place < self.flying.len() {
            let Some(came) = self.carry(place, context)? else {
                place += 1;
                continue;
            };
            let Trip { vector, encoder, .. } = self.flying.remove(place);
            self.came[vector].push(came);
            self.encoders[vector] = Some(encoder);
        }
        self.prepare(context);
        Ok(())
    }
}

impl Actor for Encoded {
    type Message = Message;

    fn start(&mut self, context: &mut Context<'_, Message>) -> Outcome {
        self.prepare(context);
        Ok(())
    }

    fn receive(&mut self, from: Rank, message: Message, context: &mut Context<'_, Message>) -> Outcome {
        if let Body::Failed(disagreement) = &message.body {
            return Err(format!("peer {from} says that peers disagree: {disagreement:?}"));
        }
        self.early.entry(message.tag.number()).or_default().push(message);
        self.go_on(context)
    }

    fn timer(&mut self, _: u64, context: &mut Context<'_, Message>) -> Outcome {
        self.computing = false;
        let (vector, update) = self.next().ok_or("nothing was to be exchanged")?;
        self.begin(vector, update)?;
        self.begun += 1;
        self.go_on(context)
    }

    fn is_done(&self) -> bool {
        self.next().is_none() && self.flying.is_empty()
    }

    fn waits(&self) -> Vec<Wait> {
        let wait = |trip: &Trip| {
            let what = format!("a message of collective {}, {}", trip.tag, trip.machine.call());
            Some(Wait::new("driver", what, vec![trip.machine.waits_for()?]))
        };
        self.flying.iter().filter_map(wait).collect()
    }
}
