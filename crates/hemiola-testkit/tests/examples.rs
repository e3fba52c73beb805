//! Examples fit on one screen, and the list of examples is complete.

use std::fs;
use std::path::{Path, PathBuf};

/// Largest number of lines of an example, documentation included.
const SCREEN: usize = 60;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Source files of the examples of all crates, folders included.
fn examples() -> Vec<PathBuf> {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = crates.map(|path| path.join("examples")).filter(|path| path.is_dir()).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn an_example_fits_on_one_screen() {
    let examples = examples();
    assert!(examples.len() >= 18, "{examples:?}");
    for path in examples {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        let way_out = "make it shorter, or move the experiment to hemiola-bench";
        assert!(lines <= SCREEN, "{} has {lines} lines: {way_out}", path.display());
        assert!(text.starts_with("//! "), "{} begins without documentation", path.display());
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{} has a long line", path.display());
    }
}

#[test]
fn the_list_of_examples_is_complete() {
    let list = fs::read_to_string(root().join("crates/hemiola/examples/README.md")).unwrap();
    for path in examples() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let linked = list.lines().filter(|line| line.starts_with(&format!("| [{name}]("))).count();
        assert_eq!(linked, 1, "{name} has one line in crates/hemiola/examples/README.md");
    }
}
