//! `hemiola simulate figure`: figures of papers, reproduced with our protocols in the simulator.

use crate::arguments::named_value::NamedValueParser;
use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use clap::Args;
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};
use hemiola_sim::paper_figures::{FigureName, PaperFigure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Figures:
  managed-mf   Bösen, figure 4: bandwidth-managed communication for matrix factorization
  managed-lda  Bösen, figure 5: bandwidth-managed communication for topic models
  ring         SMPFRAME, figure 8: rotation around a ring, compared with a barrier per iteration
  notify-ack   ASAP, figure 10: gossip averaging over a root expander with NOTIFY-ACK, with a barrier and asynchronously

Learning curves are drawn for the first number of peers. The output is deterministic.

Three files are written: PREFIX.csv (summary), PREFIX-lines.csv (the points of all lines) and PREFIX.svg (the figure). \
docs/experiments compares them with the published results.";

/// Arguments of `hemiola simulate figure`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SimulateFigureArgs {
    /// Figure to reproduce.
    #[arg(value_name = "NAME", value_parser = FIGURE)]
    name: FigureName,

    /// Numbers of peers to simulate [default: those of the paper].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=256))]
    peers: Vec<u32>,

    /// Number of random seeds per training run with bandwidth-managed communication.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,

    /// Prefix of the output files [default: the name of the figure].
    #[arg(long, short, value_name = "PREFIX")]
    output: Option<PathBuf>,
}

/// Parser of the name of a figure.
const FIGURE: NamedValueParser<FigureName> =
    NamedValueParser::new(name, || FigureName::ALL.iter().map(|(_, name)| (*name).to_owned()).collect());

fn name(text: &str) -> Result<FigureName, String> {
    let found = FigureName::ALL.into_iter().find(|(_, name)| *name == text);
    found.map(|(name, _)| name).ok_or_else(|| {
        let names: Vec<&str> = FigureName::ALL.iter().map(|(_, name)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

impl SimulateFigureArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let prefix = self.output.unwrap_or_else(|| PathBuf::from(self.name.name()));
        let files = output::with_suffixes(&prefix, [".csv", "-lines.csv", ".svg"])?;
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
        // An axis from zero would hide the differences between values far above zero.
        let y = if least > 0.5 * most { ChartAxis::new(y) } else { ChartAxis::new(y).from_zero() };
        let mut drawn = ChartPanel::new(ChartAxis::new(x).from_zero(), y);
        for (name, points) in &panel.lines {
            drawn = drawn.line(ChartLine::new(name, points.iter().copied()));
        }
        chart = chart.panel(drawn);
    }
    chart
}
