//! `hemiola topology`: a communication graph, looked at before anything is trained over it.

mod drawing;

use crate::error::CommandError;
use crate::graph::{self, DrawnEdges, TopologyArgs, TopologyName, TopologyParameters};
use crate::output::{self, OutputCompression, StagedFile};
use crate::plural::counted;
use crate::report;
use clap::Args;
use hemiola::collective::{GossipWeights, Graph, TopologySearch};
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
  hemiola topology --peers 4 --kind edges:graph.txt
  hemiola topology --peers 40 --kind best:3 --report -

Kinds of graph:
  complete             everybody sends to everybody
  ring                 each sends to the next
  chain                each sends to the next, the last to nobody
  star                 everybody sends to the root, and the root to everybody
  root-expander        each sends to the next and to the one √peers further
  halton[:DEGREE]      offsets spread as the Halton sequence spreads points; log₂ peers of them, if no degree is given
  chord                half of the way round, a quarter, an eighth, and so on
  random:DEGREE        all send to and receive from so many random peers (--seed)
  two-level:PEERS      all of one's group of so many, and a root expander of groups
  circulant:OFFSET,..  each sends to those so many places further
  edges:FILE           edges of your own: a sender and a receiver on each line, `0 1`, or edges:0-1,1-0
  best[:DEGREE]        the largest spectral gap that can be found (--seed); with a degree of 2, if none is given

The spectral gap is 1 minus the second singular value of the matrix of plain averages: 1 for the complete graph, where one step is enough, and small where news travel slowly; `connected` says whether they reach everybody. \
Steps are those in which disagreement shrinks a thousandfold, at most, if all peers count the same.

The report holds \"peers\", \"kind\", \"edges\" (from sender to receiver), \"degree\" (the largest), \"regular\", \"balanced\", \"connected\", \"spectral_gap\", \"steps\", \
\"bytes_per_step\" (of the busiest peer) and \"total_bytes_per_step\".";

/// Up to so many peers take no time to speak of.
const SOON: u64 = 300;
/// Peers beyond this would take minutes to compute the gap of.
const MOST_PEERS: u64 = 1000;
/// How many graphs are looked at in a search, times peers: each takes longer the more peers there are.
const TRIES: usize = 200_000;
/// Of a graph that is searched for, if nobody says.
const DEGREE: usize = 2;
/// Disagreement counts as gone when it has shrunk this much.
const THOUSANDFOLD: f64 = 1000.0;

/// The arguments of `hemiola topology`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TopologyCommand {
    /// Number of peers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_PEERS))]
    peers: u64,

    /// Kind of graph, of those below.
    #[arg(long, value_name = "KIND", default_value = "root-expander", value_parser = graph::typed)]
    kind: TopologyArgs,

    /// How many each peer sends to, for `random`, `halton` (log₂ peers if not given) and `best` (2 if not given).
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

    /// Senders and receivers such as `0-1,1-0`, or a file with such lines, for `edges`.
    #[arg(long, value_name = "A-B,...|FILE", value_parser = DrawnEdges::read)]
    edges: Option<DrawnEdges>,

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
struct TopologyReport {
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

impl TopologyReport {
    fn of(graph: &Graph, kind: String, bytes: u64) -> Self {
        let connected = graph.check_connected();
        let balanced = GossipWeights::balanced(graph);
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
            (
                "graph",
                format!(
                    "{} of {}, {}",
                    self.kind,
                    counted(self.peers as u64, "peer"),
                    counted(self.edges.len() as u64, "edge")
                ),
            ),
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

impl TopologyCommand {
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
            return Err(CommandError::usage(message).hint("name a file for one of them").into());
        }
        if let Some(path) = self.output.as_deref().filter(|path| *path != Path::new("-"))
            && path.extension().and_then(|ending| ending.to_str()) != Some("svg")
        {
            let message = format!("cannot draw to `{}`: pictures of graphs are SVG", path.display());
            return Err(CommandError::usage(message).hint("let its name end with `.svg`").into());
        }
        if self.peers > SOON {
            let what = if self.kind.kind == TopologyName::Best {
                "looking for the best graph"
            } else {
                "computing the spectral gap"
            };
            output::note(&format!("{what} of so many peers takes a while"));
        }
        let graph = self.graph()?;
        let figures = TopologyReport::of(&graph, self.kind.kind.name(), self.bytes);
        if !to_screen(&self.report) && !to_screen(&self.output) {
            output::print(&figures.text())?;
        }
        if let Some(path) = &self.output {
            let mut caption = format!(
                "{}, {}: degree {}, spectral gap {:.3}",
                figures.kind,
                counted(figures.peers as u64, "peer"),
                figures.degree,
                figures.spectral_gap
            );
            let drawn = drawing::senders_drawn(&graph);
            if drawn < figures.peers {
                let part = format!("edges of {} of {} peers", drawn, figures.peers);
                let _ = write!(caption, " ({part})");
                output::note(&format!("{} edges are too many for a picture; it shows the {part}", figures.edges.len()));
            }
            let picture = drawing::draw(&graph, &caption).svg();
            if to_screen(&self.output) {
                output::print(&picture)?;
            } else {
                let mut staged = StagedFile::create(path, OutputCompression::None)?;
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
        let (peers, kind, details) = (self.peers as usize, self.kind.kind, self.details()?);
        let topology = kind.topology(&details).map_err(|flag| {
            let message = format!("a graph of kind `{}` needs {flag}", kind.name());
            CommandError::usage(message).hint("`hemiola topology --help` has examples")
        })?;
        let made = if let Some(topology) = topology {
            topology.graph(peers)
        } else {
            let search = TopologySearch::new(peers, details.degree.unwrap_or(DEGREE)).seed(details.seed.unwrap_or(0));
            search.tries((TRIES / peers).clamp(50, 1000)).run().map(|found| found.graph)
        };
        made.map_err(|error| CommandError::usage(error.to_string()).into())
    }

    /// What was said of the graph, by its flags and behind its name. Refuses flags that would do nothing.
    fn details(&self) -> anyhow::Result<TopologyParameters> {
        use TopologyName::{Best, Circulant, Halton, RandomRegular, TwoLevel};
        let TopologyArgs { kind, details } = &self.kind;
        let behind = details != &TopologyParameters::default();
        let given: [(&str, bool, &[TopologyName]); 5] = [
            ("--degree", self.degree.is_some(), &[Halton, RandomRegular, Best]),
            ("--seed", self.seed.is_some(), &[RandomRegular, Best]),
            ("--group", self.group.is_some(), &[TwoLevel]),
            ("--offsets", !self.offsets.is_empty(), &[Circulant]),
            ("--edges", self.edges.is_some(), &[TopologyName::Edges]),
        ];
        for (flag, given, kinds) in given {
            if given && !kinds.contains(kind) {
                let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
                let message = format!("{flag} does nothing for a graph of kind `{}`", kind.name());
                let hint = format!("leave it out, or use it with --kind {}", kinds.join(" or "));
                return Err(CommandError::usage(message).hint(hint).into());
            }
            if given && behind && flag != "--seed" {
                let message = format!("{flag} is said twice: it is in `--kind {}:..`, too", kind.name());
                return Err(CommandError::usage(message).hint("leave out one of them").into());
            }
        }
        if behind {
            return Ok(TopologyParameters { seed: self.seed, ..details.clone() });
        }
        let Self { degree, seed, group, .. } = *self;
        Ok(TopologyParameters { degree, seed, group, offsets: self.offsets.clone(), edges: self.edges.clone() })
    }
}
