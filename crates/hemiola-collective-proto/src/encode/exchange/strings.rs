//! Exchanges of strings of bytes that only make sense whole: one bit and top-k.
//!
//! A peer encodes its vector as one string, or, where each peer gets another part of it, as one for each. Strings go to whoever decodes them, and sums are added by rank. How long
//! they are is told first, where that may differ, or where not everybody would get to see that one could not be encoded. Strings in an all-to-all are as long as
//! the longest, with zeros behind.

use super::{Exchange, Next, misfit, word};
use crate::encode::{Buffer, Goal, OneBit, TopK};
use crate::protocol::Operation;
use crate::{Error, Result};
use hemiola_core::Rank;
use std::ops::Range;

impl Exchange {
    /// The parts of the vector that become strings of their own.
    fn parts(&self, length: usize) -> Vec<Range<usize>> {
        match self.goal {
            goal if goal.deals() => self.place.chunks(length).collect(),
            _ => std::iter::once(0..length).collect(),
        }
    }

    /// Whether this peer has something to tell.
    fn speaks(&self) -> bool {
        !matches!(self.goal, Goal::Broadcast { root } if root != self.place.me)
    }

    /// The first leg, with one bit for each number.
    pub(super) fn one_bit(&mut self, encoder: &mut OneBit, vector: &[f32]) -> (Operation, Buffer) {
        let whole = encoder.bytes();
        let strings = if self.speaks() {
            encoder.encode_parts(vector, &self.parts(vector.len()))
        } else {
            Ok(vec![vec![0; whole]])
        };
        match self.goal {
            Goal::AllReduce | Goal::AllGather | Goal::Broadcast { .. } => {
                let own = self.or_refusal(strings, || vec![encoder.refusal()]).concat();
                match self.goal {
                    Goal::Broadcast { root } => (Operation::Broadcast { root, length: whole }, Buffer::U8(own)),
                    _ => (Operation::AllGather { block: whole }, Buffer::U8(self.spread(&own))),
                }
            }
            _ => self.announce(strings),
        }
    }

    /// The first leg, with the largest numbers.
    pub(super) fn top_k(&mut self, encoder: &mut TopK, vector: &[f32]) -> (Operation, Buffer) {
        let strings =
            if self.speaks() { encoder.encode_parts(vector, &self.parts(vector.len())) } else { Ok(Vec::new()) };
        self.announce(strings)
    }

    /// Says how long the longest string is.
    fn announce(&mut self, strings: Result<Vec<Vec<u8>>>) -> (Operation, Buffer) {
        self.strings = self.or_refusal(strings, Vec::new);
        let longest = self.strings.iter().map(Vec::len).max().unwrap_or(0);
        let longest = self.refused.is_none().then_some(longest);
        match self.goal {
            Goal::Broadcast { root } => (Operation::Broadcast { root, length: 1 }, Buffer::I64(vec![word(longest)])),
            _ => self.words(longest),
        }
    }

    pub(super) fn after_one_bit(&mut self, block: usize, came: Buffer, length: usize) -> Result<Next> {
        match came {
            Buffer::I64(words) => {
                // What a whole vector needs is more than any part of it does.
                let most = OneBit::new(0, block).bytes_of(length);
                self.send_strings(&words, most, length)
            }
            Buffer::U8(all) => {
                if self.legs == 1 {
                    self.check_refusals(&all)?;
                }
                let decode = |bytes: &[u8], into: &mut [f32]| {
                    let used = OneBit::new(0, block).bytes_of(into.len());
                    OneBit::decode_add(bytes.get(..used).unwrap_or(bytes), block, into)
                };
                self.decode(&all, length, decode)
            }
            _ => Err(misfit(length)),
        }
    }

    pub(super) fn after_top_k(&mut self, most: usize, came: Buffer, length: usize) -> Result<Next> {
        match came {
            Buffer::I64(words) => self.send_strings(&words, most, length),
            Buffer::U8(all) => self.decode(&all, length, TopK::decode_add_padded),
            _ => Err(misfit(length)),
        }
    }

    /// The second leg, when all lengths are known.
    fn send_strings(&mut self, words: &[i64], most: usize, length: usize) -> Result<Next> {
        self.read_words(words, most, length).map_err(|error| match (error, self.goal) {
            // There is only one word, the root's.
            (Error::NotFiniteAt { .. }, Goal::Broadcast { root }) => Error::NotFiniteAt { rank: root },
            (error, _) => error,
        })?;
        let strings = std::mem::take(&mut self.strings);
        let operation = match self.goal {
            Goal::ReduceScatter | Goal::AllToAll => {
                let block = self.blocks.iter().copied().max().unwrap_or(0);
                self.blocks.fill(block);
                Operation::AllToAll { block }
            }
            Goal::Reduce { root } => Operation::Gather { root, blocks: self.blocks.clone() },
            Goal::Broadcast { root } => Operation::Broadcast { root, length: self.blocks[0] },
            Goal::AllReduce | Goal::AllGather => Operation::AllGatherRagged { blocks: self.blocks.clone() },
        };
        let places = self.places();
        let mut all = vec![0; self.blocks.iter().sum()];
        // A string for each peer, or the only one there is, or one's own among all.
        let first = if self.goal.deals() || places.len() == 1 { 0 } else { self.place.me.index() };
        for (place, string) in places[first..].iter().zip(strings) {
            all[place.start..][..string.len()].copy_from_slice(&string);
        }
        Ok(Next::Leg(self.leg(operation, Buffer::U8(all))))
    }

    /// Everybody's strings become what this peer gets.
    fn decode(&self, all: &[u8], length: usize, decode: impl Fn(&[u8], &mut [f32]) -> Result<()>) -> Result<Next> {
        let peers = self.place.peers;
        if matches!(self.goal, Goal::Reduce { .. }) && !self.place.is_root(self.goal) {
            return Ok(Next::Done(Vec::new()));
        }
        let places = match self.goal {
            Goal::Broadcast { .. } => std::iter::once(0..all.len()).collect(),
            _ if self.blocks.is_empty() => {
                let one = all.len() / peers;
                (0..peers).map(|peer| peer * one..(peer + 1) * one).collect()
            }
            _ => self.places(),
        };
        // How many numbers a string stands for, and whether they are added up.
        let (one, added) = match self.goal {
            Goal::AllReduce | Goal::Reduce { .. } => (length, true),
            Goal::ReduceScatter => (self.place.own_chunk(length).len(), true),
            Goal::AllGather | Goal::Broadcast { .. } => (length, false),
            Goal::AllToAll => (length / peers, false),
        };
        let mut result = vec![0.0; if added { one } else { one * places.len() }];
        for (number, place) in places.into_iter().enumerate() {
            let start = if added { 0 } else { number * one };
            decode(&all[place], &mut result[start..start + one])?;
        }
        Ok(Next::Done(result))
    }

    /// An error if somebody's vector could not be encoded, where the only word of it is in the place of its string; at its peer the one that says where in it.
    fn check_refusals(&mut self, all: &[u8]) -> Result<()> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        let (one, rank) = match self.goal {
            Goal::Broadcast { root } => (all.len(), root.number()),
            _ => (all.len() / self.place.peers, 0),
        };
        let refused = (one > 0).then(|| all.chunks(one).position(OneBit::is_refusal)).flatten();
        refused.map_or(Ok(()), |peer| Err(Error::NotFiniteAt { rank: Rank::new(rank + peer as u32) }))
    }
}
