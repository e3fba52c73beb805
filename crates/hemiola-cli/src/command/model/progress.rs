//! Telling a person how training goes: a bar on a terminal, a line for each epoch elsewhere, nothing if asked for nothing.

use crate::error::CommandError;
use hemiola_cluster::Interrupt;
use hemiola_models::training::{Callback, EpochProgress, TrainingControl, TrainingLimits, TrainingReport};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often a bar moves although nothing has happened.
const TICK: Duration = Duration::from_millis(125);

/// Where it is shown. Clones show in the same place.
#[derive(Clone)]
pub(super) struct TrainingBar {
    talks: bool,
    bar: Option<ProgressBar>,
    /// Why a line was lost, if one was.
    lost: Arc<OnceLock<io::Error>>,
}

impl TrainingBar {
    /// On standard output; with a bar on standard error, if both are terminals.
    pub(super) fn to_people(limits: &TrainingLimits) -> Self {
        let terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(u64::from(limits.epochs)), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} epoch {pos}/{len} [{wide_bar}] {msg}");
            bar.set_style(style.expect("the template is sound").progress_chars("=> "));
            bar.set_message("first pass");
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { talks: true, bar, lost: Arc::default() }
    }

    pub(super) fn nothing() -> Self {
        Self { talks: false, bar: None, lost: Arc::default() }
    }

    /// A line for people.
    pub(super) fn line(&self, line: &str) {
        if self.talks {
            let print = || {
                let written = writeln!(io::stdout().lock(), "{line}");
                // A reader that has seen enough (`| head`) is no reason to fail.
                if let Some(error) = written.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
                    let _ = self.lost.set(error); // the first is told
                }
            };
            match &self.bar {
                Some(bar) => bar.suspend(print),
                None => print(),
            }
        }
    }

    /// A line beside the results: on standard error.
    pub(super) fn aside(&self, line: &str) {
        if self.talks {
            self.warning(line);
        }
    }

    /// A line that even those get who want to hear of nothing but errors.
    fn warning(&self, line: &str) {
        let print = || {
            let _ = writeln!(io::stderr().lock(), "{line}");
        };
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// An error if lines were lost: a disk is full, say. It does not end a training, but comes after it.
    pub(super) fn must_have_been_written(&self) -> anyhow::Result<()> {
        match self.lost.get() {
            Some(error) => Err(CommandError::io("write to", Path::new("standard output"), error).into()),
            None => Ok(()),
        }
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is told of an epoch.
#[derive(Clone, Copy)]
pub(super) struct MetricColumns {
    /// The figure that counts.
    pub(super) metric: &'static str,
    /// What "updates" of the report are in this model, in plural.
    pub(super) unit: &'static str,
}

impl MetricColumns {
    /// Of a model whose updates have no better name.
    pub(super) fn updates(metric: &'static str) -> Self {
        Self { metric, unit: "updates" }
    }
}

/// Watches a training and tells of it; wants the end when a signal has come.
pub(super) struct ProgressPrinter<'a> {
    pub(super) shown: &'a TrainingBar,
    pub(super) explain: bool,
    pub(super) figures: MetricColumns,
    pub(super) limits: &'a TrainingLimits,
    pub(super) interrupt: &'a Interrupt,
    /// Whether this is the peer that speaks for all.
    pub(super) root: bool,
}

impl Callback for ProgressPrinter<'_> {
    fn on_note(&mut self, note: &str) {
        self.shown.line(note);
    }

    fn on_warning(&mut self, warning: &str) {
        if self.root {
            self.shown.warning(&format!("hemiola: {warning}"));
        }
    }

    fn on_plan(&mut self, plan: &hemiola::loops::LoopPlan) {
        if self.explain {
            self.shown.line(plan.to_string().trim_end());
        }
    }

    fn on_explanation(&mut self, explanation: &str) {
        if self.explain {
            self.shown.line(explanation);
        }
    }

    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        match &self.shown.bar {
            Some(bar) => {
                bar.set_position(u64::from(progress.epoch));
                bar.set_message(beside_bar(progress, self.figures, self.limits));
                if let Some(note) = &progress.note {
                    self.shown.line(&format!("epoch {}: {note}", progress.epoch));
                }
            }
            None => self.shown.line(&line(progress, self.figures, self.limits)),
        }
        if self.interrupt.signal().is_some() { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

/// An epoch in a line.
fn line(progress: &EpochProgress, told: MetricColumns, limits: &TrainingLimits) -> String {
    let mut line = format!("epoch {:>3}/{}  {}", progress.epoch, limits.epochs, figures(progress, told, limits));
    if let Some(note) = &progress.note {
        let _ = write!(line, "  ({note})");
    }
    line
}

/// The figures of an epoch.
fn figures(progress: &EpochProgress, told: MetricColumns, limits: &TrainingLimits) -> String {
    let mut text = format!("objective {:.4}", progress.objective);
    let (entries, metrics) =
        progress.validation.as_ref().map_or(("train", &progress.train), |valid| ("held-out", valid));
    // Not every figure is known of entries that were trained on.
    if let Some(figure) = metrics.get(told.metric) {
        let _ = write!(text, "  {entries} {} {figure:.4}", told.metric);
    }
    let rate = many(progress.updates as f64 / progress.seconds.max(1e-9));
    let _ = write!(text, "  {rate} {}/s  {}", told.unit, time(progress.seconds));
    let left = time_left(progress, limits);
    if left > 0.0 {
        let _ = write!(text, ", at most {} left", time(left));
    }
    text
}

/// The figures of an epoch in fewer words: with a bar they have to fit into 80 columns.
fn beside_bar(progress: &EpochProgress, told: MetricColumns, limits: &TrainingLimits) -> String {
    let mut text = format!("objective {:.4}", progress.objective);
    if let Some(figure) = progress.validation.as_ref().unwrap_or(&progress.train).get(told.metric) {
        let _ = write!(text, "  {} {figure:.4}", told.metric);
    }
    let rate = many(progress.updates as f64 / progress.seconds.max(1e-9));
    let _ = write!(text, "  {rate}/s  {} left", time(time_left(progress, limits)));
    text
}

/// How many seconds of training there are at most before a limit ends it. Early stopping may end it before.
fn time_left(progress: &EpochProgress, limits: &TrainingLimits) -> f64 {
    let per_epoch = progress.seconds / f64::from(progress.epoch.max(1));
    let by_epochs = f64::from(limits.epochs.saturating_sub(progress.epoch)) * per_epoch;
    let by_seconds = limits.seconds.map_or(f64::INFINITY, |seconds| seconds - progress.seconds);
    by_epochs.min(by_seconds).max(0.0)
}

/// A number that may be large, in millions; or in thousands, where it would not be seen.
fn many(number: f64) -> String {
    match number {
        ..1e3 => format!("{number:.0}"),
        ..1e5 => format!("{:.1} k", number / 1e3),
        _ => format!("{:.1} M", number / 1e6),
    }
}

/// A time as people say it.
fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match seconds {
        ..9.995 => format!("{seconds:.2} s"),
        ..99.95 => format!("{seconds:.1} s"),
        _ if whole < 3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// The end of a training, in a line.
pub(super) fn summary(report: &TrainingReport, told: MetricColumns) -> String {
    let (result, epochs) = (&report.result, report.progress.len());
    let mut line = if result.stopped_by_callback() {
        format!("interrupted after epoch {epochs}")
    } else {
        format!("done after epoch {epochs}: {}", result.stop_reason)
    };
    if let Some(figure) = result.validation.as_ref().and_then(|valid| valid.get(told.metric)) {
        let _ = write!(line, "; held-out {} {figure:.4} after epoch {}", told.metric, result.best_epoch);
    } else {
        let _ = write!(line, "; objective {:.4}", result.objective);
    }
    let (trained, rate) = (time(result.seconds), many(result.updates_per_second));
    let _ = write!(line, "; {trained} of training, {rate} {}/s", told.unit);
    let apart = [
        ("loading", result.loading_seconds.unwrap_or(0.0)),
        ("evaluating", result.evaluation_seconds),
        ("saving", result.saving_seconds),
    ];
    let apart: Vec<String> = apart
        .into_iter()
        .filter(|(_, seconds)| *seconds >= 0.005)
        .map(|(what, seconds)| format!("{what} {}", time(seconds)))
        .collect();
    if !apart.is_empty() {
        let _ = write!(line, " ({} apart)", apart.join(", "));
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
    fn a_line_has_everything_of_an_epoch() {
        let limits = TrainingLimits { epochs: 40, ..TrainingLimits::default() };
        let mut epoch = progress(2, 0.5);
        let told = "epoch   2/40  objective 0.8100  held-out rmse 0.9500  4.0 M updates/s  0.50 s, at most 9.50 s left";
        assert_eq!(line(&epoch, MetricColumns::updates("rmse"), &limits), told);
        let tokens = MetricColumns { metric: "rmse", unit: "tokens" };
        assert_eq!(line(&epoch, tokens, &limits), told.replace("updates", "tokens"));
        epoch.note = Some("half the step".to_owned());
        assert_eq!(line(&epoch, MetricColumns::updates("rmse"), &limits), format!("{told}  (half the step)"));
    }

    #[test]
    fn a_bar_and_its_figures_fit_into_80_columns() {
        let limits = TrainingLimits { epochs: 200, ..TrainingLimits::default() };
        let mut epoch = progress(100, 150.0);
        epoch.validation = Some([("ndcg@10".to_owned(), 0.2)].into());
        epoch.updates = 9_990_000_000;
        let told = beside_bar(&epoch, MetricColumns::updates("ndcg@10"), &limits);
        assert_eq!(told, "objective 0.8100  ndcg@10 0.2000  66.6 M/s  2 min 30 s left");
        assert!("x epoch 100/200 [] ".chars().count() + told.chars().count() <= 80);
    }

    #[test]
    fn time_left_is_that_of_the_nearest_limit() {
        let left = |epoch, seconds, limit| {
            time_left(
                &progress(epoch, seconds),
                &TrainingLimits { epochs: 10, seconds: limit, ..TrainingLimits::default() },
            )
        };
        assert_eq!(left(4, 8.0, None).to_bits(), 12.0_f64.to_bits());
        assert_eq!(left(4, 8.0, Some(9.0)).to_bits(), 1.0_f64.to_bits());
        assert_eq!(left(4, 8.0, Some(7.0)).to_bits(), 0.0_f64.to_bits());
        assert_eq!(left(12, 8.0, None).to_bits(), 0.0_f64.to_bits(), "resumed with fewer epochs than are done");
    }

    #[test]
    fn slow_updates_are_seen_too() {
        let all = [(12.34, "12"), (850.0, "850"), (12_345.0, "12.3 k"), (123_456.0, "0.1 M"), (4e6, "4.0 M")];
        for (number, text) in all {
            assert_eq!(many(number), text);
        }
    }

    #[test]
    fn times_have_units() {
        let all =
            [(0.0, "0.00 s"), (9.123, "9.12 s"), (59.96, "60.0 s"), (100.0, "1 min 40 s"), (7260.0, "2 h 01 min")];
        for (seconds, text) in all {
            assert_eq!(time(seconds), text);
        }
    }
}
