//! All-to-all exchange of bytes.
//!
//! All peers go through the same rounds. In each round a peer sends one message to every other peer
//! and receives one from each, so that no peer sends faster than the others receive and no cycle of
//! waits arises.

use crate::cluster::Cluster;
use crate::error::Result;
use crate::waits::WaitReason;
use bytes::Bytes;
use hemiola_core::{ChannelOwner, Lane, OutgoingMessage, Purpose, Rank, Waiter};
use std::panic::Location;

/// Largest message: well under the queue limit of a lane, so that sending does not wait for the
/// receiver.
const MESSAGE_BYTES: usize = 4 << 20;

impl Cluster {
    /// *Collective.* Sends `outgoing[p]` to peer `p` and returns the bytes that each peer sent to
    /// this one, by rank.
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
    /// If there is not exactly one value per peer.
    #[track_caller]
    pub fn all_to_all(&self, mut outgoing: Vec<Bytes>, purpose: Purpose) -> Result<Vec<Bytes>> {
        let (me, size) = (self.rank().index(), self.size());
        assert_eq!(outgoing.len(), size, "all_to_all needs one value per peer");
        let mut incoming: Vec<Vec<u8>> = (0..size).map(|_| Vec::new()).collect();
        let mine = std::mem::take(&mut outgoing[me]);
        let channel = self.next_channel(ChannelOwner::AllToAll);
        let receiver = self.open_channel(channel, Lane::Bulk);
        let reason = WaitReason { operation: "all_to_all", number: None, site: Some(Location::caller()) };
        let mut sent: Vec<bool> = (0..size).map(|peer| peer == me).collect();
        let mut received = sent.clone();
        while sent.iter().chain(&received).any(|done| !done) {
            for step in 1..size {
                let to = (me + step) % size;
                if !sent[to] {
                    let rest = &mut outgoing[to];
                    let payload = rest.split_to(rest.len().min(MESSAGE_BYTES));
                    // A message that is not full is the last one.
                    sent[to] = payload.len() < MESSAGE_BYTES;
                    let message = OutgoingMessage { lane: Lane::Bulk, channel, purpose, payload: payload.into() };
                    self.send(Rank::new(to as u32), message)?;
                }
                let from = (me + size - step) % size;
                if !received[from] {
                    let message = self.receive(&receiver, Rank::new(from as u32), Waiter::Driver, reason)?;
                    received[from] = message.payload.len() < MESSAGE_BYTES;
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
