//! `hemiola plot`: learning curves of several runs in one plot.

mod labels;
mod metric;
mod report_file;

use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use clap::Args;
use hemiola_plot::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme};
use metric::CurveMetric;
use report_file::{CurveData, EpochRecords, PlottedRun};
use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Two runs in one plot, against epochs and seconds:
    hemiola train mf --data ratings.csv --rank 16 --report small.json
    hemiola train mf --data ratings.csv --rank 64 --report large.json
    hemiola plot small.json large.json

  Objective against bytes sent, on logarithmic axes, as PNG:
    hemiola plot runs/*.json --x bytes --y objective --log-x --log-y -o bytes.png

  In the terminal, directly from a training run:
    hemiola train mf --report - | hemiola plot - --text

A point marks the epoch whose model was saved. SVG follows the light or dark theme of the viewer; PNG is light unless --dark. \
Non-finite values are gaps, and are reported.

Exit codes:
  0  plotted
  2  wrong use: a file is not a report, or the runs have no metric in common; nothing was written
  3  the system failed, for example a full disk";

/// Pixels per unit of a PNG: sharp on high-density screens and in print.
const PIXELS_PER_UNIT: f64 = 2.0;

/// Arguments of `hemiola plot`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct PlotArgs {
    /// Reports written by `hemiola train --report`, or `-` for standard input.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,

    /// Output file, ending with `.svg` or `.png`, or `-` for SVG on standard output [default:
    /// convergence.svg].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Plot with characters on standard output. No file is written unless --output is given.
    #[arg(long)]
    text: bool,

    /// Quantities on the x axis; one panel each.
    #[arg(long, value_name = "QUANTITY", value_enum, value_delimiter = ',', default_value = "epochs,seconds")]
    x: Vec<CurveData>,

    /// Metrics to plot, such as `rmse`, `mae` or `objective`; one row of panels each [default: the
    /// preferred validation metric that all runs have].
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    y: Vec<String>,

    /// Plot training metrics, too, as thin lines.
    #[arg(long)]
    train: bool,

    /// Logarithmic x axis.
    #[arg(long)]
    log_x: bool,

    /// Logarithmic y axis.
    #[arg(long)]
    log_y: bool,

    /// Title of the plot.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Label of a run; once per report, in their order [default: the file names].
    #[arg(long = "label", value_name = "NAME")]
    labels: Vec<String>,

    /// PNG with a dark background.
    #[arg(long)]
    dark: bool,
}

/// File format of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlotFormat {
    Svg,
    Png,
}

impl PlotArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let target = self.target()?;
        let runs = self.runs()?;
        let metrics = if self.y.is_empty() {
            vec![CurveMetric::default_of(&runs, self.train)?]
        } else {
            self.y.iter().map(|name| CurveMetric::named(name, &runs, self.train)).collect::<anyhow::Result<_>>()?
        };
        let notes = self.gaps(&runs, &metrics)?;
        let chart = self.chart(&runs, &metrics);
        if let Some((path, format)) = &target {
            self.write(&chart, path, *format)?;
        }
        if self.text {
            output::print(&chart.text(terminal_width()))?;
        }
        if let Some((path, _)) = target.filter(|(path, _)| path != Path::new("-")) {
            let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
            let runs = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
            output::print(&format!("plotted {} of {runs} to `{}`\n", names.join(", "), path.display()))?;
        }
        for note in notes {
            // A closed standard error drops the notes.
            let _ = writeln!(std::io::stderr(), "hemiola: {note}");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns path and format of the output file, if one is written.
    fn target(&self) -> anyhow::Result<Option<(PathBuf, PlotFormat)>> {
        let path = match (&self.output, self.text) {
            (Some(path), _) => path.clone(),
            (None, true) => return Ok(None),
            (None, false) => PathBuf::from("convergence.svg"),
        };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let format = match ending.as_deref() {
            Some("svg") => PlotFormat::Svg,
            Some("png") => PlotFormat::Png,
            None if path == Path::new("-") => PlotFormat::Svg,
            _ => {
                let message = format!("cannot plot to `{}`: the formats are SVG and PNG", path.display());
                return Err(CommandError::usage(message).hint("let the name end with `.svg` or `.png`").into());
            }
        };
        if path == Path::new("-") && self.text {
            let message = "both --text and --output - go to standard output";
            return Err(CommandError::usage(message).hint("give a file for --output").into());
        }
        if self.dark && format == PlotFormat::Svg {
            let message = "--dark is for PNG: SVG follows the theme of the viewer";
            return Err(CommandError::usage(message).hint("leave it out, or let --output end with `.png`").into());
        }
        Ok(Some((path, format)))
    }

    fn runs(&self) -> anyhow::Result<Vec<PlottedRun>> {
        if self.reports.iter().filter(|path| *path == Path::new("-")).count() > 1 {
            let message = "standard input can be read only once, and `-` is given several times";
            return Err(CommandError::usage(message).hint("write the reports to files").into());
        }
        let labels = if self.labels.is_empty() {
            labels::of_files(&self.reports)
        } else if self.labels.len() == self.reports.len() {
            labels::numbered(self.labels.clone())
        } else {
            let message = format!("--label is given {} times for {} reports", self.labels.len(), self.reports.len());
            return Err(CommandError::usage(message).hint("give --label once per report, or not at all").into());
        };
        let mut runs = self.reports.iter().map(|path| PlottedRun::read(path)).collect::<anyhow::Result<Vec<_>>>()?;
        for (run, label) in runs.iter_mut().zip(labels) {
            run.label = label;
        }
        Ok(runs)
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

    fn chart(&self, runs: &[PlottedRun], metrics: &[CurveMetric]) -> Chart {
        let mut chart = Chart::new().columns(self.x.len()).mark("saved model");
        if let Some(title) = &self.title {
            chart = chart.title(title);
        }
        for metric in metrics {
            for x in &self.x {
                chart = chart.panel(self.panel(runs, metric, *x));
            }
        }
        chart
    }

    fn panel(&self, runs: &[PlottedRun], metric: &CurveMetric, quantity: CurveData) -> ChartPanel {
        let logarithmic = |axis: ChartAxis, wanted: bool| if wanted { axis.logarithmic() } else { axis };
        let x = ChartAxis::new(quantity.label()).from_zero();
        let x = if quantity == CurveData::Seconds { x } else { x.integer_ticks() };
        let mut panel =
            ChartPanel::new(logarithmic(x, self.log_x), logarithmic(ChartAxis::new(&metric.label()), self.log_y));
        let (entries, aside) = metric.lines();
        for (number, run) in runs.iter().enumerate() {
            if run.has(entries) {
                let line = ChartLine::new(&run.label, run.points(quantity, entries)).series(number);
                // Without a validation set the last model is saved, which needs no mark.
                let saved = run.best_index().filter(|_| matches!(entries, EpochRecords::Validation(_)));
                panel = panel.line(saved.into_iter().fold(line, ChartLine::mark));
            }
        }
        if let Some(aside) = aside {
            for (number, run) in runs.iter().enumerate().filter(|(_, run)| run.has(aside)) {
                panel = panel.line(ChartLine::new(&run.label, run.points(quantity, aside)).series(number).thin());
            }
        }
        panel
    }

    fn write(&self, chart: &Chart, path: &Path, format: PlotFormat) -> anyhow::Result<()> {
        let ground = if self.dark { ColorScheme::Dark } else { ColorScheme::Light };
        let bytes = match format {
            PlotFormat::Svg => chart.picture().svg().into_bytes(),
            PlotFormat::Png => chart
                .picture()
                .png(ground, PIXELS_PER_UNIT)
                .map_err(|error| CommandError::usage(error.to_string()).hint("plot fewer panels, or an SVG"))?,
        };
        if path == Path::new("-") {
            return output::print(&String::from_utf8_lossy(&bytes));
        }
        let mut staged = StagedFile::create(path, OutputCompression::None)?;
        staged.write(&bytes)?;
        staged.finish()?.publish()
    }
}

/// Returns the width of the terminal in columns, or 80 if standard output is not a terminal.
fn terminal_width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return 80;
    }
    let size = rustix::termios::tcgetwinsize(&stdout);
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}
