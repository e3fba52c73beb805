//! The guide's way to predict in Python, run.

use hemiola::array::dist::Labelled;
use hemiola::prelude::*;
use hemiola_models::linear::Loss;
use hemiola_models::mf::data;
use hemiola_models::{LinearClassifier, MatrixFactorization, TopicModelling, lda};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// A program in a folder, by the `python3` of the path or the one that `HEMIOLA_PYTHON` names; what it prints, or `None` if that lacks packages.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn python(folder: &Path, program: impl FnOnce() -> String) -> Option<String> {
    let python = std::env::var_os("HEMIOLA_PYTHON").unwrap_or_else(|| OsString::from("python3"));
    let run = |program: &str| Command::new(&python).args(["-c", program]).current_dir(folder).output();
    if !run("import safetensors.numpy").is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no python3 with the packages safetensors and numpy");
        return None;
    }
    let output = run(&program()).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A program of the guide, counted from 0.
fn of_guide(number: usize) -> &'static str {
    let guide = include_str!("../../../../docs/models.md");
    guide.split("```python\n").nth(number + 1).unwrap().split("```").next().unwrap()
}

#[test]
fn python_predicts_what_we_predict() {
    let folder = tempfile::tempdir().unwrap();
    let ratings = folder.path().join("ratings.csv");
    std::fs::write(&ratings, "ann,Alien,5\nann,Brazil,4\nbob,Alien,3\nbob,Caché,1\ncid,Brazil,4\ncid,Caché,5\n")
        .unwrap();
    let mut predicted = 0.0;
    let theirs = python(folder.path(), || {
        predicted = hemiola::standalone(2)
            .run(|cluster| {
                let ratings = data::read(cluster, None, ratings.to_str().unwrap())?;
                let settings = MatrixFactorization::builder().rank(3).epochs(9).valid(0.0).build()?;
                let model = settings.fit(cluster, &ratings)?.model;
                model.save(cluster, &folder.path().join("model"))?;
                let pair = [model.user("bob").unwrap(), model.item("Caché").unwrap()];
                Ok(model.predict(cluster, &[pair])?[0])
            })
            .unwrap()[0];
        format!("{}\nprint(predict('bob', 'Caché'))", of_guide(0))
    });
    let Some(theirs) = theirs else { return };
    let theirs: f32 = theirs.parse().unwrap();
    assert!((predicted - theirs).abs() < 1e-5, "{predicted} {theirs}");
}

#[test]
fn python_finds_the_classes_that_we_find() {
    let folder = tempfile::tempdir().unwrap();
    let told = python(folder.path(), || {
        hemiola::standalone(2)
            .run(|cluster| {
                let features = cluster.from_fn([30, 3], |[row, column]| if row % 3 == column { 1.0 } else { 0.0 })?;
                let features = features.entries().filter(|_, value| *value > 0.0).materialize()?;
                let labels = cluster.from_fn([30], |[row]| [7.0, -1.5, 2.0][row as usize % 3])?;
                let settings = LinearClassifier::builder(Loss::SquaredHinge).valid(0.0).build()?;
                let trained = settings.fit(cluster, &Labelled { features, labels })?;
                trained.model.save(cluster, &folder.path().join("model"))
            })
            .unwrap();
        format!("{}\nprint([label(x) for x in np.eye(3)])", of_guide(1))
    });
    assert!(told.is_none_or(|told| told == "[7.0, -1.5, 2.0]"));
}

#[test]
fn python_has_the_probabilities_that_we_have() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = Vec::new();
    let told = python(folder.path(), || {
        let found = hemiola::standalone(2).run(|cluster| {
            let corpus = lda::data::made_up(cluster, 50, 1)?;
            let model = TopicModelling::builder(4).passes(5).build()?.fit(cluster, &corpus)?.model;
            model.save(cluster, &folder.path().join("model"))?;
            Ok((0..4).map(|topic| model.probability(7, topic)).collect::<Vec<f64>>())
        });
        ours.clone_from(&found.unwrap()[0]);
        format!("{}\nprint(terms[7], *(float(p) for p in phi[:, 7]))", of_guide(2))
    });
    let Some(told) = told else { return };
    let mut fields = told.split(' ');
    assert_eq!(fields.next(), Some("word7"));
    for (theirs, ours) in fields.zip(ours) {
        assert!((theirs.parse::<f64>().unwrap() - ours).abs() < 1e-12, "{theirs} {ours}");
    }
}
