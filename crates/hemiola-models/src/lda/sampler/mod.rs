//! Gibbs samplers for the tokens of a cell.
//!
//! | file | concept |
//! |---|---|
//! | `word_state` | counts and weights of the current word |
//! | `dense_rows` | exact, for few topics |
//! | `sparse_lists` | exact, for many topics |
//! | `metropolis_hastings` | Metropolis-Hastings proposals |
//! | `simd8` | eight lanes at a time, bit-identical on every machine |
//! | `prefetch` | memory prefetch hints |

pub(super) mod dense_rows;
pub(super) mod metropolis_hastings;
mod prefetch;
mod simd8;
mod sparse_lists;
pub(super) mod word_state;

use super::block::WordBlock;
use super::counts::DocumentCounts;
use super::partition::{DocumentPartition, TokenTopics};
use super::rng::CounterRng;
use word_state::WordState;

/// Tokens of a cell.
struct TokenCell<'a> {
    /// Start of the tokens of each word, and the end of the last.
    starts: &'a [u32],
    /// Document handles of all tokens of the partition.
    handles: &'a [u32],
    block: &'a mut WordBlock,
}

/// Work counters of a sampler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SweepWork {
    /// Lines of document counts visited.
    pub(super) visited: u64,
    /// Draws from the smoothing part.
    pub(super) smooth: u64,
    /// Number of words entered.
    pub(super) words: u64,
    /// True if a request to stop has cut the sweep short, on any peer.
    pub(super) stopped: bool,
}

impl SweepWork {
    /// Adds the counters of two runs.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            visited: self.visited + other.visited,
            smooth: self.smooth + other.smooth,
            words: self.words + other.words,
            stopped: self.stopped || other.stopped,
        }
    }
}

/// SIMD level of the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimdLevel {
    /// Widest registers that samplers support.
    Best,
    /// Scalar code: for tests, and for machines without such registers.
    #[cfg_attr(not(test), expect(dead_code, reason = "compared with the SIMD level by tests"))]
    Scalar,
}

/// Samples all tokens of a cell once, with the sampler that fits the layout of the document counts.
/// `word` must have begun the cell.
pub(super) fn draw(
    machine: SimdLevel,
    word: &mut WordState,
    part: &mut DocumentPartition,
    block: (usize, &mut WordBlock),
    key: CounterRng,
) -> SweepWork {
    #[cfg(target_arch = "x86_64")]
    if machine == SimdLevel::Best
        && let Some(wide) = pulp::x86::V3::try_new()
    {
        return wide.vectorize(
            #[inline(always)]
            || draw_by(wide, word, part, block, key),
        );
    }
    let _ = machine;
    draw_by(simd8::Scalar8, word, part, block, key)
}

#[inline(always)]
fn draw_by<E: simd8::Simd8>(
    eight: E,
    word: &mut WordState,
    part: &mut DocumentPartition,
    (number, block): (usize, &mut WordBlock),
    key: CounterRng,
) -> SweepWork {
    let DocumentPartition { starts, handles, topics, counts, tokens, firsts, lengths, .. } = part;
    let starts = &starts[number];
    let cell = &mut TokenCell { starts, handles, block };
    match (counts, topics) {
        (DocumentCounts::Rows(rows), TokenTopics::Narrow(topics)) => {
            dense_rows::draw(eight, word, rows, topics, cell, key)
        }
        (DocumentCounts::Lists(lists), TokenTopics::Narrow(topics)) => {
            sparse_lists::draw(eight, word, lists, topics, cell, key)
        }
        (DocumentCounts::WideLists(lists), TokenTopics::Wide(topics)) => {
            sparse_lists::draw(eight, word, lists, topics, cell, key)
        }
        (DocumentCounts::Tables(tables), TokenTopics::Narrow(topics)) => metropolis_hastings::draw::<u32>(
            word,
            tables,
            topics,
            cell,
            &metropolis_hastings::DocumentTokens { tokens, firsts, lengths },
            key,
        ),
        (DocumentCounts::WideTables(tables), TokenTopics::Wide(topics)) => metropolis_hastings::draw::<u64>(
            word,
            tables,
            topics,
            cell,
            &metropolis_hastings::DocumentTokens { tokens, firsts, lengths },
            key,
        ),
        _ => unreachable!("topics and counts have the same width"),
    }
}
