//! The way of blocks around a ring of workers.
//!
//! Seats are the workers of all peers, in order. Every block has a home. In a rotation it runs at its home first, then at each seat after it, and ends at home
//! again. A seat runs its own blocks first, then those of the seat before it, then those of the one before that: the order in which they come if
//! every link keeps order, and a function of the seats alone. So a rotation gives the same bits however fast anybody is.
//!
//! **Invariants:** in a rotation every block runs at every seat exactly once, at one at a time, and is at home at the end; two seats never hold the same block.

use std::collections::VecDeque;

/// Where a block goes after it has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The next seat.
    pub to: usize,
    /// Whether that is its home, where it stays.
    pub home: bool,
}

/// A block that came when another had to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seat {seat} of the ring got block {block} of seat {home} when {expected} was due")]
pub struct OutOfTurn {
    /// Where.
    pub seat: usize,
    /// The home of the block.
    pub home: usize,
    /// Which of its home's.
    pub block: usize,
    /// What was due.
    pub expected: Due,
}

/// What is due at a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The home of the block; `None` if nothing is due.
    pub at: Option<(usize, usize)>,
}

impl std::fmt::Display for Due {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Some((home, block)) => write!(f, "block {block} of seat {home}"),
            None => f.write_str("nothing"),
        }
    }
}

/// One seat, in one rotation.
#[derive(Clone, Debug)]
pub struct Seat {
    number: usize,
    /// Blocks of each home.
    blocks: Vec<usize>,
    /// The next to arrive: the step (how many seats it has come) and which of its home's.
    arriving: (usize, usize),
    /// Arrived and not run.
    queue: VecDeque<(usize, usize)>,
    ran: usize,
}

impl Seat {
    /// The seat at the beginning of a rotation, with its own blocks. `blocks` has the number of blocks of each seat.
    ///
    /// # Panics
    /// If there is no such seat.
    #[must_use]
    pub fn new(seat: usize, blocks: &[usize]) -> Self {
        let own = (0..blocks[seat]).map(|block| (seat, block)).collect();
        let mut new = Self { number: seat, blocks: blocks.to_vec(), arriving: (1, 0), queue: own, ran: 0 };
        new.skip_empty();
        new
    }

    /// How many seats there are.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks of the seat `step` before this one: those that run here in step `step` of a rotation, or in the last, when its own come back.
    #[must_use]
    pub fn blocks_of(&self, step: usize) -> usize {
        let seats = self.blocks.len();
        self.blocks[(self.number + seats - step % seats) % seats]
    }

    /// The home and number of the block to run now; `None` if it has not come.
    #[must_use]
    pub fn next(&self) -> Option<(usize, usize)> {
        self.queue.front().copied()
    }

    /// Whether all blocks have run here.
    #[must_use]
    pub fn has_run_all(&self) -> bool {
        self.ran == self.blocks.iter().sum::<usize>()
    }

    /// Whether the rotation is over here: all have run, and its own are back.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.has_run_all() && self.due().is_none()
    }

    /// The home and number of the block that comes next, from the seat before.
    #[must_use]
    pub fn due(&self) -> Option<(usize, usize)> {
        let (step, block) = self.arriving;
        let seats = self.blocks.len();
        // Alone on a ring, blocks stay.
        (step <= seats && seats > 1).then(|| ((self.number + seats - step) % seats, block))
    }

    /// Takes in a block from the seat before. Whether it is one of its own that has come home.
    pub fn arrived(&mut self, home: usize, block: usize) -> Result<bool, OutOfTurn> {
        if self.due() != Some((home, block)) {
            return Err(OutOfTurn { seat: self.number, home, block, expected: Due { at: self.due() } });
        }
        let is_home = home == self.number;
        if !is_home {
            self.queue.push_back((home, block));
        }
        self.arriving.1 += 1;
        self.skip_empty();
        Ok(is_home)
    }

    /// The block that [`next`](Self::next) names has run: where it goes.
    ///
    /// # Panics
    /// If none was to run.
    pub fn ran(&mut self) -> Pass {
        let (home, _) = self.queue.pop_front().expect("only a block that is here can run");
        self.ran += 1;
        let to = (self.number + 1) % self.blocks.len();
        Pass { to, home: to == home }
    }

    /// Goes on to the next seat that has blocks.
    fn skip_empty(&mut self) {
        let seats = self.blocks.len();
        while self.arriving.0 <= seats
            && self.arriving.1 >= self.blocks[(self.number + seats - self.arriving.0) % seats]
        {
            self.arriving = (self.arriving.0 + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a rotation with seats that act in the order `turns` says; who ran each block, in order.
    fn rotate(blocks: &[usize], turns: &[usize]) -> Vec<Vec<(usize, usize)>> {
        let seats = blocks.len();
        let mut ring: Vec<Seat> = (0..seats).map(|seat| Seat::new(seat, blocks)).collect();
        let mut links = vec![VecDeque::new(); seats];
        let mut ran = vec![Vec::new(); seats];
        let mut home = 0;
        let mut turn = 0;
        while !ring.iter().all(Seat::is_over) {
            assert!(turn < 100_000, "nobody can go on");
            let seat = turns.get(turn).map_or(turn, |chosen| *chosen) % seats;
            turn += 1;
            // Half of the time it takes in a block, else it runs one, whichever it can.
            if (turn / seats).is_multiple_of(2) || ring[seat].next().is_none() {
                if let Some((from, block)) = links[seat].pop_front() {
                    home += usize::from(ring[seat].arrived(from, block).unwrap());
                }
            } else if let Some(next) = ring[seat].next() {
                ran[seat].push(next);
                let pass = ring[seat].ran();
                assert_eq!(pass.home, pass.to == next.0);
                if seats > 1 {
                    links[pass.to].push_back(next);
                }
            }
        }
        assert!(links.iter().all(VecDeque::is_empty));
        assert!(seats == 1 || home == blocks.iter().sum::<usize>());
        ran
    }

    proptest! {
        #[test]
        fn every_block_runs_everywhere_once_in_an_order_that_time_does_not_change(
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
    fn a_block_out_of_turn_is_refused() {
        let mut seat = Seat::new(1, &[1, 1, 1]);
        let error = seat.arrived(2, 0).unwrap_err();
        assert_eq!(error.to_string(), "seat 1 of the ring got block 0 of seat 2 when block 0 of seat 0 was due");
        assert_eq!(seat.arrived(0, 0), Ok(false));
    }
}
