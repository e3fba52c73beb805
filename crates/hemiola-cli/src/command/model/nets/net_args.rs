//! What all nets can be told: batches, the optimizer, the strategy.

use crate::error::CommandError;
use crate::{report, suggest};
use clap::{Args, ValueEnum};
use hemiola_core::Rank;
use hemiola_nn::models::Device;
use hemiola_nn::{ComputePrecision, DeviceSpec, GradientClip, LrSchedule, Optimizer};
use hemiola_strategy::{ResourceSpec as Network, Strategy, StrategyBuilder};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Help that all nets share.
pub(super) const AFTER_HELP: &str = "\
The report is that of all trainings (docs/models.md): \"updates\" are examples. Every peer reads all data and takes its share of each batch; the same seed and batch give about the same net on any number of peers, and the same \
bits on the same number. --explain shows how the copies of each variable are kept equal, and why.

Exit codes:
  0     trained, or nothing was left to do
  2     something has to be changed: a flag, a file, the output folder; nothing was written
  3     the system or another peer failed: a full disk, say
  130   stopped by Ctrl-C after a pass (128 + the signal, for others); saved, if there is an --output";

/// Flags of every net.
#[derive(Args, Debug)]
pub(super) struct NetArgs {
    /// Examples of a step, of all peers together. Default: 64; lstm and transformer 32; ncf 256.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How it learns")]
    batch: Option<u32>,

    /// Forward and backward passes into which a peer cuts its part of a batch, to save memory.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How it learns")]
    passes: u32,

    /// What a gradient does.
    #[arg(long, value_enum, default_value = "adam", help_heading = "How it learns")]
    optimizer: OptimizerName,

    /// The learning rate. Default: 0.001; with sgd and adagrad 0.05.
    #[arg(long, value_name = "X", value_parser = above_zero, help_heading = "How it learns")]
    rate: Option<f64>,

    /// What is kept of the step before, with sgd.
    #[arg(long, value_name = "X", value_parser = share, help_heading = "How it learns")]
    momentum: Option<f64>,

    /// How the rate changes until the last of --epochs.
    #[arg(long, value_enum, default_value = "constant", help_heading = "How it learns")]
    schedule: ScheduleName,

    /// Steps in which the rate grows from nothing.
    #[arg(long, value_name = "N", default_value = "0", help_heading = "How it learns")]
    warm_up: u64,

    /// The longest that the gradient of all variables together may be.
    #[arg(long, value_name = "X", value_parser = above_zero, help_heading = "How it learns")]
    clip: Option<f64>,

    /// How copies of variables are kept equal: parameter-server, balanced, partitioned, all-reduce, poseidon, parallax, byteps, cheapest, or a file with a strategy.
    #[arg(long, value_name = "NAME|FILE", default_value = "cheapest", help_heading = "Where it runs")]
    strategy: String,

    /// The links of the cluster, as `hemiola probe` describes them. Default: they are measured, where the strategy depends on them.
    #[arg(long, value_name = "FILE", help_heading = "Where it runs")]
    network: Option<PathBuf>,

    /// What a peer computes on: `cpu`, `cuda` (peers take the graphics cards of their machine in turn) or `cuda:N`. Cards need a build with the feature `cuda`.
    #[arg(long = "device", value_name = "DEVICE", default_value = "cpu", help_heading = "Where it runs")]
    place: DeviceSpec,

    /// What passes are computed with. Values, sums and updates are of single precision with all of them.
    #[arg(long, value_enum, default_value = "f32", help_heading = "Where it runs")]
    precision: PrecisionName,

    /// File for what each peer computed, waited for and sent in the last twenty steps, to be opened in Perfetto.
    #[arg(long, value_name = "FILE", help_heading = "What comes out")]
    trace: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum OptimizerName {
    /// Steps by mean and size of past gradients.
    Adam,
    /// The same, with weights that decay.
    Adamw,
    /// Steps along the gradient.
    Sgd,
    /// Steps that become smaller with all past gradients.
    Adagrad,
    /// Steps by the size of past gradients.
    Rmsprop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PrecisionName {
    /// 24 binary digits.
    F32,
    /// 8 binary digits.
    Bf16,
    /// 11 binary digits, and numbers up to 65,504.
    F16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum ScheduleName {
    /// It does not.
    Constant,
    /// It falls to nothing as a cosine does.
    Cosine,
    /// It falls to nothing by the same at every step.
    Linear,
}

/// What must be the same to go on, besides the net.
#[derive(Debug, Serialize)]
pub(super) struct NetSettings {
    pub(super) batch: usize,
    optimizer: OptimizerName,
    rate: f64,
    momentum: Option<f64>,
    schedule: ScheduleName,
    /// Where the rate depends on when it all ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_epochs: Option<u32>,
    warm_up: u64,
    clip: Option<f64>,
}

/// What was read of files that were named.
#[derive(Debug)]
pub(super) struct SettingsFiles {
    pub(super) strategy: StrategyNameOrFile,
    pub(super) network: Option<Network>,
}

#[derive(Debug)]
pub(super) enum StrategyNameOrFile {
    Name(StrategyBuilder),
    File(Box<Strategy>),
}

impl NetArgs {
    /// What was typed, with what is usual in place of what was not.
    pub(super) fn chosen(&self, batch: u32, epochs: u32) -> anyhow::Result<NetSettings> {
        if self.momentum.is_some() && self.optimizer != OptimizerName::Sgd {
            let failure = CommandError::usage("`--momentum` is of the optimizer `sgd`, and another one is chosen");
            return Err(failure.hint("add `--optimizer sgd`, or leave it out").into());
        }
        let usual = match self.optimizer {
            OptimizerName::Sgd | OptimizerName::Adagrad => 0.05,
            _ => 0.001,
        };
        Ok(NetSettings {
            batch: self.batch.unwrap_or(batch) as usize,
            optimizer: self.optimizer,
            rate: self.rate.unwrap_or(usual),
            momentum: self.momentum,
            schedule: self.schedule,
            schedule_epochs: (self.schedule != ScheduleName::Constant).then_some(epochs),
            warm_up: self.warm_up,
            clip: self.clip,
        })
    }

    /// Reads the files that are named, before peers are started.
    pub(super) fn read(&self) -> anyhow::Result<SettingsFiles> {
        let strategy = match self.strategy.parse::<StrategyBuilder>() {
            Ok(builder) => StrategyNameOrFile::Name(builder),
            Err(error) => {
                let path = Path::new(&self.strategy);
                if !path.is_file() {
                    let hint =
                        suggest::path_hint(path).unwrap_or_else(|| "or name a file that has a strategy".to_owned());
                    return Err(CommandError::usage(error.to_string()).hint(hint).into());
                }
                let strategy = Strategy::parse(&text(path)?);
                StrategyNameOrFile::File(Box::new(strategy.map_err(|error| in_file(path, &error))?))
            }
        };
        let network = |path: &PathBuf| -> anyhow::Result<Network> {
            Network::parse(&text(path)?).map_err(|error| in_file(path, &error))
        };
        self.trace.as_deref().map_or(Ok(()), report::check)?;
        Ok(SettingsFiles { strategy, network: self.network.as_ref().map(network).transpose()? })
    }

    /// The device that a peer computes on.
    pub(super) fn device(&self, peer: Rank) -> anyhow::Result<Device> {
        self.place.open(peer, self.precision()).map_err(|problem| CommandError::usage(problem.to_string()).into())
    }

    fn precision(&self) -> ComputePrecision {
        match self.precision {
            PrecisionName::F32 => ComputePrecision::F32,
            PrecisionName::Bf16 => ComputePrecision::Bf16,
            PrecisionName::F16 => ComputePrecision::F16,
        }
    }

    /// Where and how it is computed, if that is not as usual.
    pub(super) fn where_to(&self) -> String {
        let precision = match self.precision {
            PrecisionName::F32 => "",
            PrecisionName::Bf16 => " with bf16",
            PrecisionName::F16 => " with f16",
        };
        match (self.place, precision) {
            (DeviceSpec::Cpu, "") => String::new(),
            (place, precision) => format!("; on {place}{precision}"),
        }
    }

    /// Where a trace goes, if there is one.
    pub(super) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// How many passes a peer makes for a step.
    pub(super) fn passes(&self) -> usize {
        self.passes as usize
    }
}

impl NetSettings {
    pub(super) fn optimizer(&self) -> Optimizer {
        match self.optimizer {
            OptimizerName::Adam => Optimizer::adam(self.rate),
            OptimizerName::Adamw => Optimizer::adamw(self.rate),
            OptimizerName::Adagrad => Optimizer::adagrad(self.rate),
            OptimizerName::Rmsprop => Optimizer::rmsprop(self.rate),
            OptimizerName::Sgd => match self.momentum {
                Some(momentum) => Optimizer::sgd(self.rate).momentum(momentum as f32),
                None => Optimizer::sgd(self.rate),
            },
        }
    }

    pub(super) fn schedule(&self, steps: u64) -> LrSchedule {
        let schedule = match self.schedule {
            ScheduleName::Constant => LrSchedule::constant(),
            ScheduleName::Cosine => LrSchedule::cosine(steps),
            ScheduleName::Linear => LrSchedule::linear(steps),
        };
        schedule.warm_up(self.warm_up)
    }

    pub(super) fn clip(&self) -> Option<GradientClip> {
        self.clip.map(GradientClip::Norm)
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
    number.ok_or_else(|| format!("`{text}` is no number above 0, such as `0.001`"))
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..1.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is no number from 0 to below 1, such as `0.9`"))
}
