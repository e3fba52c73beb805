//! Collectives along a [`Route`]: among its members only, and over the stations of its groups.
//!
//! A sum travels in two levels: along a tree to the station of each group, and from there over the
//! stations. The station of the group that has the root is the root itself. Values take the reverse
//! path. A root outside the route receives or sends, and adds its own vector as any station does.
//!
//! **Invariant:** with groups of 2ᵏ consecutive peers, of which the root is the first of one, a
//! routed reduce adds in the order of the direct one: a binomial tree sums aligned blocks of 2ᵏ
//! first. Its bits are then the same.

use super::step::{Members, StepBuilder};
use super::{operation, tree};
use crate::{Algorithm, Route};
use hemiola_core::Rank;

/// Group of a peer and the position of the peer in it.
fn group_of(route: &Route, me: Rank) -> Option<(usize, Members<'_>)> {
    route.groups().iter().enumerate().find_map(|(index, ranks)| {
        let me = ranks.iter().position(|rank| *rank == me)?;
        Some((index, Members { ranks, me }))
    })
}

/// Sums inside each group, all-reduces over the stations, and broadcasts inside each group.
pub(super) fn all_reduce(writer: &mut StepBuilder, route: &Route, me: Rank, algorithm: Algorithm, length: usize) {
    let Some((group, inside)) = group_of(route, me) else { return };
    if route.groups().len() == 1 {
        return operation::all_reduce(writer, inside, algorithm, length);
    }
    tree::reduce(writer, inside, 0, 0..length);
    if inside.me == 0 {
        let stations: Vec<Rank> = route.groups().iter().map(|group| group[0]).collect();
        operation::all_reduce(writer, Members { ranks: &stations, me: group }, algorithm, length);
    }
    tree::broadcast(writer, inside, 0, 0..length);
}

/// Index of the station of a group: the root, if it is a member.
fn station(group: &[Rank], root: Rank) -> usize {
    group.iter().position(|rank| *rank == root).unwrap_or(0)
}

/// Peers of the upper level, with the root among them.
fn upper_level(route: &Route, root: Rank) -> Vec<Rank> {
    let mut ranks: Vec<Rank> = match route.groups() {
        [members] => members.clone(),
        groups => groups.iter().map(|group| group[station(group, root)]).collect(),
    };
    if !ranks.contains(&root) {
        ranks.insert(0, root);
    }
    ranks
}

/// One of the two levels: the members among whom `me` communicates, and the index of their root.
fn levels(route: &Route, root: Rank, me: Rank, act: &mut dyn FnMut(bool, Members<'_>, usize)) {
    if route.groups().len() > 1
        && let Some((group, inside)) = group_of(route, me)
    {
        act(false, inside, station(&route.groups()[group], root));
    }
    let upper = upper_level(route, root);
    if let Some(me) = upper.iter().position(|rank| *rank == me) {
        act(true, Members { ranks: &upper, me }, station(&upper, root));
    }
}

/// Reduces to the root.
pub(super) fn reduce(writer: &mut StepBuilder, route: &Route, root: Rank, me: Rank, length: usize) {
    levels(route, root, me, &mut |_, members, root| tree::reduce(writer, members, root, 0..length));
}

/// Broadcasts from the root.
pub(super) fn broadcast(writer: &mut StepBuilder, route: &Route, root: Rank, me: Rank, length: usize) {
    for upper in [true, false] {
        levels(route, root, me, &mut |level, members, root| {
            if level == upper {
                tree::broadcast(writer, members, root, 0..length);
            }
        });
    }
}
