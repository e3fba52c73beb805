//! Binomial tree along which small collectives travel: pure arithmetic on ranks.
//!
//! With ranks counted from the root, the parent of a node is its number with the lowest one bit
//! cleared. Every peer is reached in at most ⌈log₂ size⌉ hops, and no peer has more than that many
//! children.

use hemiola_core::Rank;

/// Position of one peer in a binomial tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BinomialTree {
    /// Parent, which receives messages from this peer on the way up; `None` at the root.
    pub(crate) parent: Option<Rank>,
    /// Children, largest subtree first, so that broadcasts reach it first.
    pub(crate) children: Vec<Rank>,
}

impl BinomialTree {
    /// Returns the position of `rank` in the tree of `members`. The members must contain `rank` and
    /// `root`.
    pub(crate) fn among(members: &[Rank], rank: Rank, root: Rank) -> Self {
        let index = |rank: Rank| Rank::new(members.partition_point(|&member| member < rank) as u32);
        let Self { parent, children } = Self::new(index(rank), members.len(), index(root));
        let real = |index: Rank| members[index.index()];
        Self { parent: parent.map(real), children: children.into_iter().map(real).collect() }
    }

    fn new(rank: Rank, size: usize, root: Rank) -> Self {
        let number = (rank.index() + size - root.index()) % size;
        let real = |number: usize| Rank::new(((number + root.index()) % size) as u32);
        let reach = if number == 0 { size.next_power_of_two() } else { 1 << number.trailing_zeros() };
        let steps = std::iter::successors(Some(reach / 2), |step| Some(step / 2)).take_while(|step| *step > 0);
        Self {
            parent: (number != 0).then(|| real(number & (number - 1))),
            children: steps.map(|step| number + step).filter(|child| *child < size).map(real).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_some_ranks_has_the_shape_of_a_full_tree() {
        let members = [1, 2, 5, 7].map(Rank::new);
        let tree = BinomialTree::among(&members, Rank::new(5), Rank::new(5));
        assert_eq!((tree.parent, tree.children), (None, vec![Rank::new(1), Rank::new(7)]));
        let tree = BinomialTree::among(&members, Rank::new(2), Rank::new(1));
        assert_eq!((tree.parent, tree.children), (Some(Rank::new(1)), vec![]));
    }

    #[test]
    fn every_peer_has_exactly_one_parent_for_all_sizes_and_roots() {
        for size in 1..40 {
            for root in Rank::all(size) {
                let trees: Vec<BinomialTree> =
                    Rank::all(size).map(|rank| BinomialTree::new(rank, size, root)).collect();
                let mut seen = vec![0; size];
                for rank in Rank::all(size) {
                    let tree = &trees[rank.index()];
                    assert_eq!(tree.parent.is_none(), rank == root);
                    assert!(tree.children.len() <= size.next_power_of_two().trailing_zeros() as usize);
                    for child in &tree.children {
                        assert_eq!(trees[child.index()].parent, Some(rank), "size {size}, root {root}");
                        seen[child.index()] += 1;
                    }
                }
                assert!(Rank::all(size).all(|rank| seen[rank.index()] == usize::from(rank != root)));
            }
        }
    }

    #[test]
    fn depth_is_logarithmic() {
        let above = |rank: &Rank| BinomialTree::new(*rank, 1000, Rank::ROOT).parent;
        let depth = |rank| std::iter::successors(Some(rank), above).count() - 1;
        assert_eq!(Rank::all(1000).map(depth).max(), Some(9)); // 511 = 0b111111111
    }
}
