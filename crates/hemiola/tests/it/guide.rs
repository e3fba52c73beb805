//! The plans shown in the pages of the book on parallel loops equal the output of these loops.

use crate::with_watchdog;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

const PAGES: [&str; 2] = [
    include_str!("../../../../docs/concepts/parallel-loops.md"),
    include_str!("../../../../docs/guides/parallel-loops.md"),
];

/// The plan as a page shows it, with the loop in line 8 of `src/main.rs`.
fn as_shown(run: &LoopReport) -> String {
    let text = run.plan().to_string();
    let (before, after) = text.split_once(".rs:").expect("a plan starts with the location of its loop");
    let digits = after.find(|letter: char| !letter.is_ascii_digit()).expect("text follows the line number");
    let first: u32 = after[..digits].parse().expect("the location has a line number");
    let path = before.rsplit(' ').next().expect("a path");
    let mut shown = text.replace(&format!("{path}.rs:{first}"), "src/main.rs:8");
    for line in first..first + 20 {
        shown = shown.replace(&format!("(line {line},"), &format!("(line {},", line - first + 8));
    }
    shown
}

/// The text without the ratios of costs, which change whenever the unit costs are calibrated.
fn without_ratios(text: &str) -> String {
    let ratio = |line: &str| match line.split_once(" times the cost") {
        Some((before, after)) => {
            format!("{} times the cost{after}\n", before.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit()))
        }
        None => format!("{line}\n"),
    };
    text.lines().map(ratio).collect()
}

fn assert_shown(run: &LoopReport) {
    let shown = as_shown(run);
    let expected = without_ratios(&shown);
    assert!(PAGES.iter().any(|page| without_ratios(page).contains(expected.trim_end())), "no page shows\n{shown}");
}

fn on(
    peers: usize,
    workers: usize,
    program: impl Fn(&Cluster) -> hemiola::cluster::Result<LoopReport> + Send + Sync,
) -> LoopReport {
    with_watchdog(|| hemiola::cluster::standalone(peers).workers(workers).run(program)).expect("it runs").swap_remove(0)
}

#[test]
fn one_dimension() {
    assert_shown(&on(1, 4, |cluster| {
        let values = cluster.uniform([100_000], 0.0..1.0, Seed(1))?;
        let mut squares = cluster.zeros::<f32, 1>([100_000])?;
        parallel_for!(
            cluster,
            for i in 0..100_000 {
                squares[i] = values[i] * values[i];
            }
        )
    }));
}

#[test]
fn two_dimensions() {
    assert_shown(&on(1, 4, |cluster| {
        let all = cluster.uniform([1000, 500], 1.0..5.0, Seed(1))?;
        let ratings = all.entries().filter(|[u, i], _| (u + i) % 10 == 0).materialize()?;
        let mut w = cluster.uniform([1000, 8], 0.0..0.5, Seed(2))?;
        let mut h = cluster.uniform([500, 8], 0.0..0.5, Seed(3))?;
        parallel_for!(
            cluster,
            for ([u, i], rating) in &ratings {
                let (wu, hi) = (&mut w[u], &mut h[i]);
                let error = rating - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
                for k in 0..8 {
                    (wu[k], hi[k]) = (wu[k] + 0.01 * error * hi[k], hi[k] + 0.01 * error * wu[k]);
                }
            }
        )
    }));
}

#[test]
fn waves() {
    assert_shown(&on(1, 4, |cluster| {
        let mut d = cluster.from_fn([501, 501], |[i, j]| if i == 0 || j == 0 { i + j } else { 0 })?;
        let (left, right) = (vec![b'a'; 500], vec![b'b'; 500]);
        parallel_for!(
            cluster,
            ordered,
            for [i, j] in [1..501, 1..501] {
                let replaced = d[[i - 1, j - 1]] + usize::from(left[i - 1] != right[j - 1]);
                d[[i, j]] = replaced.min(d[[i - 1, j]] + 1).min(d[[i, j - 1]] + 1);
            }
        )
    }));
}

#[test]
fn a_skewed_loop() {
    assert_shown(&on(1, 4, |cluster| {
        let mut a = cluster.uniform([500, 500], 0.0..1.0, Seed(1))?;
        parallel_for!(
            cluster,
            ordered,
            for [i, j] in [1..500, 1..499] {
                a[[i, j]] = (a[[i, j - 1]] + a[[i - 1, j + 1]]) / 2.0;
            }
        )
    }));
}

#[test]
fn a_loop_that_cannot_be_divided() {
    assert_shown(&on(1, 4, |cluster| {
        let values = cluster.uniform([100_000], 0.0..1.0, Seed(1))?;
        let mut sums = cluster.zeros::<f32, 1>([100_000])?;
        parallel_for!(
            cluster,
            for i in 1..100_000 {
                sums[i] = sums[i - 1] + values[i];
            }
        )
    }));
}

#[test]
fn writes_that_depend_on_data() {
    assert_shown(&on(1, 4, |cluster| {
        let values = cluster.uniform([100_000], 0.0..10.0, Seed(1))?;
        let mut counts = cluster.zeros::<u32, 1>([10])?;
        parallel_for!(
            cluster,
            for (_, value) in &values {
                counts[*value as usize] += 1;
            }
        )
    }));
}

#[test]
fn writes_through_a_buffer() {
    assert_shown(&on(1, 4, |cluster| {
        let values = cluster.uniform([100_000], 0.0..10.0, Seed(1))?;
        let counts = cluster.zeros::<u32, 1>([10])?;
        let buffer = counts.buffered(|count, more: u32| *count += more);
        parallel_for!(
            cluster,
            for (_, value) in &values {
                buffer[*value as usize] += 1;
            }
        )
    }));
}

#[test]
fn served_weights() {
    assert_shown(&on(2, 2, |cluster| {
        let samples = cluster.from_fn([20_000], |[row]| vec![row as u32, 19_999 - row as u32])?;
        let weights = cluster.uniform([20_000], 0.0..1.0, Seed(1))?;
        let sum = cluster.accumulator::<f64>();
        parallel_for!(
            cluster,
            for (_, features) in &samples {
                for &feature in features {
                    sum += f64::from(weights[feature as usize]);
                }
            }
        )
    }));
}
