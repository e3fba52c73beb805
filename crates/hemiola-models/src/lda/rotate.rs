//! A pass: words go around, documents stay.
//!
//! In a step every part works on the block it holds; then blocks go on to the part before, inside a peer by address and to another peer as bytes. Parts of a peer are done by whichever worker is free.
//! Totals of topics are what all parts need and all change: each goes by those of the last step and its own changes, and after the step all are added.
//!
//! **Invariant:** what a part draws depends on its number, the pass, its documents, the block it holds and the totals of the last step; not on which worker or peer does it, or when.

use super::block::Block;
use super::part::Part;
use super::random::Key;
use super::sampler::word::Word;
use super::sampler::{Done, Machine, draw};
use super::state::{State, nonsense};
use hemiola::core::Purpose;
use hemiola::{Cluster, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A part with the block it works on.
struct Job<'a> {
    part: &'a mut Part,
    number: usize,
    block: Block,
    /// What the totals of topics changed by.
    changes: Vec<i32>,
    done: Done,
}

impl State {
    /// *Collective.* Draws the topics of all tokens anew. `words` has one for each worker.
    pub(super) fn pass(&mut self, cluster: &Cluster, words: &mut [Word], machine: Machine) -> Result<Done> {
        cluster.crew(|crew| {
            let mut done = Done::default();
            for step in 0..self.layout.parts {
                let Self { layout, parts, blocks, totals, alpha, beta, seed, passes, .. } = self;
                let jobs = parts.iter_mut().map(|part| {
                    let number = layout.block(part.number, step);
                    let block = blocks[number].take().expect("blocks go around");
                    Mutex::new(Job { part, number, block, changes: Vec::new(), done: Done::default() })
                });
                let jobs: Vec<Mutex<Job<'_>>> = jobs.collect();
                let next = AtomicUsize::new(0);
                crew.each_with(words, |_, word| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // Nobody else has it: it is handed out once.
                        let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
                        let Job { part, number, block, changes, done } = &mut *job;
                        word.begin(alpha, *beta, layout.occurring, totals);
                        let key = Key::new(&[*seed, *passes, part.number as u64, *number as u64]);
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
                let of_peers = if cluster.size() > 1 { cluster.all_gather(changes)? } else { vec![changes] };
                for changes in of_peers {
                    totals.iter_mut().zip(changes).for_each(|(total, change)| *total += change);
                }
                if cluster.size() > 1 {
                    self.hand_on(cluster, step)?;
                }
            }
            self.passes += 1;
            Ok(done)
        })
    }

    /// *Collective.* Sends the blocks that parts of other peers need next.
    fn hand_on(&mut self, cluster: &Cluster, step: usize) -> Result<()> {
        let parts = self.layout.parts;
        let mut outgoing = vec![Vec::new(); cluster.size()];
        for part in self.layout.parts_of(cluster.rank()) {
            let number = self.layout.block(part, step);
            let to = self.owner((part + parts - 1) % parts);
            if to != cluster.rank() {
                let block = self.blocks[number].take().expect("it was just worked on");
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
                let (length, after) = after.split_first_chunk::<8>().ok_or_else(nonsense)?;
                let (number, length) = (u32::from_le_bytes(*number) as usize, u64::from_le_bytes(*length) as usize);
                let (bytes, after) = after.split_at_checked(length).ok_or_else(nonsense)?;
                let place = self.blocks.get_mut(number).ok_or_else(nonsense)?;
                *place = Some(Block::new(&self.layout, number).unpack(bytes).ok_or_else(nonsense)?);
                rest = after;
            }
        }
        Ok(())
    }
}
