//! Training command in progress on one peer: its record, its event log, and the signals that
//! interrupt it.
//!
//! **Invariant:** the root alone has a record and writes the log, so a job of any number of peers has
//! one file. All peers watch for signals from the start: before there is anything to save, the first
//! one ends the process; then it is a request that training honours.

use super::progress::TrainingBar;
use crate::error::into_cluster_error;
use crate::event_log::EventLog;
use crate::run_record::RunRecord;
use crate::{activity, report};
use hemiola_cluster::{Cluster, Interrupt, InterruptResponse, Result};
use hemiola_core::Moment;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Model and settings of a job, as its event log has them.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct JobDescription {
    pub(super) model: String,
    pub(super) settings: Value,
}

/// Training command in progress.
#[derive(Debug)]
pub(super) struct TrainingJob {
    pub(super) log: EventLog,
    pub(super) interrupt: Interrupt,
    /// Record of the run, on the root, if a report or a log is written.
    record: Option<RunRecord>,
    /// Confirmation of a signal; `None` as long as there is nothing to save.
    confirmation: Arc<Mutex<Option<Confirmation>>>,
    start: Moment,
    loaded: OnceLock<()>,
    result: Mutex<Value>,
}

/// Confirmation of the first signal, for the user.
#[derive(Debug)]
struct Confirmation {
    bar: TrainingBar,
    text: String,
}

impl TrainingJob {
    /// Begins a job, and its log with the event `start`.
    pub(super) fn begin(
        cluster: &Cluster,
        log: EventLog,
        record: Option<RunRecord>,
        (description, shows): (&JobDescription, bool),
    ) -> Result<Self> {
        #[derive(Serialize)]
        struct Start<'a> {
            #[serde(flatten)]
            record: Option<&'a RunRecord>,
            #[serde(flatten)]
            description: &'a JobDescription,
        }
        log.record("start", &Start { record: record.as_ref(), description });
        log.record("loading", &json!({}));
        if cluster.is_root() && shows {
            activity::begin(cluster.env(), record.as_ref().map_or(0, RunRecord::input_bytes), "preparing");
        }
        let confirmation = Arc::new(Mutex::new(None::<Confirmation>));
        let (confirmed, logged) = (confirmation.clone(), log.clone());
        let stop = cluster.stop_request().clone();
        let interrupt = Interrupt::watch_with(move |signal| {
            let confirmed = confirmed.lock().unwrap_or_else(PoisonError::into_inner);
            logged.record("interrupt", &json!({ "signal": signal, "ends_at_once": confirmed.is_none() }));
            match &*confirmed {
                Some(Confirmation { bar, text }) => {
                    bar.aside(text);
                    InterruptResponse::Stop(stop)
                }
                None => InterruptResponse::End,
            }
        })?;
        let (start, loaded, result) = (cluster.env().now(), OnceLock::new(), Mutex::default());
        Ok(Self { log, interrupt, record, confirmation, start, loaded, result })
    }

    /// Notes that the data are read, once: from now on, a signal is confirmed with `text`, and the
    /// job stops in good order.
    pub(super) fn loaded(&self, bar: &TrainingBar, (headline, seconds): (&str, f64), text: &str) {
        activity::end();
        let confirmation = Confirmation { bar: bar.clone(), text: text.to_owned() };
        *self.confirmation.lock().unwrap_or_else(PoisonError::into_inner) = Some(confirmation);
        if self.loaded.set(()).is_ok() {
            self.log.record("loaded", &json!({ "seconds": seconds, "summary": headline }));
        }
    }

    /// Writes a report with the record of the run before its fields.
    pub(super) fn write_report(&self, target: &Path, report: &impl Serialize) -> Result<()> {
        let record = self.record.clone().map(RunRecord::with_digests);
        report::write(target, &RunRecord::of(record.as_ref(), report)).map_err(into_cluster_error)
    }

    /// Sets the result that the last event has.
    pub(super) fn set_result(&self, result: &impl Serialize) {
        let result = serde_json::to_value(result).unwrap_or_default();
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = result;
    }

    /// Writes the last event: the result and the exit code, or the error. Returns an error if an
    /// event could not be written.
    pub(super) fn end(&self, cluster: &Cluster, outcome: &Result<u8>) -> Result<()> {
        activity::end();
        let seconds = (cluster.env().now() - self.start).as_secs_f64();
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        let fields = match outcome {
            Ok(code) => json!({ "exit_code": code, "result": result, "total_seconds": seconds }),
            Err(error) => json!({ "error": error.to_string(), "total_seconds": seconds }),
        };
        self.log.record("end", &fields);
        self.log.check_written().map_err(into_cluster_error)
    }
}
