//! Sweep by rotation: word blocks move around the ring, documents stay.
//!
//! In a step every partition processes the block it holds; then blocks move to the previous
//! partition, within a peer by pointer and between peers as bytes. Partitions of a peer are
//! processed by whichever worker is free. All partitions need and change the topic totals: each
//! uses those of the last step plus its own changes, and after the step all changes are added.
//!
//! **Invariant:** the draws of a partition depend on its number, the sweep, its documents, its
//! block and the totals of the last step; not on the worker, the peer or the timing.

use super::block::WordBlock;
use super::partition::DocumentPartition;
use super::rng::CounterRng;
use super::sampler::word_state::WordState;
use super::sampler::{SimdLevel, SweepWork, draw};
use super::state::{LdaState, malformed_message};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Purpose;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Task: a partition with the block it processes.
struct CellTask<'a> {
    part: &'a mut DocumentPartition,
    number: usize,
    block: WordBlock,
    /// Changes of the topic totals.
    changes: Vec<i32>,
    done: SweepWork,
}

impl LdaState {
    /// *Collective.* Samples the topics of all tokens once. `words` has one element per worker.
    pub(super) fn sweep(
        &mut self,
        cluster: &Cluster,
        words: &mut [WordState],
        machine: SimdLevel,
    ) -> Result<SweepWork> {
        cluster.worker_team(|team| {
            let mut done = SweepWork::default();
            for step in 0..self.layout.parts {
                let Self { layout, parts, blocks, totals, alpha, beta, seed, sweeps, .. } = self;
                let jobs = parts.iter_mut().map(|part| {
                    let number = layout.block(part.number, step);
                    let block = blocks[number].take().expect("every partition holds its block");
                    Mutex::new(CellTask { part, number, block, changes: Vec::new(), done: SweepWork::default() })
                });
                let jobs: Vec<Mutex<CellTask<'_>>> = jobs.collect();
                let next = AtomicUsize::new(0);
                team.each_with(words, |_, word| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // The lock is uncontended: each task is handed out once.
                        let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
                        let CellTask { part, number, block, changes, done } = &mut *job;
                        word.begin(alpha, *beta, layout.occurring, totals);
                        let key = CounterRng::new(&[*seed, *sweeps, part.number as u64, *number as u64]);
                        *done = draw(machine, word, part, (*number, block), key);
                        changes.extend(word.totals.iter().zip(&*totals).map(|(now, before)| now - before));
                    }
                })?;
                let mut changes = vec![0; totals.len()];
                for job in jobs {
                    let job = job.into_inner().unwrap_or_else(PoisonError::into_inner);
                    changes.iter_mut().zip(&job.changes).for_each(|(sum, change)| *sum += change);
                    blocks[job.number] = Some(job.block);
                    done = done.and(job.done);
                }
                let own = (changes, cluster.stop_request().accepted_cause());
                let of_peers = if cluster.size() > 1 { cluster.all_gather(own)? } else { vec![own] };
                for (changes, stop) in of_peers {
                    // The other steps only move the blocks to where the next sweep expects them.
                    if let Some(cause) = stop {
                        cluster.stop_request().adopt(cause);
                        done.stopped = true;
                    }
                    totals.iter_mut().zip(changes).for_each(|(total, change)| *total += change);
                }
                if cluster.size() > 1 {
                    self.send_blocks(cluster, step)?;
                }
            }
            self.sweeps += 1;
            Ok(done)
        })
    }

    /// *Collective.* Sends the blocks that partitions of other peers need next.
    fn send_blocks(&mut self, cluster: &Cluster, step: usize) -> Result<()> {
        let parts = self.layout.parts;
        let mut outgoing = vec![Vec::new(); cluster.size()];
        for part in self.layout.parts_of(cluster.rank()) {
            let number = self.layout.block(part, step);
            let to = self.owner((part + parts - 1) % parts);
            if to != cluster.rank() {
                let block = self.blocks[number].take().expect("the block was just processed");
                let bytes = block.pack();
                let outgoing = &mut outgoing[to.index()];
                outgoing.extend((number as u32).to_le_bytes());
                outgoing.extend((bytes.len() as u64).to_le_bytes());
                outgoing.extend(bytes);
            }
        }
        let outgoing = outgoing.into_iter().map(Into::into).collect();
        for bytes in cluster.all_to_all(outgoing, Purpose::Rotation)? {
            let mut rest = &bytes[..];
            while let Some((number, after)) = rest.split_first_chunk::<4>() {
                let (length, after) = after.split_first_chunk::<8>().ok_or_else(malformed_message)?;
                let (number, length) = (u32::from_le_bytes(*number) as usize, u64::from_le_bytes(*length) as usize);
                let (bytes, after) = after.split_at_checked(length).ok_or_else(malformed_message)?;
                let index = self.blocks.get_mut(number).ok_or_else(malformed_message)?;
                *index = Some(WordBlock::new(&self.layout, number).unpack(bytes).ok_or_else(malformed_message)?);
                rest = after;
            }
        }
        Ok(())
    }
}
