//! Topic models (latent Dirichlet allocation).

use crate::buffers::slice;
use crate::error::setting;
use crate::fitted::Fitted;
use crate::job::{JobOptions, run};
use crate::lines::{LineBuffers, Lines};
use hemiola_models::lda::{Corpus, InferenceSettings, LdaModel, LdaVocabulary, WordTopics};
use hemiola_models::training::FitOptions;
use hemiola_models::{Estimator, TopicModelling};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// Fits a topic model to rows of word counts; returns the counts of words by topic (`words`,
/// `topics`, `counts`), `alpha`, `beta` and `report`.
#[pyfunction]
#[pyo3(signature = (rows, job, *, topics, alpha, beta, learn_alpha, sweeps, seed))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn fit_topics(
    py: Python<'_>,
    rows: LineBuffers,
    job: JobOptions,
    topics: u32,
    alpha: f64,
    beta: f64,
    learn_alpha: bool,
    sweeps: u32,
    seed: u64,
) -> PyResult<Bound<'_, PyDict>> {
    let lines = rows.lines()?;
    let builder = TopicModelling::builder(topics).alpha(alpha).beta(beta).learn_alpha(learn_alpha);
    let estimator = builder.sweeps(sweeps).validation(0.0).seed(seed).build().map_err(|error| setting(&error))?;
    let corpus = corpus(lines)?;
    let (model, report) = run(py, &job, |cluster, reporter| {
        let fit = estimator.fit_with(cluster, &corpus, None, FitOptions::new().with_callback(reporter))?;
        Ok((fit.model, fit.report))
    })?;
    let (mut words, mut of_topics, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (word, topic, count) in model.rows().iter() {
        words.push(word);
        of_topics.push(topic);
        counts.push(count);
    }
    let fitted = Fitted::new(py).indices("words", &words)?.indices("topics", &of_topics)?.indices("counts", &counts)?;
    let fitted = fitted.doubles("alpha", model.alpha(), &[model.topics()])?.number("beta", model.beta())?;
    Ok(fitted.report(&report)?.into_dict())
}

/// Infers the topics of rows of word counts by a fitted model; returns `shares`.
#[pyfunction]
#[pyo3(signature = (rows, job, *, starts, topics, counts, alpha, beta, documents, sweeps, burn_in, seed))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
#[expect(clippy::too_many_arguments, reason = "settings have names in Python")]
pub(crate) fn infer_topics(
    py: Python<'_>,
    rows: LineBuffers,
    job: JobOptions,
    starts: PyBuffer<i64>,
    topics: PyBuffer<u32>,
    counts: PyBuffer<u32>,
    alpha: Vec<f64>,
    beta: f64,
    documents: usize,
    sweeps: u32,
    burn_in: u32,
    seed: u64,
) -> PyResult<Bound<'_, PyDict>> {
    let lines = rows.lines()?;
    let (starts, topics, counts) = (slice(&starts)?, slice(&topics)?, slice(&counts)?);
    let mut of_words = WordTopics::default();
    for row in starts.windows(2) {
        let range = row[0] as usize..row[1] as usize;
        of_words.push(topics[range.clone()].iter().copied().zip(counts[range].iter().copied()));
    }
    let of_words = Arc::new(of_words);
    let corpus = corpus(lines)?;
    let width = alpha.len();
    let mixtures = run(py, &job, |cluster, _| {
        let vocabulary = corpus.vocabulary().clone();
        let model = LdaModel::new(alpha.clone(), beta, of_words.clone(), vocabulary, documents)?;
        model.infer(cluster, &corpus, 0..corpus.len(), InferenceSettings { sweeps, burn_in, seed })
    })?;
    let shares: Vec<f64> = mixtures.into_iter().flat_map(|mixture| mixture.shares).collect();
    Ok(Fitted::new(py).doubles("shares", &shares, &[lines.count, width])?.into_dict())
}

/// Returns the documents of a single peer. Counts are whole numbers.
fn corpus(rows: Lines<'_>) -> PyResult<Corpus> {
    let mut builder = Corpus::builder(Arc::new(LdaVocabulary::numbered(rows.width as u32)));
    for row in 0..rows.count {
        let words = rows.line(row).map(|(word, count)| (word as u32, count as u32));
        builder.push(words).map_err(|error| setting(&error))?;
    }
    Ok(builder.build())
}
