//! `hemiola data`: all formats, all errors with message and exit code, and synthetic data sets.

use crate::support::{Ended, launch, subcommand};
use hemiola_array::save::PartReader;
use hemiola_testkit::require;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Working folder, so that messages have short paths.
struct Lab(TempDir);

impl Lab {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Creates a folder with one file.
    fn with(name: &str, contents: impl AsRef<[u8]>) -> Self {
        let lab = Self::new();
        lab.write(name, contents);
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    /// Runs `hemiola data` to its end.
    fn data(&self, arguments: &str) -> Ended {
        launch(subcommand("data").args(arguments.split_whitespace()).current_dir(self.0.path())).end()
    }

    /// Returns the only description of a `describe` report.
    fn described(&self, arguments: &str) -> Value {
        let ended = self.data(&format!("describe {arguments} --report -"));
        assert_eq!((ended.code, lines(&ended.stderr)), (Some(0), String::new()));
        let report: Value = serde_json::from_str(&lines(&ended.stdout)).unwrap();
        report["sets"][0].clone()
    }

    /// Returns the names in the folder, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn lines(lines: &[Vec<u8>]) -> String {
    lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>().join("\n")
}

/// Asserts exit code, message and hint of a failed command.
#[track_caller]
fn failed(ended: &Ended, code: i32, message: &str, hint: &str) {
    let hint = if hint.is_empty() { String::new() } else { format!("\nhint: {hint}") };
    assert_eq!((ended.code, lines(&ended.stderr)), (Some(code), format!("hemiola: {message}{hint}")));
}

const SKIP: &str = "`--skip-bad-lines N` skips up to N such lines";
const NAN: &str = "`--keep-nan` counts such values instead, `--skip-bad-lines N` skips up to N such lines";
const TEXT: &str = "`--text-columns COLUMN` reads a column as text, `--skip-bad-lines N` skips up to N such lines";
const DETECTED: &str = "if the format was detected wrongly, set it with `--format`";

#[test]
fn ratings_are_entries_with_any_separator() {
    for (name, text, separator, header) in [
        ("a.csv", "user,item,rating\n1,10,4.5\n2,11,3\n2,10,1\n", "`,`", true),
        ("a.tsv", "1\t10\t4.5\r\n2\t11\t3\n2\t10\t1", "a tab", false),
        ("a.dat", "1::10::4.5::978300760\n2::11::3::978302109\n2::10::1::978301968\n", "`::`", false),
        ("a.txt", "\u{feff}1 10  4.5\n\n2 11 3\n 2 10 1\n", "white space", false),
    ] {
        let set = Lab::with(name, text).described(name);
        assert_eq!((&set["format"], &set["view"]), (&"csv".into(), &"entries".into()), "{name}");
        assert_eq!((&set["separator"], &set["header"]), (&separator.into(), &header.into()), "{name}");
        assert_eq!((&set["shape"], &set["entries"]), (&serde_json::json!([2, 11]), &3.into()), "{name}");
        assert_eq!(set["occupied"], serde_json::json!([2, 2]), "{name}");
        assert_eq!(set["duplicates"], 0, "{name}");
        let values = serde_json::json!({ "type": "f32", "min": 1.0, "mean": 8.5 / 3.0, "max": 4.5, "not_finite": 0 });
        assert_eq!(set["values"], values, "{name}");
        assert_eq!(set["memory"]["sparse_bytes"], 36, "{name}");
        assert_eq!(set["first_rows"]["rows"][0][1], "10", "{name}");
    }
}

#[test]
fn text_and_report_agree() {
    let lab = Lab::with("a.csv", "user,item,rating\n1,10,4.5\n2,11,3\n2,10,1\n");
    let ended = lab.data("describe a.csv --report facts.json");
    let expected = "a.csv
  files       40 bytes on disk, plain
  format      csv, separated by `,`, with a header
  detected by 3 fields, separated by `,`, on 4 of 4 lines
  read as     entries: row, column, value
  shape       2 x 11 (rows counted from 1, columns from 1)
  occupied    2 rows and 2 columns have entries
  entries     3, density 13.64 %
  duplicates  0
  values      f32, 1 to 4.5000, mean 2.8333
  memory      36 bytes as sparse array, 188 bytes as dense array, of f32
  skew        the top 1 % of rows have 66.67 %, of columns 66.67 % of all entries

  columns
    user    u8   1 to 2, mean 1.6667
    item    u8   10 to 11, mean 10.3333
    rating  f32  1 to 4.5000, mean 2.8333

  first rows
    user  item  rating
    1     10    4.5
    2     11    3
    2     10    1";
    assert_eq!((ended.code, lines(&ended.stdout).as_str()), (Some(0), expected));
    assert!(ended.stderr.is_empty());
    let report: Value = serde_json::from_slice(&fs::read(lab.path("facts.json")).unwrap()).unwrap();
    assert_eq!(report["sets"][0]["shape"], serde_json::json!([2, 11]));
    assert_eq!(lab.names(), ["a.csv", "facts.json"], "nothing temporary is left");
}

#[test]
fn other_separated_values_are_a_table() {
    let set = Lab::with("a.csv", "name,height,born\nAda,1.6,1815\n\"Hopper, Grace\",,1906\n").described("a.csv");
    assert_eq!((&set["view"], &set["shape"]), (&"table".into(), &serde_json::json!([2, 3])));
    let columns = &set["columns"];
    assert_eq!(
        (&columns[0]["type"], &columns[1]["type"], &columns[2]["type"]),
        (&"text".into(), &"f32".into(), &"u16".into())
    );
    assert_eq!((&columns[1]["missing"], &columns[2]["mean"]), (&1.into(), &1860.5.into()));
    assert_eq!((&set["entries"], &set["skew"]), (&5.into(), &Value::Null));
    assert_eq!(set["first_rows"]["rows"][1][0], "Hopper, Grace");
}

#[test]
fn views_names_and_headers_can_be_selected() {
    let lab = Lab::with("a.csv", "ada,apple,1\nbob,pear,2\nada,pear,4\nada,pear,4\n");
    let set = lab.described("a.csv --view entries --header no");
    assert_eq!((&set["shape"], &set["duplicates"]), (&serde_json::json!([2, 2]), &1.into()));
    assert_eq!(lab.described("a.csv --header yes")["columns"][2]["name"], "1");
    lab.write("b.txt", "1|2|3\n4|5|6\n");
    let set = lab.described("b.txt --view table --separator | --text-columns 2");
    assert_eq!((&set["view"], &set["columns"][1]["type"]), (&"table".into(), &"text".into()));
    assert_eq!(lab.described("b.txt --format csv")["separator"], "`|`");
    let ended = lab.data("describe b.txt --text-columns weight");
    failed(&ended, 2, "there is no column `weight`", "there are 3 columns");
    failed(
        &lab.data("describe b.txt --view entries --separator ,"),
        2,
        "entries have at least 3 fields (row, column, value), but the lines have 1",
        "leave out `--view entries`",
    );
}

#[test]
fn libsvm_is_described() {
    let lab = Lab::with("a", "+1 1:0.5 4:2\n-1\n-1 2:1 2:3 # twice\n");
    let set = lab.described("a");
    assert_eq!((&set["format"], &set["shape"]), (&"libsvm".into(), &serde_json::json!([3, 4])));
    assert_eq!((&set["entries"], &set["duplicates"]), (&4.into(), &1.into()));
    assert_eq!((&set["labels"]["min"], &set["labels"]["max"]), (&(-1.0).into(), &1.0.into()));
    assert_eq!(set["first_rows"]["rows"][0], serde_json::json!(["1", "1:0.5", "4:2"]));
    lab.write("zero", "1 0:1 2:1\n0 1:1\n");
    assert_eq!(lab.described("zero --zero-based --format libsvm")["shape"], serde_json::json!([2, 3]));
}

#[test]
fn bags_of_words_are_described_with_their_words() {
    let lab = Lab::with("docword.x.txt", "2\n3\n3\n1 1 5\n1 3 1\n2 3 2\n");
    lab.write("vocab.x.txt", "apple\npear\nplum\n");
    let set = lab.described("docword.x.txt --vocabulary vocab.x.txt");
    assert_eq!(
        (&set["format"], &set["shape"], &set["entries"]),
        (&"docword".into(), &serde_json::json!([2, 3]), &3.into())
    );
    assert_eq!(set["first_rows"]["rows"][1], serde_json::json!(["1", "plum", "1"]));
    lab.write("x.ldac", "2 0:5 2:1\n1 2:2\n");
    let set = lab.described("x.ldac --vocabulary vocab.x.txt");
    assert_eq!(
        (&set["format"], &set["shape"], &set["entries"]),
        (&"ldac".into(), &serde_json::json!([2, 3]), &3.into())
    );
    assert_eq!(set["first_rows"]["rows"][0], serde_json::json!(["2", "apple:5", "plum:1"]));
}

#[test]
fn matrix_market_is_described() {
    let lab = Lab::with("a.mtx", "%%MatrixMarket matrix coordinate real symmetric\n% c\n3 3 2\n2 1 5\n3 3 1.5\n");
    let set = lab.described("a.mtx");
    assert_eq!((&set["format"], &set["shape"]), (&"matrix-market".into(), &serde_json::json!([3, 3])));
    assert_eq!(set["entries"], 3, "the mirrored entry counts");
    lab.write("b.mtx", "%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n4\n");
    assert_eq!(lab.described("b.mtx")["values"]["mean"], 2.5);
}

/// A numpy file of version 1.
fn npy(descr: &str, shape: &str, body: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(body);
    file
}

#[test]
fn numpy_arrays_are_described() {
    let body: Vec<u8> = [0.0_f32, 1.0, 2.5, f32::NAN, 0.0, -1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let lab = Lab::with("a.npy", npy("<f4", "(2, 3)", &body));
    let refused = "`a.npy`: expected a finite number at [1, 0], found NaN; clean the data or keep non-finite values";
    failed(&lab.data("describe a.npy"), 2, refused, "`--keep-nan` counts such values instead");
    let set = lab.described("a.npy --keep-nan");
    assert_eq!(
        (&set["view"], &set["shape"], &set["entries"]),
        (&"dense".into(), &serde_json::json!([2, 3]), &6.into())
    );
    assert_eq!((&set["values"]["not_finite"], &set["values"]["max"]), (&1.into(), &2.5.into()));
    assert_eq!((&set["memory"]["element"], &set["first_rows"]["rows"][1][2]), (&"f32".into(), &"-1".into()));
    lab.write("none.npy", npy("<i8", "(0, 3)", &[]));
    assert_eq!(lab.described("none.npy")["entries"], 0);
    lab.write("cut.npy", npy("<i8", "(5,)", &[0; 8]));
    let message = "`cut.npy`: the header requires 108 bytes, the file has 76; is it complete?";
    failed(&lab.data("describe cut.npy"), 2, message, DETECTED);
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_files_and_folders_are_data_sets() {
    let lab = Lab::new();
    fs::create_dir(lab.path("parts")).unwrap();
    lab.write("parts/1.csv", "1,1,5\n");
    lab.write("parts/2.csv", gzip("2,7,3\n"));
    lab.write("parts/3.csv", "");
    let set = lab.described("parts");
    assert_eq!((&set["files"], &set["compression"]), (&3.into(), &"mixed".into()));
    assert_eq!((&set["shape"], &set["entries"]), (&serde_json::json!([2, 7]), &2.into()));
    assert_eq!(lab.described("parts/[12].csv")["entries"], 2);
    lab.write("parts/4.csv", &gzip(&"1,2,3\n".repeat(1000))[..40]);
    let ended = lab.data("describe parts");
    assert_eq!(ended.code, Some(2));
    let message = lines(&ended.stderr);
    assert!(
        message.starts_with("hemiola: `parts/4.csv` is not a complete gzip file: it ends too early after"),
        "{message}"
    );
}

#[test]
fn the_description_does_not_depend_on_the_number_of_workers() {
    let mut text = String::new();
    for row in 0..600_000_u64 {
        writeln!(text, "{},{},{}.{}", row % 5003, row * row % 701, row % 10, row % 97).unwrap();
    }
    let lab = Lab::with("a.csv", text);
    let alone = lab.described("a.csv --workers 1");
    for workers in [2, 4] {
        assert_eq!(lab.described(&format!("a.csv --workers {workers}")), alone);
    }
    lab.write("b.csv", fs::read_to_string(lab.path("a.csv")).unwrap().replace("599999,", "x,") + "1,2\n3\n");
    let alone = lab.data("describe b.csv --workers 1");
    failed(&alone, 2, "`b.csv:600001:4`: expected field 3 after `,`, found the end of the line", SKIP);
    assert_eq!(lab.data("describe b.csv --workers 4").stderr, alone.stderr);
}

#[test]
fn bad_lines_are_reported_with_file_line_column_and_expectation() {
    for (name, text, message, hint) in [
        ("short.csv", "1,2,3\n4,5\n", "`short.csv:2:4`: expected field 3 after `,`, found the end of the line", SKIP),
        (
            "long.csv",
            "1,2,3\n4,5,6,7\n",
            "`long.csv:2:7`: expected the end of the line after 3 fields, found `7`",
            SKIP,
        ),
        ("word.csv", "1,2,3\n4,5,good\n", "`word.csv:2:5`: expected a number, found `good`", TEXT),
        ("nan.csv", "1,2,3\n4,5,nan\n", "`nan.csv:2:5`: expected a finite number, found `nan`", NAN),
        ("short.csv", "a,2\nb\n", "`short.csv:2:2`: expected field 2 after `,`, found the end of the line", SKIP),
        (
            "zero.svm",
            "1 1:1\n-1 0:1\n",
            "`zero.svm:2:4`: expected an index from 1 to 4294967296 (ask for zero-based indices if 0 is the first), found `0`",
            "`--zero-based` if the first index is 0, else `--skip-bad-lines N` skips up to N such lines",
        ),
        ("pair.svm", "1 1:1\n-1 3\n", "`pair.svm:2:4`: expected `index:value`, found `3`", SKIP),
        (
            "range.docword",
            "1\n2\n2\n1 1 1\n1 3 1\n",
            "`range.docword:5:3`: expected a word from 1 to 2, found `3`",
            SKIP,
        ),
        (
            "none.docword",
            "1\n2\n2\n1 1 1\n0 1 1\n",
            "`none.docword:5:1`: expected a document from 1 to 1, found `0`",
            SKIP,
        ),
        (
            "count.ldac",
            "1 0:1\n3 0:1 1:1\n",
            "`count.ldac:2:1`: expected 2 as the number of `id:count` pairs that follow, found `3`",
            SKIP,
        ),
        (
            "m.mtx",
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n",
            "`m.mtx:3:1`: expected a row from 1 to 2, found `3`",
            SKIP,
        ),
    ] {
        failed(&Lab::with(name, text).data(&format!("describe {name}")), 2, message, hint);
    }
}

#[test]
fn bad_files_are_reported_with_the_problem() {
    for (name, text, message, hint) in [
        ("empty.csv", &b""[..], "`empty.csv` is empty; expected at least one line with a record", ""),
        ("blank.csv", b"\n \n", "`blank.csv` is empty; expected at least one line with a record", ""),
        ("head.csv", b"user,item\n", "`head.csv` is empty; expected at least one line with a record", ""),
        ("binary", b"\x00\x01", "`binary`: it is neither text nor a numpy, Parquet or Arrow file", DETECTED),
        (
            "wide.csv",
            b"\xff\xfe1\x00",
            "`wide.csv`: it is UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`",
            DETECTED,
        ),
        (
            "cut.docword",
            b"1\n2\n3\n1 1 1\n",
            "`cut.docword`: the header declares 3 entries, the file has 1; is it complete?",
            DETECTED,
        ),
    ] {
        let lab = Lab::with(name, text);
        let header = if name == "head.csv" { " --header yes" } else { "" };
        failed(&lab.data(&format!("describe {name}{header}")), 2, message, hint);
    }
    let missing = "cannot open `none.csv`: no such file or directory; check the path";
    failed(&Lab::new().data("describe none.csv"), 2, missing, "");
    let lab = Lab::with("docword.x", "1\n2\n1\n1 1 1\n");
    lab.write("vocab", "one\n");
    let short = "`vocab`: the vocabulary has 1 words, but ids go up to word 2; expected one word per line for every id";
    failed(&lab.data("describe docword.x --vocabulary vocab"), 2, short, "");
}

#[test]
fn a_column_with_a_late_text_field_is_text() {
    // Codes are numbers in the sampled lines, and text later.
    let mut text = String::new();
    for user in 1..=300 {
        let code = if user > 200 && user % 50 == 0 { "T8H-1N".to_owned() } else { format!("{}", 10_000 + user) };
        writeln!(text, "{user}::{}::{}::{code}", if user % 2 == 0 { "F" } else { "M" }, user % 60).unwrap();
    }
    let lab = Lab::with("users.dat", text);
    let set = lab.described("users.dat");
    assert_eq!((&set["separator"], &set["shape"]), (&"`::`".into(), &serde_json::json!([300, 4])));
    let types: Vec<_> = set["columns"].as_array().unwrap().iter().map(|column| &column["type"]).collect();
    assert_eq!(types, ["u16", "text", "u8", "text"]);
    assert_eq!((&set["columns"][3]["numbers"], &set["columns"][3]["max"]), (&298.into(), &Value::Null));
    assert_eq!((&set["columns"][1]["numbers"], &set["values"]["max"]), (&Value::Null, &300.0.into()));
    let shown = lines(&lab.data("describe users.dat").stdout);
    assert!(shown.contains("field 4  text  298 are numbers"), "{shown}");
}

#[test]
fn bad_lines_are_skipped_up_to_a_limit() {
    let lab = Lab::with("a.csv", "1,2,3\n4,x,6\n7,8\n2,2,1\n");
    let set = lab.described("a.csv --skip-bad-lines 2");
    assert_eq!(
        (&set["entries"], &set["skipped"][0]["line"], &set["skipped"][1]["line"]),
        (&2.into(), &2.into(), &3.into())
    );
    let text = lines(&lab.data("describe a.csv --skip-bad-lines 2").stdout);
    assert!(text.contains("skipped lines: 2\n    `a.csv:2:3`: expected a whole number"), "{text}");
    let message = "more than the 1 bad lines that `skip_bad_lines` allows; the first line over the limit is `a.csv:3:4`: \
                   expected field 3 after `,`, found the end of the line";
    let hint = "allow more with `--skip-bad-lines`, or set the right `--format`";
    failed(&lab.data("describe a.csv --skip-bad-lines 1"), 2, message, hint);
}

#[test]
fn bad_lines_are_skipped_in_every_text_format() {
    let lab = Lab::new();
    let cases = [
        ("libsvm", "1 1:1\nx\n1 2:1\n", 2, 2),
        ("ldac", "1 1:1\nx\n1 2:1\n", 2, 2),
        ("docword", "2\n2\n3\n1 1 1\nx\n2 2 1\n", 2, 5),
        ("matrix-market", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\nx\n2 2 1\n", 2, 4),
    ];
    for (format, text, entries, line) in cases {
        lab.write("a.txt", text);
        let set = lab.described(&format!("a.txt --format {format} --skip-bad-lines 1"));
        assert_eq!((&set["entries"], &set["skipped"][0]["line"]), (&entries.into(), &line.into()), "{format}");
        assert_eq!(lab.data(&format!("describe a.txt --format {format}")).code, Some(2), "{format}");
    }
    lab.write("header.txt", "2\nx\n1\n1 1 1\n");
    let message =
        "`header.txt`: expected three header lines (documents, words, entries), found `x` for the number of words";
    failed(&lab.data("describe header.txt --format docword --skip-bad-lines 9"), 2, message, "");
    lab.write("a.npy", npy("<i8", "(1,)", &[0; 8]));
    let message = "--skip-bad-lines has no effect on files of the format npy";
    failed(&lab.data("describe a.npy --skip-bad-lines 1"), 2, message, "leave it out, or set the right `--format`");
}

#[test]
fn non_finite_values_are_counted_with_keep_nan() {
    let lab = Lab::new();
    let cases = [
        ("csv", "1,1,1\n2,2,nan\n"),
        ("libsvm", "1 1:1\n1 2:nan\n"),
        ("matrix-market", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 2 inf\n"),
    ];
    for (format, text) in cases {
        lab.write("a.txt", text);
        let refused = lab.data(&format!("describe a.txt --format {format}"));
        assert!(refused.code == Some(2) && lines(&refused.stderr).ends_with(NAN), "{format}");
        let set = lab.described(&format!("a.txt --format {format} --keep-nan"));
        assert_eq!((&set["entries"], &set["values"]["not_finite"]), (&2.into(), &1.into()), "{format}");
    }
}

#[test]
fn flags_without_effect_are_refused() {
    let lab = Lab::with("a.svm", "1 1:1\n");
    for (option, name) in [
        ("--separator ,", "--separator"),
        ("--header no", "--header"),
        ("--view table", "--view"),
        ("--vocabulary x", "--vocabulary"),
        ("--text-columns 1", "--text-columns"),
    ] {
        let message = format!("{name} has no effect on files of the format libsvm");
        let ended = lab.data(&format!("describe a.svm --format libsvm {option}"));
        failed(&ended, 2, &message, "leave it out, or set the right `--format`");
    }
    for wrong in ["describe", "describe a.svm --format tar", "describe a.svm --workers 0", "make", "make mf"] {
        assert_eq!(lab.data(wrong).code, Some(2), "{wrong}");
    }
}

#[test]
fn file_urls_are_described_and_unknown_schemes_refused() {
    let lab = Lab::with("a.csv", "1,2,3\n");
    assert_eq!(lab.described(&format!("file://{}", lab.path("a.csv").display()))["entries"], 1);
    let message = "`ftp://host/a.csv` cannot be read: it begins with none of file, s3, gs, az, http and https";
    failed(&lab.data("describe ftp://host/a.csv"), 2, message, "");
}

#[test]
#[cfg(not(feature = "object-store"))]
fn other_urls_need_the_feature() {
    let message = "`s3://bucket/a.csv` cannot be read by this build; build with the cargo feature `object-store`";
    failed(&Lab::new().data("describe s3://bucket/a.csv"), 2, message, "");
}

#[test]
#[cfg(not(feature = "arrow"))]
fn columnar_files_need_the_feature() {
    let ended = Lab::with("a.parquet", b"PAR1....").data("describe a.parquet");
    failed(
        &ended,
        2,
        "`a.parquet`: this build of `hemiola` cannot read parquet files",
        "build it with `--features arrow`",
    );
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let lab = Lab::with("a.csv", "1,2,3\n");
    let ended = lab.data("describe a.csv --report no/such/folder.json");
    assert_eq!(ended.code, Some(2));
    assert!(lines(&ended.stderr).starts_with("hemiola: cannot write `no/such/folder.json`: "), "{ended:?}");
    assert_eq!(lab.data("describe a.csv --report /dev/null").code, Some(0));
    assert_eq!(lab.data("describe a.csv --report /dev/full").code, Some(3));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let lab = Lab::with("a.csv", "1,2,3\n");
    let script = r#"{ "$0" data describe a.csv; echo $? >code; } | true; while [ ! -s code ]; do :; done; cat code"#;
    let mut command = Command::new("sh");
    let ended = launch(command.args(["-c", script, env!("CARGO_BIN_EXE_hemiola")]).current_dir(lab.0.path())).end();
    assert_eq!(lines(&ended.stdout), "0");
}

#[test]
fn ratings_follow_from_the_ground_truth() {
    let lab = Lab::new();
    let ended =
        lab.data("make mf --output r.tsv --users 40 --items 30 --ratings 300 --rank 3 --noise 0 --seed 7 --header");
    assert_eq!((ended.code, lines(&ended.stderr)), (Some(0), String::new()));
    assert_eq!(lab.names(), ["r.tsv", "r.tsv.json", "r.tsv.truth"]);
    let facts: Value = serde_json::from_slice(&fs::read(lab.path("r.tsv.json")).unwrap()).unwrap();
    assert_eq!((&facts["set"], &facts["seed"], &facts["sizes"]["users"]), (&"mf".into(), &7.into(), &40.into()));
    let truth = PartReader::open(&lab.path("r.tsv.truth")).unwrap();
    let (_, w) = truth.read_dense::<f32, 2>("w", 0).unwrap();
    let (_, h) = truth.read_dense::<f32, 2>("h", 0).unwrap();
    let text = fs::read_to_string(lab.path("r.tsv")).unwrap();
    let mut ratings = text.lines();
    assert_eq!(ratings.next(), Some("user\titem\trating"));
    let mut count = 0;
    for line in ratings {
        let fields: Vec<f32> = line.split('\t').map(|field| field.parse().unwrap()).collect();
        let (user, item) = (fields[0] as usize - 1, fields[1] as usize - 1);
        let product: f32 = w.row(user).iter().zip(h.row(item)).map(|(left, right)| left * right).sum();
        // Tolerance of a sum of three products in single precision.
        assert!((fields[2] - 3.5 - product).abs() < 1e-4, "{line}");
        count += 1;
    }
    assert_eq!((&facts["found"]["ratings"], count), (&300.into(), 300));
    assert_eq!(lab.described("r.tsv")["entries"], count);
}

#[test]
fn all_synthetic_sets_are_readable_and_have_a_ground_truth() {
    let lab = Lab::new();
    let make = |arguments: &str| {
        let ended = lab.data(&format!("make {arguments}"));
        assert_eq!((ended.code, lines(&ended.stderr)), (Some(0), String::new()), "{arguments}");
    };
    make("lda --output docword.t.txt.gz --documents 20 --words 50 --topics 3 --document-length 30");
    let set = lab.described("docword.t.txt.gz --vocabulary vocab.t.txt");
    assert_eq!((&set["shape"], &set["compression"]), (&serde_json::json!([20, 50]), &"gzip".into()));
    let truth = PartReader::open(&lab.path("docword.t.txt.gz.truth")).unwrap();
    let (_, topics) = truth.read_dense::<f32, 2>("topics", 0).unwrap();
    for topic in topics.rows() {
        assert!((topic.iter().sum::<f32>() - 1.0).abs() < 1e-4);
    }
    assert_eq!(truth.array::<f32, 2>("mixtures").unwrap().1.extents(), [20, 3]);

    make("lasso --output l.libsvm --rows 10 --columns 40 --support 4");
    assert_eq!(lab.described("l.libsvm")["entries"], 400);
    let truth = PartReader::open(&lab.path("l.libsvm.truth")).unwrap();
    let (_, coefficients) = truth.read_dense::<f64, 1>("coefficients", 0).unwrap();
    assert_eq!(coefficients.row(0).iter().filter(|value| **value != 0.0).count(), 4);

    make("logistic --output c.zst --rows 100 --columns 60 --features-per-row 5");
    let set = lab.described("c.zst");
    assert_eq!(
        (&set["format"], &set["shape"][0], &set["compression"]),
        (&"libsvm".into(), &100.into(), &"zstd".into())
    );
    assert_eq!((&set["labels"]["min"], &set["labels"]["max"]), (&(-1.0).into(), &1.0.into()));
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_workers() {
    let lab = Lab::new();
    for set in ["mf", "lda", "lasso", "logistic"] {
        for (name, options) in [("a", "--workers 1"), ("b", "--workers 3"), ("c", "--seed 2")] {
            assert_eq!(lab.data(&format!("make {set} --output {set}.{name} {options}")).code, Some(0), "{set}");
        }
        let read = |name: &str| fs::read(lab.path(name)).unwrap();
        assert!(read(&format!("{set}.a")) == read(&format!("{set}.b")), "{set}");
        assert!(read(&format!("{set}.a")) != read(&format!("{set}.c")), "{set}");
        let manifest = |name: &str| read(&format!("{set}.{name}.truth/manifest.json"));
        assert!(manifest("a") == manifest("b"), "{set}: the checksums of the truth");
    }
}

#[test]
fn files_are_overwritten_with_force_only() {
    let lab = Lab::with("vocab.x", "mine\n");
    let small = "--documents 5 --words 9 --topics 2 --document-length 4";
    let ended = lab.data(&format!("make lda --output docword.x {small}"));
    failed(&ended, 2, "`vocab.x` exists already", "choose another `--output`, or replace it with `--force`");
    assert_eq!(lab.names(), ["vocab.x"]);
    assert_eq!(lab.data(&format!("make lda --output docword.x --force {small}")).code, Some(0));
    assert_eq!(lab.data(&format!("make lda --output docword.x --force --seed 2 {small}")).code, Some(0));
    assert_eq!(lab.names(), ["docword.x", "docword.x.json", "docword.x.truth", "vocab.x"]);
    let truth = "other data";
    fs::remove_dir_all(lab.path("docword.x.truth")).unwrap();
    lab.write("docword.x.truth", truth);
    let ended = lab.data(&format!("make lda --output docword.x --force {small}"));
    let message = "`docword.x.truth` is not a complete save: it contains other data; remove it or choose another path";
    failed(&ended, 2, message, "");
    assert_eq!(fs::read_to_string(lab.path("docword.x.truth")).unwrap(), truth);
    assert_eq!(lab.names(), ["docword.x", "docword.x.json", "docword.x.truth", "vocab.x"]);
}

#[test]
fn impossible_sets_and_paths_are_refused_before_anything_is_written() {
    let lab = Lab::with("file", "x");
    fs::create_dir(lab.path("folder")).unwrap();
    let message = "2 users and 3 items cannot have 7 ratings";
    failed(&lab.data("make mf --output r.csv --users 2 --items 3 --ratings 7"), 2, message, "use fewer `--ratings`");
    let message = "3 columns cannot have 4 nonzero coefficients";
    failed(&lab.data("make lasso --output l --columns 3 --support 4"), 2, message, "use a smaller `--support`");
    let message = "cannot write `r.csv.bz2`: files are not compressed as `.bz2`";
    failed(&lab.data("make mf --output r.csv.bz2"), 2, message, "let the name end with `.gz`, `.zst` or neither");
    failed(
        &lab.data("make mf --output folder --force"),
        2,
        "cannot write `folder`: it is a folder",
        "add the name of a file",
    );
    let message = "cannot write `no/r.csv`: No such file or directory (os error 2)";
    failed(&lab.data("make mf --output no/r.csv"), 2, message, "create the folder first, or check the path");
    assert_eq!(lab.data("make mf --output file/r.csv").code, Some(2));
    for wrong in ["--users 0", "--noise -1", "--noise nan", "--seed x"] {
        assert_eq!(lab.data(&format!("make mf --output r.csv {wrong}")).code, Some(2), "{wrong}");
    }
    assert_eq!(lab.names(), ["file", "folder"]);
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    require!(hemiola_testkit::program("mount", "unshare", &["-m", "true"]));
    let lab = Lab::new();
    fs::create_dir(lab.path("disk")).unwrap();
    // A private file system in a private mount namespace: both end with the shell.
    let script = r#"mount -t tmpfs -o size=128k none disk || exit 77
        "$0" data make "$@" --output disk/set; code=$?; ls -A disk; exit $code"#;
    let small = "mf --users 100 --items 50 --ratings 100 --rank 400";
    for (set, what) in
        [("mf", "disk/set"), ("lasso", "disk/set"), (small, "disk/.set.truth.partial/generation-1/w.00000.safetensors")]
    {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_hemiola")]).args(set.split(' '));
        let ended = launch(command.current_dir(lab.0.path())).end();
        require!(hemiola_testkit::condition("mount", ended.code != Some(77), "a tmpfs cannot be mounted"));
        let message = lines(&ended.stderr);
        assert!(message.starts_with(&format!("hemiola: cannot write `{what}`: ")), "{message}");
        assert!(message.to_lowercase().contains("no space left on") && message.contains("free some"), "{message}");
        assert_eq!((ended.code, lines(&ended.stdout)), (Some(3), String::new()), "{set}");
    }
}

#[test]
fn a_folder_without_permission_is_reported() {
    use std::os::unix::{fs::PermissionsExt as _, process::CommandExt as _};
    let lab = Lab::new();
    fs::create_dir(lab.path("locked")).unwrap();
    fs::set_permissions(lab.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(lab.path("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read every folder, so the command runs as an unprivileged user.
    let unprivileged = |mut command: Command| {
        if rustix::process::geteuid().is_root() {
            command.uid(65_534).gid(65_534);
        }
        command
    };
    let mut probe = Command::new(env!("CARGO_BIN_EXE_hemiola"));
    probe.arg("--version");
    let can_run = unprivileged(probe).output().is_ok();
    require!(hemiola_testkit::condition("user", can_run, "another user cannot run this test"));
    let data = |arguments: &str| {
        let mut command = unprivileged(subcommand("data"));
        launch(command.args(arguments.split_whitespace()).current_dir(lab.0.path())).end()
    };
    let message = "cannot list `locked`: permission denied; ask the owner or run as a user with access";
    failed(&data("describe locked"), 2, message, "");
    let message = "cannot write `locked/r.csv`: Permission denied (os error 13)";
    failed(&data("make mf --output locked/r.csv"), 2, message, "choose another folder, or ask its owner for access");
}

#[test]
fn help_has_examples() {
    for command in ["describe", "make mf", "make lda", "make lasso", "make logistic"] {
        let ended = Lab::new().data(&format!("{command} --help"));
        let text = lines(&ended.stdout);
        assert!(ended.code == Some(0) && text.contains(&format!("Examples:\n  hemiola data {command} ")), "{text}");
    }
}

#[test]
fn public_data_sets_have_their_published_counts() {
    for (path, format, shape, entries, options) in [
        ("movielens-1m/ratings.tsv.zst", "csv", [6040, 3952], 1_000_209, ""),
        ("movielens-1m/users.dat.zst", "csv", [6040, 5], 30_200, ""),
        ("movielens-1m/movies.dat.zst", "csv", [3883, 3], 11_649, ""),
        ("imdb/train.libsvm.zst", "libsvm", [25_000, 89_527], 3_452_407, ""),
        ("uci-kos/docword.kos.txt.zst", "docword", [3430, 6906], 353_160, "uci-kos/vocab.kos.txt"),
        ("ap/ap.dat.zst", "ldac", [2246, 10_473], 302_031, ""),
    ] {
        let mut arguments = require!(hemiola_testkit::data(path)).display().to_string();
        if !options.is_empty() {
            write!(arguments, " --vocabulary {}", require!(hemiola_testkit::data(options)).display()).unwrap();
        }
        let set = Lab::new().described(&arguments);
        assert_eq!((&set["format"], &set["entries"]), (&format.into(), &entries.into()), "{path}");
        assert_eq!(set["shape"], serde_json::json!(shape), "{path}");
        assert!(set["duplicates"] == 0 || set["view"] == "table", "{path}");
    }
}
