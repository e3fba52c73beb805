//! Timeline of training in the Chrome trace format, which Perfetto reads: passes and waits in the
//! first rows, one row for each synchronized unit below.

use hemiola_core::{Env, Moment, Rank};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// A named interval on one lane of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceSpan {
    /// Pass, variable or unit that the span shows.
    pub name: String,
    /// Lane on which it is drawn.
    pub lane: TraceLane,
    /// Start in seconds since the trace began.
    pub start: f64,
    /// End in seconds since the trace began.
    pub end: f64,
}

/// Lane of the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TraceLane {
    /// Forward and backward passes of the training thread.
    Compute,
    /// Waits of a forward pass for a variable.
    Wait,
    /// Synchronization of the unit with this index.
    Sync(usize),
}

/// Collects the spans of one peer.
#[derive(Debug)]
pub(crate) struct TraceRecorder {
    env: Arc<dyn Env>,
    began: Moment,
    spans: Mutex<Vec<TraceSpan>>,
}

impl TraceRecorder {
    pub(crate) fn new(env: Arc<dyn Env>) -> Self {
        let began = env.now();
        Self { env, began, spans: Mutex::default() }
    }

    pub(crate) fn now(&self) -> f64 {
        (self.env.now() - self.began).as_secs_f64()
    }

    /// Records a span that started at `start` and ends now.
    pub(crate) fn record(&self, what: impl Into<String>, line: TraceLane, start: f64) {
        let span = TraceSpan { name: what.into(), lane: line, start, end: self.now() };
        self.spans.lock().push(span);
    }

    pub(crate) fn take(&self) -> Vec<TraceSpan> {
        std::mem::take(&mut *self.spans.lock())
    }
}

/// Formats the spans of all peers as a JSON document for Perfetto or `chrome://tracing`.
#[must_use]
pub fn chrome_trace(spans: &[(Rank, Vec<TraceSpan>)]) -> String {
    let mut events = Vec::new();
    for (rank, spans) in spans {
        let process = rank.number();
        events
            .push(json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": format!("peer {rank}")}}));
        for span in spans {
            let (thread, name) = match span.lane {
                TraceLane::Compute => (0, "compute".to_owned()),
                TraceLane::Wait => (1, "waits for".to_owned()),
                TraceLane::Sync(unit) => (2 + unit, format!("unit {unit}")),
            };
            events
                .push(json!({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}));
            let micros = |seconds: f64| (seconds * 1e6).round();
            events.push(json!({
                "ph": "X", "name": span.name, "pid": process, "tid": thread,
                "ts": micros(span.start), "dur": micros(span.end - span.start),
            }));
        }
    }
    json!({"traceEvents": events, "displayTimeUnit": "ms"}).to_string()
}
