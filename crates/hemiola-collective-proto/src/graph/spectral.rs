//! Singular values of small dense matrices, and the second one of large sparse weight matrices.
//!
//! **Invariant:** only the four basic operations and square roots are used, which IEEE 754 fixes to
//! the bit: all machines get the same numbers.

use super::{GossipWeights, bidiagonal};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;

/// Matrices up to this size use Jacobi rotations, larger ones [`bidiagonal`].
const SMALL: usize = 64;

/// Second largest singular value of a square matrix given by rows; 0 if there is none.
pub(super) fn second_singular_value(rows: Vec<Vec<f64>>) -> f64 {
    if rows.len() > SMALL {
        return bidiagonal::singular_value(rows, 1);
    }
    singular_values(rows).get(1).copied().unwrap_or(0.0)
}

/// All singular values of a square matrix given by rows, largest first: one-sided Jacobi rotations
/// until all rows are orthogonal.
///
/// Rows serve as well as columns, since a matrix and its transpose have the same singular values.
pub(super) fn singular_values(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    const SWEEPS: usize = 60;
    const RIGHT_ANGLE: f64 = 1e-15;
    for _ in 0..SWEEPS {
        let mut turned = false;
        for first in 0..rows.len() {
            for second in first + 1..rows.len() {
                let (head, tail) = rows.split_at_mut(second);
                turned |= make_orthogonal(&mut head[first], &mut tail[0], RIGHT_ANGLE);
            }
        }
        if !turned {
            break;
        }
    }
    let mut values: Vec<f64> = rows.iter().map(|row| dot(row, row).sqrt()).collect();
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    values
}

fn make_orthogonal(first: &mut [f64], second: &mut [f64], tolerance: f64) -> bool {
    let (a, b, c) = (dot(first, first), dot(second, second), dot(first, second));
    // Rows that consist of rounding errors would be rotated forever.
    if c.abs() <= tolerance * (a * b).sqrt() || a.min(b) < 1e-30 {
        return false;
    }
    let zeta = (b - a) / (2.0 * c);
    let tangent = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
    let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
    let sine = cosine * tangent;
    for (x, y) in first.iter_mut().zip(second) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
    true
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Lower bound of the second singular value of *doubly stochastic* weights, whose first is 1 with
/// equal entries: power iteration orthogonal to those. `O(edges)` per round, for a search that
/// tries thousands of graphs. It ends early once the estimate, which only grows, is `enough`.
pub(super) fn estimate_second_singular_value(
    weights: &GossipWeights,
    rounds: usize,
    enough: impl Fn(f64) -> bool,
) -> f64 {
    let peers = weights.peers();
    let mut random = SplitMix64::new(0x5eed);
    let mut vector: Vec<f64> = (0..peers).map(|_| random.symmetric()).collect();
    let mut estimate = 0.0;
    for _ in 0..rounds {
        let mean = vector.iter().sum::<f64>() / peers as f64;
        for value in &mut vector {
            *value -= mean;
        }
        let norm = dot(&vector, &vector).sqrt();
        if norm < 1e-200 {
            return 0.0;
        }
        for value in &mut vector {
            *value /= norm;
        }
        let mut averaged = vec![0.0; peers];
        for peer in Rank::all(peers) {
            averaged[peer.index()] =
                weights.row(peer).terms().map(|(from, weight)| weight * vector[from.index()]).sum();
        }
        estimate = dot(&averaged, &averaged).sqrt();
        if enough(estimate) {
            break;
        }
        let mut back = vec![0.0; peers];
        for peer in Rank::all(peers) {
            for (from, weight) in weights.row(peer).terms() {
                back[from.index()] += weight * averaged[peer.index()];
            }
        }
        vector = back;
    }
    estimate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    fn gap(kind: &Topology, peers: usize) -> f64 {
        kind.graph(peers).unwrap().spectral_gap()
    }

    #[test]
    fn singular_values_of_known_matrices() {
        let values = singular_values(vec![vec![3.0, 0.0], vec![4.0, 5.0]]);
        assert!((values[0] - 45_f64.sqrt()).abs() < 1e-14 && (values[1] - 5_f64.sqrt()).abs() < 1e-14);
        assert_eq!(singular_values(vec![vec![0.0; 3]; 3]), [0.0; 3]);
        let all_ones = singular_values(vec![vec![1.0; 4]; 4]);
        assert!((all_ones[0] - 4.0).abs() < 1e-14 && all_ones[1] < 1e-14);
    }

    #[test]
    fn gaps_are_the_exact_values_behind_figure_2_of_the_paper() {
        for (kind, six, twenty_five) in [
            (Topology::Complete, 1.0, 1.0),
            (Topology::RootExpander, 0.3333, 0.1419),
            (Topology::Ring, 0.1340, 0.0079),
            (Topology::Chain, 0.0474, 0.0021),
        ] {
            assert!((gap(&kind, 6) - six).abs() < 5e-5, "{kind:?} of 6: {}", gap(&kind, 6));
            assert!((gap(&kind, 25) - twenty_five).abs() < 5e-5, "{kind:?} of 25: {}", gap(&kind, 25));
        }
    }

    #[test]
    fn circulant_gaps_follow_from_roots_of_unity() {
        // σ of a circulant average is |1 + Σ ωᵏᵒ| / (degree + 1), for k = 0, 1, ...: no rotation is
        // involved.
        for peers in 2..30_usize {
            for offsets in [vec![1], vec![1, 2], vec![1, 3, 7]] {
                let mut offsets: Vec<usize> =
                    offsets.into_iter().map(|offset| offset % peers).filter(|&o| o != 0).collect();
                offsets.sort_unstable();
                offsets.dedup();
                let mut values: Vec<f64> = (0..peers)
                    .map(|k| {
                        let angle = |o: usize| std::f64::consts::TAU * (k * o % peers) as f64 / peers as f64;
                        let real = 1.0 + offsets.iter().map(|&o| angle(o).cos()).sum::<f64>();
                        let imaginary: f64 = offsets.iter().map(|&o| angle(o).sin()).sum();
                        real.hypot(imaginary) / (offsets.len() + 1) as f64
                    })
                    .collect();
                values.sort_unstable_by(|a, b| b.total_cmp(a));
                let kind = Topology::Circulant { offsets };
                assert!((gap(&kind, peers) - (1.0 - values[1])).abs() < 1e-12, "{kind:?} of {peers}");
            }
        }
    }

    #[test]
    fn gaps_of_large_graphs_follow_from_roots_of_unity_too() {
        let peers = 300;
        for offsets in [vec![1], vec![1, 17], vec![1, 150, 75, 225]] {
            let value = |k: usize| {
                let angle = |o: usize| std::f64::consts::TAU * (k * o % peers) as f64 / peers as f64;
                let real = 1.0 + offsets.iter().map(|&o| angle(o).cos()).sum::<f64>();
                real.hypot(offsets.iter().map(|&o| angle(o).sin()).sum()) / (offsets.len() + 1) as f64
            };
            let second = (1..peers).map(value).fold(0.0, f64::max);
            let kind = Topology::Circulant { offsets: offsets.clone() };
            assert!((gap(&kind, peers) - (1.0 - second)).abs() < 1e-12, "{kind:?}");
        }
        assert!((gap(&Topology::Complete, peers) - 1.0).abs() < 1e-12);
        // Two rings that never exchange values.
        assert!(gap(&Topology::Circulant { offsets: vec![2] }, peers).abs() < 1e-12);
        let (star, rows) = (Topology::Star.graph(100).unwrap(), |graph: &crate::Graph| {
            let weights = GossipWeights::average(graph);
            let row = |to: Rank| {
                let mut row = vec![0.0; 100];
                weights.row(to).terms().for_each(|(from, weight)| row[from.index()] = weight);
                row
            };
            Rank::all(100).map(row).collect::<Vec<_>>()
        });
        assert!((star.spectral_gap() - (1.0 - singular_values(rows(&star))[1])).abs() < 1e-12);
    }

    #[test]
    fn one_peer_agrees_with_itself() {
        assert_eq!(gap(&Topology::Ring, 1).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn the_estimate_approaches_the_exact_value_from_below() {
        for kind in [Topology::RootExpander, Topology::Chord, Topology::RandomRegular { degree: 3, seed: 4 }] {
            let graph = kind.graph(24).unwrap();
            let exact = 1.0 - graph.spectral_gap();
            let estimate = estimate_second_singular_value(&GossipWeights::average(&graph), 200, |_| false);
            assert!(estimate <= exact + 1e-12 && estimate > exact - 1e-3, "{kind:?}: {estimate} for {exact}");
        }
    }
}
