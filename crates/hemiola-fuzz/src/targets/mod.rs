//! The targets: one per reader of outside bytes.
#![expect(clippy::unnecessary_wraps, reason = "all targets are prepared by functions of one type")]

mod descriptions;
mod images;
mod journals;
mod readers;
mod saves;
mod wire;

use anyhow::Context as _;
use std::path::PathBuf;

/// One reader of outside bytes.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Name on the command line, and of the folder under `corpus/`.
    pub name: &'static str,
    /// Description in a few words.
    pub about: &'static str,
    /// Makes the target ready to run.
    prepare: fn() -> anyhow::Result<PreparedTarget>,
}

/// Reader of one input; returns true if it accepts the input.
type InputReader = dyn Fn(&[u8]) -> bool;

/// A target that is ready to run, with the seeds that it generates.
pub struct PreparedTarget {
    /// Valid and nearly valid inputs.
    pub seeds: Vec<Vec<u8>>,
    run: Box<InputReader>,
}

impl std::fmt::Debug for PreparedTarget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PreparedTarget").field("seeds", &self.seeds.len()).finish_non_exhaustive()
    }
}

impl PreparedTarget {
    fn new(seeds: Vec<Vec<u8>>, run: impl Fn(&[u8]) -> bool + 'static) -> Self {
        Self { seeds, run: Box::new(run) }
    }

    /// Reads one input. Returns true if the reader accepted it.
    #[must_use]
    pub fn accepts(&self, input: &[u8]) -> bool {
        (self.run)(input)
    }
}

impl FuzzTarget {
    /// Makes the target ready to run; its seeds are generated ones and those of `corpus/`.
    pub fn prepare(&self) -> anyhow::Result<PreparedTarget> {
        let mut target = (self.prepare)().with_context(|| format!("cannot prepare the target `{}`", self.name))?;
        target.seeds.extend(self.corpus()?);
        Ok(target)
    }

    /// Reads the files of the corpus in the order of their names.
    fn corpus(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name);
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut paths =
            std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
        paths.sort();
        paths
            .iter()
            .map(|path| std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display())))
            .collect()
    }
}

/// All targets.
#[must_use]
pub fn targets() -> Vec<FuzzTarget> {
    [wire::TARGETS, readers::TARGETS, images::TARGETS, saves::TARGETS, journals::TARGETS, descriptions::TARGETS]
        .concat()
}

/// Finds a target by name. The name `self-test` is a target that panics on purpose.
pub fn find(name: &str) -> anyhow::Result<FuzzTarget> {
    let self_test = FuzzTarget { name: "self-test", about: "panics on `!`", prepare: prepare_self_test };
    let found = targets().into_iter().chain([self_test]).find(|target| target.name == name);
    found.with_context(|| format!("there is no target `{name}`; `list` names all targets"))
}

fn prepare_self_test() -> anyhow::Result<PreparedTarget> {
    let seeds = vec![b"fine".to_vec(), b"\"!".to_vec()];
    Ok(PreparedTarget::new(seeds, |input| {
        assert!(!input.contains(&b'!'), "an injected panic");
        true
    }))
}
