//! Stopping and checkpoints within an epoch, and threads that load batches.

use burn::tensor::Device;
use hemiola_cluster::{Result, StopRequest, StopRequestCause};
use hemiola_nn::data::ImageAugmentation;
use hemiola_nn::data::synthetic::SyntheticImages;
use hemiola_nn::models::MlpConfig;
use hemiola_nn::training::{
    Callback, CheckpointInterval, Checkpoints, FitOptions, NetFit, NetMetric, TrainingLimits, TrainingReport,
};
use hemiola_nn::{Optimizer, StrategySource, Trainer};
use hemiola_strategy::{StrategyBuilder, TableConsistency};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Training run of 12 steps per epoch.
#[derive(Clone)]
struct Run {
    peers: usize,
    epochs: u32,
    strategy: StrategyBuilder,
    loader_threads: usize,
    accumulate: usize,
}

impl Run {
    fn new(peers: usize) -> Self {
        let strategy = StrategyBuilder::AllReduce { chunk: None };
        Self { peers, epochs: 3, strategy, loader_threads: 1, accumulate: 1 }
    }

    /// Trains with a callback and checkpoints on each peer. Returns the report and the weights of peer
    /// 0, and the notes of all peers.
    fn train(
        &self,
        checkpoints: Option<&Checkpoints>,
        callback: impl Fn(usize) -> Watch + Sync,
    ) -> Result<(TrainingReport, Vec<u32>, Vec<Vec<String>>)> {
        let all = SyntheticImages { shape: [1, 6, 6], classes: 4, examples: 120, seed: 3 }.dataset();
        let augmentation = ImageAugmentation { flip: true, crop_padding: 1, seed: 9 };
        let train = all.take(90).augmented(augmentation);
        let test = all.skip(90).normalized_as(&train);
        let results = hemiola_cluster::standalone(self.peers).workers(3).run(|cluster| {
            let device = Device::flex();
            let net = MlpConfig { inputs: 36, hidden: vec![16], classes: 4, seed: 1 };
            let trainer = Trainer::builder(cluster, net.init(&device.clone().autodiff()), Optimizer::adam(0.01))
                .strategy(StrategySource::from(self.strategy));
            let limits = TrainingLimits { epochs: self.epochs, patience: None, ..TrainingLimits::default() };
            let fit = NetFit::new(&train, &device)
                .validation(&test)
                .metric(NetMetric::Accuracy)
                .batch_size(8)
                .limits(limits)
                .accumulate(self.accumulate)
                .loader_threads(self.loader_threads);
            let mut watch = Watch { request: cluster.stop_request().clone(), ..callback(cluster.rank().index()) };
            let mut options = FitOptions::new().with_callback(&mut watch);
            if let Some(checkpoints) = checkpoints {
                options = options.with_checkpoints(checkpoints.clone());
            }
            let fitted = fit.fit_with(trainer, options)?;
            Ok((fitted.report, bits(&fitted.model), watch.notes))
        })?;
        let notes = results.iter().map(|(_, _, notes)| notes.clone()).collect();
        let (report, weights, _) = results.into_iter().next().unwrap();
        Ok((report, weights, notes))
    }
}

fn bits(net: &hemiola_nn::models::Mlp) -> Vec<u32> {
    use burn::module::{Module, ModuleVisitor, Param};
    use burn::tensor::Tensor;
    struct Bits(Vec<u32>);
    impl ModuleVisitor for Bits {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(param.val().into_data().try_to_vec::<f32>().unwrap().into_iter().map(f32::to_bits));
        }
    }
    let mut bits = Bits(Vec::new());
    net.visit(&mut bits);
    bits.0
}

fn losses(report: &TrainingReport) -> Vec<u64> {
    report.progress.iter().map(|epoch| epoch.objective.to_bits()).collect()
}

/// Callback that asks for a stop after some checkpoints, or copies the checkpoint then, as a killed
/// run leaves it.
#[derive(Default)]
struct Watch {
    request: StopRequest,
    checkpoints: u64,
    stop_at: Option<(u64, StopRequestCause)>,
    copy_at: Option<(u64, PathBuf, PathBuf)>,
    notes: Vec<String>,
}

impl Callback for Watch {
    fn on_note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn on_checkpoint(&mut self, _epoch: u32, _duration: Duration) {
        self.checkpoints += 1;
        if let Some((_, from, to)) = self.copy_at.take_if(|(at, _, _)| *at == self.checkpoints) {
            copy(&from, &to);
        }
        if let Some((_, cause)) = self.stop_at.take_if(|(at, _)| *at == self.checkpoints) {
            self.request.adopt(cause);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Request to stop at the first checkpoint.
const REQUEST: (u64, StopRequestCause) = (1, StopRequestCause::Request);

fn every(steps: u64, folder: &Path) -> Checkpoints {
    Checkpoints::new(folder).interval(CheckpointInterval::Steps(steps))
}

#[test]
fn a_run_stopped_within_an_epoch_resumes_with_equal_bits() {
    for (peers, accumulate) in [(1, 1), (1, 3), (2, 1)] {
        let lab = tempfile::tempdir().unwrap();
        let folder = lab.path().join("run");
        let run = Run { accumulate, ..Run::new(peers) };
        let (whole, weights, _) = run.train(None, |_| Watch::default()).unwrap();
        // The second peer alone asks for the stop, at the checkpoint after 5 steps.
        let stop = |rank: usize| Watch { stop_at: (rank + 1 == peers).then_some(REQUEST), ..Watch::default() };
        let (report, _, notes) = run.train(Some(&every(5, &folder)), stop).unwrap();
        assert!(report.result.stopped_by_callback());
        let note = report.progress[0].note.clone().unwrap();
        assert_eq!(note, "stopped in epoch 1 after step 6 of 12");
        assert_eq!((report.progress.len(), &report.progress[0].validation), (1, &None));
        assert!(notes.iter().all(|notes| notes.contains(&note)), "{notes:?}");
        // Twice more: after the checkpoint of step 10, and after that of the epoch.
        let resume = every(5, &folder).resume(true);
        let later = |rank: usize| Watch { stop_at: (rank == 0).then_some(REQUEST), ..Watch::default() };
        let (_, _, notes) = run.train(Some(&resume), later).unwrap();
        assert!(notes[0].contains(&"continuing epoch 1 after step 6 of 12".to_owned()), "{notes:?}");
        let (report, ..) = run.train(Some(&resume), later).unwrap();
        assert_eq!(report.progress[1].note.as_deref(), Some("stopped in epoch 2 after step 1 of 12"));
        let (resumed, again, _) = run.train(Some(&resume), |_| Watch::default()).unwrap();
        assert_eq!(losses(&resumed), losses(&whole), "{peers} peers");
        assert_eq!(again, weights, "{peers} peers");
        assert_eq!(resumed.progress[2].updates, whole.progress[2].updates);
    }
}

#[test]
fn a_killed_run_resumes_at_its_last_checkpoint_with_equal_bits() {
    for peers in [1, 2] {
        let lab = tempfile::tempdir().unwrap();
        let (folder, killed) = (lab.path().join("run"), lab.path().join("killed"));
        let run = Run::new(peers);
        // Checkpoints are after 5 and 10 steps, after the epoch of 12, and after 15 steps.
        let watch = |rank: usize| {
            let copy_at = (rank == 0).then(|| (4, folder.clone(), killed.clone()));
            Watch { copy_at, ..Watch::default() }
        };
        let (whole, weights, _) = run.train(Some(&every(5, &folder)), watch).unwrap();
        assert_eq!(whole.progress.len(), 3);
        let (resumed, again, notes) = run.train(Some(&every(5, &killed).resume(true)), |_| Watch::default()).unwrap();
        assert!(notes[0].contains(&"continuing epoch 2 after step 3 of 12".to_owned()), "{notes:?}");
        assert_eq!((losses(&resumed), again), (losses(&whole), weights), "{peers} peers");
    }
}

#[test]
fn a_time_limit_stops_within_an_epoch() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("run");
    let limit = |rank: usize| {
        let stop_at = (rank == 1).then_some((1, StopRequestCause::TimeLimit));
        Watch { stop_at, ..Watch::default() }
    };
    let (report, ..) = Run::new(2).train(Some(&every(5, &folder)), limit).unwrap();
    assert_eq!(report.result.stop_reason, "time limit reached");
    assert!(report.progress[0].note.as_ref().is_some_and(|note| note.starts_with("stopped in epoch 1")));
    // On another number of peers the sums of the epoch are kept as well.
    let (whole, ..) = Run::new(1).train(None, |_| Watch::default()).unwrap();
    let resume = every(5, &folder).resume(true);
    let (resumed, ..) = Run::new(1).train(Some(&resume), |_| Watch::default()).unwrap();
    assert_eq!(resumed.progress[0].updates, 90);
    let (found, wanted) = (resumed.progress[0].objective, whole.progress[0].objective);
    assert!((found - wanted).abs() < 1e-4, "{found} {wanted}");
}

#[test]
fn asynchronous_peers_stop_and_save_together() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("run");
    let strategy = StrategyBuilder::Tables { consistency: TableConsistency::Async };
    let run = Run { strategy, ..Run::new(3) };
    let stop = |rank: usize| Watch { stop_at: (rank == 2).then_some(REQUEST), ..Watch::default() };
    let checkpoints = every(3, &folder);
    let (report, ..) = run.train(Some(&checkpoints), stop).unwrap();
    assert!(report.result.stopped_by_callback());
    let (resumed, ..) = run.train(Some(&checkpoints.resume(true)), |_| Watch::default()).unwrap();
    assert_eq!((resumed.progress.len(), resumed.progress[2].updates), (3, 270));
}

#[test]
fn bits_do_not_depend_on_the_threads_that_load_batches() {
    for accumulate in [1, 3] {
        let of = |loader_threads| {
            let run = Run { loader_threads, accumulate, ..Run::new(2) };
            let (report, weights, _) = run.train(None, |_| Watch::default()).unwrap();
            (losses(&report), weights)
        };
        let direct = of(0);
        assert_eq!(of(1), direct);
        assert_eq!(of(3), direct);
    }
}

#[test]
fn augmented_images_are_the_same_on_any_number_of_peers() {
    let of = |peers| Run::new(peers).train(None, |_| Watch::default()).unwrap().0.progress;
    let (one, three) = (of(1), of(3));
    for (one, three) in one.iter().zip(&three) {
        assert!((one.objective - three.objective).abs() < 1e-4, "{} {}", one.objective, three.objective);
    }
}
