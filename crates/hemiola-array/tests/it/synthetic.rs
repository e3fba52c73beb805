//! Synthetic sets have the truth they claim, depend only on the seed, and round-trip through text.

use crate::{file, ratings};
use hemiola_array::read::{ByteRange, Csv, Docword, Ldac, Libsvm, MatrixMarket};
use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
use hemiola_array::synthetic::{MfGenerator, SyntheticLasso, SyntheticLda, SyntheticLogistic, SyntheticMf, text};

fn set() -> SyntheticMf {
    SyntheticMf { users: 400, items: 300, entries: 10_000, rank: 4, noise: 0.2, seed: 7, ..SyntheticMf::default() }
}

fn mf() -> MfGenerator {
    set().generator()
}

#[test]
fn ratings_have_the_rank_the_noise_and_the_skew_they_claim() {
    let mf = mf();
    let (w, h) = mf.truth().unwrap();
    let (mut squares, mut builder) = (0.0, SparseBuilder::new());
    for ([user, item], rating) in mf.entries() {
        let product: f32 = w.row(user).iter().zip(h.row(item)).map(|(w, h)| w * h).sum();
        squares += f64::from(rating - 3.5 - product).powi(2);
        builder.push([user, item], rating);
    }
    let count = builder.len() as f64;
    // The standard deviation of the RMSE is 0.2 / sqrt(2 * 10000) = 0.0014.
    assert_eq!(builder.len(), 10_000);
    assert!(((squares / count).sqrt() - 0.2).abs() < 0.007, "{}", (squares / count).sqrt());
    let block = builder.finish(mf.shape(), [0, 1], DuplicatePolicy::Error).unwrap();
    let share = block.histogram(1, 300).share_of_busiest(0.01);
    assert!(share > 0.05, "the busiest 1 % of items have {share} of the ratings");
    let even = SyntheticMf { user_skew: 0.0, item_skew: 0.0, ..set() }.generator();
    assert!(even.row(3).len().abs_diff(25) <= 1);
}

#[test]
fn rows_do_not_depend_on_the_order_of_generation() {
    let forward: Vec<_> = (0..400).map(|user| mf().row(user)).collect();
    let mut backward: Vec<_> = (0..400).rev().map(|user| mf().row(user)).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    assert_ne!(forward[0], SyntheticMf { seed: 8, ..set() }.generator().row(0));
}

#[test]
fn the_number_of_ratings_is_as_requested() {
    // Sparse, dense, so skewed that the busiest users have rated everything, and full.
    for (users, items, entries, skew) in
        [(1000, 500, 50_000, 0.6), (40, 30, 1000, 0.6), (300, 20, 2000, 2.5), (7, 9, 63, 0.6), (1000, 50, 17, 0.0)]
    {
        for seed in 0..5 {
            let set = SyntheticMf { users, items, entries, rank: 2, user_skew: skew, seed, ..SyntheticMf::default() };
            assert_eq!(set.generator().entries().count(), entries, "{users} {items} {entries} {seed}");
        }
    }
}

#[test]
fn more_ratings_than_a_user_has_items_are_all_items() {
    let full = SyntheticMf { users: 3, items: 10, entries: 1000, ..SyntheticMf::default() }.generator();
    assert!((0..3).all(|user| full.row(user).iter().map(|&(item, _)| item).eq(0..10)));
}

#[test]
fn documents_use_words_as_often_as_their_topics_say() {
    let set = SyntheticLda { documents: 2000, words: 50, topics: 3, length: 100, seed: 5, ..SyntheticLda::default() };
    let lda = set.generator();
    let mut counts = vec![0.0; 50];
    let mut expected = vec![0.0; 50];
    let topics: Vec<_> = (0..3).map(|topic| lda.topic(topic)).collect();
    assert!(topics.iter().all(|topic| (topic.iter().sum::<f64>() - 1.0).abs() < 1e-9));
    for document in 0..lda.set().documents {
        let row = lda.row(document);
        let length: u32 = row.iter().map(|&(_, count)| count).sum();
        for &(word, count) in &row {
            counts[word] += f64::from(count);
        }
        let mixture = lda.mixture(document);
        assert!((mixture.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (topic, share) in topics.iter().zip(mixture) {
            topic.iter().zip(&mut expected).for_each(|(word, sum)| *sum += word * share * f64::from(length));
        }
    }
    // Tokens are independent given the mixtures: the standard deviation of a count is at most the
    // square root of its mean.
    for (count, expected) in counts.iter().zip(&expected) {
        assert!((count - expected).abs() < 6.0 * f64::sqrt(expected + 1.0), "{count} {expected}");
    }
}

#[test]
fn regression_columns_are_correlated_and_the_truth_explains_the_target() {
    let set = SyntheticLasso { rows: 4000, columns: 30, support: 5, correlation: 0.8, noise: 0.5, seed: 3 };
    let lasso = set.generator();
    assert_eq!(lasso.truth().len(), 5);
    let (mut neighbours, mut squares) = (0.0, 0.0);
    for row in 0..lasso.set().rows {
        let (target, features) = lasso.row(row);
        neighbours += f64::from(features[10]) * f64::from(features[11]);
        let signal: f64 = lasso.truth().iter().map(|&(column, value)| value * f64::from(features[column])).sum();
        squares += (target - signal).powi(2);
    }
    // Standard deviations: sqrt((1 + 0.64) / 4000) = 0.02 and 0.5 / sqrt(8000) = 0.0056.
    assert!((neighbours / 4000.0 - 0.8).abs() < 0.1, "{}", neighbours / 4000.0);
    assert!(((squares / 4000.0).sqrt() - 0.5).abs() < 0.028);
}

#[test]
fn labels_follow_their_probabilities() {
    let set = SyntheticLogistic { rows: 20_000, columns: 100, features_per_row: 5, scale: 1.0, seed: 9 };
    let logistic = set.generator();
    let (mut surprise, mut variance) = (0.0, 0.0);
    for row in 0..logistic.set().rows {
        let (label, features) = logistic.row(row);
        let margin: f64 = features.iter().map(|&(column, value)| f64::from(value) * logistic.truth(column)).sum();
        let probability = 1.0 / (1.0 + (-margin).exp());
        surprise += f64::from(u8::from(label > 0.0)) - probability;
        variance += probability * (1.0 - probability);
    }
    assert!(surprise.abs() < 5.0 * f64::sqrt(variance), "{surprise} {variance}");
}

#[test]
fn written_sets_are_read_back_bit_for_bit() {
    let entries: Vec<_> = mf().entries().collect();
    for separator in [",", "\t", "::", " "] {
        let mut out = Vec::new();
        text::write_csv(&mut out, separator, 1, entries.iter().copied()).unwrap();
        let (_folder, source) = file(out);
        let read = ratings(&Csv::new().separator(separator), &source, 10_000).unwrap();
        let read = read.iter().map(|&(user, item, rating)| ([user as usize - 1, item as usize - 1], rating));
        assert!(read.eq(entries.iter().copied()));
    }
    let header = format!("%%MatrixMarket matrix coordinate real general\n400 300 {}\n", entries.len());
    let mut out = header.into_bytes();
    text::write_csv(&mut out, " ", 1, entries.iter().copied()).unwrap();
    let (_folder, source) = file(out);
    let matrix = MatrixMarket::open(&source).unwrap();
    let mut read = Vec::new();
    for range in matrix.split(10_000) {
        matrix
            .read(&range, |row, column, value| {
                read.push(([row, column], value as f32));
                Ok(())
            })
            .unwrap();
    }
    assert_eq!(read, entries);

    let set =
        SyntheticLogistic { rows: 100, columns: 50, features_per_row: 5, seed: 1, ..SyntheticLogistic::default() };
    let logistic = set.generator();
    let mut out = Vec::new();
    text::write_libsvm(&mut out, (0..100).map(|row| logistic.row(row))).unwrap();
    let (_folder, source) = file(out);
    Libsvm::new()
        .columns(Some(50))
        .read(&ByteRange::whole(source), |example| {
            let (label, features) = logistic.row(example.row);
            let pairs = example.columns.iter().map(|&column| column as usize).zip(example.values.iter().copied());
            assert!((example.label - label).abs() < f32::EPSILON && pairs.eq(features));
            Ok(())
        })
        .unwrap();

    let set = SyntheticLda { documents: 50, words: 40, topics: 3, length: 30, seed: 2, ..SyntheticLda::default() };
    let lda = set.generator();
    let expected: Vec<_> = (0..50)
        .flat_map(|document| lda.row(document).into_iter().map(move |(word, count)| (document, word, count)))
        .collect();
    let mut out = format!("50\n40\n{}\n", expected.len()).into_bytes();
    text::write_csv(&mut out, " ", 1, expected.iter().map(|&(document, word, count)| ([document, word], count)))
        .unwrap();
    let (_folder, source) = file(out);
    let docword = Docword::open(&source).unwrap();
    docword.check_count(expected.len() as u64).unwrap();
    let mut read = Vec::new();
    docword
        .read(&ByteRange::whole(source), |document, word, count| {
            read.push((document, word, count));
            Ok(())
        })
        .unwrap();
    assert_eq!(read, expected);
    let line = |row: Vec<(usize, u32)>| {
        let pairs: Vec<String> = row.iter().map(|(word, count)| format!(" {word}:{count}")).collect();
        format!("{}{}\n", row.len(), pairs.concat())
    };
    let (_folder, source) = file(lda.rows().map(line).collect::<String>().into_bytes());
    let mut read = Vec::new();
    Ldac::new()
        .read(&ByteRange::whole(source), |document| {
            let pairs = document.columns.iter().zip(document.values);
            read.extend(pairs.map(|(&word, &count)| (document.row, word as usize, count as u32)));
            Ok(())
        })
        .unwrap();
    assert_eq!(read, expected);
    let mut out = Vec::new();
    text::write_vocabulary(&mut out, 3).unwrap();
    assert_eq!(out, b"word0\nword1\nword2\n");
}
