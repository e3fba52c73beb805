//! Exclusion of lost peers, in agreement with all remaining ones.

use super::{Gossip, POLL_INTERVAL, PeerLossPolicy};
use crate::error::{protocol_error, receive_failure};
use hemiola_cluster::{Error, Result, WaitReason};
use hemiola_collective_proto::gossip::GossipElement;
use hemiola_core::{Lane, LossCause, OutgoingMessage, Payload, PeerLost, Purpose, Rank, Waiter};
use std::collections::VecDeque;
use std::panic::Location;

impl<T: GossipElement> Gossip<T> {
    /// Handles losses that no wait has reported.
    pub(super) fn handle_losses(&mut self, site: &'static Location<'static>) -> Result<()> {
        while let Some(loss) = self.peer_handle.failure() {
            self.exclude_lost(loss, site)?;
        }
        Ok(())
    }

    /// Excludes a lost peer, or fails with its loss.
    pub(super) fn exclude_lost(&mut self, loss: PeerLost, site: &'static Location<'static>) -> Result<()> {
        if self.on_peer_loss == PeerLossPolicy::Fail
            || loss.rank == self.peer_handle.rank()
            || loss.cause == LossCause::Left
        {
            return Err(loss.into());
        }
        let mut due = VecDeque::from([loss.rank]);
        while let Some(excluded) = due.pop_front() {
            if self.stats.lost.contains(&excluded) {
                continue;
            }
            self.cluster.exclude(excluded);
            self.stats.lost.push(excluded);
            let round = self.agree_on_round(excluded, &mut due, site)?;
            self.averager.lock().exclude(excluded, round).map_err(protocol_error)?;
        }
        Ok(())
    }

    /// Agrees on the first round without a peer: sends this peer's next round to all remaining
    /// peers, and receives theirs. Peers that are lost meanwhile are added to `due`.
    fn agree_on_round(
        &mut self,
        excluded: Rank,
        due: &mut VecDeque<Rank>,
        site: &'static Location<'static>,
    ) -> Result<u64> {
        let next = self.next_round();
        let left = |other: &Rank| *other != self.peer_handle.rank() && !self.stats.lost.contains(other);
        let others: Vec<Rank> = Rank::all(self.cluster.size()).filter(left).collect();
        for &to in &others {
            let vote = [u64::from(excluded.number()), next].map(u64::to_le_bytes).concat();
            let (lane, channel, purpose) = (Lane::Control, self.channels[2], Purpose::Gossip);
            match self.peer_handle.send(to, OutgoingMessage { lane, channel, purpose, payload: Payload::from(vote) }) {
                Err(Error::Lost(_)) => due.push_back(to),
                other => other?,
            }
        }
        let mut round = next;
        for from in others {
            if let Some(theirs) = self.receive_vote(from, excluded, due, site)? {
                round = round.max(theirs);
            }
        }
        Ok(round)
    }

    /// Receives the next round of another peer; `None` if it is lost as well.
    fn receive_vote(
        &mut self,
        from: Rank,
        excluded: Rank,
        due: &mut VecDeque<Rank>,
        site: &'static Location<'static>,
    ) -> Result<Option<u64>> {
        let reason = WaitReason { operation: "vote of who is left", number: None, site: Some(site) };
        let peer_handle = self.peer_handle.clone();
        let _waiting = peer_handle.waiting(Waiter::Driver, reason, Some(from));
        let start = peer_handle.env().now();
        loop {
            if let Some(round) = self.votes.remove(&(excluded, from)) {
                return Ok(Some(round));
            }
            match self.receivers.votes.receive_from(from, POLL_INTERVAL) {
                Ok(message) => {
                    let (numbers, []) = message.payload.as_chunks::<8>() else { return Err(bad_vote(from)) };
                    let [lost, round] = numbers else { return Err(bad_vote(from)) };
                    let lost = Rank::new(u64::from_le_bytes(*lost) as u32);
                    self.votes.insert((lost, from), u64::from_le_bytes(*round));
                }
                Err(error) => match receive_failure(error) {
                    // Neither a peer that has left nor a lost one sends anything any more.
                    Some(Error::Lost(loss)) if loss.rank == from && loss.cause == LossCause::Left => {
                        return Err(loss.into());
                    }
                    Some(Error::Lost(loss)) => {
                        // The loss would end every wait until the peer is excluded.
                        self.cluster.exclude(loss.rank);
                        due.push_back(loss.rank);
                        if loss.rank == from {
                            return Ok(None);
                        }
                    }
                    Some(error) => return Err(error),
                    None => {}
                },
            }
            if peer_handle.env().now() - start >= peer_handle.wait_timeout() {
                return Err(peer_handle.timed_out(&format_args!("{reason} from peer {from}"), ""));
            }
        }
    }
}

fn bad_vote(from: Rank) -> Error {
    let problem = "it is not a vote about a lost peer".to_owned();
    protocol_error(hemiola_collective_proto::Error::InvalidMessage { from, problem })
}
