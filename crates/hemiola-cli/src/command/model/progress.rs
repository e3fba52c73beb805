//! Progress of a training run: a bar on a terminal, a line per epoch elsewhere, nothing with
//! `--quiet`.

use super::bar_line::BarLine;
use super::job::TrainingJob;
use super::time_left::{ConvergenceGoal, TimeLeft};
use crate::error::CommandError;
use crate::terminal::{self, Palette};
use crate::{activity, output};
use hemiola_core::printable_lines;
use hemiola_models::training::{Callback, EpochProgress, TrainingControl, TrainingLimits, TrainingReport};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Interval at which the bar is redrawn between epochs.
const REDRAW_INTERVAL: Duration = Duration::from_millis(125);

/// Bar on a terminal, with the metrics beside it.
#[derive(Clone, Debug)]
struct DrawnBar {
    bar: ProgressBar,
    metrics: Arc<Mutex<String>>,
}

/// Progress output. Clones write to the same bar and stream.
#[derive(Clone, Debug)]
pub(super) struct TrainingBar {
    enabled: bool,
    bar: Option<DrawnBar>,
    /// First error of writing a line, if any.
    write_error: Arc<OnceLock<io::Error>>,
}

impl TrainingBar {
    /// Prints to standard output, and draws a bar on standard error if both are terminals.
    pub(super) fn enabled(limits: &TrainingLimits) -> Self {
        let terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(u64::from(limits.epochs)), ProgressDrawTarget::stderr());
            let metrics = Arc::new(Mutex::new("first epoch".to_owned()));
            let shown = Arc::clone(&metrics);
            let draw = move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
                let metrics = shown.lock().unwrap_or_else(PoisonError::into_inner);
                let frame = (state.elapsed().as_millis() / REDRAW_INTERVAL.as_millis()) as usize;
                let (epoch, epochs) = (state.pos(), state.len().unwrap_or_default());
                let bar = BarLine { frame, epoch, epochs, metrics: &metrics };
                // The width is looked up each time, because a window can be resized.
                let _ = line.write_str(&bar.text(terminal::columns(io::stderr()), Palette::stderr()));
            };
            let style = ProgressStyle::with_template("{line}").expect("the template is valid");
            bar.set_style(style.with_key("line", draw));
            bar.enable_steady_tick(REDRAW_INTERVAL);
            DrawnBar { bar, metrics }
        });
        Self { enabled: true, bar, write_error: Arc::default() }
    }

    /// Prints lines to standard output, without a bar.
    pub(super) fn lines() -> Self {
        Self { enabled: true, bar: None, write_error: Arc::default() }
    }

    /// Prints nothing but warnings.
    pub(super) fn disabled() -> Self {
        Self { enabled: false, bar: None, write_error: Arc::default() }
    }

    /// Prints a line on standard output, unless disabled.
    pub(super) fn line(&self, line: &str) {
        if self.enabled {
            activity::end();
            let print = || {
                let written = writeln!(io::stdout().lock(), "{}", printable_lines(line));
                // A closed pipe (`| head`) is not an error.
                if let Some(error) = written.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
                    let _ = self.write_error.set(error); // keeps the first error
                }
            };
            match &self.bar {
                Some(drawn) => drawn.bar.suspend(print),
                None => print(),
            }
        }
    }

    /// Prints a note on standard error, unless disabled.
    pub(super) fn aside(&self, line: &str) {
        if self.enabled {
            self.warning(line);
        }
    }

    /// Prints a note on standard error, also with `--quiet`.
    fn warning(&self, text: &str) {
        let print = || output::note(text);
        match &self.bar {
            Some(drawn) => drawn.bar.suspend(print),
            None => print(),
        }
    }

    /// Returns an error if a line could not be written, for example to a full disk. Training is not
    /// interrupted by it; the caller checks afterwards.
    pub(super) fn check_written(&self) -> anyhow::Result<()> {
        match self.write_error.get() {
            Some(error) => Err(CommandError::io("write to", Path::new("standard output"), error).into()),
            None => Ok(()),
        }
    }

    /// Removes the bar from the terminal.
    pub(super) fn clear(&self) {
        if let Some(drawn) = &self.bar {
            drawn.bar.finish_and_clear();
        }
    }
}

/// Metric and unit of the progress lines of a model.
#[derive(Clone, Copy)]
pub(super) struct MetricColumns {
    /// Name of the metric, as in the report.
    pub(super) metric: &'static str,
    /// Plural noun for the `updates` of the report, such as `tokens`.
    pub(super) unit: &'static str,
    /// Measure of convergence at which training ends, if it has one.
    pub(super) goal: Option<ConvergenceGoal>,
}

impl MetricColumns {
    /// Columns of a model whose updates have no more specific name.
    pub(super) fn updates(metric: &'static str) -> Self {
        Self::new(metric, "updates")
    }

    pub(super) fn new(metric: &'static str, unit: &'static str) -> Self {
        Self { metric, unit, goal: None }
    }

    /// Sets the measure of convergence, and the value at which training ends.
    pub(super) fn converging(self, metric: &'static str, tolerance: f64) -> Self {
        Self { goal: Some(ConvergenceGoal { metric, tolerance }), ..self }
    }
}

/// Training callback that prints progress, and stops training after a signal.
pub(super) struct ProgressPrinter<'a> {
    pub(super) bar: &'a TrainingBar,
    pub(super) explain: bool,
    pub(super) columns: MetricColumns,
    pub(super) limits: &'a TrainingLimits,
    pub(super) job: &'a TrainingJob,
    /// True on the peer that prints for all.
    pub(super) root: bool,
    pub(super) left: TimeLeft,
}

impl Callback for ProgressPrinter<'_> {
    fn on_note(&mut self, note: &str) {
        self.job.log.record("note", &json!({ "text": note }));
        self.bar.line(note);
    }

    fn on_checkpoint(&mut self, epoch: u32, duration: Duration) {
        self.job.log.record("checkpoint", &json!({ "epoch": epoch, "seconds": duration.as_secs_f64() }));
    }

    fn on_warning(&mut self, warning: &str) {
        self.job.log.record("warning", &json!({ "text": warning }));
        if self.root {
            self.bar.warning(warning);
        }
    }

    fn on_plan(&mut self, plan: &hemiola::loops::LoopPlan) {
        if self.explain {
            self.bar.line(plan.to_string().trim_end());
        }
    }

    fn on_explanation(&mut self, explanation: &str) {
        if self.explain {
            self.bar.line(explanation);
        }
    }

    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        self.job.log.record("epoch", progress);
        let left = self.left.after(progress, self.limits);
        match &self.bar.bar {
            Some(DrawnBar { bar, metrics }) => {
                let text = beside_bar(progress, self.columns, &left);
                *metrics.lock().unwrap_or_else(PoisonError::into_inner) = text;
                bar.set_position(u64::from(progress.epoch));
                if let Some(note) = &progress.note {
                    self.bar.line(&format!("epoch {}: {note}", progress.epoch));
                }
            }
            None => self.bar.line(&line(progress, self.columns, (self.limits, &left))),
        }
        if self.job.interrupt.signal().is_some() { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

/// Formats the progress line of an epoch. `left` is the remaining time.
fn line(progress: &EpochProgress, columns: MetricColumns, (limits, left): (&TrainingLimits, &str)) -> String {
    let mut line = format!("epoch {:>3}/{}  {}", progress.epoch, limits.epochs, metrics(progress, columns, left));
    if let Some(note) = &progress.note {
        let _ = write!(line, "  ({note})");
    }
    line
}

/// Formats the metrics, the speed and the remaining time of an epoch.
fn metrics(progress: &EpochProgress, columns: MetricColumns, left: &str) -> String {
    let mut text = format!("objective {:.4}", progress.objective);
    let (set, metrics) = progress.validation.as_ref().map_or(("train", &progress.train), |valid| ("validation", valid));
    // Some metrics are computed on validation data only.
    if let Some(value) = metrics.get(columns.metric) {
        let _ = write!(text, "  {set} {} {value:.4}", columns.metric);
    }
    let rate = rate_text(progress.updates as f64 / progress.seconds.max(1e-9));
    let _ = write!(text, "  {rate} {}/s  {}", columns.unit, time(progress.seconds));
    if !left.is_empty() {
        let _ = write!(text, ", {left} left");
    }
    text
}

/// Formats an epoch for the bar: in short form, to fit into 80 columns with it.
fn beside_bar(progress: &EpochProgress, columns: MetricColumns, left: &str) -> String {
    let mut text = format!("objective {:.4}", progress.objective);
    if let Some(value) = progress.validation.as_ref().unwrap_or(&progress.train).get(columns.metric) {
        let _ = write!(text, "  {} {value:.4}", columns.metric);
    }
    let rate = rate_text(progress.updates as f64 / progress.seconds.max(1e-9));
    let left = left.trim_start_matches("at most ").trim_start_matches("about ");
    let _ = write!(text, "  {rate}/s  {} left", if left.is_empty() { "0.00 s" } else { left });
    text
}

/// Formats a rate in millions, in thousands, or as it is.
fn rate_text(number: f64) -> String {
    match number {
        ..1e3 => format!("{number:.0}"),
        ..1e5 => format!("{:.1} k", number / 1e3),
        _ => format!("{:.1} M", number / 1e6),
    }
}

/// Formats seconds with units.
pub(super) fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        ..9.995 => format!("{seconds:.2} s"),
        ..99.95 => format!("{seconds:.1} s"),
        _ if whole < 3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// Formats the last line of a training run.
pub(super) fn summary(report: &TrainingReport, columns: MetricColumns) -> String {
    let (result, epochs) = (&report.result, report.progress.len());
    let mut line = if result.stopped_by_callback() {
        format!("interrupted after epoch {epochs}")
    } else {
        format!("done after epoch {epochs}: {}", result.stop_reason)
    };
    if let Some(value) = result.validation.as_ref().and_then(|valid| valid.get(columns.metric)) {
        let _ = write!(line, "; validation {} {value:.4} after epoch {}", columns.metric, result.best_epoch);
    } else {
        let _ = write!(line, "; objective {:.4}", result.objective);
    }
    let (trained, rate) = (time(result.seconds), rate_text(result.updates_per_second));
    let _ = write!(line, "; {trained} of training, {rate} {}/s", columns.unit);
    let extra = [
        ("loading", result.loading_seconds.unwrap_or(0.0)),
        ("evaluation", result.evaluation_seconds),
        ("saving", result.saving_seconds),
    ];
    let extra: Vec<String> = extra
        .into_iter()
        .filter(|(_, seconds)| *seconds >= 0.005)
        .map(|(what, seconds)| format!("{what} {}", time(seconds)))
        .collect();
    if !extra.is_empty() {
        let _ = write!(line, " (plus {})", extra.join(", "));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(epoch: u32, seconds: f64) -> EpochProgress {
        EpochProgress {
            epoch,
            seconds,
            objective: 0.81,
            train: [("rmse".to_owned(), 0.9)].into(),
            validation: Some([("rmse".to_owned(), 0.95)].into()),
            updates: u64::from(epoch) * 1_000_000,
            bytes_sent: 0,
            note: None,
        }
    }

    #[test]
    fn a_progress_line_has_all_columns() {
        let limits = TrainingLimits { epochs: 40, ..TrainingLimits::default() };
        let mut epoch = progress(2, 0.5);
        let expected =
            "epoch   2/40  objective 0.8100  validation rmse 0.9500  4.0 M updates/s  0.50 s, at most 9.50 s left";
        let left = (&limits, "at most 9.50 s");
        assert_eq!(line(&epoch, MetricColumns::updates("rmse"), left), expected);
        let tokens = MetricColumns::new("rmse", "tokens");
        assert_eq!(line(&epoch, tokens, left), expected.replace("updates", "tokens"));
        epoch.note = Some("half the learning rate".to_owned());
        assert_eq!(line(&epoch, MetricColumns::updates("rmse"), left), format!("{expected}  (half the learning rate)"));
    }

    #[test]
    fn the_bar_and_its_metrics_fit_into_80_columns() {
        let mut epoch = progress(100, 150.0);
        epoch.validation = Some([("ndcg@10".to_owned(), 0.2)].into());
        epoch.updates = 9_990_000_000;
        let expected = beside_bar(&epoch, MetricColumns::updates("ndcg@10"), "at most 2 min 30 s");
        assert_eq!(expected, "objective 0.8100  ndcg@10 0.2000  66.6 M/s  2 min 30 s left");
        assert!("x epoch 100/200 ".chars().count() + expected.chars().count() < 80);
    }

    #[test]
    fn rates_have_readable_units() {
        let all = [(12.34, "12"), (850.0, "850"), (12_345.0, "12.3 k"), (123_456.0, "0.1 M"), (4e6, "4.0 M")];
        for (number, text) in all {
            assert_eq!(rate_text(number), text);
        }
    }

    #[test]
    fn times_have_readable_units() {
        let all =
            [(0.0, "0.00 s"), (9.123, "9.12 s"), (59.96, "60.0 s"), (100.0, "1 min 40 s"), (7260.0, "2 h 01 min")];
        for (seconds, text) in all {
            assert_eq!(time(seconds), text);
        }
    }
}
