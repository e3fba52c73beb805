//! Training: passes, priors, figures, and what to go on from.

use super::counts::Form;
use super::keep::Kept;
use super::layout::{Layout, NARROW};
use super::model::KIND;
use super::sampler::lanes;
use super::sampler::{Machine, word::Word};
use super::settings::Sampler;
use super::state::State;
use super::{Corpus, TopicModel, TopicModelling};
use crate::training::{ClusterFacts, DataFacts, Figure, Learner, Metrics, Pass, Report, Session, Terms, Watch, drive};
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
        let training = Training { cluster, settings: self, corpus, valid, kept, place: None, words: Vec::new() };
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
        let start = cluster.env().now();
        state.pass(cluster, &mut self.words, Machine::Best)?;
        place.passes = state.passes;
        let settings = &self.settings.settings;
        if state.passes % u64::from(settings.learn_every) == 0 {
            state.learn(cluster, settings.learn_alpha, settings.learn_beta)?;
        }
        let took = cluster.env().now() - start;
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

    fn same_bits(&self, _: &ClusterFacts, _: &ClusterFacts) -> bool {
        // Parts are those of the checkpoint.
        true
    }

    fn explanation(&self) -> Option<String> {
        let (Kept::Here(_, state), Some(place)) = (&self.kept, &self.place) else { return None };
        Some(explain(self.cluster, state, place))
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
            (None, 0) => workers,
            (None, parts) => parts as usize,
        };
        let layout = Arc::new(Layout::new(cluster, corpus, topics, parts)?);
        let place = match self.place.take() {
            Some(place) => place,
            None => {
                let (sampler, reason) = choose(settings.sampler, &layout);
                Place { parts, sampler, reason, passes: 0 }
            }
        };
        let form = match place.sampler {
            Sampler::Auto | Sampler::Exact => Form::Rows,
            Sampler::Sparse => Form::Lists,
            Sampler::MetropolisHastings => Form::Tables,
        };
        let priors = (vec![settings.alpha; topics], settings.beta, settings.seed);
        let mut state = State::new(cluster, corpus, layout, form, priors)?;
        if let Kept::Loaded(loaded) = &self.kept {
            loaded.restore(cluster, &mut state)?;
            state.passes = place.passes;
        } else {
            state.scatter(cluster)?;
        }
        self.place = Some(place);
        self.kept = Kept::Here(cluster.clone(), Arc::new(state));
        self.words = (0..cluster.workers()).map(|_| Word::new(topics)).collect();
        Ok(())
    }
}

/// The sampler that is meant, and why.
fn choose(wanted: Sampler, layout: &Layout) -> (Sampler, String) {
    let short = !layout.is_wide();
    match wanted {
        Sampler::Exact if !short => (
            Sampler::Sparse,
            format!(
                "`exact` keeps counts of documents in 16 bits, and there are more than {NARROW} topics or a longer document"
            ),
        ),
        Sampler::Auto if short && layout.topics <= lanes::MOST => (Sampler::Exact, "there are few topics".to_owned()),
        Sampler::Auto => (Sampler::Sparse, "there are many topics".to_owned()),
        wanted => (wanted, "it was asked for".to_owned()),
    }
}

/// How it is made parallel, for people.
fn explain(cluster: &Cluster, state: &State, place: &Place) -> String {
    let name = match place.sampler {
        Sampler::Exact | Sampler::Auto => "exact, over all topics",
        Sampler::Sparse => "exact, over the topics of the document",
        Sampler::MetropolisHastings => "Metropolis-Hastings, by proposals of words and documents",
    };
    format!(
        "documents stay in {} parts, words go around in as many blocks; {} peers of {} workers\n  sampler: {name} ({})\n  \
         memory of this peer: {:.1} bytes for each of its tokens, {:.1} MiB",
        state.layout.parts,
        cluster.size(),
        cluster.workers(),
        place.reason,
        state.bytes() as f64 / state.parts.iter().map(|part| part.topics.len()).sum::<usize>().max(1) as f64,
        state.bytes() as f64 / f64::from(1 << 20),
    )
}
