//! One run of a target on many inputs.
//!
//! **Invariant.** The input under test is on disk before the target sees it. Whatever ends the
//! process (a panic, the limit on memory, the deadline, a signal), the file that
//! [`Campaign::failed_input`] names holds the input to replay. A campaign that ends well removes it.

use crate::{FuzzTarget, Mutator};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Address space of the process, in bytes. Targets read inputs of 64 KiB: whoever needs more has
/// believed a number in the input.
const MEMORY_LIMIT: u64 = 6 << 30;
/// Deadline per input. Inputs take milliseconds; the rest is for busy machines.
const INPUT_DEADLINE: Duration = Duration::from_mins(1);

/// A target, its seeds, and the number of inputs to try.
#[derive(Debug)]
pub struct Campaign {
    /// Target under test.
    pub target: FuzzTarget,
    /// Number of mutated inputs after the seeds.
    pub inputs: u64,
    /// Random seed of the mutations.
    pub seed: u64,
    /// Folder of the failed input.
    pub folder: PathBuf,
}

impl Campaign {
    /// Path of the input that ended the process.
    #[must_use]
    pub fn failed_input(&self) -> PathBuf {
        failed_input(&self.folder, self.target.name)
    }

    /// Runs all seeds, then all mutations. Returns the number of inputs.
    pub fn run(&self) -> anyhow::Result<u64> {
        limit_memory()?;
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot create `{}`", self.folder.display()))?;
        let (progress, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // A panic ends the watchdog, too: the scope waits for it.
            let _end = EndGuard(&done);
            scope.spawn(|| watch(&progress, &done));
            self.run_inputs(&progress)
        })
    }

    fn run_inputs(&self, progress: &AtomicU64) -> anyhow::Result<u64> {
        let target = self.target.prepare()?;
        let seeds = &target.seeds;
        let mutated = (0..self.inputs).map(|number| Mutator::new(self.seed, number).mutate(seeds));
        let mut count = 0;
        for input in seeds.iter().cloned().chain(mutated) {
            std::fs::write(self.failed_input(), &input)?;
            let _accepted = target.accepts(&input);
            progress.fetch_add(1, Ordering::Release);
            count += 1;
        }
        std::fs::remove_file(self.failed_input())?;
        Ok(count)
    }
}

/// Tells the watchdog that the campaign has ended, also by a panic.
struct EndGuard<'a>(&'a AtomicBool);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Path of the failed input of a target.
#[must_use]
pub fn failed_input(folder: &Path, target: &str) -> PathBuf {
    folder.join(format!("{target}.failed"))
}

/// Limits the address space, so that a size in an input that is believed ends the process.
fn limit_memory() -> anyhow::Result<()> {
    let limit = rustix::process::Rlimit { current: Some(MEMORY_LIMIT), maximum: Some(MEMORY_LIMIT) };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).context("cannot limit the memory of this process")
}

/// Ends the process when one input takes longer than its deadline.
#[expect(clippy::disallowed_methods, clippy::print_stderr, reason = "the watchdog of a test program; no job runs")]
fn watch(progress: &AtomicU64, done: &AtomicBool) {
    const TICK: Duration = Duration::from_millis(50);
    let mut last = (progress.load(Ordering::Acquire), Duration::ZERO);
    while !done.load(Ordering::Acquire) {
        std::thread::sleep(TICK);
        let now = progress.load(Ordering::Acquire);
        last = if now == last.0 { (now, last.1 + TICK) } else { (now, Duration::ZERO) };
        if last.1 > INPUT_DEADLINE {
            eprintln!("input {now} took longer than {} s", INPUT_DEADLINE.as_secs());
            std::process::exit(124);
        }
    }
}
