//! Arguments of all nets: batches, optimizer, strategy, device.

use crate::arguments::conditional_default::{self, ConditionalDefault};
use crate::arguments::named_value::NamedValueParser;
use crate::error::CommandError;
use crate::{report, suggest};
use clap::{Arg, Args, ValueEnum};
use hemiola_core::Rank;
use hemiola_nn::models::Device;
use hemiola_nn::{ComputePrecision, DeviceSpec, GradientClip, LrSchedule, Optimizer};
use hemiola_strategy::{ResourceSpec, Strategy, StrategyBuilder};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Help text shared by all nets.
pub(super) const AFTER_HELP: &str = "\
The report is that of all models (docs/reference/report.md); \"updates\" counts examples. Training is data-parallel: every peer reads all data \
and computes its share of each mini-batch. With the same seed and batch size the result is bit-identical on the same number of \
peers, and equal up to rounding on another number; with --tune, bits also depend on the measured network. --explain prints the synchronization of each variable and the reasons for it.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a file or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C within an epoch (128 + the signal number for other signals); saved if --output is given";

/// Parser of `--strategy`: any text, with the names of the built-in strategies for completion.
const STRATEGY: NamedValueParser<String> = NamedValueParser::new(
    |text| Ok(text.to_owned()),
    || StrategyBuilder::all().map(|builder| builder.to_string()).collect(),
);

/// Sets the defaults that depend on the optimizer.
fn complete(argument: Arg) -> Arg {
    let with = |is, default| ConditionalDefault { argument: "optimizer", is, default };
    match argument.get_id().as_str() {
        "learning_rate" => conditional_default::set(argument, "0.001", &[with("sgd", "0.05"), with("adagrad", "0.05")]),
        "weight_decay" => conditional_default::set(argument, "0", &[with("adamw", "0.01")]),
        _ => argument,
    }
}

/// Flags of all nets.
#[derive(Args, Debug)]
#[command(mut_args(complete))]
pub(super) struct NetArgs {
    /// Global batch size, of all peers together.
    #[arg(long, value_name = "N", required = false, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Optimization")]
    batch_size: u32,

    /// Gradient accumulation: split each peer's share of a batch into N forward and backward
    /// passes, to save memory.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Optimization")]
    accumulate: u32,

    /// Threads of a peer that make the batches of coming steps; 0 makes them between steps. Bits do not
    /// depend on it.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(..=64), help_heading = "Cluster")]
    loader_threads: u32,

    /// Optimizer.
    #[arg(long, value_enum, default_value = "adam", help_heading = "Optimization")]
    optimizer: OptimizerName,

    /// Learning rate.
    #[arg(long, visible_alias = "lr", value_name = "X", required = false, value_parser = above_zero, help_heading = "Optimization")]
    learning_rate: f64,

    /// Weight decay: L2 regularization, added to the gradient; decoupled from it with adamw.
    #[arg(long, value_name = "X", required = false, value_parser = at_least_zero, help_heading = "Optimization")]
    weight_decay: f64,

    /// Momentum of sgd.
    #[arg(long, value_name = "X", value_parser = below_one, help_heading = "Optimization")]
    momentum: Option<f64>,

    /// Learning rate schedule over all --epochs.
    #[arg(long, value_enum, default_value = "constant", help_heading = "Optimization")]
    lr_schedule: ScheduleName,

    /// Number of steps of linear warm-up of the learning rate.
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Optimization")]
    warmup_steps: u64,

    /// Gradient clipping: maximum global norm of the gradient.
    #[arg(long, value_name = "X", value_parser = above_zero, help_heading = "Optimization")]
    clip_norm: Option<f64>,

    /// Synchronization strategy: parameter-server, balanced, partitioned, all-reduce, poseidon,
    /// parallax, byteps, cheapest, two levels and orders by host (two-level, two-level-all-reduce,
    /// ordered-ring), other partitionings (partitioned-all-reduce, random-axis:SEED, proportional,
    /// proportional-to-memory), tables of a parameter server (bsp, ssp:STEPS, async), gossip
    /// averaging (notify-ack, gossip-bsp, gossip-async), or a file with a strategy [default:
    /// cheapest; with --resume, the strategy of the checkpoint]
    #[arg(long, value_name = "NAME|FILE", value_parser = STRATEGY, hide_possible_values = true, help_heading = "Cluster")]
    strategy: Option<String>,

    /// Number of peers, the last ones, that hold all served variables and do not train: dedicated
    /// parameter servers.
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Cluster")]
    serving_peers: usize,

    /// Measure the network, and choose the strategy for it. Other runs may then get another strategy
    /// and other last digits; checkpoints keep it for --resume.
    #[arg(long, conflicts_with = "cluster", help_heading = "Cluster")]
    tune: bool,

    /// Resource specification of the cluster, written by `hemiola probe`, for which the strategy is
    /// chosen [default: links of 1 Gbit/s and 0.1 ms]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    cluster: Option<PathBuf>,

    /// Compute device: `cpu`, `cuda` (peers take the GPUs of their machine in turn) or `cuda:N`.
    /// GPUs need a build with the feature `cuda`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Cluster")]
    device: DeviceSpec,

    /// Precision of forward and backward passes (mixed precision). Weights, sums and updates are
    /// always f32.
    #[arg(long, value_enum, default_value = "f32", help_heading = "Cluster")]
    precision: PrecisionName,

    /// File for a trace of the last twenty steps of all peers: compute, waits and messages, to be
    /// opened in Perfetto.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum OptimizerName {
    /// Adam.
    Adam,
    /// Adam with decoupled weight decay.
    Adamw,
    /// Stochastic gradient descent, with optional --momentum.
    Sgd,
    /// AdaGrad.
    Adagrad,
    /// `RMSProp`.
    Rmsprop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PrecisionName {
    /// Single precision.
    F32,
    /// Bfloat16.
    Bf16,
    /// Half precision; values above 65,504 overflow.
    F16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum ScheduleName {
    /// Constant learning rate.
    Constant,
    /// Cosine decay to 0.
    Cosine,
    /// Linear decay to 0.
    Linear,
}

/// Settings that must not change when training is resumed, besides those of the net.
#[derive(Debug, Serialize)]
pub(super) struct NetSettings {
    pub(super) batch_size: usize,
    optimizer: OptimizerName,
    learning_rate: f64,
    #[serde(skip_serializing_if = "is_zero")]
    weight_decay: f64,
    momentum: Option<f64>,
    lr_schedule: ScheduleName,
    /// Number of epochs, if the learning rate depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_epochs: Option<u32>,
    warmup_steps: u64,
    clip_norm: Option<f64>,
}

/// Contents of the files given by --strategy and --cluster.
#[derive(Debug)]
pub(super) struct SettingsFiles {
    /// Strategy; `None` for the default.
    pub(super) strategy: Option<StrategyNameOrFile>,
    pub(super) tune: bool,
    pub(super) cluster: Option<ResourceSpec>,
    /// Number of peers that serve and do not train.
    pub(super) serving_peers: usize,
}

#[derive(Debug)]
pub(super) enum StrategyNameOrFile {
    Name(StrategyBuilder),
    File(Box<Strategy>),
}

impl StrategyNameOrFile {
    fn read(name: &str) -> anyhow::Result<Self> {
        let error = match name.parse::<StrategyBuilder>() {
            Ok(builder) => return Ok(Self::Name(builder)),
            Err(error) => error,
        };
        let path = Path::new(name);
        if !path.is_file() {
            let hint = suggest::path_hint(path).unwrap_or_else(|| "or give a file with a strategy".to_owned());
            return Err(CommandError::usage(error.to_string()).hint(hint).into());
        }
        let strategy = Strategy::parse(&text(path)?);
        Ok(Self::File(Box::new(strategy.map_err(|error| in_file(path, &error))?)))
    }
}

impl NetArgs {
    /// Returns the settings.
    pub(super) fn settings(&self, epochs: u32) -> anyhow::Result<NetSettings> {
        if self.momentum.is_some() && self.optimizer != OptimizerName::Sgd {
            let failure = CommandError::usage("`--momentum` is for the optimizer `sgd`");
            return Err(failure.hint("add `--optimizer sgd`, or leave it out").into());
        }
        Ok(NetSettings {
            batch_size: self.batch_size as usize,
            optimizer: self.optimizer,
            learning_rate: self.learning_rate,
            weight_decay: self.weight_decay,
            momentum: self.momentum,
            lr_schedule: self.lr_schedule,
            schedule_epochs: (self.lr_schedule != ScheduleName::Constant).then_some(epochs),
            warmup_steps: self.warmup_steps,
            clip_norm: self.clip_norm,
        })
    }

    /// Reads the given files, before peers are launched.
    pub(super) fn read(&self) -> anyhow::Result<SettingsFiles> {
        let strategy = self.strategy.as_deref().map(StrategyNameOrFile::read).transpose()?;
        let read_spec = |path: &PathBuf| -> anyhow::Result<ResourceSpec> {
            ResourceSpec::parse(&text(path)?).map_err(|error| in_file(path, &error))
        };
        self.trace.as_deref().map_or(Ok(()), report::check)?;
        let cluster = self.cluster.as_ref().map(read_spec).transpose()?;
        Ok(SettingsFiles { strategy, tune: self.tune, cluster, serving_peers: self.serving_peers })
    }

    /// Opens the compute device of a peer.
    pub(super) fn open_device(&self, peer: Rank) -> anyhow::Result<Device> {
        self.device.open(peer, self.precision()).map_err(|problem| CommandError::usage(problem.to_string()).into())
    }

    fn precision(&self) -> ComputePrecision {
        match self.precision {
            PrecisionName::F32 => ComputePrecision::F32,
            PrecisionName::Bf16 => ComputePrecision::Bf16,
            PrecisionName::F16 => ComputePrecision::F16,
        }
    }

    /// Describes device and precision in the headline, unless they are the defaults.
    pub(super) fn device_text(&self) -> String {
        let precision = match self.precision {
            PrecisionName::F32 => "",
            PrecisionName::Bf16 => " with bf16",
            PrecisionName::F16 => " with f16",
        };
        match (self.device, precision) {
            (DeviceSpec::Cpu, "") => String::new(),
            (device, precision) => format!("; on {device}{precision}"),
        }
    }

    /// Returns the file for the trace, if requested.
    pub(super) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// Returns the number of accumulated passes per step.
    pub(super) fn accumulate(&self) -> usize {
        self.accumulate as usize
    }
}

impl NetArgs {
    /// Returns the number of threads that make batches.
    pub(super) fn loader_threads(&self) -> usize {
        self.loader_threads as usize
    }
}

impl NetSettings {
    pub(super) fn optimizer(&self) -> Optimizer {
        let optimizer = match self.optimizer {
            OptimizerName::Adam => Optimizer::adam(self.learning_rate),
            OptimizerName::Adamw => Optimizer::adamw(self.learning_rate),
            OptimizerName::Adagrad => Optimizer::adagrad(self.learning_rate),
            OptimizerName::Rmsprop => Optimizer::rmsprop(self.learning_rate),
            OptimizerName::Sgd => match self.momentum {
                Some(momentum) => Optimizer::sgd(self.learning_rate).momentum(momentum as f32),
                None => Optimizer::sgd(self.learning_rate),
            },
        };
        optimizer.weight_decay(self.weight_decay as f32)
    }

    pub(super) fn schedule(&self, steps: u64) -> LrSchedule {
        let schedule = match self.lr_schedule {
            ScheduleName::Constant => LrSchedule::constant(),
            ScheduleName::Cosine => LrSchedule::cosine(steps),
            ScheduleName::Linear => LrSchedule::linear(steps),
        };
        schedule.warm_up(self.warmup_steps)
    }

    pub(super) fn clip(&self) -> Option<GradientClip> {
        self.clip_norm.map(GradientClip::Norm)
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|error| CommandError::io("read", path, &error).into())
}

fn in_file(path: &Path, error: &impl ToString) -> anyhow::Error {
    CommandError::usage(format!("`{}`: {}", path.display(), error.to_string())).into()
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{text}` is not a number above 0, such as `0.001`"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

fn at_least_zero(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{text}` is not a number of at least 0, such as `0.0001`"))
}

fn below_one(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..1.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from 0 to below 1, such as `0.9`"))
}
