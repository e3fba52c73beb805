//! Fuzzing with arbitrary bytes: an error or a record, never a panic, and the same answer for any
//! split into ranges.

use crate::{file, message};
use hemiola_array::Result;
use hemiola_array::read::{
    ByteRange, Csv, CsvHeader, Docword, Ldac, Libsvm, LineReader, MatrixMarket, NonFiniteHandling, Npy, ReadReport,
};
use proptest::prelude::*;

/// Nearly valid text, and bytes that are not text.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[0-9]{1,4}".prop_map(String::into_bytes),
        4 => prop::sample::select(vec![",", "\t", " ", "::", ":", "\n", "\r\n", "\r", "\"", "#", "-", "+", "."])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec!["nan", "inf", "1e999", "qid:1", "%", "%%MatrixMarket matrix", "\u{feff}", "é"])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Result of all ranges together: records as text, or the error message.
fn outcome(bytes: &[u8], target: u64, read: impl Fn(&ByteRange, &mut Vec<String>) -> Result<ReadReport>) -> String {
    let (folder, source) = file(bytes);
    let mut records = Vec::new();
    let result = ByteRange::split(std::slice::from_ref(&source), target)
        .iter()
        .map(|range| read(range, &mut records))
        .collect::<Result<Vec<_>>>()
        .and_then(|reports| ReadReport::merge(&[source], reports, 1));
    match result {
        Ok(summary) => format!("{records:?} {:?}", summary.skipped.iter().map(|bad| bad.line).collect::<Vec<_>>()),
        Err(error) => message(&error, &folder),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn csv_gives_the_same_answer_for_every_split(
        bytes in hostile(), target in 1_u64..30, separator in prop::sample::select(vec![",", "\t", "::", " "]),
    ) {
        let csv = Csv::new().separator(separator).header(CsvHeader::Detect).skip_bad_lines(1).non_finite(NonFiniteHandling::Keep);
        let read = |range: &ByteRange, records: &mut Vec<String>| {
            csv.read(range, |record: (u32, Option<f32>)| {
                records.push(format!("{record:?}"));
                Ok(())
            })
        };
        prop_assert_eq!(outcome(&bytes, target, read), outcome(&bytes, 1 << 20, read));
        let read = |range: &ByteRange, records: &mut Vec<String>| {
            csv.read_fields(range, |fields| {
                while !fields.is_empty() {
                    records.push(format!("{:?}", fields.text()?));
                }
                Ok(())
            })
        };
        outcome(&bytes, target, read);
    }

    #[test]
    fn pairs_and_lines_give_the_same_answer_for_every_split(bytes in hostile(), target in 1_u64..30) {
        let libsvm = Libsvm::new().skip_bad_lines(1);
        let read = |range: &ByteRange, records: &mut Vec<String>| {
            libsvm.read(range, |row| {
                records.push(format!("{} {:?} {:?}", row.label, row.columns, row.values));
                Ok(())
            })
        };
        prop_assert_eq!(outcome(&bytes, target, read), outcome(&bytes, 1 << 20, read));
        let ldac = Ldac::new().skip_bad_lines(1);
        let read = |range: &ByteRange, records: &mut Vec<String>| {
            ldac.read(range, |row| {
                records.push(format!("{:?} {:?}", row.columns, row.values));
                Ok(())
            })
        };
        prop_assert_eq!(outcome(&bytes, target, read), outcome(&bytes, 1 << 20, read));
        let lines = LineReader::new().skip_bad_lines(1);
        let read = |range: &ByteRange, records: &mut Vec<String>| {
            lines.read(range, |line| {
                records.push(line.to_owned());
                Ok(())
            })
        };
        prop_assert_eq!(outcome(&bytes, target, read), outcome(&bytes, 1 << 20, read));
    }

    #[test]
    fn headers_never_panic(bytes in hostile(), kind in 0_usize..6) {
        let starts: [&[u8]; 6] = [
            b"2\n3\n4\n",
            b"%%MatrixMarket matrix coordinate real general\n3 3 2\n",
            b"%%MatrixMarket matrix array real symmetric\n3 3\n",
            b"%%MatrixMarket matrix array real skew-symmetric\n0 0\n",
            b"\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': True, 'shape': (0,), }",
            b"\x93NUMPY\x02\x00",
        ];
        let (_folder, source) = file([starts[kind], &bytes].concat());
        if let Ok(docword) = Docword::open(&source) {
            for range in ByteRange::split(std::slice::from_ref(&source), 5) {
                let _ = docword.read(&range, |_, _, _| Ok(()));
            }
        }
        if let Ok(matrix) = MatrixMarket::open(&source) {
            for range in matrix.split(5) {
                let _ = matrix.read(&range, |_, _, _| Ok(()));
            }
        }
        if let Ok(npy) = Npy::open(&source) {
            let _ = npy.read(0..npy.elements(), |_, _: f32| ());
        }
    }

    #[test]
    fn damaged_streams_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), kind in 0_usize..3) {
        let starts: [&[u8]; 3] = [b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"BZh9"];
        let (_folder, source) = file([starts[kind], &bytes].concat());
        let _ = Csv::new().read(&ByteRange::whole(source), |_: (u32, u32)| Ok(()));
    }
}
