//! Every operation on 1 to 9 peers, with messages in random order, against a serial reference: bit
//! for bit.

use crate::network::{Job, Peer, run};
use crate::serial;
use half::{bf16, f16};
use hemiola_collective_proto::protocol::{buckets, chunk_range, count_nan, unpack};
use hemiola_collective_proto::{Algorithm, CollectiveElement, Operation, ReduceOp};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;

const LENGTHS: [usize; 8] = [0, 1, 2, 3, 7, 16, 33, 101];

/// Values of very different size, so that every change of the order of a sum changes its bits.
trait Sample: CollectiveElement {
    fn sample(random: &mut SplitMix64) -> Self;
}

fn power(random: &mut SplitMix64, digits: usize) -> f64 {
    (0..random.below(digits)).fold(1.0, |power, _| 10.0 * power)
}

macro_rules! samples {
    ($($type:ty: $make:expr;)*) => {$(
        impl Sample for $type {
            fn sample(random: &mut SplitMix64) -> Self {
                $make(random)
            }
        }
    )*};
}
samples! {
    f32: |random: &mut SplitMix64| (random.symmetric() * power(random, 7)) as f32;
    f64: |random: &mut SplitMix64| random.symmetric() * power(random, 12);
    i32: |random: &mut SplitMix64| (random.next_u64() as u32).cast_signed();
    i64: |random: &mut SplitMix64| random.next_u64().cast_signed();
    bf16: |random: &mut SplitMix64| bf16::from_f64(random.symmetric() * power(random, 3));
    f16: |random: &mut SplitMix64| f16::from_f64(random.symmetric() * power(random, 3));
}

fn vectors<T: Sample>(peers: usize, length: usize, random: &mut SplitMix64) -> Vec<Vec<T>> {
    (0..peers).map(|_| (0..length).map(|_| T::sample(random)).collect()).collect()
}

fn bits<T: CollectiveElement>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

fn algorithms(peers: usize) -> Vec<Algorithm> {
    let flat = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Doubling];
    flat.into_iter().chain((1..=peers).map(|group| Algorithm::TwoLevel { group })).collect()
}

fn check_all_reduce<T: Sample>(operator: ReduceOp) {
    let mut random = SplitMix64::new(41);
    for peers in 1..=9 {
        for length in LENGTHS {
            for algorithm in algorithms(peers) {
                let data = vectors::<T>(peers, length, &mut random);
                let expected = serial::all_reduce(algorithm, operator, &data);
                let operation = Operation::AllReduce { algorithm, operator, length };
                let segment = 1 + random.below(64);
                let results = run(vec![Job { operation, data }], peers, segment, random.next_u64());
                for result in &results[0] {
                    assert_eq!(bits(result), bits(&expected), "{algorithm} of {length} on {peers}");
                }
            }
        }
    }
}

#[test]
fn all_reduce_sums_f32_in_the_documented_order() {
    check_all_reduce::<f32>(ReduceOp::Sum);
}

#[test]
fn all_reduce_sums_f64_in_the_documented_order() {
    check_all_reduce::<f64>(ReduceOp::Sum);
}

#[test]
fn all_reduce_sums_integers() {
    check_all_reduce::<i32>(ReduceOp::Sum);
    check_all_reduce::<i64>(ReduceOp::Sum);
}

#[test]
fn all_reduce_sums_bf16_and_f16_rounding_at_each_step() {
    check_all_reduce::<bf16>(ReduceOp::Sum);
    check_all_reduce::<f16>(ReduceOp::Sum);
}

#[test]
fn all_reduce_finds_smallest_and_largest() {
    check_all_reduce::<f32>(ReduceOp::Min);
    check_all_reduce::<i64>(ReduceOp::Max);
}

#[test]
fn the_order_of_a_sum_shows_in_its_bits() {
    // Otherwise the tests above would prove nothing about the order.
    let data = vectors::<f32>(5, 101, &mut SplitMix64::new(1));
    let sums = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::TwoLevel { group: 2 }]
        .map(|algorithm| serial::all_reduce(algorithm, ReduceOp::Sum, &data));
    for (index, sum) in sums.iter().enumerate() {
        assert!(sums[..index].iter().all(|other| bits(other) != bits(sum)));
    }
}

#[test]
fn reduce_scatter_leaves_each_its_chunk() {
    let mut random = SplitMix64::new(43);
    for peers in 1..=9 {
        for length in LENGTHS {
            let data = vectors::<f32>(peers, length, &mut random);
            let expected = serial::ring(ReduceOp::Sum, &data);
            let operation = Operation::ReduceScatter { operator: ReduceOp::Sum, length };
            let job = Job { operation: operation.clone(), data };
            let results = run(vec![job], peers, 1 + random.below(64), random.next_u64());
            for me in Rank::all(peers) {
                let chunk = operation.result(me, peers);
                assert_eq!(chunk, chunk_range(length, peers, me.index()));
                assert_eq!(bits(&results[0][me.index()][chunk.clone()]), bits(&expected[chunk]));
            }
        }
    }
}

#[test]
fn reduce_leaves_the_root_the_sum_and_broadcast_gives_it_to_all() {
    let mut random = SplitMix64::new(44);
    for peers in 1..=9 {
        for root in 0..peers {
            let length = LENGTHS[random.below(LENGTHS.len())];
            let data = vectors::<f64>(peers, length, &mut random);
            let (root_rank, operator) = (Rank::new(root as u32), ReduceOp::Sum);
            let reduce = Job { operation: Operation::Reduce { root: root_rank, operator, length }, data: data.clone() };
            let broadcast = Job { operation: Operation::Broadcast { root: root_rank, length }, data: data.clone() };
            let results = run(vec![reduce, broadcast], peers, 1 + random.below(64), random.next_u64());
            assert_eq!(bits(&results[0][root]), bits(&serial::tree(ReduceOp::Sum, &data, root)));
            for result in &results[1] {
                assert_eq!(bits(result), bits(&data[root]));
            }
        }
    }
}

#[test]
fn all_gather_gives_all_blocks_to_all_whatever_their_lengths() {
    let mut random = SplitMix64::new(45);
    for peers in 1..=9 {
        for block in LENGTHS {
            let blocks: Vec<usize> = (0..peers).map(|_| random.below(block + 1)).collect();
            for (operation, lengths) in [
                (Operation::AllGather { block }, vec![block; peers]),
                (Operation::AllGatherRagged { blocks: blocks.clone() }, blocks.clone()),
            ] {
                let own: Vec<Vec<i64>> =
                    lengths.iter().map(|&length| vectors(1, length, &mut random).remove(0)).collect();
                let index = |me: usize| {
                    let mut buffer = vec![0; lengths.iter().sum()];
                    let start: usize = lengths[..me].iter().sum();
                    buffer[start..start + lengths[me]].copy_from_slice(&own[me]);
                    buffer
                };
                let data: Vec<Vec<i64>> = (0..peers).map(index).collect();
                let root = Rank::new(random.below(peers) as u32);
                let gather = Job { operation: Operation::Gather { root, blocks: lengths.clone() }, data: data.clone() };
                let all = Job { operation, data: data.clone() };
                let results = run(vec![all, gather], peers, 1 + random.below(64), random.next_u64());
                assert!(results[0].iter().all(|result| *result == own.concat()));
                // With a root only that peer gets them, and the other buffers are unchanged.
                for (peer, result) in results[1].iter().enumerate() {
                    assert_eq!(*result, if peer == root.index() { own.concat() } else { data[peer].clone() });
                }
            }
        }
    }
}

#[test]
fn all_to_all_transposes_blocks() {
    let mut random = SplitMix64::new(46);
    for peers in 1..=9 {
        for block in [0, 1, 5, 32] {
            let data = vectors::<i32>(peers, peers * block, &mut random);
            let job = Job { operation: Operation::AllToAll { block }, data: data.clone() };
            let results = run(vec![job], peers, 1 + random.below(64), random.next_u64());
            for me in 0..peers {
                let expected: Vec<i32> =
                    data.iter().flat_map(|from| from[me * block..(me + 1) * block].to_vec()).collect();
                assert_eq!(results[0][me], expected);
            }
        }
    }
}

#[test]
fn no_peer_leaves_a_barrier_before_all_have_arrived() {
    for peers in 2..=9 {
        for late in 0..peers {
            let mut nodes: Vec<Peer> = Rank::all(peers).map(|me| Peer::new(me, peers)).collect();
            let tags: Vec<_> = nodes.iter_mut().map(|node| node.begin::<f32>(&Operation::Barrier).unwrap()).collect();
            let mut done = vec![false; peers];
            let settle = |nodes: &mut Vec<Peer>, done: &mut Vec<bool>, comes: &dyn Fn(usize) -> bool| loop {
                let mut out = Vec::new();
                for peer in (0..peers).filter(|&peer| comes(peer)) {
                    if !done[peer] {
                        done[peer] = nodes[peer].advance::<f32>(tags[peer], &mut [], usize::MAX, &mut out).unwrap();
                    }
                }
                if out.is_empty() {
                    break;
                }
                for message in out {
                    nodes[message.to.index()].early.keep(message);
                }
            };
            settle(&mut nodes, &mut done, &|peer| peer != late);
            assert!(done.iter().all(|done| !done), "someone passed without {late}");
            settle(&mut nodes, &mut done, &|_| true);
            assert!(done.iter().all(|done| *done));
        }
    }
}

#[test]
fn many_collectives_in_flight_do_not_disturb_each_other() {
    let mut random = SplitMix64::new(47);
    for round in 0..200 {
        let peers = 1 + random.below(9);
        let mut jobs = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..=random.below(6) {
            let length = random.below(40);
            let choices = algorithms(peers);
            let algorithm = choices[random.below(choices.len())];
            let data = vectors::<f32>(peers, length, &mut random);
            expected.push(serial::all_reduce(algorithm, ReduceOp::Sum, &data));
            jobs.push(Job { operation: Operation::AllReduce { algorithm, operator: ReduceOp::Sum, length }, data });
        }
        let results = run(jobs, peers, 1 + random.below(64), random.next_u64());
        for (result, expected) in results.iter().zip(&expected) {
            assert!(result.iter().all(|result| bits(result) == bits(expected)), "round {round}");
        }
    }
}

#[test]
fn fused_vectors_come_back_summed() {
    let mut random = SplitMix64::new(49);
    let lengths = [3, 0, 8, 1, 20];
    let peers = 4;
    let tensors: Vec<Vec<Vec<i64>>> =
        (0..peers).map(|_| lengths.iter().map(|&length| vectors(1, length, &mut random).remove(0)).collect()).collect();
    let mut summed: Vec<Vec<i64>> = lengths.iter().map(|&length| vec![0; length]).collect();
    for bucket in buckets(&lengths, 12) {
        let packed = |tensors: &Vec<Vec<i64>>| tensors[bucket.vectors.clone()].concat();
        let (algorithm, operator) = (Algorithm::HalvingDoubling, ReduceOp::Sum);
        let operation = Operation::AllReduce { algorithm, operator, length: bucket.length };
        let results =
            run(vec![Job { operation, data: tensors.iter().map(packed).collect() }], peers, 64, random.next_u64());
        let mut ranges: Vec<&mut [i64]> = summed[bucket.vectors.clone()].iter_mut().map(Vec::as_mut_slice).collect();
        unpack(&results[0][0], &mut ranges).unwrap();
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
    let mut random = SplitMix64::new(50);
    for peers in 1..=9 {
        for algorithm in algorithms(peers) {
            let mut data = vectors::<f32>(peers, 33, &mut random);
            for (peer, vector) in data.iter_mut().enumerate() {
                vector[peer] = f32::NAN;
                vector[20] = f32::from_bits(0x7fc0_0000 | peer as u32);
            }
            let operation = Operation::AllReduce { algorithm, operator: ReduceOp::Sum, length: 33 };
            let results = run(vec![Job { operation, data }], peers, 16, random.next_u64());
            assert!(results[0].iter().all(|result| bits(result) == bits(&results[0][0])));
            assert_eq!(count_nan(&results[0][0]), peers + 1);
        }
    }
}

#[test]
fn reused_buffers_hold_no_old_values() {
    // Large messages of changing lengths, so that buffers are reused and are longer or shorter than
    // needed.
    let mut random = SplitMix64::new(51);
    let peers = 3;
    let lengths = [60_000, 30_001, 90_000, 12_345];
    let data: Vec<Vec<Vec<f32>>> = lengths.iter().map(|&length| vectors(peers, length, &mut random)).collect();
    let jobs = data.iter().zip(lengths).map(|(data, length)| {
        let operation = Operation::AllReduce { algorithm: Algorithm::Ring, operator: ReduceOp::Sum, length };
        Job { operation, data: data.clone() }
    });
    let results = run(jobs.collect(), peers, 1 << 16, random.next_u64());
    for (result, data) in results.iter().zip(&data) {
        let expected = serial::ring(ReduceOp::Sum, data);
        assert!(result.iter().all(|result| bits(result) == bits(&expected)));
    }
}
