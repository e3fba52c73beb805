//! `hemiola show`, `hemiola doctor` and `hemiola examples`.

use crate::model::text;
use crate::support::{command, launch, subcommand};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn json(folder: &Path, line: &str) -> Value {
    let ended = command(folder, line);
    assert_eq!(ended.code, Some(0), "{line}: {}", text(&ended.stderr));
    serde_json::from_str(&text(&ended.stdout)).unwrap()
}

/// Trains a model in `folder`, and fails the test if that fails.
fn train(folder: &Path, flags: &str) {
    let ended = command(folder, &format!("train {flags} --output model -q --workers 1"));
    assert_eq!(ended.code, Some(0), "{flags}: {}", text(&ended.stderr));
}

#[test]
fn every_kind_of_model_is_described() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path();
    for line in [
        "data make mf --output ratings.csv --header --ratings 3000",
        "data make logistic --output examples.libsvm --rows 300",
        "data make lasso --output lasso.libsvm --rows 60 --columns 40 --support 4",
    ] {
        assert_eq!(command(folder, line).code, Some(0), "{line}");
    }
    let kinds = [
        ("mf --data ratings.csv --rank 4 --epochs 3", "mf", "matrix factorization", "rank 4"),
        ("svm --data examples.libsvm --epochs 2", "svm", "linear support vector machine", "c 1"),
        ("logistic --data examples.libsvm --epochs 2", "logistic", "logistic regression", "c 1"),
        ("logistic --penalty l1 --data examples.libsvm --epochs 2", "sparse-logistic", "L1 penalty", "l1 ratio 1"),
        ("lasso --data lasso.libsvm --alpha 0.1 --epochs 5", "lasso", "lasso", "lambda value 0.1"),
        ("elastic-net --data lasso.libsvm --epochs 5", "elastic-net", "elastic net", "l1 ratio 0.5"),
        ("fm --data examples.libsvm --rank 4 --epochs 2", "fm", "factorization machine", "rank 4"),
        ("ridge --data lasso.libsvm --alpha 0.5", "ridge", "ridge regression", "alpha 0.5"),
        ("softmax --data examples.libsvm --epochs 2", "softmax", "softmax regression", "c 1"),
        ("kmeans --data lasso.libsvm -k 3", "kmeans", "k-means", "clusters 3"),
        ("lda --epochs 2", "lda", "topic model (LDA)", "topics 20"),
    ];
    for (flags, kind, title, settings) in kinds {
        let _ = fs::remove_dir_all(folder.join("model"));
        train(folder, flags);
        let model = json(folder, "show model --json --verify");
        assert_eq!(model["kind"], kind, "{model}");
        assert!(model["training"]["epochs"].as_u64().unwrap() >= 1, "{model}");
        assert!(model["training"]["objective"].is_f64() && model["bytes"].as_u64().unwrap() > 0, "{model}");
        assert_eq!((&model["format"], &model["training"]["peers"]), (&1.into(), &1.into()), "{model}");
        let said = text(&command(folder, "show model").stdout);
        for expected in [title, settings, "objective ", "seed 1", "in `model`"] {
            assert!(said.contains(expected), "{kind}: no {expected:?} in\n{said}");
        }
    }
}

#[test]
fn data_layout_metrics_and_checkpoints_are_shown() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path();
    assert_eq!(command(folder, "data make mf --output ratings.csv --header --ratings 3000").code, Some(0));
    let flags = "mf --data ratings.csv --rank 4 --patience 0 --checkpoint-every 1";
    train(folder, &format!("{flags} --epochs 2"));
    train(folder, &format!("{flags} --epochs 4 --resume"));
    let model = json(folder, "show model --json");
    assert_eq!(model["training"]["epochs"], 4, "{model}");
    assert_eq!(model["training"]["train_entries"], 2698, "{model}");
    assert!(model["training"]["validation"]["rmse"].is_f64(), "{model}");
    assert_eq!(model["generations"].as_array().unwrap().len(), 2, "the newest and the one before: {model}");
    assert_eq!(model["input"]["header"], true, "{model}");
    let said = text(&command(folder, "show model --verify").stdout);
    for expected in
        ["user `user`, item `item`, rating `rating`", "2,698 entries", "validation rmse", "are as they were saved"]
    {
        assert!(said.contains(expected), "no {expected:?} in\n{said}");
    }

    // One changed byte is found by its checksum.
    let part =
        fs::read_dir(folder.join("model")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let newest = part.max().unwrap();
    let file = fs::read_dir(newest).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.extension().is_some_and(|ending| ending == "safetensors")).min().unwrap();
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let ended = command(folder, "show model --verify");
    assert!(ended.code != Some(0) && text(&ended.stderr).contains("safetensors"), "{}", text(&ended.stderr));
}

#[test]
fn a_folder_without_a_model_gets_a_hint() {
    let lab = tempfile::tempdir().unwrap();
    let ended = command(lab.path(), "show elsewhere");
    let said = text(&ended.stderr);
    assert!(ended.code == Some(2) && said.contains("hemiola train MODEL --output DIR"), "{said}");
}

#[test]
fn models_of_another_kind_get_a_hint() {
    let lab = tempfile::tempdir().unwrap();
    train(lab.path(), "svm --epochs 1");
    for line in ["recommend --model model --user 1", "similar --model model --item 1"] {
        let ended = command(lab.path(), line);
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains("needs a matrix factorization"), "{said}");
        assert!(said.contains("hint: `hemiola predict --model DIR --data FILES` predicts classes"), "{said}");
    }
}

#[cfg(feature = "nets")]
#[test]
fn nets_are_described_and_named_where_they_cannot_be_used() {
    let lab = tempfile::tempdir().unwrap();
    train(lab.path(), "mlp --max-examples 200 --epochs 1 --hidden 8");
    let model = json(lab.path(), "show model --json");
    assert_eq!(model["kind"], "mlp", "{model}");
    assert_eq!(model["parameters"], 28 * 28 * 8 + 8 + 8 * 10 + 10, "{model}");
    assert_eq!(model["strategy"]["builder"], "cheapest", "{model}");
    let said = text(&command(lab.path(), "show model").stdout);
    for expected in
        ["multilayer perceptron", "hidden [8]", "strategy    cheapest", "learning rate 0.001", "batch size 64"]
    {
        assert!(said.contains(expected), "no {expected:?} in\n{said}");
    }
    for (line, expected) in [
        ("recommend --model model --user 1", "is of the kind `mlp`, and a model of users and items is needed"),
        ("coefficients --model model", "is a neural net"),
    ] {
        let ended = command(lab.path(), line);
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains(expected), "{said}");
    }
}

#[test]
fn the_doctor_finds_this_machine_fit_and_a_wrong_job_a_problem() {
    let lab = tempfile::tempdir().unwrap();
    let report = json(lab.path(), "doctor --json");
    let states: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|check| check["state"].as_str().unwrap()).collect();
    assert!(states.len() > 8 && states.iter().all(|state| ["ok", "note"].contains(state)), "{report}");
    assert!(report["facts"]["cores"]["workers"].as_u64().unwrap() >= 1, "{report}");
    assert!(report["facts"]["network"]["loopback"]["Ok"].as_f64().unwrap() > 0.0, "{report}");

    let said = text(&command(lab.path(), "doctor").stdout);
    assert!(
        said.lines().any(|line| line.starts_with("ok       memory") || line.starts_with("note     memory")),
        "{said}"
    );
    let incomplete = launch(subcommand("doctor").env("RANK", "1").current_dir(lab.path())).end();
    let said = text(&incomplete.stdout);
    assert_eq!(incomplete.code, Some(1), "{said}");
    assert!(said.contains("problem  job") && said.contains("WORLD_SIZE"), "{said}");
    let peer = [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29555")];
    let peer = launch(subcommand("doctor").envs(peer).current_dir(lab.path())).end();
    assert!(text(&peer.stdout).contains("rank 1 of 4 by torchrun"), "{}", text(&peer.stdout));
    // The secret itself is never printed.
    let secret = "correct-horse-battery-staple-0123";
    let ended = launch(subcommand("doctor").arg("--json").env("HEMIOLA_SECRET", secret)).end();
    assert!(!text(&ended.stdout).contains(secret) && text(&ended.stdout).contains("from HEMIOLA_SECRET"));
}

/// Runs the commands that `hemiola examples NAME` prints, in an empty folder.
fn run_examples(name: &str) {
    let lab = tempfile::tempdir().unwrap();
    let printed = command(lab.path(), &format!("examples {name}"));
    assert_eq!(printed.code, Some(0), "{}", text(&printed.stderr));
    let printed = text(&printed.stdout);
    let bin = Path::new(env!("CARGO_BIN_EXE_hemiola")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(bin.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let commands: Vec<&str> = printed.lines().map(str::trim).filter(|line| line.starts_with("hemiola ")).collect();
    assert!(!commands.is_empty(), "{printed}");
    for line in commands {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).env("PATH", path.as_ref().unwrap()).current_dir(lab.path());
        shell.stdin(std::process::Stdio::null());
        let ended = launch(&mut shell).end();
        assert_eq!(ended.code, Some(0), "{line}\n{}{}", text(&ended.stdout), text(&ended.stderr));
        assert!(
            !text(&ended.stdout).is_empty() || line.contains("--report") || line.contains("--output"),
            "{line} prints nothing"
        );
    }
}

#[test]
fn the_examples_of_a_recommender_run() {
    run_examples("recommender");
}

#[test]
fn the_examples_of_topics_run() {
    run_examples("topics");
}

#[test]
fn the_examples_of_a_classifier_run() {
    run_examples("classifier");
}

#[test]
fn the_examples_of_a_regression_run() {
    run_examples("regression");
}

#[test]
fn the_examples_of_plots_run() {
    run_examples("plots");
}

#[test]
fn the_examples_of_clicks_run() {
    run_examples("clicks");
}

#[test]
fn the_examples_of_groups_run() {
    run_examples("groups");
}

#[test]
fn the_examples_of_processes_run() {
    run_examples("processes");
}

#[test]
fn the_examples_of_checkpoints_run() {
    run_examples("checkpoints");
}

#[cfg(feature = "nets")]
#[test]
fn the_examples_of_nets_run() {
    run_examples("nets");
}

#[cfg(feature = "sim")]
#[test]
fn the_examples_of_a_simulation_run() {
    run_examples("simulation");
}

#[test]
fn every_job_has_a_test_and_models_lead_to_jobs() {
    let lab = tempfile::tempdir().unwrap();
    let all = text(&command(lab.path(), "examples").stdout);
    let (_, names) = all.rsplit_once("with NAME one of ").unwrap();
    let tested = [
        "recommender",
        "topics",
        "classifier",
        "regression",
        "clicks",
        "groups",
        "nets",
        "plots",
        "processes",
        "checkpoints",
        "simulation",
    ];
    assert_eq!(names.trim().split(", ").collect::<Vec<_>>(), tested, "add a test of the examples");
    let mf = text(&command(lab.path(), "examples mf").stdout);
    assert!(mf.contains("hemiola train mf --data ratings.csv"), "{mf}");
    let ended = command(lab.path(), "examples recomender");
    assert!(ended.code == Some(2) && text(&ended.stderr).contains("did you mean `recommender`"));
}
