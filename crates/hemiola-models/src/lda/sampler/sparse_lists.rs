//! Exact Gibbs sampler for many topics: documents have sparse lists of topics.
//!
//! A token's topic is drawn from the document's list with probability proportional to `n_dk q_k`,
//! summed in eight lanes over the list, or else from the smoothing part (see [`WordState`]), which
//! is rare once documents have settled. The time of a draw grows with the number of topics of its
//! document.
//!
//! **Invariant:** all sums have one order, the same on every machine.

use super::super::counts::CountLists;
use super::super::rng::CounterRng;
use super::super::topic_count::TopicCount;
use super::prefetch::prefetch;
use super::simd8::Simd8;
use super::word_state::{REFRESH_INTERVAL, WordState};
use super::{SweepWork, TokenCell};

/// Prefetch distance of the first lines of a list, in tokens.
const PREFETCH_FAR: usize = 12;
/// Prefetch distance of the other lines, in tokens.
const PREFETCH_NEAR: usize = 5;
/// Bytes loaded by one prefetch.
const CACHE_LINE_BYTES: usize = 64;

/// Packed entry whose topics and counts can be unpacked eight at a time.
pub(super) trait TopicCountLine: TopicCount {
    /// Unpacks topics and counts.
    fn apart<E: Simd8>(eight: E, line: &[Self; 8]) -> (E::Integers, E::Integers);
    /// Gathers `q` of each topic. `q` must have room for all 16-bit topics, or for all there are.
    fn gather(q: &[f32], line: &[Self; 8]) -> [f32; 8];
}

impl TopicCountLine for u32 {
    #[inline(always)]
    fn apart<E: Simd8>(eight: E, line: &[Self; 8]) -> (E::Integers, E::Integers) {
        let both = eight.integers(line);
        (eight.shift_16(both), eight.low_16(both))
    }

    #[inline(always)]
    fn gather(q: &[f32], line: &[Self; 8]) -> [f32; 8] {
        // A 16-bit index is always in range, so no bounds checks remain.
        let q = q.first_chunk::<0x1_0000>().expect("tables have room for all 16-bit topics");
        line.map(|entry| q[(entry >> 16) as usize])
    }
}

impl TopicCountLine for u64 {
    #[inline(always)]
    fn apart<E: Simd8>(eight: E, line: &[Self; 8]) -> (E::Integers, E::Integers) {
        (eight.integers(&line.map(|entry| entry.topic() as u32)), eight.integers(&line.map(TopicCount::count)))
    }

    #[inline(always)]
    fn gather(q: &[f32], line: &[Self; 8]) -> [f32; 8] {
        line.map(|entry| q[entry.topic()])
    }
}

/// Samples all tokens of a cell once.
#[inline(always)]
pub(super) fn draw<E: Simd8, T: TopicCountLine>(
    eight: E,
    word: &mut WordState,
    documents: &mut CountLists<T>,
    topics: &mut [T::Topic],
    cell: &mut TokenCell<'_>,
    key: CounterRng,
) -> SweepWork {
    let mut done = SweepWork::default();
    let lines = &mut documents.lines[..];
    let handles = cell.handles;
    let Some(last) = handles.len().checked_sub(1) else { return done };
    let first = eight.integers(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let next = eight.same(8);
    let fetched = CACHE_LINE_BYTES / size_of::<[T; 8]>();
    let mut since = 0;
    for (place, bounds) in cell.starts.windows(2).enumerate() {
        let (from, to) = (bounds[0] as usize, bounds[1] as usize);
        if from == to {
            continue;
        }
        if word.stop.is_accepted() {
            break;
        }
        word.enter(cell.block, place);
        for token in from..to {
            since += 1;
            if since == REFRESH_INTERVAL {
                word.sum();
                since = 0;
            }
            // Prefetch in two steps: first the line with the length, then the others once the
            // length is available.
            let far = handles[(token + PREFETCH_FAR).min(last)] as usize;
            prefetch(lines, far);
            prefetch(lines, far + fetched);
            let near = handles[(token + PREFETCH_NEAR).min(last)] as usize;
            let mut more = 2 * fetched;
            while more * 8 <= lines[near][0].count() as usize {
                prefetch(lines, near + more);
                more += fetched;
            }

            let start = handles[token] as usize;
            let length = lines[start][0].count() as usize;
            let count = (1 + length).div_ceil(8);
            let old = T::of(topics[token]);
            let before = word.q[old];
            let without = word.without(old);
            word.q[old] = without;
            let change = word.prior.alpha[old] * (without - before);
            let smooth = word.smooth + change;

            let olds = eight.same(old as u32);
            let (mut sum, mut found, mut index) = (eight.splat(0.0), eight.same(0), first);
            for (line, step) in lines[start..start + count].iter().zip(&mut word.steps) {
                let (topics, counts) = T::apart(eight, line);
                let is_old = eight.equal(topics, olds);
                found = eight.or(found, eight.and(is_old, index));
                index = eight.plus(index, next);
                let counts = eight.numbers(eight.plus(counts, is_old));
                sum = eight.add(sum, eight.multiply(counts, eight.load(&T::gather(&word.q, line))));
                eight.store(sum, step);
            }
            done.visited += count as u64;
            let old_at = eight.any(found) as usize;

            let running = eight.running(sum);
            let own = eight.lane(running, 7);
            let at = key.unit(token as u64) * (own + smooth);
            let lane = eight.first_above(running, at);
            let mut new_at = 0; // no entry: index 0 is the head
            let new = if lane < 8 {
                let own = eight.lane(sum, lane);
                let rest = (at - (eight.lane(running, lane) - own)).max(0.0).min(own * 0.999_999_9);
                new_at = eight.count_up_to(&word.steps[..count], lane, rest) * 8 + lane;
                // Rounding may lead beyond the last entry.
                if new_at == 0 || new_at > length {
                    new_at = old_at;
                }
                lines[start..].as_flattened()[new_at].topic()
            } else {
                done.smooth += 1;
                word.draw_smooth(at - own, old, change)
            };
            if new == old {
                word.q[old] = before;
                continue;
            }
            let entries = lines[start..].as_flattened_mut();
            if new_at == 0 {
                let news = eight.same(new as u32);
                let (mut found, mut index) = (eight.same(0), first);
                for line in &entries.as_chunks::<8>().0[..count] {
                    found = eight.or(found, eight.and(eight.equal(T::apart(eight, line).0, news), index));
                    index = eight.plus(index, next);
                }
                new_at = eight.any(found) as usize;
            }
            move_one(entries, (old_at, new_at), new, word.prior.topics);
            topics[token] = T::kept(new);
            word.change(old, change);
            word.counts[old] -= 1;
            word.totals[old] -= 1;
            word.counts[new] += 1;
            word.totals[new] += 1;
            let value = word.quotient(new);
            word.set(new, value);
            word.touch(new);
        }
        done.words += 1;
        word.leave(cell.block, place);
    }
    done
}

/// Moves one token from the entry at `old_at` to that at `new_at`, or to a new entry if that is 0.
#[inline(always)]
fn move_one<T: TopicCount>(list: &mut [T], (old_at, new_at): (usize, usize), new: usize, blank: usize) {
    let length = list[0].count() as usize;
    let gone = list[old_at].count() == 1;
    if new_at > 0 {
        list[new_at] = list[new_at].more();
        if gone {
            list.copy_within((old_at + 1)..=length, old_at);
            list[length] = T::new(blank, 0);
            list[0] = list[0].less();
        } else {
            list[old_at] = list[old_at].less();
        }
        return;
    }
    // Position of the new entry.
    let mut at = 1 + list[1..=length].iter().filter(|entry| entry.topic() < new).count();
    if !gone {
        list[old_at] = list[old_at].less();
        list.copy_within(at..=length, at + 1);
        list[0] = list[0].more();
    } else if at > old_at {
        at -= 1;
        list.copy_within((old_at + 1)..=at, old_at);
    } else {
        list.copy_within(at..old_at, at + 1);
    }
    list[at] = T::new(new, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_stay_in_order() {
        let blank = 9;
        let entries = |list: &[(usize, u32)]| {
            let mut lines = vec![<u32 as TopicCount>::new(blank, list.len() as u32)];
            lines.extend(list.iter().map(|(topic, count)| <u32 as TopicCount>::new(*topic, *count)));
            lines.resize(8, TopicCount::new(blank, 0));
            lines
        };
        let from = [(1, 1), (3, 2), (6, 1)];
        let moved = |at, new| {
            let mut list = entries(&from);
            move_one(&mut list, at, new, blank);
            list
        };
        assert_eq!(moved((1, 2), 3), entries(&[(3, 3), (6, 1)]));
        assert_eq!(moved((2, 3), 6), entries(&[(1, 1), (3, 1), (6, 2)]));
        assert_eq!(moved((3, 1), 1), entries(&[(1, 2), (3, 2)]));
        assert_eq!(moved((2, 0), 5), entries(&[(1, 1), (3, 1), (5, 1), (6, 1)]));
        assert_eq!(moved((2, 0), 0), entries(&[(0, 1), (1, 1), (3, 1), (6, 1)]));
        assert_eq!(moved((1, 0), 7), entries(&[(3, 2), (6, 1), (7, 1)]));
        assert_eq!(moved((1, 0), 2), entries(&[(2, 1), (3, 2), (6, 1)]));
        assert_eq!(moved((3, 0), 0), entries(&[(0, 1), (1, 1), (3, 2)]));
        assert_eq!(moved((3, 0), 4), entries(&[(1, 1), (3, 2), (4, 1)]));
    }
}
