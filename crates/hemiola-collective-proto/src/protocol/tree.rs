//! Binomial tree: reduce towards the root and broadcast from it. Member `v`, counted from the root,
//! has the children `v + 1, v + 2, v + 4, …` up to the lowest bit that is set in `v`.

use super::step::{Members, ReceiveAction, StepBuilder};
use hemiola_core::Rank;
use std::ops::Range;

/// Neighbours of a member in the tree.
struct TreePosition {
    parent: Option<Rank>,
    /// Children of the member, nearest first.
    children: Vec<Rank>,
}

fn position(members: Members<'_>, root: usize) -> TreePosition {
    let count = members.count();
    let me = (members.me + count - root) % count;
    let rank = |index: usize| members.ranks[(index + root) % count];
    let reach = if me == 0 { count } else { me & me.wrapping_neg() };
    let distances = std::iter::successors(Some(1_usize), |distance| distance.checked_mul(2));
    let children =
        distances.take_while(|&distance| distance < reach && me + distance < count).map(|distance| rank(me + distance));
    let parent = (me > 0).then(|| rank(me & (me - 1)));
    TreePosition { parent, children: children.collect() }
}

/// Reduces towards the root.
pub(super) fn reduce(writer: &mut StepBuilder, members: Members<'_>, root: usize, range: Range<usize>) {
    let position = position(members, root);
    for piece in writer.pieces(range) {
        for &child in &position.children {
            writer.receive_piece(child, piece.clone(), ReceiveAction::OwnFirst);
        }
        if let Some(parent) = position.parent {
            writer.send_piece(parent, piece);
        }
    }
}

/// Broadcasts from the root. The child with the largest subtree is served first.
pub(super) fn broadcast(writer: &mut StepBuilder, members: Members<'_>, root: usize, range: Range<usize>) {
    let position = position(members, root);
    for piece in writer.pieces(range) {
        if let Some(parent) = position.parent {
            writer.receive_piece(parent, piece.clone(), ReceiveAction::Replace);
        }
        for &child in position.children.iter().rev() {
            writer.send_piece(child, piece.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_children_agree_and_the_root_reaches_all() {
        for count in 1..20 {
            let ranks: Vec<Rank> = Rank::all(count).collect();
            for root in 0..count {
                let positions: Vec<TreePosition> =
                    (0..count).map(|me| position(Members { ranks: &ranks, me }, root)).collect();
                assert!(positions[root].parent.is_none());
                assert_eq!(positions.iter().map(|position| position.children.len()).sum::<usize>(), count - 1);
                for (me, position) in positions.iter().enumerate() {
                    for child in &position.children {
                        assert_eq!(positions[child.index()].parent, Some(ranks[me]));
                    }
                }
            }
        }
    }
}
