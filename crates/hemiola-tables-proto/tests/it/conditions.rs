//! What goes wrong, and how it is told.

use crate::net::Net;
use hemiola_core::{ErrorKind, WorkerId};
use hemiola_tables_proto::batch::Batch;
use hemiola_tables_proto::message::ToShard;
use hemiola_tables_proto::procedure::{AdaGrad, Add};
use hemiola_tables_proto::server::snapshot::{Piece, Summary};
use hemiola_tables_proto::stream::Stream;
use hemiola_tables_proto::{
    Cells, ClientId, Clock, Consistency, Error, Ids, NonFinite, Procedure, Random, Server, ShardId, Spec,
};
use std::sync::Arc;

const WORKER: WorkerId = WorkerId::new(0);

fn add() -> Box<dyn Procedure<f32>> {
    Box::new(Add)
}

fn net(spec: Spec) -> Net<f32> {
    Net::new(spec, 1, Clock::ZERO, &add)
}

#[test]
fn nan_names_table_row_column_and_worker() {
    let mut net = net(Spec::new("w", Ids::Fixed(10), 3));
    let error = net.clients[0][0].update(WORKER, 7, &Cells::Dense(&[1.0, f32::NAN, 0.0]), 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "worker 0 of peer 0 added NaN or infinity to row 7, column 1 of table `w`; lower the step, or have such updates dropped and counted"
    );
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn nan_can_be_dropped_and_counted() {
    let mut net = net(Spec { non_finite: NonFinite::Drop, ..Spec::new("w", Ids::Fixed(10), 2) });
    let client = &mut net.clients[0][0];
    client.update(WORKER, 7, &Cells::Dense(&[1.0, f32::INFINITY]), 0).unwrap();
    client.update(WORKER, 7, &Cells::Dense(&[1.0, 2.0]), 0).unwrap();
    assert_eq!(client.dropped(), 1);
    net.clock(0, WORKER, true);
    net.settle();
    assert_eq!(net.row(7), [1.0, 2.0]);
}

#[test]
fn rows_and_widths_that_are_not_there_are_refused() {
    let mut net = net(Spec::new("w", Ids::Fixed(10), 2));
    let client = &mut net.clients[0][0];
    assert!(matches!(client.get(WORKER, 10), Err(Error::RowOutOfRange { row: 10, rows: 10, .. })));
    assert!(matches!(client.ask(WORKER, &[3, 11]), Err(Error::RowOutOfRange { row: 11, .. })));
    let update = client.update(WORKER, 3, &Cells::Dense(&[1.0]), 0);
    assert!(matches!(update, Err(Error::WrongWidth { row: 3, expected: 2, found: 1, .. })));
    let update = client.update(WORKER, 3, &Cells::Sparse { columns: &[2], values: &[1.0] }, 0);
    assert!(matches!(update, Err(Error::BadColumn { row: 3, column: 2, .. })));
    assert!(client.take_outgoing().is_empty());
}

#[test]
fn a_worker_that_has_finished_is_told_so() {
    let mut net = net(Spec::new("w", Ids::Fixed(10), 1));
    net.clock(0, WORKER, true);
    let client = &mut net.clients[0][0];
    for error in [
        client.get(WORKER, 1).unwrap_err(),
        client.ask(WORKER, &[1]).unwrap_err(),
        client.update(WORKER, 1, &Cells::Dense(&[1.0]), 0).unwrap_err(),
        client.clock(WORKER).unwrap_err(),
        client.finish(WORKER).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "worker 0 used table `w` after it had finished with it");
    }
}

#[test]
fn a_late_joiner_is_refused() {
    let mut net = net(Spec::new("w", Ids::Fixed(10), 1));
    let envelope = Stream::<()>::default().send(ToShard::Clock(Clock::new(1)));
    let error = net.servers[0].receive(ClientId::new(1), envelope).unwrap_err();
    assert_eq!(
        error.to_string(),
        "peer 1 spoke to shard 0 of table `w`, which was made for 1 peers; a peer joins by restarting the job from its last checkpoint"
    );
}

#[test]
fn messages_that_cannot_be_change_nothing() {
    let spec = Arc::new(Spec { consistency: Consistency::Ssp(1), shards: 2, ..Spec::new("w", Ids::Fixed(10), 2) });
    let row = |key, values: &[f32]| {
        let mut batch = Batch::new();
        batch.push(4, 0, &Cells::Dense(&[1.0, 1.0]));
        batch.push(key, 0, &Cells::Dense(values));
        batch
    };
    let update = |clock, batch| ToShard::Update { clock: Clock::new(clock), batch, carried: Vec::new() };
    let bad = [
        ToShard::Get { need: Clock::ZERO, keys: vec![5] },
        ToShard::Get { need: Clock::ZERO, keys: vec![12] },
        ToShard::Forget { keys: vec![5] },
        ToShard::Clock(Clock::ZERO),
        update(0, row(5, &[1.0, 1.0])),
        update(0, row(12, &[1.0, 1.0])),
        update(0, row(6, &[1.0])),
        update(0, row(6, &[1.0, f32::INFINITY])),
        update(u64::MAX, row(6, &[1.0, 1.0])),
        ToShard::Update { clock: Clock::ZERO, batch: row(6, &[1.0, 1.0]), carried: vec![1.0] },
    ];
    for body in bad {
        let mut server = Server::<f32>::new(spec.clone(), ShardId::new(0), add(), Clock::ZERO, Random::new(0)).unwrap();
        let text = format!("{body:?}");
        assert!(server.receive(ClientId::new(0), Stream::<()>::default().send(body)).is_err(), "{text}");
        assert!(server.rows().is_empty() && server.take_outgoing().is_empty(), "{text}");
    }
}

#[test]
fn updates_of_a_closed_clock_are_refused() {
    let mut net = net(Spec::new("w", Ids::Fixed(10), 1));
    let mut stream = Stream::<()>::default();
    let clock = stream.send(ToShard::Clock(Clock::new(3)));
    net.servers[0].receive(ClientId::new(0), clock).unwrap();
    let mut batch = Batch::new();
    batch.push(1, 0, &Cells::Dense(&[1.0_f32]));
    let late = stream.send(ToShard::Update { clock: Clock::new(2), batch, carried: Vec::new() });
    let error = net.servers[0].receive(ClientId::new(0), late).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Bug);
    assert!(error.to_string().contains("an update of clock 2 after it had closed 3"), "{error}");
}

#[test]
fn clocks_may_be_thousands_apart() {
    let spec = Spec { consistency: Consistency::Async, clients: 2, ..Spec::new("w", Ids::Growing, 1) };
    let mut net = net(spec);
    for _ in 0..5000 {
        net.clients[0][0].update(WORKER, u64::MAX - 1, &Cells::Dense(&[1.0]), 0).unwrap();
        net.clock(0, WORKER, false);
    }
    net.settle();
    assert_eq!(net.servers[0].min(), Clock::ZERO);
    assert!(!net.ask(1, WORKER, &[u64::MAX - 1]));
    net.settle();
    let slow = net.clients[1][0].get(WORKER, u64::MAX - 1).unwrap().unwrap();
    assert_eq!(slow.cells, Cells::Dense(&[5000.0]));
    net.clock(1, WORKER, true);
    net.settle();
    assert_eq!(net.servers[0].min(), Clock::new(5000));
}

#[test]
fn snapshots_are_refused_where_they_would_be_wrong() {
    let mut net = net(Spec { consistency: Consistency::Ssp(2), ..Spec::new("w", Ids::Fixed(10), 1) });
    for clock in 0..3 {
        net.clients[0][0].update(WORKER, clock, &Cells::Dense(&[1.0]), 0).unwrap();
        net.clock(0, WORKER, false);
    }
    net.settle();
    let server = &mut net.servers[0];
    let error = server.begin_snapshot(Clock::new(2)).unwrap_err();
    assert!(matches!(error, Error::SnapshotTooLate { .. }), "{error}");
    server.begin_snapshot(Clock::new(3)).unwrap();
    assert!(matches!(server.begin_snapshot(Clock::new(4)), Err(Error::SnapshotBusy { .. })));
    assert_eq!(server.end_snapshot(), None, "nothing has been read out");
    let piece = server.next_piece(usize::MAX).unwrap();
    assert_eq!(piece.batch.len(), 3);
    let summary = server.end_snapshot().unwrap();
    server.begin_snapshot(Clock::new(4)).unwrap();
    assert!(server.next_piece(1).is_none(), "clock 4 has not come");

    let restore = |spec: Spec, procedure: Box<dyn Procedure<f32>>, summary: &Summary, pieces: Vec<Piece<f32>>| {
        Server::restore(&Arc::new(spec), ShardId::new(0), procedure, summary.clone(), pieces)
            .map(|server| server.rows().len())
    };
    let spec = || Spec::new("w", Ids::Fixed(10), 1);
    assert_eq!(restore(spec(), add(), &summary, vec![piece.clone()]), Ok(3));
    for (spec, procedure, pieces) in [
        (spec(), Box::new(AdaGrad::new(0.1)) as Box<dyn Procedure<f32>>, vec![piece.clone()]),
        (Spec { width: 2, ..spec() }, add(), vec![piece.clone()]),
        (Spec { ids: Ids::Fixed(2), ..spec() }, add(), vec![piece.clone()]),
        (spec(), add(), vec![piece.clone(), piece]),
    ] {
        let error = restore(spec, procedure, &summary, pieces).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::World, "{error}");
    }
}

#[test]
fn sparse_tables_take_only_procedures_that_add() {
    let spec = Arc::new(Spec { sparse: true, ..Spec::new("w", Ids::Growing, 5) });
    let procedure = Box::new(AdaGrad::new(0.1));
    let error = Server::<f32>::new(spec, ShardId::new(0), procedure, Clock::ZERO, Random::new(0)).unwrap_err();
    assert!(error.to_string().contains("sparse rows take procedures that add"), "{error}");
}
