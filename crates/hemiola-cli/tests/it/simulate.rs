//! `hemiola simulate`, `hemiola study staleness` and `hemiola bench sim`.

use crate::support::{Ended, launch, subcommand};

const SCENARIO: &str = r#"{"rotation":{"seed":1,"cluster":{"peers":3},"blocks":[1,2,0],"rotations":2,"length":4}}"#;

fn text(lines: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

fn replay(scenario: &str) -> Ended {
    launch(subcommand("simulate").args(["replay", scenario])).end()
}

#[test]
fn a_scenario_is_deterministic() {
    let (first, second) = (replay(SCENARIO), replay(SCENARIO));
    assert_eq!(first.code, Some(0));
    assert!(text(&first.stdout).starts_with("all invariants hold: "), "{}", text(&first.stdout));
    assert_eq!(text(&first.stdout), text(&second.stdout));
}

#[test]
fn a_violated_invariant_is_reported_and_an_invalid_scenario_refused() {
    let failed = replay(&SCENARIO.replace("\"length\":4", "\"length\":4,\"pass_out_of_order\":true"));
    assert_eq!(failed.code, Some(1), "{}", text(&failed.stdout));
    assert!(!text(&failed.stdout).contains("all invariants hold"));
    let refused = replay(&SCENARIO.replace("\"peers\":3", "\"peers\":0"));
    assert!(
        text(&refused.stdout).contains("invalid scenario") || text(&refused.stdout).contains("for 0 peers"),
        "{}",
        text(&refused.stdout)
    );
    let unreadable = replay("{");
    assert_eq!(unreadable.code, Some(2));
    assert!(text(&unreadable.stderr).contains("cannot parse the scenario"), "{}", text(&unreadable.stderr));
}

fn study(arguments: &str) -> Ended {
    launch(subcommand("study").arg("staleness").args(arguments.split_whitespace())).end()
}

#[test]
fn a_study_writes_a_table_curves_and_a_chart() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("mf");
    let options = "--model mf --staleness 8,0 --workers 1,2 --seeds 2 --learning-rates 0.03,0.01 --max-batches 1000";
    let ended = study(&format!("{options} --output {}", prefix.display()));
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let read = |end: &str| std::fs::read_to_string(folder.path().join(end)).unwrap();
    let table = read("mf.csv");
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with("mf,sgd,uniform,1,0,"), "{table}");
    assert!(read("mf-curves.csv").lines().count() > 20);
    assert!(read("mf.svg").contains("<svg") && read("mf.svg").contains("2 workers"));
    assert!(text(&ended.stdout).contains("slow-down"));
}

#[test]
fn a_figure_is_a_table_lines_and_a_chart() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("ring");
    let draw = |name: &str, peers: &str| {
        let mut command = subcommand("simulate");
        launch(command.args(["figure", name, "--peers", peers, "--output"]).arg(&prefix)).end()
    };
    let ended = draw("ring", "4");
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    assert!(text(&ended.stdout).contains("times faster"), "{}", text(&ended.stdout));
    let read = |end: &str| std::fs::read_to_string(folder.path().join(end)).unwrap();
    assert_eq!(read("ring.csv").lines().count(), 1 + 2 * 4 * 3);
    assert!(read("ring-lines.csv").starts_with("panel,line,x,y\n0,barrier,0,0\n"));
    assert!(read("ring.svg").starts_with("<svg"));
    for (name, peers) in [("figure-8", "4"), ("ring", "0")] {
        assert_eq!(draw(name, peers).code, Some(2));
    }
}

#[test]
fn invalid_studies_are_refused() {
    for arguments in [
        "--model tree",
        "--model mlp-4",
        "--model mf --workers 0",
        "--model mf --learning-rates 0",
        "--model mf --output .",
    ] {
        let ended = study(arguments);
        assert_eq!(ended.code, Some(2), "{arguments}: {}", text(&ended.stderr));
    }
}

#[cfg(feature = "bench")]
#[test]
fn the_simulator_benchmark_reports_events_and_a_training_run() {
    let bench =
        launch(subcommand("bench").args("sim --rounds 1 --size 5 --peers 8 --clocks 4 --report -".split(' '))).end();
    assert_eq!(bench.code, Some(0), "{}", text(&bench.stderr));
    let report: serde_json::Value = serde_json::from_str(&text(&bench.stdout)).unwrap();
    assert_eq!(report["events"].as_array().unwrap().len(), 4);
    assert_eq!(report["training"]["peers"], 8);
    assert!(report["training"]["rmse_after"].as_f64() < report["training"]["rmse_before"].as_f64());
}

#[test]
fn a_training_run_is_predicted_for_every_strategy_with_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, file) = (folder.path().join("run.json"), folder.path().join("cluster.toml"));
    let small = "--users 64 --items 50 --ratings-per-user 20 --clocks-per-epoch 4";
    let train =
        |options: &str| launch(subcommand("simulate").args(["train", "mf"]).args(options.split_whitespace())).end();
    let ended =
        train(&format!("--peers 4 --bandwidth 1gbit --latency 200us {small} --trace {} --report -", trace.display()));
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let report: serde_json::Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    assert_eq!(report["predictions"].as_array().unwrap().len(), 4);
    assert!(
        report["predictions"][0]["epoch_seconds"].as_f64().unwrap() > 4.0 * 2.0 * 200e-6,
        "a round trip in each clock"
    );
    let events: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    assert!(events["traceEvents"].as_array().unwrap().len() > 20);

    std::fs::write(&file, "peers = 2\nlink = { bandwidth = \"1gbit\", loss = 0.01 }").unwrap();
    let ended = train(&format!("--cluster {} {small} --strategy rotation", file.display()));
    assert!(text(&ended.stdout).contains("rotation"), "{}", text(&ended.stderr));
    std::fs::write(&file, "peers = 2\nlink = { bandwidth = \"0bit\" }").unwrap();
    let refused = train(&format!("--cluster {} {small}", file.display()));
    assert_eq!(refused.code, Some(2));
    assert!(text(&refused.stderr).contains("no message would arrive"), "{}", text(&refused.stderr));
}

#[test]
fn a_profiled_training_run_is_predicted_on_other_clusters() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ratings, profile, trace) = (path("ratings.csv"), path("mf.json"), path("run.json"));
    let known = |user: u64, item: u64| (user * 31 + item * 17).is_multiple_of(3);
    let keys =
        (0..97).flat_map(|user| (0..61).map(move |item| (user, item))).filter(|(user, item)| known(*user, *item));
    let lines: Vec<String> = keys.map(|(user, item)| format!("{user},{item},{}", (user + item) % 5)).collect();
    std::fs::write(&ratings, lines.join("\n")).unwrap();
    let run = |name: &str, words: &str| launch(subcommand(name).args(words.split_whitespace())).end();
    let measured =
        format!("mf --data {ratings} --validation 0 --rank 8 --epochs 3 --patience 0 --workers 1 --profile {profile}");
    let ended = run("train", &measured);
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));

    let predict = format!("train mf --profile {profile} --peers 4 --bandwidth 100mbit --trace {trace} --report -");
    let ended = run("simulate", &predict);
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let report: serde_json::Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    let predictions = report["predictions"].as_array().unwrap();
    assert_eq!(predictions.len(), 4);
    // Every peer sends all rows of items, or of users, once: 8 factors and metadata.
    let rotation = predictions.iter().find(|one| one["strategy"] == "rotation").unwrap();
    assert!(rotation["epoch_bytes"].as_f64().unwrap() > 61.0 * 8.0 * 4.0, "{rotation}");
    for one in predictions {
        assert!(one["epoch_seconds"].as_f64().unwrap() > 0.0 && one["waiting"].as_f64().unwrap() <= 1.0, "{one}");
    }
    assert!(std::fs::read_to_string(&trace).unwrap().contains("traceEvents"));

    // The plan, and one line of predictions.
    let ended = run("simulate", &format!("loop --profile {profile} --peers 2 --explain"));
    let shown = text(&ended.stdout);
    assert!(shown.contains("2 workers on 2 peers") && shown.contains("as planned"), "{shown}{}", text(&ended.stderr));

    let refused = |name: &str, words: &str, why: &str| {
        let ended = run(name, words);
        assert_eq!(ended.code, Some(2), "{words}: {}", text(&ended.stdout));
        assert!(text(&ended.stderr).contains(why), "{words}: {}", text(&ended.stderr));
    };
    refused("simulate", &format!("train mf --profile {profile} --rank 8"), "cannot be used with");
    refused("simulate", &format!("train mf --profile {ratings}"), "invalid profile: ");
    refused("simulate", &format!("loop --profile {}", path("none.json")), "none.json");
    refused("train", &format!("{measured} --peers 2"), "cannot be used with");
    refused("train", &format!("mf --loss one-class --profile {profile}"), "`--profile` supports the losses of ratings");
    let altered = std::fs::read_to_string(&profile).unwrap().replace("hemiola profile 1", "hemiola profile 0");
    std::fs::write(&profile, altered).unwrap();
    refused("simulate", &format!("train mf --profile {profile}"), "its format is `hemiola profile 0`");
}
