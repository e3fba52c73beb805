//! Training over epochs: evaluation, stopping, checkpoints and resuming.

use burn::tensor::Device;
use hemiola_array::files::testing::{CrashKind, FileFault, SimFileSystem};
use hemiola_array::save::PartReader;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::SplitMix64;
use hemiola_nn::data::ImageDataset;
use hemiola_nn::data::synthetic::SyntheticImages;
use hemiola_nn::models::MlpConfig;
use hemiola_nn::saved::{NetArchitecture, NetDescription, SavedNet};
use hemiola_nn::training::{
    Callback, CheckpointInterval, Checkpoints, EpochProgress, FitOptions, NetFit, NetMetric, TrainingControl,
    TrainingLimits, TrainingReport,
};
use hemiola_nn::{LrSchedule, Optimizer, Trainer, TrainerBuilder};
use hemiola_strategy::{StrategyBuilder, TableConsistency};
use std::path::Path;

fn images() -> [ImageDataset; 2] {
    let all = SyntheticImages { shape: [1, 6, 6], classes: 4, examples: 120, seed: 3 }.dataset();
    let train = all.take(90);
    [train.clone(), all.skip(90).normalized_as(&train)]
}

fn trainer(cluster: &Cluster, device: &Device) -> TrainerBuilder<hemiola_nn::models::Mlp> {
    let net = MlpConfig { inputs: 36, hidden: vec![16], classes: 4, seed: 1 }.init(&device.clone().autodiff());
    Trainer::builder(cluster, net, Optimizer::adam(0.01)).strategy(StrategyBuilder::AllReduce { chunk: None })
}

/// Trains on `peers` peers. Returns the report of peer 0.
fn train<'f>(
    peers: usize,
    set: impl for<'a> Fn(NetFit<'a, ImageDataset>) -> NetFit<'a, ImageDataset> + Sync,
    options: impl Fn() -> FitOptions<'f> + Sync,
) -> Result<TrainingReport> {
    let [train, test] = images();
    let reports = hemiola_cluster::standalone(peers).run(|cluster| {
        let device = Device::flex();
        let fit = NetFit::new(&train, &device).name("mlp").validation(&test).metric(NetMetric::Accuracy);
        let fit = set(fit.batch_size(16));
        let trainer = trainer(cluster, &device).schedule(LrSchedule::constant());
        Ok(fit.fit_with(trainer, options())?.report)
    })?;
    Ok(reports.into_iter().next().unwrap())
}

fn curve(report: &TrainingReport) -> Vec<(u64, u64)> {
    let bits = |epoch: &EpochProgress| {
        let accuracy = epoch.validation.as_ref().unwrap()["accuracy"];
        (epoch.objective.to_bits(), accuracy.to_bits())
    };
    report.progress.iter().map(bits).collect()
}

/// Peers that serve get no examples, hold all served variables, and have the net at the end.
#[test]
fn serving_peers_hold_the_variables_of_those_that_train() {
    let [train, test] = images();
    let fit_on = |peers: usize, serving: usize, builder: StrategyBuilder| {
        hemiola_cluster::standalone(peers).run(|cluster| {
            let device = Device::flex();
            let fit = NetFit::new(&train, &device).name("mlp").validation(&test).metric(NetMetric::Accuracy);
            let trainer = trainer(cluster, &device).strategy(builder).serving_peers(serving);
            let fitted = fit.batch_size(16).epochs(3).fit(trainer)?;
            Ok((fitted.report, fitted.trainer.trains()))
        })
    };
    let tables = |consistency| StrategyBuilder::Tables { consistency };
    let synchronous =
        [StrategyBuilder::Balanced, tables(TableConsistency::Bsp), StrategyBuilder::AllReduce { chunk: None }];
    let expected = fit_on(2, 0, StrategyBuilder::Balanced).unwrap().remove(0).0;
    for builder in synchronous.into_iter().chain([tables(TableConsistency::Ssp(1)), tables(TableConsistency::Async)]) {
        let fitted = fit_on(4, 2, builder).unwrap();
        assert_eq!(fitted.iter().map(|(_, trains)| *trains).collect::<Vec<_>>(), [true, true, false, false]);
        for (report, _) in &fitted {
            let (found, expected) = (report.result.objective, expected.result.objective);
            let tolerance = if synchronous.contains(&builder) { 1e-4 } else { 0.5 };
            assert!((found - expected).abs() < tolerance, "{builder}: {found} instead of {expected}");
            assert_eq!(report.progress[2].updates, 3 * 90, "every example is used once in an epoch");
        }
    }
    let error = fit_on(2, 2, StrategyBuilder::Balanced).unwrap_err().to_string();
    assert!(error.contains("it names no replicas, so no peer trains"), "{error}");
    let error = fit_on(2, 1, StrategyBuilder::GOSSIP[0]).unwrap_err().to_string();
    assert!(error.contains("gossip averages the copies of all peers, and some do not train"), "{error}");
}

#[test]
fn a_resumed_run_has_the_bits_of_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    for peers in [1, 2] {
        let whole = train(peers, |fit| fit.epochs(4), FitOptions::new).unwrap();
        assert_eq!((whole.progress.len(), whole.result.stop_reason.as_str()), (4, "all epochs done"));
        assert!(whole.result.objective < whole.progress[0].objective);
        assert_eq!((whole.model.as_str(), whole.progress[3].updates, &whole.data.shape), ("mlp", 4 * 90, &vec![90]));
        let checkpointed = |resume| {
            let every = Checkpoints::new(&folder).interval(CheckpointInterval::Epochs(1)).resume(resume);
            FitOptions::new().with_checkpoints(every)
        };
        train(peers, |fit| fit.epochs(2), || checkpointed(false)).unwrap();
        let resumed = train(peers, |fit| fit.epochs(4), || checkpointed(true)).unwrap();
        assert_eq!(curve(&resumed), curve(&whole));
        let complete = train(peers, |fit| fit.epochs(3), || checkpointed(true)).unwrap();
        assert_eq!(curve(&complete), curve(&whole));
    }
    let manifest = std::fs::read(folder.join("net/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["metadata"]["model"], "mlp");
    assert_eq!(manifest["metadata"]["training"]["progress"].as_array().unwrap().len(), 4);

    let resume = || FitOptions::new().with_checkpoints(Checkpoints::new(&folder).resume(true));
    let refused = |error: Result<TrainingReport>, expected: &str| {
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(train(1, |fit| fit.seed(2), resume), "seed was 1 and is 2");
    refused(train(1, |fit| fit.name("cnn"), resume), "has a net `mlp`");
    refused(
        train(2, |fit| fit.validation(None::<&ImageDataset>), resume),
        "there were 30 validation entries and are 0",
    );
    let nowhere = || FitOptions::new().with_checkpoints(Checkpoints::new(folder.join("nowhere")).resume(true));
    refused(train(1, |fit| fit, nowhere), "no checkpoint");
}

/// Notes of a run.
#[derive(Default)]
struct Notes(Vec<String>);

impl Callback for Notes {
    fn on_note(&mut self, note: &str) {
        self.0.push(note.to_owned());
    }
}

#[test]
fn a_run_resumed_on_another_number_of_peers_says_that_its_bits_differ() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let [examples, _] = images();
    let notes_on = |peers, epochs, resume| {
        let notes = hemiola_cluster::standalone(peers).run(|cluster| {
            let (device, mut notes) = (Device::flex(), Notes::default());
            let checkpoints = Checkpoints::new(&folder).resume(resume);
            let options = FitOptions::new().with_callback(&mut notes).with_checkpoints(checkpoints);
            let fit = NetFit::new(&examples, &device).name("mlp").batch_size(16).epochs(epochs);
            fit.fit_with(trainer(cluster, &device), options)?;
            Ok(notes.0)
        });
        notes.unwrap().remove(0)
    };
    let differs = |note: &String| note.contains("equally good, but not bit-identical");
    assert!(!notes_on(1, 1, false).iter().any(differs));
    assert!(!notes_on(1, 2, true).iter().any(differs));
    let notes = notes_on(2, 3, true);
    assert!(notes.iter().any(|note| differs(note) && note.contains("trained on 1 peer")), "{notes:?}");
}

/// Callback that ends a run whose machine is down.
struct StopWhenDown(SimFileSystem);

impl Callback for StopWhenDown {
    fn on_epoch_end(&mut self, _: &EpochProgress) -> TrainingControl {
        if self.0.is_down() { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

#[test]
fn a_run_that_is_killed_at_any_operation_of_its_disk_resumes_to_the_same_bits() {
    let [examples, _] = images();
    let train = |disk: &SimFileSystem| {
        let resume = PartReader::exists_on(&disk.shared(), Path::new("/jobs/run/net"));
        let curves = hemiola_cluster::standalone(2).run(|cluster| {
            let (device, mut stop) = (Device::flex(), StopWhenDown(disk.clone()));
            let checkpoints =
                Checkpoints::new("/jobs/run").on(disk.shared()).interval(CheckpointInterval::Epochs(1)).resume(resume);
            let options = FitOptions::new().with_callback(&mut stop).with_checkpoints(checkpoints);
            let fit = NetFit::new(&examples, &device).batch_size(16).epochs(3);
            let report = fit.fit_with(trainer(cluster, &device), options)?.report;
            Ok(report.progress.iter().map(|epoch| epoch.objective.to_bits()).collect::<Vec<u64>>())
        });
        curves.map(|mut curves| curves.remove(0))
    };
    let undisturbed = SimFileSystem::new(0);
    let expected = train(&undisturbed).unwrap();
    let operations = undisturbed.operations() as usize;
    for seed in 0..12 {
        let (disk, mut random) = (SimFileSystem::new(seed), SplitMix64::new(seed));
        for _ in 0..2 {
            disk.crash_at(disk.operations() + random.below(operations) as u64);
            if random.below(2) == 0 {
                disk.fail_at(disk.operations() + random.below(operations) as u64, FileFault::NoSpace);
            }
            let _ended_early = train(&disk);
            disk.restart(if seed % 2 == 0 { CrashKind::Kill } else { CrashKind::PowerLoss });
        }
        assert_eq!(train(&disk).unwrap(), expected, "schedule {seed}");
    }
}

/// Puts a file in the place of the checkpoint in the second epoch, and removes it in the third.
struct BlockingDisk<'a>(&'a std::path::Path, Vec<String>);

impl Callback for BlockingDisk<'_> {
    fn on_warning(&mut self, warning: &str) {
        self.1.push(warning.to_owned());
    }

    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        let (net, aside) = (self.0.join("net"), self.0.join("net.aside"));
        match progress.epoch {
            2 => {
                std::fs::rename(&net, &aside).unwrap();
                std::fs::write(&net, "in the way").unwrap();
            }
            3 => {
                std::fs::remove_file(&net).unwrap();
                std::fs::rename(&aside, &net).unwrap();
            }
            _ => {}
        }
        TrainingControl::Continue
    }
}

#[test]
fn a_failed_checkpoint_warns_and_the_next_one_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let [train, _] = images();
    let warnings = hemiola_cluster::standalone(1).run(|cluster| {
        let device = Device::flex();
        let mut disk = BlockingDisk(&folder, Vec::new());
        let checkpoints = Checkpoints::new(&folder).interval(CheckpointInterval::Epochs(1));
        let options = FitOptions::new().with_callback(&mut disk).with_checkpoints(checkpoints);
        NetFit::new(&train, &device).epochs(4).fit_with(trainer(cluster, &device), options)?;
        Ok(disk.1)
    });
    let warnings = &warnings.unwrap()[0];
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("failed to save the checkpoint after epoch 2"),
        "{warnings:?}"
    );
    let epochs = hemiola_cluster::standalone(2).run(|cluster| {
        let device = Device::flex();
        let options = FitOptions::new().with_checkpoints(Checkpoints::new(&folder).resume(true));
        Ok(NetFit::new(&train, &device).epochs(4).fit_with(trainer(cluster, &device), options)?.report.progress.len())
    });
    assert_eq!(epochs.unwrap(), [4, 4]);
}

#[test]
fn a_run_that_was_killed_before_its_first_checkpoint_does_not_occupy_the_folder() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("run");
    let run = |epochs, resume| {
        let options = || FitOptions::new().with_checkpoints(Checkpoints::new(&folder).resume(resume));
        train(1, |fit| fit.epochs(epochs), options).unwrap().progress.len()
    };
    // What a kill within the first checkpoint leaves.
    std::fs::create_dir_all(folder.join(".net.partial/generation-1")).unwrap();
    std::fs::write(folder.join(".net.partial/generation-1/values.x.00000.safetensors"), "half").unwrap();
    assert_eq!(run(1, false), 1);
    // A second run is killed within its first checkpoint: that of the first run is still there.
    std::fs::create_dir(folder.join("net/generation-2")).unwrap();
    assert_eq!(run(2, true), 2);
    assert_eq!(run(1, false), 1);
    std::fs::write(lab.path().join("thesis.txt"), "").unwrap();
    let occupied = || FitOptions::new().with_checkpoints(Checkpoints::new(lab.path()));
    let refused = train(1, |fit| fit, occupied).unwrap_err().to_string();
    assert!(refused.contains("is not a saved net"), "{refused}");
}

#[test]
fn of_a_damaged_checkpoint_the_one_before_is_resumed_and_an_edited_history_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let every_epoch = |resume| {
        let checkpoints = Checkpoints::new(&folder).interval(CheckpointInterval::Epochs(1)).resume(resume);
        FitOptions::new().with_checkpoints(checkpoints)
    };
    let whole = train(1, |fit| fit.epochs(3), || every_epoch(false)).unwrap();
    let manifest = folder.join("net/manifest.json");
    let newest = std::fs::read_to_string(&manifest).unwrap();
    let generation = folder.join("net").join(format!("generation-{}", newest.matches("\"epoch\"").count()));
    let values = |entry: &std::path::PathBuf| entry.to_string_lossy().contains("values.");
    let parts = std::fs::read_dir(&generation).unwrap().map(|entry| entry.unwrap().path());
    std::fs::write(parts.into_iter().find(values).unwrap(), "torn").unwrap();
    let resumed = train(1, |fit| fit.epochs(3), || every_epoch(true)).unwrap();
    assert_eq!(curve(&resumed), curve(&whole), "it repeats the last epoch");

    for file in [manifest, generation.with_file_name("generation-4").join("manifest.json")] {
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replacen("\"evaluation_seconds\": ", "\"evaluation_seconds\": 1", 1)).unwrap();
    }
    std::fs::remove_dir_all(folder.join("net/generation-2")).unwrap_or_default();
    std::fs::remove_dir_all(folder.join("net/generation-3")).unwrap_or_default();
    let refused = train(1, |fit| fit.epochs(3), || every_epoch(true)).unwrap_err().to_string();
    assert!(refused.contains("manifest.json") && refused.contains("is not a complete save"), "{refused}");
}

#[test]
fn limits_stop_training() {
    let early =
        train(1, |fit| fit.limits(TrainingLimits { epochs: 500, ..TrainingLimits::default() }), FitOptions::new);
    let early = early.unwrap();
    assert_eq!(early.result.stop_reason, "no improvement of the validation metric");
    let target = TrainingLimits { target: Some(0.3), patience: None, ..TrainingLimits::default() };
    let reached = train(2, |fit| fit.limits(target.clone()).accumulate(3), FitOptions::new).unwrap();
    assert_eq!(reached.result.stop_reason, "target reached");
    assert!(reached.result.validation.unwrap()["accuracy"] >= 0.3);
}

#[test]
fn a_callback_of_one_peer_stops_all() {
    struct Second(bool, Vec<String>);
    impl Callback for Second {
        fn on_explanation(&mut self, explanation: &str) {
            self.1.push(explanation.to_owned());
        }
        fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
            if self.0 && progress.epoch == 2 { TrainingControl::Stop } else { TrainingControl::Continue }
        }
    }
    let [train, _] = images();
    let epochs = hemiola_cluster::standalone(2).run(|cluster| {
        let device = Device::flex();
        let mut callback = Second(!cluster.is_root(), Vec::new());
        let options = FitOptions::new().with_callback(&mut callback);
        let fitted = NetFit::new(&train, &device).fit_with(trainer(cluster, &device), options)?;
        assert!(fitted.report.result.stopped_by_callback() && callback.1[0].contains("output.weight"));
        assert_eq!(fitted.trainer.steps(), 2 * 2);
        Ok(fitted.report.progress.len())
    });
    assert_eq!(epochs.unwrap(), [2, 2]);
}

#[test]
fn peers_with_different_data_are_refused() {
    let refused = hemiola_cluster::standalone(2).run(|cluster| {
        let device = Device::flex();
        let seed = cluster.rank().index() as u64;
        let train = SyntheticImages { shape: [1, 6, 6], classes: 4, examples: 20, seed }.dataset();
        NetFit::new(&train, &device).fit(trainer(cluster, &device)).map(drop)
    });
    assert!(refused.unwrap_err().to_string().contains("peer 1 and peer 0 have different data"));
    let refused = hemiola_cluster::standalone(1).run(|cluster| {
        let device = Device::flex();
        NetFit::new(&images()[0].take(0), &device).fit(trainer(cluster, &device)).map(drop)
    });
    assert!(refused.unwrap_err().to_string().contains("no examples"));
}

#[test]
fn a_net_saved_without_a_description_says_how_to_add_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("run");
    let refused = |expected: &str| {
        let error = SavedNet::open(&folder).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    refused("has no saved net");
    let options = |resume| {
        let checkpoints = Checkpoints::new(&folder).resume(resume);
        move || FitOptions::new().with_checkpoints(checkpoints.clone())
    };
    train(1, |fit| fit.epochs(1), options(false)).unwrap();
    refused("resume its training, or train it again");

    let [examples, test] = images();
    let sizes = |hidden| MlpConfig { inputs: 36, hidden: vec![hidden], classes: 4, seed: 1 };
    let described = |hidden, epochs| {
        let architecture = NetArchitecture::Mlp(sizes(hidden));
        let description = NetDescription { architecture, input: (&examples).into() };
        train(2, |fit| fit.epochs(epochs).description(description.clone()), options(true)).unwrap()
    };
    let report = described(16, 2);
    let net = SavedNet::open(&folder).unwrap();
    let evaluation = net.image_classifier(&Device::flex()).unwrap().evaluate(&test).unwrap();
    let validation = report.result.validation.unwrap();
    assert_eq!(evaluation.metrics["accuracy"].to_bits(), validation["accuracy"].to_bits());
    assert!((evaluation.metrics["loss"] - validation["loss"]).abs() < 1e-6);
    let error = net.rating_model(&Device::flex()).unwrap_err().to_string();
    assert!(error.contains("is of the kind `mlp`, and a model of users and items is needed"), "{error}");
    // Sizes that contradict the weights take no memory.
    described(1 << 40, 3);
    refused("its weights are 660 numbers, and its sizes make");
}
