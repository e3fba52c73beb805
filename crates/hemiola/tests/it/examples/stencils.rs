//! Loops with a prescribed order equal the serial loops: Gauss-Seidel iteration and edit distance.

use super::programs::{edit_distance, gauss_seidel};
use super::{equals_on_all_clusters, values};
use hemiola::loops::LoopReport;
use hemiola::loops::plan::LoopSchedule;
use hemiola::prelude::*;

fn assert_wavefront(cluster: &Cluster, run: &LoopReport, skewed: bool) {
    let cuts = &run.plan().cuts;
    let as_expected = cuts.schedule == LoopSchedule::Wavefront && cuts.skew.is_some() == skewed;
    assert!(as_expected || cluster.size() * cluster.workers() == 1, "{}", run.plan());
    assert_eq!(cuts.peers_used, cluster.size(), "{}", run.plan());
}

#[test]
fn gauss_seidel_equals_the_serial_loop() {
    let side = 80;
    let mut plate: Vec<Vec<f64>> =
        (0..side).map(|i| (0..side).map(|j| gauss_seidel::initial_value(side, [i, j])).collect()).collect();
    for _ in 0..3 {
        for i in 1..side - 1 {
            for j in 1..side - 1 {
                let straight = plate[i - 1][j] + plate[i + 1][j] + plate[i][j - 1] + plate[i][j + 1];
                let (above, below) =
                    (plate[i - 1][j - 1] + plate[i - 1][j + 1], plate[i + 1][j - 1] + plate[i + 1][j + 1]);
                plate[i][j] = (4.0 * straight + (above + below)) / 20.0;
            }
        }
    }
    let expected = plate.concat();
    equals_on_all_clusters(|cluster| {
        let mut plate = cluster.from_fn([side, side], |key| gauss_seidel::initial_value(side, key))?;
        for _ in 0..3 {
            let (_, run) = gauss_seidel::sweep_once(cluster, &mut plate)?;
            assert_wavefront(cluster, &run, true);
        }
        Ok(values(&plate)? == expected)
    });
}

fn serial_distances(left: &[u8], right: &[u8]) -> Vec<u32> {
    let (rows, columns) = (left.len() + 1, right.len() + 1);
    let start = |i: usize, j: usize| if i == 0 || j == 0 { (i + j) as u32 } else { 0 };
    let mut d: Vec<Vec<u32>> = (0..rows).map(|i| (0..columns).map(|j| start(i, j)).collect()).collect();
    for i in 1..rows {
        for j in 1..columns {
            let replaced = d[i - 1][j - 1] + u32::from(left[i - 1] != right[j - 1]);
            d[i][j] = replaced.min(d[i - 1][j] + 1).min(d[i][j - 1] + 1);
        }
    }
    d.concat()
}

#[test]
fn edit_distance_equals_the_serial_loop() {
    assert_eq!(serial_distances(b"kitten", b"sitting").last(), Some(&3));
    let [left, right] = edit_distance::synthetic_strings(150);
    let expected = serial_distances(&left, &right);
    equals_on_all_clusters(|cluster| {
        let (d, run) = edit_distance::distances(cluster, &left, &right)?;
        assert_wavefront(cluster, &run, false);
        Ok(values(&d)? == expected)
    });
}
