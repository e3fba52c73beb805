//! `hemiola plot`: how runs converged, on one picture.

mod figure;
mod labels;
mod report_file;

use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use clap::Args;
use figure::CurveFigure;
use hemiola_plot::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme};
use report_file::{CurveData, EpochRecords, PlottedRun};
use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Two runs on one picture, against epochs and seconds:
    hemiola train mf --data ratings.csv --rank 16 --report small.json
    hemiola train mf --data ratings.csv --rank 64 --report large.json
    hemiola plot small.json large.json

  The objective against bytes sent, both on logarithmic axes, as PNG:
    hemiola plot runs/*.json --x bytes --y objective --log-x --log-y -o bytes.png

  In the terminal, straight from a training:
    hemiola train mf --report - | hemiola plot - --text

A point marks the epoch whose model was kept. SVG follows the reader's light or dark setting; PNG is light unless --dark. \
Values that are not finite are gaps, with a note.

Exit codes:
  0  drawn
  2  nothing was written: a file is no report, or the runs have no figure in common
  3  the system failed, for example a full disk";

/// Pixels for each unit of a picture: sharp on dense screens and in print.
const PIXELS: f64 = 2.0;

/// The arguments of `hemiola plot`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct PlotArgs {
    /// Reports of `hemiola train --report`, or `-` for standard input.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,

    /// Picture to write, ending with `.svg` or `.png`, or `-` for SVG on standard output [default: convergence.svg].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Draw with characters on standard output. No picture is written unless --output names one.
    #[arg(long)]
    text: bool,

    /// What it is drawn against; a panel for each.
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',', default_value = "epochs,seconds")]
    x: Vec<CurveData>,

    /// Figures to draw, such as `rmse`, `mae` or `objective`; a row of panels for each [default: the most telling one on
    /// held-out entries that all runs have].
    #[arg(long, value_name = "FIGURE", value_delimiter = ',')]
    y: Vec<String>,

    /// Draw figures on training entries, too, as thin lines.
    #[arg(long)]
    train: bool,

    /// Logarithmic axis from left to right.
    #[arg(long)]
    log_x: bool,

    /// Logarithmic axis from bottom to top.
    #[arg(long)]
    log_y: bool,

    /// Title above the picture.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Name of a run; once for each report, in their order [default: the names of the files].
    #[arg(long = "label", value_name = "NAME")]
    labels: Vec<String>,

    /// Draw a PNG on a dark ground.
    #[arg(long)]
    dark: bool,
}

/// What a picture is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlotFormat {
    Svg,
    Png,
}

impl PlotArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let target = self.target()?;
        let runs = self.runs()?;
        let figures = if self.y.is_empty() {
            vec![CurveFigure::best(&runs, self.train)?]
        } else {
            self.y.iter().map(|name| CurveFigure::named(name, &runs, self.train)).collect::<anyhow::Result<_>>()?
        };
        let notes = self.gaps(&runs, &figures)?;
        let chart = self.chart(&runs, &figures);
        if let Some((path, format)) = &target {
            self.write(&chart, path, *format)?;
        }
        if self.text {
            output::print(&chart.text(terminal_width()))?;
        }
        if let Some((path, _)) = target.filter(|(path, _)| path != Path::new("-")) {
            let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
            let runs = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
            output::print(&format!("drew {} of {runs} to `{}`\n", names.join(", "), path.display()))?;
        }
        for note in notes {
            // If stderr is closed, the picture has to do.
            let _ = writeln!(std::io::stderr(), "hemiola: {note}");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Where a picture goes, if one is wanted.
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
                let message = format!("cannot draw to `{}`: pictures are SVG or PNG", path.display());
                return Err(CommandError::usage(message).hint("let the name end with `.svg` or `.png`").into());
            }
        };
        if path == Path::new("-") && self.text {
            let message = "both --text and --output - go to standard output";
            return Err(CommandError::usage(message).hint("name a file for the picture").into());
        }
        if self.dark && format == PlotFormat::Svg {
            let message = "--dark is for PNG: an SVG follows the setting of whoever reads it";
            return Err(CommandError::usage(message).hint("leave it out, or let --output end with `.png`").into());
        }
        Ok(Some((path, format)))
    }

    fn runs(&self) -> anyhow::Result<Vec<PlottedRun>> {
        if self.reports.iter().filter(|path| *path == Path::new("-")).count() > 1 {
            let message = "standard input can be read once, but `-` is given more often";
            return Err(CommandError::usage(message).hint("put the reports into files").into());
        }
        let labels = if self.labels.is_empty() {
            labels::of_files(&self.reports)
        } else if self.labels.len() == self.reports.len() {
            labels::numbered(self.labels.clone())
        } else {
            let message =
                format!("--label is given {} times, but reports are {}", self.labels.len(), self.reports.len());
            return Err(CommandError::usage(message).hint("give --label once for each report, or not at all").into());
        };
        let mut runs = self.reports.iter().map(|path| PlottedRun::read(path)).collect::<anyhow::Result<Vec<_>>>()?;
        for (run, label) in runs.iter_mut().zip(labels) {
            run.label = label;
        }
        Ok(runs)
    }

    /// Notes on what cannot be drawn; an error if nothing can.
    fn gaps(&self, runs: &[PlottedRun], figures: &[CurveFigure]) -> anyhow::Result<BTreeSet<String>> {
        let (across, up) = (AxisScale::of([], self.log_x), AxisScale::of([], self.log_y));
        let reason = if self.log_x || self.log_y { "not finite, or not positive" } else { "not finite" };
        // A set, since panels against different things have the same gaps.
        let mut notes = BTreeSet::new();
        for (figure, course) in figures.iter().flat_map(|figure| self.x.iter().map(move |course| (figure, *course))) {
            let entries = figure.lines().0;
            let points: Vec<Vec<[f64; 2]>> = runs.iter().map(|run| run.points(course, entries)).collect();
            if !points.iter().flatten().any(|[x, _]| *x > 0.0) {
                let message = format!("{}: there is nothing to draw against", course.nowhere());
                return Err(CommandError::usage(message)
                    .hint("choose something else for --x, such as `epochs`")
                    .into());
            }
            let shown =
                |points: &Vec<[f64; 2]>| points.iter().filter(|[x, y]| across.can_show(*x) && up.can_show(*y)).count();
            if points.iter().map(shown).sum::<usize>() == 0 {
                let message = format!("no value of {} can be drawn: all are missing, or {reason}", figure.name);
                return Err(CommandError::usage(message).hint("choose another figure with --y").into());
            }
            for (run, points) in runs.iter().zip(&points).filter(|(run, _)| run.has(entries)) {
                let all = points.len();
                let unseen = |place: usize, scale: AxisScale| {
                    points.iter().filter(|point| !scale.can_show(point[place])).count()
                };
                let (left_out, gaps) = (unseen(0, across), unseen(1, up));
                let label = &run.label;
                if left_out > 0 {
                    let what = if self.log_x { "not positive, as a logarithmic axis needs" } else { "missing" };
                    notes.insert(format!(
                        "{left_out} of {all} points of `{label}` are left out: {} are {what}",
                        course.label()
                    ));
                }
                if gaps > 0 {
                    let what = if self.log_y { "not finite, or not positive" } else { "not finite" };
                    notes.insert(format!("{gaps} of {all} values of {} of `{label}` are {what}: gaps", figure.name));
                }
            }
        }
        Ok(notes)
    }

    fn chart(&self, runs: &[PlottedRun], figures: &[CurveFigure]) -> Chart {
        let mut chart = Chart::new().columns(self.x.len()).mark("model that was kept");
        if let Some(title) = &self.title {
            chart = chart.title(title);
        }
        for figure in figures {
            for course in &self.x {
                chart = chart.panel(self.panel(runs, figure, *course));
            }
        }
        chart
    }

    fn panel(&self, runs: &[PlottedRun], figure: &CurveFigure, course: CurveData) -> ChartPanel {
        let logarithmic = |axis: ChartAxis, wanted: bool| if wanted { axis.logarithmic() } else { axis };
        let x = ChartAxis::new(course.label()).from_zero();
        let x = if course == CurveData::Seconds { x } else { x.integer_ticks() };
        let mut panel =
            ChartPanel::new(logarithmic(x, self.log_x), logarithmic(ChartAxis::new(&figure.label()), self.log_y));
        let (entries, aside) = figure.lines();
        for (number, run) in runs.iter().enumerate() {
            if run.has(entries) {
                let line = ChartLine::new(&run.label, run.points(course, entries)).series(number);
                // Without held-out entries the last model is kept, which needs no mark.
                let kept = run.kept().filter(|_| matches!(entries, EpochRecords::HeldOut(_)));
                panel = panel.line(kept.into_iter().fold(line, ChartLine::mark));
            }
        }
        if let Some(aside) = aside {
            for (number, run) in runs.iter().enumerate().filter(|(_, run)| run.has(aside)) {
                panel = panel.line(ChartLine::new(&run.label, run.points(course, aside)).series(number).thin());
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
                .png(ground, PIXELS)
                .map_err(|error| CommandError::usage(error.to_string()).hint("draw fewer panels, or an SVG"))?,
        };
        if path == Path::new("-") {
            return output::print(&String::from_utf8_lossy(&bytes));
        }
        let mut staged = StagedFile::create(path, OutputCompression::None)?;
        staged.write(&bytes)?;
        staged.finish()?.publish()
    }
}

/// The columns of the terminal that standard output is, or else 80.
fn terminal_width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return 80;
    }
    let size = rustix::termios::tcgetwinsize(&stdout);
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}
