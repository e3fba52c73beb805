//! What peers tell each other of a round: the results on their rows, or that they failed.
//!
//! Every peer sends its results to every other as soon as it has them and takes in those of the others when it needs them: between both, later rounds run. Each link
//! keeps order, so no round has to be looked for.

use crate::error::Error;
use hemiola_cluster::{Cluster, Mailbox, Reason, Result};
use hemiola_core::{ChannelId, Lane, Outgoing, Payload, Purpose, Rank, Waiter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::hash::Hasher as _;

/// Top byte of the channels that belong to schedules.
pub(crate) const OWNER: u8 = 8;

#[derive(Serialize, Deserialize)]
enum Word<R> {
    Results { round: u64, digest: u64, results: R },
    Failed { round: u64, reason: String },
}

/// Where the peers of a schedule meet.
pub(crate) struct Meet<'c> {
    cluster: &'c Cluster,
    channel: ChannelId,
    mailbox: Mailbox,
}

impl<'c> Meet<'c> {
    /// *Collective.* `None` if there is nobody to meet. Refuses peers that run with other `settings`.
    pub(crate) fn new(cluster: &'c Cluster, settings: &str) -> Result<Option<Self>> {
        if cluster.size() == 1 {
            return Ok(None);
        }
        let channel = cluster.next_channel(OWNER);
        let mailbox = cluster.open(channel, Lane::Bulk);
        // Nobody sends before all have opened: the gather is over only then.
        let all = cluster.all_gather(settings.to_owned())?;
        if let Some(other) = all.iter().position(|there| *there != all[0]) {
            let (here, there) = (all[0].clone(), all[other].clone());
            return Err(Error::Differs { rank: Rank::new(other as u32), here, there }.into());
        }
        Ok(Some(Self { cluster, channel, mailbox }))
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let own = self.cluster.rank();
        (0..self.cluster.size() as u32).map(Rank::new).filter(move |rank| *rank != own)
    }

    fn say<R: Serialize>(&self, word: &Word<R>) -> Result<()> {
        let bytes: Payload = encoded(word)?.into();
        for to in self.others() {
            let (lane, channel, purpose) = (Lane::Bulk, self.channel, Purpose::Schedule);
            self.cluster.send(to, Outgoing { lane, channel, purpose, payload: bytes.clone() })?;
        }
        Ok(())
    }

    /// Tells all others what came of a round here.
    pub(crate) fn tell<J: Serialize, P: Serialize>(&self, round: u64, jobs: &[J], results: &[P]) -> Result<()> {
        self.say(&Word::Results { round, digest: digest(jobs)?, results })
    }

    /// Tells all others that it is over here, so that they need not wait for the deadline. The job fails whether they hear it or not.
    pub(crate) fn tell_failure(&self, round: u64, error: &hemiola_cluster::Error) {
        let _ = self.say(&Word::<()>::Failed { round, reason: error.to_string() });
    }

    /// Waits for what came of a round on all peers, in the order of ranks; `own` is what came of it here.
    pub(crate) fn hear<J: Serialize, P: DeserializeOwned>(
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
            let reason = Reason { what: "results of round", number: Some(round), site: None };
            let message = self.cluster.receive(&self.mailbox, rank, Waiter::Driver, reason)?;
            let nonsense = |reason: String| Error::Nonsense { round, rank, reason };
            let word: Word<Vec<P>> =
                postcard::from_bytes(&message.payload).map_err(|error| nonsense(error.to_string()))?;
            match word {
                Word::Failed { round, reason } => return Err(Error::Elsewhere { round, rank, reason }.into()),
                Word::Results { digest, .. } if digest != expected => {
                    return Err(Error::Diverged { round, here: self.cluster.rank(), rank }.into());
                }
                Word::Results { round: of, results, .. } if of != round || results.len() != count => {
                    return Err(nonsense(format!("{} results of round {of} for {count} jobs", results.len())).into());
                }
                Word::Results { results, .. } => all.push(results),
            }
        }
        Ok(all)
    }
}

/// A number by which peers compare the jobs of a round.
fn digest<J: Serialize>(jobs: &[J]) -> Result<u64> {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(&encoded(jobs)?);
    Ok(hasher.finish())
}

pub(crate) fn encoded<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| hemiola_cluster::Error::Value {
        action: "send",
        type_name: std::any::type_name::<T>(),
        reason: error.to_string(),
    })
}
