//! One encoded exchange: which collectives it is made of, one after the other, and what becomes of their results.
//!
//! | encoding | all-reduce | reduce-scatter | reduce | all-gather | broadcast | all-to-all |
//! |---|---|---|---|---|---|---|
//! | plain | the collective of that name, always | | | | | |
//! | `bf16`, `f16` (`narrow.rs`) | chunks, all-gather | chunks | chunks, gather | all-gather | broadcast | all-to-all |
//! | one bit (`strings.rs`) | all-gather | words, all-to-all | words, gather | all-gather | broadcast | words, all-to-all |
//! | top-k (`strings.rs`) | words, ragged all-gather | words, all-to-all | words, gather | words, ragged all-gather | a word, broadcast | words, all-to-all |
//! | low rank | all-reduce of P, of Q | the same | the same | | | |
//! | sufficient factors | words, ragged all-gather | | | | | |
//!
//! *Chunks* are an all-to-all: peer `i` gets everybody's chunk `i` and combines them in `f32`, by rank. *Words* are an all-gather in which everybody says how long its part is, or
//! that it could not be encoded. The two thin matrices of low rank go through all-reduces whatever the goal is, because every peer needs them to know what it has told and
//! where to begin the next time; where nothing is summed they make no sense.
//!
//! **Invariants.** What a leg sends depends on the encoder, the vector and what earlier legs brought, not on timing; sums are added by rank or by an
//! all-reduce, so all peers that get a number get the same bits. A peer whose vector cannot be encoded says so in the place of what it would have sent: so all peers fail
//! in the same call, and all encoders go back to what they were before it.

mod narrow;
mod strings;

use super::encoder::{Encoder, State};
use super::{Buffer, Goal, pack_factors, rebuild};
use crate::protocol::{Operation, Operator, cut, digest};
use crate::{Algorithm, Encoding, Error, Result};
use half::{bf16, f16};
use hemiola_core::Rank;
use std::ops::Range;

/// Who exchanges, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// This peer.
    pub me: Rank,
    /// How many there are.
    pub peers: usize,
    /// How numbers are combined, where they are.
    pub operator: Operator,
    /// How all-reduces travel.
    pub algorithm: Algorithm,
}

impl Place {
    fn is_root(&self, goal: Goal) -> bool {
        goal.root() == Some(self.me)
    }

    /// The chunks of so many numbers, by rank.
    fn chunks(&self, length: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let peers = self.peers;
        (0..peers).map(move |peer| cut(length, peers, peer))
    }

    fn own_chunk(&self, length: usize) -> Range<usize> {
        cut(length, self.peers, self.me.index())
    }
}

/// What all peers must agree on in an encoded exchange; told with every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The encoding. Factors are named without their number, which each peer has its own of.
    pub encoding: Encoding,
    /// What for.
    pub goal: Goal,
    /// How numbers are combined, if they are.
    pub operator: Option<Operator>,
    /// How many numbers a peer brings, before they are encoded.
    pub length: usize,
    /// Of what else must be the same, or zero.
    pub digest: u64,
}

/// A collective that is part of an exchange.
#[derive(Debug)]
pub struct Leg {
    /// The collective.
    pub operation: Operation,
    /// What goes into it.
    pub buffer: Buffer,
    /// What it is for. Nothing where numbers travel as they are: that is a collective like any other.
    pub label: Option<Label>,
}

/// What comes after a leg.
#[derive(Debug)]
pub enum Next {
    /// Another.
    Leg(Leg),
    /// What this peer gets, as [`Goal`] says: nothing, if others do.
    Done(Vec<f32>),
}

/// An encoded exchange under way.
#[derive(Debug)]
pub struct Exchange {
    place: Place,
    goal: Goal,
    label: Option<Label>,
    /// Own pairs, until it is known where they belong.
    pairs: Option<Vec<f32>>,
    /// Own bytes: one string, or one for each peer.
    strings: Vec<Vec<u8>>,
    legs: usize,
    /// Lengths of everybody's parts, where they differ.
    blocks: Vec<usize>,
    /// What the encoder kept before.
    before: Option<Vec<f32>>,
    /// Why this peer's vector could not be encoded.
    refused: Option<Error>,
}

impl Exchange {
    /// Begins with a vector. An error means that nothing has changed, and nothing is to be sent.
    pub fn begin(encoder: &mut Encoder, vector: &[f32], goal: Goal, place: Place) -> Result<(Self, Leg)> {
        let encoding = encoder.encoding();
        if vector.len() != encoder.length() {
            return Err(Error::WrongVector { expected: encoder.length(), found: vector.len() });
        }
        if let Some(root) = goal.root().filter(|root| root.index() >= place.peers) {
            let problem = format!("its root, peer {root}, is not one of them");
            return Err(Error::BadCall { peers: place.peers, problem });
        }
        if goal == Goal::AllToAll && !vector.len().is_multiple_of(place.peers) {
            let problem = format!("{} numbers cannot be cut into a block for each", vector.len());
            return Err(Error::BadCall { peers: place.peers, problem });
        }
        if !goal.allows(encoding) {
            return Err(Error::NotForThis { encoding, goal });
        }
        if encoding.has_feedback() && goal.combines() && place.operator != Operator::Sum {
            return Err(Error::OnlySums { encoding, operator: place.operator });
        }
        let digest = if let State::LowRank { encoder, .. } = &encoder.state { encoder.digest() } else { 0 };
        let operator = goal.combines().then_some(place.operator);
        let label = Label { encoding, goal, operator, length: vector.len(), digest };
        let label = (encoding != Encoding::Plain).then_some(label);
        let mut exchange = Self::new(goal, place, label, Some(encoder.kept().to_vec()));
        let (operation, buffer) = exchange.first(encoder, vector)?;
        let leg = exchange.leg(operation, buffer);
        Ok((exchange, leg))
    }

    /// Begins with the factors of a matrix of this shape, and gives an encoder to carry on with.
    pub fn begin_factors(
        (u, v): (&[f32], &[f32]),
        (rows, columns): (usize, usize),
        mut place: Place,
    ) -> Result<(Self, Leg, Encoder)> {
        let encoder = Encoder::for_factors(rows, columns)?;
        let own = pack_factors(u, v, rows, columns)?;
        place.operator = Operator::Sum;
        let (encoding, operator, length) = (encoder.encoding(), Some(place.operator), encoder.length());
        let digest = digest([rows as u64, columns as u64]);
        let label = Some(Label { encoding, goal: Goal::AllReduce, operator, length, digest });
        let mut exchange = Self::new(Goal::AllReduce, place, label, None);
        let (operation, buffer) = exchange.words(Some(own.len()));
        exchange.pairs = Some(own);
        let leg = exchange.leg(operation, buffer);
        Ok((exchange, leg, encoder))
    }

    fn new(goal: Goal, place: Place, label: Option<Label>, before: Option<Vec<f32>>) -> Self {
        let (pairs, strings, legs, blocks) = (None, Vec::new(), 0, Vec::new());
        Self { place, goal, label, pairs, strings, legs, blocks, before, refused: None }
    }

    /// How many collectives it takes, at most.
    #[must_use]
    pub fn legs(encoding: Encoding, goal: Goal) -> u64 {
        let two = match encoding {
            Encoding::Plain => false,
            Encoding::Bf16 | Encoding::F16 => matches!(goal, Goal::AllReduce | Goal::Reduce { .. }),
            Encoding::OneBit { .. } => goal.deals() || matches!(goal, Goal::Reduce { .. }),
            Encoding::TopK { .. } | Encoding::LowRank { .. } | Encoding::SufficientFactors { .. } => true,
        };
        1 + u64::from(two)
    }

    /// Goes on with the result of a leg. After an error the encoder is what it was before the exchange.
    pub fn advance(&mut self, encoder: &mut Encoder, came: Buffer) -> Result<Next> {
        let next = self.after(encoder, came);
        if next.is_err() {
            self.give_up(encoder);
        }
        next
    }

    /// Ends an exchange whose leg has failed: the encoder is what it was before.
    pub fn give_up(&mut self, encoder: &mut Encoder) {
        if let Some(before) = self.before.take() {
            encoder.put_back(before);
        }
    }

    fn leg(&mut self, operation: Operation, buffer: Buffer) -> Leg {
        self.legs += 1;
        Leg { operation, buffer, label: self.label }
    }

    fn all_reduce(&self, length: usize) -> Operation {
        let Place { algorithm, operator, .. } = self.place;
        Operation::AllReduce { algorithm, operator, length }
    }

    /// What is sent in place of what cannot be encoded.
    fn or_refusal<T>(&mut self, encoded: Result<T>, refusal: impl FnOnce() -> T) -> T {
        encoded.unwrap_or_else(|error| {
            self.refused = Some(error);
            refusal()
        })
    }

    fn first(&mut self, encoder: &mut Encoder, vector: &[f32]) -> Result<(Operation, Buffer)> {
        Ok(match &mut encoder.state {
            State::Plain => self.plain(vector),
            State::Bf16 => {
                let (operation, all) = self.narrow(vector, bf16::from_f32);
                (operation, Buffer::Bf16(all))
            }
            State::F16 => {
                let (operation, all) = self.narrow(vector, f16::from_f32);
                (operation, Buffer::F16(all))
            }
            State::OneBit { encoder, .. } => self.one_bit(encoder, vector),
            State::TopK { encoder, .. } => self.top_k(encoder, vector),
            State::LowRank { encoder, .. } => {
                let p = encoder.left(vector);
                let p = self.or_refusal(p, || encoder.refusal());
                (self.all_reduce(p.len()), Buffer::F32(p))
            }
            State::Factors => {
                let problem = "factors come as pairs, not as their sum";
                return Err(Error::BadEncoding { length: vector.len(), problem });
            }
        })
    }

    fn after(&mut self, encoder: &mut Encoder, came: Buffer) -> Result<Next> {
        let length = encoder.length();
        match (&mut encoder.state, came) {
            (State::Plain, Buffer::F32(came)) => Ok(Next::Done(self.part(came, length))),
            (State::Bf16, Buffer::Bf16(came)) => {
                Ok(self.after_narrow(came, length, bf16::from_f32, bf16::to_f32, Buffer::Bf16))
            }
            (State::F16, Buffer::F16(came)) => {
                Ok(self.after_narrow(came, length, f16::from_f32, f16::to_f32, Buffer::F16))
            }
            (State::OneBit { block, .. }, came) => self.after_one_bit(*block, came, length),
            (State::TopK { encoder, .. }, came) => self.after_top_k(encoder.bytes_at_most(), came, length),
            (State::LowRank { rank, encoder }, Buffer::F32(sum)) => {
                if let Some(error) = self.refused.take() {
                    return Err(error);
                }
                if !sum.iter().all(|value| value.is_finite()) {
                    return Err(Error::NotFiniteSum { encoding: Encoding::LowRank { rank: *rank } });
                }
                if self.legs == 2 {
                    let sum = encoder.finish(sum)?;
                    return Ok(Next::Done(self.part(sum, length)));
                }
                let q = encoder.right(sum)?;
                Ok(Next::Leg(self.leg(self.all_reduce(q.len()), Buffer::F32(q))))
            }
            (State::Factors, Buffer::I64(words)) => {
                self.read_words(&words, usize::MAX, length)?;
                let own = self.pairs.take().unwrap_or_default();
                let mut all = vec![0.0; self.blocks.iter().sum()];
                all[self.places()[self.place.me.index()].clone()].copy_from_slice(&own);
                let operation = Operation::AllGatherRagged { blocks: self.blocks.clone() };
                Ok(Next::Leg(self.leg(operation, Buffer::F32(all))))
            }
            (State::Factors, Buffer::F32(all)) => {
                let (rows, columns) = (encoder.rows, encoder.columns);
                let mut matrix = vec![0.0; length];
                let mut places = self.places().into_iter();
                places.try_for_each(|place| rebuild(&all[place], rows, columns, &mut matrix))?;
                Ok(Next::Done(matrix))
            }
            _ => Err(misfit(length)),
        }
    }

    /// Numbers as they are: the collective of the goal's name.
    fn plain(&self, vector: &[f32]) -> (Operation, Buffer) {
        let (length, operator, peers) = (vector.len(), self.place.operator, self.place.peers);
        let operation = match self.goal {
            Goal::AllReduce => self.all_reduce(length),
            Goal::ReduceScatter => Operation::ReduceScatter { operator, length },
            Goal::Reduce { root } => Operation::Reduce { root, operator, length },
            Goal::AllGather => Operation::AllGather { block: length },
            Goal::Broadcast { root } => Operation::Broadcast { root, length },
            Goal::AllToAll => Operation::AllToAll { block: length / peers },
        };
        let all = if self.goal == Goal::AllGather { self.spread(vector) } else { vector.to_vec() };
        (operation, Buffer::F32(all))
    }

    /// A buffer for everybody's, one's own in its place.
    fn spread<T: Copy + Default>(&self, own: &[T]) -> Vec<T> {
        let mut all = vec![T::default(); own.len() * self.place.peers];
        let start = self.place.me.index() * own.len();
        all[start..start + own.len()].copy_from_slice(own);
        all
    }

    /// Of a combination that every peer might have, or of a buffer that ends up as long, what this peer gets.
    fn part(&self, mut all: Vec<f32>, length: usize) -> Vec<f32> {
        match self.goal {
            Goal::ReduceScatter => all[self.place.own_chunk(length)].to_vec(),
            Goal::Reduce { root } if root != self.place.me => Vec::new(),
            _ => {
                all.shrink_to_fit();
                all
            }
        }
    }

    /// An all-gather in which everybody says how long its part is; a part that cannot be is below zero.
    fn words(&self, own: Option<usize>) -> (Operation, Buffer) {
        let mut words = vec![0; self.place.peers];
        words[self.place.me.index()] = word(own);
        (Operation::AllGather { block: 1 }, Buffer::I64(words))
    }

    /// Keeps the lengths that everybody has said, or fails as somebody's vector has.
    fn read_words(&mut self, words: &[i64], most: usize, length: usize) -> Result<()> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        if let Some(peer) = words.iter().position(|&word| word < 0) {
            return Err(Error::NotFiniteAt { rank: Rank::new(peer as u32) });
        }
        let bad = |problem| Error::BadEncoding { length, problem };
        let short = |&word: &i64| usize::try_from(word).ok().filter(|&length| length <= most);
        let blocks: Option<Vec<usize>> = words.iter().map(short).collect();
        let blocks = blocks.ok_or_else(|| bad("a peer has more than that needs"))?;
        let total = blocks.iter().try_fold(0_usize, |sum, &block| sum.checked_add(block));
        total.filter(|&total| total <= isize::MAX as usize / 4).ok_or_else(|| bad("no memory holds what all have"))?;
        self.blocks = blocks;
        Ok(())
    }

    /// Where each peer's part is.
    fn places(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let next = |block: &usize| {
            end += block;
            end - block..end
        };
        self.blocks.iter().map(next).collect()
    }
}

/// How long a part is, as it is told; below zero, if it cannot be. No memory holds more than the most there is.
fn word(length: Option<usize>) -> i64 {
    length.map_or(-1, |length| i64::try_from(length).unwrap_or(i64::MAX))
}

/// The error where a leg has ended with something else than it began with.
fn misfit(length: usize) -> Error {
    Error::BadEncoding { length, problem: "a leg ended with other numbers than it began with" }
}
