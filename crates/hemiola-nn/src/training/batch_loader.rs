//! Threads of a peer that make the batches of coming steps while a step is running.
//!
//! The parts of an epoch are numbered in the order of their use. Thread `t` of `n` makes the parts
//! `t`, `t + n` and so on, and puts them into a queue of its own, which has room for [`QUEUED`]
//! batches. The training thread takes from the queues in turn. A thread whose queue is full waits
//! until the training thread takes from it, or has ended.
//!
//! **Invariant:** batches and their order do not depend on the number of threads.

use crate::data::Dataset;
use burn::tensor::Device;
use hemiola_cluster::{Cluster, Result};
use parking_lot::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Batches that a thread makes before they are taken.
const QUEUED: usize = 2;

/// Maker of the batches of one epoch.
#[derive(Debug)]
pub(super) struct BatchLoader<'a, D> {
    pub(super) data: &'a D,
    pub(super) epoch: u32,
    pub(super) device: Device,
    /// Number of threads; 0 makes batches in the training thread.
    pub(super) threads: usize,
}

/// Batches of an epoch in the order of their use.
pub(super) enum BatchQueue<'a, D: Dataset> {
    /// Batches of loader threads.
    Threads { queues: Vec<Receiver<D::Batch>>, taken: usize },
    /// Batches that are made when they are taken.
    Direct(&'a BatchLoader<'a, D>),
}

impl<D: Dataset> BatchQueue<'_, D> {
    /// Returns the next batch, of the examples `part`.
    pub(super) fn next(&mut self, part: &[usize]) -> D::Batch {
        match self {
            Self::Direct(loader) => loader.load(part),
            Self::Threads { queues, taken } => {
                let queue = *taken % queues.len();
                *taken += 1;
                // A loader ends after its last part only, or by a panic, which its thread reports.
                queues[queue].recv().expect("a loader thread makes every batch")
            }
        }
    }
}

impl<D: Dataset> BatchLoader<'_, D> {
    /// Calls `train` with the batches of `parts`, which it takes in their order.
    pub(super) fn run<T>(
        &self,
        cluster: &Cluster,
        parts: impl Fn() -> Box<dyn Iterator<Item = Vec<usize>>> + Sync,
        train: impl FnOnce(&mut BatchQueue<'_, D>) -> Result<T>,
    ) -> Result<T> {
        let threads = self.threads.min(cluster.workers());
        if threads == 0 {
            return train(&mut BatchQueue::Direct(self));
        }
        let (senders, queues): (Vec<_>, Vec<_>) = (0..threads).map(|_| sync_channel(QUEUED)).unzip();
        let senders: Vec<Mutex<Option<SyncSender<D::Batch>>>> =
            senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
        let load = |thread: usize| {
            // The sender ends with the thread, so that the training thread cannot wait for nothing.
            let Some(sender) = senders.get(thread).and_then(|sender| sender.lock().take()) else { return };
            for part in parts().skip(thread).step_by(threads) {
                if sender.send(self.load(&part)).is_err() {
                    return;
                }
            }
        };
        let mut queue = BatchQueue::Threads { queues, taken: 0 };
        let (loaded, trained) = cluster.each_worker_while(
            |worker| load(worker.index()),
            move || {
                let trained = train(&mut queue);
                // Loaders that wait for room end.
                drop(queue);
                trained
            },
        );
        let trained = trained?;
        loaded.map(|_| trained)
    }

    fn load(&self, part: &[usize]) -> D::Batch {
        self.data.training_batch(part, self.epoch, &self.device)
    }
}
