//! `hemiola topology`: properties and drawing of a communication graph.

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
  complete             every peer sends to every peer
  ring                 peer i sends to peer i + 1
  chain                a ring without the edge from the last peer to the first
  star                 the root sends to and receives from all other peers
  root-expander        peer i sends to peers i + 1 and i + √peers
  halton[:DEGREE]      offsets from the Halton sequence; default degree: log₂ peers
  chord                offsets of a half, a quarter, an eighth, .. of the ring
  random:DEGREE        random regular graph (--seed)
  two-level:PEERS      complete graph within each group of PEERS peers, root expander between groups
  circulant:OFFSET,..  peer i sends to peer i + OFFSET for each offset
  edges:FILE           custom edges, a sender and a receiver on each line (`0 1`), or edges:0-1,1-0
  best[:DEGREE]        the graph with the largest spectral gap found by a search (--seed); default degree: 2

The spectral gap is 1 minus the second singular value of the uniform averaging matrix. It is 1 for the complete graph, where one \
step reaches consensus, and small where information spreads slowly. A graph is connected if the values of every peer reach every \
other peer. `steps` bounds the gossip steps in which disagreement shrinks by a factor of 1000, with equal weights.

The report has the keys \"peers\", \"kind\", \"edges\" (from sender to receiver), \"degree\" (the largest), \"regular\", \"balanced\", \"connected\", \"spectral_gap\", \"steps\", \
\"bytes_per_step\" (of the busiest peer) and \"total_bytes_per_step\".";

/// Number of peers above which the computation takes long enough for a note.
const SLOW_PEERS: u64 = 300;
/// Maximum number of peers: the spectral gap of more would take minutes.
const MAX_PEERS: u64 = 1000;
/// Search budget: candidate graphs times peers, because the cost of a candidate grows with its
/// peers.
const SEARCH_BUDGET: usize = 200_000;
/// Default degree of a search.
const SEARCH_DEGREE: usize = 2;
/// Factor by which disagreement shrinks within the reported number of steps.
const SHRINK_FACTOR: f64 = 1000.0;

/// Arguments of `hemiola topology`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TopologyCommand {
    /// Number of peers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_PEERS))]
    peers: u64,

    /// Kind of graph, see below.
    #[arg(long, value_name = "KIND", default_value = "root-expander", value_parser = graph::ANY, hide_possible_values = true)]
    kind: TopologyArgs,

    /// Out-degree, for `random`, `halton` [default: log₂ peers] and `best` [default: 2].
    #[arg(long, value_name = "N")]
    degree: Option<usize>,

    /// Random seed, for `random` and `best`.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Number of peers in a group, for `two-level`.
    #[arg(long, value_name = "N")]
    group_size: Option<usize>,

    /// Offsets, for `circulant`: peer i sends to peer i + offset.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    offsets: Vec<usize>,

    /// Edges from sender to receiver, for `edges`: `0-1,1-0`, or a file with an edge per line.
    #[arg(long, value_name = "A-B,...|FILE", value_parser = DrawnEdges::read)]
    edges: Option<DrawnEdges>,

    /// Bytes that an edge carries per step. The default is a model of a million `f32`.
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    bytes_per_edge: u64,

    /// File for a drawing, ending with `.svg`, or `-` for standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// File for the report as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Properties of a graph.
#[derive(Debug, Serialize)]
struct TopologyReport {
    peers: usize,
    kind: String,
    degree: usize,
    regular: bool,
    balanced: bool,
    connected: bool,
    spectral_gap: f64,
    /// `None` if disagreement does not shrink.
    steps: Option<u64>,
    bytes_per_step: u64,
    total_bytes_per_step: u64,
    edges: Vec<(u32, u32)>,
    /// Messages about properties that averaging needs and the graph lacks.
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
                format!("{} of {}, {}", self.kind, counted(self.peers, "peer"), counted(self.edges.len(), "edge")),
            ),
            ("degree", self.degree.to_string()),
            ("regular", yes(self.regular).to_owned()),
            ("connected", yes(self.connected).to_owned()),
            ("spectral gap", format!("{:.4}", self.spectral_gap)),
            ("steps to 1/1000", steps),
            (
                "bytes per step",
                format!("{} at the busiest peer, {} in total", self.bytes_per_step, self.total_bytes_per_step),
            ),
        ];
        for (name, value) in rows {
            let _ = writeln!(text, "{name:<16} {value}");
        }
        for problem in &self.problems {
            let _ = writeln!(text, "note: {problem}");
        }
        text
    }
}

/// Returns the number of steps in which disagreement shrinks by [`SHRINK_FACTOR`].
fn steps(gap: f64) -> Option<u64> {
    let shrink = 1.0 - gap;
    match shrink {
        _ if gap <= 1e-9 => None,
        _ if shrink <= 1.0 / SHRINK_FACTOR => Some(1),
        _ => Some((SHRINK_FACTOR.ln() / -shrink.ln()).ceil() as u64),
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
            let message = format!("cannot draw to `{}`: drawings of graphs are SVG", path.display());
            return Err(CommandError::usage(message).hint("let its name end with `.svg`").into());
        }
        if self.peers > SLOW_PEERS {
            let what = if self.kind.kind == TopologyName::Best {
                "searching for the best graph"
            } else {
                "computing the spectral gap"
            };
            output::note(&format!("{what} of {} peers takes a while", self.peers));
        }
        let graph = self.graph()?;
        let report = TopologyReport::of(&graph, self.kind.kind.name(), self.bytes_per_edge);
        if !to_screen(&self.report) && !to_screen(&self.output) {
            output::print(&report.text())?;
        }
        if let Some(path) = &self.output {
            let mut caption = format!(
                "{}, {}: degree {}, spectral gap {:.3}",
                report.kind,
                counted(report.peers, "peer"),
                report.degree,
                report.spectral_gap
            );
            let drawn = drawing::senders_drawn(&graph);
            if drawn < report.peers {
                let part = format!("edges of {} of {} peers", drawn, report.peers);
                let _ = write!(caption, " ({part})");
                output::note(&format!("{} edges are too many for a drawing; it shows the {part}", report.edges.len()));
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
            report::write(target, &report)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn graph(&self) -> anyhow::Result<Graph> {
        let (peers, kind, parameters) = (self.peers as usize, self.kind.kind, self.parameters()?);
        let topology = kind.topology(&parameters).map_err(|flag| {
            let message = format!("a graph of kind `{}` needs {flag}", kind.name());
            CommandError::usage(message).hint("`hemiola topology --help` has examples")
        })?;
        let made = if let Some(topology) = topology {
            topology.graph(peers)
        } else {
            let search = TopologySearch::new(peers, parameters.degree.unwrap_or(SEARCH_DEGREE))
                .seed(parameters.seed.unwrap_or(0));
            search.tries((SEARCH_BUDGET / peers).clamp(50, 1000)).run().map(|found| found.graph)
        };
        made.map_err(|error| CommandError::usage(error.to_string()).into())
    }

    /// Returns the parameters of the graph, from flags or from its name. Refuses flags without
    /// effect.
    fn parameters(&self) -> anyhow::Result<TopologyParameters> {
        use TopologyName::{Best, Circulant, Halton, RandomRegular, TwoLevel};
        let TopologyArgs { kind, parameters } = &self.kind;
        let behind = parameters != &TopologyParameters::default();
        let given: [(&str, bool, &[TopologyName]); 5] = [
            ("--degree", self.degree.is_some(), &[Halton, RandomRegular, Best]),
            ("--seed", self.seed.is_some(), &[RandomRegular, Best]),
            ("--group-size", self.group_size.is_some(), &[TwoLevel]),
            ("--offsets", !self.offsets.is_empty(), &[Circulant]),
            ("--edges", self.edges.is_some(), &[TopologyName::Edges]),
        ];
        for (flag, given, kinds) in given {
            if given && !kinds.contains(kind) {
                let kinds: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
                let message = format!("{flag} has no effect on a graph of kind `{}`", kind.name());
                let hint = format!("leave it out, or use it with --kind {}", kinds.join(" or "));
                return Err(CommandError::usage(message).hint(hint).into());
            }
            if given && behind && flag != "--seed" {
                let message = format!("{flag} is given twice: `--kind {}:..` sets it, too", kind.name());
                return Err(CommandError::usage(message).hint("leave out one of them").into());
            }
        }
        if behind {
            return Ok(TopologyParameters { seed: self.seed, ..parameters.clone() });
        }
        let Self { degree, seed, group_size, .. } = *self;
        Ok(TopologyParameters {
            degree,
            seed,
            group: group_size,
            offsets: self.offsets.clone(),
            edges: self.edges.clone(),
        })
    }
}
