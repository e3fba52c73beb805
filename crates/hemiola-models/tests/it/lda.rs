//! Topic models end to end: bit-identical training, recovery of planted topics, and unusual
//! corpora.

use hemiola_array::synthetic::SyntheticLda;
use hemiola_cluster::Cluster;
use hemiola_models::lda::{Corpus, LdaBuilder, LdaModel, LdaSampler, LdaVocabulary};
use hemiola_models::prelude::*;
use hemiola_models::training::CheckpointInterval;
use std::sync::Arc;

const SAMPLERS: [LdaSampler; 3] = [LdaSampler::Exact, LdaSampler::Sparse, LdaSampler::MetropolisHastings];

fn words(count: u32) -> Arc<LdaVocabulary> {
    Arc::new(LdaVocabulary::numbered(count))
}

fn synthetic(documents: usize, words: usize, topics: usize, length: usize) -> Vec<Vec<(u32, u32)>> {
    let lda = SyntheticLda { documents, words, topics, length, seed: 5, ..Default::default() }.generator();
    lda.rows().map(|row| row.into_iter().map(|(word, count)| (word as u32, count)).collect()).collect()
}

/// Uneven share of the documents for this peer.
fn share(cluster: &Cluster, documents: &[Vec<(u32, u32)>], vocabulary: u32) -> hemiola_cluster::Result<Corpus> {
    let cut = |rank: usize| documents.len() * rank * rank / (cluster.size() * cluster.size());
    let mut builder = Corpus::builder(words(vocabulary));
    for document in &documents[cut(cluster.rank().index())..cut(cluster.rank().index() + 1)] {
        builder.push(document.iter().copied())?;
    }
    builder.gather(cluster)
}

/// All results of training, as bits.
type Bits = (Vec<(u32, u32, u32)>, Vec<u64>, u64, Vec<u64>);

fn bits(trained: &Fit<LdaModel>) -> Bits {
    let model = &trained.model;
    let alpha = model.alpha().iter().map(|alpha| alpha.to_bits()).collect();
    let objectives = trained.report.progress.iter().map(|progress| progress.objective.to_bits()).collect();
    (model.rows().iter().collect(), alpha, model.beta().to_bits(), objectives)
}

fn trained_by(peers: usize, workers: usize, documents: &[Vec<(u32, u32)>], builder: &LdaBuilder) -> Bits {
    let estimator = builder.clone().build().unwrap();
    let all = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
        let corpus = share(cluster, documents, 120)?;
        Ok(bits(&estimator.fit(cluster, &corpus)?))
    });
    let all = all.unwrap();
    assert!(all.iter().all(|other| *other == all[0]), "peers differ");
    all[0].clone()
}

#[test]
fn the_same_partitions_give_the_same_bits_on_any_cluster() {
    let documents = synthetic(90, 120, 6, 40);
    for sampler in SAMPLERS {
        let builder = TopicModelling::builder(12).sampler(sampler).parts(4).sweeps(7).learn_every(3).learn_beta(true);
        let alone = trained_by(1, 1, &documents, &builder);
        for (peers, workers) in [(1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1)] {
            assert!(trained_by(peers, workers, &documents, &builder) == alone, "{sampler:?}: {peers} by {workers}");
        }
        assert!(trained_by(1, 1, &documents, &builder.clone().seed(2)) != alone);
    }
    // Fewer partitions than peers: some peers are idle.
    let builder = TopicModelling::builder(5).parts(2).sweeps(3);
    assert!(trained_by(3, 1, &documents, &builder) == trained_by(1, 1, &documents, &builder));
}

#[test]
fn resumed_training_is_bit_identical() {
    let documents = synthetic(80, 120, 6, 30);
    let folder = tempfile::tempdir().unwrap();
    for sampler in SAMPLERS {
        let path = folder.path().join(format!("{sampler:?}"));
        let run = |peers: usize, passes: u32, resume: bool| {
            let builder = TopicModelling::builder(10).sampler(sampler).sweeps(passes).learn_every(2);
            let estimator = builder.build().unwrap();
            let all = hemiola_cluster::standalone(peers).workers(2).run(|cluster| {
                let corpus = share(cluster, &documents, 120)?;
                let options = FitOptions::new()
                    .with_checkpoints(Checkpoints::new(&path).interval(CheckpointInterval::Epochs(2)).resume(resume));
                let trained = estimator.fit_with(cluster, &corpus, None, options)?;
                // The folder also holds the model.
                let loaded = LdaModel::load(cluster, &path)?;
                assert_eq!(loaded.rows(), trained.model.rows());
                Ok(bits(&trained))
            });
            all.unwrap().remove(0)
        };
        let whole = run(1, 9, false);
        let half = run(1, 5, false);
        assert_eq!(half.3, whole.3[..5]);
        // On another number of peers: partitions are those of the checkpoint.
        assert!(run(2, 9, true) == whole, "{sampler:?}");
        // No sweeps are left.
        assert!(run(1, 9, true) == whole, "{sampler:?}");
    }
}

#[test]
fn resuming_with_other_data_or_settings_is_rejected() {
    let documents = synthetic(40, 120, 4, 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let run = |documents: &[Vec<(u32, u32)>], topics: u32, resume: bool| {
        let estimator = TopicModelling::builder(topics).sweeps(3).build().unwrap();
        let all = hemiola_cluster::standalone(1).run(|cluster| {
            let corpus = share(cluster, documents, 120)?;
            let options = FitOptions::new().with_checkpoints(Checkpoints::new(&path).resume(resume));
            estimator.fit_with(cluster, &corpus, None, options).map(|_| ())
        });
        all.map_err(|error| error.to_string())
    };
    run(&documents, 4, false).unwrap();
    assert!(run(&documents, 5, true).unwrap_err().contains("topics was 4 and is 5"));
    assert!(run(&documents[1..], 4, true).unwrap_err().contains("other data"));
}

/// Cosine of each true topic with its best match among those found, one to one.
fn matched(truth: &[Vec<f64>], model: &LdaModel) -> Vec<f64> {
    let found: Vec<Vec<f64>> = (0..model.topics())
        .map(|topic| (0..model.words() as u32).map(|word| model.probability(word, topic)).collect())
        .collect();
    let dot = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(left, right)| left * right).sum::<f64>();
    let cosine = |left: &[f64], right: &[f64]| dot(left, right) / (dot(left, left) * dot(right, right)).sqrt();
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (index, topic) in truth.iter().enumerate() {
        pairs.extend(found.iter().enumerate().map(|(other, found)| (cosine(topic, found), index, other)));
    }
    pairs.sort_by(|left, right| right.0.total_cmp(&left.0));
    let (mut best, mut taken) = (vec![0.0; truth.len()], vec![false; found.len()]);
    for (cosine, index, other) in pairs {
        if best[index] == 0.0 && !taken[other] {
            best[index] = cosine;
            taken[other] = true;
        }
    }
    best
}

#[test]
fn planted_topics_are_found() {
    let lda =
        SyntheticLda { documents: 600, words: 300, topics: 8, length: 80, seed: 11, ..Default::default() }.generator();
    let truth: Vec<Vec<f64>> = (0..8).map(|topic| lda.topic(topic)).collect();
    let documents: Vec<Vec<(u32, u32)>> =
        lda.rows().map(|row| row.into_iter().map(|(word, count)| (word as u32, count)).collect()).collect();
    for sampler in SAMPLERS {
        let estimator = TopicModelling::builder(8).sampler(sampler).sweeps(150).build().unwrap();
        let found = hemiola_cluster::standalone(1).workers(2).run(|cluster| {
            let trained = estimator.fit(cluster, &share(cluster, &documents, 300)?)?;
            Ok(matched(&truth, &trained.model))
        });
        let found = found.unwrap().remove(0);
        assert!(found.iter().all(|cosine| *cosine >= 0.95), "{sampler:?}: {found:.3?}");
    }
}

#[test]
fn metropolis_hastings_reaches_the_likelihood_of_exact_sampling() {
    let documents = synthetic(150, 120, 6, 40);
    // The mean over a few sweeps and seeds, to reduce noise.
    let reached = |sampler: LdaSampler| {
        let of_seed = |seed: u64| {
            let estimator = TopicModelling::builder(6).sampler(sampler).seed(seed).sweeps(500).build().unwrap();
            let found = hemiola_cluster::standalone(1).run(|cluster| {
                let trained = estimator.fit(cluster, &share(cluster, &documents, 120)?)?;
                Ok(trained.report.progress[400..].iter().map(|progress| progress.objective).sum::<f64>() / 100.0)
            });
            found.unwrap()[0]
        };
        (1..=3).map(of_seed).sum::<f64>() / 3.0
    };
    let (exact, sparse, proposals) =
        (reached(LdaSampler::Exact), reached(LdaSampler::Sparse), reached(LdaSampler::MetropolisHastings));
    assert!((proposals / exact - 1.0).abs() < 0.003, "{proposals} and {exact}");
    assert!((sparse / exact - 1.0).abs() < 0.003, "{sparse} and {exact}");
}

fn fitted(documents: Vec<Vec<(u32, u32)>>, vocabulary: u32, builder: LdaBuilder) -> Fit<LdaModel> {
    let corpus = Corpus::new(documents, words(vocabulary)).unwrap();
    let estimator = builder.build().unwrap();
    hemiola_cluster::standalone(1).workers(2).run(|cluster| estimator.fit(cluster, &corpus)).unwrap().remove(0)
}

#[test]
fn unusual_corpora_are_trained() {
    for sampler in [LdaSampler::Auto, LdaSampler::Exact, LdaSampler::Sparse, LdaSampler::MetropolisHastings] {
        let builder = |topics: u32| TopicModelling::builder(topics).sampler(sampler).sweeps(3).learn_every(2);
        // A single topic.
        let tokens =
            |documents: &[Vec<(u32, u32)>]| documents.iter().flatten().map(|(_, count)| u64::from(*count)).sum();
        let documents = synthetic(20, 50, 3, 10);
        let all: u64 = tokens(&documents);
        let one = fitted(documents.clone(), 50, builder(1));
        assert_eq!(one.model.totals(), [all]);
        // More topics than tokens, and empty documents, also the last.
        let few = fitted(vec![vec![], vec![(3, 2)], vec![], vec![(0, 1)], vec![]], 9, builder(700));
        assert_eq!((few.model.tokens(), few.model.count(3), few.model.documents()), (3, 2, 5));
        // More topics than 16 bits can represent.
        let many = fitted(documents, 50, builder(70_000));
        assert_eq!((many.model.tokens(), many.model.topics()), (all, 70_000));
        assert!(few.report.result.objective.is_finite() && many.report.result.objective.is_finite());
    }
}

#[test]
fn counts_above_16_bits_are_counted() {
    for sampler in SAMPLERS {
        let long = vec![vec![(0, 700_000), (1, 200_000), (2, 100_000)], vec![(1, 5), (2, 1)], vec![(0, 80_000)]];
        let builder = TopicModelling::builder(3).sampler(sampler).sweeps(2);
        let trained = fitted(long, 3, builder);
        let model = &trained.model;
        assert_eq!((model.count(0), model.count(1), model.count(2)), (780_000, 200_005, 100_001));
        assert_eq!(model.tokens(), 1_080_006);
        assert!(model.rows().iter().any(|(_, _, count)| count > 65_535));
        assert!(trained.report.result.objective.is_finite());
    }
}

#[test]
fn the_validation_set_selects_the_model() {
    let estimator = TopicModelling::builder(6).sweeps(12).validation(0.2).build().unwrap();
    let corpus = Corpus::new(synthetic(120, 120, 6, 40), words(120)).unwrap();
    let trained = hemiola_cluster::standalone(1).run(|cluster| estimator.fit(cluster, &corpus)).unwrap().remove(0);
    let perplexities: Vec<f64> =
        trained.report.progress.iter().map(|progress| progress.validation.as_ref().unwrap()["perplexity"]).collect();
    let best = perplexities.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((trained.report.result.validation.unwrap()["perplexity"] - best).abs() < 1e-9 && best < perplexities[0]);
    assert!(trained.report.data.validation > 0);
}
