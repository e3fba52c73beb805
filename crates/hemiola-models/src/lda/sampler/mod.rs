//! Ways to draw the topics of a cell.
//!
//! | file | concept |
//! |---|---|
//! | `word` | the word at hand |
//! | `lanes` | exact, for few topics |
//! | `lists` | exact, for many topics |
//! | `hastings` | proposals that are accepted or not |
//! | `eight` | eight numbers at a time, with the same bits on every machine |
//! | `prefetch` | memory before it is needed |

mod eight;
pub(super) mod hastings;
pub(super) mod lanes;
mod lists;
mod prefetch;
pub(super) mod word;

use super::block::Block;
use super::counts::Counts;
use super::part::{Part, Topics};
use super::random::Key;
use word::Word;

/// The tokens of a cell.
struct Cell<'a> {
    /// Where the tokens of each word begin, and the end of the last.
    starts: &'a [u32],
    /// Of all tokens of the part.
    handles: &'a [u32],
    block: &'a mut Block,
}

/// What was done: for the work it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Lines of documents that were gone over.
    pub(super) visited: u64,
    /// Draws of the smooth part.
    pub(super) smooth: u64,
    /// Words that were taken at hand.
    pub(super) words: u64,
}

impl Done {
    /// Both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            visited: self.visited + other.visited,
            smooth: self.smooth + other.smooth,
            words: self.words + other.words,
        }
    }
}

/// The registers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// The widest that samplers are written for.
    Best,
    /// None: for tests, and machines that have none.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests compare it with the best"))]
    Plain,
}

/// Draws all tokens of a cell anew, as the form of its documents' counts says. `word` has begun.
pub(super) fn draw(machine: Machine, word: &mut Word, part: &mut Part, block: (usize, &mut Block), key: Key) -> Done {
    #[cfg(target_arch = "x86_64")]
    if machine == Machine::Best
        && let Some(wide) = pulp::x86::V3::try_new()
    {
        return wide.vectorize(
            #[inline(always)]
            || draw_by(wide, word, part, block, key),
        );
    }
    let _ = machine;
    draw_by(eight::Plain, word, part, block, key)
}

#[inline(always)]
fn draw_by<E: eight::Eight>(
    eight: E,
    word: &mut Word,
    part: &mut Part,
    (number, block): (usize, &mut Block),
    key: Key,
) -> Done {
    let Part { starts, handles, topics, counts, tokens, firsts, lengths, .. } = part;
    let starts = &starts[number];
    let cell = &mut Cell { starts, handles, block };
    match (counts, topics) {
        (Counts::Rows(rows), Topics::Narrow(topics)) => lanes::draw(eight, word, rows, topics, cell, key),
        (Counts::Lists(lists), Topics::Narrow(topics)) => lists::draw(eight, word, lists, topics, cell, key),
        (Counts::WideLists(lists), Topics::Wide(topics)) => lists::draw(eight, word, lists, topics, cell, key),
        (Counts::Tables(tables), Topics::Narrow(topics)) => {
            hastings::draw::<u32>(word, tables, topics, cell, &hastings::OfDocuments { tokens, firsts, lengths }, key)
        }
        (Counts::WideTables(tables), Topics::Wide(topics)) => {
            hastings::draw::<u64>(word, tables, topics, cell, &hastings::OfDocuments { tokens, firsts, lengths }, key)
        }
        _ => unreachable!("topics are as wide as counts"),
    }
}
