//! Training over epochs: evaluation, stopping, checkpoints and resuming.

use burn::tensor::Device;
use hemiola_cluster::{Cluster, Result};
use hemiola_nn::data::ImageDataset;
use hemiola_nn::data::synthetic::SyntheticImages;
use hemiola_nn::models::MlpConfig;
use hemiola_nn::training::{
    Callback, CheckpointInterval, Checkpoints, EpochProgress, FitOptions, NetFit, NetMetric, TrainingControl,
    TrainingLimits, TrainingReport,
};
use hemiola_nn::{LrSchedule, Optimizer, Trainer, TrainerBuilder};
use hemiola_strategy::StrategyBuilder;

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
    // Six steps per epoch; only the newest journal is left.
    assert!(folder.join("journal-24.json").is_file() && !folder.join("journal-18.json").exists());

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
