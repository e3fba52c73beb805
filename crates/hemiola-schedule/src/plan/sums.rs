//! Drawing one of many by weight, where weights change all the time.
//!
//! A binary tree of sums over the weights, in one vector: node 1 is the root, the children of node `k` are `2k` and `2k + 1`. Changing a weight and drawing both
//! walk between a leaf and the root.
//!
//! **Invariant:** every node is the sum of its two children as they are now, added once, never a running total: no error builds up, and the tree
//! is a function of the weights alone.

/// Weights, and their sums.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Sums {
    nodes: Vec<f64>,
    /// Leaves, a power of two.
    leaves: usize,
    length: usize,
}

impl Sums {
    /// `length` weights of zero.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let leaves = length.next_power_of_two();
        Self { nodes: vec![0.0; 2 * leaves], leaves, length }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All weights together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.nodes[1]
    }

    /// One weight.
    #[must_use]
    pub fn weight(&self, place: usize) -> f64 {
        self.nodes[self.leaves + place]
    }

    /// Changes a weight. What is no weight (negative, or no number) counts as zero.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn set(&mut self, place: usize, weight: f64) {
        assert!(place < self.length, "there are {} weights", self.length);
        let mut node = self.leaves + place;
        // `max` makes zero of what is no number. Infinite weights would leave no chance to the others, and none to count.
        self.nodes[node] = weight.max(0.0).min(f64::MAX / self.leaves as f64);
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
    }

    /// The place that the share `at` of the total falls on, if any weight is above zero. `at` is in `[0, 1)`.
    #[must_use]
    pub fn draw(&self, at: f64) -> Option<usize> {
        let mut rest = at * self.total();
        if self.total() <= 0.0 {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            // Rounding must not lead to where nothing is.
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
            let mut sums = Sums::new(weights.len());
            for (place, weight) in weights.iter().enumerate() {
                sums.set(place, *weight);
            }
            for (place, weight) in changes {
                if place < weights.len() {
                    weights[place] = weight;
                    sums.set(place, weight);
                }
            }
            let total: f64 = weights.iter().sum();
            prop_assert!((sums.total() - total).abs() < 1e-9);
            match sums.draw(at) {
                None => prop_assert!(total == 0.0),
                Some(place) => {
                    prop_assert!(weights[place] > 0.0);
                    let below: f64 = weights[..place].iter().sum();
                    let target = at * total;
                    prop_assert!(below <= target + 1e-9 && target <= below + weights[place] + 1e-9);
                }
            }
        }
    }

    #[test]
    fn what_is_no_weight_counts_as_zero_and_the_infinite_leaves_a_total() {
        let mut sums = Sums::new(3);
        sums.set(0, f64::NAN);
        sums.set(1, -1.0);
        assert_eq!(sums.draw(0.5), None);
        sums.set(2, f64::INFINITY);
        assert!(sums.total().is_finite());
        assert_eq!(sums.draw(0.0), Some(2));
        assert_eq!(Sums::new(0).draw(0.3), None);
    }
}
