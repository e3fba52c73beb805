//! Runs the Python snippets of the guide.

use hemiola_array::ArrayExt;
use hemiola_array::dist::LabelledData;
use hemiola_models::lda;
use hemiola_models::linear::LinearLoss;
use hemiola_models::mf::data;
use hemiola_models::prelude::*;
use hemiola_testkit::require;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Runs `program` in `folder` and returns its standard output.
fn run(python: &OsStr, folder: &Path, program: &str) -> String {
    let output = Command::new(python).args(["-c", program]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Python snippet of the guide, counted from 0.
fn of_guide(number: usize) -> &'static str {
    let guide = include_str!("../../../../docs/reference/file-formats.md");
    guide.split("```python\n").nth(number + 1).unwrap().split("```").next().unwrap()
}

#[test]
fn python_predictions_match() {
    let python = require!(hemiola_testkit::python(&["safetensors.numpy"]));
    let folder = tempfile::tempdir().unwrap();
    let ratings = folder.path().join("ratings.csv");
    std::fs::write(&ratings, "ann,Alien,5\nann,Brazil,4\nbob,Alien,3\nbob,Caché,1\ncid,Brazil,4\ncid,Caché,5\n")
        .unwrap();
    let predicted = hemiola_cluster::standalone(2)
        .run(|cluster| {
            let ratings = data::read(cluster, None, ratings.to_str().unwrap())?;
            let settings = MatrixFactorization::builder().rank(3).epochs(9).validation(0.0).build()?;
            let model = settings.fit(cluster, &ratings)?.model;
            model.save(cluster, &folder.path().join("model"))?;
            let pair = [model.user("bob").unwrap(), model.item("Caché").unwrap()];
            Ok(model.predict(cluster, &[pair])?[0])
        })
        .unwrap()[0];
    let program = format!("{}\nprint(predict('bob', 'Caché'))", of_guide(0));
    let theirs: f32 = run(&python, folder.path(), &program).parse().unwrap();
    assert!((predicted - theirs).abs() < 1e-5, "{predicted} {theirs}");
}

#[test]
fn python_classes_match() {
    let python = require!(hemiola_testkit::python(&["safetensors.numpy"]));
    let folder = tempfile::tempdir().unwrap();
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let features = cluster.from_fn([30, 3], |[row, column]| if row % 3 == column { 1.0 } else { 0.0 })?;
            let features = features.entries().filter(|_, value| *value > 0.0).materialize()?;
            let labels = cluster.from_fn([30], |[row]| [7.0, -1.5, 2.0][row % 3])?;
            let settings = LinearClassifier::builder(LinearLoss::SquaredHinge).validation(0.0).build()?;
            let trained = settings.fit(cluster, &LabelledData { features, labels })?;
            trained.model.save(cluster, &folder.path().join("model"))
        })
        .unwrap();
    let program = format!("{}\nprint([label(x) for x in np.eye(3)])", of_guide(1));
    assert_eq!(run(&python, folder.path(), &program), "[7.0, -1.5, 2.0]");
}

#[test]
fn python_topic_probabilities_match() {
    let python = require!(hemiola_testkit::python(&["safetensors.numpy"]));
    let folder = tempfile::tempdir().unwrap();
    let found = hemiola_cluster::standalone(2).run(|cluster| {
        let corpus = lda::data::synthetic(cluster, 50, Seed(1))?;
        let model = TopicModelling::builder(4).sweeps(5).build()?.fit(cluster, &corpus)?.model;
        model.save(cluster, &folder.path().join("model"))?;
        Ok((0..4).map(|topic| model.probability(7, topic)).collect::<Vec<f64>>())
    });
    let ours = found.unwrap().remove(0);
    let program = format!("{}\nprint(terms[7], *(float(p) for p in phi[:, 7]))", of_guide(2));
    let printed = run(&python, folder.path(), &program);
    let mut fields = printed.split(' ');
    assert_eq!(fields.next(), Some("word7"));
    for (theirs, ours) in fields.zip(ours) {
        assert!((theirs.parse::<f64>().unwrap() - ours).abs() < 1e-12, "{theirs} {ours}");
    }
}
