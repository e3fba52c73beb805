//! Every format gives the same records for any split into ranges.

use crate::{file, ratings};
use hemiola_array::read::{
    ByteRange, Csv, CsvHeader, Docword, InputFile, Ldac, Libsvm, MatrixMarket, NonFiniteHandling, Npy, ReadReport,
    RestOfLine,
};
use hemiola_array::{DenseArray, Dictionary, Result, Shape};
use proptest::prelude::*;
use std::fmt::Write as _;

#[test]
fn endings_may_be_mixed_and_the_last_may_be_missing() {
    for text in ["1,2,3\n4,5,6\n", "1,2,3\r\n4,5,6", "\n1,2,3\r\n\r\n4,5,6\n\n", "\u{feff}1,2,3\n4,5,6\r"] {
        let (_folder, source) = file(text);
        for target in 1..12 {
            assert_eq!(
                ratings(&Csv::new(), &source, target).unwrap(),
                [(1, 2, 3.0), (4, 5, 6.0)],
                "{text:?} in ranges of {target}"
            );
        }
    }
}

#[test]
fn every_separator_works() {
    for (separator, text) in [
        ("\t", "1\t2\t3\n4\t5\t6\n"),
        ("::", "1::2::3\n4::5::6\n"),
        (" ", "  1 \t2   3  \r\n4 5 6\n   \n"),
        (";", "1;2;3\n4; 5 ;6\n"),
        ("|", "\"1\"|\"+2\"|+3\n4|5|\"+6\"\n"),
    ] {
        let (_folder, source) = file(text);
        let csv = Csv::new().separator(separator);
        assert_eq!(ratings(&csv, &source, 3).unwrap(), [(1, 2, 3.0), (4, 5, 6.0)], "{separator:?}");
    }
}

#[test]
fn a_header_is_detected_from_two_lines() {
    let with = "userId,movieId,rating\r\n1,2,3\n";
    let (_folder, source) = file(with);
    for target in [1, 5, 100] {
        assert_eq!(ratings(&Csv::new(), &source, target).unwrap(), [(1, 2, 3.0)]);
    }
    let names = Csv::new().column_names(&source).unwrap();
    assert_eq!(names.unwrap(), ["userId", "movieId", "rating"]);
    assert!(ratings(&Csv::new().header(CsvHeader::Absent), &source, 100).is_err());
    // Comments and empty lines before it are ignored.
    let (_folder, source) = file("# 2026\n\nuserId,movieId,rating\n# 1,1,1\n1,2,3\n");
    assert_eq!(ratings(&Csv::new().comment(Some(b'#')), &source, 5).unwrap(), [(1, 2, 3.0)]);
    // Two lines without any number: no header, so nothing is lost.
    let (_folder, source) = file("a,b\nc,d\n");
    assert_eq!(Csv::new().column_names(&source).unwrap(), None);
    // A header of numbers must be declared.
    let (_folder, source) = file("0,1,2\n4,5,6\n");
    assert_eq!(ratings(&Csv::new().header(CsvHeader::Present), &source, 100).unwrap(), [(4, 5, 6.0)]);
}

#[test]
fn quotes_missing_values_and_unread_fields() {
    let (_folder, source) = file("1,\"Heat, \"\"the\"\" film\",,x,y\n2,plain,7,z\n");
    let mut records = Vec::new();
    Csv::new()
        .read(&ByteRange::whole(source), |(id, title, year, _): (u32, String, Option<u16>, RestOfLine)| {
            records.push((id, title, year));
            Ok(())
        })
        .unwrap();
    assert_eq!(records, [(1, "Heat, \"the\" film".to_owned(), None), (2, "plain".to_owned(), Some(7))]);
}

#[test]
fn names_become_indices_in_file_order_for_every_split() {
    let (_folder, source) = file("bob,x\nann,y\nbob,y\ncid,z\nann,x\n");
    for target in 1..30 {
        let mut users = Dictionary::new();
        let mut entries = Vec::new();
        for range in ByteRange::split(std::slice::from_ref(&source), target) {
            let mut own = Dictionary::new();
            let mut own_entries = Vec::new();
            Csv::new()
                .read_fields(&range, |fields| {
                    own_entries.push(own.intern(&fields.text()?));
                    Ok(())
                })
                .unwrap();
            let renumber = users.merge(&own);
            entries.extend(own_entries.into_iter().map(|number| renumber[number as usize]));
        }
        assert_eq!(entries, [0, 1, 0, 2, 1]);
        assert!(users.names().eq([&b"bob"[..], b"ann", b"cid"]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn csv_round_trips_for_every_split(
        records in prop::collection::vec((any::<u32>(), any::<u32>(), any::<f32>()), 1..40),
        target in 1_u64..200, windows: bool, separator in prop::sample::select(vec![",", "\t", "::", " "]),
    ) {
        let ending = if windows { "\r\n" } else { "\n" };
        let mut text = String::new();
        for (user, item, rating) in &records {
            write!(text, "{user}{separator}{item}{separator}{rating}{ending}").unwrap();
        }
        let (_folder, source) = file(text);
        let csv = Csv::new().separator(separator).non_finite(NonFiniteHandling::Keep);
        let read = ratings(&csv, &source, target).unwrap();
        prop_assert_eq!(read.len(), records.len());
        for (read, wrote) in read.iter().zip(&records) {
            prop_assert!((read.0, read.1) == (wrote.0, wrote.1));
            prop_assert!(read.2.to_bits() == wrote.2.to_bits() || read.2.is_nan() && wrote.2.is_nan());
        }
    }
}

/// Label, then columns and values.
type Row = (f32, Vec<(u32, f32)>);

fn libsvm_rows(libsvm: &Libsvm, text: &str, target: u64) -> Vec<Row> {
    let (_folder, source) = file(text);
    let mut rows = Vec::new();
    let mut reports = Vec::new();
    for range in ByteRange::split(std::slice::from_ref(&source), target) {
        let before = rows.len();
        let report = libsvm.read(&range, |example| {
            assert_eq!(before + example.row, rows.len(), "rows count from 0 in each range");
            rows.push((example.label, example.columns.iter().copied().zip(example.values.iter().copied()).collect()));
            Ok(())
        });
        reports.push(report.unwrap());
    }
    ReadReport::merge(&[source], reports, 0).unwrap();
    rows
}

#[test]
fn libsvm_reads_labels_pairs_comments_and_queries() {
    let text = "+1 1:0.5 3:2 # good\r\n# nothing\n\n-1\n3.5 qid:7 2:-1e-3\t4:4 \n0 1:1";
    for target in 1..40 {
        assert_eq!(
            libsvm_rows(&Libsvm::new(), text, target),
            [(1.0, vec![(0, 0.5), (2, 2.0)]), (-1.0, vec![]), (3.5, vec![(1, -1e-3), (3, 4.0)]), (0.0, vec![(0, 1.0)])]
        );
    }
    assert_eq!(libsvm_rows(&Libsvm::new().zero_based(true), "1 0:1 5:2\n", 100), [(1.0, vec![(0, 1.0), (5, 2.0)])]);
}

#[test]
fn docword_and_ldac_describe_the_same_documents() {
    let (_folder, source) = file("3\n4\n4\n1 1 2\n1 4 1\n3 2 5\n3 3 1\n");
    let docword = Docword::open(&source).unwrap();
    assert_eq!((docword.documents(), docword.words(), docword.entries()), (3, 4, 4));
    for target in 1..30 {
        let mut entries = Vec::new();
        for range in ByteRange::split(std::slice::from_ref(&source), target) {
            docword
                .read(&range, |document, word, count| {
                    entries.push((document, word, count));
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(entries, [(0, 0, 2), (0, 3, 1), (2, 1, 5), (2, 2, 1)]);
    }
    let (_folder, source) = file("2 0:2 3:1\n0\n2 1:5 2:1\n");
    let mut entries = Vec::new();
    Ldac::new()
        .words(Some(4))
        .read(&ByteRange::whole(source), |document| {
            for (&word, &count) in document.columns.iter().zip(document.values) {
                entries.push((document.row, word as usize, count as u32));
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(entries, [(0, 0, 2), (0, 3, 1), (2, 1, 5), (2, 2, 1)]);
}

fn matrix(text: &str, target: u64) -> Result<Vec<(usize, usize, f64)>> {
    let (_folder, source) = file(text);
    let matrix = MatrixMarket::open(&source)?;
    let (mut entries, mut reports) = (Vec::new(), Vec::new());
    for range in matrix.split(target) {
        reports.push(matrix.read(&range, |row, column, value| {
            entries.push((row, column, value));
            Ok(())
        })?);
    }
    matrix.check_count(ReadReport::merge(&[source], reports, 0)?.records)?;
    Ok(entries)
}

#[test]
fn matrix_market_formats_and_symmetries() {
    for target in [1, 7, 1000] {
        let banner = "%%MatrixMarket matrix coordinate";
        assert_eq!(
            matrix(&format!("{banner} real general\n%c\n%c\n2 3 2\n1 3 0.5\n2 1 -1e2\n"), target).unwrap(),
            [(0, 2, 0.5), (1, 0, -100.0)]
        );
        assert_eq!(
            matrix(&format!("{banner} pattern symmetric\n2 2 2\n1 1\n2 1\n"), target).unwrap(),
            [(0, 0, 1.0), (1, 0, 1.0), (0, 1, 1.0)]
        );
        assert_eq!(
            matrix(&format!("{banner} integer skew-symmetric\n2 2 1\n2 1 3\n"), target).unwrap(),
            [(1, 0, 3.0), (0, 1, -3.0)]
        );
        let banner = "%%MatrixMarket matrix array real";
        assert_eq!(
            matrix(&format!("{banner} general\n2 2\n1\n2\n3\n4\n"), target).unwrap(),
            [(0, 0, 1.0), (1, 0, 2.0), (0, 1, 3.0), (1, 1, 4.0)]
        );
        assert_eq!(
            matrix(&format!("{banner} symmetric\n2 2\n1\n2\n3\n"), target).unwrap(),
            [(0, 0, 1.0), (1, 0, 2.0), (0, 1, 2.0), (1, 1, 3.0)]
        );
        assert_eq!(matrix(&format!("{banner} skew-symmetric\n2 2\n7\n"), target).unwrap(), [(1, 0, 7.0), (0, 1, -7.0)]);
        let error = matrix(&format!("{banner} skew-symmetric\n2 2\n7\n8\n"), target).unwrap_err();
        assert!(error.to_string().ends_with("expected the end of the file after 1 values, found `8`"), "{error}");
    }
}

fn npy(version: u8, descr: &str, fortran: bool, shape: &str, body: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut bytes = [b"\x93NUMPY", &[version, 0][..]].concat();
    if version == 1 {
        bytes.extend((header.len() as u16).to_le_bytes());
    } else {
        bytes.extend((header.len() as u32).to_le_bytes());
    }
    [&bytes, header.as_bytes(), body].concat()
}

fn npy_cells(bytes: &[u8], target: usize) -> Vec<f32> {
    let (_folder, source) = file(bytes);
    let npy = Npy::open(&source).unwrap();
    let shape = Shape::new([npy.shape()[0], npy.shape().get(1).copied().unwrap_or(1)]);
    let mut dense = DenseArray::filled(shape, -1.0_f32).unwrap();
    let mut start = 0;
    while start < npy.elements() {
        let end = npy.elements().min(start + target);
        npy.read(start..end, |linear, value: f32| dense[shape.key(linear)] = value).unwrap();
        start = end;
    }
    dense.to_cells()
}

#[test]
fn npy_versions_types_and_orders() {
    let floats: Vec<u8> = (0..6).flat_map(|value: u16| f32::from(value).to_le_bytes()).collect();
    let big: Vec<u8> = (0..6_i16).flat_map(i16::to_be_bytes).collect();
    let doubles: Vec<u8> = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0].iter().flat_map(|value: &f64| value.to_le_bytes()).collect();
    for target in [1, 4, 6] {
        for version in 1..=3 {
            let expected = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
            assert_eq!(npy_cells(&npy(version, "<f4", false, "(2, 3)", &floats), target), expected);
            assert_eq!(npy_cells(&npy(version, ">i2", false, "(6,)", &big), target), expected);
            assert_eq!(npy_cells(&npy(version, "<f8", true, "(2, 3)", &doubles), target), expected);
        }
    }
    let negative: Vec<u8> = [-1_i64, i64::MAX].iter().flat_map(|value| value.to_le_bytes()).collect();
    let (_folder, source) = file(npy(1, "<i8", false, "(2,)", &negative));
    let mut values = Vec::new();
    Npy::open(&source).unwrap().read(0..2, |_, value: i64| values.push(value)).unwrap();
    assert_eq!(values, [-1, i64::MAX]);
    let error = Npy::open(&source).unwrap().read(0..2, |_, _: u32| ()).unwrap_err();
    assert!(error.to_string().ends_with("the element at [0] does not fit the requested type"));
}

#[test]
fn empty_ranges_of_a_short_file_are_fine() {
    let (_folder, source) = file("1,2,3\n");
    let ranges = ByteRange::split(std::slice::from_ref(&source), 1);
    assert_eq!(ranges.len(), 6);
    assert_eq!(ranges.iter().map(ByteRange::cost).sum::<u64>(), 6);
    assert_eq!(ratings(&Csv::new(), &source, 1).unwrap(), [(1, 2, 3.0)]);
    let (_folder, empty) = file("");
    assert_eq!(ByteRange::split(&[empty, InputFile::open(source.path()).unwrap()], 4).len(), 3);
}

#[test]
fn first_records_leave_out_header_comments_and_empty_lines() {
    let (_folder, source) = file("\u{feff}# a comment\nuser,item\r\n\n1,\"a,b\"\r\n# more\n2,c\n3,d");
    let csv = Csv::new().comment(Some(b'#'));
    assert_eq!(csv.first_records(&source, 2).unwrap(), [["1", "a,b"], ["2", "c"]]);
    assert_eq!(csv.first_records(&source, 9).unwrap().len(), 3);
}
