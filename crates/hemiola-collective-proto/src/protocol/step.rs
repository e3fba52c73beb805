//! Steps of a collective on one peer, and their construction.

use hemiola_core::Rank;
use std::ops::Range;

/// Single action of a peer in a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectiveStep {
    /// Send elements with their current values.
    Send {
        /// Rank of the receiver.
        to: Rank,
        /// Range of own elements to send.
        range: Range<usize>,
    },
    /// Wait for elements and store or combine them.
    Receive {
        /// Rank of the sender.
        from: Rank,
        /// Range of own elements that the message affects.
        range: Range<usize>,
        /// Effect on the own elements.
        action: ReceiveAction,
    },
}

/// Effect of received elements on own elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveAction {
    /// Replace own elements by the received ones.
    Replace,
    /// Combine, with own elements as left operands.
    OwnFirst,
    /// Combine, with own elements as right operands.
    IncomingFirst,
}

/// Range of chunk `index` of `length` elements cut into `parts`; sizes differ by at most one.
#[must_use]
pub fn chunk_range(length: usize, parts: usize, index: usize) -> Range<usize> {
    // 128 bits, since a length times a number of peers need not fit into 64.
    let edge = |index: usize| (length as u128 * index as u128 / parts as u128) as usize;
    edge(index)..edge(index + 1)
}

/// Number of pieces that a member may have sent ahead of its receives.
const SEND_WINDOW: usize = 2;

/// Builder of the step list of one member.
///
/// **Invariant:** a range is sent and received in the same pieces on both sides, and in at least
/// one piece, even if it is empty. So peers that use different lengths still exchange messages and
/// detect it.
#[derive(Debug)]
pub(super) struct StepBuilder {
    pub(super) steps: Vec<CollectiveStep>,
    /// Maximum number of elements per piece.
    pub(super) segment: usize,
}

impl StepBuilder {
    pub(super) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let segment = self.segment.max(1);
        let count = range.len().div_ceil(segment).max(1);
        (0..count).map(move |piece| {
            let start = range.start + piece * segment;
            start..(start + segment).min(range.end)
        })
    }

    pub(super) fn send_piece(&mut self, to: Rank, range: Range<usize>) {
        self.steps.push(CollectiveStep::Send { to, range });
    }

    pub(super) fn receive_piece(&mut self, from: Rank, range: Range<usize>, action: ReceiveAction) {
        self.steps.push(CollectiveStep::Receive { from, range, action });
    }

    /// Sends pieces to one member and receives pieces from another, both in order, and never sends
    /// more than [`SEND_WINDOW`] pieces ahead of its receives. So the pieces in flight fit into
    /// caches and sockets, and are read while they are in cache. The first `own` pieces can be sent
    /// at once, each of the others after one more has been received.
    ///
    /// No deadlock: a member sends piece `i` before it waits for piece `i + 1 − SEND_WINDOW`, so a
    /// wait for piece `i` depends on earlier pieces only.
    pub(super) fn stream(
        &mut self,
        (to, sends): (Rank, &[Range<usize>]),
        (from, receives): (Rank, &[(Range<usize>, ReceiveAction)]),
        own: usize,
    ) {
        let mut rest = sends.iter().cloned();
        let mut sent = 0;
        for (index, (piece, action)) in receives.iter().enumerate() {
            let ready = (own + index).min(index + SEND_WINDOW);
            for piece in rest.by_ref().take(ready.saturating_sub(sent)) {
                self.send_piece(to, piece);
                sent += 1;
            }
            self.receive_piece(from, piece.clone(), *action);
        }
        rest.for_each(|piece| self.send_piece(to, piece));
    }

    pub(super) fn send(&mut self, to: Rank, range: Range<usize>) {
        for piece in self.pieces(range) {
            self.send_piece(to, piece);
        }
    }

    pub(super) fn receive(&mut self, from: Rank, range: Range<usize>, action: ReceiveAction) {
        for piece in self.pieces(range) {
            self.receive_piece(from, piece, action);
        }
    }
}

/// Some peers in a fixed order, and the index of the peer whose steps are built.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'a> {
    pub(super) ranks: &'a [Rank],
    pub(super) me: usize,
}

impl Members<'_> {
    pub(super) fn count(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the member `distance` positions after this one, cyclically.
    pub(super) fn after(&self, distance: usize) -> Rank {
        self.ranks[(self.me + distance) % self.count()]
    }

    /// Returns the member `distance` positions before this one, cyclically.
    pub(super) fn before(&self, distance: usize) -> Rank {
        self.ranks[(self.me + self.count() - distance % self.count()) % self.count()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_everything_once_and_differ_by_one() {
        for length in [0, 1, 2, 7, 100, usize::MAX] {
            for parts in 1..10 {
                let chunks: Vec<_> = (0..parts).map(|index| chunk_range(length, parts, index)).collect();
                assert_eq!((chunks[0].start, chunks[parts - 1].end), (0, length));
                assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert!(chunks.iter().all(|chunk| chunk.len().abs_diff(length / parts) <= 1));
            }
        }
    }

    #[test]
    fn pieces_cover_a_range_and_there_is_always_one() {
        let writer = StepBuilder { steps: Vec::new(), segment: 3 };
        assert_eq!(writer.pieces(2..9).collect::<Vec<_>>(), [2..5, 5..8, 8..9]);
        assert_eq!(writer.pieces(4..4).collect::<Vec<_>>(), std::iter::once(4..4).collect::<Vec<_>>());
    }
}
