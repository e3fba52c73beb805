//! Public data sets with their published counts. They are not shipped: `HEMIOLA_DATA` names the
//! folder that contains them.

use hemiola_array::read::{ByteRange, Csv, Docword, Example, InputFile, Ldac, Libsvm, ReadReport, lines};
use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
use hemiola_testkit::{data, require};

#[test]
fn movielens_1m_has_its_published_counts() {
    let path = require!(data("movielens-1m/ratings.tsv.zst"));
    let source = InputFile::open(path).unwrap();
    let mut builder = SparseBuilder::new();
    let mut counts = [0_u32; 6];
    let report =
        Csv::new().separator("\t").read(&ByteRange::whole(source.clone()), |(user, item, rating): (u32, u32, u8)| {
            counts[usize::from(rating)] += 1;
            builder.push([user as usize - 1, item as usize - 1], f32::from(rating));
            Ok(())
        });
    ReadReport::merge(&[source], [report.unwrap()], 0).unwrap();
    assert_eq!(counts, [0, 56_174, 107_557, 261_197, 348_971, 226_310]);
    let shape = builder.shape();
    assert_eq!(shape.extents(), [6040, 3952]);
    let block = builder.finish(shape, [0, 1], DuplicatePolicy::Error).unwrap();
    assert!(block.memory_bytes() <= 1_000_209 * 12 * 105 / 100);
    assert!(block.histogram(0, 6040).counts().iter().all(|&count| count >= 20));
    let rated = block.histogram(1, 3952).counts().iter().filter(|&&count| count > 0).count();
    assert_eq!(rated, 3706);
}

#[test]
fn movielens_side_files_are_separated_by_two_colons() {
    let path = require!(data("movielens-1m/movies.dat.zst"));
    let source = InputFile::open(path).unwrap();
    let report =
        Csv::new().separator("::").read(&ByteRange::whole(source), |(id, title, genres): (u32, Vec<u8>, String)| {
            assert!((1..=3952).contains(&id) && !title.is_empty() && !genres.is_empty());
            Ok(())
        });
    assert_eq!(report.unwrap().records, 3883);
}

#[test]
fn kos_bag_of_words_has_its_published_counts() {
    let path = require!(data("uci-kos/docword.kos.txt.zst"));
    let vocabulary = require!(data("uci-kos/vocab.kos.txt"));
    let source = InputFile::open(path).unwrap();
    let docword = Docword::open(&source).unwrap();
    let mut tokens = 0;
    let report = docword.read(&ByteRange::whole(source.clone()), |_, _, count| {
        tokens += u64::from(count);
        Ok(())
    });
    let summary = ReadReport::merge(&[source], [report.unwrap()], 0).unwrap();
    docword.check_count(summary.records).unwrap();
    assert_eq!((docword.documents(), summary.records, tokens), (3430, 353_160, 467_714));
    let vocabulary = InputFile::open(vocabulary).unwrap();
    lines::check_vocabulary(&vocabulary, &lines::read_names(&vocabulary).unwrap(), docword.words()).unwrap();
}

#[derive(Default)]
struct Counts {
    rows: u64,
    entries: u64,
    total: f64,
    largest: u32,
}

impl Counts {
    fn add(&mut self, example: Example<'_>) {
        self.rows += 1;
        self.entries += example.columns.len() as u64;
        self.total += example.values.iter().copied().map(f64::from).sum::<f64>();
        self.largest = self.largest.max(example.columns.iter().copied().max().unwrap_or(0));
    }
}

#[test]
fn libsvm_files_have_their_published_counts() {
    for (name, rows, entries, largest) in [
        ("imdb/train.libsvm.zst", 25_000, 3_452_407, 89_527),
        ("a9a/a9a.zst", 32_561, 451_592, 123),
        ("mice-snp/mice.libsvm.zst", 1814, 10_420_743, 10_346),
        ("riboflavin/riboflavin.libsvm.zst", 71, 290_248, 4088),
    ] {
        let path = require!(data(name));
        let mut counts = Counts::default();
        let report = Libsvm::new().read(&ByteRange::whole(InputFile::open(path).unwrap()), |example| {
            counts.add(example);
            Ok(())
        });
        assert_eq!(report.unwrap().bad, [], "{name}");
        assert_eq!((counts.rows, counts.entries, counts.largest + 1), (rows, entries, largest), "{name}");
    }
}

#[test]
fn ldac_files_have_their_published_counts() {
    let path = require!(data("ap/ap.dat.zst"));
    let mut counts = Counts::default();
    Ldac::new()
        .words(Some(10_473))
        .read(&ByteRange::whole(InputFile::open(path).unwrap()), |document| {
            counts.add(document);
            Ok(())
        })
        .unwrap();
    assert_eq!((counts.rows, counts.entries, counts.total as u64), (2246, 302_031, 435_838));
}
