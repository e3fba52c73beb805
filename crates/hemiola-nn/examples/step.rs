//! Timeline of a training step, as a picture and as a file for Perfetto: `step before|after
//! PICTURE.svg TRACE.json`, on every peer.
//!
//! *Before*: one message with all gradients, and no computation until it has arrived. *After*:
//! gradients are sent one by one during the backward pass, and the next forward pass waits for each
//! variable on its own.

use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_cluster::{Cluster, Result};
use hemiola_nn::models::{ImageBatch, NeuralNet as _, VggConfig};
use hemiola_nn::trace::{TraceLane, TraceSpan, chrome_trace};
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::StrategyBuilder;
use std::fmt::Write as _;

const EXAMPLES: usize = 32;
const STEPS: usize = 6;
/// Number of steps in the picture.
const SHOWN: usize = 2;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, picture, file] = &arguments[..] else {
        return Err(hemiola_cluster::Error::program("usage: step before|after PICTURE.svg TRACE.json"));
    };
    let before = way == "before";
    let write = |cluster: &Cluster| -> Result<()> {
        let spans = cluster.all_gather(train(cluster, before)?)?;
        if cluster.is_root() {
            let spans: Vec<_> = hemiola_core::Rank::all(spans.len()).zip(spans.into_iter().map(read)).collect();
            std::fs::write(file, chrome_trace(&spans))?;
            std::fs::write(
                picture,
                draw(
                    &spans[0].1,
                    if before { "One message, then the next step" } else { "Gradients leave as they come" },
                ),
            )?;
        }
        Ok(())
    };
    hemiola_cluster::run(write)
}

/// Trains a few steps and returns the spans of the last ones, as rows that can be sent.
fn train(cluster: &Cluster, before: bool) -> Result<Vec<(String, i64, f64, f64)>> {
    let device = Device::flex().autodiff();
    let model = VggConfig { hidden: vec![256, 256], ..VggConfig::default() }.init(&device);
    let pixels: Vec<f32> =
        (0..EXAMPLES * 3 * 32 * 32).map(|at| ((at * 31 + cluster.rank().index()) % 97) as f32 / 97.0).collect();
    let labels: Vec<i64> = (0..EXAMPLES).map(|at| i64::try_from(at % 10).unwrap_or(0)).collect();
    let batch = ImageBatch {
        images: Tensor::from_data(TensorData::new(pixels, [EXAMPLES, 3, 32, 32]), &device),
        labels: Tensor::<1, Int>::from_data(TensorData::new(labels, [EXAMPLES]), &device),
    };
    let chunk = Some(if before { 1000 } else { 1 });
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
        if before {
            trainer.wait()?;
        }
    }
    trainer.wait()?;
    let line = |line: TraceLane| match line {
        TraceLane::Compute => -2,
        TraceLane::Wait => -1,
        TraceLane::Sync(unit) => i64::try_from(unit).unwrap_or(0),
        _ => -3,
    };
    Ok(trainer.trace().into_iter().map(|span| (span.name, line(span.lane), span.start, span.end)).collect())
}

fn read(rows: Vec<(String, i64, f64, f64)>) -> Vec<TraceSpan> {
    let line = |number: i64| match number {
        -2 => TraceLane::Compute,
        -1 => TraceLane::Wait,
        unit => TraceLane::Sync(usize::try_from(unit).unwrap_or(0)),
    };
    rows.into_iter()
        .map(|(what, number, start, end)| TraceSpan { name: what, lane: line(number), start, end })
        .collect()
}

/// Draws passes and waits in the first rows and synchronized units below.
fn draw(spans: &[TraceSpan], title: &str) -> String {
    let from = spans.iter().map(|span| span.start).fold(f64::INFINITY, f64::min);
    let to = spans.iter().map(|span| span.end).fold(0.0, f64::max);
    let (left, width, line) = (90.0, 800.0, 16.0);
    let scale = width / (to - from).max(1e-9);
    let travels =
        spans.iter().filter_map(|span| if let TraceLane::Sync(unit) = span.lane { Some(unit + 1) } else { None });
    let height = 50.0 + (2.0 + travels.max().unwrap_or(0) as f64) * line;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        left + width + 20.0
    );
    let _ = writeln!(
        out,
        "<text x=\"10\" y=\"16\" font-size=\"13\">{title}: {SHOWN} steps in {:.0} ms</text>",
        (to - from) * 1e3
    );
    for (name, row) in [("computes", 0.0), ("waits", 1.0), ("travels", 2.0)] {
        let _ = writeln!(out, "<text x=\"10\" y=\"{}\">{name}</text>", 40.0 + row * line);
    }
    for span in spans {
        let (row, colour) = match span.lane {
            TraceLane::Compute if span.name == "forward" => (0.0, "#4c9f70"),
            TraceLane::Compute => (0.0, "#2f6f9f"),
            TraceLane::Wait => (1.0, "#c0504d"),
            TraceLane::Sync(unit) => (2.0 + unit as f64, "#e0a030"),
            _ => continue,
        };
        let (x, y) = (left + (span.start - from) * scale, 29.0 + row * line);
        let long = ((span.end - span.start) * scale).max(0.5);
        let what = span.name.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{}\" fill=\"{colour}\"><title>{what}</title></rect>",
            line - 3.0
        );
        if long > 60.0 && span.lane != TraceLane::Wait {
            let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"white\">{what}</text>", x + 4.0, y + 10.0);
        }
    }
    out.push_str("</svg>\n");
    out
}
