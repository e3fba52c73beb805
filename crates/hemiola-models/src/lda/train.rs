//! Training of topic models: sweeps, priors, metrics and resuming.

use super::checkpoint::LdaSnapshot;
use super::counts::CountLayout;
use super::layout::{LdaLayout, MAX_NARROW};
use super::model::KIND;
use super::sampler::{SimdLevel, word_state::WordState};
use super::settings::{LdaExecutionMode, LdaSampler, LdaSettings};
use super::state::LdaState;
use super::tables::{CountTables, LEAST_PARTS};
use super::{Corpus, LdaModel, TopicModelling, sampler_trial};
use crate::Estimator;
use crate::memory::ensure_available;
use crate::training::{
    ClusterInfo, DatasetInfo, EpochEnd, EpochResult, Fit, FitOptions, Metrics, TargetMetric, TrainingAlgorithm,
    TrainingSpec, fit_loop,
};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_training::check_same_settings;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

impl Estimator for TopicModelling {
    type Data = Corpus;
    type Settings = LdaSettings;
    type Model = LdaModel;

    fn settings(&self) -> &LdaSettings {
        &self.settings
    }

    fn fit_with(
        &self,
        cluster: &Cluster,
        corpus: &Corpus,
        validation: Option<&Corpus>,
        options: FitOptions<'_>,
    ) -> Result<Fit<LdaModel>> {
        let settings = &self.settings;
        check_same_settings(cluster, KIND, settings)?;
        let tokens = corpus.tokens();
        ensure_available(8 * u128::from(tokens), || format!("a topic for each of {tokens} tokens"))?;
        let split = (validation.is_none() && settings.validation > 0.0)
            .then(|| corpus.split(cluster, settings.validation, Seed(settings.seed)))
            .transpose()?;
        let (corpus, validation) = match &split {
            Some((train, apart)) => (train, Some(apart)),
            None => (corpus, validation),
        };
        let validation = validation.filter(|validation| validation.documents() > 0);
        let mine = (corpus.tokens(), validation.map_or(0, Corpus::tokens));
        let tokens = cluster.all_gather(mine)?.into_iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let spec = TrainingSpec {
            model: KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            metric: if validation.is_some() {
                TargetMetric::minimize("perplexity")
            } else {
                TargetMetric::maximize("likelihood")
            },
            data: DatasetInfo {
                shape: vec![corpus.documents(), corpus.words()],
                train: tokens.0 as usize,
                validation: tokens.1 as usize,
            },
        };
        // A topic per token, and a row of topics and counts per word.
        let snapshot = LdaSnapshot::Empty(tokens.0 * 6 + corpus.words() as u64 * 8);
        let training = LdaTraining {
            cluster,
            settings: self,
            corpus,
            validation,
            snapshot,
            progress: None,
            words: Vec::new(),
            tables: None,
            trial_time: Duration::ZERO,
        };
        fit_loop(cluster, training, spec, options)?.try_map(|snapshot| match snapshot {
            LdaSnapshot::Live(cluster, state) => state.model(&cluster),
            LdaSnapshot::Loaded(loaded) => Ok(loaded.model),
            LdaSnapshot::Empty(_) => unreachable!("training has completed a sweep or resumed from one"),
        })
    }
}

struct LdaTraining<'a> {
    cluster: &'a Cluster,
    settings: &'a TopicModelling,
    corpus: &'a Corpus,
    validation: Option<&'a Corpus>,
    snapshot: LdaSnapshot,
    /// Progress of training; `None` before the first sweep.
    progress: Option<LdaProgress>,
    /// Sampler state of each worker.
    words: Vec<WordState>,
    /// Parameter-server tables, in that execution mode.
    tables: Option<CountTables>,
    /// Duration of the sampler trial, until it is added to an epoch.
    trial_time: Duration,
}

/// Progress saved in checkpoints: decisions of the first run, and the number of sweeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LdaProgress {
    parts: usize,
    sampler: LdaSampler,
    /// Reason for the choice of the sampler.
    reason: String,
    sweeps: u64,
}

impl TrainingAlgorithm for LdaTraining<'_> {
    type Model = LdaSnapshot;
    type State = Option<LdaProgress>;

    fn model(&self) -> &LdaSnapshot {
        &self.snapshot
    }

    fn state(&self) -> Option<LdaProgress> {
        self.progress.clone()
    }

    fn resume(&mut self, snapshot: LdaSnapshot, progress: Option<LdaProgress>) {
        self.snapshot = snapshot;
        self.progress = progress;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<EpochResult> {
        let cluster = self.cluster;
        if !matches!(self.snapshot, LdaSnapshot::Live(..)) {
            self.begin()?;
        }
        let (LdaSnapshot::Live(_, state), Some(progress)) = (&mut self.snapshot, &mut self.progress) else {
            unreachable!("training has begun")
        };
        // Clones the state if the best model still refers to it.
        let state = Arc::make_mut(state);
        let mut start = cluster.env().now();
        let settings = &self.settings.settings;
        let mut duration = std::mem::take(&mut self.trial_time);
        let stopped;
        if let Some(tables) = &self.tables {
            stopped = state.sweep_on_tables(cluster, tables, &mut self.words)?;
            duration += cluster.env().now() - start;
            // Tables hold received updates only; the topics are exact.
            state.count(cluster)?;
            start = cluster.env().now();
        } else {
            stopped = state.sweep(cluster, &mut self.words, SimdLevel::Best)?.stopped;
        }
        progress.sweeps = state.sweeps;
        if state.sweeps % u64::from(settings.learn_every) == 0 {
            state.learn(cluster, settings.learn_alpha, settings.learn_beta)?;
        }
        duration += cluster.env().now() - start;
        let likelihood = state.likelihood(cluster)?;
        let train = [("likelihood".to_owned(), likelihood)].into();
        Ok(EpochResult {
            objective: -likelihood,
            train,
            duration,
            plan: None,
            updates: state.layout.tokens,
            note: stopped.then(|| "the sweep was cut short".to_owned()),
            end: if stopped { EpochEnd::Partial } else { EpochEnd::Complete },
        })
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let (Some(validation), LdaSnapshot::Live(cluster, state)) = (self.validation, &self.snapshot) else {
            return Ok(None);
        };
        let perplexity = state.model(cluster)?.perplexity(cluster, validation, Seed(self.settings.settings.seed))?;
        Ok(Some([("perplexity".to_owned(), perplexity)].into()))
    }

    /// A sweep that is cut short leaves topics and counts that agree.
    fn keeps_snapshots(&self) -> bool {
        false
    }

    fn digests(&self) -> Result<[u64; 2]> {
        let validation = self.validation.map_or(Ok(0), |validation| validation.digest(self.cluster))?;
        Ok([self.corpus.digest(self.cluster)?, validation])
    }

    fn same_bits(&self, before: &ClusterInfo, now: &ClusterInfo) -> bool {
        // Partitions are those of the checkpoint. On tables the owners matter, and with staleness
        // the timing.
        match self.settings.settings.mode {
            LdaExecutionMode::Rotation => true,
            LdaExecutionMode::Tables { staleness, .. } => staleness == 0 && before == now,
        }
    }

    fn explanation(&self) -> Option<String> {
        let (LdaSnapshot::Live(_, state), Some(progress)) = (&self.snapshot, &self.progress) else { return None };
        Some(explain(self.cluster, state, progress, self.settings.settings.mode))
    }
}

impl LdaTraining<'_> {
    /// *Collective.* Distributes documents and assigns topics to tokens: random ones, or those of
    /// the checkpoint.
    fn begin(&mut self) -> Result<()> {
        let (cluster, corpus, settings) = (self.cluster, self.corpus, &self.settings.settings);
        let topics = settings.topics as usize;
        let workers: usize = cluster.all_gather(cluster.workers())?.into_iter().sum();
        let parts = match (&self.progress, settings.parts) {
            (Some(progress), _) => progress.parts,
            (None, 0) if settings.mode == LdaExecutionMode::Rotation => workers,
            (None, 0) => workers * LEAST_PARTS.div_ceil(workers),
            (None, parts) => parts as usize,
        };
        let layout = Arc::new(LdaLayout::new(cluster, corpus, topics, parts)?);
        let progress = if let Some(progress) = self.progress.take() {
            progress
        } else {
            let start = cluster.env().now();
            let (sampler, reason) = choose(cluster, corpus, &layout, settings)?;
            self.trial_time = cluster.env().now() - start;
            LdaProgress { parts, sampler, reason, sweeps: 0 }
        };
        let form = count_layout(progress.sampler);
        let priors = (vec![settings.alpha; topics], settings.beta, settings.seed);
        let mut state = LdaState::new(cluster, corpus, layout, form, priors)?;
        if let LdaSnapshot::Loaded(loaded) = &self.snapshot {
            loaded.restore(cluster, &mut state)?;
            state.sweeps = progress.sweeps;
        } else {
            state.randomize_topics(cluster)?;
        }
        if let LdaExecutionMode::Tables { staleness, budget } = settings.mode {
            self.tables = Some(CountTables::new(cluster, &state, staleness, budget)?);
        }
        self.progress = Some(progress);
        self.snapshot = LdaSnapshot::Live(cluster.clone(), Arc::new(state));
        let word = || WordState::new(topics).stopping_at(cluster.stop_request());
        self.words = (0..cluster.workers()).map(|_| word()).collect();
        Ok(())
    }
}

/// Returns the layout of document counts of a sampler.
fn count_layout(sampler: LdaSampler) -> CountLayout {
    match sampler {
        LdaSampler::Exact => CountLayout::Rows,
        LdaSampler::Auto | LdaSampler::Sparse => CountLayout::Lists,
        LdaSampler::MetropolisHastings => CountLayout::Tables,
    }
}

/// *Collective.* Resolves the sampler setting; returns the sampler and the reason.
fn choose(
    cluster: &Cluster,
    corpus: &Corpus,
    layout: &LdaLayout,
    settings: &LdaSettings,
) -> Result<(LdaSampler, String)> {
    match settings.sampler {
        LdaSampler::Auto => {
            let (form, reason) = sampler_trial::choose(cluster, corpus, layout, settings)?;
            let sampler = match form {
                CountLayout::Rows => LdaSampler::Exact,
                CountLayout::Lists => LdaSampler::Sparse,
                CountLayout::Tables => LdaSampler::MetropolisHastings,
            };
            Ok((sampler, reason))
        }
        LdaSampler::Exact if layout.is_wide() => {
            let reason = format!(
                "dense rows have 16-bit counts, and there are more than {MAX_NARROW} topics or tokens in a document"
            );
            Ok((LdaSampler::Sparse, reason))
        }
        sampler => Ok((sampler, "chosen by the settings".to_owned())),
    }
}

/// Describes the parallelization for `--explain`.
fn explain(cluster: &Cluster, state: &LdaState, progress: &LdaProgress, mode: LdaExecutionMode) -> String {
    let (parts, peers, workers) = (state.layout.parts, cluster.size(), cluster.workers());
    let mut text = match mode {
        LdaExecutionMode::Rotation => format!(
            "rotation: documents stay in {parts} partitions, and as many word blocks rotate; {peers} peers of {workers} workers\n  \
             topic totals are summed after each of {parts} steps of a sweep"
        ),
        LdaExecutionMode::Tables { staleness, budget } => format!(
            "parameter server: documents stay in {parts} partitions, word counts are in tables; {peers} peers of {workers} workers; staleness bound {staleness}, {parts} clocks per sweep{}",
            budget.map_or_else(String::new, |bytes| format!(", bandwidth budget {bytes} bytes per second"))
        ),
    };
    let tokens: usize = state.parts.iter().map(|part| part.topics.len()).sum();
    let bytes = state.bytes() as f64;
    let _ = write!(
        text,
        "\n  sampler: {} ({})\n  memory for tokens and counts: {:.1} MiB on this peer, {:.1} bytes per token",
        sampler_trial::name(count_layout(progress.sampler)),
        progress.reason,
        bytes / f64::from(1 << 20),
        bytes / tokens.max(1) as f64,
    );
    text
}
