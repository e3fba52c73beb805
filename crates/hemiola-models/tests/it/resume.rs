//! Going on from a checkpoint: the same bits as if nothing had happened, or a clear no.

use hemiola::array::synthetic::Mf;
use hemiola_models::MatrixFactorization;
use hemiola_models::mf::{Builder, Model, data};
use hemiola_models::training::{Checkpoints, Every, Progress, Report, Session, Watch, Wish};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Wants the end after an epoch, and remembers what it was told.
#[derive(Default)]
struct Impatient {
    after: Option<u32>,
    notes: Vec<String>,
}

impl Watch for Impatient {
    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn progress(&mut self, progress: &Progress) -> Wish {
        if self.after.is_some_and(|after| progress.epoch >= after) { Wish::Stop } else { Wish::GoOn }
    }
}

/// How to train.
#[derive(Clone)]
struct Run {
    peers: usize,
    workers: usize,
    builder: Builder,
    seed_of_data: u64,
    stop_after: Option<u32>,
}

impl Run {
    /// Overfits, so that the best model is not the newest.
    fn new(epochs: u32) -> Self {
        let builder = MatrixFactorization::builder().rank(12).epochs(epochs).l2(0.0).step(0.3);
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

    /// Trains; the report and the notes of the first peer.
    fn train(&self, folder: &Path, resume: bool) -> hemiola::Result<(Report, Vec<String>)> {
        let mut all = hemiola::standalone(self.peers).workers(self.workers).run(|cluster| {
            let made = Mf::new(60, 40, 1200, 4, self.seed_of_data).noise(0.3);
            let settings = self.builder.clone().limits(hemiola_models::training::Limits {
                epochs: self.epochs(),
                patience: None,
                ..Default::default()
            });
            let settings = settings.build()?;
            let (train, valid) = data::made_up(cluster, &made)?.split(0.1, 1)?;
            let mut watch = Impatient { after: self.stop_after, notes: Vec::new() };
            let checkpoints = Checkpoints::new(folder).resume(resume);
            let session = Session::new().watched(&mut watch).saving(checkpoints);
            let trained = settings.fit_with(cluster, &train, Some(&valid), session)?;
            Ok((trained.report, watch.notes))
        })?;
        Ok(all.swap_remove(0))
    }

    fn epochs(&self) -> u32 {
        self.builder.clone().build().unwrap().settings().limits.epochs
    }
}

/// The files of a save but the manifest, which has times in it.
fn arrays(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), fs::read(&path).unwrap())).filter(|(name, _)| name != "manifest.json").collect()
}

fn figures(report: &Report) -> Vec<(u32, u64, Option<f64>)> {
    let figure = |progress: &Progress| progress.valid.as_ref().map(|valid| valid["rmse"]);
    report.progress.iter().map(|progress| (progress.epoch, progress.objective.to_bits(), figure(progress))).collect()
}

#[test]
fn an_interrupted_training_goes_on_to_the_same_bits() {
    let lab = tempfile::tempdir().unwrap();
    for (peers, workers) in [(1, 1), (1, 3), (3, 1)] {
        let at = |name: &str| lab.path().join(format!("{name}-{peers}-{workers}"));
        let run = Run::new(9).on(peers, workers);
        let (whole, _) = run.train(&at("whole"), false).unwrap();
        assert!(whole.result.best_epoch < 8, "the best is not the newest: {:?}", whole.result);
        assert!(arrays(&at("whole")).keys().any(|name| name.starts_with("resume.")));
        // Before and after the best epoch, and twice.
        for stops in [&[1][..], &[whole.result.best_epoch], &[whole.result.best_epoch + 1, 7]] {
            let folder = at("parts");
            for (turn, stop) in stops.iter().enumerate() {
                let (report, _) = run.clone().stopped_after(*stop).train(&folder, turn > 0).unwrap();
                assert_eq!((report.progress.len(), report.result.was_stopped()), (*stop as usize, true));
            }
            let (parts, notes) = run.train(&folder, true).unwrap();
            assert_eq!(figures(&parts), figures(&whole));
            assert_eq!(notes, [format!("going on after epoch {}", stops[stops.len() - 1])]);
            assert!(arrays(&folder) == arrays(&at("whole")), "{stops:?} on {peers} peers of {workers}");
        }
    }
}

#[test]
fn files_are_the_same_on_as_many_workers_in_all() {
    let lab = tempfile::tempdir().unwrap();
    let saved = |peers: usize, workers: usize| {
        let folder = lab.path().join(format!("{peers}"));
        Run::new(4).on(peers, workers).train(&folder, false).unwrap();
        arrays(&folder)
    };
    assert!(saved(1, 4) == saved(4, 1));
    // Nor does it matter who goes on.
    let mixed = lab.path().join("mixed");
    Run::new(4).on(1, 4).stopped_after(2).train(&mixed, false).unwrap();
    let (_, notes) = Run::new(4).on(2, 2).train(&mixed, true).unwrap();
    assert_eq!(notes, ["going on after epoch 2"]);
    assert!(arrays(&mixed) == arrays(&lab.path().join("4")));
}

#[test]
fn a_finished_training_goes_on_to_more_epochs() {
    let lab = tempfile::tempdir().unwrap();
    let (whole, parts) = (lab.path().join("whole"), lab.path().join("parts"));
    Run::new(8).train(&whole, false).unwrap();
    Run::new(5).train(&parts, false).unwrap();
    Run::new(8).train(&parts, true).unwrap();
    assert!(arrays(&whole) == arrays(&parts));
    // There is nothing left to do: that is told, and nothing is written.
    let before = fs::read(parts.join("manifest.json")).unwrap();
    let (report, notes) = Run::new(8).train(&parts, true).unwrap();
    assert_eq!(notes, ["nothing is left to do after epoch 8; other limits would go on"]);
    assert_eq!((report.progress.len(), &*report.result.ended), (8, "all epochs are done"));
    assert_eq!(fs::read(parts.join("manifest.json")).unwrap(), before);
}

#[test]
fn a_step_that_was_halved_stays_halved() {
    let lab = tempfile::tempdir().unwrap();
    let (whole, parts) = (lab.path().join("whole"), lab.path().join("parts"));
    let mut run = Run::new(4);
    run.builder = run.builder.step(10.0);
    let (report, _) = run.train(&whole, false).unwrap();
    assert!(report.progress[0].note.as_ref().unwrap().contains("half the step"), "{report:?}");
    run.clone().stopped_after(1).train(&parts, false).unwrap();
    run.train(&parts, true).unwrap();
    assert!(arrays(&whole) == arrays(&parts));
}

#[test]
fn other_data_and_other_settings_are_refused_by_name() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let missing = Run::new(2).train(&folder, true).unwrap_err().to_string();
    assert!(missing.contains("there is no checkpoint in"), "{missing}");
    assert!(!folder.exists());
    Run::new(2).train(&folder, false).unwrap();
    let before = arrays(&folder);
    let refused = |run: Run| run.train(&folder, true).unwrap_err().to_string();
    let mut other = Run::new(4);
    other.builder = other.builder.rank(5).seed(9);
    let settings = refused(other);
    assert!(settings.contains("rank was 12 and is 5, seed was 1 and is 9"), "{settings}");
    let mut other = Run::new(4);
    other.seed_of_data = 4;
    let data = refused(other);
    assert!(data.contains("made from other data"), "{data}");
    assert!(arrays(&folder) == before);
}

#[test]
fn other_peers_and_workers_are_told() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    Run::new(2).on(1, 2).train(&folder, false).unwrap();
    let (_, notes) = Run::new(3).on(3, 1).train(&folder, true).unwrap();
    assert!(
        notes[1].starts_with("it was trained by 1 peer of 2 workers and now is by 3 peers of 1 worker"),
        "{notes:?}"
    );
}

#[test]
fn a_model_without_a_journal_and_other_saves_are_told_apart() {
    let lab = tempfile::tempdir().unwrap();
    let (model, other) = (lab.path().join("model"), lab.path().join("other"));
    hemiola::standalone(2)
        .run(|cluster| {
            let ratings = data::made_up(cluster, &Mf::new(60, 40, 1200, 4, 3))?;
            MatrixFactorization::builder().epochs(1).build()?.fit(cluster, &ratings)?.model.save(cluster, &model)?;
            let mut save = hemiola::array::dist::Save::begin(cluster, &other)?;
            save.put("ratings", &ratings)?;
            save.commit()
        })
        .unwrap();
    let told = Run::new(2).train(&model, true).unwrap_err().to_string();
    assert!(told.contains("there is no checkpoint in"), "{told}");
    for resume in [false, true] {
        let told = Run::new(2).on(2, 1).train(&other, resume).unwrap_err().to_string();
        assert!(told.contains("holds arrays, which a model `mf` must not replace"), "{told}");
    }
    // A model is replaced by one of its kind.
    Run::new(2).train(&model, false).unwrap();
}

/// Makes the folder impossible to save to after an epoch, and possible again later.
struct Saboteur<'a> {
    folder: &'a Path,
    notes: Vec<String>,
}

impl Watch for Saboteur<'_> {
    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn progress(&mut self, progress: &Progress) -> Wish {
        // Something else where the save would be staged, which cannot be removed as a folder.
        let staging = self.folder.with_file_name(".model.partial");
        match progress.epoch {
            2 => fs::write(staging, "").unwrap(),
            3 => fs::remove_file(staging).unwrap(),
            _ => {}
        }
        Wish::GoOn
    }
}

#[test]
fn a_checkpoint_that_fails_leaves_the_one_before_and_training_goes_on() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let notes = hemiola::standalone(1)
        .run(|cluster| {
            let ratings = data::made_up(cluster, &Mf::new(60, 40, 1200, 4, 3))?;
            let mut watch = Saboteur { folder: &folder, notes: Vec::new() };
            let checkpoints = Checkpoints::new(&folder).every(Every::Epochs(1));
            let session = Session::new().watched(&mut watch).saving(checkpoints);
            MatrixFactorization::builder().rank(4).epochs(4).build()?.fit_with(cluster, &ratings, None, session)?;
            Model::load(cluster, &folder)?;
            Ok(watch.notes)
        })
        .unwrap();
    assert!(
        notes[0].len() == 1 && notes[0][0].starts_with("the checkpoint after epoch 2 could not be saved"),
        "{notes:?}"
    );
}
