//! A training on disk: the model, and the topics of all tokens.
//!
//! The model lies where any saved model lies, and can be used at any time. Beside it there is, for every part, the topics of its tokens in the order of cells; with the same number of parts every
//! token is found again, however many peers there are.

use super::TopicModel;
use super::part::{Part, Topics};
use super::state::{State, nonsense};
use crate::training::Keep;
use hemiola::array::DistArray;
use hemiola::array::dist::{Load, Save};
use hemiola::core::Purpose;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::sync::Arc;

/// What training keeps: where it is, or what was loaded to go on from.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    /// Nothing yet; how many bytes it will take on disk, at most.
    Nothing(u64),
    /// Where it is.
    Here(Cluster, Arc<State>),
    /// What another one had come to.
    Loaded(Loaded),
}

/// A training that was loaded.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) model: TopicModel,
    assigned: Vec<Assigned>,
}

/// Topics of the tokens of a part.
#[derive(Clone, Debug)]
enum Assigned {
    Narrow(DistArray<u16, 1>),
    Wide(DistArray<u32, 1>),
}

/// Whether topics take 16 bits on disk.
fn narrow(topics: usize) -> bool {
    topics <= 1 << 16
}

fn name(prefix: &str, part: usize) -> String {
    format!("{prefix}assignments.{part}")
}

impl Keep for Kept {
    fn put(&self, save: &mut Save, prefix: &str) -> Result<()> {
        let (cluster, state) = match self {
            Self::Nothing(_) => return Ok(()),
            Self::Loaded(loaded) => {
                loaded.model.put(save, prefix)?;
                for (part, assigned) in loaded.assigned.iter().enumerate() {
                    match assigned {
                        Assigned::Narrow(topics) => save.put(&name(prefix, part), topics)?,
                        Assigned::Wide(topics) => save.put(&name(prefix, part), topics)?,
                    }
                }
                return Ok(());
            }
            Self::Here(cluster, state) => (cluster, state),
        };
        state.model(cluster)?.put(save, prefix)?;
        for number in 0..state.layout.parts {
            let mine = state.parts.iter().find(|part| part.number == number);
            let count = cluster.broadcast_from(state.owner(number), mine.map_or(0, |part| part.topics.len() as u64))?;
            // Arrays are divided evenly, parts are not: everybody gets all of it for a moment.
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
                save.put(&name(prefix, number), &cluster.from_fn([count], |[at]| topic(at as usize) as u16)?)?;
            } else {
                save.put(&name(prefix, number), &cluster.from_fn([count], |[at]| topic(at as usize) as u32)?)?;
            }
        }
        Ok(())
    }

    fn get(load: &Load, prefix: &str) -> Result<Self> {
        let model = TopicModel::get(load, prefix)?;
        let mut assigned = Vec::new();
        while load.names().any(|found| found == name(prefix, assigned.len())) {
            let name = name(prefix, assigned.len());
            assigned.push(if narrow(model.topics()) {
                Assigned::Narrow(load.get(&name)?)
            } else {
                Assigned::Wide(load.get(&name)?)
            });
        }
        if assigned.is_empty() {
            let problem = "it has no topics of tokens: it was saved to be used, not to be trained".to_owned();
            return Err(crate::Error::NotThisModel { problem }.into());
        }
        Ok(Self::Loaded(Loaded { model, assigned }))
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Nothing(bytes) => *bytes,
            Self::Loaded(loaded) => loaded.model.bytes(),
            Self::Here(_, state) => state.layout.tokens * if narrow(state.layout.topics) { 2 } else { 4 },
        }
    }
}

impl Loaded {
    /// *Collective.* Gives the tokens of `state`, which has as many parts, their topics, and counts.
    pub(super) fn restore(&self, cluster: &Cluster, state: &mut State) -> Result<()> {
        let torn = || crate::Error::NotThisModel { problem: "it has other tokens than the documents".to_owned() };
        if self.assigned.len() != state.layout.parts || self.model.topics() != state.layout.topics {
            return Err(torn().into());
        }
        for (number, assigned) in self.assigned.iter().enumerate() {
            let owner = state.owner(number);
            let (mut bytes, mut set) = (Vec::new(), 0);
            let mut mine = state.parts.iter_mut().find(|part| part.number == number);
            let mut take = |at: u64, topic: u32| match &mut mine {
                Some(part) => set += u64::from(put(part, at, topic, self.model.topics())),
                None => bytes.extend((at as u32).to_le_bytes().into_iter().chain(topic.to_le_bytes())),
            };
            let count = match assigned {
                Assigned::Narrow(topics) => {
                    topics.for_each(|[at], topic| take(at, u32::from(*topic)));
                    topics.len()
                }
                Assigned::Wide(topics) => {
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
                        return Err(nonsense().into());
                    }
                    for [a, b, c, d, e, f, g, h] in pairs {
                        let (at, topic) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]));
                        set += u64::from(put(part, u64::from(at), topic, self.model.topics()));
                    }
                }
            }
            let tokens = mine.map_or(0, |part| part.topics.len() as u64);
            let sound = owner != cluster.rank() || set == count && tokens == count;
            if cluster.all_gather(sound)?.contains(&false) {
                return Err(torn().into());
            }
        }
        state.alpha = self.model.alpha().to_vec();
        state.beta = self.model.beta();
        state.count(cluster)
    }
}

/// Sets the topic of a token, if there is one and it is one.
fn put(part: &mut Part, at: u64, topic: u32, topics: usize) -> bool {
    let sound = (at as usize) < part.topics.len() && (topic as usize) < topics;
    if sound {
        match &mut part.topics {
            Topics::Narrow(kept) => kept[at as usize] = topic as u16,
            Topics::Wide(kept) => kept[at as usize] = topic,
        }
    }
    sound
}
