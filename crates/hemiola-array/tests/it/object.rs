//! Objects of web servers and stores, found and read by URL, against a server in this process.

#![expect(clippy::print_stdout, reason = "a peer process prints its result")]

use crate::object_server::Server;
use crate::{peers_of_three, ratings};
use hemiola_array::read::{ByteRange, Csv, CsvHeader, InputFile, Npy, RestOfLine};
use hemiola_array::{Error, ReadExt};
use hemiola_cluster::{Cluster, standalone};
use std::fmt::Write as _;
use std::io::Write as _;

/// Entries with a long remark each, so that few lines make several units: about 10 MB.
fn long_lines() -> String {
    let remark = "x".repeat(9_950);
    let mut text = String::new();
    (0..1000).for_each(|number| writeln!(text, "{number},{},{},{remark}", number % 7, number * 3).unwrap());
    text
}

fn read(cluster: &Cluster, url: &str) -> hemiola_cluster::Result<String> {
    let csv = Csv::new().header(CsvHeader::Absent);
    let entry = |(row, column, value, _): (usize, usize, usize, RestOfLine)| ([row, column], value);
    let array = cluster.read_csv_with(csv, url, entry)?.materialize()?;
    let sum: usize = array.collect()?.iter().map(|([row, column], value)| row * 5 + column + value).sum();
    Ok(format!("{:?} {} {sum}", array.shape().extents(), array.len()))
}

fn message(error: &Error, server: &Server) -> String {
    error.to_string().replace(&server.url(), "http://server")
}

#[test]
fn an_object_is_read_in_ranges_like_a_file() {
    let server = Server::start();
    let mut text = String::new();
    (0..2000).for_each(|number| writeln!(text, "{number},{},{}", number % 13, number % 5).unwrap());
    server.put("data/ratings.csv", text.as_bytes());
    let (_folder, file) = crate::file(&text);
    let object = InputFile::open(format!("{}/data/ratings.csv", server.url())).unwrap();
    assert_eq!((object.bytes(), object.is_object(), file.is_object()), (file.bytes(), true, false));
    let expected = ratings(&Csv::new(), &file, 1 << 20).unwrap();
    for target in [1000, 7777, 1 << 20] {
        assert_eq!(ratings(&Csv::new(), &object, target).unwrap(), expected, "{target}");
    }
    server.take_log();
    let ranges = ByteRange::split(&[object], 8000);
    Csv::new().read(&ranges[1], |_: (u32, u32, f32)| Ok(())).unwrap();
    let requested: u64 = server.take_log().iter().filter_map(|line| span(line)).sum();
    assert!(requested < 50_000, "{requested} bytes for a range of 8,000, of which the header may be {}", 2 * 4096);
}

/// Number of bytes that a request asks for.
fn span(line: &str) -> Option<u64> {
    let (from, to) = line.rsplit(' ').next()?.split_once('-')?;
    Some(to.parse::<u64>().ok()? + 1 - from.parse::<u64>().ok()?)
}

#[test]
fn peers_share_an_object_and_agree_on_errors() {
    let server = Server::start();
    let text = long_lines();
    server.put("big.csv", text.as_bytes());
    let url = format!("{}/big.csv", server.url());
    let folder = crate::folder_with(&[("big.csv", text.as_bytes())]);
    let local = folder.path().join("big.csv");
    let expected = standalone(1).run(|cluster| read(cluster, local.to_str().unwrap())).unwrap().remove(0);
    for peers in [1, 2, 3] {
        let found = standalone(peers).run(|cluster| read(cluster, &url)).unwrap();
        assert!(found.iter().all(|found| *found == expected), "{found:?}, expected {expected}");
    }
    server.take_log();
    standalone(2).run(|cluster| read(cluster, &url)).unwrap();
    let requested: u64 = server.take_log().iter().filter_map(|line| span(line)).sum();
    assert!(requested < text.len() as u64 * 11 / 10, "{requested} of {} bytes were requested", text.len());

    let bad = text.replacen("\n900,", "\nnone,", 1);
    server.put("big.csv", bad.as_bytes());
    for peers in [1, 3] {
        let said = standalone(peers).run(|cluster| Ok(read(cluster, &url).unwrap_err().to_string())).unwrap();
        let expected = format!("`{url}:901:1`: expected a whole number from 0 to 18446744073709551615, found `none`");
        assert!(said.iter().all(|said| *said == expected), "{said:?}");
    }
}

#[test]
fn compressed_objects_and_arrays_are_read_too() {
    let server = Server::start();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(long_lines().as_bytes()).unwrap();
    server.put("a.csv.gz", encoder.finish().unwrap());
    let url = format!("{}/a.csv.gz", server.url());
    let found = standalone(2).run(|cluster| read(cluster, &url)).unwrap();
    assert!(found[0].starts_with("[1000, 7] 1000 ") && found[0] == found[1], "{found:?}");

    let header = "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }";
    let body: Vec<u8> = [1_u16, 2, 500].iter().flat_map(|value| value.to_le_bytes()).collect();
    let npy = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &body].concat();
    server.put("a.npy", npy);
    let mut values = Vec::new();
    let npy = Npy::open(&InputFile::open(format!("{}/a.npy", server.url())).unwrap()).unwrap();
    npy.read(1..3, |_, value: u32| values.push(value)).unwrap();
    assert_eq!(values, [2, 500]);
}

#[cfg(feature = "arrow")]
#[test]
fn columnar_objects_are_read_too() {
    use arrow_array::{ArrayRef, Float32Array, RecordBatch, UInt32Array};
    use hemiola_array::dist::ReadColumnsExt;
    use std::sync::Arc;
    let batch = |first: u32| {
        let users: UInt32Array = (first..first + 50).map(Some).collect();
        let ratings: Float32Array = (first..first + 50).map(|user| Some(user as f32 / 2.0)).collect();
        let columns = [("user", Arc::new(users) as ArrayRef), ("rating", Arc::new(ratings) as ArrayRef)];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let server = Server::start();
    let mut parquet = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch(0).schema(), None).unwrap();
    for first in [0, 50] {
        parquet.write(&batch(first)).unwrap();
        parquet.flush().unwrap();
    }
    server.put("a.parquet", parquet.into_inner().unwrap());
    let mut ipc = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch(0).schema()).unwrap();
    ipc.write(&batch(0)).unwrap();
    ipc.write(&batch(50)).unwrap();
    server.put("a.arrow", ipc.into_inner().unwrap());
    for name in ["a.parquet", "a.arrow"] {
        let url = format!("{}/{name}", server.url());
        let found = standalone(2).run(|cluster| {
            let entry = |(rating, user): (f32, usize)| ([user], rating);
            cluster.read_columns(&url, &["rating", "user"], entry)?.materialize()?.collect()
        });
        for entries in found.unwrap() {
            assert_eq!(entries.len(), 100);
            assert_eq!(entries[99], ([99], 49.5));
        }
    }
}

#[test]
fn a_changed_object_is_an_error() {
    let server = Server::start();
    let text = "1,2,3\n".repeat(30_000);
    let url = format!("{}/ratings.csv", server.url());
    // Replaced before reading by another size, and in the middle of reading by the same size.
    server.put("ratings.csv", text.as_bytes());
    let source = InputFile::open(&url).unwrap();
    server.put("ratings.csv", "1,2,3\n");
    let error = ratings(&Csv::new(), &source, 1 << 20).unwrap_err();
    assert_eq!(
        message(&error, &server),
        "`http://server/ratings.csv` changed from 180000 to 6 bytes while it was read; wait until its writer has finished"
    );
    server.put("ratings.csv", text.as_bytes());
    let source = InputFile::open(&url).unwrap();
    let mut seen = 0;
    let error = Csv::new().read(&ByteRange::whole(source), |_: (u32, u32, f32)| {
        seen += 1;
        if seen == 10 {
            server.put("ratings.csv", text.as_bytes());
        }
        Ok(())
    });
    assert_eq!(
        message(&error.unwrap_err(), &server),
        "`http://server/ratings.csv` was replaced by another of 180000 bytes while it was read; wait until its writer has \
         finished"
    );

    // On a cluster, between planning and reading: the identical error on every peer.
    let said = standalone(2).run(|cluster| {
        let lazy = cluster.read_csv(&url, |(row, column, value): (usize, usize, f32)| ([row, column], value))?;
        cluster.barrier()?;
        if cluster.is_root() {
            server.put("ratings.csv", "1,2,3\n");
        }
        cluster.barrier()?;
        let error = lazy.materialize().map(drop).unwrap_err();
        Ok(error.to_string())
    });
    let said = said.unwrap();
    assert!(said[0].contains("changed from 180000 to 6 bytes while it was read") && said[0] == said[1], "{said:?}");
}

#[test]
fn failed_requests_are_retried_or_reported() {
    let server = Server::start();
    server.put("a.csv", "1,2,3\n");
    let open = |name: &str| InputFile::open(format!("{}/{name}", server.url()));
    server.fail("a.csv", &[503, 500]);
    assert_eq!(open("a.csv").unwrap().bytes(), 6);
    assert!(server.take_log().len() >= 3);

    let said = |outcome: Result<InputFile, Error>| {
        let error = outcome.unwrap_err();
        (message(&error, &server), error.kind().may_retry())
    };
    let missing = "cannot open `http://server/b.csv`: no such object; check the URL".to_owned();
    assert_eq!(said(open("b.csv")), (missing, false));
    server.fail("a.csv", &[403]);
    let refused = "permission denied; check the credentials in the environment of every peer";
    assert_eq!(said(open("a.csv")), (format!("cannot open `http://server/a.csv`: {refused}"), false));
    server.fail("a.csv", &[500; 9]);
    let (text, may_retry) = said(open("a.csv"));
    assert!(text.starts_with("cannot open `http://server/a.csv`: ") && may_retry, "{text}");

    for pattern in ["folder/", "part-*.csv"] {
        let error = InputFile::find(&format!("{}/{pattern}", server.url())).unwrap_err();
        let expected = "a web server cannot list its objects; name one object per URL";
        assert_eq!(message(&error, &server), format!("`http://server/{pattern}` cannot be read: {expected}"));
    }
    let port = server.port();
    drop(server);
    let error = InputFile::open(format!("http://127.0.0.1:{port}/a.csv")).unwrap_err();
    assert!(error.kind().may_retry(), "{error}");
}

/// Program of the peer processes: list and read a bucket of the store that their environment names.
fn survey(cluster: &Cluster) -> hemiola_cluster::Result<String> {
    let names = |pattern: &str| -> hemiola_cluster::Result<Vec<String>> {
        Ok(InputFile::find(pattern)?.iter().map(|source| source.path().display().to_string()).collect())
    };
    let found = [names("s3://bucket/data")?, names("s3://bucket/data/part-[12].csv")?, names("s3://bucket/*/deep/*")?];
    let none = names("s3://bucket/nothing/").unwrap_err().to_string();
    Ok(format!("{found:?} {none} {} {}", read(cluster, "s3://bucket/data/")?, read(cluster, "s3://bucket/big.csv")?))
}

/// Number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
#[ignore = "entry point of a child process"]
fn the_peer_process() {
    let port = std::env::var_os("HEMIOLA_TEST_PORT").unwrap();
    // By host name, which must be resolved.
    let url = format!("http://localhost:{}/bucket/data/part-1.csv", port.to_str().unwrap());
    let before = threads();
    let source = InputFile::open(url).unwrap();
    let mut lines = 0;
    Csv::new()
        .read(&ByteRange::whole(source), |_: (u64, u64, u64)| {
            lines += 1;
            Ok(())
        })
        .unwrap();
    println!("threads: {} lines: {lines}", threads() - before);
    println!("survey: {}", hemiola_cluster::run(survey).unwrap());
}

#[test]
fn three_processes_list_and_read_a_bucket() {
    let server = Server::start();
    for (key, contents) in [
        ("data/part-2.csv", "3,1,5\n4,1,6\n"),
        ("data/part-10.csv", "9,1,5\n"),
        ("data/part-1.csv", "1,1,5\n2,1,6\n"),
        ("data/_SUCCESS", ""),
        ("data/deep/x.csv", "1,1,1\n"),
        ("database", "no"),
    ] {
        server.put(&format!("bucket/{key}"), contents);
    }
    server.put("bucket/big.csv", long_lines());
    let said = peers_of_three("object::the_peer_process", |_, command| {
        command.env("AWS_ENDPOINT", server.url()).env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "nowhere");
        command.env("AWS_ACCESS_KEY_ID", "me").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.env("HEMIOLA_TEST_PORT", server.port().to_string());
    });
    let at = |key: &str| format!("\"s3://bucket/data/{key}\"");
    let all = format!("{}, {}, {}", at("part-1.csv"), at("part-10.csv"), at("part-2.csv"));
    let expected = format!(
        "survey: [[{all}], [{}, {}], [{}]] `s3://bucket/nothing/` matches no file; check the path (hidden files and names \
         that start with `_` are skipped) [10, 2] 5 127 [1000, 7] 1000 ",
        at("part-1.csv"),
        at("part-2.csv"),
        at("deep/x.csv")
    );
    for said in said {
        assert!(said.contains(&expected), "{said}\nexpected {expected}");
        assert!(said.contains("threads: 0 lines: 2\n"), "reading started threads: {said}");
    }
}
