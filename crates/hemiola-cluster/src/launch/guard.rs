//! A small process that outlives a killed launcher just long enough to clean up after it.
//!
//! The kernel ends the peers of a killed launcher ([`parent_death`](super::parent_death)), but not their children: a
//! peer that is a shell script would die and leave the real program running. So a shell waits at the end of a pipe
//! that only the launcher holds. It is told of each process group; when the pipe ends, it kills those that are left
//! and removes the launcher's folder.
//!
//! The guard is a second net. If it cannot be started (a system without `/bin/sh`), the job runs without it.

use rustix::process::{Pid, Signal};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// `+7` and `-7` add and remove the group 7. Signals meant for the launcher's job are ignored.
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

/// The launcher's end of the pipe.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Option<(Child, ChildStdin)>,
}

impl Guard {
    /// Starts the guard, which will remove `folder`.
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

    /// A process group has been made.
    pub(super) fn add(&mut self, group: Pid) {
        self.say(format_args!("+{group}\n"));
    }

    /// A process group is about to be gone; its number may soon be another's.
    pub(super) fn remove(&mut self, group: Pid) {
        self.say(format_args!("-{group}\n"));
    }

    fn say(&mut self, line: std::fmt::Arguments<'_>) {
        // One write per line: the pipe has room for thousands, and a line is never torn. A guard that is gone is
        // no reason to fail.
        if let Some((_, stdin)) = &mut self.shell {
            let _ = stdin.write_all(line.to_string().as_bytes());
        }
    }
}

impl Drop for Guard {
    /// Lets the guard do its work and waits for it: it does not wait for anything itself.
    fn drop(&mut self) {
        if let Some((mut child, stdin)) = self.shell.take() {
            drop(stdin);
            let _ = child.wait();
        }
    }
}

/// Sends `signal` to a whole process group. That it is gone already is no error.
pub(super) fn signal_group(group: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(group, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process group of its own that would live for long.
    fn sleeper() -> (Child, Pid) {
        let child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        (child, pid)
    }

    #[test]
    fn only_groups_that_are_left_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut guard = Guard::start(folder.path());
        let mut sleepers: Vec<_> = (0..4).map(|_| sleeper()).collect();
        for (_, group) in &sleepers {
            guard.add(*group);
        }
        guard.remove(sleepers[0].1);
        guard.remove(sleepers[2].1);
        drop(guard);
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
