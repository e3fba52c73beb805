//! Two-level all-reduce: each group of consecutive members reduces along a tree to its first
//! member, the first members run a ring, and each broadcasts to its group. One vector per group
//! crosses between groups in each direction, whatever the group's size.

use super::step::{Members, StepBuilder};
use super::{ring, tree};
use hemiola_core::Rank;

pub(super) fn all_reduce(writer: &mut StepBuilder, members: Members<'_>, group: usize, length: usize) {
    let group = group.max(1);
    let first = members.me - members.me % group;
    let mine = &members.ranks[first..(first.saturating_add(group)).min(members.count())];
    let inside = Members { ranks: mine, me: members.me - first };
    tree::reduce(writer, inside, 0, 0..length);
    if inside.me == 0 {
        let leaders: Vec<Rank> = members.ranks.iter().copied().step_by(group).collect();
        ring::all_reduce(writer, Members { ranks: &leaders, me: first / group }, length);
    }
    tree::broadcast(writer, inside, 0, 0..length);
}
