//! Logistic regression on a parameter server with bounded staleness (stale synchronous parallel).
//!
//! Examples are divided among the workers of all peers, and the weights are a table. An example has
//! few features, so a worker fetches only the rows that it needs. It ends its clock after twenty
//! examples, and may be three clocks ahead of the slowest worker.
//!
//! `cargo run --release --example sparse_logistic`:
//! ```text
//! mean loss of each epoch: [0.48, 0.34, 0.29]
//! ```

use hemiola::Result;
use hemiola::array::synthetic::SyntheticLogistic;
use hemiola::prelude::*;
use hemiola::tables::{Sgd, TableWorker};

pub(crate) const EXAMPLES: usize = 4000;
pub(crate) const LEARNING_RATE: f32 = 0.1;

fn main() -> Result<()> {
    hemiola::run(|cluster| {
        let losses = train(cluster, 3)?;
        cluster.println(format_args!("mean loss of each epoch: {losses:.2?}"));
        Ok(())
    })
}

/// Trains and returns the mean loss of each epoch. The loss of an example is taken before its step.
pub(crate) fn train(cluster: &Cluster, epochs: usize) -> Result<Vec<f64>> {
    let examples = SyntheticLogistic { rows: EXAMPLES, scale: 3.0, ..SyntheticLogistic::default() }.generator();
    let rule = Sgd::new(LEARNING_RATE.into());
    let weights = cluster.table::<f32>("weights").rows(500).staleness(3).update_rule(rule).build()?;
    let losses = weights.each_worker(|worker| {
        let first = cluster.rank().index() * cluster.workers() + worker.id().index();
        let mine: Vec<usize> = (first..EXAMPLES).step_by(cluster.size() * cluster.workers()).collect();
        let mut losses = vec![0.0; epochs];
        for loss in &mut losses {
            for batch in mine.chunks(20) {
                for row in batch {
                    *loss += step(worker, &examples.row(*row))?;
                }
                worker.clock()?;
            }
        }
        Ok(losses)
    })?;
    let losses = cluster.all_gather(losses)?.concat();
    Ok((0..epochs).map(|epoch| losses.iter().map(|of| of[epoch]).sum::<f64>() / EXAMPLES as f64).collect())
}

/// One SGD step on an example: its label (-1 or 1) and features. Returns the loss.
fn step(worker: &mut TableWorker<'_, f32>, (label, features): &(f32, Vec<(usize, f32)>)) -> Result<f64> {
    let keys: Vec<u64> = features.iter().map(|(feature, _)| *feature as u64).collect();
    let mut products = vec![0.0; keys.len()];
    worker.get_many(&keys, |slot, row| products[slot] = row[0] * features[slot].1)?;
    let margin = label * products.iter().sum::<f32>();
    let gradient: Vec<f32> = features.iter().map(|(_, value)| -label / (1.0 + margin.exp()) * value).collect();
    worker.inc_many(&keys, &gradient)?;
    Ok(f64::from((-margin).exp().ln_1p()))
}
