//! Chunks that go round a ring: each member sends to the next and receives from the one before, all at the same time.
//!
//! In the first round chunk `c` starts at member `c + 1`, every member adds its own, and it ends, summed, at member `c`. In the second round
//! summed chunks go on round the ring until all have them. A member passes a piece of a chunk on as soon as it has it, so pieces of
//! large chunks are under way on all links at once. Each member sends `2 (m − 1) / m` of the vector, the least there can be.

use super::step::{How, Members, Writer, cut};
use std::ops::Range;

/// The first round: afterwards each member has its own chunk summed.
pub(super) fn reduce_scatter(writer: &mut Writer, members: Members<'_>, length: usize) {
    sum_round(writer, members, length, false);
}

/// Both rounds.
pub(super) fn all_reduce(writer: &mut Writer, members: Members<'_>, length: usize) {
    sum_round(writer, members, length, true);
    tell_round(writer, members, &|member| cut(length, members.count(), member));
}

/// The second round alone: afterwards all members have all chunks, wherever the cuts are.
pub(super) fn all_gather(writer: &mut Writer, members: Members<'_>, chunk: &dyn Fn(usize) -> Range<usize>) {
    if members.count() > 1 {
        writer.send(members.after(1), chunk(members.me));
        tell_round(writer, members, chunk);
    }
}

fn sum_round(writer: &mut Writer, members: Members<'_>, length: usize, pass_on_last: bool) {
    let count = members.count();
    if count == 1 {
        return;
    }
    let chunk = |back: usize| cut(length, count, (members.me + 2 * count - back) % count);
    writer.send(members.after(1), chunk(1));
    for round in 0..count - 1 {
        for piece in writer.pieces(chunk(round + 2)) {
            writer.receive_piece(members.before(1), piece.clone(), How::IncomingFirst);
            if round + 2 < count || pass_on_last {
                writer.send_piece(members.after(1), piece);
            }
        }
    }
}

/// Own chunks have been sent already.
fn tell_round(writer: &mut Writer, members: Members<'_>, chunk: &dyn Fn(usize) -> Range<usize>) {
    let count = members.count();
    for round in 1..count {
        for piece in writer.pieces(chunk((members.me + count - round) % count)) {
            writer.receive_piece(members.before(1), piece.clone(), How::Replace);
            if round + 1 < count {
                writer.send_piece(members.after(1), piece);
            }
        }
    }
}
