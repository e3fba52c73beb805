//! Equations of the form `x + a = y + b` between unknown integers.
//!
//! Two accesses touch the same element exactly if their subscripts are equal in every dimension of
//! the array. A dimension gives such an equation if both subscripts are a loop index plus a
//! constant, a literal, or a loop invariant. The unknowns are the loop indices of the two
//! iterations and the values of the invariants. A weighted union–find forest, in which every edge
//! carries a difference, decides all equations together exactly: it finds every contradiction and
//! every fixed difference.
//!
//! The thesis on Orion treats each array dimension alone. All dimensions together say more:
//! `a[[i, 0]]` and `a[[0, i]]` share one element only, although no single dimension fixes the
//! distance between the iterations.

/// A consistent set of equations.
#[derive(Debug)]
pub(crate) struct OffsetEquations {
    /// Parent of each unknown, and its value minus the parent's. A root is its own parent, at
    /// difference zero.
    parents: Vec<(usize, i128)>,
}

impl OffsetEquations {
    /// Creates `unknowns` unknowns without equations.
    pub(crate) fn new(unknowns: usize) -> Self {
        Self { parents: (0..unknowns).map(|unknown| (unknown, 0)).collect() }
    }

    /// Adds an unknown and returns its number.
    pub(crate) fn add_unknown(&mut self) -> usize {
        let unknown = self.parents.len();
        self.parents.push((unknown, 0));
        unknown
    }

    /// Returns the root of the unknown's tree, and the unknown's value minus the root's.
    fn root(&self, mut unknown: usize) -> (usize, i128) {
        let mut above = 0;
        loop {
            let (parent, difference) = self.parents[unknown];
            if parent == unknown {
                return (unknown, above);
            }
            above += difference;
            unknown = parent;
        }
    }

    /// Adds `left + left_offset = right + right_offset`. Returns false if that contradicts the
    /// equations so far.
    #[must_use]
    pub(crate) fn equate(&mut self, (left, left_offset): (usize, i64), (right, right_offset): (usize, i64)) -> bool {
        let (left_root, left_above) = self.root(left);
        let (right_root, right_above) = self.root(right);
        // left_root + left_above + left_offset = right_root + right_above + right_offset
        let difference = right_above + i128::from(right_offset) - left_above - i128::from(left_offset);
        if left_root == right_root {
            return difference == 0;
        }
        self.parents[left_root] = (right_root, difference);
        true
    }

    /// Returns `right - left`, if the equations fix it.
    pub(crate) fn difference(&self, left: usize, right: usize) -> Option<i128> {
        let (left_root, left_above) = self.root(left);
        let (right_root, right_above) = self.root(right);
        (left_root == right_root).then(|| right_above - left_above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_follow_through_chains() {
        let mut equations = OffsetEquations::new(4);
        assert!(equations.equate((0, 0), (1, 3)));
        assert!(equations.equate((3, 1), (2, 0)));
        assert_eq!(equations.difference(0, 3), None);
        assert!(equations.equate((1, 0), (2, 10)));
        // x0 = x1 + 3, x1 = x2 + 10, x2 = x3 + 1
        assert_eq!(equations.difference(0, 3), Some(-14));
        assert_eq!(equations.difference(3, 0), Some(14));
    }

    #[test]
    fn contradictions_are_found_and_repetitions_accepted() {
        let mut equations = OffsetEquations::new(3);
        assert!(equations.equate((0, 0), (1, 1)));
        assert!(equations.equate((1, 0), (2, 1)));
        assert!(equations.equate((0, 5), (2, 7)));
        assert!(!equations.equate((0, 0), (2, 1)));
    }

    #[test]
    fn the_largest_offsets_do_not_overflow() {
        let mut equations = OffsetEquations::new(3);
        assert!(equations.equate((0, i64::MAX), (1, i64::MIN)));
        assert!(equations.equate((1, i64::MAX), (2, i64::MIN)));
        assert_eq!(equations.difference(0, 2), Some(2 * ((1_i128 << 64) - 1)));
    }
}
