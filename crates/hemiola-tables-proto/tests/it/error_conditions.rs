//! Error conditions and their messages.

use crate::test_network::TestNetwork;
use hemiola_core::{ErrorKind, WorkerId};
use hemiola_tables_proto::batch::RowBatch;
use hemiola_tables_proto::message::ClientMessage;
use hemiola_tables_proto::server::snapshot::{SnapshotChunk, SnapshotSummary};
use hemiola_tables_proto::stream::OrderedStream;
use hemiola_tables_proto::update_rule::{AdaGrad, Addition};
use hemiola_tables_proto::{
    ClientId, Clock, Consistency, Error, KeySpace, NonFinitePolicy, RowCells, SelectionRng, ShardId, ShardServer,
    TableSpec, UpdateRule,
};
use std::sync::Arc;

const WORKER: WorkerId = WorkerId::new(0);

fn add() -> Box<dyn UpdateRule<f32>> {
    Box::new(Addition)
}

fn net(spec: TableSpec) -> TestNetwork<f32> {
    TestNetwork::new(spec, 1, Clock::ZERO, &add)
}

#[test]
fn nan_names_table_row_column_and_worker() {
    let mut net = net(TableSpec::new("w", KeySpace::Fixed(10), 3));
    let error = net.clients[0][0].update(WORKER, 7, &RowCells::Dense(&[1.0, f32::NAN, 0.0]), 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "worker 0 of peer 0 added NaN or infinity to row 7, column 1 of table `w`; lower the learning rate, or drop such updates with `NonFinitePolicy::Drop`"
    );
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn nan_can_be_dropped_and_counted() {
    let mut net = net(TableSpec { non_finite: NonFinitePolicy::Drop, ..TableSpec::new("w", KeySpace::Fixed(10), 2) });
    let client = &mut net.clients[0][0];
    client.update(WORKER, 7, &RowCells::Dense(&[1.0, f32::INFINITY]), 0).unwrap();
    client.update(WORKER, 7, &RowCells::Dense(&[1.0, 2.0]), 0).unwrap();
    assert_eq!(client.dropped(), 1);
    net.clock(0, WORKER, true);
    net.deliver_all();
    assert_eq!(net.row(7), [1.0, 2.0]);
}

#[test]
fn invalid_rows_and_widths_are_rejected() {
    let mut net = net(TableSpec::new("w", KeySpace::Fixed(10), 2));
    let client = &mut net.clients[0][0];
    assert!(matches!(client.get(WORKER, 10), Err(Error::RowOutOfRange { row: 10, rows: 10, .. })));
    assert!(matches!(client.fetch(WORKER, &[3, 11]), Err(Error::RowOutOfRange { row: 11, .. })));
    let update = client.update(WORKER, 3, &RowCells::Dense(&[1.0]), 0);
    assert!(matches!(update, Err(Error::WrongWidth { row: 3, expected: 2, found: 1, .. })));
    let update = client.update(WORKER, 3, &RowCells::Sparse { columns: &[2], values: &[1.0] }, 0);
    assert!(matches!(update, Err(Error::BadColumn { row: 3, column: 2, .. })));
    assert!(client.take_outgoing().is_empty());
}

#[test]
fn a_finished_worker_gets_an_error() {
    let mut net = net(TableSpec::new("w", KeySpace::Fixed(10), 1));
    net.clock(0, WORKER, true);
    let client = &mut net.clients[0][0];
    for error in [
        client.get(WORKER, 1).unwrap_err(),
        client.fetch(WORKER, &[1]).unwrap_err(),
        client.update(WORKER, 1, &RowCells::Dense(&[1.0]), 0).unwrap_err(),
        client.clock(WORKER).unwrap_err(),
        client.finish(WORKER).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "worker 0 used table `w` after it had finished");
    }
}

#[test]
fn a_late_joiner_is_rejected() {
    let mut net = net(TableSpec::new("w", KeySpace::Fixed(10), 1));
    let message = OrderedStream::<()>::default().send(ClientMessage::Clock(Clock::new(1)));
    let error = net.servers[0].receive(ClientId::new(1), message).unwrap_err();
    assert_eq!(
        error.to_string(),
        "peer 1 sent a message to shard 0 of table `w`, which was built for 1 peers; to add a peer, restart the job from its last checkpoint"
    );
}

#[test]
fn invalid_messages_change_nothing() {
    let spec = Arc::new(TableSpec {
        consistency: Consistency::Ssp(1),
        shards: 2,
        ..TableSpec::new("w", KeySpace::Fixed(10), 2)
    });
    let row = |key, values: &[f32]| {
        let mut batch = RowBatch::new();
        batch.push(4, 0, &RowCells::Dense(&[1.0, 1.0]));
        batch.push(key, 0, &RowCells::Dense(values));
        batch
    };
    let update = |clock, batch| ClientMessage::Update { clock: Clock::new(clock), batch, attachment: Vec::new() };
    let bad = [
        ClientMessage::Get { need: Clock::ZERO, keys: vec![5] },
        ClientMessage::Get { need: Clock::ZERO, keys: vec![12] },
        ClientMessage::Forget { keys: vec![5] },
        ClientMessage::Clock(Clock::ZERO),
        update(0, row(5, &[1.0, 1.0])),
        update(0, row(12, &[1.0, 1.0])),
        update(0, row(6, &[1.0])),
        update(0, row(6, &[1.0, f32::INFINITY])),
        update(u64::MAX, row(6, &[1.0, 1.0])),
        ClientMessage::Update { clock: Clock::ZERO, batch: row(6, &[1.0, 1.0]), attachment: vec![1.0] },
    ];
    for body in bad {
        let mut server =
            ShardServer::<f32>::new(spec.clone(), ShardId::new(0), add(), Clock::ZERO, SelectionRng::new(0)).unwrap();
        let text = format!("{body:?}");
        assert!(server.receive(ClientId::new(0), OrderedStream::<()>::default().send(body)).is_err(), "{text}");
        assert!(server.rows().is_empty() && server.take_outgoing().is_empty(), "{text}");
    }
}

#[test]
fn updates_of_a_closed_clock_are_rejected() {
    let mut net = net(TableSpec::new("w", KeySpace::Fixed(10), 1));
    let mut stream = OrderedStream::<()>::default();
    let clock = stream.send(ClientMessage::Clock(Clock::new(3)));
    net.servers[0].receive(ClientId::new(0), clock).unwrap();
    let mut batch = RowBatch::new();
    batch.push(1, 0, &RowCells::Dense(&[1.0_f32]));
    let late = stream.send(ClientMessage::Update { clock: Clock::new(2), batch, attachment: Vec::new() });
    let error = net.servers[0].receive(ClientId::new(0), late).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert!(error.to_string().contains("an update of clock 2 after it had closed 3"), "{error}");
}

#[test]
fn clocks_may_be_thousands_apart() {
    let spec = TableSpec { consistency: Consistency::Async, clients: 2, ..TableSpec::new("w", KeySpace::Growing, 1) };
    let mut net = net(spec);
    for _ in 0..5000 {
        net.clients[0][0].update(WORKER, u64::MAX - 1, &RowCells::Dense(&[1.0]), 0).unwrap();
        net.clock(0, WORKER, false);
    }
    net.deliver_all();
    assert_eq!(net.servers[0].min(), Clock::ZERO);
    assert!(!net.fetch(1, WORKER, &[u64::MAX - 1]));
    net.deliver_all();
    let slow = net.clients[1][0].get(WORKER, u64::MAX - 1).unwrap().unwrap();
    assert_eq!(slow.cells, RowCells::Dense(&[5000.0]));
    net.clock(1, WORKER, true);
    net.deliver_all();
    assert_eq!(net.servers[0].min(), Clock::new(5000));
}

#[test]
fn snapshots_that_would_be_wrong_are_rejected() {
    let mut net = net(TableSpec { consistency: Consistency::Ssp(2), ..TableSpec::new("w", KeySpace::Fixed(10), 1) });
    for clock in 0..3 {
        net.clients[0][0].update(WORKER, clock, &RowCells::Dense(&[1.0]), 0).unwrap();
        net.clock(0, WORKER, false);
    }
    net.deliver_all();
    let server = &mut net.servers[0];
    let error = server.begin_snapshot(Clock::new(2)).unwrap_err();
    assert!(matches!(error, Error::SnapshotTooLate { .. }), "{error}");
    server.begin_snapshot(Clock::new(3)).unwrap();
    assert!(matches!(server.begin_snapshot(Clock::new(4)), Err(Error::SnapshotBusy { .. })));
    assert_eq!(server.end_snapshot(), None, "nothing has been read out");
    let chunk = server.next_chunk(usize::MAX).unwrap();
    assert_eq!(chunk.batch.len(), 3);
    let summary = server.end_snapshot().unwrap();
    server.begin_snapshot(Clock::new(4)).unwrap();
    assert!(server.next_chunk(1).is_none(), "clock 4 has not come");

    let restore = |spec: TableSpec,
                   rule: Box<dyn UpdateRule<f32>>,
                   summary: &SnapshotSummary,
                   chunks: Vec<SnapshotChunk<f32>>| {
        ShardServer::restore(&Arc::new(spec), ShardId::new(0), rule, summary.clone(), chunks)
            .map(|server| server.rows().len())
    };
    let spec = || TableSpec::new("w", KeySpace::Fixed(10), 1);
    assert_eq!(restore(spec(), add(), &summary, vec![chunk.clone()]), Ok(3));
    for (spec, rule, chunks) in [
        (spec(), Box::new(AdaGrad::new(0.1)) as Box<dyn UpdateRule<f32>>, vec![chunk.clone()]),
        (TableSpec { width: 2, ..spec() }, add(), vec![chunk.clone()]),
        (TableSpec { key_space: KeySpace::Fixed(2), ..spec() }, add(), vec![chunk.clone()]),
        (spec(), add(), vec![chunk.clone(), chunk]),
    ] {
        let error = restore(spec, rule, &summary, chunks).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::External, "{error}");
    }
}

#[test]
fn a_row_created_after_the_last_chunk_leaves_the_snapshot_complete() {
    let mut net = net(TableSpec { consistency: Consistency::Ssp(2), ..TableSpec::new("w", KeySpace::Fixed(10), 1) });
    net.clients[0][0].update(WORKER, 0, &RowCells::Dense(&[1.0]), 0).unwrap();
    net.clock(0, WORKER, false);
    net.deliver_all();
    net.servers[0].begin_snapshot(Clock::new(1)).unwrap();
    assert_eq!(net.servers[0].next_chunk(usize::MAX).unwrap().batch.len(), 1);
    net.clients[0][0].update(WORKER, 7, &RowCells::Dense(&[1.0]), 0).unwrap();
    net.clock(0, WORKER, false);
    net.deliver_all();
    assert_eq!(net.servers[0].rows().len(), 2, "the new row is live");
    assert!(net.servers[0].next_chunk(usize::MAX).unwrap().batch.is_empty(), "and not in the snapshot");
    assert_eq!(net.servers[0].end_snapshot().map(|summary| summary.at), Some(Clock::new(1)));
}

#[test]
fn sparse_tables_need_additive_update_rules() {
    let spec = Arc::new(TableSpec { sparse: true, ..TableSpec::new("w", KeySpace::Growing, 5) });
    let rule = Box::new(AdaGrad::new(0.1));
    let error = ShardServer::<f32>::new(spec, ShardId::new(0), rule, Clock::ZERO, SelectionRng::new(0)).unwrap_err();
    assert!(error.to_string().contains("sparse rows need an additive update rule"), "{error}");
}
