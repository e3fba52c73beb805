//! The barrier between push and reduce, for those who wait for everybody.
//!
//! The first of those who are left hears of every arrival and lets all go. It is not the cluster's barrier, because that counts calls: when a peer is
//! lost, some have passed and some have not. Here a message names the round, and whoever has come to a later one has come to this one, too.
//! So it can be tried again, with another first peer, until it works.
//!
//! It says that all have *sent*, not that everything has come: it travels on another lane, and values may still be under way. That is what a barrier is in the paper (section 4: no
//! guarantee that receivers have the values when they reduce), which this is here to be compared with. Whoever wants all values of a round takes NOTIFY-ACK.

use super::{LOOK_AROUND, Mixing};
use crate::error::{not_received, refused};
use hemiola_cluster::{Error, Reason, Result};
use hemiola_collective_proto::mix::Mixed;
use hemiola_core::{Lane, Outgoing, Payload, PeerLost, Purpose, Rank, Waiter};
use std::panic::Location;

impl<T: Mixed> Mixing<T> {
    /// Returns when everybody who is left has pushed this round.
    pub(super) fn barrier(&mut self, site: &'static Location<'static>) -> Result<()> {
        // One more than the last round pushed, so that 0 is "none".
        let rounds = self.next_round();
        while let Err(loss) = self.try_barrier(rounds, site)? {
            self.outlive(loss, site)?;
        }
        Ok(())
    }

    /// One attempt. The inner error is a loss that may be outlived.
    fn try_barrier(&mut self, rounds: u64, site: &'static Location<'static>) -> Result<Result<(), PeerLost>> {
        let me = self.link.rank();
        let left: Vec<Rank> = Rank::all(self.cluster.size()).filter(|rank| !self.tally.lost.contains(rank)).collect();
        let first = left[0];
        let awaited = if me == first { &left[1..] } else { &left[..1] };
        if me != first
            && let Err(loss) = self.announce(first, rounds)?
        {
            return Ok(Err(loss));
        }
        for &from in awaited {
            if let Err(loss) = self.hear(from, rounds, site)? {
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
        match self.link.send(to, Outgoing { lane, channel, purpose, payload }) {
            Ok(()) => Ok(Ok(())),
            Err(Error::Lost(loss)) => Ok(Err(loss)),
            Err(error) => Err(error),
        }
    }

    /// Waits until a peer has announced so many rounds.
    fn hear(&mut self, from: Rank, rounds: u64, site: &'static Location<'static>) -> Result<Result<(), PeerLost>> {
        let reason = Reason { what: "the barrier of a round", number: Some(rounds - 1), site: Some(site) };
        let link = self.link.clone();
        let _waiting = link.waiting(Waiter::Driver, reason, Some(from));
        let start = link.env().now();
        while self.heard.get(&from).is_none_or(|heard| *heard < rounds) {
            match self.boxes.barriers.receive_from(from, LOOK_AROUND) {
                Ok(message) => {
                    let bytes = message.payload.first_chunk().copied().ok_or_else(|| {
                        let problem = "it names no round".to_owned();
                        refused(hemiola_collective_proto::Error::BadMessage { from, problem })
                    })?;
                    self.heard.insert(from, u64::from_le_bytes(bytes));
                }
                Err(error) => match not_received(error) {
                    Some(Error::Lost(loss)) => return Ok(Err(loss)),
                    Some(error) => return Err(error),
                    None => {}
                },
            }
            if link.env().now() - start >= link.patience() {
                return Err(link.timed_out(&format_args!("{reason} from peer {from}"), ""));
            }
        }
        Ok(Ok(()))
    }
}
