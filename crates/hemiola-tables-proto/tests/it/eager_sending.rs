//! Bandwidth-managed communication: with a budget, other clients see updates before a clock needs
//! them; without one, all updates still arrive at the clock.

use crate::model::TestRng;
use crate::test_network::TestNetwork;
use hemiola_core::Bandwidth;
use hemiola_core::{Moment, WorkerId};
use hemiola_tables_proto::update_rule::{Addition, SnapshotAdaRevision};
use hemiola_tables_proto::{
    Clock, CommPolicy, Consistency, KeySpace, PriorityPolicy, RateLimiter, RowCells, RowSelection, SelectionRng,
    TableSpec, UpdateRule,
};
use std::time::Duration;

const WORKER: WorkerId = WorkerId::new(0);
const WIDTH: usize = 16;

fn spec(priority: PriorityPolicy) -> TableSpec {
    let comm_policy = Some(CommPolicy { priority, selection: RowSelection::Exact });
    TableSpec {
        consistency: Consistency::Ssp(5),
        clients: 2,
        comm_policy,
        ..TableSpec::new("w", KeySpace::Fixed(100), WIDTH)
    }
}

/// Client 0 updates row `r` by `sizes[r]`, and client 1 reads all rows. Spends a burst of `bytes`
/// in each direction and returns the rows whose update client 1 sees before any clock.
fn rows_seen_early(
    priority: PriorityPolicy,
    bytes: usize,
    sizes: &[f32],
    rule: &dyn Fn() -> Box<dyn UpdateRule<f32>>,
) -> Vec<u64> {
    let mut net = TestNetwork::<f32>::new(spec(priority), 1, Clock::ZERO, rule);
    let keys: Vec<u64> = (0..sizes.len() as u64).collect();
    net.fetch(1, WORKER, &keys);
    net.deliver_all();
    for (key, size) in sizes.iter().enumerate() {
        net.clients[0][0].update(WORKER, key as u64, &RowCells::Dense(&[*size; WIDTH]), 0).unwrap();
    }
    let limiter = || RateLimiter::new(Bandwidth::bytes_per_second(0), bytes, Duration::from_secs(1), Moment::ZERO);
    let (mut up, mut down, mut random) = (limiter(), limiter(), SelectionRng::new(3));
    net.clients[0][0].send_eagerly(Moment::ZERO, &mut up, 0, &mut random);
    net.deliver_all();
    for _ in 0..4 {
        net.servers[0].send_eagerly(Moment::ZERO, &mut down, |client| Some(client.index() as u64));
    }
    net.deliver_all();
    assert!(up.bytes().0 <= bytes as u64 && down.bytes().0 <= bytes as u64);
    let client = &mut net.clients[1][0];
    keys.into_iter()
        .filter(|key| client.get(WORKER, *key).unwrap().unwrap().cells.values().iter().any(|value| *value != 0.0))
        .collect()
}

#[test]
fn the_most_important_rows_go_first() {
    let sizes: Vec<f32> = (0..20).map(|row| if row % 5 == 0 { 100.0 + row as f32 } else { 1.0 }).collect();
    let add: &dyn Fn() -> Box<dyn UpdateRule<f32>> = &|| Box::new(Addition);
    // Bytes for four rows and a remainder.
    let bytes = 64 + 4 * (64 + 25) + 30;
    assert_eq!(rows_seen_early(PriorityPolicy::AbsoluteMagnitude, bytes, &sizes, add), [0, 5, 10, 15]);
    assert_eq!(rows_seen_early(PriorityPolicy::RoundRobin, bytes, &sizes, add), [0, 1, 2, 3]);
    assert_eq!(rows_seen_early(PriorityPolicy::AbsoluteMagnitude, 0, &sizes, add), [] as [u64; 0]);
    assert_eq!(rows_seen_early(PriorityPolicy::Random, 1 << 20, &sizes, add).len(), 20);
}

#[test]
fn an_update_rule_can_block_eager_sends() {
    let sizes = [1.0; 20];
    let count = |bound| {
        rows_seen_early(PriorityPolicy::RoundRobin, 1 << 20, &sizes, &|| Box::new(SnapshotAdaRevision::new(0.1, bound)))
            .len()
    };
    assert_eq!(count(0), 0);
    assert_eq!(count(1000), 20);
}

#[test]
fn without_a_budget_updates_arrive_at_the_clock() {
    let mut net = TestNetwork::<f32>::new(spec(PriorityPolicy::Random), 1, Clock::ZERO, &|| Box::new(Addition));
    net.fetch(1, WORKER, &[4]);
    net.deliver_all();
    let mut nothing = RateLimiter::zero();
    net.clients[0][0].update(WORKER, 4, &RowCells::Dense(&[1.0; WIDTH]), 0).unwrap();
    net.clients[0][0].send_eagerly(Moment::from_nanos(u64::MAX), &mut nothing, 0, &mut SelectionRng::new(1));
    net.clock(0, WORKER, false);
    net.clock(1, WORKER, false);
    let mut rng = TestRng::new(4);
    while net.deliver(&mut rng).unwrap() {}
    net.servers[0].send_eagerly(Moment::from_nanos(u64::MAX), &mut nothing, |_| Some(0));
    assert_eq!(net.clients[1][0].get(WORKER, 4).unwrap().unwrap().cells, RowCells::Dense(&[1.0; WIDTH]));
    assert_eq!(nothing.bytes(), (0, 0));
}

#[test]
fn eager_traffic_uses_the_budget_and_stays_within_it() {
    const TICK: Duration = Duration::from_millis(2);
    const TICKS: u32 = 200;
    for priority in [PriorityPolicy::RoundRobin, PriorityPolicy::RelativeMagnitude] {
        for rate in [500_000, 10_000_000_u64] {
            let bandwidth = Bandwidth::bytes_per_second(rate);
            // Burst as computed by the driver.
            let burst = bandwidth.bytes_in(Duration::from_millis(20)).max(16 << 10);
            let spec = TableSpec { key_space: KeySpace::Fixed(2000), ..spec(priority) };
            let mut net = TestNetwork::<f32>::new(spec, 1, Clock::ZERO, &|| Box::new(Addition));
            let keys: Vec<u64> = (0..2000).collect();
            net.fetch(1, WORKER, &keys);
            net.deliver_all();
            let limiter = || RateLimiter::new(bandwidth, burst, Duration::from_millis(200), Moment::ZERO);
            let (mut up, mut down, mut random) = (limiter(), limiter(), SelectionRng::new(3));
            let mut now = Moment::ZERO;
            for tick in 0..u64::from(TICKS) {
                for row in 0..400 {
                    let key = (tick * 400 + row) % 2000;
                    net.clients[0][0].update(WORKER, key, &RowCells::Dense(&[1.0; WIDTH]), 0).unwrap();
                }
                net.clients[0][0].send_eagerly(now, &mut up, 0, &mut random);
                net.deliver_all();
                net.servers[0].send_eagerly(now, &mut down, |client| Some(client.index() as u64));
                net.servers[0].acknowledge();
                net.deliver_all();
                net.clients.iter_mut().for_each(|client| client[0].acknowledge());
                net.deliver_all();
                now = now + TICK;
            }
            let allowed = bandwidth.bytes_in(TICK * TICKS) as u64;
            for (direction, limiter) in [("up", &up), ("down", &down)] {
                let (ahead, _) = limiter.bytes();
                let bounds = allowed * 95 / 100..=allowed + burst as u64;
                assert!(bounds.contains(&ahead), "{priority:?}, {direction}: {ahead} bytes, allowed were {allowed}");
            }
        }
    }
}
