//! `hemiola bench nets-timeline`: timeline of training steps, as a picture and as a file for Perfetto.
//!
//! With overlap, gradients are sent one by one during the backward pass, and the next forward pass
//! waits for each variable on its own. Without, one message holds all gradients, and no computation
//! starts until it has arrived. Every peer of the job runs this command.

use super::present::burn_parts::{device, images};
use crate::benchmark::{Benchmark, ReportWriter, execute};
use clap::Args;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Rank;
use hemiola_nn::models::{NeuralNet as _, VggConfig};
use hemiola_nn::trace::{TraceLane, TraceSpan, chrome_trace};
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::StrategyBuilder;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: usize = 32;
const STEPS: usize = 6;
/// Number of steps in the picture.
const SHOWN: usize = 2;

/// Arguments of `hemiola bench nets-timeline`.
#[derive(Args, Debug)]
pub struct NetsTimelineBench {
    /// File for the picture (SVG).
    picture: PathBuf,

    /// File for the spans of all peers, in the format of Chrome and Perfetto (JSON).
    trace: PathBuf,

    /// Send one message after the backward pass and wait for it, for comparison.
    #[arg(long)]
    no_overlap: bool,
}

/// Duration of the steps in the picture.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TimelineMeasurement {
    milliseconds: f64,
}

impl Benchmark for NetsTimelineBench {
    type Measurement = TimelineMeasurement;

    fn report(&self) -> Option<&Path> {
        None
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        Ok(hemiola_cluster::run(|cluster| {
            let spans = cluster.all_gather(self.train(cluster)?)?;
            if !cluster.is_root() {
                return Ok(None);
            }
            let spans: Vec<_> = Rank::all(spans.len()).zip(spans).collect();
            std::fs::write(&self.trace, chrome_trace(&spans))?;
            let title =
                if self.no_overlap { "One message, then the next step" } else { "Gradients leave as they come" };
            let (from, to) = interval(&spans[0].1);
            std::fs::write(&self.picture, draw(&spans[0].1, title))?;
            Ok(Some(TimelineMeasurement { milliseconds: (to - from) * 1e3 }))
        })?)
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{SHOWN} steps in {:.0} ms", measured.milliseconds)
    }
}

impl NetsTimelineBench {
    pub(crate) fn run(&self, reports: &dyn ReportWriter) -> anyhow::Result<()> {
        execute(self, reports)
    }

    /// Trains a few steps and returns the spans of the last ones.
    fn train(&self, cluster: &Cluster) -> Result<Vec<TraceSpan>> {
        let model = VggConfig { hidden: vec![256, 256], ..VggConfig::default() }.init(&device());
        let batch = images(cluster, EXAMPLES, 32);
        let chunk = Some(if self.no_overlap { 1000 } else { 1 });
        let builder =
            Trainer::builder(cluster, model, Optimizer::sgd(0.001)).strategy(StrategyBuilder::AllReduce { chunk });
        let mut trainer = builder.trace().build()?;
        for step in 0..STEPS {
            if step == STEPS - SHOWN {
                trainer.wait()?;
                cluster.barrier()?;
                drop(trainer.trace());
            }
            trainer.step(EXAMPLES, |model| model.loss(&batch))?;
            if self.no_overlap {
                trainer.wait()?;
            }
        }
        trainer.wait()?;
        Ok(trainer.trace())
    }
}

/// Start of the first span and end of the last one, in seconds.
fn interval(spans: &[TraceSpan]) -> (f64, f64) {
    let from = spans.iter().map(|span| span.start).fold(f64::INFINITY, f64::min);
    (from, spans.iter().map(|span| span.end).fold(0.0, f64::max))
}

/// Draws passes and waits in the first rows and synchronized units below.
fn draw(spans: &[TraceSpan], title: &str) -> String {
    let (from, to) = interval(spans);
    let (left, width, line) = (90.0, 800.0, 16.0);
    let scale = width / (to - from).max(1e-9);
    let messages =
        spans.iter().filter_map(|span| if let TraceLane::Sync(unit) = span.lane { Some(unit + 1) } else { None });
    let height = 50.0 + (2.0 + messages.max().unwrap_or(0) as f64) * line;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        left + width + 20.0
    );
    let _ = writeln!(
        out,
        "<text x=\"10\" y=\"16\" font-size=\"13\">{title}: {SHOWN} steps in {:.0} ms</text>",
        (to - from) * 1e3
    );
    for (name, row) in [("compute", 0.0), ("wait", 1.0), ("messages", 2.0)] {
        let _ = writeln!(out, "<text x=\"10\" y=\"{}\">{name}</text>", 40.0 + row * line);
    }
    for span in spans {
        let (row, color) = match span.lane {
            TraceLane::Compute if span.name == "forward" => (0.0, "#4c9f70"),
            TraceLane::Compute => (0.0, "#2f6f9f"),
            TraceLane::Wait => (1.0, "#c0504d"),
            TraceLane::Sync(unit) => (2.0 + unit as f64, "#e0a030"),
            _ => continue,
        };
        let (x, y) = (left + (span.start - from) * scale, 29.0 + row * line);
        let long = ((span.end - span.start) * scale).max(0.5);
        let name = span.name.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{}\" fill=\"{color}\"><title>{name}</title></rect>",
            line - 3.0
        );
        if long > 60.0 && span.lane != TraceLane::Wait {
            let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"white\">{name}</text>", x + 4.0, y + 10.0);
        }
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_shows_each_span_with_its_name() {
        let span = |name: &str, lane, start, end| TraceSpan { name: name.to_owned(), lane, start, end };
        let spans = [span("forward", TraceLane::Compute, 0.0, 0.1), span("a < b", TraceLane::Sync(1), 0.05, 0.2)];
        let picture = draw(&spans, "Two spans");
        assert!(picture.contains("2 steps in 200 ms") && picture.contains("a &lt; b"), "{picture}");
    }
}
