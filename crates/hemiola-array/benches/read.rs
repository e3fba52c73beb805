//! Read throughput of one worker: bytes of plain text per second and core.
//!
//! `HEMIOLA_DATA=/path cargo bench -p hemiola-array --bench read` uses MovieLens-1M and IMDB from
//! there; without it, generated text of the same kind. Entries end up in a builder, as they do in
//! an array.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hemiola_array::read::{ByteRange, Csv, InputFile, Libsvm, LineReader};
use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
use hemiola_core::rng::PhiloxRng;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// Plain copy of a data file in `folder`, or generated text.
fn text(folder: &Path, name: &str, generated: impl FnOnce() -> String) -> ByteRange {
    let plain = folder.join(Path::new(name).file_name().expect("a file name"));
    let stored = std::env::var_os("HEMIOLA_DATA").map(|data| PathBuf::from(data).join(name));
    if let Some(source) = stored.and_then(|path| InputFile::open(path).ok()) {
        let mut reader = source.reader().expect("data can be read");
        let mut bytes = vec![0; 1 << 28];
        let length = reader.fill(&mut bytes).expect("data can be decoded");
        std::fs::write(&plain, &bytes[..length]).expect("the temporary folder is writable");
    } else {
        std::fs::write(&plain, generated()).expect("the temporary folder is writable");
    }
    ByteRange::whole(InputFile::open(plain).expect("it was just written"))
}

fn ratings() -> String {
    let rng = PhiloxRng::new(1);
    let mut text = String::new();
    for index in 0..1_000_000 {
        let (user, item) = (index / 166 + 1, rng.random_below(index, 0, 3952) + 1);
        writeln!(text, "{user}\t{item}\t{}", rng.random_below(index, 1, 5) + 1)
            .expect("writing to a string cannot fail");
    }
    text
}

fn documents() -> String {
    let rng = PhiloxRng::new(2);
    let mut text = String::new();
    for row in 0..25_000 {
        text.push_str(if rng.random_bool(row, 0, 0.5) { "+1" } else { "-1" });
        let mut column = 0;
        for word in 0..138 {
            column += 1 + rng.random_below(row, word + 1, 1290);
            write!(text, " {column}:{}", 1 + rng.random_below(row, word + 1000, 3))
                .expect("writing to a string cannot fail");
        }
        text.push('\n');
    }
    text
}

fn read(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ratings = text(folder.path(), "movielens-1m/ratings.tsv.zst", ratings);
    let documents = text(folder.path(), "imdb/train.libsvm.zst", documents);
    let csv = Csv::new().separator("\t");

    let mut group = criterion.benchmark_group("csv");
    group.throughput(Throughput::Bytes(ratings.cost()));
    group.bench_function("lines only", |bencher| {
        bencher.iter(|| {
            let mut bytes = 0;
            LineReader::new().read_bytes(&ratings, |line| {
                bytes += line.len();
                Ok(())
            })?;
            Ok::<_, hemiola_array::Error>(black_box(bytes))
        });
    });
    group.bench_function("parse", |bencher| {
        bencher.iter(|| {
            let mut sum = 0.0;
            csv.read(&ratings, |(user, item, rating): (u32, u32, f32)| {
                sum += f64::from(rating) + f64::from(user ^ item);
                Ok(())
            })?;
            Ok::<_, hemiola_array::Error>(black_box(sum))
        });
    });
    let build = || {
        let mut builder = SparseBuilder::new();
        let report = csv.read(&ratings, |(user, item, rating): (u32, u32, f32)| {
            builder.push([user as usize, item as usize], rating);
            Ok(())
        });
        report.map(|_| builder)
    };
    group.bench_function("into builder", |bencher| bencher.iter(|| build().map(|builder| builder.len())));
    group.bench_function("into builders on 2 threads", |bencher| {
        let halves = ByteRange::split(&[ratings.source().clone()], ratings.cost().div_ceil(2));
        let half = |range: &ByteRange| {
            let mut builder = SparseBuilder::new();
            let report = csv.read(range, |(user, item, rating): (u32, u32, f32)| {
                builder.push([user as usize, item as usize], rating);
                Ok(())
            });
            report.map(|_| builder)
        };
        bencher.iter(|| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| half(&halves[1]));
                let mut first = half(&halves[0])?;
                first.append(other.join().expect("the other half was read")?);
                Ok::<_, hemiola_array::Error>(first.len())
            })
        });
    });
    group.bench_function("into sorted block", |bencher| {
        bencher.iter(|| {
            let builder = build()?;
            let shape = builder.shape();
            builder.finish(shape, [0, 1], DuplicatePolicy::Last).map(|block| block.len())
        });
    });
    group.finish();

    let mut group = criterion.benchmark_group("libsvm");
    group.throughput(Throughput::Bytes(documents.cost()));
    group.bench_function("parse", |bencher| {
        bencher.iter(|| {
            let mut sum = 0.0;
            Libsvm::new().read(&documents, |example| {
                sum += f64::from(example.label) + example.columns.len() as f64;
                Ok(())
            })?;
            Ok::<_, hemiola_array::Error>(black_box(sum))
        });
    });
    group.bench_function("into builder", |bencher| {
        bencher.iter(|| {
            let mut builder = SparseBuilder::new();
            Libsvm::new().read(&documents, |example| {
                builder.push_row(example.row, example.columns, example.values);
                Ok(())
            })?;
            Ok::<_, hemiola_array::Error>(builder.len())
        });
    });
    group.finish();
}

criterion_group! { name = benches; config = Criterion::default().sample_size(20); targets = read }
criterion_main!(benches);
