//! Every example prints what its documentation shows, up to ten percent of each number: results
//! depend a little on the number of workers, and under bounded staleness on the timing.

use crate::with_watchdog;
use hemiola_testkit::is_similar;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output that is shown in the documentation of a program; `...` stands for any lines.
fn shown(source: &str) -> Vec<String> {
    let documentation = source.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
    let block = documentation.skip_while(|line| *line != "```text").skip(1);
    block.take_while(|line| *line != "```").map(str::to_owned).collect()
}

/// Path of an example, which cargo builds together with these tests.
fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join(name)
}

fn output(name: &str) -> String {
    let mut command = Command::new(binary(name));
    command.env("HEMIOLA_WORKERS", "2").env_remove("HEMIOLA_RANK").env_remove("HEMIOLA_SIZE").stdin(Stdio::null());
    let output = with_watchdog(|| command.output()).unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_example_prints_what_its_documentation_shows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut examples = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // `hello` prints process ids; `it/hello.rs` runs it.
        if path.extension().is_none_or(|extension| extension != "rs") || name == "hello" {
            continue;
        }
        let shown = shown(&std::fs::read_to_string(&path).unwrap());
        let printed = output(&name);
        let mut lines: Vec<&str> = printed.lines().collect();
        let mut expected = &shown[..];
        if shown[0] == "..." {
            expected = &shown[1..];
            lines.drain(..lines.len().saturating_sub(expected.len()));
        }
        let similar = expected.len() == lines.len() && expected.iter().zip(&lines).all(|(a, b)| is_similar(a, b));
        assert!(similar, "{name} prints\n{printed}\nand shows\n{}", shown.join("\n"));
        examples += 1;
    }
    assert!(examples >= 13, "only {examples} examples were found");
}

#[test]
fn numbers_are_compared_up_to_ten_percent() {
    assert!(is_similar("epoch 1: rmse 0.500", "epoch 1: rmse 0.520"));
    assert!(is_similar("losses [0.50, 0.40]", "losses [0.51, 0.41]"));
    assert!(!is_similar("epoch 1: rmse 0.500", "epoch 2: rmse 0.500"));
    assert!(!is_similar("epoch 1: rmse 0.5", "epoch 1: mae 0.5"));
    assert!(!is_similar("rmse 0.5", "rmse 0.5 again"));
}
