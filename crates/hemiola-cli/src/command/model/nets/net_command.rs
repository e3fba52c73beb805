//! Command to train a net: flags and data become a `NetFit`, which the library runs.

use super::super::progress::MetricColumns;
use super::super::train_args::{PreparedTraining, TrainArgs};
use super::net_args::{NetArgs, StrategyNameOrFile};
use super::net_size::NetSize;
use crate::error::into_cluster_error;
use crate::output::{OutputCompression, StagedFile};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::Rank;
use hemiola_nn::Trainer;
use hemiola_nn::data::Dataset;
use hemiola_nn::models::{Device, NeuralNet};
use hemiola_nn::saved::{NetArchitecture, NetDescription, NetInput};
use hemiola_nn::trace::chrome_trace;
use hemiola_nn::training::{ClusterInfo, NetFit, NetMetric, check_checkpoints};
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;

/// Kind of net, with its metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetKind {
    /// Name of the command, as in `hemiola train NAME`.
    pub(super) name: &'static str,
    /// Validation metric that stopping depends on.
    pub(super) metric: NetMetric,
}

/// Loaded data, and the configuration of the net for them.
pub(super) struct NetData<E, C> {
    pub(super) train: E,
    pub(super) valid: Option<E>,
    /// Summary of the data, printed before the first epoch.
    pub(super) headline: String,
    /// Configuration of the net that fits the data.
    pub(super) config: C,
    /// Meaning of the numbers that the net takes and gives, kept in its folder.
    pub(super) input: NetInput,
    /// Words per example; 1 if an example is not a sequence.
    pub(super) sequence_length: usize,
    pub(super) shape: Vec<usize>,
}

/// Command to train a net: its kind and flags.
pub(super) struct NetCommand<'a> {
    pub(super) kind: NetKind,
    pub(super) common: &'a TrainArgs,
    pub(super) flags: &'a NetArgs,
}

impl NetCommand<'_> {
    /// Trains the net that `init` builds from the configuration of `load`. `sizes` are the flags of
    /// the net, which must not change on resume.
    pub(super) fn execute<N, E, C: Clone + Into<NetArchitecture> + NetSize>(
        &self,
        sizes: &impl Serialize,
        load: impl FnOnce() -> anyhow::Result<NetData<E, C>>,
        init: impl FnOnce(&C, &Device) -> N,
    ) -> anyhow::Result<ExitCode>
    where
        N: NeuralNet<Batch = E::Batch>,
        E: Dataset,
    {
        let Self { kind, common, flags } = self;
        let limits = common.limits();
        let net_settings = flags.settings(limits.epochs)?;
        let read = flags.read()?;
        let settings = json!({ "net": sizes, "seed": common.seed, "optimization": net_settings });
        if let Some(checkpoints) = common.checkpoints() {
            check_checkpoints(&checkpoints, kind.name, &settings).map_err(Error::from)?;
        }
        common.describe(kind.name, &settings);
        common.check_files()?;
        common.run(|cluster| {
            let start = cluster.env().now();
            let lock = common.lock_output(cluster)?;
            let loaded = load().map_err(into_cluster_error)?;
            loaded.config.check_memory()?;
            let device = flags.open_device(cluster.rank()).map_err(into_cluster_error)?;
            let headline = format!("{}; {}{}", loaded.headline, ClusterInfo::of(cluster), flags.device_text());
            let loading = cluster.env().now() - start;
            let columns = MetricColumns::new(kind.metric.target().name, "examples");
            let prepared = PreparedTraining { headline, loading, columns, limits: &limits, lock };
            let architecture = loaded.config.clone().into();
            let description = NetDescription { architecture, input: loaded.input };
            common.fit(cluster, prepared, |options| {
                let fit = NetFit::new(&loaded.train, &device)
                    .name(kind.name)
                    .validation(loaded.valid.as_ref())
                    .metric(kind.metric)
                    .batch_size(net_settings.batch_size)
                    .accumulate(flags.accumulate())
                    .loader_threads(flags.loader_threads())
                    .seed(common.seed)
                    .limits(limits.clone())
                    .settings(&settings)
                    .description(description)
                    .shape(loaded.shape.clone());
                let net = init(&loaded.config, &device.clone().autodiff());
                let mut trainer = Trainer::builder(cluster, net, net_settings.optimizer())
                    .sequence_length(loaded.sequence_length)
                    .schedule(net_settings.schedule(fit.total_steps()));
                trainer = match &read.strategy {
                    None => trainer,
                    Some(StrategyNameOrFile::Name(name)) => trainer.strategy(*name),
                    Some(StrategyNameOrFile::File(strategy)) => trainer.strategy((**strategy).clone()),
                };
                trainer = trainer.serving_peers(read.serving_peers);
                if read.tune {
                    trainer = trainer.tune();
                }
                if let Some(cluster) = &read.cluster {
                    trainer = trainer.network(cluster.clone());
                }
                if let Some(clip) = net_settings.clip() {
                    trainer = trainer.clip(clip);
                }
                if flags.trace().is_some() {
                    trainer = trainer.trace();
                }
                let fitted = fit.fit_with(trainer, options)?;
                self.write_trace(cluster, &fitted.trainer)?;
                Ok(fitted.report)
            })
        })
    }

    /// *Collective.* Writes the trace of the last steps of all peers, if requested.
    fn write_trace<N: NeuralNet>(&self, cluster: &Cluster, trainer: &Trainer<N>) -> Result<()> {
        let Some(path) = self.flags.trace() else { return Ok(()) };
        let spans = cluster.all_gather(trainer.trace())?;
        let spans: Vec<_> = Rank::all(spans.len()).zip(spans).collect();
        let write = || -> anyhow::Result<()> {
            let mut file = StagedFile::create(path, OutputCompression::None)?;
            file.write(chrome_trace(&spans).as_bytes())?;
            file.finish()?.publish()
        };
        let failure = if cluster.is_root() { write().err() } else { None };
        match (cluster.broadcast(failure.is_none())?, failure) {
            (_, Some(error)) => Err(into_cluster_error(error)),
            (false, None) => Err(Error::program("peer 0 failed; see its message")),
            (true, None) => Ok(()),
        }
    }
}
