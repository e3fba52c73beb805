//! Timeline of computations, waits and messages, in the Chrome trace format, which Perfetto reads.

use serde::Serialize;

/// An interval of a worker's time, or of a message in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivitySpan {
    /// Rank of the peer.
    pub peer: u32,
    /// Worker of the peer; [`ActivitySpan::WIRE`] for messages.
    pub worker: u32,
    /// Name of the activity.
    pub what: &'static str,
    /// Start in nanoseconds of virtual time.
    pub start: u64,
    /// End in nanoseconds of virtual time.
    pub end: u64,
}

impl ActivitySpan {
    /// Row of the messages that a peer sends.
    pub const WIRE: u32 = u32::MAX;
}

/// Trace of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimTrace {
    /// Spans in the order in which they ended.
    pub spans: Vec<ActivitySpan>,
}

#[derive(Serialize)]
struct ChromeEvent<'a> {
    name: &'a str,
    ph: &'static str,
    /// Microseconds since the start.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<serde_json::Value>,
}

impl SimTrace {
    /// Formats the trace as JSON for Perfetto and `chrome://tracing`.
    ///
    /// # Panics
    /// Never: a trace is plain data.
    #[must_use]
    pub fn to_chrome_json(&self) -> String {
        // Messages have a row of their own, after the workers.
        let wire =
            1 + self.spans.iter().map(|span| span.worker).filter(|id| *id != ActivitySpan::WIRE).max().unwrap_or(0);
        let row = |worker: u32| if worker == ActivitySpan::WIRE { wire } else { worker };
        let mut rows: Vec<(u32, u32)> = self.spans.iter().map(|span| (span.peer, row(span.worker))).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut events: Vec<ChromeEvent<'_>> = Vec::new();
        for (peer, worker) in rows {
            let name = if worker == wire { "messages".to_owned() } else { format!("worker {worker}") };
            let meta = |what, name: String| ChromeEvent {
                name: what,
                ph: "M",
                ts: 0.0,
                dur: None,
                pid: peer,
                tid: worker,
                args: Some(serde_json::json!({ "name": name })),
            };
            events.push(meta("process_name", format!("peer {peer}")));
            events.push(meta("thread_name", name));
        }
        events.extend(self.spans.iter().map(|span| ChromeEvent {
            name: span.what,
            ph: "X",
            ts: span.start as f64 / 1000.0,
            dur: Some((span.end - span.start) as f64 / 1000.0),
            pid: span.peer,
            tid: row(span.worker),
            args: None,
        }));
        serde_json::to_string(&serde_json::json!({ "displayTimeUnit": "ms", "traceEvents": events }))
            .expect("events are plain data")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_rows_and_spans_in_microseconds() {
        let spans = vec![
            ActivitySpan { peer: 1, worker: 0, what: "computes", start: 1500, end: 4000 },
            ActivitySpan { peer: 1, worker: ActivitySpan::WIRE, what: "message", start: 4000, end: 9000 },
        ];
        let text = SimTrace { spans }.to_chrome_json();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 6);
        assert_eq!(events[4]["ts"], 1.5);
        assert_eq!(events[4]["dur"], 2.5);
        assert_eq!(events[5]["tid"], 1);
    }
}
