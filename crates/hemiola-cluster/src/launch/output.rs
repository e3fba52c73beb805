//! Output of the peers.
//!
//! All peers print through one [`Printer`], which writes whole lines, each prefixed with its rank,
//! under one lock: lines of two peers never mix, not even where stdout and stderr are the same
//! pipe. Peers wait for a slow reader, as they would without a launcher.
//!
//! A stdout whose reader is gone (`| head`) is reported once as [`LaunchEvent::OutputClosed`];
//! later output is dropped. Any other write error of stdout (a full disk) costs the output but not
//! the job, and is reported once.

use super::diagnostics::LauncherDiagnostics;
use super::event::LaunchEvent;
use super::repeated_errors::SharedRepeatedErrors;
use crate::environment::{VariableSource, allows_colour};
use hemiola_core::Rank;
use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

/// One of the two output streams of a peer, and of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputStream {
    Stdout,
    Stderr,
}

/// Destination of the launcher's output.
pub struct Output {
    stdout: OutputSink,
    stderr: OutputSink,
}

struct OutputSink {
    /// `None` after a write error.
    writer: Option<Box<dyn Write + Send>>,
    colour: bool,
}

impl Output {
    /// Creates the output to this process's stdout and stderr, in colour where the terminal and the
    /// variables [allow](allows_colour) it.
    #[must_use]
    pub fn standard(variables: &dyn VariableSource) -> Self {
        let [stdout, stderr] = [io::stdout().is_terminal(), io::stderr().is_terminal()]
            .map(|is_terminal| allows_colour(variables, is_terminal));
        Self::new(io::stdout(), io::stderr()).colour(stdout, stderr)
    }

    /// Creates the output to two writers, without colour.
    pub fn new(stdout: impl Write + Send + 'static, stderr: impl Write + Send + 'static) -> Self {
        let sink = |writer| OutputSink { writer: Some(writer), colour: false };
        Self { stdout: sink(Box::new(stdout)), stderr: sink(Box::new(stderr)) }
    }

    /// Enables coloured rank prefixes, for either stream.
    #[must_use]
    pub fn colour(mut self, stdout: bool, stderr: bool) -> Self {
        self.stdout.colour = stdout;
        self.stderr.colour = stderr;
        self
    }

    fn sink(&mut self, stream: OutputStream) -> &mut OutputSink {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
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
    events: SyncSender<LaunchEvent>,
    /// True if lines for stdout were lost although its reader was there.
    lost: Arc<AtomicBool>,
    /// Errors that several peers print alike, if they are merged.
    repeated: Option<SharedRepeatedErrors>,
}

impl Printer {
    pub(super) fn new(output: Output, events: SyncSender<LaunchEvent>, merge_errors: bool) -> Self {
        let colour = [output.stdout.colour, output.stderr.colour];
        Self {
            output: Mutex::new(output),
            colour,
            events,
            lost: Arc::default(),
            repeated: merge_errors.then(SharedRepeatedErrors::default),
        }
    }

    /// Returns a flag that becomes true when lines for stdout are lost, other than by a closed
    /// pipe.
    pub(super) fn lost(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lost)
    }

    /// Returns whether a line of peer `rank` is printed; a repeated error is not.
    pub(super) fn admits(&self, stream: OutputStream, rank: Rank, line: &[u8]) -> bool {
        match (&self.repeated, stream) {
            (Some(errors), OutputStream::Stderr) => errors.lock().admits(rank, line),
            _ => true,
        }
    }

    /// Returns the errors that are merged; `None` if all are printed.
    pub(super) fn repeated_errors(&self) -> Option<SharedRepeatedErrors> {
        self.repeated.clone()
    }

    /// Adds one line of peer `rank` to a batch that is [printed](Self::print) at once.
    pub(super) fn render(&self, batch: &mut Vec<u8>, stream: OutputStream, rank: Rank, line: &[u8]) {
        if self.colour[stream as usize] {
            let _ = write!(batch, "\x1b[{}m[{rank}]\x1b[0m ", colour(rank));
        } else {
            let _ = write!(batch, "[{rank}] ");
        }
        batch.extend_from_slice(line);
        batch.push(b'\n');
    }

    /// Writes whole lines. Blocks as long as the reader of the output does; an error is reported
    /// through `diagnostics`.
    pub(super) fn print(&self, stream: OutputStream, lines: &[u8], diagnostics: &LauncherDiagnostics) {
        // A panic while printing leaves at worst a torn line.
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = output.sink(stream);
        let Some(writer) = &mut sink.writer else { return };
        let Err(error) = writer.write_all(lines).and_then(|()| writer.flush()) else { return };
        sink.writer = None;
        drop(output);
        match (stream, error.kind()) {
            (OutputStream::Stderr, _) => {} // there is nowhere left to report it
            (OutputStream::Stdout, io::ErrorKind::BrokenPipe) => {
                // Fails only when the launcher has ended and receives no more events.
                let _ = self.events.send(LaunchEvent::OutputClosed);
            }
            (OutputStream::Stdout, _) => {
                self.lost.store(true, Ordering::Relaxed);
                diagnostics.report(format!("cannot write to stdout, further lines are lost: {error}"));
            }
        }
    }
}

/// Returns the colour of a rank: six that are readable on dark and light backgrounds, then the same
/// in bold.
fn colour(rank: Rank) -> &'static str {
    const COLOURS: [&str; 12] = ["36", "33", "32", "35", "34", "31", "1;36", "1;33", "1;32", "1;35", "1;34", "1;31"];
    COLOURS[rank.index() % COLOURS.len()]
}
