//! `hemiola train svm` and `hemiola train logistic`, and using what they trained.

use super::progress::MetricColumns;
use super::sparse::{PenaltyArgs, SparseTrainCommand};
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use crate::error::{CommandError, into_cluster_error};
use crate::graph;
use crate::plural::counted;
use clap::{Args, ValueEnum};
use hemiola::collective::{GossipExt as _, GossipSync, GossipWeights, Topology};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_models::LinearClassifier;
use hemiola_models::linear::data::{self, LinearExamples};
use hemiola_models::linear::{LinearEvaluation, LinearLoss, LinearModel};
use hemiola_models::sparse::SparseLoss;
use hemiola_models::training::{ClusterInfo, TrainingLimits};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Made-up examples where there are no data.
const MADE_UP: u64 = 20_000;
/// Epochs where nobody says otherwise.
const EPOCHS: u32 = 100;

const AFTER_HELP: &str = "\
Examples:
  Made-up examples, to see it work:
    hemiola train svm
    hemiola train logistic

  Examples of your own, and what to do with the model:
    hemiola train logistic --data train.libsvm --output model
    hemiola evaluate --model model --data test.libsvm
    hemiola predict --model model --data new.libsvm

  On four local peers that average their models over a sparse graph:
    hemiola train svm --data train.libsvm --peers 4 --graph root-expander --report run.json

A line of data is a label and features, as LIBSVM writes them (`+1 3:0.5 7:1`), or separated values of which the first is the label. Labels are numbers, \
or names if none is a number; two different ones or more. docs/models.md has the mathematics, what --c means elsewhere, and the schema of the report.

Exit codes:
  0     trained, or nothing was left to do
  2     something has to be changed: a flag, a line of the data, the output folder; nothing was written
  3     the system or another peer failed: a full disk, say
  130   stopped by Ctrl-C after an epoch (128 + the signal, for others); saved, if there is an --output";

/// The arguments of `hemiola train svm`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainSvm {
    /// What an example costs that is not on the right side by a margin of 1.
    #[arg(long, value_enum, default_value = "squared-hinge")]
    loss: HingeName,

    #[command(flatten)]
    linear: LinearArgs,
}

/// The arguments of `hemiola train logistic`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainLogistic {
    /// How weights cost: by their squares, as --c says, or by absolute values, as --lambda does, which makes most of them 0.
    #[arg(long, value_enum, default_value = "l2")]
    penalty: PenaltyName,

    #[command(flatten)]
    charges: PenaltyArgs,

    #[command(flatten)]
    linear: LinearArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PenaltyName {
    /// Absolute values: few weights. For two classes.
    L1,
    /// Squares.
    L2,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HingeName {
    /// By how much.
    Hinge,
    /// The square of that.
    SquaredHinge,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SyncName {
    /// Each waits for its neighbours alone.
    NotifyAck,
    /// All wait for all.
    Barrier,
    /// Nobody waits.
    Async,
}

/// How examples are read.
#[derive(Args, Debug)]
pub(super) struct ExampleFileArgs {
    /// Columns of LIBSVM text are counted from 0.
    #[arg(long)]
    zero_based: bool,

    /// Take the data for separated values, with this between fields. Default: what the file shows.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    separator: Option<String>,

    /// Leave out up to this many lines of LIBSVM text that cannot be read.
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad_lines: u64,
}

/// What both have in common.
#[derive(Args, Debug)]
struct LinearArgs {
    /// Files, a folder or a pattern with examples. Default: 20000 made-up examples.
    #[arg(long, short, value_name = "FILES")]
    data: Option<String>,

    #[command(flatten)]
    reading: ExampleFileArgs,

    /// Held-out examples: a share of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "SHARE|FILES", default_value = "0.1")]
    valid: String,

    /// How much errors cost beside large weights: C of liblinear.
    #[arg(long, short, value_name = "X", default_value = "1")]
    c: f64,

    /// The value of a feature that all examples have, whose weight is the bias; 0 for no bias.
    #[arg(long, value_name = "X", default_value = "1")]
    bias: f64,

    /// Passes of an epoch; models are averaged after each.
    #[arg(long, value_name = "N", default_value = "8", help_heading = "How peers agree")]
    rounds: u32,

    /// What peers wait for when they average.
    #[arg(long, value_enum, default_value = "notify-ack", help_heading = "How peers agree")]
    sync: SyncName,

    /// Who sends to whom: complete, ring, star, root-expander, chord, halton, halton:DEGREE, random:DEGREE, two-level:PEERS, circulant:OFFSET,.., or edges:FILE with a sender and a receiver on each line
    #[arg(long, value_name = "GRAPH", default_value = "complete", value_parser = graph::for_training, help_heading = "How peers agree")]
    graph: Topology,

    /// Stop when the objective is proven to be within this share of the minimum; 0 never stops for that.
    #[arg(long, value_name = "X", default_value = "0.001", help_heading = "When it stops")]
    tolerance: f64,

    #[command(flatten)]
    common: TrainArgs,
}

impl TrainSvm {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        self.linear.execute(match self.loss {
            HingeName::Hinge => LinearLoss::Hinge,
            HingeName::SquaredHinge => LinearLoss::SquaredHinge,
        })
    }
}

impl TrainLogistic {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        match self.penalty {
            PenaltyName::L2 if self.charges.are_given() => {
                let failure = CommandError::usage("--lambda, --folds and what goes with them are for `--penalty l1`");
                Err(failure.hint("add `--penalty l1`, or say `--c X`").into())
            }
            PenaltyName::L2 => self.linear.execute(LinearLoss::Logistic),
            PenaltyName::L1 => {
                let LinearArgs { data, reading, valid, tolerance, common, .. } = &self.linear;
                let job = SparseTrainCommand {
                    data: data.as_deref(),
                    reading,
                    valid,
                    charges: &self.charges,
                    schedule: None,
                    // The default of the other penalty is a share of another number.
                    tolerance: tolerance.min(1e-6),
                    common,
                    loss: SparseLoss::Logistic,
                    ratio: 1.0,
                };
                job.execute()
            }
        }
    }
}

impl LinearArgs {
    fn execute(&self, loss: LinearLoss) -> anyhow::Result<ExitCode> {
        let share = self.valid.parse::<f64>().ok();
        let settings = LinearClassifier::builder(loss)
            .c(self.c)
            .bias(self.bias)
            .rounds(self.rounds)
            .synchronization(match self.sync {
                SyncName::NotifyAck => GossipSync::NotifyAck,
                SyncName::Barrier => GossipSync::Barrier,
                SyncName::Async => GossipSync::Asynchronous,
            })
            .graph(self.graph.clone())
            .seed(self.common.seed)
            .validation(share.unwrap_or(0.0))
            .tolerance(self.tolerance)
            .limits(self.common.limits(&TrainingLimits { epochs: EPOCHS, patience: None, ..TrainingLimits::default() }))
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check(loss.kind(), settings.settings())?;
        let held_out = share.is_none().then_some(&self.valid);
        self.data.iter().chain(held_out).try_for_each(|pattern| must_exist(pattern))?;
        // Hints come before the error leaves the peer, so that a launcher that repeats it says the same.
        self.common.run(|cluster| {
            self.train(cluster, &settings, share.is_none()).map_err(|error| {
                match hinted(error.into()).downcast::<Error>() {
                    Ok(same) => same,
                    Err(hinted) => into_cluster_error(hinted),
                }
            })
        })
    }

    fn train(&self, cluster: &Cluster, settings: &LinearClassifier, held_out_files: bool) -> Result<u8> {
        let start = cluster.env().now();
        check_graph(cluster, &settings.settings().graph)?;
        let lock = self.common.claim(cluster)?;
        let LinearExamples { labelled: examples, names } =
            self.reading.read(cluster, self.data.as_deref(), &[], &self.common)?;
        let valid = if held_out_files {
            Some(self.reading.read(cluster, Some(&self.valid), &names, &self.common)?.labelled)
        } else {
            None
        };
        let settings = &settings.clone().named(names);
        let [_, columns] = examples.features.shape().extents();
        let held_out = match (&valid, settings.settings().validation) {
            (Some(valid), _) => format!("{} held out", valid.labels.len()),
            (None, 0.0) => "none held out".to_owned(),
            (None, share) => format!("a share of {share} held out"),
        };
        let prepared = PreparedTraining {
            headline: format!(
                "{} with {} of {}, {held_out}; {}",
                counted(examples.labels.len(), "example"),
                counted(examples.features.len(), "value"),
                counted(columns, "feature"),
                ClusterInfo::of(cluster)
            ),
            loading: cluster.env().now() - start,
            figures: MetricColumns::updates(if settings.settings().loss.has_probabilities() {
                "logloss"
            } else {
                "accuracy"
            }),
            limits: &settings.settings().limits,
            lock,
        };
        self.common.accompany(cluster, prepared, |session| {
            Ok(settings.fit_with(cluster, &examples, valid.as_ref(), session)?.report)
        })
    }
}

impl ExampleFileArgs {
    /// *Collective.* Reads examples, or makes some up. `names` are those of classes that are known already.
    pub(super) fn read(
        &self,
        cluster: &Cluster,
        pattern: Option<&str>,
        names: &[String],
        common: &TrainArgs,
    ) -> Result<LinearExamples> {
        let Some(pattern) = pattern else {
            return Ok(LinearExamples { labelled: data::synthetic(cluster, MADE_UP, common.seed)?, names: Vec::new() });
        };
        let separator = self.separator.as_deref().map(|separator| match separator {
            "\\t" | "tab" => "\t".to_owned(),
            other => other.to_owned(),
        });
        let (zero_based, skip_bad_lines, names) = (self.zero_based, self.skip_bad_lines, names.to_vec());
        let options = data::LinearReadOptions { zero_based, skip_bad_lines, separator, names };
        let examples = data::read(cluster, &options, pattern)?;
        common.tell_skipped(cluster, pattern, examples.labelled.features.skipped_lines());
        Ok(examples)
    }
}

/// Finds out whether models could be averaged over this graph, before data are read.
fn check_graph(cluster: &Cluster, topology: &Topology) -> Result<()> {
    if cluster.size() == 1 {
        return Ok(());
    }
    let graph = cluster.graph(topology)?;
    let fits = graph.check_connected().and_then(|()| GossipWeights::balanced(&graph));
    fits.map(|_| ()).map_err(|error| {
        into_cluster_error(
            CommandError::usage(error.to_string())
                .hint("`hemiola topology --kind ..` shows a graph; --graph names another")
                .into(),
        )
    })
}

/// An error of reading, with the flag or the change that would help.
pub(super) fn hinted(error: anyhow::Error) -> anyhow::Error {
    use hemiola_array::Error as Reading;
    let Some(reading) = error.chain().find_map(|cause| cause.downcast_ref::<Reading>()) else { return error };
    match reading {
        Reading::BadLine(_) => {
            let hint = "a line is a label and features (`+1 3:0.5 7:1`), or numbers of which the first is the label (labels are names if none is a number); mend it, or see --zero-based, --separator and \
                        --skip-bad-lines";
            CommandError::array(reading, hint).into()
        }
        Reading::TooManyBadLines { .. } => {
            CommandError::array(reading, "mend the lines, or allow more with `--skip-bad-lines N`").into()
        }
        _ => error,
    }
}

/// `hemiola evaluate` of such a model.
pub(super) fn evaluate(
    cluster: &Cluster,
    model: &LinearModel,
    files: &str,
) -> anyhow::Result<(String, LinearEvaluation)> {
    let options = data::LinearReadOptions { names: model.names.clone(), ..data::LinearReadOptions::default() };
    let evaluation = model.evaluate(cluster, &data::read(cluster, &options, files)?.labelled)?;
    let LinearEvaluation { metrics, examples, unknown_features } = &evaluation;
    let mut text = counted(*examples, "example");
    if *unknown_features > 0 {
        let _ = write!(text, "; left out: {} the model has no weights for", counted(*unknown_features, "value"));
    }
    text.push('\n');
    for (name, value) in metrics {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    Ok((text, evaluation))
}
