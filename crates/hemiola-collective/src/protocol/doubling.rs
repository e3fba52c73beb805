//! Recursive doubling: each exchanges its whole vector with the member furthest away, then with one half as far, and so on, and both add the same two
//! numbers. Sums are those of [`halving`](super::halving), bit for bit, since the same members' numbers meet in the same order; only that here
//! everybody computes all of them. Members beyond the power of two hand their vector to a partner before and are told the result after.

use super::halving::exchange;
use super::step::{How, Members, Writer};

pub(super) fn all_reduce(writer: &mut Writer, members: Members<'_>, length: usize) {
    let (count, me) = (members.count(), members.me);
    let core = 1_usize << count.ilog2();
    if me >= core {
        let partner = members.ranks[me - core];
        writer.send(partner, 0..length);
        writer.receive(partner, 0..length, How::Replace);
        return;
    }
    let extra = members.ranks.get(me + core).copied();
    if let Some(extra) = extra {
        writer.receive(extra, 0..length, How::OwnFirst);
    }
    let mut distance = core / 2;
    while distance > 0 {
        let partner = me ^ distance;
        let how = if me < partner { How::OwnFirst } else { How::IncomingFirst };
        // A piece is sent before the one that is added to it is received.
        exchange(writer, members.ranks[partner], 0..length, (0..length, how));
        distance /= 2;
    }
    if let Some(extra) = extra {
        writer.send(extra, 0..length);
    }
}
