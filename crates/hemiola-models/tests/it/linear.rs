//! Linear classifiers: convergence to the minimum on any cluster, and bit-identical resuming.

use hemiola_array::ArrayExt;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{GossipSync, Topology};
use hemiola_models::linear::{LinearBuilder, LinearLoss, LinearModel, data};
use hemiola_models::prelude::*;
use hemiola_models::training::{Callback, EpochProgress, TrainingControl, TrainingLimits};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Labels of the three classes, cyclically.
const LABELS: [f32; 3] = [5.0, -2.0, 7.5];

/// Number of labels that match the cyclic classes.
fn right(labels: impl Iterator<Item = f32>) -> usize {
    labels.zip(LABELS.into_iter().cycle()).filter(|(label, expected)| label.total_cmp(expected).is_eq()).count()
}

const ALL: [LinearLoss; 3] = [LinearLoss::Hinge, LinearLoss::SquaredHinge, LinearLoss::Logistic];

/// Examples of three classes: each has a feature of its own, an uninformative one, and a misleading
/// one.
fn three_classes(cluster: &Cluster, rows: usize) -> Result<LabelledData> {
    let class = |row: usize| row % 3;
    let value = move |row: usize, column: usize| {
        let noise = ((row * 2_654_435_761 + column * 40_503) % 1000) as f32 / 1000.0;
        match column {
            3 => noise,
            4 if row.is_multiple_of(11) => 1.0,
            _ if column == class(row) => 1.0 + noise,
            _ => noise * 0.8,
        }
    };
    let features = cluster.from_fn([rows, 5], |[row, column]| value(row, column))?;
    let features = features.entries().filter(|_, value| *value > 0.3).materialize()?;
    let labels = cluster.from_fn([rows], |[row]| LABELS[class(row)])?;
    Ok(LabelledData { features, labels })
}

fn builder(loss: LinearLoss) -> LinearBuilder {
    LinearClassifier::builder(loss).validation(0.0).tolerance(1e-5).epochs(500)
}

/// Trains on a standalone cluster; returns the result of the first peer.
fn fit(
    (peers, workers): (usize, usize),
    builder: &LinearBuilder,
    examples: impl Fn(&Cluster) -> Result<LabelledData> + Sync,
) -> Fit<LinearModel> {
    let trained = hemiola_cluster::standalone(peers)
        .workers(workers)
        .run(|cluster| builder.clone().build()?.fit(cluster, &examples(cluster)?));
    trained.unwrap().swap_remove(0)
}

fn weights(model: &LinearModel) -> Vec<u64> {
    let of = |problem| model.weights(problem).iter().copied().chain([model.intercept(problem)]).map(f64::to_bits);
    (0..model.problems()).flat_map(of).collect()
}

#[test]
fn every_loss_converges_on_any_cluster() {
    for loss in ALL {
        let of = |division| fit(division, &builder(loss), |cluster| data::synthetic(cluster, 300, Seed(4)));
        let serial = of((1, 1));
        // Weak duality, twice: the minimum is no further below the objective than the gap.
        assert_eq!(serial.report.result.stop_reason, "converged");
        let least = serial.report.result.objective;
        for division in [(1, 3), (3, 1), (2, 2)] {
            let other = of(division);
            assert_eq!(other.report.result.stop_reason, "converged", "{loss:?} {division:?}");
            let ratio = other.report.result.objective / least;
            assert!((ratio - 1.0).abs() < 2e-5, "{loss:?} {division:?}: {ratio}");
        }
    }
}

/// The objective of liblinear, from weights and examples alone.
#[test]
fn the_objective_matches_liblinear() {
    for loss in ALL {
        for bias in [0.0, 1.0, 2.0] {
            let builder = builder(loss).c(0.7).bias(bias).epochs(5);
            let trained = fit((2, 1), &builder, |cluster| data::synthetic(cluster, 100, Seed(2)));
            let examples = hemiola_cluster::standalone(1)
                .run(|cluster| {
                    let examples = data::synthetic(cluster, 100, Seed(2))?;
                    Ok((examples.features.collect()?, examples.labels.collect()?))
                })
                .unwrap()
                .swap_remove(0);
            let model = &trained.model;
            let mut scores = vec![model.intercept(0); 100];
            for ([row, column], value) in examples.0 {
                scores[row] += model.weights(0)[column] * f64::from(value);
            }
            let margins = scores.iter().zip(examples.1).map(|(score, (_, label))| score * f64::from(label));
            let costs: f64 = margins
                .map(|margin| match loss {
                    LinearLoss::Hinge => (1.0 - margin).max(0.0),
                    LinearLoss::SquaredHinge => (1.0 - margin).max(0.0).powi(2),
                    LinearLoss::Logistic => (1.0 + (-margin).exp()).ln(),
                })
                .sum();
            let mut penalty: f64 = model.weights(0).iter().map(|weight| weight * weight).sum();
            if bias > 0.0 {
                // The bias is a feature like any other.
                penalty += (model.intercept(0) / bias).powi(2);
            }
            let expected = 0.5 * penalty + 0.7 * costs;
            let found = trained.report.result.objective;
            assert!((found / expected - 1.0).abs() < 1e-9, "{loss:?} {bias}: {found} {expected}");
            assert!(bias > 0.0 || model.intercept(0) == 0.0);
        }
    }
}

#[test]
fn many_classes_keep_their_labels() {
    for loss in ALL {
        let one = fit((1, 2), &builder(loss).c(10.0), |cluster| three_classes(cluster, 120));
        assert_eq!(one.model.classes, [-2.0, 5.0, 7.5]);
        assert_eq!(one.model.problems(), 3);
        assert!(one.report.progress.last().unwrap().train["accuracy"] > 0.95, "{loss:?}");
        let predicted =
            hemiola_cluster::standalone(2).run(|cluster| one_by_one(cluster, &one.model)).unwrap().swap_remove(0);
        let right = right(predicted.into_iter());
        assert!(right > 114, "{loss:?} {right}");
    }
}

fn one_by_one(cluster: &Cluster, model: &LinearModel) -> Result<Vec<f32>> {
    let examples = three_classes(cluster, 120)?;
    let predicted = model.predict(cluster, &examples.features)?;
    assert_eq!(model.unknown_features(cluster, &examples.features)?, 0);
    assert!(predicted.iter().all(|one| one.scores.len() == 3));
    let evaluated = model.evaluate(cluster, &examples)?;
    let right = right(predicted.iter().map(|one| one.label));
    assert!((evaluated.metrics["accuracy"] - right as f64 / 120.0).abs() < 1e-12);
    Ok(predicted.into_iter().map(|one| one.label).collect())
}

#[test]
fn any_graph_and_synchronization_converges() {
    let examples = |cluster: &Cluster| data::synthetic(cluster, 300, Seed(4));
    let least = fit((1, 1), &builder(LinearLoss::SquaredHinge), examples).report.result.objective;
    let graphs = [Topology::Complete, Topology::Ring, Topology::RootExpander, Topology::Halton { degree: None }];
    for graph in graphs.into_iter().chain([Topology::Chord, Topology::Star]) {
        let name = format!("{graph:?}");
        let trained = fit((5, 1), &builder(LinearLoss::SquaredHinge).graph(graph).tolerance(1e-4), examples);
        let ratio = trained.report.result.objective / least;
        assert!((1.0 - 1e-9..1.0 + 1e-4).contains(&ratio), "{name}: {ratio}");
        assert_eq!(trained.report.progress[0].train["consistent"].to_bits(), 1.0_f64.to_bits());
    }
    for synchronization in [GossipSync::Barrier, GossipSync::Asynchronous] {
        let graph = Topology::RootExpander;
        let builder = builder(LinearLoss::SquaredHinge).graph(graph).synchronization(synchronization).tolerance(1e-4);
        let ratio = fit((5, 1), &builder, examples).report.result.objective / least;
        assert!((1.0 - 1e-9..1.0 + 1e-4).contains(&ratio), "{synchronization:?}: {ratio}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let of = |seed| {
        let builder = builder(LinearLoss::Logistic).graph(Topology::Ring).seed(seed).epochs(3);
        weights(&fit((3, 2), &builder, |cluster| data::synthetic(cluster, 200, Seed(4))).model)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// Callback that stops after an epoch and records its messages.
#[derive(Default)]
struct StopAfterEpoch {
    after: Option<u32>,
    notes: Vec<String>,
}

impl Callback for StopAfterEpoch {
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

fn saved(
    (peers, workers): (usize, usize),
    folder: &Path,
    resume: bool,
    after: Option<u32>,
) -> hemiola_cluster::Result<(Fit<LinearModel>, Vec<String>)> {
    let limits = TrainingLimits { epochs: 7, patience: None, ..TrainingLimits::default() };
    // Peers without consensus are part of the state.
    let builder =
        LinearClassifier::builder(LinearLoss::Hinge).graph(Topology::Ring).rounds(2).tolerance(0.0).limits(limits);
    let mut all = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
        let examples = three_classes(cluster, 90)?;
        let mut watch = StopAfterEpoch { after, notes: Vec::new() };
        let options =
            FitOptions::new().with_callback(&mut watch).with_checkpoints(Checkpoints::new(folder).resume(resume));
        let trained = builder.clone().build()?.fit_with(cluster, &examples, None, options)?;
        Ok((trained, watch.notes))
    })?;
    Ok(all.swap_remove(0))
}

/// The files of a save except the manifest, which has timestamps.
fn arrays(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(crate::newest_generation(folder)).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), fs::read(&path).unwrap())).filter(|(name, _)| name != "manifest.json").collect()
}

#[test]
fn resumed_training_is_bit_identical() {
    let lab = tempfile::tempdir().unwrap();
    for division in [(1, 1), (1, 3), (3, 1), (2, 2)] {
        let at = |name: &str| lab.path().join(format!("{name}-{}-{}", division.0, division.1));
        let (whole, _) = saved(division, &at("whole"), false, None).unwrap();
        assert_eq!(whole.report.progress.len(), 7);
        saved(division, &at("parts"), false, Some(2)).unwrap();
        saved(division, &at("parts"), true, Some(5)).unwrap();
        let (parts, notes) = saved(division, &at("parts"), true, None).unwrap();
        assert_eq!(notes, ["resuming after epoch 5"]);
        assert_eq!(weights(&parts.model), weights(&whole.model));
        assert!(arrays(&at("parts")) == arrays(&at("whole")), "{division:?}");
    }
}

#[test]
fn resuming_on_another_cluster_notes_the_difference() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let (begun, _) = saved((3, 1), &folder, false, Some(4)).unwrap();
    let (ended, notes) = saved((1, 3), &folder, true, None).unwrap();
    assert!(notes[1].contains("not bit-identical"), "{notes:?}");
    assert!(ended.report.result.objective <= begun.report.result.objective * 1.01);
}

#[test]
fn saved_models_load_unchanged() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let trained =
                builder(LinearLoss::Logistic).epochs(4).build()?.fit(cluster, &three_classes(cluster, 60)?)?;
            trained.model.save(cluster, &folder)?;
            let loaded = LinearModel::load(cluster, &folder)?;
            assert_eq!(weights(&loaded), weights(&trained.model));
            assert_eq!(loaded.classes, trained.model.classes);
            Ok(())
        })
        .unwrap();
    let refused =
        hemiola_cluster::standalone(1).run(|cluster| hemiola_models::mf::MfModel::load(cluster, &folder)).unwrap_err();
    assert!(refused.to_string().contains("it is a model `logistic`"), "{refused}");
}

#[test]
fn invalid_examples_are_rejected_on_all_peers() {
    let refused = |examples: &(dyn Fn(&Cluster) -> Result<LabelledData> + Sync)| {
        let run = hemiola_cluster::standalone(2)
            .run(|cluster| builder(LinearLoss::Hinge).build()?.fit(cluster, &examples(cluster)?));
        run.unwrap_err().to_string()
    };
    let with_labels = |label: fn(usize) -> f32| {
        move |cluster: &Cluster| {
            let LabelledData { features, .. } = three_classes(cluster, 5000)?;
            Ok(LabelledData { features, labels: cluster.from_fn([5000], |[row]| label(row))? })
        }
    };
    assert!(refused(&with_labels(|_| 3.0)).contains("have the label 3, and a classifier needs at least two classes"));
    assert!(refused(&with_labels(|row| row as f32)).contains("more than `4096` different values"));
    assert!(refused(&with_labels(|row| if row == 8 { f32::NAN } else { 1.0 })).contains("the label of example `9`"));
    let with_features = |cluster: &Cluster| {
        let LabelledData { features, labels } = three_classes(cluster, 50)?;
        let spoiled = |[row, _]: [usize; 2], value| if row == 30 { f32::INFINITY } else { value };
        Ok(LabelledData { features: features.entries().map(spoiled).materialize()?, labels })
    };
    assert!(refused(&with_features).contains("the feature of example `31` in column"));
}

#[test]
fn rows_without_features_are_examples() {
    let examples = |cluster: &Cluster| {
        let features = cluster.from_fn([8, 1], |_| 1.0_f32)?.entries().filter(|[row, _], _| row < 2).materialize()?;
        Ok(LabelledData { features, labels: cluster.from_fn([40], |[row]| if row < 2 { 1.0 } else { -1.0 })? })
    };
    let trained = fit((2, 1), &builder(LinearLoss::SquaredHinge).c(10.0), examples);
    assert_eq!(trained.report.data.train, 40);
    assert!((trained.report.progress.last().unwrap().train["accuracy"] - 1.0).abs() < 1e-12);
    assert!(trained.model.intercept(0) < -0.9);
}

#[test]
fn validation_uses_a_given_set_or_a_split() {
    let trained = hemiola_cluster::standalone(2)
        .run(|cluster| {
            let (train, validation) =
                (data::synthetic(cluster, 2000, Seed(1))?, data::synthetic(cluster, 200, Seed(1))?);
            let by_share = builder(LinearLoss::Logistic).validation(0.25).epochs(3).build()?.fit(cluster, &train)?;
            let by_files = builder(LinearLoss::Logistic).epochs(3).build()?.fit_with(
                cluster,
                &train,
                Some(&validation),
                FitOptions::new(),
            )?;
            Ok([by_share.report, by_files.report])
        })
        .unwrap()
        .swap_remove(0);
    assert!((400..600).contains(&trained[0].data.validation));
    assert_eq!((trained[1].data.train, trained[1].data.validation), (2000, 200));
    for report in trained {
        let metrics = report.result.validation.unwrap();
        assert!(metrics["accuracy"] > 0.6 && metrics["auc"] > 0.6 && metrics["logloss"] < 0.8, "{metrics:?}");
    }
}

#[test]
fn file_formats_are_detected() {
    let lab = tempfile::tempdir().unwrap();
    let (libsvm, csv) = (lab.path().join("a.libsvm"), lab.path().join("a.csv"));
    fs::write(&libsvm, "+1 1:1 3:2.5\n-1 2:1\n+1\n-1 2:4 3:-1\n").unwrap();
    fs::write(&csv, "1,1,0,2.5\n-1,0,1,0\n1,0,0,0\n-1,0,4,-1\n").unwrap();
    let read = |peers: usize, file: &Path| {
        let all = hemiola_cluster::standalone(peers).run(|cluster| {
            let examples = data::read(cluster, &data::LinearReadOptions::default(), file.to_str().unwrap())?.labelled;
            Ok((examples.features.collect()?, examples.labels.collect()?))
        });
        all.unwrap().swap_remove(0)
    };
    let expected = read(1, &libsvm);
    assert_eq!(expected.0.len(), 5);
    assert_eq!(expected, read(2, &csv));
    assert_eq!(expected, read(1, &csv));
}
