//! Recursive halving, then doubling. Among a power of two of members, each exchanges half of its
//! range with the partner furthest away, then a quarter with one half as far, until it holds one
//! reduced chunk. Then the exchanges run backwards and gather instead of reduce. Members beyond the
//! power of two send their vector to a partner first and receive the result last.
//!
//! The lower of two partners keeps the lower half, and its value is the left operand of the sum on
//! both sides.

use super::step::{Members, ReceiveAction, StepBuilder};
use hemiola_core::Rank;
use std::ops::Range;

pub(super) fn all_reduce(writer: &mut StepBuilder, members: Members<'_>, length: usize) {
    let me = members.me;
    within_power_of_two(writer, members, length, |writer, core| {
        let mut range = 0..length;
        // Ranges sent away, with the partner that reduces them.
        let mut given: Vec<(usize, Range<usize>)> = Vec::new();
        let mut distance = core / 2;
        while distance > 0 {
            let partner = me ^ distance;
            let middle = range.start + range.len() / 2;
            let (low, high) = (range.start..middle, middle..range.end);
            let (keep, give, action) = if me < partner {
                (low, high, ReceiveAction::OwnFirst)
            } else {
                (high, low, ReceiveAction::IncomingFirst)
            };
            exchange_ranges(writer, members.ranks[partner], give.clone(), (keep.clone(), action));
            given.push((partner, give));
            range = keep;
            distance /= 2;
        }
        for (partner, gave) in given.into_iter().rev() {
            exchange_ranges(writer, members.ranks[partner], range.clone(), (gave.clone(), ReceiveAction::Replace));
            range = range.start.min(gave.start)..range.end.max(gave.end);
        }
    });
}

/// Runs `among` on the members of the largest power of two, whose number is passed to it. Members
/// beyond it send their vector to a partner first and receive the result last.
pub(super) fn within_power_of_two(
    writer: &mut StepBuilder,
    members: Members<'_>,
    length: usize,
    among: impl FnOnce(&mut StepBuilder, usize),
) {
    let (count, me) = (members.count(), members.me);
    let core = 1_usize << count.ilog2();
    if me >= core {
        let partner = members.ranks[me - core];
        writer.send(partner, 0..length);
        writer.receive(partner, 0..length, ReceiveAction::Replace);
        return;
    }
    let extra = members.ranks.get(me + core).copied();
    if let Some(extra) = extra {
        writer.receive(extra, 0..length, ReceiveAction::OwnFirst);
    }
    among(writer, core);
    if let Some(extra) = extra {
        writer.send(extra, 0..length);
    }
}

/// Sends one range and receives another, piece by piece.
pub(super) fn exchange_ranges(
    writer: &mut StepBuilder,
    partner: Rank,
    give: Range<usize>,
    (get, action): (Range<usize>, ReceiveAction),
) {
    let sends: Vec<Range<usize>> = writer.pieces(give).collect();
    let receives: Vec<(Range<usize>, ReceiveAction)> = writer.pieces(get).map(|piece| (piece, action)).collect();
    writer.stream((partner, &sends), (partner, &receives), sends.len());
}
