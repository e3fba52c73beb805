//! Harness that starts launchers, reads their lines, and waits for processes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Maximum duration of any wait in a test.
const LIMIT: Duration = Duration::from_mins(1);

/// Returns `hemiola run` with these arguments, not yet started.
pub(crate) fn hemiola(arguments: &[&str]) -> Command {
    let mut command = subcommand("run");
    command.args(arguments);
    command
}

/// Returns a subcommand without arguments, not yet started, and without inherited `HEMIOLA_*`
/// variables.
pub(crate) fn subcommand(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hemiola"));
    command.arg(name).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HEMIOLA_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command line without its first word `hemiola`, in a folder, to its end. Words are
/// separated by white space.
pub(crate) fn command(folder: &Path, line: &str) -> Ended {
    let (name, arguments) = line.split_once(' ').unwrap_or((line, ""));
    launch(subcommand(name).args(arguments.split_whitespace()).current_dir(folder)).end()
}

/// Runs `hemiola run` with `options`, and `script` as the program, to its end.
pub(crate) fn run(options: &[&str], script: &str) -> Ended {
    launch(hemiola(options).args(["--", "sh", "-c", script])).end()
}

/// Starts a launcher.
pub(crate) fn launch(command: &mut Command) -> Launched {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = lines(child.stdout.take().unwrap());
    let stderr = lines(child.stderr.take().unwrap());
    Launched { child, stdout, stderr }
}

/// Returns the lines of a stream as they arrive.
fn lines(stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let _ = sender.send(line);
        }
    };
    std::thread::Builder::new().name("lines".into()).spawn(read).unwrap();
    receiver
}

/// Running launcher. It is killed if the test fails before its end.
pub(crate) struct Launched {
    child: Child,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
}

impl Launched {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the next line of stdout.
    pub(crate) fn line(&self) -> String {
        let line = self.stdout.recv_timeout(LIMIT).expect("a line arrives in time");
        String::from_utf8(line).unwrap()
    }

    /// Returns the next line of stderr.
    pub(crate) fn error_line(&self) -> String {
        let line = self.stderr.recv_timeout(LIMIT).expect("a line arrives in time");
        String::from_utf8(line).unwrap()
    }

    /// Returns the processes of the next `count` lines, which are `[rank] pid ...`, by rank.
    pub(crate) fn pids(&self, count: usize) -> Vec<Process> {
        let mut lines: Vec<_> = (0..count).map(|_| self.line()).collect();
        lines.sort();
        let pids = lines.iter().flat_map(|line| line.split_whitespace().skip(1));
        pids.map(|pid| Process::open(pid.parse().unwrap())).collect()
    }

    /// Returns the child processes of the launcher: the peers and their guard.
    pub(crate) fn children(&self) -> Vec<Process> {
        let parent = self.child.id().to_string();
        let processes =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_child = |pid: &String| {
            // The name in parentheses may contain anything; state and parent follow it.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let rest = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().nth(1) == Some(&*parent));
            rest.unwrap_or(false)
        };
        processes.filter(is_child).filter_map(|pid| Some(Process::open(pid.parse().ok()?))).collect()
    }

    /// Waits for the end and returns the exit code; `None` if it was killed.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let process = Process::open(self.child.id());
        process.wait_for_end();
        self.child.wait().unwrap().code()
    }

    /// Waits for the end and returns code and output.
    pub(crate) fn end(mut self) -> Ended {
        let code = self.wait();
        Ended { code, stdout: rest(&self.stdout), stderr: rest(&self.stderr) }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns all lines up to the end of the stream, which the last process that holds it closes.
fn rest(lines: &Receiver<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) => all.push(line),
            Err(RecvTimeoutError::Disconnected) => return all,
            Err(RecvTimeoutError::Timeout) => panic!("the stream does not end: a process holds it open"),
        }
    }
}

/// Exit code and output of a launcher.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code; `None` if it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<Vec<u8>>,
    pub(crate) stderr: Vec<Vec<u8>>,
}

impl Ended {
    /// Returns the lines of stdout, sorted, because peers print in any order.
    pub(crate) fn sorted(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.stdout.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        lines.sort();
        lines
    }

    /// Returns the messages of the launcher itself.
    pub(crate) fn notes(&self) -> Vec<String> {
        let lines = self.stderr.iter().map(|line| String::from_utf8_lossy(line).into_owned());
        lines.filter(|line| line.starts_with("hemiola: ")).collect()
    }
}

/// Process handle that stays valid if the process id is reused.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    /// `None` if the process was gone already.
    handle: Option<rustix::fd::OwnedFd>,
}

impl Process {
    pub(crate) fn open(pid: u32) -> Self {
        let number = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        Self { pid, handle: pidfd_open(number, PidfdFlags::empty()).ok() }
    }

    /// Returns the initial value of an environment variable of the process.
    #[cfg(feature = "nets")]
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let all = std::fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let of_name =
            |one: &[u8]| String::from_utf8_lossy(one).strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        all.split(|byte| *byte == 0).find_map(of_name)
    }

    #[cfg(feature = "nets")]
    pub(crate) fn kill(&self) {
        let handle = self.handle.as_ref().expect("the process is running");
        rustix::process::pidfd_send_signal(handle, Signal::KILL).unwrap();
    }

    /// Waits until the process has ended, reaped or not.
    pub(crate) fn wait_for_end(&self) {
        let Some(handle) = &self.handle else { return };
        let limit = Timespec { tv_sec: LIMIT.as_secs().cast_signed(), tv_nsec: 0 };
        let mut polled = [PollFd::new(handle, PollFlags::IN)];
        let ended = poll(&mut polled, Some(&limit)).unwrap();
        assert_eq!(ended, 1, "process {} is left", self.pid);
    }

    pub(crate) fn has_ended(&self) -> bool {
        let Some(handle) = &self.handle else { return true };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&now)).unwrap() == 1
    }
}

/// Returns the number of entries in a folder.
pub(crate) fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}
