//! Clients behind a slow network: rows that change meanwhile are merged, requests wait, and the
//! memory of both ends stays within the send window.

use crate::test_network::TestNetwork;
use hemiola_core::WorkerId;
use hemiola_tables_proto::update_rule::Addition;
use hemiola_tables_proto::{Clock, Consistency, KeySpace, RowCells, RowDelivery, TableSpec};

const WORKER: WorkerId = WorkerId::new(0);
const ROWS: u64 = 200;
const WIDTH: usize = 64;
const WINDOW: usize = 16 << 10;
const MESSAGE: usize = 2 << 10;

fn network(consistency: Consistency, delivery: RowDelivery) -> TestNetwork<f32> {
    let spec = TableSpec {
        consistency,
        delivery,
        clients: 2,
        message_bytes: MESSAGE,
        window_bytes: WINDOW,
        ..TableSpec::new("w", KeySpace::Fixed(ROWS), WIDTH)
    };
    TestNetwork::new(spec, 1, Clock::ZERO, &|| Box::new(Addition))
}

/// Adds 1 to every cell and ends the clock.
fn add_to_all(net: &mut TestNetwork<f32>, client: usize) {
    for key in 0..ROWS {
        net.client_for(client, key).update(WORKER, key, &RowCells::Dense(&[1.0; WIDTH]), 0).unwrap();
    }
    net.clock(client, WORKER, false);
}

fn cell(net: &mut TestNetwork<f32>, client: usize, key: u64) -> f32 {
    net.client_for(client, key).get(WORKER, key).unwrap().unwrap().cells.values()[0]
}

#[test]
fn rows_for_a_slow_receiver_are_merged_within_the_window() {
    for consistency in [Consistency::Async, Consistency::Ssp(1000)] {
        let mut net = network(consistency, RowDelivery::Push);
        let all: Vec<u64> = (0..ROWS).collect();
        net.fetch(1, WORKER, &all);
        net.deliver_all();
        for _ in 0..100 {
            add_to_all(&mut net, 0);
            net.clock(1, WORKER, false);
            net.deliver_except_to(1);
            let (bytes, _) = net.in_flight_to(1);
            assert!(bytes <= WINDOW + 2 * MESSAGE, "{bytes} bytes are on their way");
        }
        // What is on its way is a part of the table, and the rest follows once.
        let (_, mut rows) = net.in_flight_to(1);
        assert!(rows > 0 && (rows as u64) < ROWS, "{rows} rows");
        while net.in_flight_to(1).0 > 0 {
            let before = net.in_flight_to(1).1;
            net.deliver(&mut crate::model::TestRng::new(7)).unwrap();
            rows += net.in_flight_to(1).1.saturating_sub(before);
        }
        assert!((rows as u64) < 3 * ROWS, "{rows} rows were sent for 100 changes of {ROWS} rows");
        for key in 0..ROWS {
            assert_eq!(cell(&mut net, 1, key).to_bits(), 100_f32.to_bits(), "{consistency:?}, row {key}");
        }
    }
}

#[test]
fn the_end_does_not_wait_for_rows_that_nobody_reads() {
    let mut net = network(Consistency::Async, RowDelivery::Push);
    let all: Vec<u64> = (0..ROWS).collect();
    net.fetch(1, WORKER, &all);
    net.deliver_all();
    for _ in 0..10 {
        add_to_all(&mut net, 0);
        net.clock(1, WORKER, false);
        net.deliver_except_to(1);
    }
    net.clock(1, WORKER, true);
    net.clock(0, WORKER, true);
    net.deliver_except_to(1);
    let (bytes, _) = net.in_flight_to(1);
    assert!(bytes <= WINDOW + 2 * MESSAGE, "{bytes} bytes at the end");
    assert_eq!(net.servers[0].min(), Clock::INFINITE);
}

#[test]
fn requests_of_a_slow_receiver_wait_at_the_shard() {
    for delivery in [RowDelivery::Push, RowDelivery::Pull] {
        let mut net = network(Consistency::Ssp(0), delivery);
        add_to_all(&mut net, 0);
        net.clock(1, WORKER, false);
        let all: Vec<u64> = (0..ROWS).collect();
        assert!(!net.fetch(1, WORKER, &all));
        net.deliver_except_to(1);
        let (bytes, rows) = net.in_flight_to(1);
        assert!(bytes <= WINDOW + 2 * MESSAGE && rows > 0, "{bytes} bytes, {rows} rows");
        net.deliver_all();
        for key in 0..ROWS {
            assert_eq!(cell(&mut net, 1, key).to_bits(), 1_f32.to_bits(), "{delivery:?}, row {key}");
        }
    }
}

#[test]
fn sums_are_confirmed_although_another_client_stays_behind() {
    let mut net = network(Consistency::Async, RowDelivery::Push);
    for _ in 0..100 {
        add_to_all(&mut net, 0);
        net.deliver_all();
        let sums = net.clients[0][0].unconfirmed_sums();
        assert!(sums * WIDTH * 4 <= WINDOW, "{sums} sums are kept");
    }
}
