//! Chunks that go round a ring: each member sends to the next and receives from the one before, all at the same time.
//!
//! In the first round chunk `c` starts at member `c + 1`, every member adds its own, and it ends, summed, at member `c`. In the second round
//! summed chunks go on round the ring until all have them. A member passes a piece of a chunk on as soon as it has it, so pieces of
//! large chunks are under way on all links at once. Each member sends `2 (m − 1) / m` of the vector, the least there can be.

use super::step::{How, Members, Writer, cut};
use std::ops::Range;

/// The first round: afterwards each member has its own chunk summed.
pub(super) fn reduce_scatter(writer: &mut Writer, members: Members<'_>, length: usize) {
    go_round(writer, members, &summed(members, length));
}

/// Both rounds.
pub(super) fn all_reduce(writer: &mut Writer, members: Members<'_>, length: usize) {
    let mut chunks = summed(members, length);
    chunks.extend(told(members, &|member| cut(length, members.count(), member)).skip(1));
    go_round(writer, members, &chunks);
}

/// The second round alone: afterwards all members have all chunks, wherever the cuts are.
pub(super) fn all_gather(writer: &mut Writer, members: Members<'_>, chunk: &dyn Fn(usize) -> Range<usize>) {
    let chunks: Vec<_> = told(members, chunk).collect();
    go_round(writer, members, &chunks);
}

/// The chunk that a member sends first, and those that it receives to be summed.
fn summed(members: Members<'_>, length: usize) -> Vec<(Range<usize>, How)> {
    let count = members.count();
    let chunk = |back: usize| cut(length, count, (members.me + 2 * count - back) % count);
    (1..=count).map(|back| (chunk(back), How::IncomingFirst)).collect()
}

/// A member's own chunk, and those that it is told.
fn told(members: Members<'_>, chunk: &dyn Fn(usize) -> Range<usize>) -> impl Iterator<Item = (Range<usize>, How)> {
    let count = members.count();
    (0..count).map(move |back| (chunk((members.me + count - back) % count), How::Replace))
}

/// Sends the first chunk, receives the others, and passes all but the last of those on.
fn go_round(writer: &mut Writer, members: Members<'_>, chunks: &[(Range<usize>, How)]) {
    if members.count() == 1 {
        return;
    }
    let pieces = |writer: &Writer, chunks: &[(Range<usize>, How)]| -> Vec<(Range<usize>, How)> {
        chunks.iter().flat_map(|(chunk, how)| writer.pieces(chunk.clone()).map(|piece| (piece, *how))).collect()
    };
    let sends: Vec<Range<usize>> =
        pieces(writer, &chunks[..chunks.len() - 1]).into_iter().map(|(piece, _)| piece).collect();
    let receives = pieces(writer, &chunks[1..]);
    let own = writer.pieces(chunks[0].0.clone()).count();
    writer.stream((members.after(1), &sends), (members.before(1), &receives), own);
}
