//! What managed communication is for: with a budget, others see updates before a clock asks for them; without one, everything still arrives at the clock.

use crate::model::Dice;
use crate::net::Net;
use hemiola_core::{Moment, WorkerId};
use hemiola_net::Bandwidth;
use hemiola_tables_proto::procedure::{AdaRevision, Add};
use hemiola_tables_proto::{Cells, Choice, Clock, Consistency, Ids, Managed, Pacer, Priority, Procedure, Random, Spec};
use std::time::Duration;

const WORKER: WorkerId = WorkerId::new(0);
const WIDTH: usize = 16;

fn spec(priority: Priority) -> Spec {
    let managed = Some(Managed { priority, choice: Choice::Exact });
    Spec { consistency: Consistency::Ssp(5), clients: 2, managed, ..Spec::new("w", Ids::Fixed(100), WIDTH) }
}

/// Has client 0 update row `r` by `sizes[r]`, with client 1 reading all rows; spends a burst of `bytes` in each direction, and returns which rows
/// client 1 has heard of before any clock.
fn heard(priority: Priority, bytes: usize, sizes: &[f32], procedure: &dyn Fn() -> Box<dyn Procedure<f32>>) -> Vec<u64> {
    let mut net = Net::<f32>::new(spec(priority), 1, Clock::ZERO, procedure);
    let keys: Vec<u64> = (0..sizes.len() as u64).collect();
    net.ask(1, WORKER, &keys);
    net.settle();
    for (key, size) in sizes.iter().enumerate() {
        net.clients[0][0].update(WORKER, key as u64, &Cells::Dense(&[*size; WIDTH]), 0).unwrap();
    }
    let pacer = || Pacer::new(Bandwidth::bytes_per_second(0), bytes, Duration::from_secs(1), Moment::ZERO);
    let (mut up, mut down, mut random) = (pacer(), pacer(), Random::new(3));
    net.clients[0][0].send_ahead(Moment::ZERO, &mut up, 0, &mut random);
    net.settle();
    for _ in 0..4 {
        net.servers[0].send_ahead(Moment::ZERO, &mut down, |client| Some(client.index() as u64));
    }
    net.settle();
    assert!(up.bytes().0 <= bytes as u64 && down.bytes().0 <= bytes as u64);
    let client = &mut net.clients[1][0];
    keys.into_iter()
        .filter(|key| client.get(WORKER, *key).unwrap().unwrap().cells.values().iter().any(|value| *value != 0.0))
        .collect()
}

#[test]
fn the_most_important_rows_go_first() {
    let sizes: Vec<f32> = (0..20).map(|row| if row % 5 == 0 { 100.0 + row as f32 } else { 1.0 }).collect();
    let add: &dyn Fn() -> Box<dyn Procedure<f32>> = &|| Box::new(Add);
    // Room for four rows and a bit.
    let bytes = 64 + 4 * (64 + 25) + 30;
    assert_eq!(heard(Priority::AbsoluteMagnitude, bytes, &sizes, add), [0, 5, 10, 15]);
    assert_eq!(heard(Priority::RoundRobin, bytes, &sizes, add), [0, 1, 2, 3]);
    assert_eq!(heard(Priority::AbsoluteMagnitude, 0, &sizes, add), [] as [u64; 0]);
    assert_eq!(heard(Priority::Random, 1 << 20, &sizes, add).len(), 20);
}

#[test]
fn a_procedure_can_hold_back_what_nobody_waits_for() {
    let sizes = [1.0; 20];
    let count = |bound| {
        heard(Priority::RoundRobin, 1 << 20, &sizes, &|| Box::new(AdaRevision::with_snapshots(0.1, bound))).len()
    };
    assert_eq!(count(0), 0);
    assert_eq!(count(1000), 20);
}

#[test]
fn without_a_budget_everything_comes_with_the_clock() {
    let mut net = Net::<f32>::new(spec(Priority::Random), 1, Clock::ZERO, &|| Box::new(Add));
    net.ask(1, WORKER, &[4]);
    net.settle();
    let mut nothing = Pacer::nothing();
    net.clients[0][0].update(WORKER, 4, &Cells::Dense(&[1.0; WIDTH]), 0).unwrap();
    net.clients[0][0].send_ahead(Moment::from_nanos(u64::MAX), &mut nothing, 0, &mut Random::new(1));
    net.clock(0, WORKER, false);
    net.clock(1, WORKER, false);
    let mut dice = Dice::new(4);
    while net.deliver(&mut dice).unwrap() {}
    net.servers[0].send_ahead(Moment::from_nanos(u64::MAX), &mut nothing, |_| Some(0));
    assert_eq!(net.clients[1][0].get(WORKER, 4).unwrap().unwrap().cells, Cells::Dense(&[1.0; WIDTH]));
    assert_eq!(nothing.bytes(), (0, 0));
}

#[test]
fn a_budget_is_used_and_kept_while_there_is_something_to_send() {
    const TICK: Duration = Duration::from_millis(2);
    const TICKS: u32 = 200;
    for priority in [Priority::RoundRobin, Priority::RelativeMagnitude] {
        for rate in [500_000, 10_000_000_u64] {
            let bandwidth = Bandwidth::bytes_per_second(rate);
            // As the driver has it.
            let burst = bandwidth.bytes_in(Duration::from_millis(20)).max(16 << 10);
            let spec = Spec { ids: Ids::Fixed(2000), ..spec(priority) };
            let mut net = Net::<f32>::new(spec, 1, Clock::ZERO, &|| Box::new(Add));
            let keys: Vec<u64> = (0..2000).collect();
            net.ask(1, WORKER, &keys);
            net.settle();
            let pacer = || Pacer::new(bandwidth, burst, Duration::from_millis(200), Moment::ZERO);
            let (mut up, mut down, mut random) = (pacer(), pacer(), Random::new(3));
            let mut now = Moment::ZERO;
            for tick in 0..u64::from(TICKS) {
                for row in 0..400 {
                    let key = (tick * 400 + row) % 2000;
                    net.clients[0][0].update(WORKER, key, &Cells::Dense(&[1.0; WIDTH]), 0).unwrap();
                }
                net.clients[0][0].send_ahead(now, &mut up, 0, &mut random);
                net.settle();
                net.servers[0].send_ahead(now, &mut down, |client| Some(client.index() as u64));
                net.servers[0].acknowledge();
                net.settle();
                net.clients.iter_mut().for_each(|client| client[0].acknowledge());
                net.settle();
                now = now + TICK;
            }
            let allowed = bandwidth.bytes_in(TICK * TICKS) as u64;
            for (way, pacer) in [("up", &up), ("down", &down)] {
                let (ahead, _) = pacer.bytes();
                let bounds = allowed * 95 / 100..=allowed + burst as u64;
                assert!(bounds.contains(&ahead), "{priority:?}, {way}: {ahead} bytes, allowed were {allowed}");
            }
        }
    }
}
