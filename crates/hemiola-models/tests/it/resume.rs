//! Resuming from a checkpoint: bit-identical results, or a clear error.

use hemiola_array::ArrayExt as _;
use hemiola_array::synthetic::SyntheticMf;
use hemiola_models::mf::{MfBuilder, MfModel, data};
use hemiola_models::prelude::*;
use hemiola_models::training::{Callback, CheckpointInterval, EpochProgress, TrainingControl, TrainingReport};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Callback that stops after an epoch and records its messages.
#[derive(Default)]
struct StoppingCallback {
    after: Option<u32>,
    notes: Vec<String>,
}

impl Callback for StoppingCallback {
    fn on_note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        if self.after.is_some_and(|after| progress.epoch >= after) {
            TrainingControl::Stop
        } else {
            TrainingControl::Continue
        }
    }
}

/// Configuration of a training run.
#[derive(Clone)]
struct RunConfig {
    peers: usize,
    workers: usize,
    builder: MfBuilder,
    seed_of_data: u64,
    stop_after: Option<u32>,
}

impl RunConfig {
    /// Overfits, so that the best model is not the newest.
    fn new(epochs: u32) -> Self {
        let builder = MatrixFactorization::builder().rank(12).epochs(epochs).l2(0.0).learning_rate(0.3);
        Self { peers: 1, workers: 2, builder, seed_of_data: 3, stop_after: None }
    }

    fn on(mut self, peers: usize, workers: usize) -> Self {
        (self.peers, self.workers) = (peers, workers);
        self
    }

    fn stopped_after(mut self, epoch: u32) -> Self {
        self.stop_after = Some(epoch);
        self
    }

    /// Trains; returns the report and the notes of the first peer.
    fn train(&self, folder: &Path, resume: bool) -> hemiola_cluster::Result<(TrainingReport, Vec<String>)> {
        let mut all = hemiola_cluster::standalone(self.peers).workers(self.workers).run(|cluster| {
            let generator = SyntheticMf {
                users: 60,
                items: 40,
                entries: 1200,
                rank: 4,
                noise: 0.3,
                seed: self.seed_of_data,
                ..SyntheticMf::default()
            }
            .generator();
            let settings = self.builder.clone().limits(hemiola_models::training::TrainingLimits {
                epochs: self.epochs(),
                patience: None,
                ..Default::default()
            });
            let settings = settings.build()?;
            let (train, validation) = data::synthetic(cluster, &generator)?.split(0.1, Seed(1))?;
            let mut watch = StoppingCallback { after: self.stop_after, notes: Vec::new() };
            let checkpoints = Checkpoints::new(folder).resume(resume);
            let options = FitOptions::new().with_callback(&mut watch).with_checkpoints(checkpoints);
            let trained = settings.fit_with(cluster, &train, Some(&validation), options)?;
            Ok((trained.report, watch.notes))
        })?;
        Ok(all.swap_remove(0))
    }

    fn epochs(&self) -> u32 {
        self.builder.clone().build().unwrap().settings().limits.epochs
    }
}

/// The files of the newest save except the manifest, which has timestamps.
fn arrays(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(crate::newest_generation(folder)).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), fs::read(&path).unwrap())).filter(|(name, _)| name != "manifest.json").collect()
}

fn metrics(report: &TrainingReport) -> Vec<(u32, u64, Option<f64>)> {
    let rmse = |progress: &EpochProgress| progress.validation.as_ref().map(|validation| validation["rmse"]);
    report.progress.iter().map(|progress| (progress.epoch, progress.objective.to_bits(), rmse(progress))).collect()
}

#[test]
fn interrupted_training_resumes_bit_identically() {
    let lab = tempfile::tempdir().unwrap();
    for (peers, workers) in [(1, 1), (1, 3), (3, 1)] {
        let at = |name: &str| lab.path().join(format!("{name}-{peers}-{workers}"));
        let run = RunConfig::new(9).on(peers, workers);
        let (whole, _) = run.train(&at("whole"), false).unwrap();
        assert!(whole.result.best_epoch < 8, "the best is not the newest: {:?}", whole.result);
        assert!(arrays(&at("whole")).keys().any(|name| name.starts_with("resume.")));
        // Interrupted before and after the best epoch, and twice.
        for stops in [&[1][..], &[whole.result.best_epoch], &[whole.result.best_epoch + 1, 7]] {
            let folder = at("parts");
            for (turn, stop) in stops.iter().enumerate() {
                let (report, _) = run.clone().stopped_after(*stop).train(&folder, turn > 0).unwrap();
                assert_eq!((report.progress.len(), report.result.stopped_by_callback()), (*stop as usize, true));
            }
            let (parts, notes) = run.train(&folder, true).unwrap();
            assert_eq!(metrics(&parts), metrics(&whole));
            assert_eq!(notes, [format!("resuming after epoch {}", stops[stops.len() - 1])]);
            assert!(arrays(&folder) == arrays(&at("whole")), "{stops:?} on {peers} peers of {workers}");
        }
    }
}

#[test]
fn files_are_identical_for_the_same_total_of_workers() {
    let lab = tempfile::tempdir().unwrap();
    let saved = |peers: usize, workers: usize| {
        let folder = lab.path().join(format!("{peers}"));
        RunConfig::new(4).on(peers, workers).train(&folder, false).unwrap();
        arrays(&folder)
    };
    assert!(saved(1, 4) == saved(4, 1));
    // Any cluster of as many workers may resume.
    let mixed = lab.path().join("mixed");
    RunConfig::new(4).on(1, 4).stopped_after(2).train(&mixed, false).unwrap();
    let (_, notes) = RunConfig::new(4).on(2, 2).train(&mixed, true).unwrap();
    assert_eq!(notes, ["resuming after epoch 2"]);
    assert!(arrays(&mixed) == arrays(&lab.path().join("4")));
}

#[test]
fn finished_training_resumes_with_more_epochs() {
    let lab = tempfile::tempdir().unwrap();
    let (whole, parts) = (lab.path().join("whole"), lab.path().join("parts"));
    RunConfig::new(8).train(&whole, false).unwrap();
    RunConfig::new(5).train(&parts, false).unwrap();
    RunConfig::new(8).train(&parts, true).unwrap();
    assert!(arrays(&whole) == arrays(&parts));
    // Nothing is left to do: that is reported, and nothing is written.
    let before = fs::read(parts.join("manifest.json")).unwrap();
    let (report, notes) = RunConfig::new(8).train(&parts, true).unwrap();
    assert_eq!(notes, ["nothing left to do after epoch 8; raise the limits to continue"]);
    assert_eq!((report.progress.len(), &*report.result.stop_reason), (8, "all epochs done"));
    assert_eq!(fs::read(parts.join("manifest.json")).unwrap(), before);
}

#[test]
fn a_halved_learning_rate_stays_halved() {
    let lab = tempfile::tempdir().unwrap();
    let (whole, parts) = (lab.path().join("whole"), lab.path().join("parts"));
    let mut run = RunConfig::new(4);
    run.builder = run.builder.learning_rate(10.0);
    let (report, _) = run.train(&whole, false).unwrap();
    assert!(report.progress[0].note.as_ref().unwrap().contains("half the learning rate"), "{report:?}");
    run.clone().stopped_after(1).train(&parts, false).unwrap();
    run.train(&parts, true).unwrap();
    assert!(arrays(&whole) == arrays(&parts));
}

#[test]
fn other_data_and_settings_are_rejected_by_name() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let missing = RunConfig::new(2).train(&folder, true).unwrap_err().to_string();
    assert!(missing.contains("there is no checkpoint in"), "{missing}");
    assert!(!folder.exists());
    RunConfig::new(2).train(&folder, false).unwrap();
    let before = arrays(&folder);
    let refused = |run: RunConfig| run.train(&folder, true).unwrap_err().to_string();
    let mut other = RunConfig::new(4);
    other.builder = other.builder.rank(5).seed(9);
    let settings = refused(other);
    assert!(settings.contains("rank was 12 and is 5, seed was 1 and is 9"), "{settings}");
    let mut other = RunConfig::new(4);
    other.seed_of_data = 4;
    let data = refused(other);
    assert!(data.contains("made from other data"), "{data}");
    assert!(arrays(&folder) == before);
}

#[test]
fn another_cluster_is_noted() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    RunConfig::new(2).on(1, 2).train(&folder, false).unwrap();
    let (_, notes) = RunConfig::new(3).on(3, 1).train(&folder, true).unwrap();
    assert!(notes[1].starts_with("trained on 1 peer of 2 workers and resumed on 3 peers of 1 worker"), "{notes:?}");
}

#[test]
fn models_without_metadata_and_other_saves_are_distinguished() {
    let lab = tempfile::tempdir().unwrap();
    let (model, other) = (lab.path().join("model"), lab.path().join("other"));
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let ratings = data::synthetic(
                cluster,
                &SyntheticMf { users: 60, items: 40, entries: 1200, rank: 4, seed: 3, ..SyntheticMf::default() }
                    .generator(),
            )?;
            MatrixFactorization::builder().epochs(1).build()?.fit(cluster, &ratings)?.model.save(cluster, &model)?;
            let mut save = hemiola_array::dist::ArraySaver::begin(cluster, &other)?;
            save.put("ratings", &ratings)?;
            save.commit()
        })
        .unwrap();
    let message = RunConfig::new(2).train(&model, true).unwrap_err().to_string();
    assert!(message.contains("there is no checkpoint in"), "{message}");
    for resume in [false, true] {
        let message = RunConfig::new(2).on(2, 1).train(&other, resume).unwrap_err().to_string();
        assert!(message.contains("holds arrays, which a model `mf` must not replace"), "{message}");
    }
    // A model is replaced by one of its kind.
    RunConfig::new(2).train(&model, false).unwrap();
}

/// Blocks saving to the folder after an epoch, and unblocks it later.
struct BlockingCallback<'a> {
    folder: &'a Path,
    notes: Vec<String>,
}

impl Callback for BlockingCallback<'_> {
    fn on_note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        // A file in the place of the folder, which must not be replaced.
        let aside = self.folder.with_file_name("aside");
        match progress.epoch {
            2 => {
                fs::rename(self.folder, &aside).unwrap();
                fs::write(self.folder, "").unwrap();
            }
            3 => {
                fs::remove_file(self.folder).unwrap();
                fs::rename(&aside, self.folder).unwrap();
            }
            _ => {}
        }
        TrainingControl::Continue
    }
}

#[test]
fn a_failed_checkpoint_keeps_the_previous_one_and_training_continues() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let notes = hemiola_cluster::standalone(1)
        .run(|cluster| {
            let ratings = data::synthetic(
                cluster,
                &SyntheticMf { users: 60, items: 40, entries: 1200, rank: 4, seed: 3, ..SyntheticMf::default() }
                    .generator(),
            )?;
            let mut watch = BlockingCallback { folder: &folder, notes: Vec::new() };
            let checkpoints = Checkpoints::new(&folder).interval(CheckpointInterval::Epochs(1));
            let options = FitOptions::new().with_callback(&mut watch).with_checkpoints(checkpoints);
            let settings = MatrixFactorization::builder().rank(4).epochs(4).validation(0.0).build()?;
            settings.fit_with(cluster, &ratings, None, options)?;
            MfModel::load(cluster, &folder)?;
            Ok(watch.notes)
        })
        .unwrap();
    assert!(notes[0].len() == 1 && notes[0][0].starts_with("failed to save the checkpoint after epoch 2"), "{notes:?}");
}

#[test]
fn a_model_with_a_nan_is_refused_by_name_and_of_a_damaged_one_the_model_before_is_loaded() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let synthetic =
                SyntheticMf { users: 30, items: 20, entries: 400, rank: 2, seed: 3, ..SyntheticMf::default() };
            let ratings = data::synthetic(cluster, &synthetic.generator())?;
            let fit = |epochs| {
                let settings = MatrixFactorization::builder().rank(2).epochs(epochs).validation(0.0).build()?;
                Ok::<_, hemiola_cluster::Error>(settings.fit(cluster, &ratings)?.model)
            };
            let (before, newest) = (fit(1)?, fit(2)?);
            before.save(cluster, &folder)?;
            newest.save(cluster, &folder)?;
            if cluster.is_root() {
                fs::write(folder.join("generation-2/item_factors.00000.safetensors"), "torn").unwrap();
            }
            cluster.barrier()?;
            let loaded = MfModel::load(cluster, &folder)?;
            let mut save = hemiola_array::dist::ArraySaver::begin(cluster, &lab.path().join("copy"))?;
            save.put("user_factors", &cluster.from_fn([30, 16], |_| f32::NAN)?)?;
            save.put_metadata("model", &"mf");
            assert_eq!(loaded.item_factors.collect()?, before.item_factors.collect()?);
            save.commit()
        })
        .unwrap();
    let refused = hemiola_cluster::standalone(2)
        .run(|cluster| MfModel::load(cluster, &lab.path().join("copy")).map(drop))
        .unwrap_err()
        .to_string();
    assert!(refused.ends_with("array `user_factors` has an element `NaN`, which no model can use"), "{refused}");
}
