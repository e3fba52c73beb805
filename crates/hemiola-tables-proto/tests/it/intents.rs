//! Rows come before they are used, move to their only user, and go back.

use crate::net::Net;
use hemiola_core::WorkerId;
use hemiola_tables_proto::procedure::Add;
use hemiola_tables_proto::{Cells, Clock, Consistency, Ids, Spec};

const WORKER: WorkerId = WorkerId::new(0);

fn net(consistency: Consistency, cache_rows: usize) -> Net<f32> {
    let spec = Spec { consistency, clients: 2, cache_rows, ..Spec::new("w", Ids::Fixed(100), 2) };
    Net::new(spec, 1, Clock::ZERO, &|| Box::new(Add))
}

fn add(net: &mut Net<f32>, client: usize, key: u64) {
    net.clients[client][0].update(WORKER, key, &Cells::Dense(&[1.0, 2.0]), 0).unwrap();
}

fn clock(net: &mut Net<f32>) {
    net.clock(0, WORKER, false);
    net.clock(1, WORKER, false);
    net.settle();
}

#[test]
fn rows_are_there_before_they_are_used_and_go_afterwards() {
    for consistency in [Consistency::Bsp, Consistency::Ssp(1)] {
        let mut net = net(consistency, 3);
        let keys: Vec<u64> = (10..16).collect();
        net.clients[0][0].intend(WORKER, &keys, Clock::new(4), Clock::new(5)).unwrap();
        net.settle();
        assert_eq!(net.clients[0][0].copies(), 0, "it is too early");
        for _ in 0..4 {
            clock(&mut net);
        }
        for key in &keys {
            // More than the cache holds otherwise.
            assert!(net.clients[0][0].get(WORKER, *key).unwrap().is_some());
        }
        clock(&mut net);
        assert_eq!(net.clients[0][0].copies(), 0, "they are not used any more");
    }
}

#[test]
fn a_row_moves_to_its_only_user_and_back_to_who_asks_for_it() {
    let mut net = net(Consistency::Ssp(0), usize::MAX);
    net.ask(0, WORKER, &[7]);
    net.settle();
    net.clients[0][0].intend(WORKER, &[7], Clock::ZERO, Clock::new(100)).unwrap();
    net.settle();
    assert_eq!(net.clients[0][0].leases(), 1);
    for step in 1..=5_u8 {
        add(&mut net, 0, 7);
        clock(&mut net);
        assert_eq!(net.row(7), [0.0, 0.0], "nothing leaves");
        let seen = net.clients[0][0].get(WORKER, 7).unwrap().unwrap();
        assert_eq!(seen.cells, Cells::Dense(&[f32::from(step), 2.0 * f32::from(step)]));
    }
    // Updates of others come through.
    add(&mut net, 1, 7);
    clock(&mut net);
    assert_eq!(net.clients[0][0].get(WORKER, 7).unwrap().unwrap().cells, Cells::Dense(&[6.0, 12.0]));
    assert_eq!(net.clients[0][0].leases(), 1);
    // A reader gets all of it.
    assert!(!net.ask(1, WORKER, &[7]));
    net.settle();
    assert_eq!(net.clients[1][0].get(WORKER, 7).unwrap().unwrap().cells, Cells::Dense(&[6.0, 12.0]));
    assert_eq!((net.clients[0][0].leases(), net.row(7)), (0, vec![6.0, 12.0]));
    // Two users: no lease.
    net.clients[0][0].intend(WORKER, &[7], Clock::new(5), Clock::new(100)).unwrap();
    net.settle();
    assert_eq!(net.clients[0][0].leases(), 0);
}

#[test]
fn a_lease_ends_with_the_intent() {
    let mut net = net(Consistency::Async, usize::MAX);
    net.ask(0, WORKER, &[7]);
    net.settle();
    net.clients[0][0].intend(WORKER, &[7], Clock::ZERO, Clock::new(2)).unwrap();
    net.settle();
    add(&mut net, 0, 7);
    clock(&mut net);
    assert_eq!((net.clients[0][0].leases(), net.row(7)), (1, vec![0.0, 0.0]));
    clock(&mut net);
    assert_eq!((net.clients[0][0].leases(), net.row(7)), (0, vec![1.0, 2.0]));
}

#[test]
fn bsp_gives_no_leases() {
    let mut net = net(Consistency::Bsp, usize::MAX);
    net.ask(0, WORKER, &[7]);
    net.settle();
    net.clients[0][0].intend(WORKER, &[7], Clock::ZERO, Clock::new(9)).unwrap();
    net.settle();
    assert_eq!(net.clients[0][0].leases(), 0);
}

#[test]
fn a_snapshot_calls_leases_back() {
    let mut net = net(Consistency::Ssp(2), usize::MAX);
    net.ask(0, WORKER, &[7]);
    net.settle();
    net.clients[0][0].intend(WORKER, &[7], Clock::ZERO, Clock::new(100)).unwrap();
    net.settle();
    for _ in 0..3 {
        add(&mut net, 0, 7);
        clock(&mut net);
    }
    assert!(net.servers[0].begin_snapshot(Clock::new(2)).is_err(), "sums of clock 2 may be among those kept");
    net.servers[0].begin_snapshot(Clock::new(3)).unwrap();
    add(&mut net, 0, 7);
    assert!(net.servers[0].next_piece(100).is_none(), "the lease is out");
    net.settle();
    let piece = net.servers[0].next_piece(100).unwrap();
    let rows: Vec<_> = piece.batch.iter().map(|row| (row.key, row.cells.values().to_vec())).collect();
    assert_eq!(rows, [(7, vec![3.0, 6.0])]);
    assert_eq!(net.row(7), [4.0, 8.0]);
}

#[test]
fn nothing_is_sent_to_who_has_finished_before_its_rows_came() {
    // Found in virtual time: rows that were asked for ahead of need were answered after the end, and then pushed for as long as others worked.
    let managed = Some(hemiola_tables_proto::Managed::default());
    for consistency in [Consistency::Bsp, Consistency::Ssp(0)] {
        let spec = Spec { consistency, clients: 2, managed, ..Spec::new("w", Ids::Fixed(100), 2) };
        let mut net: Net<f32> = Net::new(spec, 1, Clock::ZERO, &|| Box::new(Add));
        net.clock(0, WORKER, false);
        net.clients[0][0].intend(WORKER, &[7], Clock::new(2), Clock::new(9)).unwrap();
        net.settle();
        assert_eq!(net.servers[0].waiting().count(), 1, "the request waits for the other client");
        net.clock(0, WORKER, true);
        net.settle();
        for _ in 0..3 {
            add(&mut net, 1, 7);
            net.clock(1, WORKER, false);
            for sent in net.servers[0].take_outgoing() {
                assert_eq!(sent.to.index(), 1, "{sent:?}");
            }
            net.settle();
        }
        net.clock(1, WORKER, true);
        net.settle();
        assert!(!net.servers[0].has_more(), "nobody has a copy that could be old");
        assert_eq!(net.servers[0].waiting().count(), 0);
    }
}
