//! Order statistics of a column, such as its median, in a fixed number of passes and bounded memory.
//!
//! Numbers become integers of 32 bits in the same order. Each pass counts the next few bits of the
//! numbers that share the prefix found so far, and the counts extend the prefix of the wanted rank.
//! After three passes the number is known exactly. **Invariant:** the result depends on the set of
//! numbers alone.

use serde::{Deserialize, Serialize};

/// Number of bits that each pass determines, from the highest on.
pub(super) const PASSES: [u32; 3] = [11, 11, 10];

/// Search for one or two ranks of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RankScan {
    searches: Vec<RankSearch>,
}

/// Search for the number of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RankSearch {
    /// Bits found so far, and their number.
    prefix: u32,
    known: u32,
    /// Rank among the numbers with this prefix, from 0.
    rank: u64,
    /// Numbers with this prefix, by their next bits.
    counts: Vec<u64>,
}

/// Returns an integer in the order of numbers.
fn ordered_bits(number: f32) -> u32 {
    let bits = (number + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

impl RankScan {
    /// Starts the search for the median of `count` numbers: its two middle ones.
    pub(super) fn median(count: u64) -> Self {
        let search = |rank| RankSearch { prefix: 0, known: 0, rank, counts: vec![0; 1 << PASSES[0]] };
        Self { searches: vec![search((count - 1) / 2), search(count / 2)] }
    }

    pub(super) fn add(&mut self, number: f32) {
        let bits = ordered_bits(number);
        for search in &mut self.searches {
            if search.known == 0 || bits >> (32 - search.known) == search.prefix {
                let (buckets, width) = (search.counts.len(), search.counts.len().trailing_zeros());
                search.counts[(bits >> (32 - search.known - width)) as usize & (buckets - 1)] += 1;
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.searches.iter_mut().zip(&other.searches) {
            for (count, more) in mine.counts.iter_mut().zip(&theirs.counts) {
                *count += more;
            }
        }
    }

    /// Extends the prefixes by the counts of a pass, for the next one of `width` bits.
    pub(super) fn advance(&mut self, width: Option<u32>) {
        for RankSearch { prefix, known, rank, counts } in &mut self.searches {
            let found = counts.iter().position(|count| {
                let here = *rank < *count;
                if !here {
                    *rank -= count;
                }
                here
            });
            let bits = counts.len().trailing_zeros();
            *prefix = *prefix << bits | found.unwrap_or(0) as u32;
            *known += bits;
            *counts = vec![0; 1 << width.unwrap_or(0)];
        }
    }

    /// Returns the mean of the numbers found.
    pub(super) fn value(&self) -> f32 {
        let number = |search: &RankSearch| {
            let bits = search.prefix;
            f64::from(f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits }))
        };
        (self.searches.iter().map(number).sum::<f64>() / self.searches.len() as f64) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median(numbers: &[f32]) -> f32 {
        let mut scan = RankScan::median(numbers.len() as u64);
        for pass in 0..PASSES.len() {
            let mut parts = [scan.clone(), scan.clone()];
            numbers.iter().enumerate().for_each(|(index, number)| parts[index % 2].add(*number));
            let [first, second] = parts;
            scan = first;
            scan.merge(&second);
            scan.advance(PASSES.get(pass + 1).copied());
        }
        scan.value()
    }

    #[test]
    fn medians_are_those_of_sorted_numbers() {
        let numbers: Vec<f32> = (0..501).map(|n| ((n * 7919 % 1009) as f32 - 500.0) * 0.37).collect();
        for count in [1, 2, 3, 10, 500, 501] {
            let mut sorted = numbers[..count].to_vec();
            sorted.sort_by(f32::total_cmp);
            let exact = f64::midpoint(sorted[(count - 1) / 2].into(), sorted[count / 2].into());
            assert_eq!(median(&numbers[..count]).to_bits(), (exact as f32).to_bits(), "{count}");
        }
        assert_eq!(median(&[-0.0, 0.0, 1e-40, f32::MAX, -f32::MAX]).to_bits(), 0.0_f32.to_bits());
    }
}
