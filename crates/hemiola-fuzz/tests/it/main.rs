//! Short campaigns: every target on its seeds and on some mutations of them, each target in a
//! process of its own. `HEMIOLA_FUZZ_INPUTS` sets the number of mutations.

use hemiola_fuzz::campaign::failed_input;
use hemiola_fuzz::{Mutator, targets};
use std::path::Path;
use std::process::Command;

/// Mutations per target, unless the environment says otherwise.
const INPUTS: &str = "250";

fn run(target: &str, folder: &Path, inputs: &str) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_hemiola-fuzz"))
        .args(["run", target, "--inputs", inputs, "--folder"])
        .arg(folder)
        .output()
        .expect("the fuzzer starts")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its own variable")]
fn no_target_fails() {
    let inputs = std::env::var("HEMIOLA_FUZZ_INPUTS").unwrap_or_else(|_| INPUTS.to_owned());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let mut failures = Vec::new();
    for target in targets() {
        let output = run(target.name, &folder, &inputs);
        if !output.status.success() {
            let input = failed_input(&folder, target.name);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            failures.push(format!(
                "{}: {}\n{error}\nreplay: cargo run -p hemiola-fuzz -- replay {} {}",
                target.name,
                output.status,
                target.name,
                input.display()
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn a_panic_leaves_its_input_behind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run("self-test", folder.path(), "500");
    assert!(!output.status.success(), "the target panics on inputs that contain `!`");
    let input = std::fs::read(failed_input(folder.path(), "self-test")).expect("the failed input is kept");
    assert!(input.contains(&b'!'));
}

#[test]
fn every_target_accepts_a_seed_and_refuses_a_mutation() {
    for target in targets() {
        let prepared = target.prepare().expect("the target can be prepared");
        assert!(prepared.seeds.iter().any(|seed| prepared.accepts(seed)), "{} refuses all of its seeds", target.name);
        let mut mutations = (0..100).map(|number| Mutator::new(1, number).mutate(&prepared.seeds));
        assert!(mutations.any(|input| !prepared.accepts(&input)), "{} accepts everything", target.name);
    }
}
