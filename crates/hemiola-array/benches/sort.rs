//! Throughput of sorting a block and of drawing random numbers.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
use hemiola_core::Seed;
use hemiola_core::rng::{Permutation, PhiloxRng};
use std::hint::black_box;

const ENTRIES: u64 = 4_000_000;

fn sort(criterion: &mut Criterion) {
    let permutation = Permutation::new(1 << 34, Seed(1));
    let unsorted = || {
        let mut builder = SparseBuilder::new();
        for index in 0..ENTRIES {
            let cell = permutation.apply(index) as usize;
            builder.push([cell >> 17, cell & 0x1_ffff], index as f32);
        }
        builder
    };
    let mut group = criterion.benchmark_group("sort");
    group.throughput(Throughput::Elements(ENTRIES)).sample_size(10);
    group.bench_function("4M random 2-D f32 entries", |bencher| {
        bencher.iter_batched(
            unsorted,
            |builder| {
                let shape = builder.shape();
                builder.finish(shape, [0, 1], DuplicatePolicy::Error).map(|block| block.len())
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();

    let mut group = criterion.benchmark_group("random");
    group.throughput(Throughput::Elements(1));
    let rng = PhiloxRng::new(1);
    let mut index = 0;
    group.bench_function("uniform f32", |bencher| {
        bencher.iter(|| {
            index += 1;
            black_box(rng.uniform_f32(index, 0, 0.0..1.0))
        });
    });
    group.bench_function("normal", |bencher| {
        bencher.iter(|| {
            index += 1;
            black_box(rng.normal(index, 0, 0.0, 1.0))
        });
    });
    group.bench_function("permutation", |bencher| {
        bencher.iter(|| {
            index = (index + 1) % (1 << 20);
            black_box(permutation.apply(index))
        });
    });
    group.finish();
}

criterion_group!(benches, sort);
criterion_main!(benches);
