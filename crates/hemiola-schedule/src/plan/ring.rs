//! Route of blocks around a ring of workers.
//!
//! The positions of the ring are the workers of all peers, in order. Every block has a home
//! position. In a rotation it runs at its home first, then at each following position, and ends at
//! home again. A position runs its own blocks first, then those of the position before it, then
//! those of the one before that. Blocks arrive in this order if every link preserves order, and the
//! order is a function of the positions alone. A rotation is therefore bit-identical for any speed
//! of the workers.
//!
//! **Invariants:** in a rotation every block runs at every position exactly once, at one position
//! at a time, and is at home at the end. Two positions never hold the same block.

use std::collections::VecDeque;

/// Destination of a block after it has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTransfer {
    /// Next position of the ring.
    pub to: usize,
    /// True if the next position is its home, where it stays.
    pub home: bool,
}

/// A block arrived out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring position {position} received block {block} of position {home}, expected {expected}")]
pub struct OutOfOrderBlock {
    /// Position that received the block.
    pub position: usize,
    /// Home position of the block.
    pub home: usize,
    /// Number of the block at its home.
    pub block: usize,
    /// Block that was expected instead.
    pub expected: ExpectedBlock,
}

/// Block that a position expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedBlock {
    /// Home and number of the block; `None` if no block is expected.
    pub at: Option<(usize, usize)>,
}

impl std::fmt::Display for ExpectedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Some((home, block)) => write!(f, "block {block} of position {home}"),
            None => f.write_str("nothing"),
        }
    }
}

/// State of one ring position during one rotation.
#[derive(Clone, Debug)]
pub struct RingPosition {
    number: usize,
    /// Number of blocks of each home position.
    blocks: Vec<usize>,
    /// Next block to arrive: its step (the number of positions it has passed) and its number at its
    /// home.
    arriving: (usize, usize),
    /// Blocks that have arrived and not run.
    queue: VecDeque<(usize, usize)>,
    ran: usize,
}

impl RingPosition {
    /// Creates the state at the start of a rotation, with the position's own blocks. `blocks` has
    /// the number of blocks of each position.
    ///
    /// # Panics
    /// If there is no such position.
    #[must_use]
    pub fn new(position: usize, blocks: &[usize]) -> Self {
        let own = (0..blocks[position]).map(|block| (position, block)).collect();
        let mut new = Self { number: position, blocks: blocks.to_vec(), arriving: (1, 0), queue: own, ran: 0 };
        new.skip_empty_positions();
        new
    }

    /// Number of positions on the ring.
    #[must_use]
    pub fn ring_size(&self) -> usize {
        self.blocks.len()
    }

    /// Number of blocks of the position `step` before this one. They run here in step `step` of a
    /// rotation; in the last step the own blocks come back.
    #[must_use]
    pub fn blocks_of(&self, step: usize) -> usize {
        let size = self.blocks.len();
        self.blocks[(self.number + size - step % size) % size]
    }

    /// Home and number of the block to run now; `None` if it has not arrived.
    #[must_use]
    pub fn next(&self) -> Option<(usize, usize)> {
        self.queue.front().copied()
    }

    /// Returns whether all blocks have run at this position.
    #[must_use]
    pub fn has_run_all(&self) -> bool {
        self.ran == self.blocks.iter().sum::<usize>()
    }

    /// Returns whether the rotation is complete here: all blocks have run, and the own ones are
    /// back.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.has_run_all() && self.expected_block().is_none()
    }

    /// Home and number of the next block from the previous position.
    #[must_use]
    pub fn expected_block(&self) -> Option<(usize, usize)> {
        let (step, block) = self.arriving;
        let size = self.blocks.len();
        // On a ring of one position, blocks stay.
        (step <= size && size > 1).then(|| ((self.number + size - step) % size, block))
    }

    /// Accepts a block from the previous position. Returns whether it is an own block that has come
    /// home.
    pub fn accept_block(&mut self, home: usize, block: usize) -> Result<bool, OutOfOrderBlock> {
        if self.expected_block() != Some((home, block)) {
            return Err(OutOfOrderBlock {
                position: self.number,
                home,
                block,
                expected: ExpectedBlock { at: self.expected_block() },
            });
        }
        let is_home = home == self.number;
        if !is_home {
            self.queue.push_back((home, block));
        }
        self.arriving.1 += 1;
        self.skip_empty_positions();
        Ok(is_home)
    }

    /// Marks the block that [`next`](Self::next) names as run, and returns its destination.
    ///
    /// # Panics
    /// If no block was to run.
    pub fn finish_block(&mut self) -> BlockTransfer {
        let (home, _) = self.queue.pop_front().expect("a queued block has run");
        self.ran += 1;
        let to = (self.number + 1) % self.blocks.len();
        BlockTransfer { to, home: to == home }
    }

    /// Advances to the next position that has blocks.
    fn skip_empty_positions(&mut self) {
        let size = self.blocks.len();
        while self.arriving.0 <= size && self.arriving.1 >= self.blocks[(self.number + size - self.arriving.0) % size] {
            self.arriving = (self.arriving.0 + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a rotation whose positions act in the order `turns`. Returns the blocks that each
    /// position ran, in order.
    fn rotate(blocks: &[usize], turns: &[usize]) -> Vec<Vec<(usize, usize)>> {
        let size = blocks.len();
        let mut ring: Vec<RingPosition> = (0..size).map(|position| RingPosition::new(position, blocks)).collect();
        let mut links = vec![VecDeque::new(); size];
        let mut ran = vec![Vec::new(); size];
        let mut home = 0;
        let mut turn = 0;
        while !ring.iter().all(RingPosition::is_done) {
            assert!(turn < 100_000, "the ring is deadlocked");
            let position = turns.get(turn).map_or(turn, |chosen| *chosen) % size;
            turn += 1;
            // A position alternates between accepting a block and running one, if it can.
            if (turn / size).is_multiple_of(2) || ring[position].next().is_none() {
                if let Some((from, block)) = links[position].pop_front() {
                    home += usize::from(ring[position].accept_block(from, block).unwrap());
                }
            } else if let Some(next) = ring[position].next() {
                ran[position].push(next);
                let pass = ring[position].finish_block();
                assert_eq!(pass.home, pass.to == next.0);
                if size > 1 {
                    links[pass.to].push_back(next);
                }
            }
        }
        assert!(links.iter().all(VecDeque::is_empty));
        assert!(size == 1 || home == blocks.iter().sum::<usize>());
        ran
    }

    proptest! {
        #[test]
        fn every_block_runs_at_every_position_once_in_a_deterministic_order(
            blocks in prop::collection::vec(0..4_usize, 1..7),
            turns in prop::collection::vec(0..7_usize, 0..300),
        ) {
            let ran = rotate(&blocks, &turns);
            let all: Vec<(usize, usize)> =
                blocks.iter().enumerate().flat_map(|(home, count)| (0..*count).map(move |block| (home, block))).collect();
            for order in &ran {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(&sorted, &all);
            }
            prop_assert_eq!(ran, rotate(&blocks, &[]));
        }
    }

    #[test]
    fn an_out_of_order_block_is_rejected() {
        let mut position = RingPosition::new(1, &[1, 1, 1]);
        let error = position.accept_block(2, 0).unwrap_err();
        assert_eq!(error.to_string(), "ring position 1 received block 0 of position 2, expected block 0 of position 0");
        assert_eq!(position.accept_block(0, 0), Ok(false));
    }
}
