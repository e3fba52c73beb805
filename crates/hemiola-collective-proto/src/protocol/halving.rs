//! Recursive halving, then doubling. Among a power of two of members, each exchanges half of what it is responsible for with the member
//! furthest away, then a quarter with one half as far, until it is responsible for one chunk, summed; then the same backwards, telling
//! instead of summing. Members beyond the power of two hand their vector to a partner before and are told the result after.
//!
//! The lower of two partners keeps the lower half, and its number stands on the left of the sum whoever adds.

use super::step::{How, Members, Writer};
use hemiola_core::Rank;
use std::ops::Range;

pub(super) fn all_reduce(writer: &mut Writer, members: Members<'_>, length: usize) {
    let me = members.me;
    in_core(writer, members, length, |writer, core| {
        let mut range = 0..length;
        // The halves given away, with whom.
        let mut given: Vec<(usize, Range<usize>)> = Vec::new();
        let mut distance = core / 2;
        while distance > 0 {
            let partner = me ^ distance;
            let middle = range.start + range.len() / 2;
            let (low, high) = (range.start..middle, middle..range.end);
            let (keep, give, how) =
                if me < partner { (low, high, How::OwnFirst) } else { (high, low, How::IncomingFirst) };
            exchange(writer, members.ranks[partner], give.clone(), (keep.clone(), how));
            given.push((partner, give));
            range = keep;
            distance /= 2;
        }
        for (partner, gave) in given.into_iter().rev() {
            exchange(writer, members.ranks[partner], range.clone(), (gave.clone(), How::Replace));
            range = range.start.min(gave.start)..range.end.max(gave.end);
        }
    });
}

/// What the members of the largest power of two do, whose number `among` is given; members beyond it hand their vector to a partner before and are told the
/// result after.
pub(super) fn in_core(
    writer: &mut Writer,
    members: Members<'_>,
    length: usize,
    among: impl FnOnce(&mut Writer, usize),
) {
    let (count, me) = (members.count(), members.me);
    let core = 1_usize << count.ilog2();
    if me >= core {
        let partner = members.ranks[me - core];
        writer.send(partner, 0..length);
        writer.receive(partner, 0..length, How::Replace);
        return;
    }
    let extra = members.ranks.get(me + core).copied();
    if let Some(extra) = extra {
        writer.receive(extra, 0..length, How::OwnFirst);
    }
    among(writer, core);
    if let Some(extra) = extra {
        writer.send(extra, 0..length);
    }
}

/// Gives a range and gets another, piece by piece.
pub(super) fn exchange(writer: &mut Writer, partner: Rank, give: Range<usize>, (get, how): (Range<usize>, How)) {
    let sends: Vec<Range<usize>> = writer.pieces(give).collect();
    let receives: Vec<(Range<usize>, How)> = writer.pieces(get).map(|piece| (piece, how)).collect();
    writer.stream((partner, &sends), (partner, &receives), sends.len());
}
