//! Receiving half of a rotation node: which block arrives next, and when nothing more arrives.
//!
//! A driver thread can own an inbox while workers run blocks. [`RotationNode`] contains one, too.
//!
//! Two signals end a rotation that has failed. *Stop*: a node has failed; the receiver stops and
//! passes the signal on once. *Done*: the sender sends nothing more. A stopped node whose blocks
//! are to be recovered receives until its sender is done, so no block is lost in flight.
//!
//! **Invariant:** blocks are accepted in the order of [`RingSegment::arrival`] and in no other.
//!
//! [`RotationNode`]: super::rotation_node::RotationNode

use super::ring::RingVisit;
use super::ring_segment::RingSegment;
use std::fmt;

/// A block arrived out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring positions from {position} on received block {block} of rotation {rotation}, expected {expected}")]
pub struct OutOfOrderBlock {
    /// First position of the node that received the block.
    pub position: usize,
    /// Rotation that the block belongs to.
    pub rotation: u64,
    /// Number of the block.
    pub block: usize,
    /// Block that was expected instead.
    pub expected: ExpectedBlock,
}

/// Block that a node expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedBlock {
    /// Current rotation of the node.
    pub rotation: u64,
    /// Number of the block; `None` if no block is expected.
    pub block: Option<usize>,
}

impl fmt::Display for ExpectedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.block {
            Some(block) => write!(f, "block {block} of rotation {}", self.rotation),
            None => write!(f, "no more blocks of rotation {}", self.rotation),
        }
    }
}

/// Arrivals of one node during one rotation. See the [module](self).
#[derive(Clone, Debug)]
pub struct RotationInbox {
    segment: RingSegment,
    rotation: u64,
    /// Number of blocks that have arrived.
    arrived: usize,
    stopped: bool,
    sender_done: bool,
}

impl RotationInbox {
    /// Creates the inbox of a segment at the start of a rotation.
    #[must_use]
    pub fn new(segment: RingSegment, rotation: u64) -> Self {
        Self { segment, rotation, arrived: 0, stopped: false, sender_done: false }
    }

    /// Positions of this node.
    #[must_use]
    pub fn segment(&self) -> &RingSegment {
        &self.segment
    }

    /// Number of the rotation.
    #[must_use]
    pub fn rotation(&self) -> u64 {
        self.rotation
    }

    /// Next block to arrive, with its stage; `None` if no more will arrive.
    #[must_use]
    pub fn expected(&self) -> Option<RingVisit> {
        if self.sender_done { None } else { self.segment.arrival(self.arrived) }
    }

    /// Next block to arrive, for messages.
    #[must_use]
    pub fn expected_block(&self) -> ExpectedBlock {
        ExpectedBlock { rotation: self.rotation, block: self.expected().map(|visit| visit.block) }
    }

    /// Accepts a block of this rotation. Returns it with its stage.
    pub fn on_block(&mut self, block: usize) -> Result<RingVisit, OutOfOrderBlock> {
        match self.expected() {
            Some(visit) if visit.block == block => {
                self.arrived += 1;
                Ok(visit)
            }
            _ => Err(self.out_of_order(self.rotation, block)),
        }
    }

    /// Error that refuses a block.
    pub(super) fn out_of_order(&self, rotation: u64, block: usize) -> OutOfOrderBlock {
        let (position, expected) = (self.segment.positions().start, self.expected_block());
        OutOfOrderBlock { position, rotation, block, expected }
    }

    /// Stops the rotation: this node or another one has failed. Returns whether this is the first
    /// signal, which is to be passed on.
    pub fn on_stop(&mut self) -> bool {
        !std::mem::replace(&mut self.stopped, true)
    }

    /// Notes that the sender sends nothing more. Returns whether blocks are missing, so the sender
    /// has failed even if its stop signal comes later.
    pub fn on_done(&mut self) -> bool {
        let missing = self.expected().is_some();
        self.sender_done = true;
        missing
    }

    /// Returns whether nothing more arrives: all blocks have, or the rotation has stopped and the
    /// sender is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.expected().is_none() && (!self.stopped || self.sender_done || !self.segment.has_links())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ring::{Ring, RingDirection};
    use super::*;
    use std::sync::Arc;

    fn inbox(position: usize) -> RotationInbox {
        let ring = Arc::new(Ring::new(RingDirection::ToHigher, [1, 1, 1]));
        RotationInbox::new(RingSegment::new(ring, position..position + 1), 4)
    }

    #[test]
    fn an_out_of_order_block_is_refused() {
        let mut inbox = inbox(1);
        let error = inbox.on_block(2).unwrap_err().to_string();
        assert_eq!(error, "ring positions from 1 on received block 2 of rotation 4, expected block 0 of rotation 4");
        for (block, stage) in [(0, 1), (2, 2), (1, 3)] {
            assert!(!inbox.is_done());
            assert_eq!(inbox.on_block(block), Ok(RingVisit { block, stage }));
        }
        assert!(inbox.is_done());
        assert!(inbox.on_block(0).unwrap_err().to_string().ends_with("expected no more blocks of rotation 4"));
    }

    #[test]
    fn a_stopped_node_receives_until_its_sender_is_done() {
        let mut stopped = inbox(1);
        assert!(stopped.on_stop());
        assert!(!stopped.on_stop(), "a stop signal is passed on once");
        stopped.on_block(0).unwrap();
        assert!(!stopped.is_done());
        assert!(stopped.on_done());
        assert!(stopped.is_done());
        // A sender that is done too early has failed.
        let mut early = inbox(1);
        assert!(early.on_done());
        assert!(early.is_done());
        // After the last block nothing is missing, and a stop signal still waits for the sender.
        let mut late = inbox(1);
        for block in [0, 2, 1] {
            late.on_block(block).unwrap();
        }
        assert!(late.is_done());
        late.on_stop();
        assert!(!late.is_done());
        assert!(!late.on_done());
        assert!(late.is_done());
        // Without links there is no sender to wait for.
        let ring = Arc::new(Ring::new(RingDirection::Stationary, [1, 1]));
        let mut alone = RotationInbox::new(RingSegment::new(ring, 0..1), 0);
        alone.on_stop();
        assert!(alone.is_done());
    }
}
