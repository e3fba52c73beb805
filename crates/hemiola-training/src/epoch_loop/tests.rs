//! Tests of the loop with a learner whose epochs are written down.

use super::*;
use crate::{CheckpointInterval, DatasetInfo, TargetMetric, TrainingLimits};

/// Learner whose validation errors are given, and whose model is the number of its last epoch.
#[derive(Clone, Debug)]
struct Script {
    errors: Vec<f64>,
    epoch: usize,
    best: Option<usize>,
    keeps_best: bool,
    /// Best and newest model of each save.
    saves: Vec<(usize, usize)>,
    last: Option<CheckpointMetadata>,
    failing_saves: usize,
}

impl Script {
    fn new(errors: &[f64], keeps_best: bool) -> Self {
        let (epoch, best, saves) = (0, None, Vec::new());
        Self { errors: errors.to_vec(), epoch, best, keeps_best, saves, last: None, failing_saves: 0 }
    }
}

impl EpochLearner for Script {
    fn epoch(&mut self, before: Option<f64>) -> Result<EpochResult> {
        assert_eq!(before.is_some(), self.epoch > 0);
        self.epoch += 1;
        Ok(EpochResult::new(1.0, Metrics::new(), Duration::from_secs(1), 10))
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        Ok(Some([("rmse".to_owned(), self.errors[self.epoch - 1])].into()))
    }

    fn save(&mut self, _folder: &Path, metadata: CheckpointMetadata) -> Result<()> {
        if self.failing_saves > 0 {
            self.failing_saves -= 1;
            return Err(crate::Error::DataMismatch { difference: "the disk is full".to_owned() }.into());
        }
        let best = if metadata.separate_newest { self.best.expect("a best model is kept") } else { self.epoch };
        self.saves.push((best, self.epoch));
        self.last = Some(metadata);
        Ok(())
    }

    fn keeps_best(&self) -> bool {
        self.keeps_best
    }

    fn keep_best(&mut self) {
        self.best = Some(self.epoch);
    }

    fn survives_failed_save(&self, error: &Error) -> bool {
        matches!(error, Error::Layer { .. })
    }
}

/// Notes and warnings of a run.
#[derive(Default)]
struct Notes(Vec<String>);

impl Callback for Notes {
    fn on_note(&mut self, note: &str) {
        self.0.push(note.to_owned());
    }
}

fn spec<'a>(limits: &'a TrainingLimits, settings: &'a Value) -> TrainingSpec<'a, Value> {
    let data = DatasetInfo { shape: vec![2], train: 10, validation: 5 };
    TrainingSpec { model: "script", settings, seed: 1, limits, metric: TargetMetric::minimize("rmse"), data }
}

fn limits(epochs: u32) -> TrainingLimits {
    TrainingLimits { epochs, patience: None, ..TrainingLimits::default() }
}

/// Trains one epoch after the other; returns the report, the learner and the notes.
fn train(learner: &Script, epochs: u32) -> Result<(TrainingReport, Script, Vec<String>)> {
    let limits = limits(epochs);
    let mut results = hemiola_cluster::standalone(1).run(|cluster| {
        let (mut learner, mut notes) = (learner.clone(), Notes::default());
        let every = Checkpoints::new("unused").interval(CheckpointInterval::Epochs(1));
        let mut run = EpochLoop::new(cluster, spec(&limits, &Value::Null)).checkpoints(every, [7, 8]);
        let mut end = None;
        if let Some(metadata) = learner.last.take() {
            run.check(&metadata)?;
            end = run.resume(metadata, &learner, &mut notes);
        }
        let end = match end {
            Some(end) => end,
            None => run.run(&mut learner, &mut notes)?,
        };
        Ok((run.report(end)?, learner, notes.0))
    })?;
    Ok(results.remove(0))
}

#[test]
fn the_best_epoch_is_the_result_if_the_learner_keeps_it() {
    let errors = [0.5, 0.3, 0.4, 0.35];
    let (report, learner, _) = train(&Script::new(&errors, true), 4).unwrap();
    assert_eq!((report.result.best_epoch, report.result.stop_reason.as_str()), (2, "all epochs done"));
    assert_eq!(learner.saves, [(1, 1), (2, 2), (2, 3), (2, 4)]);
    let (report, learner, _) = train(&Script::new(&errors, false), 4).unwrap();
    assert_eq!((report.result.best_epoch, report.progress[3].updates), (4, 40));
    assert_eq!(learner.saves, [(1, 1), (2, 2), (3, 3), (4, 4)]);
}

#[test]
fn a_resumed_run_has_the_history_of_the_first() {
    for keeps_best in [true, false] {
        let errors = [0.3, 0.5, 0.4, 0.35];
        let (_, learner, _) = train(&Script::new(&errors, keeps_best), 2).unwrap();
        let (report, learner, notes) = train(&learner, 4).unwrap();
        assert_eq!(notes, ["resuming after epoch 2"]);
        let (whole, ..) = train(&Script::new(&errors, keeps_best), 4).unwrap();
        assert_eq!(report.result.best_epoch, whole.result.best_epoch);
        let plain = |report: &TrainingReport| -> Vec<(u32, u64)> {
            report.progress.iter().map(|epoch| (epoch.epoch, epoch.updates)).collect()
        };
        assert_eq!(plain(&report), plain(&whole));
        let (report, _, notes) = train(&learner, 4).unwrap();
        assert_eq!(report.progress.len(), 4);
        assert_eq!(notes, ["nothing left to do after epoch 4; raise the limits to continue"]);
    }
}

#[test]
fn a_failed_save_is_a_warning_unless_it_is_the_last() {
    let failing = |count| Script { failing_saves: count, ..Script::new(&[0.3, 0.2, 0.1], true) };
    let (_, learner, notes) = train(&failing(2), 3).unwrap();
    assert_eq!((learner.saves, notes.len()), (vec![(3, 3)], 2));
    assert!(notes[0].starts_with("failed to save the checkpoint after epoch 1: "), "{}", notes[0]);
    let error = train(&failing(3), 3).unwrap_err().to_string();
    assert!(error.contains("the disk is full"), "{error}");
}

#[test]
fn other_settings_or_data_are_refused() {
    let limits = limits(1);
    let (_, learner, _) = train(&Script::new(&[0.3], true), 1).unwrap();
    let metadata = learner.last.unwrap();
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let settings = serde_json::json!({ "rank": 4 });
            let run = EpochLoop::new(cluster, spec(&limits, &settings));
            let error = run.check(&metadata).unwrap_err().to_string();
            assert!(error.contains("rank was unset and is 4"), "{error}");
            let settings = serde_json::json!([4, 2]);
            let run = EpochLoop::new(cluster, spec(&limits, &settings));
            let error = run.check(&metadata).unwrap_err().to_string();
            assert!(error.contains("the settings were null and are [4,2]"), "{error}");
            let run = EpochLoop::new(cluster, spec(&limits, &Value::Null)).checkpoints(Checkpoints::new("x"), [7, 9]);
            let error = run.check(&metadata).unwrap_err().to_string();
            assert!(error.contains("the validation entries have changed"), "{error}");
            Ok(())
        })
        .unwrap();
}

/// Learner whose time is over in the second epoch, which ends there with a result or with none.
struct OutOfTime<'a> {
    cluster: &'a Cluster,
    epochs: u32,
    end: Option<EpochEnd>,
}

impl EpochLearner for OutOfTime<'_> {
    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        self.epochs += 1;
        let result = EpochResult::new(1.0, Metrics::new(), Duration::from_millis(1), 10);
        if self.epochs < 2 {
            return Ok(result);
        }
        self.cluster.stop_request().adopt(StopRequestCause::TimeLimit);
        match self.end.clone() {
            Some(end) => Ok(EpochResult { end, ..result }),
            None => Err(Error::Stopped),
        }
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        Ok(None)
    }

    fn save(&mut self, _folder: &Path, _metadata: CheckpointMetadata) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_time_limit_is_the_reason_of_its_stop_and_ends_with_the_run() {
    let limits = TrainingLimits { seconds: Some(1e6), ..limits(9) };
    let ends = [(None, 1), (Some(EpochEnd::Partial), 2), (Some(EpochEnd::Within("epoch 2".to_owned())), 2)];
    for (end, epochs) in ends {
        let found = hemiola_cluster::standalone(1).run(|cluster| {
            let mut learner = OutOfTime { cluster, epochs: 0, end: end.clone() };
            let mut run = EpochLoop::new(cluster, spec(&limits, &Value::Null));
            let reason = run.run(&mut learner, &mut crate::NoCallback)?;
            Ok((reason, run.progress().len(), cluster.stop_request().cause()))
        });
        assert_eq!(found.unwrap(), [(TIME_LIMIT_REACHED.to_owned(), epochs, None)], "{end:?}");
    }
}
