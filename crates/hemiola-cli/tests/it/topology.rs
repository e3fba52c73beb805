//! `hemiola topology`: properties, drawings and errors; `hemiola bench collective`: its report.

use crate::support::{Ended, launch, subcommand};
use serde_json::Value;

fn topology(arguments: &str) -> Ended {
    launch(subcommand("topology").args(arguments.split_whitespace())).end()
}

fn text(lines: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

#[test]
fn properties_of_the_graph_are_printed_and_reported() {
    let ended = topology("--peers 25 --kind root-expander");
    let said = text(&ended.stdout);
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    assert!(said.contains("spectral gap     0.1419") && said.contains("degree           2"), "{said}");
    assert!(said.contains("8000000 at the busiest peer, 200000000 in total"), "{said}");
    let ended = topology("--peers 8 --kind complete --bytes-per-edge 10 --report -");
    let report: Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    assert_eq!((&report["degree"], &report["bytes_per_step"], &report["steps"]), (&7.into(), &70.into(), &1.into()));
    assert_eq!(report["edges"].as_array().unwrap().len(), 56);
    let ended = topology("--peers 3 --kind chain");
    assert!(text(&ended.stdout).contains("never") && text(&ended.stdout).contains("note:"), "{}", text(&ended.stdout));
}

#[test]
fn every_kind_is_drawn() {
    let lab = tempfile::tempdir().unwrap();
    let kinds = [
        "complete",
        "ring",
        "chain",
        "star",
        "root-expander",
        "halton",
        "chord",
        "random-regular --degree 3",
        "two-level --group-size 4",
        "circulant --offsets 1,3",
        "edges --edges 0-1,1-0,2-0",
        "best --degree 2 --seed 1",
    ];
    for kind in kinds {
        let file = lab.path().join("graph.svg");
        let ended = topology(&format!("--peers 12 --kind {kind} --output {}", file.display()));
        assert_eq!(ended.code, Some(0), "{kind}: {}", text(&ended.stderr));
        let picture = std::fs::read_to_string(&file).unwrap();
        assert!(picture.starts_with("<svg") && picture.matches("<circle").count() == 12, "{kind}");
    }
    assert_eq!(topology("--peers 1 --kind ring --output -").code, Some(0));
}

#[test]
fn invalid_graphs_are_refused_with_a_hint() {
    let cases = [
        ("--peers 8 --kind ring --degree 3", "has no effect"),
        ("--peers 8 --kind two-level", "needs --group-size"),
        ("--peers 8 --kind two-level --group-size 3", "do not divide"),
        ("--peers 8 --kind edges --edges 0+1", "`0+1` is not a list of edges"),
        ("--peers 8 --kind edges --edges 0-9", "unknown peer"),
        ("--peers 8 --kind edges", "needs --edges"),
        ("--peers 8 --kind edges:nowhere.txt", "`nowhere.txt` is not a list of edges"),
        ("--peers 8 --kind halton:2 --degree 3", "given twice"),
        ("--peers 8 --kind ring:3", "expected complete"),
        ("--peers 8 --kind random-regular --degree 9", "degree of 9"),
        ("--peers 8 --output graph.png", ".svg"),
        ("--peers 0", "0"),
        ("--peers 8 --kind expander", "root-expander"),
    ];
    for (arguments, expected) in cases {
        let ended = topology(arguments);
        let said = text(&ended.stderr);
        assert!(ended.code == Some(2) && said.contains(expected), "{arguments}: {:?} {said}", ended.code);
    }
}

#[cfg(feature = "bench")]
#[test]
fn the_collective_benchmark_reports_every_algorithm() {
    let arguments = "collective --peers 2 --bytes 1024,4000 --rounds 1 --report -";
    let ended = launch(subcommand("bench").args(arguments.split_whitespace())).end();
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let report: Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    let results = report["results"].as_array().unwrap();
    // Two sizes, four algorithms.
    assert_eq!(results.len(), 8);
    for result in results {
        assert_eq!((&result["op"], &result["peers"]), (&"all-reduce".into(), &2.into()));
        assert!(result["gbps"].as_f64().unwrap() > 0.0 && result["latency_us"].as_f64().unwrap() > 0.0);
    }
    let sent = |index: usize| results[index]["wire_bytes"].as_f64().unwrap();
    // With any algorithm each of two peers sends the vector once on average, plus headers.
    assert!((0..4).all(|algorithm| sent(algorithm) > 1024.0 && sent(algorithm + 4) > 4000.0), "{results:?}");
    assert!(report["overlap_extra"].is_f64() && report["overlap_extra_busy"].is_f64());
}

#[cfg(feature = "bench")]
#[test]
fn the_collective_benchmark_reports_the_bytes_of_each_compression() {
    let arguments = "collective --peers 3 --bytes 400000 --rounds 1 --compression --report -";
    let ended = launch(subcommand("bench").args(arguments.split_whitespace())).end();
    assert_eq!(ended.code, Some(0), "{}", text(&ended.stderr));
    let report: Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    let results = report["results"].as_array().unwrap();
    let sent = |name: &str| {
        let found = results.iter().find(|one| one["compression"].as_str().unwrap().starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} in {results:?}"))["wire_bytes"].as_f64().unwrap()
    };
    let (plain, narrow) = (sent("f32"), sent("bf16"));
    assert!((0.45..0.55).contains(&(narrow / plain)), "{narrow} of {plain}");
    assert!((0.9..1.1).contains(&(sent("f16") / narrow)));
    for name in ["one bit", "top-k", "low rank"] {
        assert!(sent(name) < plain / 5.0, "{name}: {} of {plain}", sent(name));
    }
}

#[test]
fn edges_are_read_from_a_file() {
    let lab = tempfile::tempdir().unwrap();
    let file = lab.path().join("graph.txt");
    let with = |lines: &str, peers: u32| {
        std::fs::write(&file, lines).unwrap();
        topology(&format!("--peers {peers} --kind edges:{} --report -", file.display()))
    };
    let ended = with("# a ring of three\n0 1\n1,2\n2 -> 0\n", 3);
    let report: Value = serde_json::from_str(&text(&ended.stdout)).unwrap();
    let edges: Value = serde_json::from_str("[[0,1],[1,2],[2,0]]").unwrap();
    assert_eq!((&report["edges"], &report["regular"], &report["connected"]), (&edges, &true.into(), &true.into()));
    for (lines, peers, code, expected) in [
        ("0 1\n1 zero\n", 2, 2, "line 2 of"),
        ("", 2, 2, "has no edges"),
        ("0 1\n1 0\n", 1, 2, "unknown peer"),
        ("0 1\n1 0\n", 3, 0, "values of peer 0 never reach peer 2"),
        ("0 1\n0 2\n1 0\n2 1\n1 2\n", 3, 0, "receives from"),
    ] {
        let ended = with(lines, peers);
        let said = text(&ended.stderr) + &text(&ended.stdout);
        assert!(ended.code == Some(code) && said.contains(expected), "{lines:?}: {:?} {said}", ended.code);
    }
}

#[test]
fn large_graphs_are_announced_and_drawn_in_part() {
    let lab = tempfile::tempdir().unwrap();
    let file = lab.path().join("graph.svg");
    let ended = topology(&format!("--peers 400 --kind complete --output {}", file.display()));
    let said = text(&ended.stderr);
    assert_eq!(ended.code, Some(0), "{said}");
    assert!(
        said.contains("computing the spectral gap of 400 peers") && said.contains("edges of 10 of 400 peers"),
        "{said}"
    );
    assert!(text(&ended.stdout).contains("spectral gap     1.0000"), "{}", text(&ended.stdout));
    let picture = std::fs::read_to_string(&file).unwrap();
    assert!(picture.len() < 2_000_000 && picture.contains("edges of 10 of 400 peers"), "{} bytes", picture.len());
    assert!(text(&topology("--peers 1 --kind ring").stdout).contains("ring of 1 peer, 0 edges"));
}
