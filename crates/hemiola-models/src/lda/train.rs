//! Training: passes, priors, figures, and what to go on from.

use super::counts::Form;
use super::keep::Kept;
use super::layout::{Layout, NARROW};
use super::model::KIND;
use super::sampler::{Machine, word::Word};
use super::settings::{Sampler, Settings, Way};
use super::state::State;
use super::tables::{Counted, LEAST_PARTS};
use super::{Corpus, TopicModel, TopicModelling, trial};
use crate::training::{ClusterFacts, DataFacts, Figure, Learner, Metrics, Pass, Report, Session, Terms, Watch, drive};
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// A trained model, and how it came about.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model of the best pass where documents were held out, or else of the last.
    pub model: TopicModel,
    /// Every pass, and the end.
    pub report: Report,
}

impl TopicModelling {
    /// *Collective.* Trains on documents, a share of which is held out as the settings say.
    pub fn fit(&self, cluster: &Cluster, corpus: &Corpus) -> Result<Trained> {
        self.fit_with(cluster, corpus, None, Session::new())
    }

    /// *Collective.* The same, and tells `watch`.
    pub fn fit_watched(&self, cluster: &Cluster, corpus: &Corpus, watch: &mut dyn Watch) -> Result<Trained> {
        self.fit_with(cluster, corpus, None, Session::new().watched(watch))
    }

    /// *Collective.* The same, with checkpoints and a watcher as `session` says. If held-out documents are given, all of `corpus` is trained on.
    pub fn fit_with(
        &self,
        cluster: &Cluster,
        corpus: &Corpus,
        valid: Option<&Corpus>,
        session: Session<'_>,
    ) -> Result<Trained> {
        let settings = &self.settings;
        let split = (valid.is_none() && settings.valid > 0.0)
            .then(|| corpus.split(cluster, settings.valid, settings.seed))
            .transpose()?;
        let (corpus, valid) = match &split {
            Some((train, apart)) => (train, Some(apart)),
            None => (corpus, valid),
        };
        let valid = valid.filter(|valid| valid.documents() > 0);
        let mine = (corpus.tokens(), valid.map_or(0, Corpus::tokens));
        let tokens = cluster.all_gather(mine)?.into_iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let terms = Terms {
            model: KIND,
            settings,
            seed: settings.seed,
            limits: &settings.limits,
            figure: if valid.is_some() { Figure::low("perplexity") } else { Figure::high("likelihood") },
            data: DataFacts {
                shape: vec![corpus.documents(), corpus.words() as u64],
                train: tokens.0,
                valid: tokens.1,
            },
        };
        // A topic of each token, and a row of topics and counts for each word.
        let kept = Kept::Nothing(tokens.0 * 6 + corpus.words() as u64 * 8);
        let training = Training {
            cluster,
            settings: self,
            corpus,
            valid,
            kept,
            place: None,
            words: Vec::new(),
            tables: None,
            chosen_in: Duration::ZERO,
        };
        let (kept, report) = drive(cluster, training, terms, session)?;
        let model = match kept {
            Kept::Here(cluster, state) => state.model(&cluster)?,
            Kept::Loaded(loaded) => loaded.model,
            Kept::Nothing(_) => unreachable!("a training has a pass, or goes on from one"),
        };
        Ok(Trained { model, report })
    }
}

struct Training<'a> {
    cluster: &'a Cluster,
    settings: &'a TopicModelling,
    corpus: &'a Corpus,
    valid: Option<&'a Corpus>,
    kept: Kept,
    /// `None` before it has begun.
    place: Option<Place>,
    /// What each worker keeps of the word at hand.
    words: Vec<Word>,
    /// Counts that all share, if that is the way.
    tables: Option<Counted>,
    /// How long it took to choose a sampler, until it is told.
    chosen_in: Duration,
}

/// What it needs to go on besides topics: what was decided in the beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Place {
    parts: usize,
    sampler: Sampler,
    /// Why that one.
    reason: String,
    passes: u64,
}

impl Learner for Training<'_> {
    type Model = Kept;
    type Own = Option<Place>;

    fn model(&self) -> &Kept {
        &self.kept
    }

    fn own(&self) -> Option<Place> {
        self.place.clone()
    }

    fn go_on(&mut self, kept: Kept, place: Option<Place>) {
        self.kept = kept;
        self.place = place;
    }

    fn epoch(&mut self, _before: Option<f64>) -> Result<Pass> {
        let cluster = self.cluster;
        if !matches!(self.kept, Kept::Here(..)) {
            self.begin()?;
        }
        let (Kept::Here(_, state), Some(place)) = (&mut self.kept, &mut self.place) else {
            unreachable!("it has begun")
        };
        // Where the best model is the one before, this makes a copy.
        let state = Arc::make_mut(state);
        let mut start = cluster.env().now();
        let settings = &self.settings.settings;
        let mut took = std::mem::take(&mut self.chosen_in);
        if let Some(tables) = &self.tables {
            state.pass_on_tables(cluster, tables, &mut self.words)?;
            took += cluster.env().now() - start;
            // Tables know what they were told; topics know.
            state.count(cluster)?;
            start = cluster.env().now();
        } else {
            state.pass(cluster, &mut self.words, Machine::Best)?;
        }
        place.passes = state.passes;
        if state.passes % u64::from(settings.learn_every) == 0 {
            state.learn(cluster, settings.learn_alpha, settings.learn_beta)?;
        }
        took += cluster.env().now() - start;
        let likelihood = state.likelihood(cluster)?;
        let train = [("likelihood".to_owned(), likelihood)].into();
        Ok(Pass { objective: -likelihood, train, took, plan: None, updates: state.layout.tokens, note: None })
    }

    fn evaluate(&mut self) -> Result<Option<Metrics>> {
        let (Some(valid), Kept::Here(cluster, state)) = (self.valid, &self.kept) else { return Ok(None) };
        let perplexity = state.model(cluster)?.perplexity(cluster, valid, self.settings.settings.seed)?;
        Ok(Some([("perplexity".to_owned(), perplexity)].into()))
    }

    fn digests(&self) -> Result<[u64; 2]> {
        let valid = self.valid.map_or(Ok(0), |valid| valid.digest(self.cluster))?;
        Ok([self.corpus.digest(self.cluster)?, valid])
    }

    fn same_bits(&self, before: &ClusterFacts, now: &ClusterFacts) -> bool {
        // Parts are those of the checkpoint; on tables it matters who has them, and with staleness when.
        match self.settings.settings.way {
            Way::Rotation => true,
            Way::Tables { staleness, .. } => staleness == 0 && before == now,
        }
    }

    fn explanation(&self) -> Option<String> {
        let (Kept::Here(_, state), Some(place)) = (&self.kept, &self.place) else { return None };
        Some(explain(self.cluster, state, place, self.settings.settings.way))
    }
}

impl Training<'_> {
    /// *Collective.* Puts documents in their places and gives tokens topics: random ones, or those it goes on from.
    fn begin(&mut self) -> Result<()> {
        let (cluster, corpus, settings) = (self.cluster, self.corpus, &self.settings.settings);
        let topics = settings.topics as usize;
        let workers: usize = cluster.all_gather(cluster.workers())?.into_iter().sum();
        let parts = match (&self.place, settings.parts) {
            (Some(place), _) => place.parts,
            (None, 0) if settings.way == Way::Rotation => workers,
            (None, 0) => workers * LEAST_PARTS.div_ceil(workers),
            (None, parts) => parts as usize,
        };
        let layout = Arc::new(Layout::new(cluster, corpus, topics, parts)?);
        let place = if let Some(place) = self.place.take() {
            place
        } else {
            let start = cluster.env().now();
            let (sampler, reason) = choose(cluster, corpus, &layout, settings)?;
            self.chosen_in = cluster.env().now() - start;
            Place { parts, sampler, reason, passes: 0 }
        };
        let form = form(place.sampler);
        let priors = (vec![settings.alpha; topics], settings.beta, settings.seed);
        let mut state = State::new(cluster, corpus, layout, form, priors)?;
        if let Kept::Loaded(loaded) = &self.kept {
            loaded.restore(cluster, &mut state)?;
            state.passes = place.passes;
        } else {
            state.scatter(cluster)?;
        }
        if let Way::Tables { staleness, budget } = settings.way {
            self.tables = Some(Counted::new(cluster, &state, staleness, budget)?);
        }
        self.place = Some(place);
        self.kept = Kept::Here(cluster.clone(), Arc::new(state));
        self.words = (0..cluster.workers()).map(|_| Word::new(topics)).collect();
        Ok(())
    }
}

/// What a sampler keeps counts of documents in.
fn form(sampler: Sampler) -> Form {
    match sampler {
        Sampler::Exact => Form::Rows,
        Sampler::Auto | Sampler::Sparse => Form::Lists,
        Sampler::MetropolisHastings => Form::Tables,
    }
}

/// *Collective.* The sampler that is meant, and why.
fn choose(cluster: &Cluster, corpus: &Corpus, layout: &Layout, settings: &Settings) -> Result<(Sampler, String)> {
    match settings.sampler {
        Sampler::Auto => {
            let (form, reason) = trial::choose(cluster, corpus, layout, settings)?;
            let sampler = match form {
                Form::Rows => Sampler::Exact,
                Form::Lists => Sampler::Sparse,
                Form::Tables => Sampler::MetropolisHastings,
            };
            Ok((sampler, reason))
        }
        Sampler::Exact if layout.is_wide() => {
            let reason = format!(
                "rows of all topics have 16 bits for a count, and there are more than {NARROW} topics or words in a document"
            );
            Ok((Sampler::Sparse, reason))
        }
        sampler => Ok((sampler, "it was asked for".to_owned())),
    }
}

/// How it is made parallel, for people.
fn explain(cluster: &Cluster, state: &State, place: &Place, way: Way) -> String {
    let (parts, peers, workers) = (state.layout.parts, cluster.size(), cluster.workers());
    let mut text = match way {
        Way::Rotation => format!(
            "documents stay, in {parts} parts; words go around, in as many blocks; each of {peers} peers has {workers} workers for its parts\n  \
             totals of topics are added up after each of {parts} steps of a pass"
        ),
        Way::Tables { staleness, budget } => format!(
            "documents stay, in {parts} parts, with {peers} peers of {workers} workers; counts of words are in tables, with a staleness of {staleness} clocks, {parts} clocks in a pass{}",
            budget.map_or_else(String::new, |bytes| format!(", and {bytes} bytes in a second"))
        ),
    };
    let tokens: usize = state.parts.iter().map(|part| part.topics.len()).sum();
    let bytes = state.bytes() as f64;
    let _ = write!(
        text,
        "\n  sampler: {} ({})\n  memory for tokens and counts: {:.1} MiB on this peer, {:.1} bytes for each of its tokens",
        trial::name(form(place.sampler)),
        place.reason,
        bytes / f64::from(1 << 20),
        bytes / tokens.max(1) as f64,
    );
    text
}
