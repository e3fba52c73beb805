//! Brings the output of one peer to the printer and its log.
//!
//! One thread per peer reads both streams. It ends when both have ended; or, after the peer's process has ended, when
//! there is nothing more to read: a process that the peer left behind may hold the streams open for ever.

use super::LaunchError;
use super::event::Event;
use super::lines::Lines;
use super::logs::Log;
use super::notes::Notes;
use super::output::{Printer, Stream};
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
/// How much may come after the end of the process: the most a pipe can hold by default.
const LEFT_IN_PIPE: usize = 1024 * 1024;
/// How long a stream must be silent after the end of the process to count as ended.
const SILENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// What a relay works with.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) rank: Rank,
    /// Whether stdout is printed as it is.
    pub(super) bare: bool,
    pub(super) printer: Arc<Printer>,
    pub(super) notes: Notes,
    pub(super) log: Option<Log>,
    /// Where a status that comes between the lines of stderr is put; `None` if the peer is on this host.
    pub(super) status: Option<Arc<OnceLock<StatusReport>>>,
}

impl Relay {
    /// Starts the thread, which sends [`Event::Drained`] at its end. Dropping what is returned tells it that the
    /// process has ended.
    pub(super) fn start(
        self,
        stdout: impl Into<OwnedFd>,
        stderr: impl Into<OwnedFd>,
        events: SyncSender<Event>,
    ) -> Result<PipeWriter, LaunchError> {
        let (hangup, running) =
            io::pipe().map_err(|source| LaunchError::Setup { what: "no pipe for output", source })?;
        let sources = [Source::new(Stream::Stdout, stdout.into()), Source::new(Stream::Stderr, stderr.into())];
        let name = format!("output of peer {}", self.rank);
        let run = move || {
            self.run(sources, &hangup);
            let _ = events.send(Event::Drained); // nobody listens once the launcher has given up waiting
        };
        thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|source| LaunchError::Setup { what: "no thread for output", source })?;
        Ok(running)
    }

    fn run(mut self, mut sources: [Source; 2], hangup: &PipeReader) {
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
    fn pass_on(&mut self, source: &mut Source, bytes: &[u8]) {
        let bare = self.bare && source.stream == Stream::Stdout;
        let (mut printed, mut logged) = (if bare { bytes.to_vec() } else { Vec::new() }, Vec::new());
        let mut emit = |line: &[u8]| {
            if let Some(status) = &self.status
                && let Some(text) = line.strip_prefix(STATUS_MARK)
            {
                if let Some(report) = StatusReport::parse(text, self.rank) {
                    let _ = status.set(report); // the first word counts
                }
                return;
            }
            if !bare {
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
            self.printer.print(source.stream, &printed, &self.notes);
        }
    }
}

/// One stream of a peer.
#[derive(Debug)]
struct Source {
    stream: Stream,
    /// `None` once it has ended.
    pipe: Option<PipeReader>,
    lines: Lines,
}

impl Source {
    fn new(stream: Stream, pipe: OwnedFd) -> Self {
        Self { stream, pipe: Some(pipe.into()), lines: Lines::default() }
    }

    /// Reads what is there. The end of the stream, or an error, closes it.
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

/// Which of the things waited for have happened.
struct Ready {
    sources: [bool; 2],
    hangup: bool,
}

/// Waits until a source can be read or the process has ended; if that is past (`hangup` is `None`), no longer than
/// [`SILENCE`].
fn wait(sources: &[Source; 2], hangup: Option<&PipeReader>) -> io::Result<Ready> {
    let mut polled = Vec::with_capacity(3);
    for pipe in sources.iter().filter_map(|source| source.pipe.as_ref()).chain(hangup) {
        polled.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
    }
    // Without a limit while the process lives: it may be silent for as long as it likes.
    let limit = if hangup.is_none() { Some(&SILENCE) } else { None };
    while let Err(error) = poll(&mut polled, limit) {
        if error != rustix::io::Errno::INTR {
            return Err(error.into());
        }
    }
    let mut happened = polled.iter().map(|polled| !polled.revents().is_empty());
    let sources = [0, 1].map(|index| sources[index].pipe.is_some() && happened.next().unwrap_or(false));
    Ok(Ready { sources, hangup: hangup.is_some() && happened.next().unwrap_or(false) })
}
