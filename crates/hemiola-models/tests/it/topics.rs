//! Topic models: reading documents, inference and evaluation, and their errors.

use hemiola_array::synthetic;
use hemiola_cluster::Cluster;
use hemiola_core::Seed;
use hemiola_core::rng::PhiloxRng;
use hemiola_models::lda::data::{self, CorpusFormat, CorpusReadOptions};
use hemiola_models::lda::{
    Corpus, InferenceSettings, LdaModel, LdaVocabulary, PyLdaVisWriter, Tokenizer, VocabularyFilter, WordTopics,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Words and counts of all documents, in order, and names of words.
type Whole = (Vec<Vec<(u32, u32)>>, Vec<String>);

/// Reads on `peers` peers.
fn read(peers: usize, options: &CorpusReadOptions, file: &Path) -> hemiola_cluster::Result<Whole> {
    let found = hemiola_cluster::standalone(peers).workers(2).run(|cluster| {
        let documents = data::read(cluster, options, file.to_str().unwrap())?;
        let corpus = &documents.corpus;
        let pairs = |(words, counts): (&[u32], &[u32])| words.iter().copied().zip(counts.iter().copied()).collect();
        let own: Vec<Vec<(u32, u32)>> = corpus.iter().map(pairs).collect();
        let term = |word: u32| corpus.vocabulary().term(word).into_owned();
        let terms: Vec<String> = (0..corpus.words() as u32).map(term).collect();
        assert_eq!(corpus.documents(), cluster.all_gather(own.len())?.iter().sum::<usize>());
        Ok((own, terms))
    })?;
    let terms: Vec<String> = found[0].1.clone();
    assert!(found.iter().all(|(_, other)| *other == terms), "all peers have the same words");
    Ok((found.into_iter().flat_map(|(own, _)| own).collect(), terms))
}

fn refused(options: &CorpusReadOptions, file: &Path) -> String {
    let errors: BTreeSet<String> = (1..3).map(|peers| read(peers, options, file).unwrap_err().to_string()).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.into_iter().next().unwrap()
}

fn written(lab: &TempDir, name: &str, text: &str) -> std::path::PathBuf {
    let path = lab.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn all_formats_agree_on_any_number_of_peers() {
    let lab = tempfile::tempdir().unwrap();
    let docword = written(&lab, "docword.x.txt", "4\n3\n4\n1 1 2\n1 3 1\n4 2 70000\n4 3 1\n");
    let libsvm = written(&lab, "x.libsvm", "1 1:2 3:1\n1\n1\n1 2:70000 3:1\n");
    let ldac = written(&lab, "x.ldac", "2 0:2 2:1\n0\n0\n2 1:70000 2:1\n");
    let documents = vec![vec![(0, 2), (2, 1)], vec![], vec![], vec![(1, 70_000), (2, 1)]];
    for peers in 1..4 {
        for file in [&docword, &libsvm, &ldac] {
            let (found, terms) = read(peers, &CorpusReadOptions::default(), file).unwrap();
            assert_eq!((found, terms), (documents.clone(), vec!["1".into(), "2".into(), "3".into()]), "{file:?}");
        }
    }
    let zero = written(&lab, "zero.libsvm", "1 0:2 2:1\n1\n1\n1 1:70000 2:1\n");
    let options = CorpusReadOptions { zero_based: true, ..CorpusReadOptions::default() };
    assert_eq!(read(2, &options, &zero).unwrap().0, documents);
}

#[test]
fn a_vocabulary_may_have_unused_words() {
    let lab = tempfile::tempdir().unwrap();
    let docword = written(&lab, "docword.x.txt", "2\n3\n3\n1 1 2\n1 3 1\n2 3 4\n");
    let named = |text: &str| {
        let file = written(&lab, "vocab.txt", text);
        CorpusReadOptions { vocabulary: Some(file.to_str().unwrap().to_owned()), ..CorpusReadOptions::default() }
    };
    for peers in 1..4 {
        let (found, terms) = read(peers, &named("sea\r\nsail\nship\n"), &docword).unwrap();
        assert_eq!((found[0].as_slice(), terms.join(" ").as_str()), (&[(0, 2), (2, 1)][..], "sea sail ship"));
        let (_, terms) = read(peers, &named("sea\nsail\nship\nanchor\nwind\n"), &docword).unwrap();
        assert_eq!(terms.len(), 5);
    }
    let unused = |text: &str| {
        let options = named(text);
        let file = docword.to_str().unwrap();
        hemiola_cluster::standalone(2).run(|cluster| Ok(data::read(cluster, &options, file)?.unused)).unwrap()
    };
    assert_eq!(unused("sea\nsail\nship\nanchor\nwind\n"), [3, 3], "sail, anchor and wind never occur");
    let short = refused(&named("sea\nsail\n"), &docword);
    assert!(short.contains("the vocabulary has 2 words, but ids go up to word 3"), "{short}");
}

#[test]
fn text_gives_the_same_corpus_on_any_number_of_peers() {
    let lab = tempfile::tempdir().unwrap();
    // Long enough for several units, with empty lines and Latin-1.
    let mut bytes = Vec::new();
    for line in 0..6000_u32 {
        match line % 4 {
            0 => bytes.extend(format!("The ship's crew sails ship{} {line}\n", line % 7).as_bytes()),
            1 => bytes.extend(b"caf\xe9 and bread, and SHIP\r\n"),
            2 => bytes.extend("café or bread\n".as_bytes()),
            _ => bytes.extend(b"\n"),
        }
    }
    let path = lab.path().join("text.txt");
    fs::write(&path, &bytes).unwrap();
    let one = read(1, &CorpusReadOptions::default(), &path).unwrap();
    assert_eq!(one.0.len(), 6000);
    // Sorted by count, then by text.
    assert_eq!(one.1[..4], ["bread", "café", "ship", "crew"].map(String::from));
    assert_eq!((one.0[1].clone(), one.0[3].len()), (vec![(0, 1), (1, 1), (2, 1)], 0));
    for peers in 2..5 {
        assert_eq!(read(peers, &CorpusReadOptions::default(), &path).unwrap(), one);
    }
    // Compressed text is one unit, and still distributed evenly.
    let packed = lab.path().join("text.txt.zst");
    fs::write(&packed, zstd_of(&bytes)).unwrap();
    assert_eq!(read(3, &CorpusReadOptions::default(), &packed).unwrap(), one);
    let shares = hemiola_cluster::standalone(3).run(|cluster| {
        Ok(data::read(cluster, &CorpusReadOptions::default(), packed.to_str().unwrap())?.corpus.entries())
    });
    assert!(shares.unwrap().iter().all(|entries| *entries > 3000), "each peer has a share");
}

/// Stored, not compressed: a frame of raw blocks.
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    // Magic number; a descriptor without content size and with a window of 1 MiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    let blocks: Vec<&[u8]> = bytes.chunks(100_000).collect();
    for (index, block) in blocks.iter().enumerate() {
        let last = u32::from(index + 1 == blocks.len());
        let header = (block.len() as u32) << 3 | last;
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(*block);
    }
    frame
}

#[test]
fn words_are_filtered_by_frequency() {
    let lab = tempfile::tempdir().unwrap();
    let text = written(&lab, "text.txt", "aa bb cc\naa bb bb bb\naa dd\naa\n");
    let words = |filter: VocabularyFilter| {
        let tokenizer = Some(Tokenizer { stop_words: BTreeSet::new(), ..Tokenizer::default() });
        let options = CorpusReadOptions { filter, tokenizer, ..CorpusReadOptions::default() };
        read(2, &options, &text).unwrap().1.join(" ")
    };
    let all = VocabularyFilter::all();
    assert_eq!(words(all), "aa bb cc dd");
    assert_eq!(words(VocabularyFilter::of_text()), "aa bb");
    assert_eq!(words(VocabularyFilter { min_count: Some(4), ..all }), "aa bb");
    assert_eq!(words(VocabularyFilter { min_documents: Some(3), ..all }), "aa");
    assert_eq!(words(VocabularyFilter { max_share: Some(0.5), ..all }), "bb cc dd");
    let nothing = CorpusReadOptions {
        filter: VocabularyFilter { min_count: Some(100), ..all },
        ..CorpusReadOptions { format: Some(CorpusFormat::Text), ..CorpusReadOptions::default() }
    };
    assert!(refused(&nothing, &text).contains("no words to train on"));
    let share =
        CorpusReadOptions { filter: VocabularyFilter { max_share: Some(0.0), ..all }, ..CorpusReadOptions::default() };
    assert!(refused(&share, &text).contains("`max_share` is `0`"));

    // Bags of words keep their word ids.
    let docword = written(&lab, "docword.y.txt", "3\n4\n5\n1 1 1\n1 2 1\n2 2 1\n2 4 9\n3 2 1\n");
    let vocabulary = written(&lab, "vocab.y.txt", "one\nthe\nthree\nfour\n");
    let options = CorpusReadOptions {
        vocabulary: Some(vocabulary.to_str().unwrap().to_owned()),
        stop_words: BTreeSet::from(["the".to_owned()]),
        filter: VocabularyFilter { min_count: Some(2), ..VocabularyFilter::default() },
        ..CorpusReadOptions::default()
    };
    let (found, terms) = read(2, &options, &docword).unwrap();
    assert_eq!((found, terms.len()), (vec![vec![], vec![(3, 9)], vec![]], 4));
    let nameless = refused(&CorpusReadOptions { vocabulary: None, ..options }, &docword);
    assert!(nameless.contains("stop words need names"), "{nameless}");
}

#[test]
fn malformed_documents_are_rejected() {
    let lab = tempfile::tempdir().unwrap();
    let options = CorpusReadOptions::default();
    let fractions = written(&lab, "x.libsvm", "1 1:2 3:1.5\n");
    assert!(refused(&options, &fractions).contains("document `1` has the word `3` `1.5` times"));
    let negative = written(&lab, "y.libsvm", "1 1:2 3:1\n1 2:-1\n");
    assert!(refused(&options, &negative).contains("document `2` has the word `2` `-1` times"));
    let large = written(&lab, "large.libsvm", "1 1:16777217\n");
    assert!(refused(&options, &large).contains("counts must be whole numbers from 0 to 16777215"));
    let large = written(&lab, "large.ldac", "1 0:16777217\n1 5:1\n");
    assert!(refused(&options, &large).contains("counts"), "{}", refused(&options, &large));
    let zeros = written(&lab, "docword.z.txt", "2\n3\n2\n1 1 0\n2 3 0\n");
    assert!(refused(&options, &zeros).contains("no words to train on"));
    let beyond = written(&lab, "docword.b.txt", "2\n3\n1\n1 4 1\n");
    assert!(refused(&options, &beyond).contains("a word from 1 to 3"));
    let array = written(&lab, "m.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n");
    assert!(refused(&options, &array).contains("docword, libsvm, ldac or text"));
    // Counts of 0 are ignored.
    let some = written(&lab, "docword.s.txt", "3\n3\n3\n1 1 0\n2 3 2\n3 1 1\n");
    assert_eq!(read(2, &options, &some).unwrap().0, vec![vec![], vec![(2, 2)], vec![(0, 1)]]);
    // Malformed lines may be skipped, and are reported.
    let bad = written(&lab, "docword.c.txt", "3\n3\n3\n1 1 1\n2 x 2\n3 1 1\n");
    assert!(refused(&options, &bad).contains("expected"));
    let skip = CorpusReadOptions { skip_bad_lines: 1, ..CorpusReadOptions::default() };
    assert_eq!(read(2, &skip, &bad).unwrap().0, vec![vec![(0, 1)], vec![], vec![(0, 1)]]);
}

/// Synthetic data with known topics.
fn planted() -> synthetic::LdaGenerator {
    synthetic::SyntheticLda { documents: 400, words: 300, topics: 5, length: 80, seed: 3, ..Default::default() }
        .generator()
}

fn vocabulary() -> Arc<LdaVocabulary> {
    Arc::new(LdaVocabulary::named((0..300).map(|word| format!("w{word}").into()).collect()))
}

/// Documents of this peer.
fn documents(cluster: &Cluster, numbers: std::ops::Range<usize>) -> hemiola_cluster::Result<Corpus> {
    let (set, mut builder) = (planted(), Corpus::builder(vocabulary()));
    let (peers, rank, count) = (cluster.size(), cluster.rank().index(), numbers.end - numbers.start);
    for document in count * rank / peers..count * (rank + 1) / peers {
        builder.push(set.row(numbers.start + document).into_iter().map(|(word, count)| (word as u32, count)))?;
    }
    builder.gather(cluster)
}

/// Model with the true topics.
fn truth() -> LdaModel {
    let set = planted();
    let topics: Vec<Vec<f64>> = (0..5).map(|topic| set.topic(topic)).collect();
    let mut rows = WordTopics::default();
    for word in 0..300 {
        rows.push((0_u32..).zip(&topics).map(|(topic, words)| (topic, (words[word] * 100_000.0).round() as u32)));
    }
    LdaModel::new(vec![0.1; 5], 0.01, rows, vocabulary(), 400).unwrap()
}

#[test]
fn inference_recovers_the_true_mixture() {
    let found = hemiola_cluster::standalone(1).run(|cluster| {
        let corpus = documents(cluster, 0..60)?;
        truth().infer(cluster, &corpus, 0..corpus.len(), InferenceSettings::default())
    });
    let (set, found) = (planted(), &found.unwrap()[0]);
    let mut error = 0.0;
    for (document, mixture) in found.iter().enumerate() {
        assert!((mixture.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(mixture.unseen, 0);
        let truth = set.mixture(document);
        error += mixture.shares.iter().zip(truth).map(|(share, truth)| (share - truth).abs()).sum::<f64>() / 60.0;
    }
    // Limit of eighty tokens: the standard deviation of a share of one half is 0.06.
    assert!(error < 0.15, "{error}");
}

#[test]
fn inference_and_evaluation_are_bit_identical_on_any_cluster() {
    let of = |peers: usize, workers: usize| {
        let found = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
            let (model, corpus) = (truth(), documents(cluster, 300..400)?);
            let mixtures = model.infer(cluster, &corpus, 0..corpus.len(), InferenceSettings::default())?;
            let completion = model.completion(cluster, &corpus, InferenceSettings::default())?;
            Ok((mixtures, completion, model.coherence(cluster, &corpus, 10)?))
        });
        let found = found.unwrap();
        assert!(found.iter().all(|(_, completion, npmi)| (completion, npmi) == (&found[0].1, &found[0].2)));
        let (completion, npmi) = (found[0].1, found[0].2.clone());
        (found.into_iter().flat_map(|(mixtures, ..)| mixtures).collect::<Vec<_>>(), completion, npmi)
    };
    let one = of(1, 1);
    assert_eq!(one, of(1, 3));
    assert_eq!(one, of(3, 2));
    // Another seed gives another sample.
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let (model, corpus) = (truth(), documents(cluster, 300..400)?);
            let other = model.infer(
                cluster,
                &corpus,
                0..corpus.len(),
                InferenceSettings { seed: 2, ..InferenceSettings::default() },
            )?;
            assert_ne!(other, one.0);
            assert!(
                model
                    .infer(cluster, &corpus, 0..1, InferenceSettings { sweeps: 0, ..InferenceSettings::default() })
                    .is_err()
            );
            Ok(())
        })
        .unwrap();
}

#[test]
fn evaluation_separates_good_and_bad_topics() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let (train, test) = (documents(cluster, 0..300)?, documents(cluster, 300..400)?);
            let good = truth();
            // The same words assigned to topics at random.
            let (values, mut rows) = (PhiloxRng::new(5), WordTopics::default());
            for word in 0..300 {
                let count = good.count(word) as u32 / 5;
                rows.push(
                    (0..5).map(|topic| (topic, count + values.random_below(u64::from(word), topic.into(), 20) as u32)),
                );
            }
            let bad = LdaModel::new(vec![0.1; 5], 0.01, rows, vocabulary(), 400)?;
            let perplexity = |model: &LdaModel| model.perplexity(cluster, &test, Seed(1)).unwrap();
            let (of_good, of_bad) = (perplexity(&good), perplexity(&bad));
            assert!(of_good < 0.7 * of_bad && of_bad < 300.0, "{of_good} and {of_bad}");
            // The bound by the true mixture, without inference.
            let (set, mut sum, mut tokens) = (planted(), 0.0, 0.0);
            let topics: Vec<Vec<f64>> = (0..5).map(|topic| set.topic(topic)).collect();
            for document in 300..400 {
                let mixture = set.mixture(document);
                for (word, count) in set.row(document) {
                    let chance: f64 = mixture.iter().zip(&topics).map(|(share, words)| share * words[word]).sum();
                    sum -= f64::from(count) * chance.ln();
                    tokens += f64::from(count);
                }
            }
            let best: f64 = f64::exp(sum / tokens);
            assert!(of_good > 0.95 * best && of_good < 1.15 * best, "{of_good} and {best}");
            let mean = |model: &LdaModel| {
                let all = model.coherence(cluster, &train, 10).unwrap();
                all.iter().map(|topic| topic.unwrap()).sum::<f64>() / all.len() as f64
            };
            assert!(mean(&good) > mean(&bad) + 0.05, "{} and {}", mean(&good), mean(&bad));
            assert!(good.coherence(cluster, &train, 1).is_err() && good.coherence(cluster, &train, 65).is_err());
            Ok(())
        })
        .unwrap();
}

#[test]
fn coherence_is_the_mean_of_pairs() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let words = Arc::new(LdaVocabulary::numbered(4));
            let mut rows = WordTopics::default();
            rows.push([(0, 9)]);
            rows.push([(0, 8)]);
            rows.push([(1, 7)]);
            rows.push([]);
            let model = LdaModel::new(vec![0.1; 3], 0.1, rows, words.clone(), 4)?;
            // Five documents, one of them empty, on two peers.
            let mut builder = Corpus::builder(words);
            if cluster.is_root() {
                builder.push([(0, 1), (1, 5)])?;
                builder.push([])?;
                builder.push([(0, 2), (1, 1), (3, 1)])?;
            } else {
                builder.push([(0, 1), (2, 1)])?;
                builder.push([(3, 1)])?;
            }
            let found = model.coherence(cluster, &builder.gather(cluster)?, 10)?;
            // Word 0 is in 3 of 4 documents, word 1 in 2, both in 2.
            let expected = (0.5_f64 / (0.75 * 0.5)).ln() / -(0.5_f64.ln());
            assert!((found[0].unwrap() - expected).abs() < 1e-12, "{found:?}");
            assert_eq!(found[1..], [None, None]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn unseen_words_are_ignored_and_counted() {
    let lab = tempfile::tempdir().unwrap();
    let text = written(&lab, "new.txt", "w1 w2 w2 unheard of w299's\n\nunheard\nw1 w9999 the\n");
    let docword = written(&lab, "docword.new.txt", "2\n400\n3\n1 1 2\n1 350 7\n2 400 1\n");
    let other = written(&lab, "docword.other.txt", "3\n3\n3\n1 1 2\n1 2 7\n2 3 1\n");
    let vocabulary = written(&lab, "vocab.txt", "w5\nunheard\nw6\n");
    let named =
        CorpusReadOptions { vocabulary: Some(vocabulary.to_str().unwrap().into()), ..CorpusReadOptions::default() };
    for peers in 1..4 {
        let unseen = |options: &CorpusReadOptions, file: &Path| {
            let found = hemiola_cluster::standalone(peers).run(|cluster| {
                let model = truth();
                let known = data::read_for_model(cluster, options, file.to_str().unwrap(), &model)?;
                let mixtures =
                    model.infer(cluster, &known.corpus, 0..known.corpus.len(), InferenceSettings::default())?;
                assert_eq!(mixtures.len(), known.unseen.len());
                Ok(mixtures
                    .iter()
                    .zip(&known.unseen)
                    .map(|(mixture, unseen)| (mixture.tokens, unseen + mixture.unseen))
                    .collect::<Vec<_>>())
            });
            found.unwrap().concat()
        };
        // `of` and `the` are stop words, not unknown words.
        assert_eq!(unseen(&CorpusReadOptions::default(), &text), [(4, 1), (0, 0), (0, 1), (1, 1)]);
        assert_eq!(unseen(&CorpusReadOptions::default(), &docword), [(2, 7), (0, 1)]);
        assert_eq!(unseen(&named, &other), [(2, 7), (1, 0), (0, 0)]);
    }
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let mut rows = WordTopics::default();
            rows.push([(0, 1)]);
            let numbered = LdaModel::new(vec![0.1], 0.1, rows, Arc::new(LdaVocabulary::numbered(1)), 1)?;
            let refused =
                data::read_for_model(cluster, &CorpusReadOptions::default(), text.to_str().unwrap(), &numbered);
            assert!(refused.unwrap_err().to_string().contains("has no vocabulary"));
            // A document without known words gets the prior mixture.
            let model = truth();
            let empty = Corpus::new([vec![]], vocabulary_of(&model))?;
            let mixture = &model.infer(cluster, &empty, 0..1, InferenceSettings::default())?[0];
            assert!(mixture.shares.iter().all(|share| (share - 0.2).abs() < 1e-12));
            assert!(
                model
                    .completion(cluster, &empty, InferenceSettings::default())
                    .unwrap_err()
                    .to_string()
                    .contains("left to predict")
            );
            Ok(())
        })
        .unwrap();
}

fn vocabulary_of(model: &LdaModel) -> Arc<LdaVocabulary> {
    model.vocabulary().clone()
}

#[test]
fn a_document_of_a_million_tokens_is_folded_in() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let model = truth();
            let words: Vec<(u32, u32)> = (0..300).map(|word| (word, if word == 7 { 700_000 } else { 1004 })).collect();
            let corpus = Corpus::new([words], vocabulary())?;
            assert!(corpus.tokens() > 1_000_000);
            let quick = InferenceSettings { sweeps: 2, burn_in: 1, ..InferenceSettings::default() };
            let mixture = &model.infer(cluster, &corpus, 0..1, quick)?[0];
            assert_eq!(mixture.tokens + mixture.unseen, corpus.tokens());
            assert!((mixture.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            Ok(())
        })
        .unwrap();
}

#[test]
fn one_topic_and_more_topics_than_tokens_are_valid() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let words = Arc::new(LdaVocabulary::numbered(3));
            let corpus = Corpus::new([vec![(0, 2), (1, 2)], vec![(1, 4)]], words.clone())?;
            for topics in [1, 50] {
                let mut rows = WordTopics::default();
                rows.push([(0, 2)]);
                rows.push([(topics - 1, 6)]);
                rows.push([]);
                let model = LdaModel::new(vec![0.1; topics as usize], 0.01, rows, words.clone(), 2)?;
                let mixture = &model.infer(cluster, &corpus, 0..1, InferenceSettings::default())?[0];
                assert!((mixture.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                assert!(model.perplexity(cluster, &corpus, Seed(1))?.is_finite());
                assert_eq!(model.top_words(10, 1.0).len(), topics as usize);
                assert_eq!(model.sizes().iter().filter(|size| **size > 0.0).count(), if topics == 1 { 1 } else { 2 });
                let sum: f64 = (0..3).map(|word| model.probability(word, 0)).sum();
                // The word that never occurs has a probability, too, but is not part of the sum to
                // 1.
                assert!((sum - model.probability(2, 0) - 1.0).abs() < 1e-12, "{sum}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn top_words_are_ranked_by_relevance() {
    let mut rows = WordTopics::default();
    rows.push([(0, 100), (1, 100)]); // everywhere
    rows.push([(0, 50)]);
    rows.push([(1, 50), (2, 1)]);
    rows.push([(0, 1)]);
    let words = Arc::new(LdaVocabulary::numbered(4));
    let model = LdaModel::new(vec![0.1; 4], 0.01, rows, words, 9).unwrap();
    let list = |lambda: f64| -> Vec<Vec<u32>> {
        let all = model.top_words(2, lambda).into_iter();
        all.map(|words| words.into_iter().map(|word| word.word).collect()).collect()
    };
    assert_eq!(list(1.0), [vec![0, 1], vec![0, 2], vec![2], vec![]]);
    assert_eq!(list(0.0)[0], [3, 1], "by lift: both are only here, and the rarer one gains more by beta");
}

#[test]
fn pyldavis_export_is_complete() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let words = Arc::new(LdaVocabulary::named(["a \"b\"", "c", "d"].map(Box::from).to_vec()));
            let mut rows = WordTopics::default();
            rows.push([(0, 3)]);
            rows.push([]);
            rows.push([(0, 1), (1, 2)]);
            let model = LdaModel::new(vec![0.1; 2], 0.01, rows, words.clone(), 2)?;
            let corpus = Corpus::new([vec![(0, 2), (2, 2)], vec![], vec![(2, 1)]], words)?;
            let mut file = PyLdaVisWriter::begin(Vec::new(), &model).unwrap();
            file.documents(&model.infer(cluster, &corpus, 0..2, InferenceSettings::default())?).unwrap();
            file.documents(&model.infer(cluster, &corpus, 2..3, InferenceSettings::default())?).unwrap();
            let text = file.finish().unwrap();
            let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(json["vocab"], serde_json::json!(["a \"b\"", "d"]));
            assert_eq!(json["term_frequency"], serde_json::json!([3, 3]));
            assert_eq!(json["doc_lengths"], serde_json::json!([4, 1]));
            for (field, rows) in [("topic_term_dists", 2), ("doc_topic_dists", 2)] {
                let lists = json[field].as_array().unwrap();
                assert_eq!(lists.len(), rows);
                for list in lists {
                    let sum: f64 = list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).sum();
                    assert!((sum - 1.0).abs() < 1e-6, "{field}: {sum}");
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn synthetic_documents_are_the_same_on_any_number_of_peers() {
    let digest = |peers: usize| {
        hemiola_cluster::standalone(peers)
            .run(|cluster| data::synthetic(cluster, 100, Seed(1))?.digest(cluster))
            .unwrap()[0]
    };
    assert_eq!(digest(1), digest(3));
}
