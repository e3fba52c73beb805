//! Where training is: topics of all tokens of this peer's parts, the words that are here, and the priors.
//!
//! **Invariant:** between passes the block with the number of a part is where that part is, and totals are those of all peers. Topics, priors and the number of passes are all that the next pass depends on:
//! counts follow from topics.

use super::block::Block;
use super::counts::Form;
use super::layout::Layout;
use super::likelihood::{Terms, of_totals};
use super::part::{Part, parts};
use super::priors::Statistics;
use super::rows::WordTopics;
use super::{Corpus, TopicModel, Vocabulary};
use crate::Error;
use hemiola::core::Rank;
use hemiola::{Cluster, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// What a training has come to.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) layout: Arc<Layout>,
    pub(super) vocabulary: Arc<Vocabulary>,
    /// Those of this peer, in their order.
    pub(super) parts: Vec<Part>,
    /// By number; those that are here.
    pub(super) blocks: Vec<Option<Block>>,
    pub(super) totals: Vec<i32>,
    pub(super) alpha: Vec<f64>,
    pub(super) beta: f64,
    pub(super) seed: u64,
    /// How many were made.
    pub(super) passes: u64,
}

impl State {
    /// *Collective.* Documents and words in their places; tokens have no topics yet, and nothing is counted.
    pub(super) fn new(
        cluster: &Cluster,
        corpus: &Corpus,
        layout: Arc<Layout>,
        form: Form,
        (alpha, beta, seed): (Vec<f64>, f64, u64),
    ) -> Result<Self> {
        let parts = parts(cluster, corpus, &layout, form)?;
        let (blocks, totals) = (vec![None; layout.parts], vec![0; layout.topics]);
        let vocabulary = corpus.vocabulary().clone();
        Ok(Self { layout, vocabulary, parts, blocks, totals, alpha, beta, seed, passes: 0 })
    }

    /// *Collective.* Gives all tokens random topics, and counts.
    pub(super) fn scatter(&mut self, cluster: &Cluster) -> Result<()> {
        let (seed, topics) = (self.seed, self.layout.topics);
        let parts: Vec<Mutex<&mut Part>> = self.parts.iter_mut().map(Mutex::new).collect();
        cluster.each_worker(|worker| {
            for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                part.lock().unwrap_or_else(PoisonError::into_inner).scatter(seed, topics);
            }
        })?;
        self.count(cluster)
    }

    /// *Collective.* Makes all counts from the topics of tokens.
    pub(super) fn count(&mut self, cluster: &Cluster) -> Result<()> {
        let layout = self.layout.clone();
        let parts: Vec<Mutex<&mut Part>> = self.parts.iter_mut().map(Mutex::new).collect();
        cluster.each_worker(|worker| {
            for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                part.lock().unwrap_or_else(PoisonError::into_inner).count_documents();
            }
        })?;
        self.totals.fill(0);
        for number in 0..layout.parts {
            // Each peer counts what its parts have of the block; whose it is adds them up.
            let mut block = Block::new(&layout, number);
            self.parts.iter().for_each(|part| part.count_words(number, &mut block, &mut self.totals));
            let owner = layout.owner(number);
            if cluster.size() > 1 {
                let mine = if owner == cluster.rank() { Vec::new() } else { block.pack() };
                let others = cluster.all_gather(mine)?;
                for bytes in others.iter().filter(|bytes| owner == cluster.rank() && !bytes.is_empty()) {
                    let other = Block::new(&layout, number).unpack(bytes).ok_or_else(nonsense)?;
                    for word in 0..block.words() {
                        other.each(word, |topic, count| (0..count).for_each(|_| block.add(word, topic)));
                    }
                }
            }
            self.blocks[number] = (owner == cluster.rank()).then_some(block);
        }
        if cluster.size() > 1 {
            let all = cluster.all_gather(std::mem::take(&mut self.totals))?;
            self.totals = (0..layout.topics).map(|topic| all.iter().map(|totals| totals[topic]).sum()).collect();
        }
        Ok(())
    }

    /// *Collective.* The joint log-likelihood of words and topics, per token.
    pub(super) fn likelihood(&self, cluster: &Cluster) -> Result<f64> {
        let terms = &Terms::new(&self.alpha, self.beta);
        let first = self.layout.parts_of(cluster.rank()).start;
        let sums = cluster.each_worker(|worker| {
            let mine = (0..self.parts.len()).skip(worker.index()).step_by(worker.count());
            let both = |at: usize| {
                let block = self.blocks[first + at].as_ref().expect("blocks are at home between passes");
                (first + at, terms.of_documents(&self.parts[at]), terms.of_words(block))
            };
            mine.map(both).collect::<Vec<_>>()
        })?;
        let mut all: Vec<(usize, f64, f64)> = cluster.all_gather(sums.concat())?.into_iter().flatten().collect();
        all.sort_unstable_by_key(|(number, ..)| *number);
        let (documents, words) =
            all.iter().fold((0.0, 0.0), |sum, (_, documents, words)| (sum.0 + documents, sum.1 + words));
        let totals = of_totals(&self.totals, self.beta, self.layout.occurring);
        Ok((documents + words + totals) / self.layout.tokens as f64)
    }

    /// *Collective.* Makes priors fit the counts.
    pub(super) fn learn(&mut self, cluster: &Cluster, alpha: bool, beta: bool) -> Result<()> {
        if !alpha && !beta {
            return Ok(());
        }
        let topics = self.layout.topics;
        let counted = cluster.each_worker(|worker| {
            let mut statistics = Statistics::new(topics);
            if alpha {
                let parts = self.parts.iter().skip(worker.index()).step_by(worker.count());
                parts.for_each(|part| statistics.add_part(part));
            }
            if beta {
                let blocks = self.blocks.iter().flatten().skip(worker.index()).step_by(worker.count());
                blocks.for_each(|block| statistics.add_block(block));
            }
            statistics
        })?;
        let join = |all: Vec<Statistics>| {
            let mut all = all.into_iter();
            let first = all.next().unwrap_or_else(|| Statistics::new(topics));
            all.fold(first, |mut sum, more| {
                sum.join(&more);
                sum
            })
        };
        let mut statistics = join(counted);
        if cluster.size() > 1 {
            statistics = join(cluster.all_gather(statistics)?);
        }
        if alpha {
            statistics.learn_alpha(&mut self.alpha);
        }
        if beta {
            self.beta = statistics.learn_beta(self.beta, &self.totals, self.layout.occurring);
        }
        Ok(())
    }

    /// *Collective.* The model these counts are.
    pub(super) fn model(&self, cluster: &Cluster) -> Result<TopicModel> {
        let layout = &*self.layout;
        let mut gathered = Vec::new();
        if cluster.size() > 1 {
            for number in 0..layout.parts {
                let mine = self.blocks[number].as_ref().map_or_else(Vec::new, Block::pack);
                let bytes = cluster.broadcast_from(layout.owner(number), mine)?;
                gathered.push(Block::new(layout, number).unpack(&bytes).ok_or_else(nonsense)?);
            }
        }
        let block = |number: usize| match gathered.get(number) {
            Some(block) => block,
            None => self.blocks[number].as_ref().expect("blocks are at home between passes"),
        };
        let mut rows = WordTopics::default();
        let mut entries = Vec::new();
        for home in &layout.homes {
            entries.clear();
            if let Some((number, place)) = home {
                block(*number as usize).each(*place as usize, |topic, count| entries.push((topic as u32, count)));
            }
            rows.push(entries.iter().copied());
        }
        let (alpha, vocabulary) = (self.alpha.clone(), self.vocabulary.clone());
        Ok(TopicModel::new(cluster, alpha, self.beta, rows, vocabulary, layout.documents)?)
    }

    /// Bytes of memory that this peer's parts and words take.
    pub(super) fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(Part::bytes).sum();
        parts + self.blocks.iter().flatten().map(Block::bytes).sum::<usize>()
    }

    /// The peer that has a part.
    pub(super) fn owner(&self, part: usize) -> Rank {
        self.layout.owner(part)
    }
}

/// A peer sent something that is no block.
pub(super) fn nonsense() -> Error {
    Error::NotThisModel { problem: "a peer sent counts that are none; do all run the same program?".to_owned() }
}
