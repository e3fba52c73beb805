//! Barrier between push and reduce, for [`GossipSync::Barrier`](crate::GossipSync::Barrier).
//!
//! The first remaining peer collects all arrivals and then releases all peers. The cluster's own
//! barrier is unsuitable because it counts calls: when a peer is lost, some have passed it and some
//! have not. Here a message names the round, and a peer that has arrived at a later round has
//! arrived at this one as well. So the barrier can be repeated, with another first peer, until it
//! succeeds.
//!
//! It guarantees that all peers have *sent*, not that everything has arrived: it travels on another
//! lane, and values may still be in flight. That is the barrier of the paper (section 4: no
//! guarantee that receivers have the values when they reduce), which exists here for comparison.
//! Use NOTIFY-ACK to get all values of a round.

use super::{Gossip, POLL_INTERVAL};
use crate::error::{protocol_error, receive_failure};
use hemiola_cluster::{Error, Result, WaitReason};
use hemiola_collective_proto::gossip::GossipElement;
use hemiola_core::{Lane, OutgoingMessage, Payload, PeerLost, Purpose, Rank, Waiter};
use std::panic::Location;

impl<T: GossipElement> Gossip<T> {
    /// Returns when all remaining peers have pushed this round.
    pub(super) fn barrier(&mut self, site: &'static Location<'static>) -> Result<()> {
        // One more than the last round pushed, so that 0 means none.
        let rounds = self.next_round();
        while let Err(loss) = self.try_barrier(rounds, site)? {
            self.exclude_lost(loss, site)?;
        }
        Ok(())
    }

    /// Runs one attempt. The inner error is a loss that may be tolerated.
    fn try_barrier(&mut self, rounds: u64, site: &'static Location<'static>) -> Result<Result<(), PeerLost>> {
        let me = self.peer_handle.rank();
        let left: Vec<Rank> = Rank::all(self.cluster.size()).filter(|rank| !self.stats.lost.contains(rank)).collect();
        let first = left[0];
        let awaited = if me == first { &left[1..] } else { &left[..1] };
        if me != first
            && let Err(loss) = self.announce(first, rounds)?
        {
            return Ok(Err(loss));
        }
        for &from in awaited {
            if let Err(loss) = self.await_arrival(from, rounds, site)? {
                return Ok(Err(loss));
            }
        }
        if me == first {
            for &to in awaited {
                if let Err(loss) = self.announce(to, rounds)? {
                    return Ok(Err(loss));
                }
            }
        }
        Ok(Ok(()))
    }

    fn announce(&self, to: Rank, rounds: u64) -> Result<Result<(), PeerLost>> {
        let (lane, channel, purpose) = (Lane::Control, self.channels[3], Purpose::Barrier);
        let payload = Payload::from(rounds.to_le_bytes().to_vec());
        match self.peer_handle.send(to, OutgoingMessage { lane, channel, purpose, payload }) {
            Ok(()) => Ok(Ok(())),
            Err(Error::Lost(loss)) => Ok(Err(loss)),
            Err(error) => Err(error),
        }
    }

    /// Waits until a peer has announced this many rounds.
    fn await_arrival(
        &mut self,
        from: Rank,
        rounds: u64,
        site: &'static Location<'static>,
    ) -> Result<Result<(), PeerLost>> {
        let reason = WaitReason { operation: "the barrier of a round", number: Some(rounds - 1), site: Some(site) };
        let peer_handle = self.peer_handle.clone();
        let _waiting = peer_handle.waiting(Waiter::Driver, reason, Some(from));
        let start = peer_handle.env().now();
        while self.announced_rounds.get(&from).is_none_or(|announced_rounds| *announced_rounds < rounds) {
            match self.receivers.barriers.receive_from(from, POLL_INTERVAL) {
                Ok(message) => {
                    let bytes = message.payload.first_chunk().copied().ok_or_else(|| {
                        let problem = "it names no round".to_owned();
                        protocol_error(hemiola_collective_proto::Error::InvalidMessage { from, problem })
                    })?;
                    self.announced_rounds.insert(from, u64::from_le_bytes(bytes));
                }
                Err(error) => match receive_failure(error) {
                    Some(Error::Lost(loss)) => return Ok(Err(loss)),
                    Some(error) => return Err(error),
                    None => {}
                },
            }
            if peer_handle.env().now() - start >= peer_handle.wait_timeout() {
                return Err(peer_handle.timed_out(&format_args!("{reason} from peer {from}"), ""));
            }
        }
        Ok(Ok(()))
    }
}
