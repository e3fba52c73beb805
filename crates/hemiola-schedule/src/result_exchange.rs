//! Messages between peers about a round: results on their rows, or a failure.
//!
//! Every peer sends its results to all others as soon as it has them, and receives theirs when it
//! aggregates the round. Later rounds run in between. Each link preserves order, so messages need
//! no reordering.

use crate::error::Error;
use hemiola_cluster::{ChannelReceiver, Cluster, Result, WaitReason};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Payload, Purpose, Rank, Waiter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::hash::Hasher as _;

#[derive(Serialize, Deserialize)]
enum RoundMessage<R> {
    Results { round: u64, digest: u64, results: R },
    Failed { round: u64, reason: String },
}

/// Exchange of round results among the peers of a schedule.
pub(crate) struct ResultExchange<'c> {
    cluster: &'c Cluster,
    channel: ChannelId,
    receiver: ChannelReceiver,
}

impl<'c> ResultExchange<'c> {
    /// *Collective.* Opens the channel. `None` on a single peer. Rejects peers with other
    /// `settings`.
    pub(crate) fn new(cluster: &'c Cluster, settings: &str) -> Result<Option<Self>> {
        if cluster.size() == 1 {
            return Ok(None);
        }
        let channel = cluster.next_channel(ChannelOwner::Schedules);
        let receiver = cluster.open_channel(channel, Lane::Bulk);
        // No peer sends before all have opened the channel: the gather completes only then.
        let all = cluster.all_gather(settings.to_owned())?;
        if let Some(other) = all.iter().position(|there| *there != all[0]) {
            let (here, there) = (all[0].clone(), all[other].clone());
            return Err(Error::SettingsMismatch { rank: Rank::new(other as u32), here, there }.into());
        }
        Ok(Some(Self { cluster, channel, receiver }))
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let own = self.cluster.rank();
        (0..self.cluster.size() as u32).map(Rank::new).filter(move |rank| *rank != own)
    }

    fn broadcast<R: Serialize>(&self, message: &RoundMessage<R>) -> Result<()> {
        let bytes: Payload = encode(message)?.into();
        for to in self.others() {
            let (lane, channel, purpose) = (Lane::Bulk, self.channel, Purpose::Schedule);
            self.cluster.send(to, OutgoingMessage { lane, channel, purpose, payload: bytes.clone() })?;
        }
        Ok(())
    }

    /// Sends the results of this peer for a round to all others.
    pub(crate) fn send_results<J: Serialize, P: Serialize>(&self, round: u64, jobs: &[J], results: &[P]) -> Result<()> {
        self.broadcast(&RoundMessage::Results { round, digest: digest(jobs)?, results })
    }

    /// Reports a failure to all others, so that they do not wait for the deadline. Errors are
    /// ignored: the run fails in any case.
    pub(crate) fn send_failure(&self, round: u64, error: &hemiola_cluster::Error) {
        let _ = self.broadcast(&RoundMessage::<()>::Failed { round, reason: error.to_string() });
    }

    /// Waits for the results of a round from all peers, in the order of ranks; `own` are those of
    /// this peer.
    pub(crate) fn receive_results<J: Serialize, P: DeserializeOwned>(
        &self,
        round: u64,
        jobs: &[J],
        own: Vec<P>,
    ) -> Result<Vec<Vec<P>>> {
        let (count, expected) = (jobs.len(), digest(jobs)?);
        let mut all = Vec::with_capacity(self.cluster.size());
        let mut own = Some(own);
        for rank in (0..self.cluster.size() as u32).map(Rank::new) {
            if rank == self.cluster.rank() {
                all.extend(own.take());
                continue;
            }
            let reason = WaitReason { operation: "results of round", number: Some(round), site: None };
            let message = self.cluster.receive(&self.receiver, rank, Waiter::Driver, reason)?;
            let invalid = |reason: String| Error::InvalidMessage { round, rank, reason };
            let message: RoundMessage<Vec<P>> =
                postcard::from_bytes(&message.payload).map_err(|error| invalid(error.to_string()))?;
            match message {
                RoundMessage::Failed { round, reason } => return Err(Error::PeerFailed { round, rank, reason }.into()),
                RoundMessage::Results { digest, .. } if digest != expected => {
                    return Err(Error::ScheduleDiverged { round, here: self.cluster.rank(), rank }.into());
                }
                RoundMessage::Results { round: of, results, .. } if of != round || results.len() != count => {
                    return Err(invalid(format!("{} results of round {of} for {count} jobs", results.len())).into());
                }
                RoundMessage::Results { results, .. } => all.push(results),
            }
        }
        Ok(all)
    }
}

/// Hash by which peers compare the jobs of a round.
fn digest<J: Serialize>(jobs: &[J]) -> Result<u64> {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(&encode(jobs)?);
    Ok(hasher.finish())
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| hemiola_cluster::Error::Value {
        action: "send",
        type_name: std::any::type_name::<T>(),
        reason: error.to_string(),
    })
}
