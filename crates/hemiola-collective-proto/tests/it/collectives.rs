//! Every operation on 1 to 9 peers, in random order of messages, against a serial reference: bit for bit.

use crate::network::{Job, run};
use crate::serial;
use half::{bf16, f16};
use hemiola_collective_proto::protocol::{buckets, count_nan, cut, pack, unpack};
use hemiola_collective_proto::{Algorithm, Element, Engine, Operation, Operator, Random};
use hemiola_core::Rank;

const LENGTHS: [usize; 8] = [0, 1, 2, 3, 7, 16, 33, 101];

/// Numbers of very different size, so that every change of the order of a sum changes its bits.
trait Sample: Element {
    fn sample(random: &mut Random) -> Self;
}

fn power(random: &mut Random, digits: usize) -> f64 {
    (0..random.below(digits)).fold(1.0, |power, _| 10.0 * power)
}

macro_rules! samples {
    ($($type:ty: $make:expr;)*) => {$(
        impl Sample for $type {
            fn sample(random: &mut Random) -> Self {
                $make(random)
            }
        }
    )*};
}
samples! {
    f32: |random: &mut Random| (random.symmetric() * power(random, 7)) as f32;
    f64: |random: &mut Random| random.symmetric() * power(random, 12);
    i32: |random: &mut Random| (random.bits() as u32).cast_signed();
    i64: |random: &mut Random| random.bits().cast_signed();
    bf16: |random: &mut Random| bf16::from_f64(random.symmetric() * power(random, 3));
    f16: |random: &mut Random| f16::from_f64(random.symmetric() * power(random, 3));
}

fn vectors<T: Sample>(peers: usize, length: usize, random: &mut Random) -> Vec<Vec<T>> {
    (0..peers).map(|_| (0..length).map(|_| T::sample(random)).collect()).collect()
}

fn bits<T: Element>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

fn algorithms(peers: usize) -> Vec<Algorithm> {
    let flat = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Doubling];
    flat.into_iter().chain((1..=peers).map(|group| Algorithm::TwoLevel { group })).collect()
}

fn check_all_reduce<T: Sample>(operator: Operator) {
    let mut random = Random::new(41);
    for peers in 1..=9 {
        for length in LENGTHS {
            for algorithm in algorithms(peers) {
                let data = vectors::<T>(peers, length, &mut random);
                let expected = serial::all_reduce(algorithm, operator, &data);
                let operation = Operation::AllReduce { algorithm, operator, length };
                let segment = 1 + random.below(64);
                let results = run(vec![Job { operation, data }], peers, segment, random.bits());
                for result in &results[0] {
                    assert_eq!(bits(result), bits(&expected), "{algorithm} of {length} on {peers}");
                }
            }
        }
    }
}

#[test]
fn all_reduce_sums_f32_in_the_documented_order() {
    check_all_reduce::<f32>(Operator::Sum);
}

#[test]
fn all_reduce_sums_f64_in_the_documented_order() {
    check_all_reduce::<f64>(Operator::Sum);
}

#[test]
fn all_reduce_sums_integers() {
    check_all_reduce::<i32>(Operator::Sum);
    check_all_reduce::<i64>(Operator::Sum);
}

#[test]
fn all_reduce_sums_bf16_and_f16_rounding_at_each_step() {
    check_all_reduce::<bf16>(Operator::Sum);
    check_all_reduce::<f16>(Operator::Sum);
}

#[test]
fn all_reduce_finds_smallest_and_largest() {
    check_all_reduce::<f32>(Operator::Min);
    check_all_reduce::<i64>(Operator::Max);
}

#[test]
fn the_order_of_a_sum_shows_in_its_bits() {
    // Otherwise the tests above would prove nothing about the order.
    let data = vectors::<f32>(5, 101, &mut Random::new(1));
    let sums = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::TwoLevel { group: 2 }]
        .map(|algorithm| serial::all_reduce(algorithm, Operator::Sum, &data));
    for (place, sum) in sums.iter().enumerate() {
        assert!(sums[..place].iter().all(|other| bits(other) != bits(sum)));
    }
}

#[test]
fn reduce_scatter_leaves_each_its_chunk() {
    let mut random = Random::new(43);
    for peers in 1..=9 {
        for length in LENGTHS {
            let data = vectors::<f32>(peers, length, &mut random);
            let expected = serial::ring(Operator::Sum, &data);
            let operation = Operation::ReduceScatter { operator: Operator::Sum, length };
            let job = Job { operation: operation.clone(), data };
            let results = run(vec![job], peers, 1 + random.below(64), random.bits());
            for me in Rank::all(peers) {
                let chunk = operation.result(me, peers);
                assert_eq!(chunk, cut(length, peers, me.index()));
                assert_eq!(bits(&results[0][me.index()][chunk.clone()]), bits(&expected[chunk]));
            }
        }
    }
}

#[test]
fn reduce_leaves_the_root_the_sum_and_broadcast_gives_it_to_all() {
    let mut random = Random::new(44);
    for peers in 1..=9 {
        for root in 0..peers {
            let length = LENGTHS[random.below(LENGTHS.len())];
            let data = vectors::<f64>(peers, length, &mut random);
            let (root_rank, operator) = (Rank::new(root as u32), Operator::Sum);
            let reduce = Job { operation: Operation::Reduce { root: root_rank, operator, length }, data: data.clone() };
            let broadcast = Job { operation: Operation::Broadcast { root: root_rank, length }, data: data.clone() };
            let results = run(vec![reduce, broadcast], peers, 1 + random.below(64), random.bits());
            assert_eq!(bits(&results[0][root]), bits(&serial::tree(Operator::Sum, &data, root)));
            for result in &results[1] {
                assert_eq!(bits(result), bits(&data[root]));
            }
        }
    }
}

#[test]
fn all_gather_gives_all_blocks_to_all_whatever_their_lengths() {
    let mut random = Random::new(45);
    for peers in 1..=9 {
        for block in LENGTHS {
            let blocks: Vec<usize> = (0..peers).map(|_| random.below(block + 1)).collect();
            for (operation, lengths) in [
                (Operation::AllGather { block }, vec![block; peers]),
                (Operation::AllGatherRagged { blocks: blocks.clone() }, blocks.clone()),
            ] {
                let own: Vec<Vec<i64>> =
                    lengths.iter().map(|&length| vectors(1, length, &mut random).remove(0)).collect();
                let place = |me: usize| {
                    let mut buffer = vec![0; lengths.iter().sum()];
                    let start: usize = lengths[..me].iter().sum();
                    buffer[start..start + lengths[me]].copy_from_slice(&own[me]);
                    buffer
                };
                let data: Vec<Vec<i64>> = (0..peers).map(place).collect();
                let root = Rank::new(random.below(peers) as u32);
                let gather = Job { operation: Operation::Gather { root, blocks: lengths.clone() }, data: data.clone() };
                let all = Job { operation, data: data.clone() };
                let results = run(vec![all, gather], peers, 1 + random.below(64), random.bits());
                assert!(results[0].iter().all(|result| *result == own.concat()));
                // With one root only that has them, and the others' buffers stay what they were.
                for (peer, result) in results[1].iter().enumerate() {
                    assert_eq!(*result, if peer == root.index() { own.concat() } else { data[peer].clone() });
                }
            }
        }
    }
}

#[test]
fn all_to_all_transposes_blocks() {
    let mut random = Random::new(46);
    for peers in 1..=9 {
        for block in [0, 1, 5, 32] {
            let data = vectors::<i32>(peers, peers * block, &mut random);
            let job = Job { operation: Operation::AllToAll { block }, data: data.clone() };
            let results = run(vec![job], peers, 1 + random.below(64), random.bits());
            for me in 0..peers {
                let expected: Vec<i32> =
                    data.iter().flat_map(|from| from[me * block..(me + 1) * block].to_vec()).collect();
                assert_eq!(results[0][me], expected);
            }
        }
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    for peers in 2..=9 {
        for late in 0..peers {
            let mut engines: Vec<Engine> = Rank::all(peers).map(|me| Engine::new(me, peers)).collect();
            let tags: Vec<_> =
                engines.iter_mut().map(|engine| engine.begin::<f32>(&Operation::Barrier).unwrap()).collect();
            let mut done = vec![false; peers];
            let settle = |engines: &mut Vec<Engine>, done: &mut Vec<bool>, comes: &dyn Fn(usize) -> bool| loop {
                let mut out = Vec::new();
                for peer in (0..peers).filter(|&peer| comes(peer)) {
                    if !done[peer] {
                        done[peer] = engines[peer].advance::<f32>(tags[peer], &mut [], &mut out).unwrap();
                    }
                }
                if out.is_empty() {
                    break;
                }
                for message in out {
                    engines[message.to.index()].deliver(message).unwrap();
                }
            };
            settle(&mut engines, &mut done, &|peer| peer != late);
            assert!(done.iter().all(|done| !done), "someone passed without {late}");
            settle(&mut engines, &mut done, &|_| true);
            assert!(done.iter().all(|done| *done));
        }
    }
}

#[test]
fn many_collectives_in_flight_do_not_disturb_each_other() {
    let mut random = Random::new(47);
    for round in 0..200 {
        let peers = 1 + random.below(9);
        let mut jobs = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..=random.below(6) {
            let length = random.below(40);
            let choices = algorithms(peers);
            let algorithm = choices[random.below(choices.len())];
            let data = vectors::<f32>(peers, length, &mut random);
            expected.push(serial::all_reduce(algorithm, Operator::Sum, &data));
            jobs.push(Job { operation: Operation::AllReduce { algorithm, operator: Operator::Sum, length }, data });
        }
        let results = run(jobs, peers, 1 + random.below(64), random.bits());
        for (result, expected) in results.iter().zip(&expected) {
            assert!(result.iter().all(|result| bits(result) == bits(expected)), "round {round}");
        }
    }
}

#[test]
fn fused_vectors_come_back_summed() {
    let mut random = Random::new(49);
    let lengths = [3, 0, 8, 1, 20];
    let peers = 4;
    let tensors: Vec<Vec<Vec<i64>>> =
        (0..peers).map(|_| lengths.iter().map(|&length| vectors(1, length, &mut random).remove(0)).collect()).collect();
    let mut summed: Vec<Vec<i64>> = lengths.iter().map(|&length| vec![0; length]).collect();
    for bucket in buckets(&lengths, 12) {
        let packed = |tensors: &Vec<Vec<i64>>| {
            let slices: Vec<&[i64]> = tensors[bucket.vectors.clone()].iter().map(Vec::as_slice).collect();
            pack(&slices)
        };
        let (algorithm, operator) = (Algorithm::HalvingDoubling, Operator::Sum);
        let operation = Operation::AllReduce { algorithm, operator, length: bucket.length };
        let results =
            run(vec![Job { operation, data: tensors.iter().map(packed).collect() }], peers, 64, random.bits());
        let mut places: Vec<&mut [i64]> = summed[bucket.vectors.clone()].iter_mut().map(Vec::as_mut_slice).collect();
        unpack(&results[0][0], &mut places).unwrap();
    }
    for (tensor, sum) in summed.iter().enumerate() {
        for (element, value) in sum.iter().enumerate() {
            let expected = tensors.iter().fold(0_i64, |sum, peer| sum.wrapping_add(peer[tensor][element]));
            assert_eq!(*value, expected);
        }
    }
}

#[test]
fn nan_is_delivered_to_all_with_the_same_bits() {
    let mut random = Random::new(50);
    for peers in 1..=9 {
        for algorithm in algorithms(peers) {
            let mut data = vectors::<f32>(peers, 33, &mut random);
            for (peer, vector) in data.iter_mut().enumerate() {
                vector[peer] = f32::NAN;
                vector[20] = f32::from_bits(0x7fc0_0000 | peer as u32);
            }
            let operation = Operation::AllReduce { algorithm, operator: Operator::Sum, length: 33 };
            let results = run(vec![Job { operation, data }], peers, 16, random.bits());
            assert!(results[0].iter().all(|result| bits(result) == bits(&results[0][0])));
            assert_eq!(count_nan(&results[0][0]), peers + 1);
        }
    }
}

#[test]
fn buffers_that_are_used_again_hold_nothing_old() {
    // Large messages of changing lengths, so that buffers are reused and are longer or shorter than what they are for.
    let mut random = Random::new(51);
    let peers = 3;
    let lengths = [60_000, 30_001, 90_000, 12_345];
    let data: Vec<Vec<Vec<f32>>> = lengths.iter().map(|&length| vectors(peers, length, &mut random)).collect();
    let jobs = data.iter().zip(lengths).map(|(data, length)| {
        let operation = Operation::AllReduce { algorithm: Algorithm::Ring, operator: Operator::Sum, length };
        Job { operation, data: data.clone() }
    });
    let results = run(jobs.collect(), peers, 1 << 16, random.bits());
    for (result, data) in results.iter().zip(&data) {
        let expected = serial::ring(Operator::Sum, data);
        assert!(result.iter().all(|result| bits(result) == bits(&expected)));
    }
}
