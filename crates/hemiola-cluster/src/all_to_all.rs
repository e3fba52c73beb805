//! Bytes from every peer to every peer.
//!
//! All peers go through the same rounds: in each, one message to every other peer and one from each, so that nobody sends
//! faster than the others take and nothing waits in a circle.

use crate::cluster::Cluster;
use crate::error::Result;
use crate::waits::Reason;
use bytes::Bytes;
use hemiola_core::{Lane, Outgoing, Purpose, Rank, Waiter};
use std::panic::Location;

/// Top byte of the channels that belong to these calls.
const OWNER: u8 = 5;
/// Largest message: well under what a lane queues, so that sending does not wait for the receiver.
const MESSAGE_BYTES: usize = 4 << 20;

impl Cluster {
    /// *Collective.* Sends `outgoing[p]` to peer `p` and returns what peer `p` sent to this one, by rank.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use hemiola_core::Purpose;
    /// hemiola_cluster::standalone(3).run(|cluster| {
    ///     let me = cluster.rank().index() as u8;
    ///     let outgoing = (0..3).map(|peer| Bytes::from(vec![me, peer])).collect();
    ///     let incoming = cluster.all_to_all(outgoing, Purpose::Custom)?;
    ///     assert_eq!(incoming[2], [2, me][..]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is not one value for each peer.
    #[track_caller]
    pub fn all_to_all(&self, mut outgoing: Vec<Bytes>, purpose: Purpose) -> Result<Vec<Bytes>> {
        let (me, size) = (self.rank().index(), self.size());
        assert_eq!(outgoing.len(), size, "one value for each peer");
        let mut incoming: Vec<Vec<u8>> = (0..size).map(|_| Vec::new()).collect();
        let mine = std::mem::take(&mut outgoing[me]);
        let channel = self.next_channel(OWNER);
        let mailbox = self.open(channel, Lane::Bulk);
        let reason = Reason { what: "an exchange of all with all", number: None, site: Some(Location::caller()) };
        let mut told: Vec<bool> = (0..size).map(|peer| peer == me).collect();
        let mut ended = told.clone();
        while told.iter().chain(&ended).any(|done| !done) {
            for step in 1..size {
                let to = (me + step) % size;
                if !told[to] {
                    let rest = &mut outgoing[to];
                    let payload = rest.split_to(rest.len().min(MESSAGE_BYTES));
                    // A message that is not full is the last.
                    told[to] = payload.len() < MESSAGE_BYTES;
                    let message = Outgoing { lane: Lane::Bulk, channel, purpose, payload: payload.into() };
                    self.send(Rank::new(to as u32), message)?;
                }
                let from = (me + size - step) % size;
                if !ended[from] {
                    let message = self.receive(&mailbox, Rank::new(from as u32), Waiter::Driver, reason)?;
                    ended[from] = message.payload.len() < MESSAGE_BYTES;
                    incoming[from].extend_from_slice(&message.payload);
                }
            }
        }
        let mut incoming: Vec<Bytes> = incoming.into_iter().map(Bytes::from).collect();
        incoming[me] = mine;
        Ok(incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standalone;

    #[test]
    fn values_of_any_length_arrive() {
        let lengths = [0, 1, MESSAGE_BYTES - 1, MESSAGE_BYTES, MESSAGE_BYTES + 1, 2 * MESSAGE_BYTES];
        standalone(3)
            .run(|cluster| {
                let length = |from: usize, to: usize| lengths[(from * 2 + to) % lengths.len()];
                let me = cluster.rank().index();
                let outgoing = (0..3).map(|peer| vec![me as u8; length(me, peer)].into()).collect();
                let incoming = cluster.all_to_all(outgoing, Purpose::Custom)?;
                for (peer, bytes) in incoming.iter().enumerate() {
                    assert_eq!(bytes.len(), length(peer, me));
                    assert!(bytes.iter().all(|byte| *byte == peer as u8));
                }
                Ok(())
            })
            .unwrap();
    }
}
