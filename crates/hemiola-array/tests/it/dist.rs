//! Arrays on whole clusters: the same contents on any number of peers and workers, and the
//! identical error on every peer.

#![expect(clippy::float_cmp, reason = "values are copied, not computed: they must be equal")]
#![expect(clippy::print_stdout, reason = "a peer process prints its result")]

use crate::{folder_with, peers_of_three};
use hemiola_array::dist::{ArrayLoader, ArraySaver, Element, RecordSource, Storage};
use hemiola_array::read::{Csv, Ldac, Libsvm, LineReader, NonFiniteHandling, ParseError};
use hemiola_array::sparse::DuplicatePolicy;
use hemiola_array::{Accumulator, ArrayExt, DistArray, PartitionMethod, PartitionSpec, ReadExt, Shape};
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::Seed;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Cluster sizes that must all give the same result: (peers, workers).
const CLUSTERS: [(usize, usize); 5] = [(1, 1), (1, 3), (2, 1), (2, 2), (4, 1)];

/// Runs `program` on every cluster; its result must be identical on every peer of every cluster.
fn everywhere<T: PartialEq + std::fmt::Debug + Send>(program: impl Fn(&Cluster) -> Result<T> + Sync) -> T {
    let mut first: Option<T> = None;
    for (peers, workers) in CLUSTERS {
        for result in standalone(peers).workers(workers).run(&program).unwrap() {
            match &first {
                Some(first) => assert_eq!(&result, first, "{peers} peers, {workers} workers"),
                None => first = Some(result),
            }
        }
    }
    first.unwrap()
}

/// Error of `program`, identical on every peer of every cluster.
fn error_everywhere<T>(program: impl Fn(&Cluster) -> Result<T> + Sync) -> String {
    everywhere(|cluster| match program(cluster) {
        Ok(_) => Ok("no error".to_owned()),
        Err(error) => Ok(error.to_string()),
    })
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// Ratings that cover several byte ranges: 1,000 users, 300 items, about 20,000 entries of known
/// values.
fn ratings() -> (String, Vec<([usize; 2], f32)>) {
    let mut text = String::from("user,item,rating\n");
    let mut entries = Vec::new();
    for number in 0..60_000_usize {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let key = [mixed % 1000, (mixed >> 20) % 300];
        entries.push((key, ((number % 9) as f32) / 2.0 + 0.5));
    }
    let unique: BTreeMap<[usize; 2], f32> = entries.into_iter().collect();
    let mut entries: Vec<_> = unique.into_iter().collect();
    // A fixed order that differs from the order of keys.
    entries.sort_by_key(|([user, item], _)| (item * 31 + user * 17) % 1009);
    for ([user, item], rating) in &entries {
        writeln!(text, "{user},{item},{rating}").unwrap();
    }
    entries.sort_by_key(|(key, _)| *key);
    (text, entries)
}

fn read_ratings(cluster: &Cluster, file: &str) -> Result<DistArray<f32, 2>> {
    cluster.read_csv(file, |(user, item, rating): (usize, usize, f32)| ([user, item], rating))?.materialize()
}

#[test]
fn csv_gives_the_same_array_on_any_cluster() {
    let (text, entries) = ratings();
    let folder = folder_with(&[("ratings.csv", text.as_bytes())]);
    let file = path(folder.path(), "ratings.csv");
    let found = everywhere(|cluster| {
        let array = read_ratings(cluster, &file)?;
        assert_eq!(array.len(), entries.len());
        assert_eq!(array.shape(), Shape::new([1000, 300]));
        // Each peer stores only its own part.
        let mut own = 0;
        array.for_each(|_, _| own += 1);
        assert_eq!(cluster.all_gather(own)?.iter().sum::<usize>(), array.len());
        array.collect()
    });
    assert_eq!(found, entries);
}

#[test]
fn several_files_separators_and_compression_make_one_array() {
    let zipped = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"3::4::5\r\n1::1::2").unwrap();
        encoder.finish().unwrap()
    };
    let folder = folder_with(&[("a.dat", b"0::1::2\n\n1::0::3\n"), ("b.dat.gz", &zipped)]);
    let pattern = path(folder.path(), "*.dat*");
    let found = everywhere(|cluster| {
        let lazy = cluster
            .read_csv_with(Csv::new().separator("::"), &pattern, |(a, b, c): (usize, usize, i64)| ([a, b], c))?;
        lazy.materialize()?.collect()
    });
    assert_eq!(found, [([0, 1], 2), ([1, 0], 3), ([1, 1], 2), ([3, 4], 5)]);
}

#[test]
fn named_keys_are_numbered_by_first_appearance_on_any_cluster() {
    let mut text = String::new();
    let mut names = Vec::new();
    for number in 0..30_000_u64 {
        let name = format!("user-{}", number * 31 % 5000);
        if !names.contains(&name) && names.len() < 40 {
            names.push(name.clone());
        }
        writeln!(text, "{name}\tfilm {}\t{}", number * 7 % 11_003, number % 5).unwrap();
    }
    let folder = folder_with(&[("named.tsv", text.as_bytes())]);
    let file = path(folder.path(), "named.tsv");
    let (first, sum) = everywhere(|cluster| {
        let array = cluster.read_named(Csv::new().separator("\t"), &file, |fields| {
            Ok(([fields.text()?, fields.text()?], fields.next::<u32>()?))
        })?;
        let first: Vec<String> =
            (0..40).map(|number| array.names(0).unwrap().name_lossy(number).unwrap().into_owned()).collect();
        Ok((
            first,
            array.collect()?.into_iter().map(|(key, value)| key[0] * 3 + key[1] + value as usize).sum::<usize>(),
        ))
    });
    assert_eq!(first, names);
    assert!(sum > 0);
}

#[test]
fn libsvm_rows_labels_and_empty_lines_fit_together() {
    let mut text = String::new();
    for row in 0..20_000_u64 {
        write!(text, "{}", if row % 3 == 0 { 1 } else { -1 }).unwrap();
        for feature in 0..row % 4 {
            write!(text, " {}:{}", feature * 5 + 1, (row + feature) % 7 + 1).unwrap();
        }
        text.push('\n');
        if row % 100 == 0 {
            text.push_str("# a comment\n\n");
        }
    }
    let folder = folder_with(&[("train.libsvm", text.as_bytes())]);
    let file = path(folder.path(), "train.libsvm");
    let (shape, labels, entries) = everywhere(|cluster| {
        let data = cluster.read_libsvm(Libsvm::new(), &file)?;
        assert_eq!(data.labels.shape().extent(0), data.features.shape().extent(0));
        assert_eq!(data.labels.layout().space, data.features.layout().space);
        Ok((data.features.shape().extents(), data.labels.collect()?, data.features.collect()?))
    });
    assert_eq!(shape, [20_000, 11]);
    assert!(labels.iter().all(|([row], label)| *label == if row % 3 == 0 { 1.0 } else { -1.0 }));
    assert_eq!(entries.len(), (0..20_000).map(|row| row % 4).sum::<usize>());
    assert!(entries.iter().all(|([row, column], value)| *value == ((row + column / 5) % 7 + 1) as f32));
}

#[test]
fn headers_of_docword_and_matrix_market_give_the_shape_and_are_checked() {
    let folder = folder_with(&[
        ("docword.txt", b"4\n5\n3\n1 1 2\n1 5 1\n3 2 7\n"),
        ("vocab.txt", b"ape\nbee\ncat\ndog\nemu\n"),
        ("short.txt", b"ape\nbee\n"),
        ("torn.txt", b"4\n5\n3\n1 1 2\n"),
        ("matrix.mtx", b"%%MatrixMarket matrix coordinate real symmetric\n% note\n3 3 2\n1 1 2.5\n3 1 -1\n"),
        ("corpus.ldac", b"2 0:1 4:2\n1 3:5\n"),
    ]);
    let at = |name: &str| path(folder.path(), name);
    let words = everywhere(|cluster| {
        let array = cluster.read_docword(at("docword.txt"), Some(&at("vocab.txt")))?;
        assert_eq!(array.shape().extents(), [4, 5]);
        assert_eq!(array.names(1).unwrap().name_lossy(4).unwrap(), "emu");
        array.collect()
    });
    assert_eq!(words, [([0, 0], 2), ([0, 4], 1), ([2, 1], 7)]);
    let matrix = everywhere(|cluster| cluster.read_matrix_market(&at("matrix.mtx"))?.collect());
    assert_eq!(matrix, [([0, 0], 2.5), ([0, 2], -1.0), ([2, 0], -1.0)]);
    let corpus = everywhere(|cluster| cluster.read_ldac(Ldac::new(), at("corpus.ldac"))?.collect());
    assert_eq!(corpus, [([0, 0], 1), ([0, 4], 2), ([1, 3], 5)]);
    let torn = error_everywhere(|cluster| cluster.read_docword(at("torn.txt"), None));
    assert!(torn.ends_with("the header declares 3 entries, the file has 1; is it complete?"), "{torn}");
    let short = error_everywhere(|cluster| cluster.read_docword(at("docword.txt"), Some(&at("short.txt"))));
    assert!(short.contains("the vocabulary has 2 words, but ids go up to word 5"), "{short}");
}

/// `NumPy` file of five rows and three columns, with values in file order.
fn npy(fortran_order: &str, values: impl Iterator<Item = f32>) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': {fortran_order}, 'shape': (5, 3), }}");
    let mut bytes = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes()].concat();
    bytes.resize(127, b' ');
    bytes.push(b'\n');
    bytes.extend(values.flat_map(f32::to_le_bytes));
    bytes
}

#[test]
fn npy_is_read_by_rows() {
    let by_rows = npy("False", (0..15_u8).map(f32::from));
    let by_columns = npy("True", (0..15_u8).map(|number| f32::from(number % 5 * 3 + number / 5)));
    let folder = folder_with(&[("a.npy", &by_rows), ("f.npy", &by_columns)]);
    let file = path(folder.path(), "a.npy");
    for name in ["a.npy", "f.npy"] {
        let cells = everywhere(|cluster| cluster.read_npy::<f32, 2>(&path(folder.path(), name))?.collect());
        assert!(cells.iter().all(|([row, column], value)| *value == (row * 3 + column) as f32), "{name}: {cells:?}");
        assert_eq!(cells.len(), 15);
    }
    let wrong = error_everywhere(|cluster| cluster.read_npy::<f32, 3>(&file));
    assert!(wrong.ends_with("it has 2 dimensions, 3 were requested"), "{wrong}");
}

#[test]
fn non_finite_values_are_one_error_everywhere_unless_kept() {
    let values = (0..15_u8).map(|number| if number == 8 || number == 13 { f32::NAN } else { f32::from(number) });
    let folder = folder_with(&[
        ("a.npy", &npy("False", values)),
        ("a.libsvm", b"1 1:1\n1 2:nan\n"),
        ("a.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2 inf\n"),
        ("a.csv", b"0,0,1\n1,1,nan\n"),
    ]);
    let at = |name: &str| path(folder.path(), name);
    let keep = NonFiniteHandling::Keep;
    let error = error_everywhere(|cluster| cluster.read_npy::<f32, 2>(&at("a.npy")));
    assert!(error.starts_with(&format!("`{}`: expected a finite number at [2, 2], found NaN", at("a.npy"))), "{error}");
    let error = error_everywhere(|cluster| cluster.read_libsvm(Libsvm::new(), at("a.libsvm")));
    assert_eq!(error, format!("`{}:2:5`: expected a finite number, found `nan`", at("a.libsvm")));
    let error = error_everywhere(|cluster| cluster.read_matrix_market(&at("a.mtx")));
    assert_eq!(error, format!("`{}:4:5`: expected a finite number, found `inf`", at("a.mtx")));
    let kept = everywhere(|cluster| {
        let dense = cluster.read_npy_with::<f32, 2>(&at("a.npy"), |file| file.non_finite(keep))?.collect()?;
        let libsvm = cluster.read_libsvm(Libsvm::new().non_finite(keep), at("a.libsvm"))?.features.collect()?;
        let matrix = cluster.read_matrix_market_with(&at("a.mtx"), |file| file.non_finite(keep))?.collect()?;
        let (csv, file) = (Csv::new().non_finite(keep), at("a.csv"));
        let csv = cluster
            .read_csv_with(csv, &file, |(a, b, c): (usize, usize, f32)| ([a, b], c))?
            .materialize()?
            .collect()?;
        // NaN equals nothing, so the texts are compared.
        Ok([format!("{:?}", dense[8]), format!("{:?}", libsvm[1]), format!("{:?}", matrix[1]), format!("{:?}", csv[1])])
    });
    assert_eq!(kept, ["([2, 2], NaN)", "([1, 1], NaN)", "([1, 1], inf)", "([1, 1], NaN)"]);
}

#[test]
fn any_text_is_read_through_a_closure() {
    let folder = folder_with(&[("log.txt", b"GET 3 took 17\n# nothing\nGET 1 took 5\n")]);
    let file = path(folder.path(), "log.txt");
    let parse = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["GET", page, "took", time] => {
                let number = |text: &str| text.parse::<usize>().map_err(|_| "a number".to_owned());
                Ok(Some(([number(page)?], number(time)?)))
            }
            ["#", ..] => Ok(None),
            _ => Err("`GET page took time`".to_owned()),
        }
    };
    assert_eq!(everywhere(|cluster| cluster.read_lines(&file, parse)?.materialize()?.collect()), [([1], 5), ([3], 17)]);
    let strict =
        |line: &str| if line.starts_with("GET") { parse(line) } else { Err("`GET page took time`".to_owned()) };
    let error = error_everywhere(|cluster| cluster.read_lines(&file, strict)?.materialize());
    assert!(error.contains("log.txt:2:1`: expected `GET page took time`, found `# nothing`"), "{error}");
}

#[test]
fn the_first_bad_line_in_the_file_is_the_error_everywhere() {
    let (mut text, _) = ratings();
    let good = text.len();
    text.push_str("12,oops,3\n");
    let line = text[..good].lines().count() + 1;
    text.push_str(&"1,2\n".repeat(3));
    let folder = folder_with(&[("ratings.csv", text.as_bytes())]);
    let file = path(folder.path(), "ratings.csv");
    let error = error_everywhere(|cluster| read_ratings(cluster, &file));
    assert!(error.contains(&format!("ratings.csv:{line}:4`: expected")) && error.contains("`oops`"), "{error}");
    let skipped = everywhere(|cluster| {
        let csv = Csv::new().skip_bad_lines(4);
        let lazy =
            cluster.read_csv_with(csv, &file, |(user, item, rating): (usize, usize, f32)| ([user, item], rating))?;
        Ok(outcome(&lazy.materialize()?))
    });
    let line = line as u64;
    assert_eq!(skipped, (ratings().1.len(), (line..line + 4).collect::<Vec<_>>()));
    let too_many = error_everywhere(|cluster| {
        let csv = Csv::new().skip_bad_lines(2);
        cluster
            .read_csv_with(csv, &file, |(user, item, rating): (usize, usize, f32)| ([user, item], rating))?
            .materialize()
    });
    assert!(too_many.contains("more than the 2 bad lines that `skip_bad_lines` allows"), "{too_many}");
}

/// Number of entries and skipped lines of an array.
fn outcome<T: Element, const N: usize>(array: &DistArray<T, N>) -> (usize, Vec<u64>) {
    (array.len(), array.skipped_lines().iter().map(|bad| bad.line).collect())
}

#[test]
fn bad_lines_are_skipped_and_reported_in_every_text_format() {
    // Bad lines far apart, so that different peers meet them; all count towards one limit.
    let body = |line: &dyn Fn(u64) -> String| {
        let mut text = String::new();
        for number in 0..30_000_u64 {
            text.push_str(&if number % 14_000 == 9 { "what is this\n".to_owned() } else { line(number) });
        }
        text
    };
    let pairs = body(&|number| format!("{} {} 5\n", number % 300 + 1, number / 300 + 1));
    let docword = format!("300\n100\n30000\n{pairs}");
    let matrix = format!("%%MatrixMarket matrix coordinate real general\n% note\n300 100 30000\n{pairs}");
    let torn = docword.replace("\n30000\n", "\n30001\n");
    let files: [(&str, &[u8]); 6] = [
        ("docword.txt", docword.as_bytes()),
        ("matrix.mtx", matrix.as_bytes()),
        ("lines.txt", pairs.as_bytes()),
        ("torn.txt", torn.as_bytes()),
        ("header.txt", b"300\noops\n1\n1 1 1\n"),
        ("header.mtx", b"%%MatrixMarket matrix coordinate real general\n2 oops 1\n1 1 1\n"),
    ];
    let folder = folder_with(&files);
    let at = |name: &str| path(folder.path(), name);
    let parse = |line: &str| {
        let numbers: Option<Vec<usize>> = line.split(' ').map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[row, column, value]) => Ok(Some(([row, column], value))),
            _ => Err("three numbers".to_owned()),
        }
    };
    let docword = |cluster: &Cluster, name: &str, allowed: u64| {
        cluster.read_docword_with(at(name), None, |file| file.skip_bad_lines(allowed))
    };
    let matrix = |cluster: &Cluster, name: &str, allowed: u64| {
        cluster.read_matrix_market_with(&at(name), |file| file.skip_bad_lines(allowed))
    };
    let lines = |cluster: &Cluster, allowed: u64| {
        cluster.read_lines_with(LineReader::new().skip_bad_lines(allowed), &at("lines.txt"), parse)?.materialize()
    };
    let expected = |first: u64| (29_997, [9, 14_009, 28_009].map(|number| number + first).to_vec());
    assert_eq!(everywhere(|cluster| Ok(outcome(&docword(cluster, "docword.txt", 3)?))), expected(4));
    assert_eq!(everywhere(|cluster| Ok(outcome(&matrix(cluster, "matrix.mtx", 3)?))), expected(4));
    assert_eq!(everywhere(|cluster| Ok(outcome(&lines(cluster, 3)?))), expected(1));

    let third = |file: &str, line: u64, expected: &str| {
        let over = "more than the 2 bad lines that `skip_bad_lines` allows; the first line over the limit is";
        format!("{over} `{}:{line}:1`: expected {expected}", at(file))
    };
    let number = "a whole number from 0 to 18446744073709551615, found `what`";
    assert_eq!(error_everywhere(|cluster| docword(cluster, "docword.txt", 2)), third("docword.txt", 28_013, number));
    assert_eq!(error_everywhere(|cluster| matrix(cluster, "matrix.mtx", 2)), third("matrix.mtx", 28_013, number));
    let words = "three numbers, found `what is this`";
    assert_eq!(error_everywhere(|cluster| lines(cluster, 2)), third("lines.txt", 28_010, words));

    // Bad lines count towards the number in the header, and the header itself is never skipped.
    let torn = error_everywhere(|cluster| docword(cluster, "torn.txt", 9));
    assert!(torn.ends_with("the header declares 30001 entries, the file has 30000; is it complete?"), "{torn}");
    let header = error_everywhere(|cluster| docword(cluster, "header.txt", 9));
    assert!(header.contains("expected three header lines") && header.contains("`oops`"), "{header}");
    let header = error_everywhere(|cluster| matrix(cluster, "header.mtx", 9));
    assert!(header.contains("expected the size line `rows columns entries`, found `2 oops 1`"), "{header}");
}

#[test]
fn missing_and_empty_files_are_the_same_error_everywhere() {
    let folder = folder_with(&[("empty.csv", b"")]);
    let missing = error_everywhere(|cluster| read_ratings(cluster, &path(folder.path(), "absent.csv")));
    assert!(missing.contains("absent.csv"), "{missing}");
    let empty = error_everywhere(|cluster| read_ratings(cluster, &path(folder.path(), "empty.csv")));
    assert!(empty.contains("is empty"), "{empty}");
}

#[test]
fn duplicate_keys_follow_the_policy() {
    let folder = folder_with(&[("twice.csv", b"1,1,5\n2,2,1\n1,1,7\n")]);
    let file = path(folder.path(), "twice.csv");
    let with = |policy: DuplicatePolicy<i32>| {
        let file = &file;
        move |cluster: &Cluster| {
            let lazy = cluster.read_csv(file, |(a, b, c): (usize, usize, i32)| ([a, b], c))?;
            lazy.materialize_as(&PartitionSpec::default(), policy)?.collect()
        }
    };
    let error = error_everywhere(with(DuplicatePolicy::Error));
    assert!(
        error.contains("key [1, 1] is given twice") && error.contains("twice.csv:1`") && error.contains("twice.csv:3`"),
        "{error}"
    );
    assert_eq!(everywhere(with(DuplicatePolicy::Last)), [([1, 1], 7), ([2, 2], 1)]);
    assert_eq!(everywhere(with(DuplicatePolicy::sum())), [([1, 1], 12), ([2, 2], 1)]);
}

#[test]
fn a_column_given_twice_in_a_row_is_traced_to_its_line() {
    // Several units, comments so that rows are not lines, and a skipped bad line before.
    let mut text = String::from("# a comment\nnonsense\n");
    for row in 0..30_000 {
        let again = if row == 25_000 { " 4:1" } else { "" };
        writeln!(text, "1 {}:1 4:2{again}", row % 3 + 1).unwrap();
    }
    let folder = folder_with(&[("twice.libsvm", text.as_bytes()), ("twice.ldac", b"1 0:1\n3 2:1 0:1 2:5\n")]);
    let libsvm = path(folder.path(), "twice.libsvm");
    let error = error_everywhere(|cluster| cluster.read_libsvm(Libsvm::new().skip_bad_lines(1), &libsvm));
    let line = format!("`{libsvm}:25003`");
    let expected = format!("key [25000, 3] is given twice: at {line} and at {line}; choose a policy");
    assert!(error.starts_with(&expected), "{error}");
    let ldac = path(folder.path(), "twice.ldac");
    let error = error_everywhere(|cluster| cluster.read_ldac(Ldac::new(), &ldac));
    assert!(error.starts_with(&format!("key [1, 2] is given twice: at `{ldac}:2` and at `{ldac}:2`;")), "{error}");
}

#[test]
fn names_given_twice_are_traced_to_their_lines() {
    let mut text = String::from("ada,/home,1\nbob,/home\n");
    (0..20_000).for_each(|number| writeln!(text, "user {number},/faq,1").unwrap());
    text.push_str("ada,/home,2\n");
    let folder = folder_with(&[("visits.csv", text.as_bytes())]);
    let file = path(folder.path(), "visits.csv");
    let error = error_everywhere(|cluster| {
        cluster.read_named(Csv::new().skip_bad_lines(1), &file, |fields| {
            Ok(([fields.text()?, fields.text()?], fields.next::<u32>()?))
        })
    });
    assert!(error.starts_with(&format!("key [0, 0] is given twice: at `{file}:1` and at `{file}:20003`;")), "{error}");
}

#[test]
fn a_bad_line_of_ldac_leaves_nothing_behind() {
    let folder = folder_with(&[("corpus.ldac", b"1 0:1\n2 5:1 1:1.5\n1 3:5\n")]);
    let file = path(folder.path(), "corpus.ldac");
    let corpus = everywhere(|cluster| cluster.read_ldac(Ldac::new().skip_bad_lines(1), &file)?.collect());
    assert_eq!(corpus, [([0, 0], 1), ([1, 3], 5)]);
}

/// Small random arrays, to be compared with serial code.
fn small_entries() -> impl Strategy<Value = BTreeMap<[usize; 2], i32>> {
    prop::collection::btree_map([0..20_usize, 0..12_usize], -50..50_i32, 0..80)
}

fn on_cluster(
    cluster: &Cluster,
    entries: &BTreeMap<[usize; 2], i32>,
    partition: &PartitionSpec,
) -> Result<DistArray<i32, 2>> {
    struct MapSource<'a>(&'a BTreeMap<[usize; 2], i32>);
    impl RecordSource for MapSource<'_> {
        type Record = ([usize; 2], i32);

        fn units(&self) -> usize {
            7
        }

        fn cost(&self, _unit: usize) -> u64 {
            1
        }

        fn visit(
            &self,
            unit: usize,
            mut visit: impl FnMut(Self::Record) -> hemiola_array::Result<(), Box<ParseError>>,
        ) -> hemiola_array::Result<hemiola_array::read::ReadReport> {
            for (key, value) in self.0.iter().skip(unit).step_by(7) {
                visit((*key, *value)).unwrap();
            }
            Ok(hemiola_array::read::ReadReport::default())
        }

        fn extents(&self) -> Option<Vec<usize>> {
            Some(vec![20, 12])
        }
    }
    hemiola_array::dist::LazyArray::from_source(cluster, MapSource(entries))
        .materialize_as(partition, DuplicatePolicy::Error)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn transforms_equal_the_serial_ones(entries in small_entries(), cluster in 0..CLUSTERS.len(), method in 0..3_usize, seed in any::<u64>()) {
        let (peers, workers) = CLUSTERS[cluster];
        let method = [PartitionMethod::Range, PartitionMethod::Balanced, PartitionMethod::Hash { seed }][method];
        let partition = PartitionSpec::along(1).method(method).parts_per_worker(2).and_along(0, method).time_parts(3);
        standalone(peers).workers(workers).run(|cluster| {
            let serial: Vec<_> = entries.iter().map(|(key, value)| (*key, *value)).collect();
            let array = on_cluster(cluster, &entries, &PartitionSpec::default())?;
            assert_eq!(array.collect()?, serial);
            assert_eq!(array.repartition(&partition)?.collect()?, serial);

            let changed = array.entries().filter(|key, _| key[1] != 3).map(|key, value| i64::from(value) + key[0].cast_signed() as i64);
            let changed = changed.map_keys(|[a, b]| [b, a, a % 2]).materialize()?.collect()?;
            let mut expected: Vec<_> = serial.iter().filter(|(key, _)| key[1] != 3)
                .map(|([a, b], value)| ([*b, *a, a % 2], i64::from(*value) + a.cast_signed() as i64)).collect();
            expected.sort_unstable();
            assert_eq!(changed, expected);

            let groups = array.entries().group_by(|[a, b], value| (a % 5, (b, value)))?.collect()?;
            let count: usize = groups.iter().map(|(_, items)| items.len()).sum();
            assert_eq!(count, serial.len());
            for ([group], items) in groups {
                let mut items = items;
                items.sort_unstable();
                let mut expected: Vec<_> = serial.iter().filter(|(key, _)| key[0] % 5 == group).map(|(key, value)| (key[1], *value)).collect();
                expected.sort_unstable();
                assert_eq!(items, expected);
            }

            let shuffled = array.shuffle_keys(Seed(seed))?;
            let mut back: Vec<_> = shuffled.collect()?.into_iter().map(|(key, value)| (shuffled.original_key(key), value)).collect();
            back.sort_unstable();
            assert_eq!(back, serial);
            assert!(serial.iter().all(|(key, _)| shuffled.original_key(shuffled.shuffled_key(*key)) == *key));

            let (train, test) = array.split(0.3, Seed(seed))?;
            let mut both = train.collect()?;
            both.extend(test.collect()?);
            both.sort_unstable();
            assert_eq!(both, serial);
            // The side of an entry depends neither on the layout nor on a shuffle.
            let mut same: Vec<_> = shuffled.split(0.3, Seed(seed))?.1.collect()?.into_iter().map(|(key, value)| (shuffled.original_key(key), value)).collect();
            same.sort_unstable();
            assert_eq!(test.collect()?, same);

            let histogram = array.histogram(1)?;
            for column in 0..12 {
                assert_eq!(histogram.counts()[column], serial.iter().filter(|(key, _)| key[1] == column).count() as u64);
            }

            let mut dense = array.to_dense(-1)?;
            let cells = dense.collect()?;
            assert_eq!(cells.len(), 240);
            assert!(cells.iter().all(|(key, value)| *value == entries.get(key).copied().unwrap_or(-1)));
            let other = dense.clone();
            dense.add(&other).unwrap();
            dense.scale(2);
            assert!(dense.collect()?.iter().all(|(key, value)| *value == 4 * entries.get(key).copied().unwrap_or(-1)));
            Ok(())
        }).unwrap();
    }
}

#[test]
fn arrays_of_different_layouts_are_not_combined() {
    let error = standalone(2)
        .run(|cluster| {
            let mut zeros = cluster.zeros::<f32, 2>([10, 3])?;
            let odd = cluster.from_fn([10, 3], |[row, _]| row as f32)?;
            zeros.add(&odd)?;
            assert_eq!(zeros.collect()?[4], ([1, 1], 1.0));
            let sparse = odd.entries().filter(|key, _| key[0] == 9).materialize()?;
            assert_eq!(sparse.len(), 3);
            let dense = sparse.to_dense(0.0)?;
            zeros.add(&dense).map_err(Error::from)
        })
        .unwrap_err();
    assert!(error.to_string().contains("the two arrays have different layouts"), "{error}");
}

#[test]
fn random_values_do_not_depend_on_the_cluster() {
    everywhere(|cluster| {
        let uniform = cluster.uniform([50, 6], -1.0..1.0, Seed(3))?.collect()?;
        assert!(uniform.iter().all(|(_, value)| (-1.0..1.0).contains(value)));
        let normal = cluster.normal([7, 3, 2], 1.0, 0.1, Seed(3))?.collect()?;
        Ok((uniform, normal))
    });
}

#[test]
fn accumulators_have_the_same_bits_on_every_peer() {
    for (peers, workers) in CLUSTERS {
        let sums = standalone(peers)
            .workers(workers)
            .run(|cluster| {
                let sum = Accumulator::new(cluster, 0.0_f64, |a, b| a + b);
                cluster.each_worker(|worker| {
                    for step in 0..100 {
                        sum.add(
                            worker.id(),
                            0.1 * f64::from(step) + worker.index() as f64 + cluster.rank().index() as f64 / 3.0,
                        );
                    }
                })?;
                Ok(sum.take()?.to_bits())
            })
            .unwrap();
        assert!(sums.iter().all(|bits| *bits == sums[0]));
    }
}

#[test]
fn saved_on_one_cluster_loaded_on_another() {
    let folder = tempfile::tempdir().unwrap();
    let (text, entries) = ratings();
    let data = folder_with(&[("ratings.csv", text.as_bytes())]);
    let file = path(data.path(), "ratings.csv");
    for (number, (peers, workers)) in CLUSTERS.into_iter().enumerate() {
        let target = folder.path().join(format!("save-{number}"));
        standalone(peers)
            .workers(workers)
            .run(|cluster| {
                let mut save = ArraySaver::begin(cluster, &target)?;
                save.put("ratings", &read_ratings(cluster, &file)?)?;
                save.put("w", &cluster.uniform([13, 5], 0.0..1.0, Seed(2))?)?;
                save.put("bias", &cluster.uniform([13], 0.0..1.0, Seed(4))?)?;
                save.put("cube", &cluster.normal([3, 4, 5], 0.0, 1.0, Seed(4))?)?;
                save.commit()
            })
            .unwrap();
        let loaded = everywhere(|cluster| {
            let load = ArrayLoader::open(cluster, &target)?;
            assert_eq!(load.names().collect::<Vec<_>>(), ["bias", "cube", "ratings", "w"]);
            assert_eq!(load.get::<f32, 2>("w")?.collect()?, cluster.uniform([13, 5], 0.0..1.0, Seed(2))?.collect()?);
            assert_eq!(load.get::<f32, 1>("bias")?.collect()?, cluster.uniform([13], 0.0..1.0, Seed(4))?.collect()?);
            assert_eq!(
                load.get::<f32, 3>("cube")?.collect()?,
                cluster.normal([3, 4, 5], 0.0, 1.0, Seed(4))?.collect()?
            );
            load.get::<f32, 2>("ratings")?.collect()
        });
        assert_eq!(loaded, entries);
    }
    let wrong =
        error_everywhere(|cluster| ArrayLoader::open(cluster, &folder.path().join("save-0"))?.get::<f64, 2>("w"));
    assert!(wrong.contains("array `w` holds F32, not F64 as requested"), "{wrong}");
}

#[test]
fn an_array_with_a_non_finite_element_is_refused_by_name_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    standalone(2)
        .run(|cluster| {
            let mut save = ArraySaver::begin(cluster, &target)?;
            save.put("w", &cluster.from_fn([7, 2], |key| if key == [6, 1] { f32::INFINITY } else { 1.0 })?)?;
            save.put("h", &cluster.from_fn([7, 2], |_| 1.0_f32)?)?;
            save.commit()
        })
        .unwrap();
    everywhere(|cluster| {
        let load = ArrayLoader::open(cluster, &target)?;
        load.get_finite::<f32, 2>("h")?;
        load.get::<f32, 2>("w")?.collect()
    });
    let refused = error_everywhere(|cluster| ArrayLoader::open(cluster, &target)?.get_finite::<f32, 2>("w"));
    assert!(refused.ends_with("array `w` has an element `inf`, which no model can use"), "{refused}");
}

#[test]
fn a_failed_save_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model");
    let outcome = standalone(3).run(|cluster| {
        let mut save = ArraySaver::begin(cluster, &target)?;
        save.put("w", &cluster.uniform([13, 5], 0.0..1.0, Seed(2))?)?;
        Err::<(), _>("changed my mind".into())
    });
    assert_eq!(outcome.unwrap_err().to_string(), "changed my mind");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::create_dir_all(target.join("chapters")).unwrap();
    let error = error_everywhere(|cluster| ArraySaver::begin(cluster, &target).map(drop));
    assert!(error.contains("it contains other data"), "{error}");
}

/// User-defined element type.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Visit {
    page: String,
    seconds: f64,
}

impl Element for Visit {}

#[test]
fn elements_may_be_any_type_that_can_be_sent() {
    let found = everywhere(|cluster| {
        let numbers = cluster.from_fn([40], |[index]| index as u32)?;
        let visits =
            numbers.entries().map(|_, number| Visit { page: format!("p{number}"), seconds: f64::from(number) });
        visits.map_keys(|[index]| [39 - index]).materialize()?.collect()
    });
    assert_eq!(found[0], ([0], Visit { page: "p39".into(), seconds: 39.0 }));
}

/// Program of the peer processes; its result depends on everything that was read.
fn digest(cluster: &Cluster, folder: &Path) -> Result<String> {
    let ratings = read_ratings(cluster, &path(folder, "ratings.csv"))?;
    let grouped = ratings.entries().group_by(|[user, item], rating| (user % 7, (item, rating)))?;
    let items: usize = grouped.collect()?.iter().map(|(_, items)| items.len()).sum();
    let shuffled = ratings.shuffle_keys(Seed(5))?;
    let docs = cluster.read_docword(path(folder, "docword.txt"), None)?;
    let sum: f64 =
        shuffled.collect()?.iter().map(|([user, item], rating)| (user * 3 + item) as f64 * f64::from(*rating)).sum();
    Ok(format!("{} {items} {} {sum}", ratings.len(), docs.len()))
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_process() {
    let folder = std::env::var_os("HEMIOLA_TEST_FOLDER").unwrap();
    let digest = hemiola_cluster::run(|cluster| digest(cluster, Path::new(&folder))).unwrap();
    println!("digest: {digest}");
}

#[test]
fn three_processes_read_what_one_reads() {
    let (text, _) = ratings();
    // Large enough that peers with different numbers of workers would split it differently on their
    // own.
    let mut docword = String::from("2000\n100\n200000\n");
    for document in 1..=2000 {
        (1..=100).for_each(|word| writeln!(docword, "{document} {word} {}", document % 7 + 1).unwrap());
    }
    let folder = folder_with(&[("ratings.csv", text.as_bytes()), ("docword.txt", docword.as_bytes())]);
    let expected = standalone(1).run(|cluster| digest(cluster, folder.path())).unwrap().remove(0);
    let said = peers_of_three("dist::the_peer_process", |rank, command| {
        command.env("HEMIOLA_TEST_FOLDER", folder.path()).env("HEMIOLA_WORKERS", (rank * 3 + 1).to_string());
    });
    let digest = format!("digest: {expected}\n");
    assert!(said.iter().all(|said| said.contains(&digest)), "{said:?}, expected {expected}");
}

#[test]
fn dense_arrays_are_repartitioned_by_rows() {
    let (found, one) = everywhere(|cluster| {
        // Entries in the last rows only: a balanced partition gives the first peer nearly all rows.
        let marks = cluster.from_fn([40, 1], |[row, _]| row as f32)?;
        let sparse = marks.entries().filter(|[row, _], _| row >= 30).map_keys(|[row, _]| [row, row % 3, 16]);
        let mut uneven = sparse.materialize()?.to_dense(-1.0)?;
        uneven.scale(2.0);
        let even = uneven.repartition(&PartitionSpec::along(0).parts_per_worker(2))?;
        assert_eq!(even.shape(), uneven.shape());
        let ranges: Vec<_> = even.layout().space.partitioner.ranges().map(|range| range.end - range.start).collect();
        assert_eq!(ranges.len(), cluster.size() * 2 * cluster.workers());
        assert!(ranges.iter().max().unwrap() - ranges.iter().min().unwrap() <= 1, "{ranges:?}");
        let line = cluster.from_fn([100], |[index]| index * index)?;
        let finer = line.repartition(&PartitionSpec::along(0).parts_per_worker(3).method(PartitionMethod::Range))?;
        assert_eq!(line.collect()?, finer.collect()?);
        assert_eq!(uneven.collect()?, even.collect()?);
        Ok((even.collect()?, finer.collect()?.len()))
    });
    assert_eq!((found.len(), one), (40 * 3 * 17, 100));
    assert!(found.contains(&([39, 0, 16], 78.0)) && found.contains(&([39, 1, 16], -2.0)));
    let error = error_everywhere(|cluster| cluster.zeros::<f32, 2>([4, 4])?.repartition(&PartitionSpec::along(1)));
    assert!(error.contains("dense") && error.contains("first dimension"), "{error}");
}

#[test]
fn entries_of_any_type_are_repartitioned_and_back() {
    let texts = everywhere(|cluster| {
        let numbers = cluster.from_fn([90, 70], |[row, column]| row * 1000 + column)?;
        let texts =
            numbers.entries().filter(|[row, column], _| (row * column) % 7 != 3).map(|_, value| value.to_string());
        let rows = texts.materialize()?;
        let columns = rows.repartition(&PartitionSpec::along(1).and_along(0, PartitionMethod::Hash { seed: 3 }))?;
        let back = columns.repartition(&PartitionSpec::along(0))?;
        assert_eq!(rows.collect()?, columns.collect()?);
        let Storage::Sparse(blocks) = &*back.storage() else { unreachable!("it was sparse") };
        assert!(blocks.iter().all(|block| block.iter().map(|(key, _)| key).is_sorted()));
        back.collect()
    });
    assert!(texts.iter().all(|([row, column], text)| *text == (row * 1000 + column).to_string()));
}

#[test]
fn a_joint_histogram_of_all_peers_takes_the_memory_of_a_few() {
    const RANGES: usize = 400;
    let received = standalone(8).run(|cluster| {
        let entries: BTreeMap<_, _> = (0..12).map(|index| ([index, index], 1)).collect();
        let array = on_cluster(cluster, &entries, &PartitionSpec::default())?;
        // All ranges but the last are empty.
        let bounds = |end| std::iter::repeat_n(0, RANGES).chain([end]).collect::<Vec<usize>>();
        let before = cluster.traffic().bytes_received();
        let joint = array.joint_histogram([0, 1], array.shape().extents().map(bounds))?;
        assert_eq!(joint.total(), 12);
        Ok(cluster.traffic().bytes_received() - before)
    });
    // A count of zero takes a byte. A peer receives at most one histogram from each of the levels of
    // the tree, and the sum. Those of all peers would be eight.
    let one = (RANGES * RANGES) as u64;
    for received in received.unwrap() {
        assert!(received < 4 * one + one / 2, "{received} bytes for histograms of {one} bytes");
    }
}
