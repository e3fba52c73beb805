//! Edit distance of two strings by dynamic programming.
//!
//! The distance of two prefixes follows from those of prefixes that are one letter shorter: the
//! cells to the left, above and diagonally above. The loop is `ordered`, because a cell must be
//! written before it is read. Blocks of the table run as a wavefront from the upper left to the
//! lower right: a block waits for the block above it and the block to its left.
//!
//! `cargo run --release --example edit_distance`, or `… -- kitten sitting`:
//! ```text
//! distance 52 between strings of 600 and 561 letters
//! ```

use hemiola::Result;
use hemiola::core::rng::PhiloxRng;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

fn main() -> Result<()> {
    let words: Vec<Vec<u8>> = std::env::args().skip(1).map(String::into_bytes).collect();
    hemiola::run(|cluster| {
        let [left, right] = words.clone().try_into().unwrap_or_else(|_| synthetic_strings(600));
        let (table, _) = distances(cluster, &left, &right)?;
        let distance = table.collect()?.pop().map_or(0, |(_, distance)| distance);
        let lengths = (left.len(), right.len());
        cluster.println(format_args!("distance {distance} between strings of {} and {} letters", lengths.0, lengths.1));
        Ok(())
    })
}

/// Table of the distances between all prefixes of `left` and all prefixes of `right`.
pub(crate) fn distances(cluster: &Cluster, left: &[u8], right: &[u8]) -> Result<(DistArray<u32, 2>, LoopReport)> {
    let (rows, columns) = (left.len() + 1, right.len() + 1);
    let mut d = cluster.from_fn([rows, columns], |[i, j]| if i == 0 || j == 0 { (i + j) as u32 } else { 0 })?;
    let run = parallel_for!(
        cluster,
        ordered,
        for [i, j] in [1..rows, 1..columns] {
            let replaced = d[[i - 1, j - 1]] + u32::from(left[i - 1] != right[j - 1]);
            d[[i, j]] = replaced.min(d[[i - 1, j]] + 1).min(d[[i, j - 1]] + 1);
        }
    )?;
    Ok((d, run))
}

/// A random DNA sequence and a mutated copy: some letters are replaced, others dropped.
pub(crate) fn synthetic_strings(length: u64) -> [Vec<u8>; 2] {
    let random = PhiloxRng::new(1);
    let letter = |at: u64, draw: u64| b"ACGT"[random.random_below(at, draw, 4) as usize];
    let mutated = |at: u64| match random.random_below(at, 1, 20) {
        0 => None,
        1 => Some(letter(at, 2)),
        _ => Some(letter(at, 0)),
    };
    [(0..length).map(|at| letter(at, 0)).collect(), (0..length).filter_map(mutated).collect()]
}
