//! What happened when, as a file for Perfetto (the Chrome trace format): the passes of the program above, what travelled below.

use hemiola_core::{Env, Moment, Rank};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Something that took time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// What it was.
    pub what: String,
    /// On which line it is drawn.
    pub line: Line,
    /// Seconds since the trace began.
    pub start: f64,
    /// Seconds since the trace began.
    pub end: f64,
}

/// The lines of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Line {
    /// Forward and backward passes.
    Compute,
    /// Waiting of a forward pass for a variable.
    Wait,
    /// A unit on its way.
    Travel(usize),
}

/// Collects spans.
#[derive(Debug)]
pub(crate) struct Trace {
    env: Arc<dyn Env>,
    began: Moment,
    spans: Mutex<Vec<Span>>,
}

impl Trace {
    pub(crate) fn new(env: Arc<dyn Env>) -> Self {
        let began = env.now();
        Self { env, began, spans: Mutex::default() }
    }

    pub(crate) fn now(&self) -> f64 {
        (self.env.now() - self.began).as_secs_f64()
    }

    /// Something that began then has ended now.
    pub(crate) fn ended(&self, what: impl Into<String>, line: Line, start: f64) {
        let span = Span { what: what.into(), line, start, end: self.now() };
        self.spans.lock().push(span);
    }

    pub(crate) fn take(&self) -> Vec<Span> {
        std::mem::take(&mut *self.spans.lock())
    }
}

/// Spans of a peer as a trace that Perfetto and Chrome show.
#[must_use]
pub fn perfetto(spans: &[(Rank, Vec<Span>)]) -> String {
    let mut events = Vec::new();
    for (rank, spans) in spans {
        let process = rank.number();
        events
            .push(json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": format!("peer {rank}")}}));
        for span in spans {
            let (thread, name) = match span.line {
                Line::Compute => (0, "compute".to_owned()),
                Line::Wait => (1, "waits for".to_owned()),
                Line::Travel(unit) => (2 + unit, format!("unit {unit}")),
            };
            events
                .push(json!({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}));
            let micros = |seconds: f64| (seconds * 1e6).round();
            events.push(json!({
                "ph": "X", "name": span.what, "pid": process, "tid": thread,
                "ts": micros(span.start), "dur": micros(span.end - span.start),
            }));
        }
    }
    json!({"traceEvents": events, "displayTimeUnit": "ms"}).to_string()
}
