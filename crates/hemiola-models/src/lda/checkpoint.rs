//! Checkpoints of LDA: the model, and the topics of all tokens.
//!
//! The model is stored like any saved model, and can be used at any time. Beside it, for every
//! partition, are the topics of its tokens in the order of cells. With the same number of
//! partitions every token is found again, on any number of peers.

use super::LdaModel;
use super::partition::TokenTopics;
use super::state::{LdaState, malformed_message};
use crate::training::Checkpointable;
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{Purpose, Rank};
use std::sync::Arc;

/// Snapshot of training: the live state, or a loaded checkpoint.
#[derive(Clone, Debug)]
pub(super) enum LdaSnapshot {
    /// Nothing yet, with an upper bound of the size on disk.
    Empty(u64),
    /// Live state of this run.
    Live(Cluster, Arc<LdaState>),
    /// Checkpoint of another run.
    Loaded(LdaCheckpoint),
}

/// Checkpoint as loaded from disk.
#[derive(Clone, Debug)]
pub(super) struct LdaCheckpoint {
    pub(super) model: LdaModel,
    assigned: Vec<StoredTopics>,
}

/// Topics of the tokens of a partition, which one peer has loaded.
#[derive(Clone, Debug)]
struct StoredTopics {
    count: usize,
    holder: Rank,
    /// Empty at the other peers.
    topics: TokenTopics,
}

/// Returns whether topics take 16 bits on disk.
fn narrow(topics: usize) -> bool {
    topics <= 1 << 16
}

fn name(prefix: &str, part: usize) -> String {
    format!("{prefix}assignments.{part}")
}

/// *Collective.* Saves the topics of a partition, which the peer `owner` has.
fn put_topics(
    save: &mut ArraySaver,
    owner: Rank,
    name: &str,
    count: usize,
    topics: Option<&TokenTopics>,
    narrow: bool,
) -> Result<()> {
    let topics = topics.into_iter().flat_map(|topics| (0..topics.len()).map(|token| topics.get(token)));
    if narrow {
        save.put_values_of(owner, name, [count], &topics.map(|topic| topic as u16).collect::<Vec<_>>())
    } else {
        save.put_values_of(owner, name, [count], &topics.map(|topic| topic as u32).collect::<Vec<_>>())
    }
}

impl Checkpointable for LdaSnapshot {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let (cluster, state) = match self {
            Self::Empty(_) => return Ok(()),
            Self::Loaded(loaded) => {
                loaded.model.put(save, prefix)?;
                let narrow = narrow(loaded.model.topics());
                for (part, StoredTopics { count, holder, topics }) in loaded.assigned.iter().enumerate() {
                    put_topics(save, *holder, &name(prefix, part), *count, Some(topics), narrow)?;
                }
                return Ok(());
            }
            Self::Live(cluster, state) => (cluster, state),
        };
        state.model(cluster)?.put(save, prefix)?;
        let narrow = narrow(state.layout.topics);
        for number in 0..state.layout.parts {
            let owner = state.owner(number);
            let topics = state.parts.iter().find(|part| part.number == number).map(|part| &part.topics);
            let count = cluster.broadcast_from(owner, topics.map_or(0, TokenTopics::len))?;
            put_topics(save, owner, &name(prefix, number), count, topics, narrow)?;
        }
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let model = LdaModel::get(load, prefix)?;
        let mut assigned = Vec::new();
        while load.names().any(|found| found == name(prefix, assigned.len())) {
            let name = name(prefix, assigned.len());
            // Partitions are spread over the peers, so that no file is read twice.
            let holder = Rank::new((assigned.len() % load.cluster().size()) as u32);
            let (count, topics) = if narrow(model.topics()) {
                let saved = load.values_of::<u16, 1>(holder, &name)?;
                (saved.extents[0], TokenTopics::Narrow(saved.values))
            } else {
                let saved = load.values_of::<u32, 1>(holder, &name)?;
                (saved.extents[0], TokenTopics::Wide(saved.values))
            };
            assigned.push(StoredTopics { count, holder, topics });
        }
        if assigned.is_empty() {
            let problem = "it has no topics of tokens: it was saved for inference, not for training".to_owned();
            return Err(crate::Error::InvalidSave { problem }.into());
        }
        Ok(Self::Loaded(LdaCheckpoint { model, assigned }))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Empty(bytes) => *bytes,
            Self::Loaded(loaded) => loaded.model.bytes(),
            Self::Live(_, state) => state.layout.tokens * if narrow(state.layout.topics) { 2 } else { 4 },
        }
    }
}

impl LdaCheckpoint {
    /// *Collective.* Restores the topics of the tokens of `state`, which has as many partitions,
    /// and recounts.
    pub(super) fn restore(&self, cluster: &Cluster, state: &mut LdaState) -> Result<()> {
        let mismatch =
            || crate::Error::InvalidSave { problem: "its tokens differ from those of the documents".to_owned() };
        if self.assigned.len() != state.layout.parts || self.model.topics() != state.layout.topics {
            return Err(mismatch().into());
        }
        for (number, StoredTopics { count, holder, topics }) in self.assigned.iter().enumerate() {
            let owner = state.owner(number);
            let received = if *holder == owner { None } else { Some(send_topics(cluster, *holder, owner, topics)?) };
            let mine = state.parts.iter_mut().find(|part| part.number == number);
            let sound = mine.is_none_or(|part| {
                let topics = received.as_ref().unwrap_or(topics);
                let sound = part.topics.len() == *count
                    && topics.len() == *count
                    && (0..*count).all(|token| topics.get(token) < self.model.topics());
                if sound {
                    (0..*count).for_each(|token| part.topics.set(token, topics.get(token)));
                }
                sound
            });
            if cluster.all_gather(sound)?.contains(&false) {
                return Err(mismatch().into());
            }
        }
        state.alpha = self.model.alpha().to_vec();
        state.beta = self.model.beta();
        state.count(cluster)
    }
}

/// *Collective.* Sends the topics of a partition from one peer to another, and returns what this
/// peer has received.
fn send_topics(cluster: &Cluster, holder: Rank, owner: Rank, topics: &TokenTopics) -> Result<TokenTopics> {
    let mut outgoing = vec![Vec::new(); cluster.size()];
    outgoing[owner.index()] =
        (0..topics.len()).flat_map(|token| (topics.get(token) as u32).to_le_bytes()).collect::<Vec<u8>>();
    let outgoing = outgoing.into_iter().map(Into::into).collect();
    let received = cluster.all_to_all(outgoing, Purpose::Shuffle)?.into_iter().nth(holder.index());
    let bytes = received.ok_or_else(malformed_message)?;
    let (topics, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(malformed_message().into());
    }
    Ok(TokenTopics::Wide(topics.iter().map(|topic| u32::from_le_bytes(*topic)).collect()))
}
