//! `hemiola plot`: pictures of reports, such as learning curves of several runs in one plot.
//!
//! The content of a report decides on the picture, so that every command has one way to a picture:
//! `--report FILE`, then `hemiola plot FILE`.

mod curves;
mod labels;
mod metric;
mod regularization;
mod repetitions;
mod report_file;
mod search;
mod topics;

use crate::arguments::GivenFlags;
use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use crate::plural::counted;
use clap::Args;
use hemiola_models::linear::ConfusionMatrix;
use hemiola_plot::{Chart, ColorScheme, ConfusionPlot, Picture, TopicsPlot};
use repetitions::SeedBand;
use report_file::{CurveData, PlottedReport, PlottedRun};
use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Two runs in one plot, against epochs and seconds:
    hemiola train mf --data ratings.csv --rank 16 --report small.json
    hemiola train mf --data ratings.csv --rank 64 --report large.json
    hemiola plot small.json large.json

  Five seeds, as their mean with a band from the lowest to the highest:
    for seed in 1 2 3 4 5; do hemiola train mf --data ratings.csv --seed $seed --report seed-$seed.json; done
    hemiola plot seed-*.json

  Objective against bytes sent, on logarithmic axes, as PNG:
    hemiola plot runs/*.json --x bytes --y objective --log-x --log-y -o bytes.png

  Confusion matrix of a classifier, topics of a topic model, and coefficients of a lasso by lambda:
    hemiola evaluate --model digits --data test.libsvm --report test.json && hemiola plot test.json
    hemiola topics --model topics --report topics.json && hemiola plot topics.json
    hemiola train lasso --data train.csv --folds 5 --regularization-path --report lasso.json
    hemiola plot lasso.json --regularization-path

  In the terminal, directly from a training run:
    hemiola train mf --report - | hemiola plot - --text

A point marks the epoch whose model was saved. Runs that differ by their seed only (same model, settings, numbers of \
examples, cluster and strategy) are one line; see --band. SVG follows the light or dark theme of the viewer; PNG is light unless --dark. \
Non-finite values are gaps, and are reported.

Exit codes:
  0  plotted
  2  wrong use: a file is not a report, or the reports do not go into one plot; nothing was written
  3  the system failed, for example a full disk";

/// Pixels per unit of a PNG: sharp on high-density screens and in print.
const PIXELS_PER_UNIT: f64 = 2.0;

/// Arguments of `hemiola plot`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct PlotArgs {
    /// Reports written with `--report` by `hemiola train`, `search`, `evaluate` or `topics`, or `-`
    /// for standard input.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,

    /// Output file, ending with `.svg` or `.png`, or `-` for SVG on standard output [default:
    /// convergence.svg, confusion.svg, topics.svg, search.svg or regularization-path.svg, by
    /// content].
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

    /// Label of a run, once per report, or of a line, once per line, in their order. Reports with
    /// the same label are one line; see --band [default: the file names].
    #[arg(long = "label", value_name = "NAME")]
    labels: Vec<String>,

    /// Repetitions of a run with other seeds: mean with a band from the lowest to the highest value,
    /// median with a band of the quartiles, or a line for each run.
    #[arg(long, value_enum, value_name = "BAND", default_value = "min-max")]
    band: SeedBand,

    /// Plot the coefficients of a sparse regression, and its cross-validated loss, against lambda.
    #[arg(long)]
    regularization_path: bool,

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

/// Picture of reports, before it is laid out.
enum PlottedFigure {
    Chart(Chart),
    Confusion(ConfusionPlot),
    Topics(TopicsPlot),
}

impl PlottedFigure {
    fn picture(&self) -> Picture {
        match self {
            Self::Chart(chart) => chart.picture(),
            Self::Confusion(matrix) => matrix.picture(),
            Self::Topics(topics) => topics.picture(),
        }
    }

    fn text(&self, width: usize) -> String {
        match self {
            Self::Chart(chart) => chart.text(width),
            Self::Confusion(matrix) => matrix.text(width),
            Self::Topics(topics) => topics.text(width),
        }
    }
}

/// Figure with its default file, a summary, and notes on what it does not show.
struct PreparedFigure {
    figure: PlottedFigure,
    file: &'static str,
    summary: String,
    notes: BTreeSet<String>,
}

impl PlotArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        self.target("x.svg")?;
        let PreparedFigure { figure, file, summary, notes } = self.figure(self.read()?)?;
        let target = self.target(file)?;
        if let Some((path, format)) = &target {
            self.write(&figure, path, *format)?;
        }
        if self.text {
            output::print(&figure.text(terminal_width()))?;
        }
        if let Some((path, _)) = target.filter(|(path, _)| path != Path::new("-")) {
            output::print(&format!("plotted {summary} to `{}`\n", path.display()))?;
        }
        for note in notes {
            output::note(&note);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Reads all reports; runs get their file names as labels.
    fn read(&self) -> anyhow::Result<Vec<PlottedReport>> {
        if self.reports.iter().filter(|path| *path == Path::new("-")).count() > 1 {
            let message = "standard input can be read only once, and `-` is given several times";
            return Err(CommandError::usage(message).hint("write the reports to files").into());
        }
        let mut reports =
            self.reports.iter().map(|path| PlottedReport::read(path)).collect::<anyhow::Result<Vec<_>>>()?;
        for (report, label) in reports.iter_mut().zip(labels::of_files(&self.reports)) {
            if let PlottedReport::Run(run) = report {
                run.label = label;
            }
        }
        Ok(reports)
    }

    /// Returns the figure of the reports, by their content.
    fn figure(&self, reports: Vec<PlottedReport>) -> anyhow::Result<PreparedFigure> {
        let several = reports.len() > 1;
        let (mut runs, mut others): (Vec<PlottedRun>, Vec<PlottedReport>) = (Vec::new(), Vec::new());
        for report in reports {
            match report {
                PlottedReport::Run(run) => runs.push(*run),
                other => others.push(other),
            }
        }
        let prepared = |figure, file, summary| PreparedFigure { figure, file, summary, notes: BTreeSet::new() };
        let only = |file: &'static str, what: &str| {
            if several {
                let message = format!("{what} is a picture of its own, and {} reports are given", self.reports.len());
                return Err(CommandError::usage(message).hint("plot each report with a command of its own").into());
            }
            let curves = ["--x", "--y", "--train", "--log-x", "--log-y", "--label", "--band"];
            GivenFlags::of_process().refuse(&curves, "it is for learning curves", "leave it out").map(|()| file)
        };
        let title = self.title.as_deref().unwrap_or_default();
        match others.into_iter().next() {
            Some(_) if self.regularization_path => {
                let message = "only reports of `hemiola train` have a regularization path";
                Err(CommandError::usage(message).hint("leave out --regularization-path").into())
            }
            Some(PlottedReport::Topics(mut topics)) => {
                let file = only("topics.svg", "a list of topics")?;
                let count = topics.len();
                let plot = topics::plot(&mut topics).title(title);
                Ok(prepared(PlottedFigure::Topics(plot), file, counted(count, "topic")))
            }
            Some(PlottedReport::Evaluation(matrix)) => {
                let file = only("confusion.svg", "a confusion matrix")?;
                let classes = matrix.classes.len();
                let of = if classes == 1 { "1 class".to_owned() } else { format!("{classes} classes") };
                let plot = confusion(&matrix).title(title);
                Ok(prepared(PlottedFigure::Confusion(plot), file, format!("the confusion matrix of {of}")))
            }
            Some(PlottedReport::Search(report)) => {
                let file = only("search.svg", "a search")?;
                let summary = format!("the search of {}", counted(report.trials.len(), "trial"));
                Ok(prepared(PlottedFigure::Chart(search::chart(&report).title(title)), file, summary))
            }
            Some(PlottedReport::Run(_)) | None if self.regularization_path => {
                let file = only("regularization-path.svg", "a regularization path")?;
                let chart = self.regularization(&runs[0])?;
                let summary = format!("the regularization path of `{}`", runs[0].label);
                Ok(prepared(PlottedFigure::Chart(chart), file, summary))
            }
            Some(PlottedReport::Run(_)) | None => {
                let curves::PlottedCurves { chart, summary, notes } = self.curves(&runs)?;
                Ok(PreparedFigure { figure: PlottedFigure::Chart(chart), file: "convergence.svg", summary, notes })
            }
        }
    }

    /// Returns path and format of the output file, if one is written.
    fn target(&self, default: &str) -> anyhow::Result<Option<(PathBuf, PlotFormat)>> {
        let path = match (&self.output, self.text) {
            (Some(path), _) => path.clone(),
            (None, true) => return Ok(None),
            (None, false) => PathBuf::from(default),
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

    fn write(&self, figure: &PlottedFigure, path: &Path, format: PlotFormat) -> anyhow::Result<()> {
        let ground = if self.dark { ColorScheme::Dark } else { ColorScheme::Light };
        let bytes = match format {
            PlotFormat::Svg => figure.picture().svg().into_bytes(),
            PlotFormat::Png => figure
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

/// Returns the plot of a confusion matrix.
pub(super) fn confusion(matrix: &ConfusionMatrix) -> ConfusionPlot {
    let plot = ConfusionPlot::new(&matrix.classes, &matrix.counts);
    if matrix.unknown.is_empty() { plot } else { plot.other("label not in the model", &matrix.unknown) }
}

/// Returns the width of the terminal in columns, or 80 if standard output is not a terminal.
pub(super) fn terminal_width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return 80;
    }
    let size = rustix::termios::tcgetwinsize(&stdout);
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}
