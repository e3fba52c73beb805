//! A pass on tables, for comparison: documents are divided among workers, counts of words are in a table that everybody reads and adds to.
//!
//! In a clock a worker fetches the rows of a block of words and the totals, draws the topics of its own tokens of these words, and adds what has changed; then the next block. Counts of others may be stale, and are never
//! lost. After a pass all counts are made from topics anew, so likelihoods, priors and the model are those of the true counts, whatever tables have told.
//!
//! **Invariant:** a worker counts at least its own tokens: a stale row that has fewer of a topic than its part has is raised to that.

use super::block::{Block, Row};
use super::layout::Layout;
use super::part::Part;
use super::random::Key;
use super::sampler::word::Word;
use super::sampler::{Machine, draw};
use super::state::State;
use hemiola::cluster::Worker;
use hemiola::prelude::*;
use hemiola::tables::{Bandwidth, Consistency, Table, TableWorker};
use hemiola::{Cluster, Result};
use std::sync::{Mutex, PoisonError};

/// The tables of a training.
pub(super) struct Counted {
    words: Table<i32>,
    totals: Table<i32>,
    staleness: u32,
}

/// How many parts there are at least: a pass has as many clocks.
pub(super) const LEAST_PARTS: usize = 8;

impl Counted {
    /// *Collective.* Tables with the counts of `state`.
    pub(super) fn new(cluster: &Cluster, state: &State, staleness: u32, budget: Option<u64>) -> Result<Self> {
        let consistency = if staleness == 0 { Consistency::Bsp } else { Consistency::Ssp(u64::from(staleness)) };
        let table = |name: &str, rows: usize| {
            let table =
                cluster.table::<i32>(name).rows(rows as u64).width(state.layout.topics).consistency(consistency);
            match budget {
                None => table.build(),
                Some(bytes) => table.budget(Bandwidth::bytes_per_second(bytes)).build(),
            }
        };
        let tables = Self {
            words: table("lda words", state.layout.homes.len().max(1))?,
            totals: table("lda totals", 1)?,
            staleness,
        };
        tables.each_worker(cluster, |worker, hands| {
            if worker.index() == 0 {
                let mut row = vec![0; state.layout.topics];
                for (number, block) in state.blocks.iter().enumerate() {
                    let Some(block) = block else { continue };
                    for (place, word) in state.layout.words[number].iter().enumerate() {
                        row.fill(0);
                        block.each(place, |topic, count| row[topic] = count.cast_signed());
                        hands.words.inc(u64::from(*word), &row)?;
                    }
                }
                if cluster.is_root() {
                    hands.totals.inc(0, &state.totals)?;
                }
            }
            // So many clocks later everybody sees all of the first.
            (0..=tables.staleness).try_for_each(|_| hands.clock())
        })?;
        Ok(tables)
    }

    /// Runs `body` on every worker with handles of both tables. If it fails on one, it ends on all.
    fn each_worker<T: Send>(
        &self,
        cluster: &Cluster,
        body: impl Fn(Worker, &mut Hands<'_>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let run = |worker: Worker| {
            let hands = || Ok(Hands { words: self.words.worker(worker)?, totals: self.totals.worker(worker)? });
            hands().and_then(|mut hands| body(worker, &mut hands)).inspect_err(|error: &hemiola::Error| {
                let reason = error.to_string();
                self.words.stop(&reason);
                self.totals.stop(&reason);
            })
        };
        cluster.each_worker(run)?.into_iter().collect()
    }
}

/// Both tables in the hands of a worker.
struct Hands<'a> {
    words: TableWorker<'a, i32>,
    totals: TableWorker<'a, i32>,
}

impl Hands<'_> {
    fn clock(&mut self) -> Result<()> {
        self.words.clock()?;
        self.totals.clock()
    }

    /// The rows of a block as they are told, but not below what `own` has; and as they were told.
    fn fetch(&mut self, layout: &Layout, number: usize, own: &Block) -> Result<(Block, Vec<u64>)> {
        let keys: Vec<u64> = layout.words[number].iter().map(|word| u64::from(*word)).collect();
        let mut block = Block::dense(layout, number);
        self.words.get_many(&keys, |place, row| {
            if let Row::Dense(counts) = block.row(place) {
                counts.iter_mut().zip(row.iter()).for_each(|(to, from)| *to = (*from).max(0).cast_unsigned());
                own.each(place, |topic, count| counts[topic] = counts[topic].max(count));
            }
        })?;
        Ok((block, keys))
    }
}

impl State {
    /// *Collective.* Draws the topics of all tokens anew, by tables. `words` has one for each worker.
    pub(super) fn pass_on_tables(&mut self, cluster: &Cluster, tables: &Counted, words: &mut [Word]) -> Result<()> {
        let Self { layout, parts, alpha, beta, seed, passes, .. } = self;
        let (layout, alpha, beta, seed, passes) = (&**layout, &alpha[..], *beta, *seed, *passes);
        let workers = cluster.workers();
        let mut hands: Vec<(Vec<&mut Part>, &mut Word)> = words.iter_mut().map(|word| (Vec::new(), word)).collect();
        for (place, part) in parts.iter_mut().enumerate() {
            hands[place % workers].0.push(part);
        }
        let hands: Vec<Mutex<(Vec<&mut Part>, &mut Word)>> = hands.into_iter().map(Mutex::new).collect();
        tables.each_worker(cluster, |worker, tables| {
            // Each worker has its own.
            let mut own = hands[worker.index()].lock().unwrap_or_else(PoisonError::into_inner);
            let (parts, word) = &mut *own;
            for step in 0..layout.parts {
                // Not everybody at the same words at the same time.
                let first = parts.first().map_or(0, |part| part.number);
                let number = layout.block(first, step);
                let mut mine = Block::dense(layout, number);
                let mut my_totals = vec![0; layout.topics];
                for part in parts.iter() {
                    part.count_words(number, &mut mine, &mut my_totals);
                }
                let (mut block, keys) = tables.fetch(layout, number, &mine)?;
                let before = block.clone();
                let mut totals = vec![0; layout.topics];
                tables.totals.get(0, |row| totals.copy_from_slice(&row))?;
                totals.iter_mut().zip(&my_totals).for_each(|(total, mine)| *total = (*total).max(*mine));
                let old_totals = totals.clone();
                for part in parts.iter_mut() {
                    word.begin(alpha, beta, layout.occurring, &totals);
                    let key = Key::new(&[seed, passes, part.number as u64, number as u64]);
                    draw(Machine::Best, word, part, (number, &mut block), key);
                    let topics = totals.len();
                    totals.copy_from_slice(&word.totals[..topics]);
                }
                let changes = block.changes(&before);
                for (key, (topics, changes)) in keys.iter().zip(&changes) {
                    if !topics.is_empty() {
                        tables.words.inc_columns(*key, topics, changes)?;
                    }
                }
                let changes: Vec<i32> = totals.iter().zip(&old_totals).map(|(now, before)| now - before).collect();
                tables.totals.inc(0, &changes)?;
                tables.clock()?;
            }
            Ok(())
        })?;
        self.passes += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::lda::{Corpus, Sampler, TopicModelling, Vocabulary, Way};
    use hemiola::array::synthetic::Lda;
    use std::sync::Arc;

    #[test]
    fn tables_come_where_rotation_does() {
        let lda = Lda::new(120, 100, 5, 50, 3);
        let rows: Vec<Vec<(u32, u32)>> =
            lda.rows().map(|row| row.into_iter().map(|(word, count)| (word as u32, count)).collect()).collect();
        let reached = |peers: usize, way: Way, sampler: Sampler, seed: u64| {
            let builder = TopicModelling::builder(5).way(way).sampler(sampler).parts(8).passes(60).seed(seed);
            let estimator = builder.build().unwrap();
            let all = hemiola::standalone(peers).workers(2).run(|cluster| {
                let mut builder = Corpus::builder(Arc::new(Vocabulary::numbered(100)));
                let cut = |rank: usize| rows.len() * rank / cluster.size();
                for row in &rows[cut(cluster.rank().index())..cut(cluster.rank().index() + 1)] {
                    builder.push(row.iter().copied())?;
                }
                let trained = estimator.fit(cluster, &builder.gather(cluster)?)?;
                let tokens: u64 = rows.iter().flatten().map(|(_, count)| u64::from(*count)).sum();
                assert_eq!(trained.model.tokens(), tokens);
                Ok(trained.report.result.objective)
            });
            all.unwrap()[0]
        };
        let rotation = reached(1, Way::Rotation, Sampler::Exact, 1);
        for (peers, staleness, budget) in [(1, 0, None), (2, 0, None), (2, 2, None), (2, 2, Some(2_000_000))] {
            for sampler in [Sampler::Exact, Sampler::Sparse, Sampler::MetropolisHastings] {
                // One run in twelve ends where two topics are one, 7 % away (so does rotation, with other seeds). Without staleness the same do each time; with it no run is like another.
                let least = if staleness > 0 { 1 } else { 3 };
                // With a budget counts may be late by any number of clocks.
                let bound = if budget.is_some() { 0.15 } else { 0.03 };
                let found: Vec<f64> =
                    (1..=4).map(|seed| reached(peers, Way::Tables { staleness, budget }, sampler, seed)).collect();
                let near: Vec<bool> = found.iter().map(|found| (found / rotation - 1.0).abs() < bound).collect();
                // The first seed is a good one for draws that are exact.
                let first = staleness > 0 || sampler == Sampler::MetropolisHastings || near[0];
                assert!(
                    first && near.iter().filter(|near| **near).count() >= least,
                    "{sampler:?}, {peers} peers, {staleness}, {budget:?}: {found:?} beside {rotation}"
                );
            }
        }
        // Without staleness everybody sees the same, in every run.
        let exact = Way::Tables { staleness: 0, budget: None };
        let twice = [(); 2].map(|()| reached(2, exact, Sampler::Sparse, 1).to_bits());
        assert_eq!(twice[0], twice[1]);
    }
}
