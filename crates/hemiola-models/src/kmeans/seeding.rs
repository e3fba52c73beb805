//! First centers: greedy k-means++.
//!
//! A row is drawn with a chance proportional to its weight, the squared distance from the nearest
//! center so far: first its block, then the row in it. **Invariant:** draws depend on the seed, and
//! sums on the blocks alone, so the centers have the same bits on any number of peers and workers.

use super::centers::ClusterCenters;
use crate::examples::{BlockedRows, add_in_place, each_block, tree_sum};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;

/// Random stream of the draws.
const CENTER_DRAW: u64 = 11;

/// *Collective.* Returns the coordinates of the first centers, cluster by cluster.
pub(super) fn first_centers(
    cluster: &Cluster,
    rows: &BlockedRows,
    [clusters, columns]: [usize; 2],
    seed: u64,
) -> Result<Vec<f64>> {
    let values = PhiloxRng::new(seed);
    let trials = 2 + (clusters as f64).ln() as usize;
    // Weight of each row of each block: equal before the first center.
    let uniform: Vec<Vec<f64>> = rows.blocks.iter().map(|block| vec![1.0; block.len()]).collect();
    let mut weights = uniform.clone();
    let mut centers = Vec::with_capacity(clusters * columns);
    for center in 0..clusters {
        let trials = if center == 0 { 1 } else { trials };
        let point = |trial: usize| values.random_f64(trial as u64, CENTER_DRAW + center as u64);
        let points: Vec<f64> = (0..trials).map(point).collect();
        let found = match draw(cluster, rows, &weights, &points, columns)? {
            Some(found) => found,
            // Every row is at a center: there are fewer different rows than clusters.
            None => draw(cluster, rows, &uniform, &points[..1], columns)?.unwrap_or_else(|| vec![0.0; columns]),
        };
        let candidates = ClusterCenters::new(&found, columns);
        let smaller = |weight: f64, square: f64| if center == 0 { square } else { weight.min(square) };
        let potentials = tree_sum(
            cluster,
            rows,
            |index| {
                let (block, mut squares) = (&rows.blocks[index], Vec::new());
                let mut sums = vec![0.0; found.len() / columns];
                for (row, weight) in weights[index].iter().enumerate() {
                    candidates.squares(block, row, &mut squares);
                    sums.iter_mut().zip(&squares).for_each(|(sum, square)| *sum += smaller(*weight, *square));
                }
                sums
            },
            add_in_place,
        )?;
        let potentials = potentials.unwrap_or_default();
        let better = |best: usize, trial: usize| if potentials[trial] < potentials[best] { trial } else { best };
        let best = (0..potentials.len()).fold(0, better);
        let chosen = &found[best * columns..][..columns];
        let only = ClusterCenters::new(chosen, columns);
        weights = each_block(cluster, &rows.blocks, |index| {
            let (block, mut squares) = (&rows.blocks[index], Vec::new());
            let weight = |(row, weight): (usize, &f64)| {
                only.squares(block, row, &mut squares);
                smaller(*weight, squares[0])
            };
            weights[index].iter().enumerate().map(weight).collect()
        })?;
        centers.extend_from_slice(chosen);
    }
    Ok(centers)
}

/// *Collective.* Draws a row for each point of `0..1`; returns their coordinates, row by row. `None`
/// if all weights are 0.
fn draw(
    cluster: &Cluster,
    rows: &BlockedRows,
    weights: &[Vec<f64>],
    points: &[f64],
    columns: usize,
) -> Result<Option<Vec<f64>>> {
    let own: Vec<f64> = weights.iter().map(|weights| weights.iter().sum()).collect();
    // Peers have consecutive blocks, so these are in the order of blocks.
    let totals: Vec<f64> = cluster.all_gather(own)?.concat();
    let total: f64 = totals.iter().sum();
    if total <= 0.0 {
        return Ok(None);
    }
    let mut own_rows = Vec::new();
    for (number, point) in points.iter().enumerate() {
        let Some((block, rest)) = position(&totals, point * total) else { continue };
        let Some(index) = block.checked_sub(rows.own_blocks().start).filter(|index| *index < rows.blocks.len()) else {
            continue;
        };
        if let Some((row, _)) = position(&weights[index], rest) {
            let entries: Vec<(usize, f32)> = rows.blocks[index].row(row).collect();
            own_rows.push((number, entries));
        }
    }
    let mut found = vec![0.0; points.len() * columns];
    for (number, entries) in cluster.all_gather(own_rows)?.into_iter().flatten() {
        for (column, value) in entries {
            found[number * columns + column] = f64::from(value);
        }
    }
    Ok(Some(found))
}

/// Returns the index whose weight covers `point` in the sequence of weights, and the rest of the
/// point within it. Rounding may leave a point beyond the end: it gets the last index with a weight.
fn position(weights: &[f64], mut point: f64) -> Option<(usize, f64)> {
    for (index, weight) in weights.iter().enumerate() {
        if point < *weight {
            return Some((index, point));
        }
        point -= weight;
    }
    let last = weights.iter().rposition(|weight| *weight > 0.0)?;
    Some((last, weights[last]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_fall_on_positive_weights() {
        let weights = [0.0, 2.0, 0.0, 1.0, 0.0];
        assert_eq!(position(&weights, 0.0), Some((1, 0.0)));
        assert_eq!(position(&weights, 1.5), Some((1, 1.5)));
        assert_eq!(position(&weights, 2.25), Some((3, 0.25)));
        assert_eq!(position(&weights, 3.5), Some((3, 1.0)));
        assert_eq!(position(&[0.0], 0.5), None);
    }
}
