//! Which sampler to take: a short trial on some of the documents.
//!
//! Every sampler that comes into question gets the same amount of work, and the one whose topics are the most likely afterwards is taken. Work is counted, not timed: tokens, lines of counts gone over, words taken
//! at hand, each with the nanoseconds it takes on a machine of today (see [`Cost`]). So the same documents and the same seed choose the same sampler, on all peers and in every run; a machine on which the
//! ratios are others gets the same bits and loses a little time.

use super::Corpus;
use super::counts::Form;
use super::layout::Layout;
use super::sampler::word::Word;
use super::sampler::{Done, Machine, lanes};
use super::settings::Settings;
use super::state::State;
use hemiola::array::random::Values;
use hemiola::{Cluster, Result};
use std::fmt::Write as _;
use std::sync::Arc;

/// Tokens of the documents that a trial is made on, about.
const TOKENS: u64 = 100_000;
/// Passes of the first sampler: what the others get is as much work.
const PASSES: u32 = 10;
/// No sampler gets more passes.
const MOST_PASSES: u32 = 60;
/// The draw that chooses documents.
const CHOSEN: u64 = 23;

/// Nanoseconds that samplers take, on a core of an AMD EPYC of 2023 at 2.6 GHz with 256-bit registers: fits to runs on the data of `docs/performance.md` with 100 to 1,000 topics.
struct Cost {
    token: f64,
    /// A line of eight counts, or an entry of a table of proposals.
    visited: f64,
    /// A draw of the smooth part.
    smooth: f64,
    /// A word, for each topic.
    word: f64,
}

impl Cost {
    const fn of(form: Form) -> Self {
        match form {
            Form::Rows => Self { token: 12.0, visited: 2.4, smooth: 0.0, word: 0.3 },
            Form::Lists => Self { token: 30.0, visited: 5.0, smooth: 50.0, word: 0.4 },
            Form::Tables => Self { token: 190.0, visited: 10.0, smooth: 0.0, word: 0.05 },
        }
    }

    fn seconds(&self, tokens: u64, topics: usize, done: Done) -> f64 {
        let word = self.word * topics as f64;
        let sum = self.token * tokens as f64
            + self.visited * done.visited as f64
            + self.smooth * done.smooth as f64
            + word * done.words as f64;
        sum * 1e-9
    }
}

/// The samplers that come into question.
fn candidates(layout: &Layout) -> Vec<Form> {
    let mut forms = Vec::new();
    if !layout.is_wide() && layout.topics <= 4 * lanes::MOST {
        forms.push(Form::Rows);
    }
    if layout.is_wide() || layout.topics > lanes::MOST {
        forms.push(Form::Lists);
    }
    forms.push(Form::Tables);
    forms
}

/// *Collective.* The form of counts whose sampler did best, and what happened.
pub(super) fn choose(
    cluster: &Cluster,
    corpus: &Corpus,
    layout: &Layout,
    settings: &Settings,
) -> Result<(Form, String)> {
    let share = (TOKENS as f64 / layout.tokens as f64).min(1.0);
    let values = Values::new(settings.seed);
    let mut sample = Corpus::builder(corpus.vocabulary().clone());
    for (place, (words, counts)) in corpus.iter().enumerate() {
        if share >= 1.0 || values.chosen(corpus.first() + place as u64, CHOSEN, share) {
            sample.push(words.iter().copied().zip(counts.iter().copied()))?;
        }
    }
    let sample = sample.gather(cluster)?;
    let tokens: u64 = cluster.all_gather(sample.tokens())?.into_iter().sum();
    if tokens == 0 {
        return Ok((candidates(layout)[0], "there are too few documents for a trial".to_owned()));
    }
    let mut of_sample = Layout::new(cluster, &sample, layout.topics, layout.parts)?;
    of_sample.longest = layout.longest;
    let layout = Arc::new(of_sample);
    let mut best: Option<(Form, f64)> = None;
    let mut work = 0.0;
    let mut told = format!("in a trial on {tokens} tokens, with as much work for each");
    for form in candidates(&layout) {
        let priors = (vec![settings.alpha; layout.topics], settings.beta, settings.seed);
        let mut state = State::new(cluster, &sample, layout.clone(), form, priors)?;
        state.scatter(cluster)?;
        let mut words = vec![Word::new(layout.topics); cluster.workers()];
        let (mut spent, mut passes) = (0.0, 0);
        while if best.is_none() { passes < PASSES } else { spent < work && passes < MOST_PASSES } {
            let mine = state.pass(cluster, &mut words, Machine::Best)?;
            let done = cluster.all_gather((mine.visited, mine.smooth, mine.words))?;
            let done = done.into_iter().map(|(visited, smooth, words)| Done { visited, smooth, words });
            let done = done.fold(Done::default(), Done::and);
            spent += Cost::of(form).seconds(layout.tokens, layout.topics, done);
            passes += 1;
            if passes % settings.learn_every == 0 {
                state.learn(cluster, settings.learn_alpha, settings.learn_beta)?;
            }
        }
        if best.is_none() {
            work = spent;
        }
        let likelihood = state.likelihood(cluster)?;
        let _ = write!(told, "; {}: {likelihood:.4} after {passes} passes", name(form));
        if best.is_none_or(|(_, most)| likelihood > most) {
            best = Some((form, likelihood));
        }
    }
    Ok((best.map_or(Form::Lists, |(form, _)| form), told))
}

/// What a sampler is called where it is told of.
pub(super) fn name(form: Form) -> &'static str {
    match form {
        Form::Rows => "exact, over all topics",
        Form::Lists => "exact, over the topics of the document",
        Form::Tables => "Metropolis-Hastings, by proposals of words and documents",
    }
}
