//! What a peer does in a collective, one thing after the other.

use hemiola_core::Rank;
use std::ops::Range;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send elements as they are now.
    Send {
        /// To whom.
        to: Rank,
        /// Which.
        range: Range<usize>,
    },
    /// Wait for elements.
    Receive {
        /// From whom.
        from: Rank,
        /// For which of one's own.
        range: Range<usize>,
        /// What becomes of them.
        how: How,
    },
}

/// What becomes of own elements when others arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They are replaced.
    Replace,
    /// They are combined, own on the left.
    OwnFirst,
    /// They are combined, own on the right.
    IncomingFirst,
}

/// Chunk `index` of `length` elements cut into `parts`: sizes differ by one at most.
#[must_use]
pub fn cut(length: usize, parts: usize, index: usize) -> Range<usize> {
    // 128 bits: a length times a number of peers need not fit into 64.
    let edge = |index: usize| (length as u128 * index as u128 / parts as u128) as usize;
    edge(index)..edge(index + 1)
}

/// How many pieces a member may have sent more than it has received.
const AHEAD: usize = 2;

/// Steps being written for one of several members.
///
/// **Invariant:** a range is sent and received in the same pieces on both sides, and in at least one, if an empty one: so peers that disagree about
/// a length hear of each other.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) steps: Vec<Step>,
    /// Elements in a piece.
    pub(super) segment: usize,
}

impl Writer {
    pub(super) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let segment = self.segment.max(1);
        let count = range.len().div_ceil(segment).max(1);
        (0..count).map(move |piece| {
            let start = range.start + piece * segment;
            start..(start + segment).min(range.end)
        })
    }

    pub(super) fn send_piece(&mut self, to: Rank, range: Range<usize>) {
        self.steps.push(Step::Send { to, range });
    }

    pub(super) fn receive_piece(&mut self, from: Rank, range: Range<usize>, how: How) {
        self.steps.push(Step::Receive { from, range, how });
    }

    /// Sends pieces to one member and receives pieces from another, both in order, and never more than [`AHEAD`] further in sending than in receiving: so what is
    /// under way fits into caches and sockets, and is read while it is in them. The first `own` pieces can be sent at once, the others each when one more has been
    /// received.
    ///
    /// No deadlock: a member's piece `i` goes out before it waits for piece `i + 1 − AHEAD`, so a wait for piece `i` rests on earlier pieces alone.
    pub(super) fn stream(
        &mut self,
        (to, sends): (Rank, &[Range<usize>]),
        (from, receives): (Rank, &[(Range<usize>, How)]),
        own: usize,
    ) {
        let mut rest = sends.iter().cloned();
        let mut sent = 0;
        for (place, (piece, how)) in receives.iter().enumerate() {
            let ready = (own + place).min(place + AHEAD);
            for piece in rest.by_ref().take(ready.saturating_sub(sent)) {
                self.send_piece(to, piece);
                sent += 1;
            }
            self.receive_piece(from, piece.clone(), *how);
        }
        rest.for_each(|piece| self.send_piece(to, piece));
    }

    pub(super) fn send(&mut self, to: Rank, range: Range<usize>) {
        for piece in self.pieces(range) {
            self.send_piece(to, piece);
        }
    }

    pub(super) fn receive(&mut self, from: Rank, range: Range<usize>, how: How) {
        for piece in self.pieces(range) {
            self.receive_piece(from, piece, how);
        }
    }
}

/// Some peers in a fixed order, and which of them is being written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'a> {
    pub(super) ranks: &'a [Rank],
    pub(super) me: usize,
}

impl Members<'_> {
    pub(super) fn count(&self) -> usize {
        self.ranks.len()
    }

    /// The member so many places after this one, or before.
    pub(super) fn after(&self, places: usize) -> Rank {
        self.ranks[(self.me + places) % self.count()]
    }

    pub(super) fn before(&self, places: usize) -> Rank {
        self.ranks[(self.me + self.count() - places % self.count()) % self.count()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_everything_once_and_differ_by_one() {
        for length in [0, 1, 2, 7, 100, usize::MAX] {
            for parts in 1..10 {
                let chunks: Vec<_> = (0..parts).map(|index| cut(length, parts, index)).collect();
                assert_eq!((chunks[0].start, chunks[parts - 1].end), (0, length));
                assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert!(chunks.iter().all(|chunk| chunk.len().abs_diff(length / parts) <= 1));
            }
        }
    }

    #[test]
    fn pieces_cover_a_range_and_there_is_always_one() {
        let writer = Writer { steps: Vec::new(), segment: 3 };
        assert_eq!(writer.pieces(2..9).collect::<Vec<_>>(), [2..5, 5..8, 8..9]);
        assert_eq!(writer.pieces(4..4).collect::<Vec<_>>(), std::iter::once(4..4).collect::<Vec<_>>());
    }
}
