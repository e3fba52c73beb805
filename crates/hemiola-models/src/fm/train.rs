//! Training of factorization machines: epochs of mini-batches, with divergence control.

use super::batch::{ScoreKernel, ScoredExamples};
use super::loss::FmLoss;
use super::model::FmModel;
use super::parameters::FmParameters;
use super::settings::FmSettings;
use super::step::{BatchGradients, FeatureShare, StepKernel, StepRule};
use super::{FactorizationMachine, parameters};
use crate::examples::{BlockedRows, ExampleBlock, FitRows, LabelledFit, shuffled_rows, tree_sum};
use crate::linear::classes;
use crate::memory::ensure_available;
use crate::training::{
    ClusterInfo, EpochResult, Fit, FitOptions, Metrics, TrainingAlgorithm, TrainingSpec, check_same_settings, fit_loop,
};
use crate::{Error, Estimator};
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result, StopPoll};
use hemiola_collective::{Algorithm, CollectiveExt, Communicator, ReduceOp};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Arc;

/// An epoch diverged if its objective is this many times the previous one.
const DIVERGENCE_RATIO: f64 = 2.0;
/// A loss below this is converged, not diverging.
const NEGLIGIBLE_LOSS: f64 = 1e-3;
/// Maximum number of learning-rate halvings before training fails.
const MAX_HALVINGS: u32 = 20;
/// Row of no training example of this peer.
const ABSENT: u32 = u32::MAX;

impl Estimator for FactorizationMachine {
    type Data = LabelledData;
    type Settings = FmSettings;
    type Model = FmModel;

    fn settings(&self) -> &FmSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        examples: &LabelledData,
        validation: Option<&LabelledData>,
        options: FitOptions<'_>,
    ) -> Result<Fit<FmModel>> {
        let settings = &self.settings;
        check_same_settings(cluster, FmModel::KIND, settings)?;
        let fit = LabelledFit::new(examples, validation, (settings.seed, settings.validation))?;
        let targets = TargetScale::of(&fit.trained_on(), settings.loss, &self.names)?;
        let columns = fit.columns();
        let width = parameters::row_width(settings.rank as usize);
        // The parameters, a copy of them to undo an epoch, and the best ones.
        ensure_available(3 * 4 * (columns as u128) * (width as u128 + 4), || {
            format!("a factorization machine of {columns} features and rank {}", settings.rank)
        })?;
        let FitRows { mut train, validation: validation_rows, data } = fit.distribute(cluster)?;
        if settings.normalize {
            train.blocks.iter_mut().for_each(ExampleBlock::normalize);
        }
        let collectives = cluster.communicator()?.with_algorithm(Algorithm::Ring);
        let block = ExampleBlock::concatenated(&train.blocks);
        let counts = feature_counts(&block, columns, &collectives)?;
        let used: Vec<bool> = counts.iter().map(|count| *count > 0).collect();
        let start = FmParameters::start(settings.rank as usize, &used, targets.bias, settings.seed);
        let bounds = balanced_bounds(&counts, cluster.workers());
        let gradients = bounds.windows(2).map(|bounds| BatchGradients::new(bounds[1] - bounds[0])).collect();
        let model = FmModel {
            classes: targets.classes,
            names: if targets.classes.is_some() { self.names.clone() } else { Vec::new() },
            mean: targets.mean,
            deviation: targets.deviation,
            settings: settings.clone(),
            input: self.input.clone(),
            parameters: Arc::new(start),
        };
        let initial_objective = targets.loss.max(initial_loss(cluster, &train, &model, &targets)?);
        let mut local_rows = vec![ABSENT; fit.labels.len()];
        for (index, row) in block.numbers.iter().enumerate() {
            local_rows[*row] = index as u32;
        }
        let spec = TrainingSpec {
            model: FmModel::KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            metric: settings.loss.target_metric(),
            data,
        };
        let training = FmTraining {
            cluster,
            settings,
            fit,
            targets: block.targets.iter().map(|label| targets.target(*label)).collect(),
            block,
            local_rows,
            train: train.examples,
            validation_rows,
            collectives,
            bounds,
            gradients,
            parts: (0..cluster.workers()).map(|_| ScoredExamples::default()).collect(),
            initial_objective,
            model,
            progress: FmProgress { epoch: 0, learning_rate: settings.learning_rate },
        };
        fit_loop(cluster, training, spec, options)
    }
}

/// Conversion of labels to targets.
struct TargetScale {
    classes: Option<[f32; 2]>,
    mean: f64,
    deviation: f64,
    /// Score that predicts the mean target.
    bias: f32,
    /// Loss per example of predicting the mean target.
    loss: f64,
}

impl TargetScale {
    fn of(labels: &[f32], loss: FmLoss, names: &[String]) -> Result<Self, Error> {
        if labels.is_empty() {
            return Err(Error::NoExamples);
        }
        let count = labels.len() as f64;
        match loss {
            FmLoss::Logistic => {
                let [first, second] = classes(labels, names)?[..] else { return Err(Error::NotBinary) };
                let share =
                    labels.iter().filter(|label| (**label + 0.0).total_cmp(&second).is_eq()).count() as f64 / count;
                let bias = (share / (1.0 - share)).ln();
                let loss = -(share * share.ln() + (1.0 - share) * (1.0 - share).ln());
                Ok(Self { classes: Some([first, second]), mean: 0.0, deviation: 1.0, bias: bias as f32, loss })
            }
            FmLoss::Squared => {
                if let Some(row) = labels.iter().position(|label| !label.is_finite()) {
                    return Err(Error::NotFinite { what: "label", row: row + 1, column: None });
                }
                let mean = labels.iter().map(|label| f64::from(*label)).sum::<f64>() / count;
                let square = |label: &f32| (f64::from(*label) - mean).powi(2);
                let deviation = (labels.iter().map(square).sum::<f64>() / count).sqrt();
                // Equal labels have no unit.
                let deviation = if deviation > 1e-12 * mean.abs().max(f64::MIN_POSITIVE) { deviation } else { 1.0 };
                Ok(Self { classes: None, mean, deviation, bias: 0.0, loss: 1.0 })
            }
        }
    }

    fn target(&self, label: f64) -> f32 {
        match self.classes {
            Some([_, second]) => f32::from((label + 0.0).total_cmp(&f64::from(second)).is_eq()),
            None => ((label - self.mean) / self.deviation) as f32,
        }
    }
}

/// *Collective.* Returns the loss per example of the initial model, whose random factors predict
/// something if features are large.
fn initial_loss(cluster: &Cluster, rows: &BlockedRows, model: &FmModel, targets: &TargetScale) -> Result<f64> {
    let (parameters, loss) = (&*model.parameters, model.settings.loss);
    let cost = |index: usize| {
        let (block, mut sums) = (&rows.blocks[index], vec![0.0; parameters.width]);
        let cost = |(row, label): (usize, &f64)| {
            let (columns, values) = block.slices(row);
            let score = parameters.score(columns, values, &mut sums);
            f64::from(loss.slope_and_cost(targets.target(*label), score).1)
        };
        block.targets.iter().enumerate().map(cost).sum::<f64>()
    };
    let sum = tree_sum(cluster, rows, cost, |left, right| left + right)?.unwrap_or(0.0);
    Ok(sum / rows.examples as f64)
}

/// *Collective.* Returns the number of values of each feature, over all peers.
fn feature_counts(block: &ExampleBlock, columns: usize, collectives: &Communicator) -> Result<Vec<i64>> {
    let mut counts = vec![0_i64; columns];
    for column in block.entries().0 {
        counts[*column as usize] += 1;
    }
    collectives.all_reduce(&mut counts, ReduceOp::Sum)?;
    Ok(counts)
}

/// Returns the first feature of each worker, and the end: ranges with nearly equal numbers of
/// values.
fn balanced_bounds(counts: &[i64], workers: usize) -> Vec<usize> {
    // A feature without values costs nothing.
    let total: i64 = counts.iter().sum();
    let (mut bounds, mut sum) = (vec![0], 0_i64);
    for (feature, count) in counts.iter().enumerate() {
        while bounds.len() < workers
            && i128::from(sum) * workers as i128 >= i128::from(total) * bounds.len() as i128
            && sum > 0
        {
            bounds.push(feature);
        }
        sum += count;
    }
    bounds.resize(workers + 1, counts.len());
    bounds
}

struct FmTraining<'a> {
    cluster: &'a Cluster,
    settings: &'a FmSettings,
    fit: LabelledFit<'a>,
    /// Training rows of this peer.
    block: ExampleBlock,
    /// Targets of the training rows of this peer.
    targets: Vec<f32>,
    /// Index in the block by row; [`ABSENT`] for rows of other peers or of the validation set.
    local_rows: Vec<u32>,
    /// Number of training examples of all peers.
    train: usize,
    validation_rows: BlockedRows,
    collectives: Communicator,
    /// First feature of each worker, and the end.
    bounds: Vec<usize>,
    gradients: Vec<BatchGradients>,
    /// Scored examples of each worker.
    parts: Vec<ScoredExamples>,
    /// Loss per example before the first epoch.
    initial_objective: f64,
    model: FmModel,
    progress: FmProgress,
}

/// Progress of training, saved in checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct FmProgress {
    epoch: u32,
    /// Learning rate, which is halved when an epoch diverges.
    learning_rate: f32,
}

impl TrainingAlgorithm for FmTraining<'_> {
    type Model = FmModel;
    type State = FmProgress;

    fn model(&self) -> &FmModel {
        &self.model
    }

    fn state(&self) -> FmProgress {
        self.progress
    }

    fn resume(&mut self, model: FmModel, progress: FmProgress) {
        // The limits may have changed since the checkpoint.
        self.model = FmModel { settings: self.settings.clone(), ..model };
        self.progress = progress;
    }

    /// Runs an epoch; if it diverges, restores the model and repeats it with half the learning rate.
    fn epoch(&mut self, before: Option<f64>) -> Result<EpochResult> {
        let bound = (before.unwrap_or(self.initial_objective) * DIVERGENCE_RATIO).max(NEGLIGIBLE_LOSS);
        let mut note = None;
        for _ in 0..=MAX_HALVINGS {
            let backup = self.model.parameters.clone();
            let start = self.cluster.env().now();
            let objective = self.run_epoch()?;
            let duration = self.cluster.env().now() - start;
            if objective <= bound && self.model.parameters.is_finite() {
                self.progress.epoch += 1;
                let metric = match self.settings.loss {
                    FmLoss::Squared => ("rmse".to_owned(), objective.sqrt() * self.model.deviation),
                    FmLoss::Logistic => ("logloss".to_owned(), objective),
                };
                let (train, updates) = ([metric].into(), self.train as u64);
                return Ok(EpochResult { note, ..EpochResult::new(objective, train, duration, updates) });
            }
            self.model.parameters = backup;
            let learning_rate = &mut self.progress.learning_rate;
            *learning_rate /= 2.0;
            note = Some(format!("the epoch diverged and was repeated with half the learning rate, {learning_rate}"));
        }
        Err(Error::Diverged { learning_rate: self.progress.learning_rate }.into())
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        if self.validation_rows.examples == 0 {
            return Ok(None);
        }
        Ok(Some(self.model.metrics(self.cluster, &self.validation_rows.blocks)?.1))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        self.fit.digests()
    }

    /// The order of all sums is that of the batch.
    fn same_bits(&self, _before: &ClusterInfo, _now: &ClusterInfo) -> bool {
        true
    }

    fn explanation(&self) -> Option<String> {
        let (peers, workers) = (self.cluster.size(), self.cluster.workers());
        let FmSettings { batch_size, rank, .. } = self.settings;
        let mut text = format!(
            "steps of {batch_size} examples: each of {workers} workers of a peer scores a share of them, then updates a share of {} features",
            self.model.columns()
        );
        if peers > 1 {
            let per_example = self.block.entries().0.len() * 8 / self.block.len().max(1) + 4 * (*rank as usize + 4);
            let _ = write!(
                text,
                "\n  {peers} peers exchange the features, the slope and {rank} sums of each example, about {per_example} bytes; \
                 every peer has all parameters"
            );
        }
        Some(text)
    }
}

impl FmTraining<'_> {
    /// *Collective.* Runs an epoch; returns the mean loss of the examples, each before its step.
    fn run_epoch(&mut self) -> Result<f64> {
        let Self { cluster, settings, block, targets, local_rows, collectives, bounds, gradients, parts, .. } = self;
        let order = shuffled_rows(local_rows.len(), settings.seed, self.progress.epoch);
        let rule = StepRule::new(settings, self.progress.learning_rate);
        let parameters = Arc::make_mut(&mut self.model.parameters);
        let (peers, width, loss) = (cluster.size(), parameters.width, settings.loss);
        let arch = pulp::Arch::new();
        let mut total = 0.0_f64;
        let (mut own, mut sequence, mut received) = (Vec::new(), Vec::new(), Vec::new());
        let mut poll = StopPoll::new(cluster);
        cluster.worker_team(|team| {
            for batch in order.chunks(settings.batch_size as usize) {
                poll.check(cluster)?;
                own.clear();
                own.extend(batch.iter().enumerate().filter_map(|(position, row)| {
                    let local = local_rows[*row as usize];
                    (local != ABSENT).then_some((position as u32, local))
                }));
                let (workers, shared) = (team.workers(), &*parameters);
                team.each_with(parts, |worker, part| {
                    let share = |index: usize| index * own.len() / workers;
                    let rows = &own[share(worker)..share(worker + 1)];
                    arch.dispatch(ScoreKernel { part, parameters: shared, block, targets, rows, loss });
                })?;
                let scored = if peers > 1 {
                    received = ScoredExamples::exchange(parts, width, collectives)?;
                    &received[..]
                } else {
                    &parts[..]
                };
                ScoredExamples::order(scored, batch.len(), &mut sequence);
                let mut shares = FeatureShare::split(parameters, bounds, gradients);
                team.each_with(&mut shares, |_, share| {
                    arch.dispatch(StepKernel { share, parts: scored, order: &sequence, width, rule });
                })?;
                let mut slope = 0.0;
                for (part, index) in &sequence {
                    let example = scored[*part as usize].example(*index as usize, width);
                    total += f64::from(example.cost);
                    slope += example.slope;
                }
                parameters.step_bias(slope, self.progress.learning_rate);
            }
            Ok(())
        })?;
        Ok(total / self.train as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_equal_shares_of_the_values() {
        assert_eq!(balanced_bounds(&[5, 5, 5, 5], 2), [0, 2, 4]);
        assert_eq!(balanced_bounds(&[100, 1, 1, 1], 2), [0, 1, 4]);
        assert_eq!(balanced_bounds(&[0, 0], 3), [0, 2, 2, 2]);
        assert_eq!(balanced_bounds(&[7], 1), [0, 1]);
    }
}
