//! Checkpoints of LDA: the model, and the topics of all tokens.
//!
//! The model is stored like any saved model, and can be used at any time. Beside it, for every
//! partition, are the topics of its tokens in the order of cells. With the same number of
//! partitions every token is found again, on any number of peers.

use super::LdaModel;
use super::partition::{DocumentPartition, TokenTopics};
use super::state::{LdaState, malformed_message};
use crate::training::Checkpointable;
use hemiola_array::ArrayExt;
use hemiola_array::DistArray;
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Purpose;
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

/// Topics of the tokens of a partition.
#[derive(Clone, Debug)]
enum StoredTopics {
    Narrow(DistArray<u16, 1>),
    Wide(DistArray<u32, 1>),
}

/// Returns whether topics take 16 bits on disk.
fn narrow(topics: usize) -> bool {
    topics <= 1 << 16
}

fn name(prefix: &str, part: usize) -> String {
    format!("{prefix}assignments.{part}")
}

impl Checkpointable for LdaSnapshot {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let (cluster, state) = match self {
            Self::Empty(_) => return Ok(()),
            Self::Loaded(loaded) => {
                loaded.model.put(save, prefix)?;
                for (part, assigned) in loaded.assigned.iter().enumerate() {
                    match assigned {
                        StoredTopics::Narrow(topics) => save.put(&name(prefix, part), topics)?,
                        StoredTopics::Wide(topics) => save.put(&name(prefix, part), topics)?,
                    }
                }
                return Ok(());
            }
            Self::Live(cluster, state) => (cluster, state),
        };
        state.model(cluster)?.put(save, prefix)?;
        for number in 0..state.layout.parts {
            let mine = state.parts.iter().find(|part| part.number == number);
            let count = cluster.broadcast_from(state.owner(number), mine.map_or(0, |part| part.topics.len()))?;
            // Arrays are partitioned evenly, unlike token partitions: every peer holds the whole
            // partition for a moment.
            let sent: Vec<u32> = if cluster.size() > 1 {
                let mine = mine.map(|part| (0..part.topics.len()).map(|token| part.topics.get(token) as u32).collect());
                cluster.broadcast_from(state.owner(number), mine.unwrap_or_default())?
            } else {
                Vec::new()
            };
            let topic = |token: usize| match mine {
                Some(part) => part.topics.get(token),
                None => sent[token] as usize,
            };
            if narrow(state.layout.topics) {
                save.put(&name(prefix, number), &cluster.from_fn([count], |[at]| topic(at) as u16)?)?;
            } else {
                save.put(&name(prefix, number), &cluster.from_fn([count], |[at]| topic(at) as u32)?)?;
            }
        }
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let model = LdaModel::get(load, prefix)?;
        let mut assigned = Vec::new();
        while load.names().any(|found| found == name(prefix, assigned.len())) {
            let name = name(prefix, assigned.len());
            assigned.push(if narrow(model.topics()) {
                StoredTopics::Narrow(load.get(&name)?)
            } else {
                StoredTopics::Wide(load.get(&name)?)
            });
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
        for (number, assigned) in self.assigned.iter().enumerate() {
            let owner = state.owner(number);
            let (mut bytes, mut set) = (Vec::new(), 0);
            let mut mine = state.parts.iter_mut().find(|part| part.number == number);
            let mut take = |at: usize, topic: u32| match &mut mine {
                Some(part) => set += usize::from(put(part, at, topic, self.model.topics())),
                None => bytes.extend((at as u32).to_le_bytes().into_iter().chain(topic.to_le_bytes())),
            };
            let count = match assigned {
                StoredTopics::Narrow(topics) => {
                    topics.for_each(|[at], topic| take(at, u32::from(*topic)));
                    topics.len()
                }
                StoredTopics::Wide(topics) => {
                    topics.for_each(|[at], topic| take(at, *topic));
                    topics.len()
                }
            };
            if cluster.size() > 1 {
                let mut outgoing = vec![Vec::new(); cluster.size()];
                outgoing[owner.index()] = bytes;
                let outgoing = outgoing.into_iter().map(Into::into).collect();
                for bytes in cluster.all_to_all(outgoing, Purpose::Shuffle)? {
                    let Some(part) = &mut mine else { continue };
                    let (pairs, rest) = bytes.as_chunks::<8>();
                    if !rest.is_empty() {
                        return Err(malformed_message().into());
                    }
                    for [a, b, c, d, e, f, g, h] in pairs {
                        let (at, topic) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
                        set += usize::from(put(part, at as usize, topic, self.model.topics()));
                    }
                }
            }
            let tokens = mine.map_or(0, |part| part.topics.len());
            let sound = owner != cluster.rank() || set == count && tokens == count;
            if cluster.all_gather(sound)?.contains(&false) {
                return Err(mismatch().into());
            }
        }
        state.alpha = self.model.alpha().to_vec();
        state.beta = self.model.beta();
        state.count(cluster)
    }
}

/// Sets the topic of a token; returns false if token or topic is out of range.
fn put(part: &mut DocumentPartition, at: usize, topic: u32, topics: usize) -> bool {
    let sound = at < part.topics.len() && (topic as usize) < topics;
    if sound {
        match &mut part.topics {
            TokenTopics::Narrow(kept) => kept[at] = topic as u16,
            TokenTopics::Wide(kept) => kept[at] = topic,
        }
    }
    sound
}
