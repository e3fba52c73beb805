//! Recursive doubling: each exchanges its whole vector with the member furthest away, then with one half as far, and so on, and both add the same two
//! numbers. Sums are those of [`halving`](super::halving), bit for bit, since the same members' numbers meet in the same order; only that here
//! everybody computes all of them.

use super::halving::{exchange, in_core};
use super::step::{How, Members, Writer};

pub(super) fn all_reduce(writer: &mut Writer, members: Members<'_>, length: usize) {
    let me = members.me;
    in_core(writer, members, length, |writer, core| {
        let mut distance = core / 2;
        while distance > 0 {
            let partner = me ^ distance;
            let how = if me < partner { How::OwnFirst } else { How::IncomingFirst };
            // A piece is sent before the one that is added to it is received.
            exchange(writer, members.ranks[partner], 0..length, (0..length, how));
            distance /= 2;
        }
    });
}
