//! `hemiola study staleness`: training with random update delays, as tables and charts.

use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use clap::{Args, ValueEnum};
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};
use hemiola_sim::staleness::sweep::{slowdown, to_csv};
use hemiola_sim::staleness::{DelayDistribution, StalenessSweep, StudyModel, StudyOptimizer, SweepCell};
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola study staleness --model mf --staleness 0,4,8,16,32 --workers 1,4,8
  hemiola study staleness --model mlp-1 --optimizer sgd,momentum,adagrad --learning-rates 0.001,0.01,0.1 --workers 8
  hemiola study staleness --model lda --staleness 0,5,10,15,20,30 --workers 8 --run-to-end --max-batches 4800

Models: mf (matrix factorization), lda (topic model by Gibbs sampling), logistic (logistic regression), mlp-0 to mlp-3 \
(multilayer perceptrons with 0 to 3 hidden layers), on synthetic data.

In each iteration every worker computes an update from its own copy of the model. The update reaches each copy, its own \
included, 1 + r iterations later. The delay r is random for each pair of workers: uniform from 0 to the staleness, or with \
--delay geometric of the same mean with a long tail. Batches are counted over all workers; the metric is that of the first \
worker's copy.

Three files are written. PREFIX.csv has a line for each optimizer, number of workers and staleness, with the mean and \
standard deviation over seeds of the batches to the target (empty if a seed missed it), the slowdown relative to the \
smallest staleness, and the final metric. PREFIX-curves.csv has the learning curves. PREFIX.svg draws both, with bands of \
one standard deviation.";

/// Maximum number of seeds. Each seed is a training run for every line of the table.
const MOST_SEEDS: u64 = 1000;

/// Arguments of `hemiola study staleness`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StalenessStudyArgs {
    /// Model to train.
    #[arg(long, value_name = "MODEL", value_parser = model)]
    model: StudyModel,

    /// Optimizers to compare.
    #[arg(long, value_name = "NAME,...", value_enum, value_delimiter = ',', default_value = "sgd")]
    optimizer: Vec<StudyOptimizerName>,

    /// Staleness values: maximum delays in iterations.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,4,8,16,32", value_parser = clap::value_parser!(u32).range(..=1000))]
    staleness: Vec<u32>,

    /// Numbers of workers to compare.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,8", value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: Vec<u32>,

    /// Distribution of the delays.
    #[arg(long, value_name = "KIND", value_enum, default_value = "uniform")]
    delay: DelayDistributionName,

    /// Learning rates to try; each line of the table reports the fastest [default: one that suits
    /// the model].
    #[arg(long, value_name = "RATE,...", value_delimiter = ',')]
    learning_rates: Vec<f32>,

    /// Number of random seeds: repetitions with other data, batches and delays.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    seeds: u64,

    /// Target value of the metric [default: depends on the model].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    target: Option<f64>,

    /// Maximum number of batches of all workers in one training run.
    #[arg(long, value_name = "N", default_value = "8000", value_parser = clap::value_parser!(u64).range(1..))]
    max_batches: u64,

    /// Continue after the target is reached, up to --max-batches.
    #[arg(long)]
    run_to_end: bool,

    /// Prefix of the output files.
    #[arg(long, short, value_name = "PREFIX", default_value = "staleness")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StudyOptimizerName {
    Sgd,
    Momentum,
    Adagrad,
    Rmsprop,
    Adam,
}

impl StudyOptimizerName {
    fn optimizer(self) -> StudyOptimizer {
        match self {
            Self::Sgd => StudyOptimizer::Sgd,
            Self::Momentum => StudyOptimizer::Momentum,
            Self::Adagrad => StudyOptimizer::Adagrad,
            Self::Rmsprop => StudyOptimizer::Rmsprop,
            Self::Adam => StudyOptimizer::Adam,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DelayDistributionName {
    Uniform,
    Geometric,
}

fn model(text: &str) -> Result<StudyModel, String> {
    match text {
        "mf" => Ok(StudyModel::Mf),
        "lda" => Ok(StudyModel::Lda),
        "logistic" => Ok(StudyModel::Logistic),
        _ => match text.strip_prefix("mlp-").and_then(|depth| depth.parse().ok()) {
            Some(depth @ 0..=3) => Ok(StudyModel::Mlp(depth)),
            _ => Err("expected one of mf, lda, logistic, mlp-0, mlp-1, mlp-2 and mlp-3".to_owned()),
        },
    }
}

impl StalenessStudyArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let files = self.files()?;
        if let Some(rate) = self.learning_rates.iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
            return Err(CommandError::usage(format!("the learning rate `{rate}` is not positive"))
                .hint("use values above 0")
                .into());
        }
        let mut studied = Vec::new();
        for (number, named) in self.optimizer.iter().enumerate() {
            let sweep = self.sweep(named.optimizer());
            let cells = sweep.run(|done, all| self.show_progress(number, done, all));
            studied.push((sweep, cells));
        }
        if std::io::stderr().is_terminal() {
            // A closed standard error drops the progress line.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let mut table = String::new();
        for (sweep, cells) in &studied {
            let csv = to_csv(sweep, cells);
            table.push_str(if table.is_empty() { &csv } else { csv.split_once('\n').map_or("", |(_, lines)| lines) });
        }
        let mut staged = Vec::new();
        for (path, text) in files.iter().zip([&table, &curves_csv(&studied), &self.chart(&studied).picture().svg()]) {
            let mut file = StagedFile::create(path, OutputCompression::None)?;
            file.write(text.as_bytes())?;
            staged.push(file.finish()?);
        }
        staged.into_iter().try_for_each(output::CompleteFile::publish)?;
        output::print(&self.summary(&studied, &files))?;
        Ok(ExitCode::SUCCESS)
    }

    fn files(&self) -> anyhow::Result<[PathBuf; 3]> {
        output::with_suffixes(&self.output, [".csv", "-curves.csv", ".svg"])
    }

    fn sweep(&self, optimizer: StudyOptimizer) -> StalenessSweep {
        let mut staleness = self.staleness.clone();
        staleness.sort_unstable();
        staleness.dedup();
        StalenessSweep {
            model: self.model,
            optimizer,
            delay: match self.delay {
                DelayDistributionName::Uniform => DelayDistribution::Uniform,
                DelayDistributionName::Geometric => DelayDistribution::Geometric,
            },
            staleness,
            workers: self.workers.iter().map(|workers| *workers as usize).collect(),
            learning_rates: self.learning_rates.clone(),
            seeds: (1..=self.seeds).collect(),
            target: self.target,
            max_batches: self.max_batches,
            run_to_end: self.run_to_end,
        }
    }

    fn show_progress(&self, number: usize, done: usize, all: usize) {
        if std::io::stderr().is_terminal() {
            let (name, of) = (self.optimizer[number].optimizer().name(), self.optimizer.len());
            // A closed standard error drops the progress line.
            let _ = write!(std::io::stderr(), "\r\x1b[K{name} ({} of {of}): {done} of {all} runs", number + 1);
        }
    }

    /// Returns the label of a line in the chart.
    fn label(&self, sweep: &StalenessSweep, workers: usize) -> String {
        let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        if self.optimizer.len() > 1 { format!("{}, {workers}", sweep.optimizer.name()) } else { workers }
    }

    fn chart(&self, studied: &[(StalenessSweep, Vec<SweepCell>)]) -> Chart {
        let staleness = || ChartAxis::new("staleness (iterations)").from_zero();
        let mut batches = ChartPanel::new(staleness(), ChartAxis::new("batches to the target").from_zero());
        let mut slower = ChartPanel::new(staleness(), ChartAxis::new("slow-down").from_zero());
        for (sweep, cells) in studied {
            for &workers in &sweep.workers {
                let of: Vec<&SweepCell> = cells.iter().filter(|cell| cell.workers == workers).collect();
                let name = self.label(sweep, workers);
                let found = || of.iter().filter_map(|cell| Some((f64::from(cell.staleness), cell.batches()?)));
                let band = found().map(|(_, (mean, deviation))| [mean - deviation, mean + deviation]);
                batches = batches.line(ChartLine::new(&name, found().map(|(at, (mean, _))| [at, mean])).band(band));
                let downs = of.iter().filter_map(|cell| {
                    let down = slowdown(cells, cell)?;
                    let share = cell.batches().map_or(0.0, |(mean, deviation)| deviation / mean);
                    Some(([f64::from(cell.staleness), down], [down * (1.0 - share), down * (1.0 + share)]))
                });
                let (points, band): (Vec<_>, Vec<_>) = downs.unzip();
                slower = slower.line(ChartLine::new(&name, points).band(band));
            }
        }
        let mut chart = Chart::new().title(&format!("{} under staleness", self.model.name()));
        let reached = studied.iter().flat_map(|(_, cells)| cells).any(|cell| cell.batches().is_some());
        if reached {
            chart = chart.panel(batches).panel(slower);
        }
        // Learning curves of the first optimizer with the most workers.
        if let Some((sweep, cells)) = studied.first() {
            let most = sweep.workers.iter().copied().max().unwrap_or(1);
            let title = format!("batches ({})", self.label(sweep, most));
            let mut panel = ChartPanel::new(ChartAxis::new(&title).from_zero(), ChartAxis::new(self.model.metric()));
            for cell in cells.iter().filter(|cell| cell.workers == most) {
                let curve = cell.mean_curve();
                let points = curve.iter().map(|(batches, mean, _)| [*batches as f64, *mean]);
                let band = curve.iter().map(|(_, mean, deviation)| [mean - deviation, mean + deviation]);
                panel = panel.line(ChartLine::new(&format!("staleness {}", cell.staleness), points).band(band));
            }
            chart = chart.panel(panel);
        }
        chart
    }

    fn summary(&self, studied: &[(StalenessSweep, Vec<SweepCell>)], files: &[PathBuf]) -> String {
        let mut text = format!(
            "{:<10} {:>7} {:>9} {:>7} {:>10} {:>9} {:>10}\n",
            "optimizer",
            "workers",
            "staleness",
            "rate",
            "batches",
            "slow-down",
            self.model.metric()
        );
        for (sweep, cells) in studied {
            for cell in cells {
                let name = if sweep.model.has_gradients() { sweep.optimizer.name() } else { "gibbs" };
                let batches = cell.batches().map_or("-".to_owned(), |(mean, _)| format!("{mean:.0}"));
                let down = slowdown(cells, cell).map_or("-".to_owned(), |down| format!("{down:.2}"));
                let (workers, staleness, rate, last) =
                    (cell.workers, cell.staleness, cell.learning_rate, cell.last().0);
                let _ = writeln!(
                    text,
                    "{name:<10} {workers:>7} {staleness:>9} {rate:>7} {batches:>10} {down:>9} {last:>10.4}"
                );
            }
        }
        let names: Vec<String> = files.iter().map(|file: &PathBuf| format!("`{}`", Path::display(file))).collect();
        let _ = writeln!(text, "written: {}", names.join(", "));
        text
    }
}

/// Formats learning curves as CSV: mean and standard deviation over seeds.
fn curves_csv(studied: &[(StalenessSweep, Vec<SweepCell>)]) -> String {
    let mut text = String::from("model,optimizer,workers,staleness,batches,metric,metric_deviation\n");
    for (sweep, cells) in studied {
        let name = if sweep.model.has_gradients() { sweep.optimizer.name() } else { "gibbs" };
        for cell in cells {
            for (batches, mean, deviation) in cell.mean_curve() {
                let (model, workers, staleness) = (sweep.model.name(), cell.workers, cell.staleness);
                let _ = writeln!(text, "{model},{name},{workers},{staleness},{batches},{mean},{deviation}");
            }
        }
    }
    text
}
