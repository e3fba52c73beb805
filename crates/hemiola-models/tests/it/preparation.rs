//! Preparation of features, compared with serial computations.

use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::input::{
    CategoricalColumns, FeatureScaling, HeldOutRows, MissingHandling, Preparation, PreparationOptions, PreparedColumn,
    TermWeighting,
};
use hemiola_models::linear::data::{self, LinearExamples, LinearReadOptions};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Row, column and bits of the entries of all rows.
type Entries = Vec<([usize; 2], u32)>;

/// Result of reading a file: entries, labels, names of the features, the preparation and its notes.
#[derive(Clone, Debug, PartialEq)]
struct ReadRows {
    entries: Entries,
    labels: Vec<u32>,
    names: Vec<String>,
    preparation: Preparation,
    notes: Vec<String>,
}

impl ReadRows {
    fn of(examples: &LinearExamples) -> Result<Self> {
        let LabelledData { features, labels } = &examples.labelled;
        let names = features
            .names(1)
            .map(|names| names.names().map(|name| String::from_utf8_lossy(name).into_owned()).collect());
        Ok(Self {
            entries: features.collect()?.into_iter().map(|(key, value)| (key, value.to_bits())).collect(),
            labels: labels.collect()?.into_iter().map(|(_, label)| label.to_bits()).collect(),
            names: names.unwrap_or_default(),
            preparation: examples.schema.preparation.as_deref().cloned().expect("the options change something"),
            notes: examples.notes.clone(),
        })
    }

    fn feature(&self, name: &str) -> usize {
        self.names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| panic!("no feature `{name}` in {:?}", self.names))
    }

    /// Value of a feature, by row and name.
    fn value(&self, row: usize, name: &str) -> f32 {
        self.cell(row, self.feature(name))
    }

    fn cell(&self, row: usize, column: usize) -> f32 {
        let found = self.entries.iter().find(|(key, _)| *key == [row, column]);
        found.map_or(0.0, |(_, bits)| f32::from_bits(*bits))
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file
}

/// Reads a file on clusters of several sizes, and checks that all of them read the same.
fn read(file: &Path, options: &LinearReadOptions) -> std::result::Result<ReadRows, String> {
    let on = |peers: usize, workers: usize| {
        let run = |cluster: &Cluster| ReadRows::of(&data::read(cluster, options, file.to_str().unwrap())?);
        let all = hemiola_cluster::standalone(peers).workers(workers).run(run).map_err(|error| error.to_string())?;
        assert!(all.iter().all(|one| *one == all[0]));
        Ok(all[0].clone())
    };
    let serial = on(1, 1);
    for (peers, workers) in [(1, 3), (2, 1), (4, 2)] {
        assert_eq!(on(peers, workers), serial, "{peers} peers of {workers} workers");
    }
    serial
}

fn prepared(preparation: &PreparationOptions) -> LinearReadOptions {
    LinearReadOptions { preparation: preparation.clone(), ..LinearReadOptions::default() }
}

/// Sizes by row; every seventh is missing.
fn size(row: usize) -> Option<f32> {
    (row % 7 != 3).then(|| ((row * 7919) % 1013) as f32 * 0.37 - 100.0)
}

/// Many rows with a number, a category, a constant and a rare category, over several units.
fn table(rows: usize) -> String {
    let mut text = "y,size,color,constant,note\n".to_owned();
    for row in 0..rows {
        let color = match row % 11 {
            0 => "",
            1..=4 => "red",
            5..=9 => "dark blue",
            _ if row % 3 == 0 => "grey",
            _ => "green",
        };
        let size = size(row).map_or_else(|| ["", "NA", "NaN", "?"][row % 4].to_owned(), |size| size.to_string());
        let note = ["a good film", "bad, bad film", "good", "so so"][row % 4];
        writeln!(text, "{},{size},{color},5,\"{note}\"", row % 2).unwrap();
    }
    text
}

fn numbers(scale: FeatureScaling, missing: MissingHandling) -> PreparationOptions {
    PreparationOptions {
        categorical: CategoricalColumns::Named(vec!["color".into()]),
        text: vec!["note".into()],
        missing_indicator: true,
        missing,
        scale,
        ..PreparationOptions::default()
    }
}

#[test]
fn numbers_are_filled_and_scaled_as_by_a_serial_pass() {
    let lab = tempfile::tempdir().unwrap();
    let rows = 9000;
    let file = write(lab.path(), "table.csv", &table(rows));
    let present: Vec<f64> = (0..rows).filter_map(size).map(f64::from).collect();
    let mean = present.iter().sum::<f64>() / present.len() as f64;
    let mut sorted = present.clone();
    sorted.sort_by(f64::total_cmp);
    let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    for (missing, fill) in
        [(MissingHandling::Mean, mean), (MissingHandling::Median, median), (MissingHandling::Zero, 0.0)]
    {
        let filled: Vec<f64> = (0..rows).map(|row| size(row).map_or(fill, f64::from)).collect();
        let center = filled.iter().sum::<f64>() / rows as f64;
        let deviation = (filled.iter().map(|size| (size - center).powi(2)).sum::<f64>() / rows as f64).sqrt();
        let least = filled.iter().copied().fold(f64::INFINITY, f64::min);
        let most = filled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (scale, shift, divisor) in [
            (FeatureScaling::None, 0.0, 1.0),
            (FeatureScaling::Standard, center, deviation),
            (FeatureScaling::MinMax, least, most - least),
            (FeatureScaling::MaxAbs, 0.0, most.abs().max(least.abs())),
        ] {
            let found = read(&file, &prepared(&numbers(scale, missing))).unwrap();
            let constant = found.feature("constant");
            for row in (0..rows).step_by(101).chain(0..10) {
                let expected = (filled[row] - shift) / divisor;
                let value = f64::from(found.value(row, "size"));
                assert!(
                    (value - expected).abs() < 1e-5 * (1.0 + expected.abs()),
                    "{missing} {scale} {row}: {value} {expected}"
                );
                assert_eq!(found.value(row, "size (missing)") > 0.0, size(row).is_none());
                let unscaled = matches!(scale, FeatureScaling::None);
                let of_constant = if unscaled { 5.0 } else { f32::from(scale == FeatureScaling::MaxAbs) };
                assert_eq!(found.cell(row, constant).to_bits(), of_constant.to_bits(), "{scale}");
            }
            let warns = found.notes.iter().any(|note| note.contains("`constant` is constant"));
            assert_eq!(warns, matches!(scale, FeatureScaling::Standard | FeatureScaling::MinMax), "{:?}", found.notes);
        }
    }
}

#[test]
fn categories_have_a_feature_each_and_rare_ones_share_one() {
    let lab = tempfile::tempdir().unwrap();
    let file = write(lab.path(), "table.csv", &table(3300));
    let options =
        PreparationOptions { min_frequency: 150, ..numbers(FeatureScaling::None, MissingHandling::MostFrequent) };
    let options = PreparationOptions { missing: MissingHandling::Mean, ..options };
    let found = read(&file, &prepared(&options)).unwrap();
    let expected = [
        "size",
        "size (missing)",
        "color=dark blue",
        "color=green",
        "color=red",
        "color=(missing)",
        "color=(rare)",
        "constant",
    ];
    assert_eq!(found.names[..8], expected);
    let set = |row: usize| -> Vec<&str> {
        expected[2..7].iter().filter(|name| found.value(row, name) > 0.0).copied().collect()
    };
    assert_eq!(
        [set(0), set(1), set(5), set(10), set(21)],
        [["color=(missing)"], ["color=red"], ["color=dark blue"], ["color=green"], ["color=(rare)"]]
    );

    // New categories count as rare ones, and a new file has its columns in another order.
    let new = write(lab.path(), "new.csv", "color,note,size,constant\npink,good,1,5\nred,bad,NA,5\n");
    let models = hemiola_cluster::standalone(1).run(|cluster| {
        let schema = data::read(cluster, &prepared(&options), file.to_str().unwrap())?.schema;
        let text = serde_json::to_string(&schema).unwrap();
        let schema = serde_json::from_str(&text).unwrap();
        let options = LinearReadOptions { schema: Some(schema), without_labels: true, ..LinearReadOptions::default() };
        ReadRows::of(&data::read(cluster, &options, new.to_str().unwrap())?)
    });
    let read_again = models.unwrap().remove(0);
    assert_eq!(read_again.names, found.names);
    assert_eq!((read_again.value(0, "color=(rare)"), read_again.value(1, "color=red")), (1.0, 1.0));
    assert_eq!((read_again.value(1, "size (missing)"), read_again.value(0, "note:good")), (1.0, 1.0));
}

#[test]
fn without_rare_categories_unseen_ones_set_no_feature_and_the_most_frequent_fills() {
    let lab = tempfile::tempdir().unwrap();
    let file = write(lab.path(), "small.csv", "y,n,c\n1,2,b\n0,2,a\n1,,b\n0,9,\n");
    let named = CategoricalColumns::Named(vec!["c".into()]);
    let frequent = PreparationOptions {
        categorical: named,
        missing: MissingHandling::MostFrequent,
        ..PreparationOptions::default()
    };
    let found = read(&file, &prepared(&frequent)).unwrap();
    assert_eq!(found.names, ["n", "c=a", "c=b"]);
    assert_eq!((found.value(2, "n"), found.value(3, "c=b")), (2.0, 1.0));
    let new = write(lab.path(), "new.csv", "y,n,c\n1,2,z\n");
    let read_again = hemiola_cluster::standalone(1).run(|cluster| {
        let schema = data::read(cluster, &prepared(&frequent), file.to_str().unwrap())?.schema;
        let options = LinearReadOptions { schema: Some(schema), ..LinearReadOptions::default() };
        ReadRows::of(&data::read(cluster, &options, new.to_str().unwrap())?)
    });
    assert_eq!(read_again.unwrap()[0].entries, [([0, 0], 2.0_f32.to_bits())]);
}

#[test]
fn categories_are_hashed_with_signs_into_the_features_after_the_others() {
    let lab = tempfile::tempdir().unwrap();
    let file = write(lab.path(), "table.csv", &table(600));
    let options = PreparationOptions {
        hash_bits: Some(6),
        text: Vec::new(),
        ..numbers(FeatureScaling::None, MissingHandling::Mean)
    };
    let named = CategoricalColumns::Named(vec!["color".into(), "note".into()]);
    let found = read(&file, &prepared(&PreparationOptions { categorical: named, ..options.clone() })).unwrap();
    assert_eq!(found.names, ["size", "size (missing)", "constant"]);
    assert_eq!(found.preparation.features(), 3 + 64);
    for row in 0..20 {
        let hashed: Vec<f32> = (3..67).map(|column| found.cell(row, column)).filter(|value| *value != 0.0).collect();
        assert!(hashed.len() <= 2 && hashed.iter().all(|value| [1.0, 2.0].contains(&value.abs())), "{hashed:?}");
    }
    // Indices and signs of `FeatureHasher(64, input_type="dict")` of scikit-learn 1.6.
    let named = CategoricalColumns::Named(vec!["color".into()]);
    let found =
        read(&file, &prepared(&PreparationOptions { categorical: named, text: vec!["note".into()], ..options }))
            .unwrap();
    let first = found.preparation.features() - 64;
    for (row, index, sign) in [(1, 18, -1.0_f32), (5, 38, -1.0), (10, 61, 1.0), (21, 61, 1.0)] {
        assert_eq!(found.cell(row, first + index).to_bits(), sign.to_bits(), "{row}");
    }
}

#[test]
fn terms_are_weighted_as_by_the_definition() {
    let lab = tempfile::tempdir().unwrap();
    let (rows, texts) = (404, ["a good film", "bad, bad film", "good", "so so"]);
    let file = write(lab.path(), "table.csv", &table(rows));
    let terms = [["good", "film", ""], ["bad", "bad", "film"], ["good", "", ""], ["so", "so", ""]];
    for (binary, sublinear) in [(false, false), (false, true), (true, false)] {
        let weighting = TermWeighting { tfidf: true, binary, sublinear };
        let options = PreparationOptions { weighting, ..numbers(FeatureScaling::None, MissingHandling::Mean) };
        let found = read(&file, &prepared(&options)).unwrap();
        for (row, words) in terms.iter().enumerate() {
            let weight = |word: &str| {
                let count = words.iter().filter(|other| **other == word).count() as f64;
                let of = terms.iter().filter(|words| words.contains(&word)).count() * rows / texts.len();
                let local = if binary {
                    1.0
                } else if sublinear {
                    1.0 + count.ln()
                } else {
                    count
                };
                if count == 0.0 { 0.0 } else { local * (((1 + rows) as f64 / (1 + of) as f64).ln() + 1.0) }
            };
            let all = ["good", "film", "bad", "so"];
            let norm = all.iter().map(|word| weight(word).powi(2)).sum::<f64>().sqrt();
            for word in all {
                let (value, expected) = (f64::from(found.value(row, &format!("note:{word}"))), weight(word) / norm);
                assert!((value - expected).abs() < 1e-6, "{word} of {row}: {value} {expected}");
            }
        }
    }
    let mut pairs = numbers(FeatureScaling::None, MissingHandling::Mean);
    pairs.terms.tokenizer.ngrams = (1, 2);
    pairs.terms.most = Some(3);
    let found = read(&file, &prepared(&pairs)).unwrap();
    let terms: Vec<&str> = found.names.iter().filter_map(|name| name.strip_prefix("note:")).collect();
    assert_eq!(terms, ["bad", "film", "good"], "the three in most texts");
    assert_eq!(found.value(1, "note:bad").to_bits(), 2.0_f32.to_bits());
}

#[test]
fn libsvm_text_is_weighted_and_scaled_in_place() {
    let lab = tempfile::tempdir().unwrap();
    let rows = 4000;
    let count = |row: usize, column: usize| if (row * 31 + column * 17) % 5 < 2 { (row * column) % 4 } else { 0 };
    let mut text = String::new();
    for row in 0..rows {
        write!(text, "{}", row % 2).unwrap();
        for column in (0..8).filter(|column| count(row, *column) > 0) {
            write!(text, " {}:{}", column + 1, count(row, column)).unwrap();
        }
        text.push('\n');
    }
    let file = write(lab.path(), "counts.libsvm", &text);
    let frequency = |column| (0..rows).filter(|row| count(*row, column) > 0).count();
    let tfidf = |row: usize, column: usize| match count(row, column) {
        0 => 0.0,
        count => count as f64 * (((1 + rows) as f64 / (1 + frequency(column)) as f64).ln() + 1.0),
    };
    let norm = |row: usize| (0..8).map(|column| tfidf(row, column).powi(2)).sum::<f64>().sqrt();
    let weighting = TermWeighting { tfidf: true, ..TermWeighting::default() };
    let found = read(&file, &prepared(&PreparationOptions { weighting, ..PreparationOptions::default() })).unwrap();
    for row in (0..rows).step_by(97) {
        for column in 0..8 {
            let (value, expected) = (f64::from(found.cell(row, column)), tfidf(row, column));
            assert!((value - if expected > 0.0 { expected / norm(row) } else { 0.0 }).abs() < 1e-6);
        }
    }
    let all = |column: usize| (0..rows).map(move |row| count(row, column) as f64);
    let scaled =
        |scale| read(&file, &prepared(&PreparationOptions { scale, ..PreparationOptions::default() })).unwrap();
    let (standard, most) = (scaled(FeatureScaling::Standard), scaled(FeatureScaling::MaxAbs));
    assert!(standard.notes[0].contains("not centred"));
    for column in 1..8 {
        let mean = all(column).sum::<f64>() / rows as f64;
        let deviation = (all(column).map(|value| (value - mean).powi(2)).sum::<f64>() / rows as f64).sqrt();
        let largest = all(column).fold(0.0, f64::max);
        for row in (0..rows).step_by(97) {
            let value = count(row, column) as f64;
            assert!(
                (f64::from(standard.cell(row, column)) - value / deviation.max(1e-9)).abs() < 1e-5 || largest == 0.0
            );
            assert!((f64::from(most.cell(row, column)) - value / largest.max(1.0)).abs() < 1e-6);
        }
    }
}

#[test]
fn statistics_leave_out_the_rows_held_out_for_validation() {
    let lab = tempfile::tempdir().unwrap();
    let rows = 2000;
    let file = write(lab.path(), "table.csv", &table(rows));
    let held_out = HeldOutRows { seed: 3, fraction: 0.3 };
    let options = numbers(FeatureScaling::None, MissingHandling::Mean);
    let found = read(&file, &LinearReadOptions { held_out, ..prepared(&options) }).unwrap();
    let training: Vec<f64> = (0..rows).filter(|row| !held_out.contains(*row)).filter_map(size).map(f64::from).collect();
    let mean = training.iter().sum::<f64>() / training.len() as f64;
    let PreparedColumn::Number { fill: Some(fill), .. } = found.preparation.columns[0] else { panic!("a number") };
    assert!((f64::from(fill) - mean).abs() < 1e-4 && found.preparation.rows < 1500, "{fill} {mean}");
}

#[test]
fn unsuitable_columns_are_named() {
    let lab = tempfile::tempdir().unwrap();
    let words = write(lab.path(), "words.csv", "y,a,b,c\n1,2,x,NA\n0,3,y,\n");
    let categorical = CategoricalColumns::Named(vec!["b".into()]);
    let mean = PreparationOptions { missing: MissingHandling::Mean, categorical, ..PreparationOptions::default() };
    let unknown = PreparationOptions {
        categorical: CategoricalColumns::Named(vec!["d".into()]),
        ..PreparationOptions::default()
    };
    let (detect, tfidf) = (CategoricalColumns::Detect, TermWeighting { tfidf: true, ..TermWeighting::default() });
    for (options, expected) in [
        (PreparationOptions::default(), "--categorical b"),
        (PreparationOptions { scale: FeatureScaling::Standard, ..PreparationOptions::default() }, "`--text-column`"),
        (mean.clone(), "all values of column `c` are missing"),
        (unknown, "has no column `d`"),
        (PreparationOptions { missing: MissingHandling::Error, ..mean.clone() }, "expected a value in column `c`"),
        (PreparationOptions { weighting: tfidf, ..mean.clone() }, "--text-column COLUMN"),
        (PreparationOptions { categorical: detect, hash_bits: Some(1), ..mean.clone() }, "from 4 to 28"),
    ] {
        let error = read(&words, &prepared(&options)).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // Every row has a category of its own.
    let mut many = "y,id\n".to_owned();
    (0..270_000).for_each(|row| writeln!(many, "{},{row}", row % 2).unwrap());
    let many = write(lab.path(), "many.csv", &many);
    let ids = PreparationOptions {
        categorical: CategoricalColumns::Named(vec!["id".into()]),
        ..PreparationOptions::default()
    };
    let run = |cluster: &Cluster| data::read(cluster, &prepared(&ids), many.to_str().unwrap()).map(|_| ());
    let error = hemiola_cluster::standalone(2).run(run).unwrap_err().to_string();
    assert!(error.contains("more than 262144 categories") && error.contains("--hash-features"), "{error}");
}
