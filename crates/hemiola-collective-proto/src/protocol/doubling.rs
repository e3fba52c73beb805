//! Recursive doubling: each member exchanges its whole vector with the partner furthest away, then
//! with one half as far, and so on; both partners add the same two vectors. The sums are those of
//! [`halving`](super::halving), bit for bit, since the same values meet in the same order; but here
//! every member computes all of them.

use super::halving::{exchange_ranges, within_power_of_two};
use super::step::{Members, ReceiveAction, StepBuilder};

pub(super) fn all_reduce(writer: &mut StepBuilder, members: Members<'_>, length: usize) {
    let me = members.me;
    within_power_of_two(writer, members, length, |writer, core| {
        let mut distance = core / 2;
        while distance > 0 {
            let partner = me ^ distance;
            let action = if me < partner { ReceiveAction::OwnFirst } else { ReceiveAction::IncomingFirst };
            // A piece is sent before the piece that is added to it is received.
            exchange_ranges(writer, members.ranks[partner], 0..length, (0..length, action));
            distance /= 2;
        }
    });
}
