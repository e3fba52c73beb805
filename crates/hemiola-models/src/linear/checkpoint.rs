//! Checkpoints of linear classifiers: the model, and the dual variables of all examples.
//!
//! The model is stored like any saved model, and can be used at any time. Beside it are the dual
//! variables by row, and the model of each peer, which differ until gossip averaging has converged.

use super::model::LinearModel;
use crate::Error;
use crate::training::Checkpointable;
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_cluster::Result;
use hemiola_collective::CollectiveExt;
use hemiola_collective::{Communicator, ReduceOp};
use std::sync::Arc;

/// Snapshot of training: the model and the state needed to resume.
#[derive(Clone, Debug)]
pub(super) struct LinearSnapshot {
    /// Global model after the last epoch.
    pub(super) model: LinearModel,
    pub(super) state: LinearState,
}

/// Training state besides the weights.
#[derive(Clone, Debug)]
pub(super) struct LinearState {
    /// Model of this peer, where it differs from the global one.
    pub(super) peer_model: Arc<Vec<f64>>,
    /// Dual variables by row and problem.
    pub(super) duals: Arc<Vec<f64>>,
    pub(super) rows: usize,
    /// Communicator that sums `duals` over peers; `None` where `duals` covers all rows already.
    pub(super) collectives: Option<Communicator>,
}

impl Checkpointable for LinearSnapshot {
    fn put(&self, save: &mut ArraySaver, prefix: &str) -> Result<()> {
        let Self { model, state: LinearState { peer_model, duals, rows, collectives } } = self;
        model.put(save, prefix)?;
        let (problems, cluster) = (model.problems(), &model.cluster);
        let gathered = match collectives {
            None => duals.clone(),
            Some(collectives) => {
                // Each row is nonzero on one peer only.
                let mut all = Vec::clone(duals);
                collectives.all_reduce(&mut all, ReduceOp::Sum)?;
                Arc::new(all)
            }
        };
        save.put_values(&format!("{prefix}duals"), [*rows, problems], &gathered)?;
        if cluster.size() > 1 {
            let models = cluster.communicator()?.all_gather(peer_model)?;
            save.put_values(&format!("{prefix}peers"), [cluster.size(), peer_model.len()], &models)?;
        }
        Ok(())
    }

    fn get(load: &ArrayLoader, prefix: &str) -> Result<Self> {
        let model = LinearModel::get(load, prefix)?;
        let (named, cluster) = (|name: &str| format!("{prefix}{name}"), &model.cluster);
        let has = |wanted: &str| load.names().any(|name| name == wanted);
        if !has(&named("duals")) {
            return Err(Error::missing("dual variables: it was saved for prediction, not for training").into());
        }
        let duals = load.values::<f64, 2>(&named("duals"))?;
        let rows = duals.extents[0];
        let mut peer_model = model.weights.clone();
        if has(&named("peers")) {
            let peers = load.values::<f64, 2>(&named("peers"))?;
            let [count, length] = peers.extents;
            // A different number of peers starts from the global model.
            if count == cluster.size() && length == peer_model.len() {
                peer_model =
                    Arc::new(peers.values[cluster.rank().index() * peer_model.len()..][..peer_model.len()].to_vec());
            }
        }
        let state = LinearState { peer_model, duals: Arc::new(duals.values), rows, collectives: None };
        Ok(Self { model, state })
    }

    fn input(&self) -> Option<&crate::input::InputSchema> {
        self.model.input()
    }

    fn bytes(&self) -> u64 {
        let Self { model, state: LinearState { peer_model, duals, .. } } = self;
        let of_state = duals.len() + peer_model.len() * model.cluster.size();
        model.bytes() + (of_state * size_of::<f64>()) as u64
    }
}
