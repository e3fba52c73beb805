//! Ring algorithms: each member sends to its successor and receives from its predecessor, all at
//! the same time.
//!
//! In the reduce-scatter round, chunk `c` starts at member `c + 1`, every member adds its own part,
//! and the sum ends at member `c`. In the all-gather round, reduced chunks go round the ring until
//! all members have them. A member forwards a piece of a chunk as soon as it has it, so pieces of
//! large chunks are in flight on all links at once. Each member sends `2 (m − 1) / m` of the
//! vector, which is optimal.

use super::step::{Members, ReceiveAction, StepBuilder, chunk_range};
use std::ops::Range;

/// Reduce-scatter round: afterwards each member has its own chunk reduced.
pub(super) fn reduce_scatter(writer: &mut StepBuilder, members: Members<'_>, length: usize) {
    rotate(writer, members, &reduced_chunks(members, length));
}

/// Reduce-scatter round followed by the all-gather round.
pub(super) fn all_reduce(writer: &mut StepBuilder, members: Members<'_>, length: usize) {
    let mut chunks = reduced_chunks(members, length);
    chunks.extend(gathered_chunks(members, &|member| chunk_range(length, members.count(), member)).skip(1));
    rotate(writer, members, &chunks);
}

/// All-gather round alone: afterwards all members have all chunks, wherever the cuts are.
pub(super) fn all_gather(writer: &mut StepBuilder, members: Members<'_>, chunk: &dyn Fn(usize) -> Range<usize>) {
    let chunks: Vec<_> = gathered_chunks(members, chunk).collect();
    rotate(writer, members, &chunks);
}

/// Chunk that a member sends first, followed by the chunks that it receives and reduces.
fn reduced_chunks(members: Members<'_>, length: usize) -> Vec<(Range<usize>, ReceiveAction)> {
    let count = members.count();
    let chunk = |back: usize| chunk_range(length, count, (members.me + 2 * count - back) % count);
    (1..=count).map(|back| (chunk(back), ReceiveAction::IncomingFirst)).collect()
}

/// Own chunk of a member, followed by the chunks that it receives and stores.
fn gathered_chunks(
    members: Members<'_>,
    chunk: &dyn Fn(usize) -> Range<usize>,
) -> impl Iterator<Item = (Range<usize>, ReceiveAction)> {
    let count = members.count();
    (0..count).map(move |back| (chunk((members.me + count - back) % count), ReceiveAction::Replace))
}

/// Sends the first chunk, receives the others, and forwards all but the last of those.
fn rotate(writer: &mut StepBuilder, members: Members<'_>, chunks: &[(Range<usize>, ReceiveAction)]) {
    if members.count() == 1 {
        return;
    }
    let pieces = |writer: &StepBuilder,
                  chunks: &[(Range<usize>, ReceiveAction)]|
     -> Vec<(Range<usize>, ReceiveAction)> {
        chunks.iter().flat_map(|(chunk, action)| writer.pieces(chunk.clone()).map(|piece| (piece, *action))).collect()
    };
    let sends: Vec<Range<usize>> =
        pieces(writer, &chunks[..chunks.len() - 1]).into_iter().map(|(piece, _)| piece).collect();
    let receives = pieces(writer, &chunks[1..]);
    let own = writer.pieces(chunks[0].0.clone()).count();
    writer.stream((members.after(1), &sends), (members.before(1), &receives), own);
}
