//! Kill-and-resume rounds: training runs on a simulated disk that crashes at a random operation, and
//! resumes from what the crash has left.
//!
//! A round ends with a kill of the process or with a power failure, which loses and tears what was
//! not synced. After several rounds the run is left alone, and the saved arrays must have the bits of
//! an undisturbed run. Sparse regression is not among the models: it chooses its working set anew
//! when it resumes, and so reaches the same optimum by other bits. Nets need the feature `nets`.

use anyhow::Context as _;
use hemiola::Cluster;
use hemiola_array::files::testing::{CrashKind, FileFault, SimFileSystem};
use hemiola_array::save::PartReader;
use hemiola_array::synthetic::SyntheticMf;
use hemiola_core::Seed;
use hemiola_core::rng::SplitMix64;
use hemiola_models::lda::{self, LdaSampler};
use hemiola_models::linear::{self, LinearLoss};
use hemiola_models::mf::{self, MfLoss};
use hemiola_models::prelude::*;
use hemiola_models::training::{Callback, CheckpointInterval, EpochProgress, TrainingControl};
use std::path::PathBuf;

/// Most kills of one training run.
const KILLS_PER_RUN: usize = 5;
const FOLDER: &str = "/jobs/model";

/// Kills, and how many of them were followed by a run with the bits of an undisturbed one.
#[derive(Clone, Debug, Default)]
pub(super) struct KillOutcome {
    pub(super) kills: usize,
    pub(super) bits_equal: usize,
    /// Models that did not end with the bits of an undisturbed run, and the reasons.
    pub(super) differences: Vec<String>,
}

/// Training run with these checkpoints, which ends when the disk is down.
type TrainingRun = dyn Fn(&SimFileSystem, Checkpoints) -> hemiola::Result<()>;

/// A model family on a simulated disk.
struct KilledModel {
    name: &'static str,
    /// Folder of the saved arrays.
    save: PathBuf,
    train: Box<TrainingRun>,
}

impl KilledModel {
    fn new<E: Estimator + Sync + 'static>(
        name: &'static str,
        estimator: E,
        data: fn(&Cluster) -> hemiola_cluster::Result<E::Data>,
    ) -> Self {
        let train = move |disk: &SimFileSystem, checkpoints: Checkpoints| {
            hemiola::standalone(1).workers(2).run(|cluster| {
                let mut callback = StopWhenDown(disk.clone());
                let options = FitOptions::new().with_checkpoints(checkpoints.clone()).with_callback(&mut callback);
                estimator.fit_with(cluster, &data(cluster)?, None, options)?;
                Ok(())
            })?;
            Ok(())
        };
        Self { name, save: FOLDER.into(), train: Box::new(train) }
    }

    /// A net that two peers train.
    #[cfg(feature = "nets")]
    fn mlp() -> Self {
        use hemiola_nn::data::synthetic::SyntheticImages;
        use hemiola_nn::models::{Device, MlpConfig};
        use hemiola_nn::training::NetFit;
        use hemiola_nn::{Optimizer, Trainer};

        let train = |disk: &SimFileSystem, checkpoints: Checkpoints| {
            let examples = SyntheticImages { shape: [1, 6, 6], classes: 4, examples: 120, seed: 3 }.dataset();
            hemiola::standalone(2).workers(1).run(|cluster| {
                let (device, mut callback) = (Device::flex(), StopWhenDown(disk.clone()));
                let options = FitOptions::new().with_checkpoints(checkpoints.clone()).with_callback(&mut callback);
                let config = MlpConfig { inputs: 36, hidden: vec![16], classes: 4, seed: 1 };
                let trainer = Trainer::builder(cluster, config.init(&device.clone().autodiff()), Optimizer::adam(0.01));
                NetFit::new(&examples, &device).batch_size(16).epochs(4).fit_with(trainer, options)?;
                Ok(())
            })?;
            Ok(())
        };
        Self { name: "mlp", save: PathBuf::from(FOLDER).join("net"), train: Box::new(train) }
    }

    /// Trains from the state of the disk. Fails if the disk crashes or refuses to be read.
    fn run(&self, disk: &SimFileSystem) -> anyhow::Result<()> {
        let resume = PartReader::exists_on(&disk.shared(), &self.save);
        let checkpoints =
            Checkpoints::new(FOLDER).on(disk.shared()).interval(CheckpointInterval::Epochs(1)).resume(resume);
        (self.train)(disk, checkpoints)?;
        anyhow::ensure!(!disk.is_down(), "the disk crashed");
        Ok(())
    }

    /// Trains to the end, and returns an error unless the saved arrays are `expected`.
    fn check(&self, disk: &SimFileSystem, expected: &serde_json::Value) -> anyhow::Result<()> {
        self.run(disk)?;
        let saved = self.saved(disk)?;
        anyhow::ensure!(saved == *expected, "its arrays are {saved} instead of {expected}");
        Ok(())
    }

    /// Names, shapes and checksums of the saved arrays.
    fn saved(&self, disk: &SimFileSystem) -> anyhow::Result<serde_json::Value> {
        let reader = PartReader::open_on(&disk.shared(), &self.save)?;
        reader.verify()?;
        Ok(serde_json::to_value(&reader.manifest().arrays)?)
    }
}

/// Callback that ends a run whose machine is down.
struct StopWhenDown(SimFileSystem);

impl Callback for StopWhenDown {
    fn on_epoch_end(&mut self, _: &EpochProgress) -> TrainingControl {
        if self.0.is_down() { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

fn models() -> anyhow::Result<Vec<KilledModel>> {
    let ratings = |cluster: &Cluster| {
        let set = SyntheticMf { users: 60, items: 40, entries: 1200, rank: 4, seed: 3, ..SyntheticMf::default() };
        mf::data::synthetic(cluster, &set.generator())
    };
    let events = |cluster: &Cluster| cluster_events(cluster);
    let examples = |cluster: &Cluster| linear::data::synthetic(cluster, 200, Seed(4));
    let documents = |cluster: &Cluster| lda::data::synthetic(cluster, 40, Seed(5));
    Ok(vec![
        KilledModel::new("mf", MatrixFactorization::builder().rank(4).epochs(4).build()?, ratings),
        KilledModel::new(
            "mf one-class",
            MatrixFactorization::builder().loss(MfLoss::OneClass).rank(4).epochs(4).build()?,
            events,
        ),
        KilledModel::new("svm", LinearClassifier::builder(LinearLoss::Hinge).epochs(4).build()?, examples),
        KilledModel::new("logistic", LinearClassifier::builder(LinearLoss::Logistic).epochs(4).build()?, examples),
        KilledModel::new("lda", TopicModelling::builder(4).sampler(LdaSampler::Exact).sweeps(4).build()?, documents),
        #[cfg(feature = "nets")]
        KilledModel::mlp(),
    ])
}

/// Events: every user has used a third of the items.
fn cluster_events(cluster: &Cluster) -> hemiola_cluster::Result<hemiola_array::DistArray<f32, 2>> {
    use hemiola_array::ArrayExt as _;
    let all = cluster.from_fn([40, 30], |_| 1.0_f32)?;
    all.entries().filter(|[user, item], _| (user * 7 + item * 3) % 3 == 0).materialize()
}

/// Kills training runs of all models in turn, `kills` times in all.
pub(super) fn measure(kills: usize, seed: u64) -> anyhow::Result<KillOutcome> {
    let models = models()?;
    let mut expected = Vec::new();
    for model in &models {
        let disk = SimFileSystem::new(seed);
        model.run(&disk).with_context(|| format!("an undisturbed run of {} fails", model.name))?;
        expected.push((model.saved(&disk)?, disk.operations()));
    }
    let mut random = SplitMix64::new(seed);
    let mut outcome = KillOutcome::default();
    for (model, (saved, operations)) in models.iter().zip(&expected).cycle() {
        let rounds = (1 + random.below(KILLS_PER_RUN)).min(kills - outcome.kills);
        let disk = SimFileSystem::new(random.next_u64());
        for _ in 0..rounds {
            disk.crash_at(disk.operations() + random.below(*operations as usize) as u64);
            if random.below(3) == 0 {
                let fault = if random.below(2) == 0 { FileFault::Io } else { FileFault::NoSpace };
                disk.fail_at(disk.operations() + random.below(*operations as usize) as u64, fault);
            }
            let _ended_early = model.run(&disk);
            disk.restart(if random.below(2) == 0 { CrashKind::Kill } else { CrashKind::PowerLoss });
        }
        outcome.kills += rounds;
        match model.check(&disk, saved) {
            Ok(()) => outcome.bits_equal += rounds,
            Err(problem) => outcome.differences.push(format!("{}: {problem:#}", model.name)),
        }
        if outcome.kills >= kills {
            break;
        }
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    #[test]
    fn killed_runs_resume_to_the_same_bits() {
        let outcome = super::measure(60, 1).unwrap();
        assert_eq!((outcome.kills, outcome.bits_equal), (60, 60), "{:#?}", outcome.differences);
    }
}
