//! Measure of the work of a peer: that of its process, or of its threads if peers share a process.
//!
//! The work of a process includes threads that the program starts by itself. Where several peers
//! share a process it would count for all of them, so only the driver and the workers count there.

use hemiola_core::{Env, ProcessWork};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Measure of the work of a peer.
#[derive(Debug)]
pub(crate) enum WorkSource {
    /// All threads of the process.
    Process,
    /// Threads with these statistics; `None` where the system has none.
    Threads(Vec<Option<PathBuf>>),
}

impl WorkSource {
    /// Work so far; `None` where the system does not tell.
    pub(crate) fn read(&self, env: &dyn Env) -> Option<ProcessWork> {
        match self {
            Self::Process => env.process_work(),
            Self::Threads(threads) => {
                let nanoseconds = threads.iter().map(|path| cpu_nanoseconds(path.as_ref()?)).sum::<Option<u64>>()?;
                Some(ProcessWork { cpu: Duration::from_nanos(nanoseconds), io_bytes: 0 })
            }
        }
    }
}

/// File with the CPU time of the calling thread.
pub(crate) fn own_statistics() -> Option<PathBuf> {
    let thread = fs::read_link("/proc/thread-self").ok()?;
    Some(PathBuf::from("/proc").join(thread).join("schedstat"))
}

/// CPU time of a thread in nanoseconds. A thread that has ended works no more.
fn cpu_nanoseconds(path: &PathBuf) -> Option<u64> {
    match fs::read_to_string(path) {
        Ok(text) => text.split_whitespace().next()?.parse().ok(),
        Err(_) => Some(0),
    }
}
