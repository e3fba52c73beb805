//! Search: the metric of every trial against the epochs, and the best value by trial.

use hemiola_models::selection::{SearchReport, TrialRecord};
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};

/// Returns the chart of a search: a line for each trial, and the best value so far.
pub(super) fn chart(report: &SearchReport) -> Chart {
    let metric = format!("validation {}", report.metric);
    let mut trials = ChartPanel::new(ChartAxis::new("epochs").integer_ticks(), ChartAxis::new(&metric));
    // The best trial comes last, so that no other covers it.
    for trial in report.trials.iter().filter(|trial| Some(trial.trial) != report.best) {
        trials = trials.line(ChartLine::new("", curve(report, trial)).muted());
    }
    if let Some(best) = report.best_trial() {
        let label = format!("trial {}, the best", best.trial);
        let line = ChartLine::new(&label, curve(report, best)).series(0);
        let marked = best.progress.iter().position(|epoch| Some(epoch.epoch) == best.best_epoch);
        trials = trials.line(marked.into_iter().fold(line, ChartLine::mark));
    }
    let better = |best: f64, value: f64| if report.higher_is_better { best.max(value) } else { best.min(value) };
    let mut best = f64::NAN;
    let so_far = report.trials.iter().map(|trial| {
        // A comparison with NaN returns the other number.
        best = better(best, trial.best.unwrap_or(f64::NAN));
        [f64::from(trial.trial), best]
    });
    let each = report.trials.iter().map(|trial| [f64::from(trial.trial), trial.best.unwrap_or(f64::NAN)]);
    let by_trial = ChartPanel::new(ChartAxis::new("trials").integer_ticks(), ChartAxis::new(&metric))
        .line(ChartLine::new("best of the trial", each).muted())
        .line(ChartLine::new("best so far", so_far).series(1));
    Chart::new().panel(by_trial).panel(trials).mark("epoch that counts")
}

fn curve(report: &SearchReport, trial: &TrialRecord) -> Vec<[f64; 2]> {
    let value = |metrics: &hemiola_models::training::Metrics| metrics.get(&report.metric).copied().unwrap_or(f64::NAN);
    trial.progress.iter().map(|epoch| [f64::from(epoch.epoch), value(&epoch.validation)]).collect()
}
