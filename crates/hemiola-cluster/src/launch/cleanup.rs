//! Cleanup process: outlives a killed launcher just long enough to clean up after it.
//!
//! The kernel ends the peers of a killed launcher ([`parent_death`](super::parent_death)), but not
//! their children: a peer that is a shell script would die and leave the real program running. So a
//! shell waits at the end of a pipe that only the launcher holds. It receives the number of each
//! process group; when the pipe ends, it kills the remaining groups and removes the launcher's
//! folder.
//!
//! It is a second safety net. If it cannot be started (a system without `/bin/sh`), the job runs
//! without it.

use rustix::process::{Pid, Signal};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Script of the process. `+7` and `-7` add and remove the group 7. Signals for the launcher's job
/// are ignored.
const SCRIPT: &str = r#"trap '' HUP INT TERM
groups=' '
while read -r line; do
    case $line in
        +*) groups="$groups${line#+} " ;;
        -*) groups="${groups%% ${line#-} *} ${groups#* ${line#-} }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
rm -rf -- "$0"
"#;

/// Launcher's end of the pipe to the cleanup process.
#[derive(Debug)]
pub(super) struct CleanupProcess {
    shell: Option<(Child, ChildStdin)>,
}

impl CleanupProcess {
    /// Starts the process, which will remove `folder`.
    pub(super) fn start(folder: &Path) -> Self {
        let spawned = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn();
        let shell = spawned.ok().and_then(|mut child| {
            let stdin = child.stdin.take()?;
            Some((child, stdin))
        });
        Self { shell }
    }

    /// Registers a process group.
    pub(super) fn add(&mut self, group: Pid) {
        self.send(format_args!("+{group}\n"));
    }

    /// Removes a process group that is about to end; its number may soon be reused.
    pub(super) fn remove(&mut self, group: Pid) {
        self.send(format_args!("-{group}\n"));
    }

    fn send(&mut self, line: std::fmt::Arguments<'_>) {
        // One write per line: the pipe has room for thousands, and a line is never torn. If the
        // process is gone, the job continues without it.
        if let Some((_, stdin)) = &mut self.shell {
            let _ = stdin.write_all(line.to_string().as_bytes());
        }
    }
}

impl Drop for CleanupProcess {
    /// Lets the process clean up and waits for it: it does not wait for anything itself.
    fn drop(&mut self) {
        if let Some((mut child, stdin)) = self.shell.take() {
            drop(stdin);
            let _ = child.wait();
        }
    }
}

/// Sends `signal` to a whole process group. A group that has already ended is no error.
pub(super) fn signal_group(group: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(group, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a long-lived process group.
    fn sleeper() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        (child, pid)
    }

    #[test]
    fn only_groups_that_are_left_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut cleanup = CleanupProcess::start(folder.path());
        let mut sleepers: Vec<_> = (0..4).map(|_| sleeper()).collect();
        for (_, group) in &sleepers {
            cleanup.add(*group);
        }
        cleanup.remove(sleepers[0].1);
        cleanup.remove(sleepers[2].1);
        drop(cleanup);
        assert!(!folder.path().exists());
        for kept in [0, 2] {
            assert!(sleepers[kept].0.try_wait().unwrap().is_none());
            sleepers[kept].0.kill().unwrap();
        }
        for (child, _) in &mut sleepers {
            assert!(!child.wait().unwrap().success());
        }
    }
}
