//! `hemiola train` of neural networks, with and without the feature `nets`.

use crate::model::{hemiola, text};

#[cfg(not(feature = "nets"))]
#[test]
fn a_build_without_nets_says_how_to_enable_them() {
    let lab = tempfile::tempdir().unwrap();
    for net in ["mlp", "cnn", "resnet", "lstm", "transformer", "gpt", "ncf"] {
        for rest in ["", "--data x --peers 2 --any-flag 3", "--help"] {
            let ended = hemiola(&lab, &format!("train {net} {rest}"));
            let told = text(&ended.stderr);
            assert_eq!(ended.code, Some(2), "{told}");
            assert!(told.contains("cargo build --release --features nets"), "{told}");
        }
    }
    assert!(text(&hemiola(&lab, "train --help").stdout).contains("transformer"));
}

#[cfg(feature = "nets")]
mod with_nets {
    use super::*;
    use crate::training::{arrays, started};
    use rustix::process::Signal;
    use serde_json::Value;
    use std::fs;
    use tempfile::TempDir;

    /// Command line of a small net that learns quickly.
    const MLP: &str = "train mlp --max-examples 256 --hidden 16 --batch-size 32";

    fn report(lab: &TempDir, arguments: &str) -> Value {
        let ended = hemiola(lab, &format!("{arguments} --report - --quiet"));
        assert_eq!(ended.code, Some(0), "{arguments}: {}", text(&ended.stderr));
        serde_json::from_str(&text(&ended.stdout)).unwrap()
    }

    fn objectives(report: &Value) -> Vec<f64> {
        report["progress"].as_array().unwrap().iter().map(|epoch| epoch["objective"].as_f64().unwrap()).collect()
    }

    #[test]
    fn every_net_learns_synthetic_data() {
        let lab = tempfile::tempdir().unwrap();
        for (net, metric, rest) in [
            ("mlp", "accuracy", "--max-examples 600 --hidden 32"),
            ("cnn", "accuracy", "--max-examples 200 --channels 2,4 --hidden 16"),
            ("resnet", "accuracy", "--max-examples 60 --stages 8,16 --blocks 1 --batch-size 20"),
            ("lstm", "perplexity", "--embedding-size 16 --hidden-size 16 --sequence-length 8 --learning-rate 0.01"),
            (
                "transformer",
                "perplexity",
                "--embedding-size 16 --heads 2 --blocks 1 --sequence-length 8 --learning-rate 0.01",
            ),
            (
                "gpt",
                "perplexity",
                "--embedding-size 16 --heads 2 --blocks 1 --sequence-length 8 --learning-rate 0.01 --label-smoothing 0.05",
            ),
            ("ncf", "rmse", "--embedding-size 4 --hidden 8 --batch-size 2000 --learning-rate 0.01"),
        ] {
            let report = report(&lab, &format!("train {net} {rest} --epochs 2"));
            let objectives = objectives(&report);
            assert_eq!((&report["model"], objectives.len()), (&net.into(), 2));
            assert!(objectives[1] < objectives[0], "{net}: {objectives:?}");
            assert!(report["result"]["validation"][metric].as_f64().unwrap().is_finite(), "{net}: {report}");
        }
    }

    #[test]
    fn peers_train_like_a_single_process() {
        let lab = tempfile::tempdir().unwrap();
        let one = objectives(&report(&lab, &format!("{MLP} --epochs 3")));
        for rest in [
            "--peers 2",
            "--peers 3 --strategy poseidon",
            "--peers 2 --accumulate 3 --strategy parameter-server",
            "--peers 4 --strategy bsp --serving-peers 2",
        ] {
            let many = objectives(&report(&lab, &format!("{MLP} --epochs 3 {rest}")));
            // Floats are summed in another order.
            let near = one.iter().zip(&many).all(|(one, many)| (one - many).abs() < 1e-3 * one);
            assert!(near, "{rest}: {one:?} {many:?}");
        }
    }

    #[test]
    fn every_net_learns_in_mixed_precision() {
        let lab = tempfile::tempdir().unwrap();
        for (net, rest) in [
            ("mlp", "--max-examples 600 --hidden 32"),
            ("resnet", "--max-examples 60 --stages 8,16 --blocks 1 --batch-size 20"),
            ("lstm", "--embedding-size 16 --hidden-size 16 --sequence-length 8 --learning-rate 0.01"),
            ("transformer", "--embedding-size 16 --heads 2 --blocks 1 --sequence-length 8 --learning-rate 0.01"),
            ("ncf", "--embedding-size 4 --hidden 8 --batch-size 2000 --learning-rate 0.01"),
        ] {
            let single = objectives(&report(&lab, &format!("train {net} {rest} --epochs 2")));
            let half = objectives(&report(&lab, &format!("train {net} {rest} --epochs 2 --precision bf16 --peers 2")));
            assert!(half[1] < half[0], "{net}: {half:?}");
            assert!((half[1] - single[1]).abs() < 0.05 * single[1], "{net}: {half:?}, and {single:?}");
        }
    }

    #[test]
    fn training_resumes_from_its_checkpoint() {
        let lab = tempfile::tempdir().unwrap();
        let train = |rest: &str| hemiola(&lab, &format!("{MLP} {rest}"));
        let said = |rest: &str| {
            let ended = train(rest);
            assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
            text(&ended.stdout)
        };
        said("--epochs 2 --output parts");
        let told = said("--epochs 4 --output parts --resume --report run.json");
        assert!(told.contains("resuming after epoch 2") && told.contains("done after epoch 4"), "{told}");
        let run: Value = serde_json::from_slice(&fs::read(lab.path().join("run.json")).unwrap()).unwrap();
        assert_eq!(objectives(&run).len(), 4);
        said("--epochs 4 --output whole");
        let saved = |folder: &str| arrays(&lab.path().join(folder).join("net"));
        assert!(saved("parts") == saved("whole") && !saved("whole").is_empty());
        let told = said("--epochs 4 --output parts --resume");
        assert!(told.contains("nothing left to do after epoch 4"), "{told}");
        // A checkpoint of one peer resumes on two.
        let told = said("--epochs 5 --output parts --resume --peers 2");
        assert!(told.contains("resuming after epoch 4"), "{told}");

        for (rest, expected) in [
            ("--epochs 9 --output parts --resume --lr 0.5", "learning_rate"),
            ("--epochs 9 --output parts --resume --hidden 8", "hidden"),
            ("--epochs 9 --output nowhere --resume", "no checkpoint"),
            ("--epochs 9 --output parts --resume --seed 2", "seed"),
        ] {
            let ended = train(rest);
            assert_eq!(ended.code, Some(2), "{rest}: {}", text(&ended.stdout));
            assert!(text(&ended.stderr).contains(expected), "{rest}: {}", text(&ended.stderr));
        }
        let other = hemiola(&lab, "train cnn --max-examples 64 --output parts");
        assert_eq!(other.code, Some(2));
        assert!(text(&other.stderr).contains("has a net `mlp`"), "{}", text(&other.stderr));
    }

    #[test]
    fn an_interrupted_run_is_saved() {
        let lab = tempfile::tempdir().unwrap();
        let launched = started(&lab, &format!("{MLP} --epochs 1000000 --output net"));
        launched.signal(Signal::INT);
        let ended = launched.end();
        assert_eq!(ended.code, Some(130), "{}", text(&ended.stderr));
        assert!(text(&ended.stdout).contains("--output net --resume"), "{}", text(&ended.stdout));
        assert!(lab.path().join("net/net/manifest.json").is_file());
    }

    #[test]
    fn a_killed_peer_is_reported_and_training_resumes_from_the_checkpoint() {
        let lab = tempfile::tempdir().unwrap();
        // Epochs are long enough that the peer is most likely killed within one.
        let train = "train mlp --max-examples 512 --hidden 256 --batch-size 128 --checkpoint-every 1 --output net";
        let launched = started(&lab, &format!("{train} --epochs 1000000 --peers 2"));
        let children = launched.children();
        let second = children.iter().find(|child| child.variable("HEMIOLA_RANK").as_deref() == Some("1"));
        second.expect("the second peer is running").kill();
        let ended = launched.end();
        let told = text(&ended.stderr);
        assert!(!matches!(ended.code, Some(0) | None), "{told}");
        assert!(told.contains("peer 1") && told.contains("SIGKILL"), "{told}");
        let ended = hemiola(&lab, &format!("{train} --epochs 3 --resume"));
        let told = text(&ended.stdout);
        assert!(told.contains("resuming after epoch") || told.contains("nothing left to do"), "{told}");
        assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    }

    #[test]
    fn invalid_arguments_are_reported_before_data_are_read() {
        let lab = tempfile::tempdir().unwrap();
        fs::create_dir(lab.path().join("empty")).unwrap();
        fs::write(lab.path().join("short.txt"), "a b\n").unwrap();
        fs::write(lab.path().join("strategy.json"), "{").unwrap();
        for (arguments, expected) in [
            ("train mlp --strategy ring", "no strategy builder"),
            ("train mlp --strategy strategy.json", "strategy.json"),
            ("train mlp --momentum 0.9", "--optimizer sgd"),
            ("train mlp --device gpu", "`cuda:N`"),
            ("train mlp --precision f8", "bf16"),
            #[cfg(not(feature = "cuda"))]
            ("train mlp --device cuda", "--features cuda"),
            ("train mlp --data nowhere", "is not a folder"),
            ("train cnn --data empty", "train-images-idx3-ubyte"),
            ("train resnet --stages 12", "multiple of 8"),
            ("train transformer --embedding-size 10 --heads 4", "multiple of"),
            ("train lstm --data short.txt", "it has 3 words"),
            ("train lstm --data empty", "0 files with `train`"),
            ("train ncf --validation 1.5", "from 0 to 0.9"),
            ("train ncf --data nowhere.csv", "nowhere.csv"),
        ] {
            let ended = hemiola(&lab, arguments);
            let told = text(&ended.stderr);
            assert_eq!(ended.code, Some(2), "{arguments}: {told}");
            assert!(told.contains(expected), "{arguments}: {told}");
        }
    }

    #[test]
    fn the_explanation_lists_every_variable() {
        let lab = tempfile::tempdir().unwrap();
        let ended = hemiola(&lab, &format!("{MLP} --epochs 1 --peers 2 --explain"));
        let told = text(&ended.stdout);
        assert!(told.contains("hidden.0.weight") && told.contains("output.bias"), "{told}");
    }
}
