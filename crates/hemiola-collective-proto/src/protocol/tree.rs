//! Up and down a binomial tree. Member `v`, counted from the root, has the children `v + 1, v + 2, v + 4, …` up to the lowest bit that is set in `v`.

use super::step::{How, Members, Writer};
use hemiola_core::Rank;
use std::ops::Range;

/// The place of a member in the tree.
struct Place {
    parent: Option<Rank>,
    /// Nearest first.
    children: Vec<Rank>,
}

fn place(members: Members<'_>, root: usize) -> Place {
    let count = members.count();
    let me = (members.me + count - root) % count;
    let rank = |place: usize| members.ranks[(place + root) % count];
    let reach = if me == 0 { count } else { me & me.wrapping_neg() };
    let distances = std::iter::successors(Some(1_usize), |distance| distance.checked_mul(2));
    let children =
        distances.take_while(|&distance| distance < reach && me + distance < count).map(|distance| rank(me + distance));
    let parent = (me > 0).then(|| rank(me & (me - 1)));
    Place { parent, children: children.collect() }
}

/// Sums end at the root.
pub(super) fn reduce(writer: &mut Writer, members: Members<'_>, root: usize, range: Range<usize>) {
    let place = place(members, root);
    for piece in writer.pieces(range) {
        for &child in &place.children {
            writer.receive_piece(child, piece.clone(), How::OwnFirst);
        }
        if let Some(parent) = place.parent {
            writer.send_piece(parent, piece);
        }
    }
}

/// What the root has goes to all. The child with the most below it is told first.
pub(super) fn broadcast(writer: &mut Writer, members: Members<'_>, root: usize, range: Range<usize>) {
    let place = place(members, root);
    for piece in writer.pieces(range) {
        if let Some(parent) = place.parent {
            writer.receive_piece(parent, piece.clone(), How::Replace);
        }
        for &child in place.children.iter().rev() {
            writer.send_piece(child, piece.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_children_agree_and_all_hang_on_the_root() {
        for count in 1..20 {
            let ranks: Vec<Rank> = Rank::all(count).collect();
            for root in 0..count {
                let places: Vec<Place> = (0..count).map(|me| place(Members { ranks: &ranks, me }, root)).collect();
                assert!(places[root].parent.is_none());
                assert_eq!(places.iter().map(|place| place.children.len()).sum::<usize>(), count - 1);
                for (me, place) in places.iter().enumerate() {
                    for child in &place.children {
                        assert_eq!(places[child.index()].parent, Some(ranks[me]));
                    }
                }
            }
        }
    }
}
