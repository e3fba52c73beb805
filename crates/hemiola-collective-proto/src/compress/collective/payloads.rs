//! Compressed collectives of payloads that cannot be added without decompression: one bit and
//! top-k.
//!
//! A peer compresses its vector into one payload or, where each peer receives a different part,
//! into one per peer. Payloads go to the peers that decompress them, and sums are added by rank.
//! Lengths are announced first where they may differ, or where not every peer would otherwise learn
//! that a vector could not be compressed. Payloads in an all-to-all are as long as the longest,
//! padded with zeros.

use super::{CompressedCollective, NextStage, buffer_mismatch, length_code};
use crate::compress::{CollectiveGoal, CompressedBuffer, OneBitCompressor, TopKCompressor};
use crate::protocol::Operation;
use crate::{Error, Result};
use hemiola_core::Rank;
use std::ops::Range;

impl CompressedCollective {
    /// Parts of the vector that become separate payloads.
    fn parts(&self, length: usize) -> Vec<Range<usize>> {
        match self.goal {
            goal if goal.scatters() => self.context.chunks(length).collect(),
            _ => std::iter::once(0..length).collect(),
        }
    }

    /// Returns true if this peer contributes a vector.
    fn has_input(&self) -> bool {
        !matches!(self.goal, CollectiveGoal::Broadcast { root } if root != self.context.me)
    }

    /// First stage with one bit per element.
    pub(super) fn start_one_bit(
        &mut self,
        compressor: &mut OneBitCompressor,
        vector: &[f32],
    ) -> (Operation, CompressedBuffer) {
        let whole = compressor.bytes();
        let payloads = if self.has_input() {
            compressor.compress_parts(vector, &self.parts(vector.len()))
        } else {
            Ok(vec![vec![0; whole]])
        };
        match self.goal {
            CollectiveGoal::AllReduce | CollectiveGoal::AllGather | CollectiveGoal::Broadcast { .. } => {
                let own = self.or_rejection(payloads, || vec![compressor.rejection_marker()]).concat();
                match self.goal {
                    CollectiveGoal::Broadcast { root } => {
                        (Operation::Broadcast { root, length: whole }, CompressedBuffer::U8(own))
                    }
                    _ => (Operation::AllGather { block: whole }, CompressedBuffer::U8(self.with_own_block(&own))),
                }
            }
            _ => self.announce_payloads(payloads),
        }
    }

    /// First stage with top-k payloads.
    pub(super) fn start_top_k(
        &mut self,
        compressor: &mut TopKCompressor,
        vector: &[f32],
    ) -> (Operation, CompressedBuffer) {
        let payloads = if self.has_input() {
            compressor.compress_parts(vector, &self.parts(vector.len()))
        } else {
            Ok(Vec::new())
        };
        self.announce_payloads(payloads)
    }

    /// Announces the length of the longest payload.
    fn announce_payloads(&mut self, payloads: Result<Vec<Vec<u8>>>) -> (Operation, CompressedBuffer) {
        self.payloads = self.or_rejection(payloads, Vec::new);
        let longest = self.payloads.iter().map(Vec::len).max().unwrap_or(0);
        let longest = self.rejection.is_none().then_some(longest);
        match self.goal {
            CollectiveGoal::Broadcast { root } => {
                (Operation::Broadcast { root, length: 1 }, CompressedBuffer::I64(vec![length_code(longest)]))
            }
            _ => self.announce_lengths(longest),
        }
    }

    pub(super) fn after_one_bit(
        &mut self,
        block: usize,
        received: CompressedBuffer,
        length: usize,
    ) -> Result<NextStage> {
        match received {
            CompressedBuffer::I64(lengths) => {
                // The payload of a whole vector is an upper bound for that of any part.
                let most = OneBitCompressor::new(0, block).bytes_of(length);
                self.send_payloads(&lengths, most, length)
            }
            CompressedBuffer::U8(all) => {
                if self.stages == 1 {
                    self.check_rejections(&all)?;
                }
                let decompress = |bytes: &[u8], into: &mut [f32]| {
                    let used = OneBitCompressor::new(0, block).bytes_of(into.len());
                    OneBitCompressor::decompress_add(bytes.get(..used).unwrap_or(bytes), block, into)
                };
                self.decompress_all(&all, length, decompress)
            }
            _ => Err(buffer_mismatch(length)),
        }
    }

    pub(super) fn after_top_k(&mut self, most: usize, received: CompressedBuffer, length: usize) -> Result<NextStage> {
        match received {
            CompressedBuffer::I64(lengths) => self.send_payloads(&lengths, most, length),
            CompressedBuffer::U8(all) => self.decompress_all(&all, length, TopKCompressor::decompress_add_padded),
            _ => Err(buffer_mismatch(length)),
        }
    }

    /// Second stage, when all lengths are known.
    fn send_payloads(&mut self, lengths: &[i64], most: usize, length: usize) -> Result<NextStage> {
        self.read_lengths(lengths, most, length).map_err(|error| match (error, self.goal) {
            // There is only one length, the root's.
            (Error::NotFiniteOnPeer { .. }, CollectiveGoal::Broadcast { root }) => {
                Error::NotFiniteOnPeer { rank: root }
            }
            (error, _) => error,
        })?;
        let payloads = std::mem::take(&mut self.payloads);
        let operation = match self.goal {
            CollectiveGoal::ReduceScatter | CollectiveGoal::AllToAll => {
                let block = self.blocks.iter().copied().max().unwrap_or(0);
                self.blocks.fill(block);
                Operation::AllToAll { block }
            }
            CollectiveGoal::Reduce { root } => Operation::Gather { root, blocks: self.blocks.clone() },
            CollectiveGoal::Broadcast { root } => Operation::Broadcast { root, length: self.blocks[0] },
            CollectiveGoal::AllReduce | CollectiveGoal::AllGather => {
                Operation::AllGatherRagged { blocks: self.blocks.clone() }
            }
        };
        let ranges = self.block_ranges();
        let mut all = vec![0; self.blocks.iter().sum()];
        // One payload per peer, or the only one there is, or the own one among all.
        let first = if self.goal.scatters() || ranges.len() == 1 { 0 } else { self.context.me.index() };
        for (range, payload) in ranges[first..].iter().zip(payloads) {
            all[range.start..][..payload.len()].copy_from_slice(&payload);
        }
        Ok(NextStage::Stage(self.stage(operation, CompressedBuffer::U8(all))))
    }

    /// Decompresses all payloads into the result of this peer.
    fn decompress_all(
        &self,
        all: &[u8],
        length: usize,
        decompress: impl Fn(&[u8], &mut [f32]) -> Result<()>,
    ) -> Result<NextStage> {
        let peers = self.context.peers;
        if matches!(self.goal, CollectiveGoal::Reduce { .. }) && !self.context.is_root(self.goal) {
            return Ok(NextStage::Done(Vec::new()));
        }
        let ranges = match self.goal {
            CollectiveGoal::Broadcast { .. } => std::iter::once(0..all.len()).collect(),
            _ if self.blocks.is_empty() => {
                let one = all.len() / peers;
                (0..peers).map(|peer| peer * one..(peer + 1) * one).collect()
            }
            _ => self.block_ranges(),
        };
        // Number of elements per payload; true if payloads are summed.
        let (one, added) = match self.goal {
            CollectiveGoal::AllReduce | CollectiveGoal::Reduce { .. } => (length, true),
            CollectiveGoal::ReduceScatter => (self.context.own_chunk(length).len(), true),
            CollectiveGoal::AllGather | CollectiveGoal::Broadcast { .. } => (length, false),
            CollectiveGoal::AllToAll => (length / peers, false),
        };
        let mut result = vec![0.0; if added { one } else { one * ranges.len() }];
        for (number, range) in ranges.into_iter().enumerate() {
            let start = if added { 0 } else { number * one };
            decompress(&all[range], &mut result[start..start + one])?;
        }
        Ok(NextStage::Done(result))
    }

    /// Fails if the vector of some peer could not be compressed, where the only sign of it is the
    /// marker in its payload. On that peer itself, returns the error that names the index.
    fn check_rejections(&mut self, all: &[u8]) -> Result<()> {
        if let Some(error) = self.rejection.take() {
            return Err(error);
        }
        let (one, rank) = match self.goal {
            CollectiveGoal::Broadcast { root } => (all.len(), root.number()),
            _ => (all.len() / self.context.peers, 0),
        };
        let refused = (one > 0).then(|| all.chunks(one).position(OneBitCompressor::is_rejection)).flatten();
        refused.map_or(Ok(()), |peer| Err(Error::NotFiniteOnPeer { rank: Rank::new(rank + peer as u32) }))
    }
}
