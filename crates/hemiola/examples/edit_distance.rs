//! Edit distance of two strings by dynamic programming, with an alignment.
//!
//! The distance of two prefixes follows from the distances of prefixes that are one letter shorter:
//! the cells to the left, above and diagonally above. The loop is `ordered`, because a cell must be
//! written before it is read. Blocks of the table run as a wavefront from the upper left to the
//! lower right: a block waits for the block above it and the block to its left. Each peer owns some
//! rows of the table.
//!
//! `cargo run --release --example edit_distance`, or `… -- kitten sitting`

use hemiola::core::rng::PhiloxRng;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

fn main() -> hemiola::Result<()> {
    let words: Vec<Vec<u8>> = std::env::args().skip(1).map(String::into_bytes).collect();
    hemiola::run(|cluster| {
        let (left, right) = match words.as_slice() {
            [left, right] => (left.clone(), right.clone()),
            _ => synthetic_strings(1500),
        };
        let (distances, run) = distances(cluster, &left, &right)?;
        let table: Vec<u32> = distances.collect()?.into_iter().map(|(_, distance)| distance).collect();
        cluster.println(format_args!("{}", run.plan()));
        let lines = alignment(&table, &left, &right);
        let shown = lines[0].len().min(100);
        for line in &lines {
            cluster.println(format_args!("{}", &line[..shown]));
        }
        let (distance, lengths) = (table[table.len() - 1], (left.len(), right.len()));
        cluster.println(format_args!("distance {distance} between strings of {} and {} letters", lengths.0, lengths.1));
        Ok(())
    })
}

/// Table of the distances between all prefixes of `left` and all prefixes of `right`.
fn distances(cluster: &Cluster, left: &[u8], right: &[u8]) -> hemiola::Result<(DistArray<u32, 2>, LoopReport)> {
    let (rows, columns) = (left.len() + 1, right.len() + 1);
    let d =
        cluster.from_fn([rows as u64, columns as u64], |[i, j]| if i == 0 || j == 0 { (i + j) as u32 } else { 0 })?;
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

/// Alignment: `left`, a line with `*` where the strings differ, and `right`.
fn alignment(table: &[u32], left: &[u8], right: &[u8]) -> [String; 3] {
    let columns = right.len() + 1;
    let at = |i: usize, j: usize| table[i * columns + j];
    let (mut i, mut j, mut pairs) = (left.len(), right.len(), Vec::new());
    while i > 0 || j > 0 {
        let diagonal = i > 0 && j > 0 && at(i, j) == at(i - 1, j - 1) + u32::from(left[i - 1] != right[j - 1]);
        let above = !diagonal && i > 0 && at(i, j) == at(i - 1, j) + 1;
        let a = if diagonal || above { left[i - 1] } else { b'-' };
        let b = if above { b'-' } else { right[j - 1] };
        pairs.push((char::from(a), char::from(b)));
        i -= usize::from(diagonal || above);
        j -= usize::from(!above);
    }
    pairs.reverse();
    let marks = pairs.iter().map(|(a, b)| if a == b { ' ' } else { '*' }).collect();
    [pairs.iter().map(|(a, _)| a).collect(), marks, pairs.iter().map(|(_, b)| b).collect()]
}

/// A random DNA sequence and a mutated copy: one letter in ten is replaced, dropped or doubled.
fn synthetic_strings(length: u64) -> (Vec<u8>, Vec<u8>) {
    let random = PhiloxRng::new(1);
    let letter = |at: u64, draw: u64| b"ACGT"[random.random_below(at, draw, 4) as usize];
    let left: Vec<u8> = (0..length).map(|at| letter(at, 0)).collect();
    let change = |at: u64| match random.random_below(at, 1, 30) {
        0 => vec![letter(at, 2)],
        1 => vec![],
        2 => vec![left[at as usize]; 2],
        _ => vec![left[at as usize]],
    };
    let right = (0..length).flat_map(change).collect();
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::plan::LoopSchedule;

    /// Serial reference implementation in plain Rust.
    fn serial(left: &[u8], right: &[u8]) -> Vec<u32> {
        let (rows, columns) = (left.len() + 1, right.len() + 1);
        let start = |i, j| if i == 0 || j == 0 { i + j } else { 0 };
        let mut d: Vec<Vec<u32>> =
            (0..rows as u32).map(|i| (0..columns as u32).map(|j| start(i, j)).collect()).collect();
        for i in 1..rows {
            for j in 1..columns {
                let replaced = d[i - 1][j - 1] + u32::from(left[i - 1] != right[j - 1]);
                d[i][j] = replaced.min(d[i - 1][j] + 1).min(d[i][j - 1] + 1);
            }
        }
        d.concat()
    }

    #[test]
    fn equals_the_serial_loop() {
        let (left, right) = synthetic_strings(150);
        let expected = serial(&left, &right);
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let (d, run) = distances(cluster, &left, &right)?;
                let waves = run.plan().cuts.schedule == LoopSchedule::Wavefront;
                assert!(waves || peers * workers == 1, "{}", run.plan());
                assert_eq!(run.plan().cuts.peers_used, peers, "{}", run.plan());
                Ok(d.collect()?.iter().map(|(_, distance)| distance).eq(&expected))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }

    #[test]
    fn an_alignment_has_as_many_marks_as_the_distance() {
        let table = serial(b"kitten", b"sitting");
        let lines = alignment(&table, b"kitten", b"sitting");
        assert_eq!(lines, ["kitten-", "*   * *", "sitting"]);
    }
}
