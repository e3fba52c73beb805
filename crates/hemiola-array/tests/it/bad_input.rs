//! Every kind of bad input, with the exact message, identical for any split into ranges.

use crate::{Rating, file, message, ratings};
use hemiola_array::read::{
    ByteRange, Csv, CsvHeader, Docword, InputFile, Ldac, Libsvm, LineReader, MatrixMarket, NonFiniteHandling, Npy,
    ParseError, ReadReport, lines,
};
use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
use hemiola_array::{EntryOrigin, Error, Result};

/// Error message of reading `text` as ratings, which must not depend on the split.
fn csv_message(csv: &Csv, text: impl AsRef<[u8]>) -> String {
    let (folder, source) = file(text);
    let messages: Vec<String> =
        [1, 3, 7, 1 << 20].map(|target| message(&ratings(csv, &source, target).unwrap_err(), &folder)).to_vec();
    assert!(messages.iter().all(|message| message == &messages[0]), "{messages:?}");
    messages[0].clone()
}

#[test]
fn a_missing_field_is_named() {
    assert_eq!(
        csv_message(&Csv::new(), "1,2,3\n4,5\n6,7,8\n"),
        "`input.txt:2:4`: expected field 3 after `,`, found the end of the line"
    );
    assert_eq!(
        csv_message(&Csv::new().separator("\t"), "1\t2\t3\r\n4\r\n"),
        "`input.txt:2:2`: expected field 2 after a tab, found the end of the line"
    );
}

#[test]
fn an_extra_field_is_named() {
    assert_eq!(
        csv_message(&Csv::new().separator("::"), "1::2::3\n4::5::6::978300760\n"),
        "`input.txt:2:10`: expected the end of the line after 3 fields, found `978300760`"
    );
    assert_eq!(
        csv_message(&Csv::new(), "1,2,3\n4,5,6,\n"),
        "`input.txt:2:6`: expected the end of the line after 3 fields, found `,`"
    );
}

#[test]
fn a_number_that_does_not_parse_is_named_with_its_column() {
    assert_eq!(
        csv_message(&Csv::new(), "1,2,3\n\n4,x5\u{1b}é,6\n"),
        "`input.txt:3:3`: expected a whole number from 0 to 4294967295, found `x5\\u{1b}é`"
    );
    assert_eq!(
        csv_message(&Csv::new(), "1,2,3\né,5,6\n"),
        "`input.txt:2:1`: expected a whole number from 0 to 4294967295, found `é`"
    );
    assert_eq!(
        csv_message(&Csv::new(), "1,2,3\n1,,6\n"),
        "`input.txt:2:3`: expected a whole number from 0 to 4294967295, found an empty field"
    );
    assert_eq!(
        csv_message(&Csv::new(), "1,2,3\n1,4294967296,6\n"),
        "`input.txt:2:3`: expected a whole number from 0 to 4294967295, found `4294967296`"
    );
    assert_eq!(
        csv_message(&Csv::new(), format!("1,2,3\n1,2,{}\n", "z".repeat(99))),
        format!("`input.txt:2:5`: expected a number, found `{}…`", "z".repeat(40))
    );
}

#[test]
fn columns_are_counted_in_characters() {
    let (folder, source) = file("é,1\né,y\n");
    let csv = Csv::new().header(CsvHeader::Absent);
    let report = csv.read(&ByteRange::whole(source.clone()), |_: (String, u32)| Ok(())).unwrap();
    assert_eq!(
        message(&ReadReport::merge(&[source], [report], 0).unwrap_err(), &folder),
        "`input.txt:2:3`: expected a whole number from 0 to 4294967295, found `y`"
    );
}

#[test]
fn nan_and_infinity_are_rejected_unless_kept() {
    for word in ["nan", "NaN", "inf", "-Infinity", "1e999"] {
        assert_eq!(
            csv_message(&Csv::new(), format!("1,2,3\n4,5,{word}\n")),
            format!("`input.txt:2:5`: expected a finite number, found `{word}`")
        );
    }
    let (_folder, source) = file("1,2,nan\n1,3,inf\n");
    let kept = ratings(&Csv::new().non_finite(NonFiniteHandling::Keep), &source, 1 << 20).unwrap();
    assert!(kept[0].2.is_nan() && kept[1].2.is_infinite());
}

#[test]
fn libsvm_and_matrix_market_reject_non_finite_values_unless_kept() {
    let keep = NonFiniteHandling::Keep;
    let (_folder, source) = file("nan 1:1\n1 1:inf 2:-NaN 3:1e99#x\n-1 1:2\n");
    let (mut labels, mut values) = (Vec::new(), Vec::new());
    let report = Libsvm::new().non_finite(keep).read(&ByteRange::whole(source), |example| {
        labels.push(example.label);
        values.extend_from_slice(example.values);
        Ok(())
    });
    assert!(report.unwrap().bad.is_empty());
    assert_eq!(format!("{labels:?} {values:?}"), "[NaN, 1.0, -1.0] [1.0, inf, NaN, inf, 2.0]");
    let still = libsvm_message(&Libsvm::new().non_finite(keep), "1 1:nanny\n");
    assert_eq!(still, "`input.txt:1:5`: expected a finite number, found `nanny`");

    let (folder, source) = file("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 nan\n2 1 -inf\n");
    let matrix = MatrixMarket::open(&source).unwrap();
    let range = ByteRange::whole(source.clone());
    let report = matrix.read(&range, |_, _, _| Ok(())).unwrap();
    assert_eq!(
        message(&ReadReport::merge(&[source], [report], 0).unwrap_err(), &folder),
        "`input.txt:3:5`: expected a finite number, found `nan`"
    );
    let mut values = Vec::new();
    let report = matrix.non_finite(keep).read(&range, |_, _, value| {
        values.push(value);
        Ok(())
    });
    assert!(report.unwrap().bad.is_empty());
    assert_eq!(format!("{values:?}"), "[NaN, -inf]");
}

#[test]
fn npy_rejects_non_finite_values_unless_kept() {
    let header = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }";
    let mut bytes = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
    // Column by column: the infinity is in row 1 of column 1, the large number in row 0 of column
    // 2.
    bytes.extend([0.0, 1.0, 2.0, f64::INFINITY, 1e300, 5.0].iter().flat_map(|value: &f64| value.to_le_bytes()));
    let (folder, source) = file(bytes);
    let npy = Npy::open(&source).unwrap();
    let refused = |from: usize| message(&npy.read(from..6, |_, _: f32| ()).unwrap_err(), &folder);
    let tail = "clean the data or keep non-finite values";
    assert_eq!(refused(0), format!("`input.txt`: expected a finite number at [1, 1], found inf; {tail}"));
    assert_eq!(refused(4), format!("`input.txt`: expected a finite number at [0, 2], found inf; {tail}"));
    npy.read(4..6, |_, _: f64| ()).unwrap();
    let mut kept = Vec::new();
    npy.clone().non_finite(NonFiniteHandling::Keep).read(2..6, |_, value: f32| kept.push(value)).unwrap();
    assert_eq!(kept, [2.0, f32::INFINITY, f32::INFINITY, 5.0]);
}

#[test]
fn an_unclosed_quote_is_reported() {
    let (folder, source) = file("1,\"a\nb\",2\n");
    let report = Csv::new().read(&ByteRange::whole(source.clone()), |_: (u32, String, u32)| Ok(())).unwrap();
    assert_eq!(
        message(&ReadReport::merge(&[source], [report], 0).unwrap_err(), &folder),
        "`input.txt:1:3`: expected a closing quote on the same line, found `\"a`"
    );
}

#[test]
fn bad_lines_are_skipped_and_reported_up_to_the_limit() {
    let text = "1,2,3\nbad\n4,5,6\n7,8\n9,1,2\n";
    let (folder, source) = file(text);
    for target in [1, 4, 1 << 20] {
        let csv = Csv::new().header(CsvHeader::Absent).skip_bad_lines(2);
        let ranges = ByteRange::split(std::slice::from_ref(&source), target);
        let reports: Result<Vec<_>> = ranges.iter().map(|range| csv.read(range, |_: Rating| Ok(()))).collect();
        let summary = ReadReport::merge(std::slice::from_ref(&source), reports.unwrap(), 2).unwrap();
        assert_eq!(summary.records, 3);
        assert_eq!(summary.skipped.iter().map(|bad| bad.line).collect::<Vec<_>>(), [2, 4]);
    }
    let text = "1,2,3\nbad\n4,5,6\n7,8\n9,1,2\n";
    assert_eq!(
        csv_message(&Csv::new().skip_bad_lines(1), text),
        "more than the 1 bad lines that `skip_bad_lines` allows; the first line over the limit is `input.txt:4:4`: expected \
         field 3 after `,`, found the end of the line"
    );
    drop(folder);
}

#[test]
fn line_numbers_are_right_in_the_middle_of_a_large_file() {
    let mut text = "1,2,3\n".repeat(100_000);
    text.push_str("1,2,x\n");
    text.push_str(&"1,2,3\r\n".repeat(50_000));
    let (folder, source) = file(text);
    for target in [10_000, 333_333, 1 << 30] {
        let error = ratings(&Csv::new(), &source, target).unwrap_err();
        assert_eq!(message(&error, &folder), "`input.txt:100001:5`: expected a number, found `x`");
    }
}

#[test]
fn a_visitor_can_reject_a_record() {
    let (folder, source) = file("1,2,3\n1,2,9\n");
    let report = Csv::new().read(&ByteRange::whole(source.clone()), |(_, _, rating): Rating| {
        if rating <= 5.0 { Ok(()) } else { Err(ParseError::new("a rating from 1 to 5")) }
    });
    assert_eq!(
        message(&ReadReport::merge(&[source], [report.unwrap()], 0).unwrap_err(), &folder),
        "`input.txt:2:1`: expected a rating from 1 to 5, found `1,2,9`"
    );
}

#[test]
fn an_empty_file_is_named() {
    for text in ["", "\n\r\n\n", "\u{feff}"] {
        assert_eq!(csv_message(&Csv::new(), text), "`input.txt` is empty; expected at least one line with a record");
    }
}

#[test]
fn a_file_that_grows_or_shrinks_is_named() {
    let (folder, source) = file("1,2,3\n".repeat(1000));
    std::fs::write(source.path(), "1,2,3\n".repeat(1001)).unwrap();
    let expected = "`input.txt` changed from 6000 to 6006 bytes while it was read; wait until its writer has finished";
    let error = ratings(&Csv::new(), &source, 1 << 20).unwrap_err();
    assert_eq!(message(&error, &folder), expected);
    assert!(error.kind().may_retry());

    // Also in the middle of reading.
    for after in [2500, 12_000] {
        let (folder, source) = file("1,2,3\n".repeat(1000));
        let mut seen = 0;
        let error = Csv::new()
            .read(&ByteRange::whole(source.clone()), |_: Rating| {
                seen += 1;
                if seen == 10 {
                    std::fs::File::options().write(true).open(source.path()).unwrap().set_len(after).unwrap();
                }
                Ok(())
            })
            .unwrap_err();
        assert!(
            matches!(error, Error::FileChanged { before: 6000, after: now, .. } if now == after),
            "{}",
            message(&error, &folder)
        );
    }
}

#[test]
fn utf_16_is_reported_with_the_way_out() {
    assert_eq!(
        csv_message(&Csv::new(), b"\xff\xfe1\x00\n\x00"),
        "`input.txt`: it is UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8`"
    );
}

#[test]
fn invalid_utf_8_is_reported() {
    let (folder, source) = file(b"good\ncaf\xe9 au lait\n");
    let report = LineReader::new().read(&ByteRange::whole(source.clone()), |_| Ok(())).unwrap();
    assert_eq!(
        message(&ReadReport::merge(&[source], [report], 0).unwrap_err(), &folder),
        "`input.txt:2:4`: expected UTF-8 text, found `\u{fffd} au lait`"
    );
}

fn libsvm_message(libsvm: &Libsvm, text: &str) -> String {
    let (folder, source) = file(text);
    let ranges = ByteRange::split(std::slice::from_ref(&source), 5);
    let reports: Vec<_> = ranges.iter().map(|range| libsvm.read(range, |_| Ok(())).unwrap()).collect();
    message(&ReadReport::merge(&[source], reports, 0).unwrap_err(), &folder)
}

#[test]
fn libsvm_errors_are_reported() {
    let one_based = Libsvm::new();
    let cases = [
        (
            "+1 1:1\n-1 0:1 2:1\n",
            "2:4`: expected an index from 1 to 4294967296 (ask for zero-based indices if 0 is the first), found `0`",
        ),
        ("+1 1:1\nx 1:1\n", "2:1`: expected a label (a finite number), found `x`"),
        ("+1 1:1\n+1 1:1 5\n", "2:8`: expected `index:value`, found `5`"),
        ("+1 1:1\n+1 1:1 a:5\n", "2:8`: expected `index:value`, found `a:5`"),
        ("+1 1:1\n+1 1:1 2:\n", "2:10`: expected a finite number, found the end of the line"),
        ("+1 1:nan\n", "1:6`: expected a finite number, found `nan`"),
        ("+1 1:1x\n", "1:6`: expected a finite number, found `1x`"),
        ("nan 1:1\n", "1:1`: expected a label (a finite number), found `nan`"),
    ];
    for (text, expected) in cases {
        assert_eq!(libsvm_message(&one_based, text), format!("`input.txt:{expected}"));
    }
    assert_eq!(
        libsvm_message(&Libsvm::new().columns(Some(3)), "1 3:1\n1 4:1\n"),
        "`input.txt:2:3`: expected an index from 1 to 3 (ask for zero-based indices if 0 is the first), found `4`"
    );
    assert_eq!(
        libsvm_message(&Libsvm::new().zero_based(true).columns(Some(3)), "1 2:1\n1 3:1\n"),
        "`input.txt:2:3`: expected an index from 0 to 2, found `3`"
    );
}

#[test]
fn ldac_counts_must_agree() {
    let (folder, source) = file("2 0:1 4:2\n3 0:1 4:2\n");
    let report = Ldac::new().read(&ByteRange::whole(source.clone()), |_| Ok(())).unwrap();
    assert_eq!(
        message(&ReadReport::merge(&[source], [report], 0).unwrap_err(), &folder),
        "`input.txt:2:1`: expected 2 as the number of `id:count` pairs that follow, found `3`"
    );
}

#[test]
fn docword_errors_are_reported() {
    let read = |text: &str| -> (tempfile::TempDir, Result<u64>) {
        let (folder, source) = file(text);
        let result = Docword::open(&source).and_then(|docword| {
            let ranges = ByteRange::split(std::slice::from_ref(&source), 4);
            let reports: Result<Vec<_>> = ranges.iter().map(|range| docword.read(range, |_, _, _| Ok(()))).collect();
            let summary = ReadReport::merge(&[source], reports?, 0)?;
            docword.check_count(summary.records)?;
            Ok(summary.records)
        });
        (folder, result)
    };
    let cases = [
        ("2\n3\n1\n3 1 1\n", "`input.txt:4:1`: expected a document from 1 to 2, found `3`"),
        ("2\n3\n1\n0 1 1\n", "`input.txt:4:1`: expected a document from 1 to 2, found `0`"),
        ("2\n3\n1\n2 4 1\n", "`input.txt:4:3`: expected a word from 1 to 3, found `4`"),
        ("2\n3\n2\n2 3 1\n", "`input.txt`: the header declares 2 entries, the file has 1; is it complete?"),
        (
            "2\n1 2 3\n2\n",
            "`input.txt`: expected three header lines (documents, words, entries), found `1 2 3` for the number of words",
        ),
    ];
    for (text, expected) in cases {
        let (folder, result) = read(text);
        assert_eq!(message(&result.unwrap_err(), &folder), expected);
    }
}

#[test]
fn a_vocabulary_shorter_than_the_ids_is_named() {
    let (folder, source) = file("the\nof\n");
    let names = lines::read_names(&source).unwrap();
    assert_eq!(
        message(&lines::check_vocabulary(&source, &names, 3).unwrap_err(), &folder),
        "`input.txt`: the vocabulary has 2 words, but ids go up to word 3; expected one word per line for every id"
    );
    lines::check_vocabulary(&source, &names, 2).unwrap();
}

#[test]
fn matrix_market_errors_are_reported() {
    let read = |text: &str| -> String {
        let (folder, source) = file(text);
        let result = MatrixMarket::open(&source).and_then(|matrix| {
            let reports: Result<Vec<_>> =
                matrix.split(8).iter().map(|range| matrix.read(range, |_, _, _| Ok(()))).collect();
            let summary = ReadReport::merge(&[source], reports?, 0)?;
            matrix.check_count(summary.records)
        });
        message(&result.unwrap_err(), &folder)
    };
    let coordinate = "%%MatrixMarket matrix coordinate real general\n% a comment\n2 2 1\n";
    assert_eq!(read(&format!("{coordinate}3 1 1\n")), "`input.txt:4:1`: expected a row from 1 to 2, found `3`");
    assert_eq!(
        read(&format!("{coordinate}1 1\n")),
        "`input.txt:4:4`: expected field 3 after white space, found the end of the line"
    );
    assert_eq!(
        read(coordinate.replace("2 2 1", "2 2").as_str()),
        "`input.txt`: expected the size line `rows columns entries`, found `2 2`"
    );
    assert_eq!(
        read("%%MatrixMarket matrix coordinate complex general\n"),
        "`input.txt`: expected the field `real`, `integer` or `pattern`, found `complex`"
    );
    assert_eq!(
        read("1 2 3\n"),
        "`input.txt`: expected `%%MatrixMarket matrix FORMAT FIELD SYMMETRY` on the first line, found `1 2 3`"
    );
    assert_eq!(
        read("%%MatrixMarket matrix array real general\n1 2\n1\n2\n3\n"),
        "`input.txt:5:1`: expected the end of the file after 2 values, found `3`"
    );
    assert_eq!(
        read("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 5\n"),
        "`input.txt:3:1`: expected an entry of the lower triangle (row not less than column), found `1 2 5`"
    );
}

#[test]
fn npy_errors_are_reported() {
    let open = |bytes: &[u8]| -> String {
        let (folder, source) = file(bytes);
        message(&Npy::open(&source).unwrap_err(), &folder)
    };
    assert_eq!(open(b"1,2,3\n"), "`input.txt`: expected a file written by numpy.save, found something else");
    let header = |text: &str| [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    assert_eq!(
        open(&header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }")),
        "`input.txt`: the header requires 75 bytes, the file has 67; is it complete?"
    );
    assert_eq!(
        open(&header("{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }")),
        "`input.txt`: expected elements f4, f8, i1 to i8 or u1 to u8, found `<c8`"
    );
}

#[cfg(unix)]
#[test]
fn a_device_is_no_file() {
    assert_eq!(InputFile::open("/dev/null").unwrap_err().to_string(), "`/dev/null`: expected a regular file or a pipe");
}

#[test]
fn a_missing_path_is_reported() {
    let error = InputFile::open("/no/such/file").unwrap_err();
    assert_eq!(error.to_string(), "cannot open `/no/such/file`: no such file or directory; check the path");
}

/// Entries are numbered in the order of arrival; reading the range again up to that number finds the line.
#[test]
fn duplicate_keys_can_be_traced_to_their_lines() {
    let (folder, source) = file("1,2,3\n4,5,6\n# again\n1,2,9\n");
    let csv = Csv::new().comment(Some(b'#'));
    let range = ByteRange::whole(source);
    let mut builder = SparseBuilder::new();
    csv.read(&range, |(user, item, rating): Rating| {
        builder.push([user as usize, item as usize], rating);
        Ok(())
    })
    .unwrap();
    let shape = builder.shape();
    let error = builder.finish(shape, [0, 1], DuplicatePolicy::Error).unwrap_err();
    let Error::DuplicateKey { key, first: EntryOrigin::Entry(first), second: EntryOrigin::Entry(second) } = error
    else {
        panic!("{error}");
    };
    let line_of = |entry: u64| {
        let mut seen = 0;
        let report = csv.read(&range, |_: Rating| {
            seen += 1;
            if seen > entry { Err(ParseError::new("")) } else { Ok(()) }
        });
        let bad = report.unwrap().bad.remove(0);
        EntryOrigin::Line { file: bad.file, line: bad.line }
    };
    let error = Error::DuplicateKey { key, first: line_of(first), second: line_of(second) };
    assert_eq!(
        message(&error, &folder),
        "key [1, 2] is given twice: at `input.txt:1` and at `input.txt:4`; choose a policy for duplicates (sum, last)"
    );
}
