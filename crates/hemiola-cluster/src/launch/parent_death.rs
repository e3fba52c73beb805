//! Ties the life of a process to that of its parent.
//!
//! A launcher that is killed with SIGKILL cannot clean up, so the kernel does it: on Linux a
//! process can request a signal at its parent's death. Elsewhere only the [cleanup
//! process](super::cleanup) remains.
#![expect(unsafe_code, reason = "`pre_exec` is the only way to run code between fork and exec")]

use rustix::process::Signal;
use std::process::Command;

/// Makes the process that `command` starts receive `signal` when the *thread* that starts it ends.
/// That is the launcher's main thread, which outlives its peers.
#[cfg(target_os = "linux")]
pub(super) fn end_with_parent(command: &mut Command, signal: Signal) {
    use rustix::process::{getpid, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt as _;

    let parent = getpid();
    let request = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The parent may have died before the request; then the signal would never arrive.
        if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only async-signal-safe code may run. `request` makes two system
    // calls, touches no lock and allocates nothing (an `io::Error` from an error number is a plain
    // value); its captures are `Copy`.
    unsafe { command.pre_exec(request) };
}

/// Does nothing: this system has no such request.
#[cfg(not(target_os = "linux"))]
pub(super) fn end_with_parent(_command: &mut Command, _signal: Signal) {}
