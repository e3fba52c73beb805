//! Going on without a lost peer, together with all who are left.

use super::{LOOK_AROUND, Mixing, OnLoss};
use crate::error::{not_received, refused};
use hemiola_cluster::{Error, Reason, Result};
use hemiola_collective_proto::mix::Mixed;
use hemiola_core::{Lane, LossCause, Outgoing, Payload, PeerLost, Purpose, Rank, Waiter};
use std::collections::VecDeque;
use std::panic::Location;

impl<T: Mixed> Mixing<T> {
    /// Deals with losses that nobody has waited on.
    pub(super) fn notice_losses(&mut self, site: &'static Location<'static>) -> Result<()> {
        while let Some(loss) = self.link.failure() {
            self.outlive(loss, site)?;
        }
        Ok(())
    }

    /// Goes on without a lost peer, or fails with its loss.
    pub(super) fn outlive(&mut self, loss: PeerLost, site: &'static Location<'static>) -> Result<()> {
        if self.on_loss == OnLoss::Fail || loss.rank == self.link.rank() || loss.cause == LossCause::Left {
            return Err(loss.into());
        }
        let mut due = VecDeque::from([loss.rank]);
        while let Some(gone) = due.pop_front() {
            if self.tally.lost.contains(&gone) {
                continue;
            }
            self.cluster.forgive(gone);
            self.tally.lost.push(gone);
            let round = self.agree(gone, &mut due, site)?;
            self.mixer.lock().lose(gone, round).map_err(refused)?;
        }
        Ok(())
    }

    /// The first round without a peer: tells all who are left which one comes next here, and hears the same from them. Whoever is lost meanwhile
    /// is added to those that are `due`.
    fn agree(&mut self, gone: Rank, due: &mut VecDeque<Rank>, site: &'static Location<'static>) -> Result<u64> {
        let next = self.next_round();
        let left = |other: &Rank| *other != self.link.rank() && !self.tally.lost.contains(other);
        let others: Vec<Rank> = Rank::all(self.cluster.size()).filter(left).collect();
        for &to in &others {
            let word = [u64::from(gone.number()), next].map(u64::to_le_bytes).concat();
            let (lane, channel, purpose) = (Lane::Control, self.channels[2], Purpose::Mixing);
            match self.link.send(to, Outgoing { lane, channel, purpose, payload: Payload::from(word) }) {
                Err(Error::Lost(_)) => due.push_back(to),
                other => other?,
            }
        }
        let mut round = next;
        for from in others {
            if let Some(theirs) = self.word_of(from, gone, due, site)? {
                round = round.max(theirs);
            }
        }
        Ok(round)
    }

    /// Which round another peer comes to next; nothing if it is lost as well.
    fn word_of(
        &mut self,
        from: Rank,
        gone: Rank,
        due: &mut VecDeque<Rank>,
        site: &'static Location<'static>,
    ) -> Result<Option<u64>> {
        let reason = Reason { what: "word of who is left", number: None, site: Some(site) };
        let link = self.link.clone();
        let _waiting = link.waiting(Waiter::Driver, reason, Some(from));
        let start = link.env().now();
        loop {
            if let Some(round) = self.words.remove(&(gone, from)) {
                return Ok(Some(round));
            }
            match self.boxes.words.receive_from(from, LOOK_AROUND) {
                Ok(message) => {
                    let (numbers, []) = message.payload.as_chunks::<8>() else { return Err(bad_word(from)) };
                    let [lost, round] = numbers else { return Err(bad_word(from)) };
                    let lost = Rank::new(u64::from_le_bytes(*lost) as u32);
                    self.words.insert((lost, from), u64::from_le_bytes(*round));
                }
                Err(error) => match not_received(error) {
                    // One that has left as well as one that is lost will not say anything any more.
                    Some(Error::Lost(loss)) if loss.rank == from && loss.cause == LossCause::Left => {
                        return Err(loss.into());
                    }
                    Some(Error::Lost(loss)) => {
                        // It would end every wait until it is forgiven.
                        self.cluster.forgive(loss.rank);
                        due.push_back(loss.rank);
                        if loss.rank == from {
                            return Ok(None);
                        }
                    }
                    Some(error) => return Err(error),
                    None => {}
                },
            }
            if link.env().now() - start >= link.patience() {
                return Err(link.timed_out(&format_args!("{reason} from peer {from}"), ""));
            }
        }
    }
}

fn bad_word(from: Rank) -> Error {
    let problem = "it is no word about a loss".to_owned();
    refused(hemiola_collective_proto::Error::BadMessage { from, problem })
}
