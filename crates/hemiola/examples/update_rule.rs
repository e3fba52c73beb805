//! A user-defined update rule: a server-side optimizer of a parameter-server table.
//!
//! The shard that owns a row applies the updates of all workers by the rule. This one is SGD with
//! momentum: it keeps a velocity beside each value, which checkpoints contain.
//!
//! `cargo run --release --example update_rule`:
//! ```text
//! minimum found at [3.00, -1.00]
//! ```

use hemiola::prelude::*;
use hemiola::tables::{Consistency, LocalApply, RowUpdate, UnknownVersion, UpdateRule};

/// SGD with momentum: `v = momentum * v + gradient; x -= learning_rate * v`.
#[derive(Clone, Debug)]
pub(crate) struct Momentum {
    pub(crate) learning_rate: f32,
    pub(crate) momentum: f32,
}

impl UpdateRule<f32> for Momentum {
    /// Only the shard knows the velocity, so workers do not apply their own updates.
    fn local_apply(&self) -> LocalApply<f32> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        width
    }

    fn apply(&self, update: &RowUpdate<'_, f32>, row: &mut [f32], state: &mut [f32]) -> Result<(), UnknownVersion> {
        for (column, gradient) in update.cells.iter() {
            state[column] = self.momentum * state[column] + gradient;
            row[column] -= self.learning_rate * state[column];
        }
        Ok(())
    }
}

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        cluster.println(format_args!("minimum found at {:.2?}", minimize(cluster, 100)?));
        Ok(())
    })
}

/// Minimizes `(x - 3)² + 10 (y + 1)²`. Every worker contributes a share of the gradient.
pub(crate) fn minimize(cluster: &Cluster, steps: usize) -> hemiola::Result<Vec<f32>> {
    let rule = Momentum { learning_rate: 0.02, momentum: 0.8 };
    let table = cluster.table::<f32>("x").rows(1).width(2).consistency(Consistency::Bsp).update_rule(rule).build()?;
    table.each_worker(|worker| {
        for _ in 0..steps {
            let gradient = worker.get(0, |x| [2.0 * (x[0] - 3.0), 20.0 * (x[1] + 1.0)])?;
            worker.inc(0, &gradient.map(|part| part / (cluster.size() * cluster.workers()) as f32))?;
            worker.clock()?;
        }
        Ok(())
    })?;
    Ok(table.collect()?.remove(&0).unwrap_or_default())
}
