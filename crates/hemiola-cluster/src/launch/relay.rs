//! Relay of one peer's output to the printer and its log.
//!
//! One thread per peer reads both streams. It ends when both have ended; or, after the peer's
//! process has ended, when there is nothing more to read: a process that the peer left behind may
//! hold the streams open for ever.

use super::LaunchError;
use super::diagnostics::LauncherDiagnostics;
use super::event::LaunchEvent;
use super::line_splitter::LineSplitter;
use super::logs::PeerLog;
use super::output::{OutputStream, Printer};
use super::remote::STATUS_MARK;
use super::status::StatusReport;
use hemiola_core::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes that may arrive after the end of the process: the maximum that a pipe holds by default.
const LEFT_IN_PIPE: usize = 1024 * 1024;
/// Time without output after the end of the process until a stream counts as ended.
const SILENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Relay thread of one peer.
#[derive(Debug)]
pub(super) struct OutputRelay {
    pub(super) rank: Rank,
    /// True if stdout is passed on without prefixes.
    pub(super) unprefixed: bool,
    pub(super) printer: Arc<Printer>,
    pub(super) diagnostics: LauncherDiagnostics,
    pub(super) log: Option<PeerLog>,
    /// Destination of a status report that arrives on stderr; `None` for a local peer.
    pub(super) status: Option<Arc<OnceLock<StatusReport>>>,
}

impl OutputRelay {
    /// Starts the thread, which sends [`LaunchEvent::Drained`] when it ends. Dropping the returned
    /// writer signals that the process has ended.
    pub(super) fn start(
        self,
        stdout: impl Into<OwnedFd>,
        stderr: impl Into<OwnedFd>,
        events: SyncSender<LaunchEvent>,
    ) -> Result<PipeWriter, LaunchError> {
        let (hangup, running) =
            io::pipe().map_err(|source| LaunchError::Setup { problem: "no pipe for output", source })?;
        let sources = [
            RelaySource::new(OutputStream::Stdout, stdout.into()),
            RelaySource::new(OutputStream::Stderr, stderr.into()),
        ];
        let name = format!("output of peer {}", self.rank);
        let run = move || {
            self.run(sources, &hangup);
            let _ = events.send(LaunchEvent::Drained); // fails if the launcher has stopped waiting
        };
        thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|source| LaunchError::Setup { problem: "no thread for output", source })?;
        Ok(running)
    }

    fn run(mut self, mut sources: [RelaySource; 2], hangup: &PipeReader) {
        let mut chunk = vec![0; CHUNK];
        let mut left = None;
        while sources.iter().any(|source| source.pipe.is_some()) && left != Some(0) {
            let ready = wait(&sources, left.is_none().then_some(hangup));
            let Ok(ready) = ready else { break };
            if left.is_none() && ready.hangup {
                left = Some(LEFT_IN_PIPE);
            } else if left.is_some() && ready.sources == [false; 2] {
                break;
            }
            for (source, ready) in sources.iter_mut().zip(ready.sources) {
                if ready {
                    let count = source.read(&mut chunk);
                    self.pass_on(source, &chunk[..count]);
                    left = left.map(|left| left.saturating_sub(count));
                }
            }
        }
        for source in &mut sources {
            source.pipe = None;
            self.pass_on(source, &[]);
        }
    }

    /// Prints and logs the lines that end in `bytes`, and the last one if the stream has ended.
    fn pass_on(&mut self, source: &mut RelaySource, bytes: &[u8]) {
        let unprefixed = self.unprefixed && source.stream == OutputStream::Stdout;
        let (mut printed, mut logged) = (if unprefixed { bytes.to_vec() } else { Vec::new() }, Vec::new());
        let mut emit = |line: &[u8]| {
            if let Some(status) = &self.status
                && let Some(text) = line.strip_prefix(STATUS_MARK)
            {
                if let Some(report) = StatusReport::parse(text, self.rank) {
                    let _ = status.set(report); // the first report counts
                }
                return;
            }
            if !unprefixed && self.printer.admits(source.stream, self.rank, line) {
                self.printer.render(&mut printed, source.stream, self.rank, line);
            }
            if self.log.is_some() {
                logged.extend_from_slice(line);
                logged.push(b'\n');
            }
        };
        source.lines.push(bytes, &mut emit);
        if source.pipe.is_none() {
            source.lines.finish(&mut emit);
        }
        if let Some(log) = &mut self.log
            && !logged.is_empty()
        {
            log.write(&logged);
        }
        if !printed.is_empty() {
            self.printer.print(source.stream, &printed, &self.diagnostics);
        }
    }
}

/// One output stream of a peer.
#[derive(Debug)]
struct RelaySource {
    stream: OutputStream,
    /// `None` once the stream has ended.
    pipe: Option<PipeReader>,
    lines: LineSplitter,
}

impl RelaySource {
    fn new(stream: OutputStream, pipe: OwnedFd) -> Self {
        Self { stream, pipe: Some(pipe.into()), lines: LineSplitter::default() }
    }

    /// Reads available bytes. The end of the stream, or an error, closes it.
    fn read(&mut self, chunk: &mut [u8]) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        match pipe.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Ok(0) | Err(_) => {
                self.pipe = None;
                0
            }
            Ok(count) => count,
        }
    }
}

/// Conditions that hold after a wait.
struct RelayReadiness {
    sources: [bool; 2],
    hangup: bool,
}

/// Waits until a source is readable or the process has ended. After the end of the process
/// (`hangup` is `None`) it waits no longer than [`SILENCE`].
fn wait(sources: &[RelaySource; 2], hangup: Option<&PipeReader>) -> io::Result<RelayReadiness> {
    let mut polled = Vec::with_capacity(3);
    for pipe in sources.iter().filter_map(|source| source.pipe.as_ref()).chain(hangup) {
        polled.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
    }
    // Without a timeout while the process lives: it may be silent for as long as it likes.
    let limit = if hangup.is_none() { Some(&SILENCE) } else { None };
    while let Err(error) = poll(&mut polled, limit) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    let mut happened = polled.iter().map(|polled| !polled.revents().is_empty());
    let sources = [0, 1].map(|index| sources[index].pipe.is_some() && happened.next().unwrap_or(false));
    Ok(RelayReadiness { sources, hangup: hangup.is_some() && happened.next().unwrap_or(false) })
}
