//! Training state: topics of all tokens of this peer's partitions, its word blocks, and the priors.
//!
//! **Invariant:** between sweeps the block with the number of a partition is on that partition's
//! peer, and totals are those of all peers. Topics, priors and the number of sweeps are all that
//! the next sweep depends on: counts follow from topics.

use super::block::WordBlock;
use super::counts::CountLayout;
use super::layout::LdaLayout;
use super::likelihood::{LikelihoodTerms, of_totals};
use super::partition::{DocumentPartition, parts};
use super::priors::PriorStatistics;
use super::word_topics::WordTopics;
use super::{Corpus, LdaModel, LdaVocabulary};
use crate::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use std::sync::{Arc, Mutex, PoisonError};

/// Training state of one peer.
#[derive(Clone, Debug)]
pub(super) struct LdaState {
    pub(super) layout: Arc<LdaLayout>,
    pub(super) vocabulary: Arc<LdaVocabulary>,
    /// Partitions of this peer, in order.
    pub(super) parts: Vec<DocumentPartition>,
    /// Blocks by number; `None` for blocks on other peers.
    pub(super) blocks: Vec<Option<WordBlock>>,
    pub(super) totals: Vec<i32>,
    pub(super) alpha: Vec<f64>,
    pub(super) beta: f64,
    pub(super) seed: u64,
    /// Number of completed sweeps.
    pub(super) sweeps: u64,
}

impl LdaState {
    /// *Collective.* Distributes documents and words; tokens have no topics yet, and nothing is
    /// counted.
    pub(super) fn new(
        cluster: &Cluster,
        corpus: &Corpus,
        layout: Arc<LdaLayout>,
        form: CountLayout,
        (alpha, beta, seed): (Vec<f64>, f64, u64),
    ) -> Result<Self> {
        let parts = parts(cluster, corpus, &layout, form)?;
        let (blocks, totals) = (vec![None; layout.parts], vec![0; layout.topics]);
        let vocabulary = corpus.vocabulary().clone();
        Ok(Self { layout, vocabulary, parts, blocks, totals, alpha, beta, seed, sweeps: 0 })
    }

    /// *Collective.* Assigns random topics to all tokens, and counts.
    pub(super) fn randomize_topics(&mut self, cluster: &Cluster) -> Result<()> {
        let (seed, topics) = (self.seed, self.layout.topics);
        let parts: Vec<Mutex<&mut DocumentPartition>> = self.parts.iter_mut().map(Mutex::new).collect();
        cluster.each_worker(|worker| {
            for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                part.lock().unwrap_or_else(PoisonError::into_inner).randomize_topics(seed, topics);
            }
        })?;
        self.count(cluster)
    }

    /// *Collective.* Recomputes all counts from the topics of tokens.
    pub(super) fn count(&mut self, cluster: &Cluster) -> Result<()> {
        let layout = self.layout.clone();
        let parts: Vec<Mutex<&mut DocumentPartition>> = self.parts.iter_mut().map(Mutex::new).collect();
        cluster.each_worker(|worker| {
            for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                part.lock().unwrap_or_else(PoisonError::into_inner).count_documents();
            }
        })?;
        self.totals.fill(0);
        for number in 0..layout.parts {
            // Each peer counts the tokens of its partitions in the block; the owner of the block
            // sums them.
            let mut block = WordBlock::new(&layout, number);
            self.parts.iter().for_each(|part| part.count_words(number, &mut block, &mut self.totals));
            let owner = layout.owner(number);
            if cluster.size() > 1 {
                let mine = if owner == cluster.rank() { Vec::new() } else { block.pack() };
                let others = cluster.all_gather(mine)?;
                for bytes in others.iter().filter(|bytes| owner == cluster.rank() && !bytes.is_empty()) {
                    let other = WordBlock::new(&layout, number).unpack(bytes).ok_or_else(malformed_message)?;
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

    /// *Collective.* Returns the joint log-likelihood of words and topics, per token.
    pub(super) fn likelihood(&self, cluster: &Cluster) -> Result<f64> {
        let terms = &LikelihoodTerms::new(&self.alpha, self.beta);
        let first = self.layout.parts_of(cluster.rank()).start;
        let sums = cluster.each_worker(|worker| {
            let mine = (0..self.parts.len()).skip(worker.index()).step_by(worker.count());
            let both = |at: usize| {
                let block = self.blocks[first + at].as_ref().expect("blocks are with their owners between sweeps");
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

    /// *Collective.* Optimizes the priors.
    pub(super) fn learn(&mut self, cluster: &Cluster, alpha: bool, beta: bool) -> Result<()> {
        if !alpha && !beta {
            return Ok(());
        }
        let topics = self.layout.topics;
        let counted = cluster.each_worker(|worker| {
            let mut statistics = PriorStatistics::new(topics);
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
        let join = |all: Vec<PriorStatistics>| {
            let mut all = all.into_iter();
            let first = all.next().unwrap_or_else(|| PriorStatistics::new(topics));
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

    /// *Collective.* Builds the model of the current counts.
    pub(super) fn model(&self, cluster: &Cluster) -> Result<LdaModel> {
        let layout = &*self.layout;
        let mut gathered = Vec::new();
        if cluster.size() > 1 {
            for number in 0..layout.parts {
                let mine = self.blocks[number].as_ref().map_or_else(Vec::new, WordBlock::pack);
                let bytes = cluster.broadcast_from(layout.owner(number), mine)?;
                gathered.push(WordBlock::new(layout, number).unpack(&bytes).ok_or_else(malformed_message)?);
            }
        }
        let block = |number: usize| match gathered.get(number) {
            Some(block) => block,
            None => self.blocks[number].as_ref().expect("blocks are with their owners between sweeps"),
        };
        let mut rows = WordTopics::default();
        let mut entries = Vec::new();
        for home in &layout.homes {
            entries.clear();
            if let Some((number, index)) = home {
                block(*number as usize).each(*index as usize, |topic, count| entries.push((topic as u32, count)));
            }
            rows.push(entries.iter().copied());
        }
        let (alpha, vocabulary) = (self.alpha.clone(), self.vocabulary.clone());
        Ok(LdaModel::new(alpha, self.beta, rows, vocabulary, layout.documents)?)
    }

    /// Returns the memory size of this peer's partitions and blocks in bytes.
    pub(super) fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(DocumentPartition::bytes).sum();
        parts + self.blocks.iter().flatten().map(WordBlock::bytes).sum::<usize>()
    }

    /// Returns the owner of a partition.
    pub(super) fn owner(&self, part: usize) -> Rank {
        self.layout.owner(part)
    }
}

/// Error for a malformed message from a peer.
pub(super) fn malformed_message() -> Error {
    Error::InvalidSave { problem: "a peer sent malformed counts; run the same program on all peers".to_owned() }
}
