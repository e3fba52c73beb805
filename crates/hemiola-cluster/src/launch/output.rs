//! Where the output of the peers goes.
//!
//! All peers print through one [`Printer`], which writes whole lines, each behind its rank, under one lock: lines of two
//! peers never mix, not even where stdout and stderr are the same pipe. Peers wait for a slow reader, as they would
//! without a launcher.
//!
//! A stdout that nobody reads any more (`| head`) is reported once as [`Event::OutputClosed`]; what comes after it is
//! dropped. Any other fault of stdout (a full disk) costs the output but not the job, and is told once.

use super::event::Event;
use super::notes::Notes;
use crate::variables::{NO_COLOR, Variables};
use hemiola_core::Rank;
use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

/// One of the two streams of a peer, and of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Where the launcher prints.
pub struct Output {
    stdout: Sink,
    stderr: Sink,
}

struct Sink {
    /// `None` once it has failed.
    writer: Option<Box<dyn Write + Send>>,
    colour: bool,
}

impl Output {
    /// This process's stdout and stderr, in colour where they are terminals and `NO_COLOR` is not set.
    #[must_use]
    pub fn standard(variables: &dyn Variables) -> Self {
        let colour = variables.get_set(NO_COLOR.name).is_none();
        Self::new(io::stdout(), io::stderr())
            .colour(colour && io::stdout().is_terminal(), colour && io::stderr().is_terminal())
    }

    /// Two writers, without colour.
    pub fn new(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        let sink = |writer| Sink { writer: Some(writer), colour: false };
        Self { stdout: sink(Box::new(stdout)), stderr: sink(Box::new(stderr)) }
    }

    /// Whether the ranks in front of lines are in colour, on either stream.
    #[must_use]
    pub fn colour(mut self, stdout: bool, stderr: bool) -> Self {
        self.stdout.colour = stdout;
        self.stderr.colour = stderr;
        self
    }

    fn sink(&mut self, stream: Stream) -> &mut Sink {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Output").finish_non_exhaustive()
    }
}

/// Prints for all peers. Shared by the relay threads.
#[derive(Debug)]
pub(super) struct Printer {
    output: Mutex<Output>,
    colour: [bool; 2],
    events: SyncSender<Event>,
    /// Whether lines for stdout were lost, though somebody wanted them.
    lost: Arc<AtomicBool>,
}

impl Printer {
    pub(super) fn new(output: Output, events: SyncSender<Event>) -> Self {
        let colour = [output.stdout.colour, output.stderr.colour];
        Self { output: Mutex::new(output), colour, events, lost: Arc::default() }
    }

    /// What becomes true when lines for stdout are lost, other than by the wish of their reader.
    pub(super) fn lost(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lost)
    }

    /// Adds one line of peer `rank` to what will be [printed](Self::print) together.
    pub(super) fn render(&self, batch: &mut Vec<u8>, stream: Stream, rank: Rank, line: &[u8]) {
        if self.colour[stream as usize] {
            let _ = write!(batch, "\x1b[{}m[{rank}]\x1b[0m ", colour(rank));
        } else {
            let _ = write!(batch, "[{rank}] ");
        }
        batch.extend_from_slice(line);
        batch.push(b'\n');
    }

    /// Writes whole lines. Waits as long as the reader of our output does; a fault is told through `notes`.
    pub(super) fn print(&self, stream: Stream, lines: &[u8], notes: &Notes) {
        // A panic while printing cannot leave the sinks in a state worse than a torn line.
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = output.sink(stream);
        let Some(writer) = &mut sink.writer else { return };
        let Err(error) = writer.write_all(lines).and_then(|()| writer.flush()) else { return };
        sink.writer = None;
        drop(output);
        match (stream, error.kind()) {
            (Stream::Stderr, _) => {} // there is nowhere left to say it
            (Stream::Stdout, io::ErrorKind::BrokenPipe) => {
                // Fails only when the launcher is done and listens no more.
                let _ = self.events.send(Event::OutputClosed);
            }
            (Stream::Stdout, _) => {
                self.lost.store(true, Ordering::Relaxed);
                notes.tell(format!("cannot write to stdout, its lines are lost from here on: {error}"));
            }
        }
    }
}

/// The colour of a rank: six that can be read on dark and light ground, then the same in bold.
fn colour(rank: Rank) -> &'static str {
    const COLOURS: [&str; 12] = ["36", "33", "32", "35", "34", "31", "1;36", "1;33", "1;32", "1;35", "1;34", "1;31"];
    COLOURS[rank.index() % COLOURS.len()]
}
