//! Learning curves: metrics of runs over epochs, time, updates or bytes.

use super::PlotArgs;
use super::metric::CurveMetric;
use super::repetitions::RunGroup;
use super::report_file::{CurveData, PlottedRun};
use crate::error::CommandError;
use crate::plural::counted;
use hemiola_plot::{AxisScale, Chart, ChartAxis, ChartPanel};
use std::collections::BTreeSet;

/// Chart of learning curves, with its description and notes on what it does not show.
pub(super) struct PlottedCurves {
    pub(super) chart: Chart,
    /// Content in a few words.
    pub(super) summary: String,
    pub(super) notes: BTreeSet<String>,
}

impl PlotArgs {
    /// Plots the metrics of runs.
    pub(super) fn curves(&self, runs: &[PlottedRun]) -> anyhow::Result<PlottedCurves> {
        let metrics = if self.y.is_empty() {
            vec![CurveMetric::default_of(runs, self.train)?]
        } else {
            self.y.iter().map(|name| CurveMetric::named(name, runs, self.train)).collect::<anyhow::Result<_>>()?
        };
        let mut notes = self.gaps(runs, &metrics)?;
        let Some(groups) = RunGroup::of(runs, self.band, &self.labels) else {
            let message = format!("--label is given {} times for {} reports", self.labels.len(), runs.len());
            let hint = "give --label once per report, once per line, or not at all";
            return Err(CommandError::usage(message).hint(hint).into());
        };
        notes.extend(metrics.iter().flat_map(|metric| groups.iter().filter_map(|group| group.note(metric))));
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        let summary = format!("{} of {}", names.join(", "), counted(runs.len(), "run"));
        Ok(PlottedCurves { chart: self.chart(&groups, &metrics), summary, notes })
    }

    /// Returns notes on values that cannot be plotted; an error if there are no others.
    fn gaps(&self, runs: &[PlottedRun], metrics: &[CurveMetric]) -> anyhow::Result<BTreeSet<String>> {
        let (across, up) = (AxisScale::of([], self.log_x), AxisScale::of([], self.log_y));
        let reason = if self.log_x || self.log_y { "not finite, or not positive" } else { "not finite" };
        // A set, because panels with different x axes have the same gaps.
        let mut notes = BTreeSet::new();
        for (metric, x) in metrics.iter().flat_map(|metric| self.x.iter().map(move |x| (metric, *x))) {
            let entries = metric.lines().0;
            let points: Vec<Vec<[f64; 2]>> = runs.iter().map(|run| run.points(x, entries)).collect();
            if !points.iter().flatten().any(|[x, _]| *x > 0.0) {
                let message = format!("{}, so there is no x axis", x.missing_reason());
                return Err(CommandError::usage(message).hint("choose another --x, such as `epochs`").into());
            }
            let shown =
                |points: &Vec<[f64; 2]>| points.iter().filter(|[x, y]| across.can_show(*x) && up.can_show(*y)).count();
            if points.iter().map(shown).sum::<usize>() == 0 {
                let message = format!("no value of {} can be plotted: all are missing or {reason}", metric.name);
                return Err(CommandError::usage(message).hint("choose another metric with --y").into());
            }
            for (run, points) in runs.iter().zip(&points).filter(|(run, _)| run.has(entries)) {
                let all = points.len();
                let unseen = |index: usize, scale: AxisScale| {
                    points.iter().filter(|point| !scale.can_show(point[index])).count()
                };
                let (omitted, gaps) = (unseen(0, across), unseen(1, up));
                let label = &run.label;
                if omitted > 0 {
                    let what = if self.log_x { "not positive, as a logarithmic axis needs" } else { "missing" };
                    notes.insert(format!(
                        "{omitted} of {all} points of `{label}` are omitted: {} are {what}",
                        x.label()
                    ));
                }
                if gaps > 0 {
                    let what = if self.log_y { "not finite, or not positive" } else { "not finite" };
                    notes.insert(format!(
                        "{gaps} of {all} values of {} of `{label}` are {what}, and become gaps",
                        metric.name
                    ));
                }
            }
        }
        Ok(notes)
    }

    fn chart(&self, groups: &[RunGroup<'_>], metrics: &[CurveMetric]) -> Chart {
        let mut chart = Chart::new().columns(self.x.len()).mark("saved model");
        if let Some(title) = &self.title {
            chart = chart.title(title);
        }
        for metric in metrics {
            for x in &self.x {
                chart = chart.panel(self.panel(groups, metric, *x));
            }
        }
        chart
    }

    fn panel(&self, groups: &[RunGroup<'_>], metric: &CurveMetric, quantity: CurveData) -> ChartPanel {
        let logarithmic = |axis: ChartAxis, wanted: bool| if wanted { axis.logarithmic() } else { axis };
        let x = ChartAxis::new(quantity.label()).from_zero();
        let x = if quantity == CurveData::Seconds { x } else { x.integer_ticks() };
        let mut panel =
            ChartPanel::new(logarithmic(x, self.log_x), logarithmic(ChartAxis::new(&metric.label()), self.log_y));
        let (entries, aside) = metric.lines();
        let numbered = || groups.iter().enumerate();
        for (number, group) in numbered().filter(|(_, group)| group.has(entries)) {
            panel = panel.line(group.line(quantity, entries).series(number));
        }
        if let Some(aside) = aside {
            for (number, group) in numbered().filter(|(_, group)| group.has(aside)) {
                panel = panel.line(group.line(quantity, aside).series(number).thin());
            }
        }
        panel
    }
}
