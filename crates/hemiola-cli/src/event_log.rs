//! Event log of a training: a JSON object on each line, written while the command runs.
//!
//! Every line has `event`, its kind, and `time`, seconds since 1970 (UTC); the other fields depend on
//! the kind (docs/reference/file-formats.md). **Invariant:** a line is passed to the system in one
//! call as soon as its event has happened, so a killed command leaves whole lines. After a failed
//! write the rest of that line is removed, nothing is written any more, and the command says so at
//! its end.

use crate::error::CommandError;
use crate::report;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Event log, or none. Clones write to the same file.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog(Option<Arc<OpenLog>>);

#[derive(Debug)]
struct OpenLog {
    path: PathBuf,
    state: Mutex<LogState>,
}

#[derive(Debug)]
struct LogState {
    file: File,
    /// First error of a write, after which nothing is written.
    failed: Option<io::Error>,
}

/// Line of a log.
#[derive(Serialize)]
struct LogLine<'a, T> {
    event: &'a str,
    time: f64,
    #[serde(flatten)]
    fields: &'a T,
}

impl EventLog {
    /// Checks, before work begins, that a log can be written.
    pub(crate) fn check(target: &Path) -> anyhow::Result<()> {
        if target == Path::new("-") {
            let message = "the event log cannot be written to standard output, which has the progress";
            return Err(CommandError::usage(message).hint("give the name of a file").into());
        }
        report::check(target)
    }

    /// Creates the log, or continues an existing one.
    pub(crate) fn open(target: &Path, continues: bool) -> anyhow::Result<Self> {
        let open = || -> io::Result<File> {
            let regular = !target.exists() || target.is_file();
            if continues && regular {
                remove_partial_line(target)?;
            }
            let (append, truncate) = (continues && regular, !continues && regular);
            OpenOptions::new().create(true).write(true).append(append).truncate(truncate).open(target)
        };
        let file = open().map_err(|error| CommandError::io("write the event log to", target, &error))?;
        let state = Mutex::new(LogState { file, failed: None });
        Ok(Self(Some(Arc::new(OpenLog { path: target.to_owned(), state }))))
    }

    /// Writes an event with its fields, which must serialize to an object.
    pub(crate) fn record(&self, event: &str, fields: &impl Serialize) {
        let Some(log) = &self.0 else { return };
        let mut line = match serde_json::to_vec(&LogLine { event, time: unix_time(), fields }) {
            Ok(line) => line,
            // Fields are plain data, so this is a bug; the event itself is still worth a line.
            Err(_) => format!("{{\"event\":\"{event}\"}}").into_bytes(),
        };
        line.push(b'\n');
        let mut state = log.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_some() {
            return;
        }
        let before = state.file.metadata().ok().filter(std::fs::Metadata::is_file).map(|known| known.len());
        if let Err(error) = state.file.write_all(&line) {
            if let Some(before) = before {
                // If this fails, too, the last line stays partial, and readers skip it.
                let _ = state.file.set_len(before);
            }
            state.failed = Some(error);
        }
    }

    /// Returns an error if an event could not be written.
    pub(crate) fn check_written(&self) -> anyhow::Result<()> {
        let Some(log) = &self.0 else { return Ok(()) };
        match &log.state.lock().unwrap_or_else(PoisonError::into_inner).failed {
            Some(error) => Err(CommandError::io("write the event log to", &log.path, error).into()),
            None => Ok(()),
        }
    }
}

/// Returns the seconds since 1970 (UTC), to the millisecond.
pub(crate) fn unix_time() -> f64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as f64 + (now.tv_nsec / 1_000_000) as f64 / 1e3
}

/// Removes what follows the last line of a log, such as the rest of a line on a disk that was full.
fn remove_partial_line(target: &Path) -> io::Result<()> {
    let text = match std::fs::read(target) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        OpenOptions::new().write(true).open(target)?.set_len(whole as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn each_event_is_a_line_at_once() {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("events.jsonl");
        std::fs::write(&path, "older\n").unwrap();
        let log = EventLog::open(&path, false).unwrap();
        log.record("start", &json!({ "command": "a\nb", "loss": f64::NAN }));
        let found = lines(&path);
        assert_eq!((found.len(), &found[0]["event"], &found[0]["command"]), (1, &json!("start"), &json!("a\nb")));
        assert!(found[0]["loss"].is_null() && found[0]["time"].as_f64().unwrap() > 1e9);
        log.clone().record("end", &json!({}));
        assert_eq!(lines(&path).len(), 2);
        log.check_written().unwrap();
    }

    #[test]
    fn a_continued_log_drops_a_partial_line_and_keeps_the_others() {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("events.jsonl");
        std::fs::write(&path, "{\"event\":\"start\"}\n{\"event\":\"ep").unwrap();
        EventLog::open(&path, true).unwrap().record("start", &json!({}));
        assert_eq!(lines(&path).len(), 2);
        EventLog::open(&lab.path().join("new.jsonl"), true).unwrap().record("start", &json!({}));
        assert_eq!(lines(&lab.path().join("new.jsonl")).len(), 1);
    }

    #[test]
    fn a_failed_write_is_reported_and_ends_the_log() {
        let log = EventLog::open(Path::new("/dev/full"), false).unwrap();
        log.record("start", &json!({}));
        log.record("end", &json!({}));
        let message = log.check_written().unwrap_err().to_string();
        assert!(message.contains("/dev/full"), "{message}");
        assert!(EventLog::check(Path::new("-")).is_err());
        EventLog::default().check_written().unwrap();
    }
}
