//! The commands in the README and in the book, block by block and word for word.
//!
//! A block of shell commands (`sh`) runs in a folder that it shares with the other blocks of its page,
//! with the `hemiola` of these tests in the path. The block of text after it, if there is one, shows
//! lines of its output, in their order. A block that cannot run here follows a comment: `not run:` and
//! the reason, or `needs the feature` and its name.
//!
//! `cargo run --release --example NAME` and `target/release/examples/NAME` run the examples of this
//! crate as they were built for the tests.

use crate::model::text;
use crate::support::{Ended, launch};
use hemiola_testkit::is_similar;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Runs `cargo run` of the pages with the binaries that are built already.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "run --release --example "*)
        shift 3
        name=$1
        shift
        [ "${1:-}" != -- ] || shift
        exec "target/release/examples/$name" "$@" ;;
    *)
        echo "cargo $*: this test cannot run it" >&2
        exit 1 ;;
esac
"#;

/// Block of commands on a page.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) page: String,
    line: usize,
    pub(crate) commands: String,
    /// Lines of output that the page shows.
    shown: Vec<String>,
    /// Comment above the block.
    comment: Option<String>,
}

impl Block {
    /// Reason for which the block does not run in this build.
    fn obstacle(&self) -> Option<String> {
        let comment = self.comment.as_deref()?;
        if let Some(reason) = comment.strip_prefix("not run: ") {
            return Some(reason.to_owned());
        }
        let feature = comment.strip_prefix("needs the feature ")?;
        let is_built = match feature {
            "sim" => cfg!(feature = "sim"),
            "nets" => cfg!(feature = "nets"),
            other => panic!("{}:{}: unknown feature `{other}`", self.page, self.line),
        };
        (!is_built).then(|| format!("this build is without the feature {feature}"))
    }

    /// Fails unless the lines that the page shows are among those printed, in their order.
    pub(crate) fn assert_shown(&self, printed: &str) {
        let mut lines = printed.lines();
        for shown in self.shown.iter().filter(|line| *line != "...") {
            let found = lines.any(|line| is_similar(shown, line));
            assert!(found, "{}:{}: `{shown}` is not in the output\n{printed}", self.page, self.line);
        }
    }
}

/// Folder for the blocks of a page.
pub(crate) struct Lab {
    folder: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().join("target/release");
        fs::create_dir_all(&release).unwrap();
        let test = std::env::current_exe().unwrap();
        let examples = test.ancestors().nth(2).unwrap().join("examples");
        std::os::unix::fs::symlink(examples, release.join("examples")).unwrap();
        let cargo = folder.path().join("bin/cargo");
        fs::create_dir(cargo.parent().unwrap()).unwrap();
        fs::write(&cargo, CARGO).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a shell for these commands, not yet started.
    pub(crate) fn shell(&self, commands: &str) -> Command {
        let hemiola = Path::new(env!("CARGO_BIN_EXE_hemiola")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = [self.path().join("bin"), hemiola].into_iter().chain(std::env::split_paths(&path));
        let mut command = Command::new("sh");
        command.args(["-euc", commands]).env("PATH", std::env::join_paths(all).unwrap()).current_dir(self.path());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HEMIOLA_")) {
            command.env_remove(name);
        }
        // The pages show the output of two workers, unless a command names another number.
        command.env("HEMIOLA_WORKERS", "2").stdin(Stdio::null());
        command
    }

    /// Runs a block and compares its output with the page. Returns the output.
    pub(crate) fn run(&self, block: &Block) -> String {
        let Ended { code, stdout, stderr, .. } = launch(&mut self.shell(&block.commands)).end();
        let place = format!("{}:{}\n{}", block.page, block.line, block.commands);
        assert_eq!(code, Some(0), "{place}{}", text(&stderr));
        let printed = text(&stdout);
        block.assert_shown(&printed);
        printed
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Blocks of a page, in their order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let content = fs::read_to_string(root().join(page)).unwrap();
    let mut lines = content.lines().enumerate().filter(|(_, line)| !line.is_empty()).peekable();
    let mut blocks: Vec<Block> = Vec::new();
    let mut comment = None;
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            comment = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")).map(str::to_owned);
            continue;
        };
        let body: Vec<String> =
            lines.by_ref().map(|(_, line)| line.to_owned()).take_while(|line| line != "```").collect();
        if language == "sh" {
            let mut shown = Vec::new();
            if lines.next_if(|(_, line)| *line == "```text").is_some() {
                shown = lines.by_ref().map(|(_, line)| line.to_owned()).take_while(|line| line != "```").collect();
            }
            let commands = body.join("\n") + "\n";
            blocks.push(Block { page: page.to_owned(), line: number + 1, commands, shown, comment: comment.take() });
        }
        comment = None;
    }
    blocks
}

/// Pages of the book, sorted.
fn pages() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Runs all blocks of some pages. Returns the number of blocks that ran.
fn run_pages(pages: impl Iterator<Item = String>) -> usize {
    let mut count = 0;
    for page in pages {
        let lab = Lab::new();
        for block in blocks(&page).iter().filter(|block| block.obstacle().is_none()) {
            lab.run(block);
            count += 1;
        }
    }
    count
}

#[test]
fn the_tutorial_runs_word_for_word() {
    let count = run_pages(pages().into_iter().filter(|page| page.starts_with("docs/tutorial/")));
    assert!(count >= 8, "{count} blocks ran");
}

#[test]
fn the_other_pages_run_word_for_word() {
    let count = run_pages(pages().into_iter().filter(|page| !page.starts_with("docs/tutorial/")));
    assert!(count >= 2, "{count} blocks ran");
}

#[test]
fn every_block_that_does_not_run_says_why() {
    let all = std::iter::once("README.md".to_owned()).chain(pages());
    let left_out: Vec<String> = all
        .flat_map(|page| blocks(&page))
        .filter(|block| block.comment.as_ref().is_some_and(|comment| comment.starts_with("not run: ")))
        .map(|block| format!("{}:{}: {}", block.page, block.line, block.obstacle().unwrap()))
        .collect();
    // A new block that cannot run is a decision: raise the number with it.
    assert_eq!(left_out.len(), 22, "{left_out:#?}");
}

#[test]
fn blocks_are_read_with_comment_and_output() {
    let [first, training] = &blocks("README.md")[..] else { panic!("two blocks") };
    assert!(first.commands.starts_with("cargo run --release --bin hemiola -- train mf\ncargo test --workspace\n"));
    assert!(first.obstacle().unwrap().contains(".ci/run"), "{first:?}");
    assert!(training.obstacle().is_none() && training.commands.lines().count() == 6, "{training:?}");
    assert!(training.shown.len() > 3, "{training:?}");
}
