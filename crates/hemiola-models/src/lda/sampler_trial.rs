//! Choice of the sampler by a short trial on some of the documents.
//!
//! Every candidate sampler gets the same amount of work, and the one with the best likelihood
//! afterwards is chosen. Work is counted, not timed: tokens, lines of counts visited and words
//! entered, each with its cost in nanoseconds on a current machine (see [`SamplerCost`]). So the
//! same documents and seed choose the same sampler, on all peers and in every run; a machine with
//! other cost ratios gets the same bits and loses a little time.

use super::Corpus;
use super::counts::CountLayout;
use super::layout::LdaLayout;
use super::sampler::word_state::WordState;
use super::sampler::{SimdLevel, SweepWork, dense_rows};
use super::settings::LdaSettings;
use super::state::LdaState;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use std::fmt::Write as _;
use std::sync::Arc;

/// Approximate number of tokens of the trial documents.
const TOKENS: u64 = 100_000;
/// Sweeps of the first sampler; the others get the same amount of work.
const SWEEPS: u32 = 10;
/// Maximum number of sweeps of a sampler.
const MAX_SWEEPS: u32 = 60;
/// Random stream that selects the trial documents.
const TRIAL_DRAW: u64 = 23;

/// Costs of a sampler in nanoseconds, on one core of a 2023 AMD EPYC at 2.6 GHz with 256-bit
/// registers: fits to runs on the data of `benchmarks/results` with 100 to 1,000 topics.
struct SamplerCost {
    token: f64,
    /// Cost of a line of eight counts, or of an entry of a proposal table.
    visited: f64,
    /// Cost of a draw from the smoothing part.
    smooth: f64,
    /// Cost of entering a word, per topic.
    word: f64,
}

impl SamplerCost {
    const fn of(form: CountLayout) -> Self {
        match form {
            CountLayout::Rows => Self { token: 12.0, visited: 2.4, smooth: 0.0, word: 0.3 },
            CountLayout::Lists => Self { token: 30.0, visited: 5.0, smooth: 50.0, word: 0.4 },
            CountLayout::Tables => Self { token: 190.0, visited: 10.0, smooth: 0.0, word: 0.05 },
        }
    }

    fn seconds(&self, tokens: u64, topics: usize, done: SweepWork) -> f64 {
        let word = self.word * topics as f64;
        let sum = self.token * tokens as f64
            + self.visited * done.visited as f64
            + self.smooth * done.smooth as f64
            + word * done.words as f64;
        sum * 1e-9
    }
}

/// Returns the candidate samplers.
fn candidates(layout: &LdaLayout) -> Vec<CountLayout> {
    let mut forms = Vec::new();
    if !layout.is_wide() && layout.topics <= 4 * dense_rows::MAX_TOPICS {
        forms.push(CountLayout::Rows);
    }
    if layout.is_wide() || layout.topics > dense_rows::MAX_TOPICS {
        forms.push(CountLayout::Lists);
    }
    forms.push(CountLayout::Tables);
    forms
}

/// *Collective.* Runs the trial; returns the count layout of the best sampler and a summary.
pub(super) fn choose(
    cluster: &Cluster,
    corpus: &Corpus,
    layout: &LdaLayout,
    settings: &LdaSettings,
) -> Result<(CountLayout, String)> {
    let share = (TOKENS as f64 / layout.tokens as f64).min(1.0);
    let values = PhiloxRng::new(settings.seed);
    let mut sample = Corpus::builder(corpus.vocabulary().clone());
    for (index, (words, counts)) in corpus.iter().enumerate() {
        if share >= 1.0 || values.random_bool((corpus.first() + index) as u64, TRIAL_DRAW, share) {
            sample.push(words.iter().copied().zip(counts.iter().copied()))?;
        }
    }
    let sample = sample.gather(cluster)?;
    let tokens: u64 = cluster.all_gather(sample.tokens())?.into_iter().sum();
    if tokens == 0 {
        return Ok((candidates(layout)[0], "too few documents for a trial".to_owned()));
    }
    let mut of_sample = LdaLayout::new(cluster, &sample, layout.topics, layout.parts)?;
    of_sample.longest = layout.longest;
    let layout = Arc::new(of_sample);
    let mut best: Option<(CountLayout, f64)> = None;
    let mut work = 0.0;
    let mut summary = format!("trial on {tokens} tokens with equal work");
    for form in candidates(&layout) {
        let priors = (vec![settings.alpha; layout.topics], settings.beta, settings.seed);
        let mut state = LdaState::new(cluster, &sample, layout.clone(), form, priors)?;
        state.randomize_topics(cluster)?;
        let mut words = vec![WordState::new(layout.topics); cluster.workers()];
        let (mut spent, mut sweeps) = (0.0, 0);
        while if best.is_none() { sweeps < SWEEPS } else { spent < work && sweeps < MAX_SWEEPS } {
            let mine = state.sweep(cluster, &mut words, SimdLevel::Best)?;
            let done = cluster.all_gather((mine.visited, mine.smooth, mine.words))?;
            let done =
                done.into_iter().map(|(visited, smooth, words)| SweepWork { visited, smooth, words, stopped: false });
            let done = done.fold(SweepWork::default(), SweepWork::and);
            spent += SamplerCost::of(form).seconds(layout.tokens, layout.topics, done);
            sweeps += 1;
            if sweeps % settings.learn_every == 0 {
                state.learn(cluster, settings.learn_alpha, settings.learn_beta)?;
            }
        }
        if best.is_none() {
            work = spent;
        }
        let likelihood = state.likelihood(cluster)?;
        let _ = write!(summary, "; {}: {likelihood:.4} after {sweeps} sweeps", name(form));
        if best.is_none_or(|(_, most)| likelihood > most) {
            best = Some((form, likelihood));
        }
    }
    Ok((best.map_or(CountLayout::Lists, |(form, _)| form), summary))
}

/// Returns the name of a sampler for reports.
pub(super) fn name(form: CountLayout) -> &'static str {
    match form {
        CountLayout::Rows => "exact, over all topics",
        CountLayout::Lists => "exact, over the topics of the document",
        CountLayout::Tables => "Metropolis-Hastings, with word and document proposals",
    }
}
