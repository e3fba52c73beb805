//! `hemiola simulate figure`: a figure of a paper, with our protocols on a cluster of its size.

use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use clap::Args;
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};
use hemiola_sim::paper_figures::{FigureName, PaperFigure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Figures:
  managed-mf   Bösen, figure 4: rows of a matrix factorization sent ahead of need, within a budget
  managed-lda  Bösen, figure 5: the same for topics
  ring         SMPFRAME, figure 8: blocks around a ring, and a barrier after every iteration
  notify-ack   ASAP, figure 10: averages over a root expander with NOTIFY-ACK, a barrier, and neither

Numbers of peers are those of the papers unless --peers names others; courses are drawn for the first. The same figure is the same bytes each time.

Three files are written: PREFIX.csv has what the lines come to, PREFIX-lines.csv the lines, PREFIX.svg the picture. docs/simulation.md shows them beside what the papers report.";

/// The arguments of `hemiola simulate figure`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimulateFigureArgs {
    /// Which figure.
    #[arg(value_name = "NAME", value_parser = name)]
    name: FigureName,

    /// Numbers of peers [default: those of the paper].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=256))]
    peers: Vec<u32>,

    /// How often trainings under managed communication are repeated, with other data.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,

    /// What the names of the files begin with [default: the name of the figure].
    #[arg(long, short, value_name = "PREFIX")]
    output: Option<PathBuf>,
}

fn name(text: &str) -> Result<FigureName, String> {
    let found = FigureName::ALL.into_iter().find(|(_, name)| *name == text);
    found.map(|(name, _)| name).ok_or_else(|| {
        let names: Vec<&str> = FigureName::ALL.iter().map(|(_, name)| *name).collect();
        format!("it is one of {}", names.join(", "))
    })
}

impl SimulateFigureArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let prefix = self.output.unwrap_or_else(|| PathBuf::from(self.name.name()));
        let files = output::with_ends(&prefix, [".csv", "-lines.csv", ".svg"])?;
        let peers: Vec<usize> = self.peers.iter().map(|peers| *peers as usize).collect();
        let figure = self.name.draw(&peers, self.seeds).map_err(CommandError::usage)?;
        let picture = chart(&figure).picture().svg();
        let mut staged = Vec::new();
        for (path, text) in files.iter().zip([&figure.table_csv(), &figure.lines_csv(), &picture]) {
            let mut file = StagedFile::create(path, OutputCompression::None)?;
            file.write(text.as_bytes())?;
            staged.push(file.finish()?);
        }
        staged.into_iter().try_for_each(output::CompleteFile::publish)?;
        let names: Vec<String> = files.iter().map(|file: &PathBuf| format!("`{}`", Path::display(file))).collect();
        output::print(&format!("{}written: {}\n", figure.table(), names.join(", ")))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn chart(figure: &PaperFigure) -> Chart {
    let mut chart = Chart::new().title(&figure.title);
    for panel in &figure.panels {
        let [x, y] = &panel.axes;
        let heights = || panel.lines.iter().flat_map(|(_, points)| points.iter().map(|[_, height]| *height));
        let (least, most) = (heights().fold(f64::INFINITY, f64::min), heights().fold(0.0, f64::max));
        // Where all is high up, differences would not be seen.
        let y = if least > 0.5 * most { ChartAxis::new(y) } else { ChartAxis::new(y).from_zero() };
        let mut drawn = ChartPanel::new(ChartAxis::new(x).from_zero(), y);
        for (name, points) in &panel.lines {
            drawn = drawn.line(ChartLine::new(name, points.iter().copied()));
        }
        chart = chart.panel(drawn);
    }
    chart
}
