//! One encoded all-reduce: which collectives it is made of, one after the other, and what becomes of their results.
//!
//! | encoding | first | then |
//! |---|---|---|
//! | plain | all-reduce | |
//! | `bf16`, `f16` | all-to-all: peer `i` gets everybody's chunk `i` and combines them in `f32`, by rank | all-gather of the combined chunks, rounded once more |
//! | one bit | all-gather of everybody's bytes, decoded and summed by rank | |
//! | top-k | all-gather of lengths | ragged all-gather of everybody's bytes, decoded and summed by rank |
//! | low rank | all-reduce of P | all-reduce of Q |
//! | sufficient factors | all-gather of lengths | ragged all-gather of everybody's pairs, multiplied and summed by rank |
//!
//! **Invariants.** What a leg sends depends on the encoder, the vector and what earlier legs brought, not on timing; sums are added by rank or by an
//! all-reduce, so all peers end with the same bits. A peer whose vector cannot be encoded says so in the place of what it would have sent: so all peers fail
//! in the same call, and all encoders go back to what they were before it.

use super::encoder::{Encoder, State};
use super::{Buffer, OneBit, TopK, pack_factors, rebuild, to_bf16, to_f16};
use crate::protocol::{Element, Operation, Operator, digest};
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
    /// How numbers are combined.
    pub operator: Operator,
    /// How all-reduces travel.
    pub algorithm: Algorithm,
}

/// What all peers must agree on in an encoded all-reduce; told with every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The encoding. Factors are named without their number, which each peer has its own of.
    pub encoding: Encoding,
    /// How numbers are combined.
    pub operator: Operator,
    /// How many numbers there are before they are encoded.
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
    /// What it is for. Nothing where numbers travel as they are: that is an all-reduce like any other.
    pub label: Option<Label>,
}

/// What comes after a leg.
#[derive(Debug)]
pub enum Next {
    /// Another.
    Leg(Leg),
    /// The sum.
    Done(Vec<f32>),
}

/// An encoded all-reduce under way.
#[derive(Debug)]
pub struct Exchange {
    place: Place,
    label: Option<Label>,
    /// Own part, until it is known where it belongs.
    own: Option<Buffer>,
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
    pub fn begin(encoder: &mut Encoder, vector: &[f32], place: Place) -> Result<(Self, Leg)> {
        let encoding = encoder.encoding();
        if vector.len() != encoder.length() {
            return Err(Error::WrongVector { expected: encoder.length(), found: vector.len() });
        }
        let feedback = !matches!(encoder.state, State::Plain | State::Bf16 | State::F16);
        if feedback && place.operator != Operator::Sum {
            return Err(Error::OnlySums { encoding, operator: place.operator });
        }
        let digest = if let State::LowRank { encoder, .. } = &encoder.state { encoder.digest() } else { 0 };
        let label = Label { encoding, operator: place.operator, length: vector.len(), digest };
        let mut exchange = Self {
            place,
            label: (encoding != Encoding::Plain).then_some(label),
            own: None,
            legs: 0,
            blocks: Vec::new(),
            before: Some(encoder.kept().to_vec()),
            refused: None,
        };
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
        let (encoding, operator, length) = (encoder.encoding(), place.operator, encoder.length());
        let digest = digest([rows as u64, columns as u64]);
        let label = Some(Label { encoding, operator, length, digest });
        let mut exchange = Self { place, label, own: None, legs: 0, blocks: Vec::new(), before: None, refused: None };
        let (operation, buffer) = exchange.lengths(own.len());
        exchange.own = Some(Buffer::F32(own));
        let leg = exchange.leg(operation, buffer);
        Ok((exchange, leg, encoder))
    }

    /// How many collectives an encoding takes.
    #[must_use]
    pub fn legs(encoding: Encoding) -> u64 {
        match encoding {
            Encoding::Plain | Encoding::OneBit { .. } => 1,
            Encoding::Bf16
            | Encoding::F16
            | Encoding::TopK { .. }
            | Encoding::LowRank { .. }
            | Encoding::SufficientFactors { .. } => 2,
        }
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
        let peers = self.place.peers;
        let block = vector.len().div_ceil(peers);
        Ok(match &mut encoder.state {
            State::Plain => (self.all_reduce(vector.len()), Buffer::F32(vector.to_vec())),
            State::Bf16 => {
                let mut all = to_bf16(vector);
                all.resize(block * peers, bf16::ZERO);
                (Operation::AllToAll { block }, Buffer::Bf16(all))
            }
            State::F16 => {
                let mut all = to_f16(vector);
                all.resize(block * peers, f16::ZERO);
                (Operation::AllToAll { block }, Buffer::F16(all))
            }
            State::OneBit { encoder, .. } => {
                let own = encoder.encode(vector);
                let own = self.or_refusal(own, || encoder.refusal());
                let mut all = vec![0; own.len() * peers];
                let start = self.place.me.index() * own.len();
                all[start..start + own.len()].copy_from_slice(&own);
                (Operation::AllGather { block: own.len() }, Buffer::U8(all))
            }
            State::TopK { encoder, .. } => {
                let own = encoder.encode(vector);
                let own = self.or_refusal(own, TopK::refusal);
                let lengths = self.lengths(own.len());
                self.own = Some(Buffer::U8(own));
                lengths
            }
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
        let misfit = |problem| Err(Error::BadEncoding { length, problem });
        match (&mut encoder.state, came) {
            (State::Plain, Buffer::F32(sum)) => Ok(Next::Done(sum)),
            (State::Bf16, Buffer::Bf16(came)) => {
                Ok(self.chunks(came, length, bf16::from_f32, bf16::to_f32, Buffer::Bf16))
            }
            (State::F16, Buffer::F16(came)) => Ok(self.chunks(came, length, f16::from_f32, f16::to_f32, Buffer::F16)),
            (State::OneBit { block, .. }, Buffer::U8(all)) => {
                let one = all.len() / self.place.peers;
                let places: Vec<Range<usize>> =
                    (0..self.place.peers).map(|peer| peer * one..(peer + 1) * one).collect();
                self.check_refusals(&all, &places, OneBit::is_refusal)?;
                let mut sum = vec![0.0; length];
                places.into_iter().try_for_each(|place| OneBit::decode_add(&all[place], *block, &mut sum))?;
                Ok(Next::Done(sum))
            }
            (State::TopK { encoder, .. }, Buffer::I64(lengths)) => {
                let most = encoder.bytes_at_most() as u64;
                if lengths.iter().all(|&length| u64::try_from(length).is_ok_and(|length| length <= most)) {
                    return self.ragged(&lengths, length);
                }
                misfit("a peer has more bytes than that needs")
            }
            (State::TopK { .. }, Buffer::U8(all)) => {
                let places = self.places();
                self.check_refusals(&all, &places, TopK::is_refusal)?;
                let mut sum = vec![0.0; length];
                places.into_iter().try_for_each(|place| TopK::decode_add(&all[place], &mut sum))?;
                Ok(Next::Done(sum))
            }
            (State::LowRank { rank, encoder }, Buffer::F32(sum)) => {
                if let Some(error) = self.refused.take() {
                    return Err(error);
                }
                if !sum.iter().all(|value| value.is_finite()) {
                    return Err(Error::NotFiniteSum { encoding: Encoding::LowRank { rank: *rank } });
                }
                if self.legs == 2 {
                    return Ok(Next::Done(encoder.finish(sum)?));
                }
                let q = encoder.right(sum)?;
                Ok(Next::Leg(self.leg(self.all_reduce(q.len()), Buffer::F32(q))))
            }
            (State::Factors, Buffer::I64(lengths)) => self.ragged(&lengths, length),
            (State::Factors, Buffer::F32(all)) => {
                let (rows, columns) = (encoder.rows, encoder.columns);
                let mut matrix = vec![0.0; length];
                let mut places = self.places().into_iter();
                places.try_for_each(|place| rebuild(&all[place], rows, columns, &mut matrix))?;
                Ok(Next::Done(matrix))
            }
            _ => misfit("a leg ended with other numbers than it began with"),
        }
    }

    /// An all-gather in which everybody says how long its part is.
    fn lengths(&self, own: usize) -> (Operation, Buffer) {
        let mut lengths = vec![0; self.place.peers];
        // No memory holds more.
        lengths[self.place.me.index()] = i64::try_from(own).unwrap_or(i64::MAX);
        (Operation::AllGather { block: 1 }, Buffer::I64(lengths))
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

    /// The all-gather of parts whose lengths are known now.
    fn ragged(&mut self, lengths: &[i64], length: usize) -> Result<Next> {
        let bad = |problem| Error::BadEncoding { length, problem };
        let blocks: Option<Vec<usize>> = lengths.iter().map(|&length| usize::try_from(length).ok()).collect();
        let blocks = blocks.ok_or_else(|| bad("a peer has less than nothing"))?;
        let total = blocks.iter().try_fold(0_usize, |sum, &block| sum.checked_add(block));
        let total = total.filter(|&total| total <= isize::MAX as usize / 4);
        let total = total.ok_or_else(|| bad("no memory holds what all peers have"))?;
        self.blocks = blocks;
        let place = self.places()[self.place.me.index()].clone();
        let buffer = match self.own.take() {
            Some(Buffer::U8(own)) => {
                let mut all = vec![0; total];
                all[place].copy_from_slice(&own);
                Buffer::U8(all)
            }
            Some(Buffer::F32(own)) => {
                let mut all = vec![0.0; total];
                all[place].copy_from_slice(&own);
                Buffer::F32(all)
            }
            _ => return Err(bad("lengths came twice")),
        };
        let operation = Operation::AllGatherRagged { blocks: self.blocks.clone() };
        Ok(Next::Leg(self.leg(operation, buffer)))
    }

    /// An error if somebody's vector could not be encoded; at its peer the one that says where in it.
    fn check_refusals(&mut self, all: &[u8], places: &[Range<usize>], is: fn(&[u8]) -> bool) -> Result<()> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        match places.iter().position(|place| is(&all[place.clone()])) {
            None => Ok(()),
            Some(peer) => Err(Error::NotFiniteAt { rank: Rank::new(peer as u32) }),
        }
    }

    /// After the first leg, this peer's chunk of everybody becomes one; after the second, all chunks are there.
    fn chunks<N: Copy>(
        &mut self,
        came: Vec<N>,
        length: usize,
        from: fn(f32) -> N,
        to: fn(N) -> f32,
        wrap: fn(Vec<N>) -> Buffer,
    ) -> Next {
        if self.legs == 2 {
            return Next::Done(came.into_iter().take(length).map(to).collect());
        }
        let block = came.len() / self.place.peers;
        let mut combined: Vec<f32> = came[..block].iter().map(|&value| to(value)).collect();
        let combine = match self.place.operator {
            Operator::Sum => Element::sum,
            Operator::Min => Element::min,
            Operator::Max => Element::max,
        };
        for peer in 1..self.place.peers {
            let theirs = &came[peer * block..(peer + 1) * block];
            combined.iter_mut().zip(theirs).for_each(|(value, &theirs)| *value = combine(*value, to(theirs)));
        }
        let mut all = came;
        let start = self.place.me.index() * block;
        all[start..start + block].iter_mut().zip(combined).for_each(|(place, value)| *place = from(value));
        Next::Leg(self.leg(Operation::AllGather { block }, wrap(all)))
    }
}
