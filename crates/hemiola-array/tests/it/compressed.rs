//! Compressed input: detected by its first bytes, read to its last member, rejected if truncated.

use crate::{file, message, ratings};
use hemiola_array::Error;
use hemiola_array::read::{Csv, FileCompression};
use std::io::Write;

const TEXT: &str = "1,2,3\r\n4,5,6\n7,8,9";

fn long_text() -> String {
    let mut text = Vec::new();
    let entries = (0..20_000).map(|line| ([line, line * 7 % 1013], line % 5));
    hemiola_array::synthetic::text::write_csv(&mut text, ",", 0, entries).unwrap();
    String::from_utf8(text).unwrap()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &str) -> Vec<u8> {
    zstd::stream::encode_all(text.as_bytes(), 1).unwrap()
}

fn bzip2(text: &str) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_compression_gives_the_same_records() {
    let expected = [(1, 2, 3.0), (4, 5, 6.0), (7, 8, 9.0)];
    for (bytes, compression) in [
        (TEXT.as_bytes().to_vec(), FileCompression::Plain),
        (gzip(TEXT), FileCompression::Gzip),
        (zstd(TEXT), FileCompression::Zstd),
        (bzip2(TEXT), FileCompression::Bzip2),
    ] {
        let (_folder, source) = file(bytes);
        assert_eq!(source.compression(), compression);
        assert_eq!(ratings(&Csv::new(), &source, 4).unwrap(), expected, "{compression}");
    }
}

#[test]
fn members_and_frames_that_follow_each_other_are_all_read() {
    let (first, second) = TEXT.split_at(9); // in the middle of a line
    for encode in [gzip, zstd, bzip2] {
        let (_folder, source) = file([encode(first), encode(second)].concat());
        assert_eq!(ratings(&Csv::new(), &source, 1 << 20).unwrap().len(), 3);
    }
}

#[test]
fn a_truncated_file_is_a_typed_error() {
    let text = long_text();
    for (bytes, name) in [(gzip(&text), "gzip"), (zstd(&text), "zstd"), (bzip2(&text), "bzip2")] {
        for cut in [bytes.len() / 2, bytes.len() - 1] {
            let (folder, source) = file(&bytes[..cut]);
            let error = ratings(&Csv::new(), &source, 1 << 20).unwrap_err();
            let Error::BadCompression { decoded, .. } = &error else { panic!("{error}") };
            assert_eq!(
                message(&error, &folder),
                format!(
                    "`input.txt` is not a complete {name} file: it ends too early after {decoded} decoded bytes; fetch or \
                     compress it again"
                )
            );
        }
    }
}

#[test]
fn a_damaged_file_is_a_typed_error() {
    let text = long_text();
    for encode in [gzip, zstd, bzip2] {
        let mut bytes = encode(&text);
        let middle = bytes.len() / 2;
        bytes[middle..middle + 16].fill(0x55);
        let (folder, source) = file(bytes);
        let error = ratings(&Csv::new(), &source, 1 << 20).unwrap_err();
        // A decoder may return wrong bytes before its checksum fails; then a bad line is reported.
        assert!(matches!(error, Error::BadCompression { .. } | Error::BadLine(_)), "{}", message(&error, &folder));
    }
}

#[test]
fn line_numbers_are_right_in_compressed_files() {
    let text = format!("{}1,2,x\n", "1,2,3\n".repeat(70_000));
    let (folder, source) = file(gzip(&text));
    let error = ratings(&Csv::new(), &source, 1).unwrap_err();
    assert_eq!(message(&error, &folder), "`input.txt:70001:5`: expected a number, found `x`");
}
