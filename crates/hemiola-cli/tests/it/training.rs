//! Behaviour shared by all models: checkpoints, signals, checks before training, completions.

use crate::model::{hemiola, lab, text};
use crate::support::{Ended, Launched, launch, subcommand};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Returns the files of the newest save of a model except the manifest, which contains times.
pub(crate) fn arrays(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let newest = folder.join(format!("generation-{}", manifest["generation"]));
    let files = fs::read_dir(newest).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (name(&path), fs::read(&path).unwrap())).filter(|(name, _)| name != "manifest.json").collect()
}

pub(crate) const TRAIN: &str = "train mf --data ratings.csv --rank 4 --patience 0 --workers 1";

/// Starts a command and returns after its second epoch.
pub(crate) fn started(lab: &TempDir, arguments: &str) -> Launched {
    let mut words = arguments.split_whitespace();
    let launched = launch(subcommand(words.next().unwrap()).args(words).current_dir(lab.path()));
    while !launched.line().contains("epoch   2/") {}
    launched
}

/// Returns the epoch of the interrupt, and the printed command to resume.
fn interruption(ended: &Ended) -> (u32, String) {
    let told = text(&ended.stdout);
    let after = |words: &str| {
        let start = told.find(words).unwrap_or_else(|| panic!("`{words}` is printed: {told}")) + words.len();
        told[start..].lines().next().unwrap().to_owned()
    };
    let epoch = after("interrupted after epoch ").split(';').next().unwrap().parse().unwrap();
    (epoch, after("to resume").split_once(": ").unwrap().1.to_owned())
}

/// Interrupts a long run, resumes it for three epochs, and compares the model with that of an
/// uninterrupted run.
fn assert_resume_is_bit_identical(before: &str, options: &str) {
    let lab = lab();
    let train = |rest: &str| format!("{before} {TRAIN} {options} {rest}");
    let launched = started(&lab, &train("--epochs 1000000 --output parts"));
    launched.signal(Signal::INT);
    let ended = launched.end();
    assert_eq!(ended.code, Some(130), "{}", text(&ended.stderr));
    let (epoch, command) = interruption(&ended);
    assert!(command.ends_with("--epochs 1000000 --output parts --resume"), "{command}");
    let more = epoch + 3;
    let resumed = hemiola(&lab, &train(&format!("--epochs {more} --output parts --resume")));
    let told = text(&resumed.stdout);
    assert_eq!(resumed.code, Some(0), "{}", text(&resumed.stderr));
    assert!(told.contains(&format!("resuming after epoch {epoch}")), "{told}");
    assert!(told.contains(&format!("done after epoch {more}: all epochs done")), "{told}");
    let whole = hemiola(&lab, &train(&format!("--epochs {more} --output whole")));
    assert_eq!(whole.code, Some(0), "{}", text(&whole.stderr));
    assert!(arrays(&lab.path().join("parts")) == arrays(&lab.path().join("whole")));
}

#[test]
fn an_interrupted_run_resumes_to_a_bit_identical_model() {
    assert_resume_is_bit_identical("", "");
}

#[test]
fn an_interrupted_run_on_local_peers_resumes_to_a_bit_identical_model() {
    assert_resume_is_bit_identical("", "--peers 2");
}

#[test]
fn an_interrupted_run_under_a_launcher_resumes_to_a_bit_identical_model() {
    assert_resume_is_bit_identical(&format!("run -n 2 -- {}", env!("CARGO_BIN_EXE_hemiola")), "");
}

#[test]
fn the_printed_resume_command_works() {
    let lab = lab();
    fs::rename(lab.path().join("ratings.csv"), lab.path().join("it's rated.csv")).unwrap();
    let mut command = subcommand("train");
    command.args(["mf", "--data", "it's rated.csv", "--patience", "0", "--epochs", "1000000", "--output", "a model"]);
    let launched = launch(command.current_dir(lab.path()));
    while !launched.line().contains("epoch   2/") {}
    launched.signal(Signal::TERM);
    let ended = launched.end();
    assert_eq!(ended.code, Some(143));
    let (epoch, command) = interruption(&ended);
    // The printed command, with another number of epochs.
    let command = command.replace("1000000", &(epoch + 1).to_string());
    let mut shell = std::process::Command::new("sh");
    let resumed = launch(shell.args(["-c", &command]).current_dir(lab.path())).end();
    assert_eq!(resumed.code, Some(0), "{command}: {}", text(&resumed.stderr));
    assert!(text(&resumed.stdout).contains(&format!("resuming after epoch {epoch}")));
}

#[test]
fn an_interrupt_without_output_says_that_nothing_was_saved() {
    let lab = lab();
    let launched = started(&lab, &format!("{TRAIN} --epochs 1000000"));
    launched.signal(Signal::INT);
    let ended = launched.end();
    assert_eq!(ended.code, Some(130));
    assert!(text(&ended.stdout).contains("nothing was saved"), "{}", text(&ended.stdout));
    assert!(text(&ended.stderr).contains("Ctrl-C again stops at once"), "{}", text(&ended.stderr));
}

#[test]
fn a_second_signal_stops_at_once() {
    let lab = lab();
    // An epoch over many ratings of high rank takes far longer than two signals.
    let mut many = String::new();
    (0..400_000).for_each(|n| writeln!(many, "{},{},{}", n % 2000, n / 2000, 1 + n % 5).unwrap());
    fs::write(lab.path().join("many.csv"), many).unwrap();
    let arguments = "train mf --data many.csv --rank 4096 --workers 1 --output model --epochs 1";
    let mut words = arguments.split_whitespace();
    let launched = launch(subcommand(words.next().unwrap()).args(words).current_dir(lab.path()));
    // The first line is printed after the data are loaded.
    assert!(launched.line().contains("ratings of 2000 users"));
    launched.signal(Signal::INT);
    launched.error_line();
    launched.signal(Signal::INT);
    assert_eq!(launched.end().code, Some(130));
    assert!(!lab.path().join("model").exists());
}

#[test]
fn checkpoints_are_saved_during_training() {
    let lab = lab();
    let launched = started(&lab, &format!("{TRAIN} --epochs 1000000 --output model --checkpoint-every 1"));
    launched.signal(Signal::KILL);
    assert_eq!(launched.end().code, None);
    let used = hemiola(&lab, "recommend --model model --user person-2 -k 1");
    assert_eq!(used.code, Some(0), "{}", text(&used.stderr));
    let manifest = fs::read_to_string(lab.path().join("model/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let epochs = manifest["metadata"]["training"]["progress"].as_array().unwrap().len();
    let resumed = hemiola(&lab, &format!("{TRAIN} --epochs {} --output model --resume", epochs + 1));
    assert_eq!(resumed.code, Some(0), "{}", text(&resumed.stderr));
    assert!(text(&resumed.stdout).contains(&format!("resuming after epoch {epochs}")));
}

#[test]
fn an_impossible_resume_is_refused_before_data_are_read() {
    let lab = lab();
    let made = hemiola(&lab, &format!("{TRAIN} --epochs 2 --output model -q"));
    assert_eq!(made.code, Some(0));
    // The data do not exist, so an error about the checkpoint must come before they are read.
    let elsewhere = TRAIN.replace("ratings.csv", "missing.csv");
    let cases = [
        (format!("{elsewhere} --output nothing --resume"), "there is no checkpoint in `nothing` to resume from"),
        (format!("{elsewhere} --rank 5 --output model --resume").replace("--rank 4 ", ""), "rank was 4 and is 5"),
        (format!("{elsewhere} --output model --resume --l2 0.5"), "l2 was 0.045 and is 0.5"),
        (format!("{TRAIN} --resume"), "not provided:\n  --output <DIR>"),
        (format!("{TRAIN} --output model --resume --validation 0.2"), "validation was 0.1 and is 0.2"),
    ];
    for (arguments, expected) in cases {
        let ended = hemiola(&lab, &arguments);
        let told = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{arguments}: {told}");
        assert_eq!(told.matches(expected).count(), 1, "{arguments}: {told}");
    }
    let ratings = fs::read_to_string(lab.path().join("ratings.csv")).unwrap();
    fs::write(lab.path().join("ratings.csv"), ratings.replace("person-7,film-2,1", "person-7,film-2,4")).unwrap();
    for peers in ["", "--peers 2"] {
        let ended = hemiola(&lab, &format!("{TRAIN} --epochs 4 --output model --resume {peers}"));
        assert_eq!(ended.code, Some(2));
        assert!(text(&ended.stderr).contains("was made from other data"), "{}", text(&ended.stderr));
    }
    assert!(!lab.path().join("nothing").exists());
}

#[test]
fn a_resume_may_change_limits_and_reports_another_cluster() {
    let lab = lab();
    hemiola(&lab, &format!("{TRAIN} --epochs 2 --output model -q"));
    let arguments = format!("{TRAIN} --epochs 3 --seconds 99 --target 0.0001 --peers 2 --output model --resume");
    let ended = hemiola(&lab, &arguments);
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let told = text(&ended.stdout);
    assert!(told.contains("trained on 1 peer of 1 worker and resumed on 2 peers of 1 worker"), "{told}");
}

#[test]
fn completions_include_all_commands() {
    for (shell, sign) in [
        ("bash", "complete -F _hemiola"),
        ("zsh", "#compdef hemiola"),
        ("fish", "complete -c hemiola"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer[hemiola]"),
    ] {
        let ended = launch(subcommand("completions").arg(shell)).end();
        let script = text(&ended.stdout);
        assert_eq!(ended.code, Some(0));
        assert!(
            script.contains(sign) && script.contains("checkpoint-every") && script.contains("recommend"),
            "{shell}"
        );
    }
    assert_eq!(launch(subcommand("completions").arg("tcsh")).end().code, Some(2));
}

#[test]
fn typing_errors_get_suggestions() {
    let lab = lab();
    for (arguments, expected) in [
        ("trian mf", "a similar subcommand exists: 'train'"),
        ("train mf --epoch 3", "did you mean `--epochs`?"),
        ("train mf --checkpoints-every 3", "did you mean `--checkpoint-every`?"),
        ("train mf --loss sqared", "a similar value exists: 'squared'"),
    ] {
        let ended = hemiola(&lab, arguments);
        let told = text(&ended.stderr);
        assert_eq!(ended.code, Some(2), "{arguments}: {told}");
        assert!(told.contains(expected), "{arguments}: {told}");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let lab = lab();
    for command in ["train mf", "recommend", "similar", "predict", "evaluate", "run", "completions"] {
        let told = text(&hemiola(&lab, &format!("{command} --help")).stdout);
        assert!(told.contains("Example"), "{command}: {told}");
    }
    for command in ["help", "train mf --help", "run --help"] {
        let told = text(&hemiola(&lab, command).stdout);
        assert!(told.contains("Exit codes:") && told.contains("130"), "{command}: {told}");
    }
}

/// Trains with the library on peers that are threads, and saves the model.
fn standalone_model(lab: &TempDir, peers: usize) -> BTreeMap<String, Vec<u8>> {
    use hemiola_models::mf::data;
    use hemiola_models::prelude::*;
    use hemiola_models::training::TrainingLimits;
    let (ratings, folder) = (lab.path().join("ratings.csv"), lab.path().join("standalone"));
    let limits = TrainingLimits { epochs: 6, patience: None, ..TrainingLimits::default() };
    let settings = MatrixFactorization::builder().rank(4).limits(limits).build().unwrap();
    hemiola_cluster::standalone(peers)
        .workers(1)
        .run(|cluster| {
            let ratings = data::read(cluster, None, ratings.to_str().unwrap())?;
            let (train, valid) = ratings.split(0.1, Seed(settings.settings().seed))?;
            let session = FitOptions::new().with_checkpoints(Checkpoints::new(&folder));
            settings.fit_with(cluster, &train, Some(&valid), session)?;
            Ok(())
        })
        .unwrap();
    arrays(&folder)
}

#[test]
fn four_processes_are_bit_identical_to_four_peers_in_one() {
    let lab = lab();
    let ended = hemiola(&lab, &format!("{TRAIN} --epochs 6 --peers 4 --output processes"));
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).contains("4 peers of 1 worker"), "{}", text(&ended.stdout));
    let processes = arrays(&lab.path().join("processes"));
    assert_eq!(processes.keys().filter(|name| name.starts_with("user_factors.0")).count(), 4, "{:?}", processes.keys());
    assert!(processes == standalone_model(&lab, 4));
    assert!(processes != standalone_model(&lab, 1), "the order of entries does matter");
}
