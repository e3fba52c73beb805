//! Weighted sampling with changing weights.
//!
//! A binary tree of sums over the weights, in one vector: node 1 is the root, the children of node
//! `k` are `2k` and `2k + 1`. Setting a weight and drawing both walk one path between a leaf and
//! the root.
//!
//! **Invariant:** every node is the sum of its two children, added once, never a running total. No
//! rounding error accumulates, and the tree is a function of the weights alone.

/// Weights with a tree of their sums.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SumTree {
    nodes: Vec<f64>,
    /// Number of leaves, a power of two.
    leaves: usize,
    length: usize,
}

impl SumTree {
    /// Creates `length` weights of zero.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let leaves = length.next_power_of_two();
        Self { nodes: vec![0.0; 2 * leaves], leaves, length }
    }

    /// Number of weights in the tree.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether there are no weights.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Sum of all weights.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.nodes[1]
    }

    /// Weight at an index.
    #[must_use]
    pub fn weight(&self, index: usize) -> f64 {
        self.nodes[self.leaves + index]
    }

    /// Sets a weight. Negative values and NaN count as zero.
    ///
    /// # Panics
    /// If the index is out of range.
    pub fn set(&mut self, index: usize, weight: f64) {
        assert!(index < self.length, "index {index} is out of range for {} weights", self.length);
        let mut node = self.leaves + index;
        // `max` turns NaN into zero. An infinite weight would leave the others no probability.
        self.nodes[node] = weight.max(0.0).min(f64::MAX / self.leaves as f64);
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
    }

    /// Returns the index at the fraction `at` of the total, if any weight is positive. `at` is in
    /// `[0, 1)`.
    #[must_use]
    pub fn draw(&self, at: f64) -> Option<usize> {
        let mut rest = at * self.total();
        if self.total() <= 0.0 {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            // Rounding must not lead to a subtree of weight zero.
            if (rest < left && left > 0.0) || right <= 0.0 {
                node *= 2;
            } else {
                rest -= left;
                node = 2 * node + 1;
            }
        }
        Some(node - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn draws_are_where_a_walk_along_the_weights_ends(
            weights in prop::collection::vec(prop_oneof![Just(0.0), 0.0..4.0_f64], 0..40),
            changes in prop::collection::vec((0..40_usize, 0.0..2.0_f64), 0..20),
            at in 0.0..1.0_f64,
        ) {
            let mut weights = weights;
            let mut tree = SumTree::new(weights.len());
            for (index, weight) in weights.iter().enumerate() {
                tree.set(index, *weight);
            }
            for (index, weight) in changes {
                if index < weights.len() {
                    weights[index] = weight;
                    tree.set(index, weight);
                }
            }
            let total: f64 = weights.iter().sum();
            prop_assert!((tree.total() - total).abs() < 1e-9);
            match tree.draw(at) {
                None => prop_assert!(total == 0.0),
                Some(index) => {
                    prop_assert!(weights[index] > 0.0);
                    let below: f64 = weights[..index].iter().sum();
                    let target = at * total;
                    prop_assert!(below <= target + 1e-9 && target <= below + weights[index] + 1e-9);
                }
            }
        }
    }

    #[test]
    fn invalid_weights_count_as_zero_and_infinite_ones_keep_the_total_finite() {
        let mut tree = SumTree::new(3);
        tree.set(0, f64::NAN);
        tree.set(1, -1.0);
        assert_eq!(tree.draw(0.5), None);
        tree.set(2, f64::INFINITY);
        assert!(tree.total().is_finite());
        assert_eq!(tree.draw(0.0), Some(2));
        assert_eq!(SumTree::new(0).draw(0.3), None);
    }
}
