//! What happened when, for people to look at: spans of computing and waiting, and messages, in the trace format of Chrome, which Perfetto reads, too.

use serde::Serialize;

/// A stretch of somebody's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Which peer.
    pub peer: u32,
    /// Which of its workers; [`Spent::WIRE`] for messages on their way.
    pub worker: u32,
    /// What it did.
    pub what: &'static str,
    /// From when, in nanoseconds.
    pub start: u64,
    /// Until when.
    pub end: u64,
}

impl Spent {
    /// In place of a worker: messages that the peer has sent.
    pub const WIRE: u32 = u32::MAX;
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order in which they ended.
    pub spans: Vec<Spent>,
}

#[derive(Serialize)]
struct Chrome<'a> {
    name: &'a str,
    ph: &'static str,
    /// Microseconds.
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<serde_json::Value>,
}

impl Trace {
    /// The trace as Chrome's `about:tracing` and Perfetto read it.
    ///
    /// # Panics
    /// Never: it is plain data.
    #[must_use]
    pub fn to_chrome(&self) -> String {
        // Messages come after the workers, in a row of their own.
        let wire = 1 + self.spans.iter().map(|span| span.worker).filter(|id| *id != Spent::WIRE).max().unwrap_or(0);
        let row = |worker: u32| if worker == Spent::WIRE { wire } else { worker };
        let mut rows: Vec<(u32, u32)> = self.spans.iter().map(|span| (span.peer, row(span.worker))).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut events: Vec<Chrome<'_>> = Vec::new();
        for (peer, worker) in rows {
            let name = if worker == wire { "messages".to_owned() } else { format!("worker {worker}") };
            let meta = |what, name: String| Chrome {
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
        events.extend(self.spans.iter().map(|span| Chrome {
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
            Spent { peer: 1, worker: 0, what: "computes", start: 1500, end: 4000 },
            Spent { peer: 1, worker: Spent::WIRE, what: "message", start: 4000, end: 9000 },
        ];
        let text = Trace { spans }.to_chrome();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 6);
        assert_eq!(events[4]["ts"], 1.5);
        assert_eq!(events[4]["dur"], 2.5);
        assert_eq!(events[5]["tid"], 1);
    }
}
