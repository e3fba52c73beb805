//! An all-gather of blocks whose lengths only their owners know: lengths first, then blocks.
//!
//! Both collectives are counted when the first begins, so that others may begin and end in between in any order.

use super::message::{Message, Tag};
use super::operation::ranges;
use super::{Element, Engine, Operation};
use crate::{Error, Result};
use std::ops::Range;

/// A ragged all-gather in flight.
#[derive(Debug)]
pub struct RaggedGather<T> {
    lengths: Vec<i64>,
    lengths_tag: Tag,
    blocks_tag: Tag,
    limit: usize,
    /// One's own block, and later all of them.
    elements: Vec<T>,
    ranges: Option<Vec<Range<usize>>>,
}

impl<T: Element> RaggedGather<T> {
    /// Begins, with one's own block. More than `limit` elements in all are refused.
    pub fn begin(engine: &mut Engine, own: Vec<T>, limit: usize) -> Result<Self> {
        let mut lengths = vec![0; engine.peers()];
        lengths[engine.me().index()] = i64::try_from(own.len()).unwrap_or(i64::MAX);
        let lengths_tag = engine.begin::<i64>(&Operation::AllGather { block: 1 })?;
        Ok(Self { lengths, lengths_tag, blocks_tag: engine.reserve(), limit, elements: own, ranges: None })
    }

    /// Carries it on; true when it is over.
    pub fn advance(&mut self, engine: &mut Engine, out: &mut Vec<Message>) -> Result<bool> {
        if self.ranges.is_none() {
            if !engine.advance(self.lengths_tag, &mut self.lengths, out)? {
                return Ok(false);
            }
            let blocks: Vec<usize> =
                self.lengths.iter().map(|&length| usize::try_from(length).unwrap_or(usize::MAX)).collect();
            let total = blocks.iter().map(|&block| block as u128).sum::<u128>();
            if total > self.limit as u128 {
                return Err(Error::TooMuch { total, limit: self.limit });
            }
            let ranges = ranges(&blocks);
            let mut all = vec![T::zeroed(); total as usize];
            all[ranges[engine.me().index()].clone()].copy_from_slice(&self.elements);
            engine.begin_reserved::<T>(self.blocks_tag, &Operation::AllGatherRagged { blocks })?;
            (self.elements, self.ranges) = (all, Some(ranges));
        }
        engine.advance(self.blocks_tag, &mut self.elements, out)
    }

    /// All elements by rank, and where each peer's are. To be called when [`RaggedGather::advance`] has said true.
    #[must_use]
    pub fn finish(self) -> (Vec<T>, Vec<Range<usize>>) {
        (self.elements, self.ranges.unwrap_or_default())
    }
}
