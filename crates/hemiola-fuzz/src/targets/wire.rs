//! Messages between peers: frames, handshakes, and what authenticated peers send.
#![expect(clippy::unnecessary_wraps, reason = "all targets are prepared by functions of one type")]

use super::{FuzzTarget, PreparedTarget};
use bytes::Bytes;
use hemiola::core::WorkerId;
use hemiola::net::{BufferPool, FrameDecoder, testing};
use hemiola_tables_proto::batch::RowBatch;
use hemiola_tables_proto::read_only::RowRequest;
use hemiola_tables_proto::{KeySpace, RowCells, TableSpec, wire};

pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "frame", about: "the stream of frames of a connection", prepare: frames },
    FuzzTarget { name: "handshake", about: "messages of peers that are not authenticated yet", prepare: handshake },
    FuzzTarget { name: "table-rows", about: "rows and updates of the parameter server", prepare: table_rows },
    FuzzTarget { name: "row-request", about: "requests for rows of served arrays", prepare: row_request },
];

/// Limit of a frame's payload in bytes, as before authentication.
const FRAME_LIMIT: usize = 1 << 16;

fn frames() -> anyhow::Result<PreparedTarget> {
    let key = testing::frame_key(7);
    let frame = |sequence: u64, length: usize| testing::encode_frame(&key, sequence, &vec![sequence as u8; length]);
    let seeds = vec![frame(0, 0), [frame(0, 5), frame(1, 300)].concat(), frame(0, 40_000)];
    Ok(PreparedTarget::new(seeds, move |input| {
        let mut decoder = FrameDecoder::new(key.clone(), FRAME_LIMIT, BufferPool::new(0));
        let mut rest = input;
        while !rest.is_empty() {
            let [space, _] = decoder.space();
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            if decoder.filled(count, &mut |_, _| {}).is_err() {
                return false;
            }
        }
        decoder.is_between_frames()
    }))
}

fn handshake() -> anyhow::Result<PreparedTarget> {
    Ok(PreparedTarget::new(testing::handshake_messages(), testing::accepts_handshake_message))
}

fn table_rows() -> anyhow::Result<PreparedTarget> {
    let spec = TableSpec::new("weights", KeySpace::Fixed(1000), 4);
    let mut dense = RowBatch::<f32>::new();
    dense.push(3, 1, &RowCells::Dense(&[1.0, 2.0, 3.0, 4.0]));
    dense.push(900, 0, &RowCells::Dense(&[0.0; 4]));
    let mut sparse = RowBatch::<f32>::new();
    sparse.push(5, 2, &RowCells::Sparse { columns: &[0, 3], values: &[0.5, -1.0] });
    let seeds = vec![wire::encode_rows(dense, &[]), wire::encode_rows(sparse, &[1.0, 2.0])];
    Ok(PreparedTarget::new(seeds, move |input| {
        let bytes = Bytes::copy_from_slice(input);
        let rows = wire::decode_rows::<f32>(&bytes, &spec).is_ok();
        let to_shard = wire::decode_to_shard::<f32>(&bytes, &spec).is_ok();
        let to_client = wire::decode_to_client::<f32>(&bytes, &spec).is_ok();
        rows || to_shard || to_client
    }))
}

fn row_request() -> anyhow::Result<PreparedTarget> {
    let request = |keys: &[u64]| {
        let mut bytes = Vec::new();
        RowRequest::encode(2, WorkerId::new(1), keys, &mut bytes);
        bytes
    };
    let seeds = vec![request(&[]), request(&[1, 2, 5, 1000]), request(&[u64::MAX])];
    Ok(PreparedTarget::new(seeds, |input| RowRequest::decode(input).is_ok()))
}
