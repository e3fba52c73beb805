//! `hemiola topology`: a communication graph, looked at before anything is trained over it.

mod drawing;
mod kind;

use crate::failure::Failure;
use crate::output::{self, Compress, Staged};
use crate::report;
use clap::Args;
use hemiola::collective::{Graph, Search, Weights};
use kind::Kind;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola topology --peers 25 --kind root-expander
  hemiola topology --peers 16 --kind halton --degree 4 --output halton.svg
  hemiola topology --peers 12 --kind circulant --offsets 1,5
  hemiola topology --peers 4 --kind edges --edges 0-1,1-2,2-3,3-0,0-2,2-0
  hemiola topology --peers 40 --kind best --degree 3 --report -

The spectral gap is 1 minus the second singular value of the matrix of plain averages: 1 for the complete graph, where one step is enough, and small where news travel slowly; `connected` says whether they reach everybody. \
Steps are those in which disagreement shrinks a thousandfold, at most, if all peers count the same.

The report holds \"peers\", \"kind\", \"edges\" (from sender to receiver), \"degree\" (the largest), \"regular\", \"balanced\", \"connected\", \"spectral_gap\", \"steps\", \
\"bytes_per_step\" (of the busiest peer) and \"total_bytes_per_step\".";

/// Peers beyond this would take minutes to compute the gap of.
const MOST_PEERS: u64 = 1000;
/// Disagreement counts as gone when it has shrunk this much.
const THOUSANDFOLD: f64 = 1000.0;

/// The arguments of `hemiola topology`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Show {
    /// Number of peers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_PEERS))]
    peers: u64,

    /// Kind of graph; `best` looks for the largest spectral gap with --degree.
    #[arg(long, value_enum, default_value = "root-expander")]
    kind: Kind,

    /// How many each peer sends to, for `halton`, `random-regular` and `best`.
    #[arg(long, value_name = "N")]
    degree: Option<usize>,

    /// Which of the random graphs.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Peers in each group, for `two-level`.
    #[arg(long, value_name = "N")]
    group: Option<usize>,

    /// Each peer `i` sends to `i + offset`, for `circulant`.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    offsets: Vec<usize>,

    /// Senders and receivers such as `0-1,1-0`, for `edges`.
    #[arg(long, value_name = "A-B,...", value_delimiter = ',')]
    edges: Vec<String>,

    /// Bytes that each edge carries in a step; a model of a million `f32` unless said otherwise.
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    bytes: u64,

    /// Picture to write, ending with `.svg`, or `-` for standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// File for the figures as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What is told of a graph.
#[derive(Debug, Serialize)]
struct Figures {
    peers: usize,
    kind: String,
    degree: usize,
    regular: bool,
    balanced: bool,
    connected: bool,
    spectral_gap: f64,
    /// None if disagreement does not shrink.
    steps: Option<u64>,
    bytes_per_step: u64,
    total_bytes_per_step: u64,
    edges: Vec<(u32, u32)>,
    /// What is wrong with it, in words.
    problems: Vec<String>,
}

impl Figures {
    fn of(graph: &Graph, kind: String, bytes: u64) -> Self {
        let connected = graph.check_connected();
        let balanced = Weights::balanced(graph);
        let spectral_gap = graph.spectral_gap();
        let regular = graph.check_regular();
        let problems = [connected.as_ref().err(), balanced.as_ref().err()];
        Self {
            peers: graph.peers(),
            kind,
            degree: graph.max_out_degree().max(graph.max_in_degree()),
            regular: regular.is_ok() && graph.check_balanced().is_ok(),
            balanced: balanced.is_ok(),
            connected: connected.is_ok(),
            spectral_gap,
            steps: steps(spectral_gap).filter(|_| connected.is_ok()),
            bytes_per_step: graph.bytes_per_step(bytes),
            total_bytes_per_step: graph.total_bytes_per_step(bytes),
            edges: graph.edges().map(|(from, to)| (from.number(), to.number())).collect(),
            problems: problems.into_iter().flatten().map(ToString::to_string).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let yes = |yes: bool| if yes { "yes" } else { "no" };
        let steps = self.steps.map_or("never".to_owned(), |steps| steps.to_string());
        let rows = [
            ("graph", format!("{} of {} peers, {} edges", self.kind, self.peers, self.edges.len())),
            ("degree", self.degree.to_string()),
            ("regular", yes(self.regular).to_owned()),
            ("connected", yes(self.connected).to_owned()),
            ("spectral gap", format!("{:.4}", self.spectral_gap)),
            ("steps to 1/1000", steps),
            (
                "bytes per step",
                format!("{} of the busiest peer, {} of all", self.bytes_per_step, self.total_bytes_per_step),
            ),
        ];
        for (name, value) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<16} {value}");
        }
        for problem in &self.problems {
            let _ = writeln!(text, "note: {problem}");
        }
        text
    }
}

/// Steps in which disagreement shrinks a thousandfold.
fn steps(gap: f64) -> Option<u64> {
    let shrink = 1.0 - gap;
    match shrink {
        _ if gap <= 1e-9 => None,
        _ if shrink <= 1.0 / THOUSANDFOLD => Some(1),
        _ => Some((THOUSANDFOLD.ln() / -shrink.ln()).ceil() as u64),
    }
}

impl Show {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        if let Some(target) = &self.report {
            report::check(target)?;
        }
        let to_screen = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if self.report.is_some() && self.report == self.output {
            let message = if to_screen(&self.report) {
                "both --report and --output would be written to standard output"
            } else {
                "both --report and --output name the same file"
            };
            return Err(Failure::usage(message).hint("name a file for one of them").into());
        }
        if let Some(path) = self.output.as_deref().filter(|path| *path != Path::new("-"))
            && path.extension().and_then(|ending| ending.to_str()) != Some("svg")
        {
            let message = format!("cannot draw to `{}`: pictures of graphs are SVG", path.display());
            return Err(Failure::usage(message).hint("let its name end with `.svg`").into());
        }
        let graph = self.graph()?;
        let figures = Figures::of(&graph, self.kind.name(), self.bytes);
        if !to_screen(&self.report) && !to_screen(&self.output) {
            output::print(&figures.text())?;
        }
        if let Some(path) = &self.output {
            let caption = format!(
                "{}, {} peers: degree {}, spectral gap {:.3}",
                figures.kind, figures.peers, figures.degree, figures.spectral_gap
            );
            let picture = drawing::draw(&graph, &caption).svg();
            if to_screen(&self.output) {
                output::print(&picture)?;
            } else {
                let mut staged = Staged::create(path, Compress::None)?;
                staged.write(picture.as_bytes())?;
                staged.finish()?.publish()?;
            }
        }
        if let Some(target) = &self.report {
            report::write(target, &figures)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn graph(&self) -> anyhow::Result<Graph> {
        let peers = self.peers as usize;
        self.kind.check(self)?;
        let made = match self.kind.topology(self)? {
            Some(topology) => topology.graph(peers),
            None => {
                Search::new(peers, self.degree.unwrap_or(2)).seed(self.seed.unwrap_or(0)).run().map(|found| found.graph)
            }
        };
        made.map_err(|error| Failure::usage(error.to_string()).into())
    }
}
