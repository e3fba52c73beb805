//! Training of linear classifiers: rounds of dual ascent and averaging; objective and duality gap
//! after each epoch.
//!
//! Every peer has its own model (`peer_model`). In a round, each of its workers runs dual ascent
//! from it ([`WorkerProblem::round`]). Their copies are averaged, and so are the models of peers,
//! over the communication graph. Each peer also accumulates the changes of its own examples, `Σ Δα
//! y x`. At the end of an epoch, their sum over peers gives the model that belongs exactly to the
//! dual variables (`model.weights`), however close peers are to consensus. That model is evaluated
//! and kept.
//!
//! **Invariant:** `model.weights` is `Σ α y x` over all peers, up to rounding. The mean of all
//! `peer_model` is the same as long as every reduce found the values of its own round. If one did
//! not, all peers restart from `model.weights`, or they would converge to something else.

use super::LinearClassifier;
use super::checkpoint::{LinearSnapshot, LinearState};
use super::dual_ascent::{DualProblem, WorkerProblem};
use super::metrics::ClassificationMetrics;
use super::model::LinearModel;
use super::settings::LinearSettings;
use super::shard::{ExampleShard, classes, distribute, labels};
use crate::examples::{ValidationDraw, weights_digest};
use crate::memory::ensure_available;
use crate::training::{
    ClusterInfo, DatasetInfo, EpochResult, Fit, FitOptions, Metrics, TrainingAlgorithm, TrainingSpec, fit_loop,
    labelled_digest,
};
use crate::{Error, Estimator};
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{Algorithm, CollectiveExt, Communicator, Gossip, GossipExt, GossipSync, ReduceOp};
use hemiola_training::check_same_settings;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl Estimator for LinearClassifier {
    type Data = LabelledData;
    type Settings = LinearSettings;
    type Model = LinearModel;

    fn settings(&self) -> &LinearSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        examples: &LabelledData,
        validation: Option<&LabelledData>,
        options: FitOptions<'_>,
    ) -> Result<Fit<LinearModel>> {
        let settings = &self.settings;
        check_same_settings(cluster, settings.loss.kind(), settings)?;
        let labels_of_all = labels(examples)?;
        let draw = ValidationDraw::new(settings.seed, settings.validation, validation.is_some());
        let trained_on = draw.trained_on(&labels_of_all);
        let classes = classes(&trained_on, &self.names)?;
        let [rows, columns] = examples.features.shape().extents();
        let rows = rows.max(labels_of_all.len());
        let weights = self.weights.of(&labels_of_all, (&classes, &self.names), |row| !draw.holds_out(row))?;
        let problems = if classes.len() == 2 { 1 } else { classes.len() };
        // Weights, their sums, and a copy per worker.
        let copies = 3 + cluster.workers();
        ensure_available((8 * copies * problems) as u128 * (columns as u128 + 1), || {
            format!("a model of {columns} features for {} classes", classes.len())
        })?;
        let is_validation = |row| draw.holds_out(row);
        let sharded = distribute(cluster, examples, &labels_of_all, &classes, (columns, settings.seed), is_validation)?;
        let (mut validation_shards, mut count) = (sharded.validation_shards, labels_of_all.len() - trained_on.len());
        if let Some(validation) = validation {
            let of_valid = labels(validation)?;
            count = of_valid.len();
            validation_shards =
                distribute(cluster, validation, &of_valid, &classes, (columns, settings.seed), |_| false)?.shards;
        }
        let mut model = LinearModel::start(cluster, classes, &self.names, columns, settings);
        model.input.clone_from(&self.input);
        let rules = DualProblem {
            loss: settings.loss,
            c: settings.c,
            bias: settings.bias,
            width: model.width(),
            workers: sharded.workers,
            seed: settings.seed,
        };
        let part = |(index, shard)| {
            let (number, weights) = (sharded.first + index, weights.as_deref().map(Vec::as_slice));
            Mutex::new(WorkerProblem::new(shard, number, model.problems(), &rules, weights))
        };
        let parts: Vec<Mutex<WorkerProblem>> = sharded.shards.into_iter().enumerate().map(part).collect();
        let gossip = if cluster.size() > 1 {
            let graph = cluster.graph(&settings.graph)?;
            let gossip = cluster.gossip::<f64>(&graph, model.weights.len());
            Some(gossip.synchronization(settings.synchronization).build()?)
        } else {
            None
        };
        let data = DatasetInfo { shape: vec![rows, columns], train: trained_on.len(), validation: count };
        let spec = TrainingSpec {
            model: settings.loss.kind(),
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            metric: settings.loss.target_metric(),
            data: data.clone(),
        };
        // A measured choice of algorithm could differ between runs and change the bits.
        let collectives = cluster.communicator()?.with_algorithm(Algorithm::Ring);
        let peer_model = Vec::clone(&model.weights);
        let state = dual_state(&parts, &model, rows, &peer_model, &collectives);
        let training = LinearTraining {
            cluster,
            settings: self,
            examples,
            weights_digest: weights_digest(weights.as_deref().map(Vec::as_slice)),
            validation,
            rules,
            parts,
            validation_shards: if count > 0 { Some(validation_shards) } else { None },
            data,
            collectives,
            gossip,
            peer_model,
            // The size on disk is known before the first epoch.
            snapshot: LinearSnapshot { model, state },
            progress: LinearProgress { epoch: 0, gap: None },
        };
        fit_loop(cluster, training, spec, options)?.try_map(|snapshot| Ok(snapshot.model))
    }
}

struct LinearTraining<'a> {
    cluster: &'a Cluster,
    settings: &'a LinearClassifier,
    examples: &'a LabelledData,
    weights_digest: u64,
    validation: Option<&'a LabelledData>,
    rules: DualProblem,
    /// Problem of each worker of this peer.
    parts: Vec<Mutex<WorkerProblem>>,
    validation_shards: Option<Vec<ExampleShard>>,
    data: DatasetInfo,
    collectives: Communicator,
    /// Gossip averaging between peers; `None` with a single peer.
    gossip: Option<Gossip<f64>>,
    /// Model of this peer.
    peer_model: Vec<f64>,
    snapshot: LinearSnapshot,
    progress: LinearProgress,
}

/// Progress of training, saved in checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct LinearProgress {
    epoch: u32,
    /// Relative duality gap after the last epoch.
    gap: Option<f64>,
}

/// Objective, duality gap and training metrics.
struct DualityCheck {
    objective: f64,
    gap: f64,
    metrics: Metrics,
}

impl TrainingAlgorithm for LinearTraining<'_> {
    type Model = LinearSnapshot;
    type State = LinearProgress;

    fn model(&self) -> &LinearSnapshot {
        &self.snapshot
    }

    fn state(&self) -> LinearProgress {
        self.progress
    }

    fn resume(&mut self, snapshot: LinearSnapshot, progress: LinearProgress) {
        let LinearSnapshot { model, state } = &snapshot;
        self.peer_model.clone_from(&state.peer_model);
        for part in &self.parts {
            let part = &mut *lock(part);
            for (index, row) in part.shard.rows.iter().enumerate() {
                for (problem, duals) in part.duals.iter_mut().enumerate() {
                    duals[index] = state.duals[row * model.problems() + problem];
                }
            }
        }
        self.snapshot = snapshot;
        // The limits may have changed since the checkpoint.
        self.snapshot.model.settings = self.settings.settings.clone();
        self.progress = progress;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        let start = self.cluster.env().now();
        let consistent = self.rounds()?;
        let DualityCheck { objective, gap, mut metrics } = self.check_duality()?;
        self.progress = LinearProgress { epoch: self.progress.epoch + 1, gap: Some(gap) };
        let duration = self.cluster.env().now() - start;
        let LinearSnapshot { model, state } = &mut self.snapshot;
        *state = dual_state(&self.parts, model, self.data.shape[0], &self.peer_model, &self.collectives);
        metrics.insert("gap".to_owned(), gap);
        metrics.extend(consistent.map(|share| ("consistent".to_owned(), share)));
        let note = consistent.filter(|share| *share < 1.0).map(|share| {
            format!("{:.1} % of averages were consistent; peers restart from the exact model", 100.0 * share)
        });
        let updates = self.data.train as u64 * u64::from(self.settings.settings.rounds);
        Ok(EpochResult { note, ..EpochResult::new(objective, metrics, duration, updates) })
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let Some(validation_shards) = &self.validation_shards else { return Ok(None) };
        Ok(Some(self.snapshot.model.metrics(self.cluster, validation_shards)?.1))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        Ok([labelled_digest(self.examples)? ^ self.weights_digest, self.validation.map_or(Ok(0), labelled_digest)?])
    }

    fn finished(&self) -> Option<&'static str> {
        let tolerance = self.settings.settings.tolerance;
        self.progress.gap.filter(|gap| *gap <= tolerance && tolerance > 0.0).map(|_| "converged")
    }

    fn same_bits(&self, before: &ClusterInfo, now: &ClusterInfo) -> bool {
        before == now
    }

    fn explanation(&self) -> Option<String> {
        Some(self.explain())
    }
}

impl LinearTraining<'_> {
    /// *Collective.* Runs the rounds of an epoch; returns the fraction of consistent averages, if
    /// there were any.
    fn rounds(&mut self) -> Result<Option<f64>> {
        let Self { cluster, rules, parts, peer_model, .. } = self;
        let (epoch, rounds) = (self.progress.epoch, self.settings.settings.rounds);
        let before = self.gossip.as_ref().map(|gossip| (gossip.stats().reduces, gossip.stats().consistent));
        let mut changed = vec![0.0; if self.gossip.is_some() { peer_model.len() } else { 0 }];
        let stop = cluster.stop_request();
        for round in 0..rounds {
            cluster.each_worker(|worker| {
                for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                    lock(part).round(rules, (epoch, round), peer_model, stop);
                }
            })?;
            // A round that was cut short is dropped.
            cluster.check_stop()?;
            average(parts, peer_model, &mut changed, cluster.size());
            if let Some(gossip) = &mut self.gossip {
                gossip.average(peer_model)?;
            }
        }
        let Some((reduces, consistent)) = before else {
            self.snapshot.model.weights = Arc::new(peer_model.clone());
            return Ok(None);
        };
        self.collectives.all_reduce(&mut changed, ReduceOp::Sum)?;
        let weights = &mut self.snapshot.model.weights;
        *weights = Arc::new(weights.iter().zip(&changed).map(|(weight, change)| weight + change).collect());
        let gossip = self.gossip.as_ref().expect("gossip averaging exists with several peers");
        let mine = (gossip.stats().reduces - reduces, gossip.stats().consistent - consistent);
        let all: Vec<(u64, u64)> = self.cluster.all_gather(mine)?;
        let (reduces, consistent) = all.iter().fold((0, 0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
        if consistent < reduces {
            self.peer_model.clone_from(&self.snapshot.model.weights);
        }
        Ok(Some(consistent as f64 / reduces.max(1) as f64))
    }

    /// *Collective.* Computes the objective, the duality gap and training metrics.
    fn check_duality(&self) -> Result<DualityCheck> {
        let Self { cluster, rules, parts, snapshot: LinearSnapshot { model, .. }, .. } = self;
        let DualProblem { loss, c, .. } = *rules;
        let sums = cluster.each_worker(|worker| {
            let (mut costs, mut gains, mut metrics) = (0.0, 0.0, ClassificationMetrics::default());
            let mut scores = vec![0.0; model.problems()];
            for part in parts.iter().skip(worker.index()).step_by(worker.count()) {
                let part = lock(part);
                for (index, class) in part.shard.classes.iter().enumerate() {
                    model.scores(&part.shard, index, &mut scores);
                    metrics.add(&scores, *class);
                    let weight = part.weights[index];
                    if let [score] = scores[..] {
                        costs += weight * loss.cost(if *class == 1 { score } else { -score });
                    } else {
                        for (problem, score) in scores.iter().enumerate() {
                            costs += weight * loss.cost(if *class == problem as u32 { *score } else { -score });
                        }
                    }
                }
                gains += part.gain(rules);
            }
            (costs, gains, metrics)
        })?;
        let mine = sums.iter().fold((0.0, 0.0), |sum, worker| (sum.0 + worker.0, sum.1 + worker.1));
        let all: Vec<(f64, f64)> = cluster.all_gather(mine)?;
        let (costs, gains) = all.into_iter().fold((0.0, 0.0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1));
        let metrics: Vec<ClassificationMetrics> = sums.into_iter().map(|worker| worker.2).collect();
        let (_, metrics) = ClassificationMetrics::gather(&metrics, cluster, loss.has_probabilities())?;
        let penalty = 0.5 * model.weights.iter().map(|weight| weight * weight).sum::<f64>();
        let (objective, dual) = (penalty + c * costs, gains - penalty);
        if !objective.is_finite() {
            return Err(Error::NonFiniteObjective.into());
        }
        Ok(DualityCheck { objective, gap: (objective - dual) / objective.max(f64::MIN_POSITIVE), metrics })
    }

    /// Describes the parallelization for `--explain`.
    fn explain(&self) -> String {
        let settings = &self.settings.settings;
        let (peers, workers) = (self.cluster.size(), self.rules.workers);
        let weights = self.snapshot.model.weights.len();
        let mut text = format!(
            "{} rounds per epoch; in each, every worker ({workers} in total) runs dual coordinate ascent over its own examples, \
             from the average model\n  workers of a peer are averaged in memory: {weights} weights",
            settings.rounds
        );
        if peers > 1
            && let Ok(graph) = self.cluster.graph(&settings.graph)
        {
            let bytes = graph.total_bytes_per_step((weights * size_of::<f64>()) as u64);
            let _ = write!(
                text,
                "\n  {peers} peers are averaged over a communication graph of degree at most {} and spectral gap {:.3}: {bytes} bytes per round, {} per epoch\n  \
                 synchronization: {}",
                graph.max_out_degree(),
                graph.spectral_gap(),
                bytes * u64::from(settings.rounds),
                synchronization_name(settings.synchronization),
            );
        }
        text
    }
}

/// Returns the training state: the dual variables of this peer by row, and its model.
fn dual_state(
    parts: &[Mutex<WorkerProblem>],
    model: &LinearModel,
    rows: usize,
    peer_model: &[f64],
    collectives: &Communicator,
) -> LinearState {
    let problems = model.problems();
    let mut duals = vec![0.0; rows * problems];
    for part in parts {
        let part = lock(part);
        for (index, row) in part.shard.rows.iter().enumerate() {
            for (problem, of_problem) in part.duals.iter().enumerate() {
                duals[row * problems + problem] = of_problem[index];
            }
        }
    }
    let (peer_model, duals) = (Arc::new(peer_model.to_vec()), Arc::new(duals));
    LinearState { peer_model, duals, rows, collectives: Some(collectives.clone()) }
}

/// Sets the model of this peer to the mean of its workers' copies. `changed` accumulates the
/// changes of its examples.
fn average(parts: &[Mutex<WorkerProblem>], peer_model: &mut [f64], changed: &mut [f64], peers: usize) {
    let parts: Vec<MutexGuard<'_, WorkerProblem>> = parts.iter().map(lock).collect();
    let (count, peers) = (parts.len() as f64, peers as f64);
    let mut changed = changed.iter_mut();
    for (index, weight) in peer_model.iter_mut().enumerate() {
        let mean = parts.iter().map(|part| part.model[index]).sum::<f64>() / count;
        // Workers move their copies `peers · workers` times as far as their examples say, so the
        // mean has moved `peers` times as far.
        if let Some(changed) = changed.next() {
            *changed += (mean - *weight) / peers;
        }
        *weight = mean;
    }
}

/// A poisoned lock is safe to use: a worker that panics ends the job.
fn lock(part: &Mutex<WorkerProblem>) -> MutexGuard<'_, WorkerProblem> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

fn synchronization_name(synchronization: GossipSync) -> &'static str {
    match synchronization {
        GossipSync::NotifyAck => "NOTIFY-ACK, each peer waits for its neighbours",
        GossipSync::Barrier => "barrier, all peers wait for all",
        GossipSync::Asynchronous => "asynchronous, no peer waits",
    }
}
