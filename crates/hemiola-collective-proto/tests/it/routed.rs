//! Collectives along a route, with messages in random order: the sums of the documentation, at the
//! members only.

use crate::network::{Job, run};
use crate::serial;
use hemiola_collective_proto::{Algorithm, Operation, ReduceOp, Route};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;

const LENGTHS: [usize; 4] = [0, 1, 7, 33];

/// Values of very different size, so that every change of the order of a sum changes its bits.
fn vectors(peers: usize, length: usize, random: &mut SplitMix64) -> Vec<Vec<f32>> {
    let sample = |random: &mut SplitMix64| {
        let power = (0..random.below(7)).fold(1.0, |power, _| 10.0 * power);
        (random.symmetric() * power) as f32
    };
    (0..peers).map(|_| (0..length).map(|_| sample(random)).collect()).collect()
}

/// Some of the peers in a random order, cut into random groups.
fn route(peers: usize, random: &mut SplitMix64) -> Route {
    let mut ranks: Vec<Rank> = Rank::all(peers).collect();
    for index in (1..peers).rev() {
        ranks.swap(index, random.below(index + 1));
    }
    ranks.truncate(1 + random.below(peers));
    let mut groups: Vec<Vec<Rank>> = Vec::new();
    for rank in ranks {
        match groups.last_mut().filter(|_| random.below(3) > 0) {
            Some(group) => group.push(rank),
            None => groups.push(vec![rank]),
        }
    }
    Route::new(groups)
}

fn pick(data: &[Vec<f32>], ranks: &[Rank]) -> Vec<Vec<f32>> {
    ranks.iter().map(|rank| data[rank.index()].clone()).collect()
}

fn bits(elements: &[f32]) -> Vec<u32> {
    elements.iter().map(|element| element.to_bits()).collect()
}

#[test]
fn a_routed_all_reduce_sums_groups_and_then_stations() {
    let mut random = SplitMix64::new(3);
    for round in 0..300 {
        let peers = 1 + random.below(9);
        let (route, length) = (route(peers, &mut random), LENGTHS[random.below(LENGTHS.len())]);
        let algorithm = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling][round % 3];
        let data = vectors(peers, length, &mut random);
        let sums: Vec<Vec<f32>> = match route.groups() {
            [members] => pick(&data, members),
            groups => groups.iter().map(|group| serial::tree(ReduceOp::Sum, &pick(&data, group), 0)).collect(),
        };
        let expected = serial::all_reduce(algorithm, ReduceOp::Sum, &sums);
        let operation = Operation::RoutedAllReduce { route: route.clone(), algorithm, operator: ReduceOp::Sum, length };
        let job = Job { operation, data: data.clone() };
        let results = run(vec![job], peers, 1 + random.below(40), random.next_u64());
        for (rank, result) in Rank::all(peers).zip(&results[0]) {
            let expected = if route.contains(rank) { &expected } else { &data[rank.index()] };
            assert_eq!(bits(result), bits(expected), "{algorithm} of {length} on {peers} over {route}, peer {rank}");
        }
    }
}

#[test]
fn a_routed_reduce_and_broadcast_reach_the_root_and_all_members() {
    let mut random = SplitMix64::new(4);
    for _ in 0..300 {
        let peers = 1 + random.below(9);
        let (route, root) = (route(peers, &mut random), Rank::new(random.below(peers) as u32));
        let length = LENGTHS[random.below(LENGTHS.len())];
        // Whole numbers: their sums are exact in any order.
        let data: Vec<Vec<f32>> = (0..peers).map(|_| (0..length).map(|_| random.below(100) as f32).collect()).collect();
        let takes_part = |rank: Rank| rank == root || route.contains(rank);
        let sum = |element: usize| -> f32 {
            Rank::all(peers).filter(|rank| takes_part(*rank)).map(|rank| data[rank.index()][element]).sum()
        };
        let expected: Vec<f32> = (0..length).map(sum).collect();
        let reduce = Operation::RoutedReduce { route: route.clone(), root, operator: ReduceOp::Sum, length };
        let broadcast = Operation::RoutedBroadcast { route: route.clone(), root, length };
        let jobs = [reduce, broadcast].map(|operation| Job { operation, data: data.clone() });
        let results = run(jobs.into(), peers, 1 + random.below(40), random.next_u64());
        assert_eq!(results[0][root.index()], expected, "over {route} to {root} of {peers}");
        for rank in Rank::all(peers) {
            let from = if takes_part(rank) { root } else { rank };
            assert_eq!(results[1][rank.index()], data[from.index()], "over {route} from {root} of {peers}");
        }
    }
}

/// The claim of `routed.rs`: two levels have the bits of a direct reduce if groups are 2ᵏ
/// consecutive peers and the root is the first of one.
#[test]
fn groups_of_a_power_of_two_have_the_bits_of_a_direct_reduce() {
    let mut random = SplitMix64::new(5);
    let mut others = 0;
    for (peers, group) in [(4, 2), (8, 2), (8, 4), (6, 2), (5, 2), (9, 4), (6, 3)] {
        let ranks: Vec<Rank> = Rank::all(peers).collect();
        let route = Route::new(ranks.chunks(group).map(<[Rank]>::to_vec).collect());
        // With a shorter last group, only the first peer has all blocks aligned behind it.
        let roots = if peers % group == 0 { peers / group } else { 1 };
        for root in (0..roots).map(|index| Rank::new((index * group) as u32)) {
            let data = vectors(peers, 33, &mut random);
            let direct = serial::tree(ReduceOp::Sum, &data, root.index());
            let operation = Operation::RoutedReduce { route: route.clone(), root, operator: ReduceOp::Sum, length: 33 };
            let results = run(vec![Job { operation, data }], peers, 10, random.next_u64());
            let same = bits(&results[0][root.index()]) == bits(&direct);
            assert!(same || !group.is_power_of_two(), "{peers} peers in groups of {group}, root {root}");
            others += usize::from(!same);
        }
    }
    assert!(others > 0, "other groups add in another order");
}
