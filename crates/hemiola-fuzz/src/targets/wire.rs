//! Messages between peers: frames, handshakes, and what authenticated peers send.
#![expect(clippy::unnecessary_wraps, reason = "all targets are prepared by functions of one type")]

use super::{FuzzTarget, PreparedTarget};
use bytes::Bytes;
use hemiola::core::{Rank, WorkerId};
use hemiola::net::{BufferPool, FrameDecoder, testing};
use hemiola_collective_proto::CollectiveMessage;
use hemiola_collective_proto::compress::{OneBitCompressor, TopKCompressor};
use hemiola_collective_proto::gossip::{GossipBody, GossipChannel, GossipMessage, GossipNodeMessage};
use hemiola_collective_proto::protocol::HEADER_BYTES;
use hemiola_tables_proto::batch::RowBatch;
use hemiola_tables_proto::read_only::RowRequest;
use hemiola_tables_proto::read_only::message::{read_updates, write_updates};
use hemiola_tables_proto::{KeySpace, RowCells, TableSpec, wire};

pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "frame", about: "the stream of frames of a connection", prepare: frames },
    FuzzTarget { name: "handshake", about: "messages of peers that are not authenticated yet", prepare: handshake },
    FuzzTarget { name: "table-rows", about: "rows and updates of the parameter server", prepare: table_rows },
    FuzzTarget { name: "row-request", about: "requests for rows of served arrays", prepare: row_request },
    FuzzTarget { name: "row-updates", about: "buffered updates of rows of served arrays", prepare: row_updates },
    FuzzTarget { name: "collective", about: "messages of collectives", prepare: collective },
    FuzzTarget { name: "gossip", about: "messages of gossip averaging", prepare: gossip },
    FuzzTarget { name: "compressed-gradient", about: "quantized and sparse gradients", prepare: compressed_gradient },
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

fn row_updates() -> anyhow::Result<PreparedTarget> {
    let updates = |keys: &[u64]| {
        let mut bytes = Vec::new();
        write_updates(keys, &vec![7; 4 * keys.len()], &mut bytes);
        bytes
    };
    let seeds = vec![updates(&[]), [updates(&[1, 2, 900]), updates(&[u64::MAX])].concat()];
    Ok(PreparedTarget::new(seeds, |input| {
        let mut rest = input;
        while !rest.is_empty() {
            if read_updates(&mut rest).is_err() {
                return false;
            }
        }
        true
    }))
}

fn collective() -> anyhow::Result<PreparedTarget> {
    // An all-reduce with a sum, and the notice that two peers make different calls.
    let header = |kind: u8, failed: u8| {
        let mut header = vec![0; HEADER_BYTES];
        (header[12], header[17], header[18]) = (failed, kind, 1);
        header
    };
    let mut seeds: Vec<Vec<u8>> = (0..4).flat_map(|kind| [header(kind, 0), header(kind, 1)]).collect();
    seeds.push([header(1, 0), vec![5; 64]].concat());
    Ok(PreparedTarget::new(seeds, |input| {
        CollectiveMessage::from_bytes(Rank::new(1), Rank::ROOT, &Bytes::copy_from_slice(input)).is_ok()
    }))
}

fn gossip() -> anyhow::Result<PreparedTarget> {
    let (from, to, version) = (Rank::new(1), Rank::ROOT, 5);
    let values = GossipBody::Piece { index: 3, values: Bytes::from_static(b"abcdefgh") };
    let bodies = [values, GossipBody::Notify, GossipBody::Ack];
    let mut seeds: Vec<Vec<u8>> =
        bodies.map(|body| GossipMessage { from, to, version, body }.to_payload().into_bytes().to_vec()).into();
    seeds.extend([vec![0; 16], vec![1; 8]]);
    Ok(PreparedTarget::new(seeds, move |input| {
        let bytes = Bytes::copy_from_slice(input);
        // Every channel reads every input.
        let read = GossipChannel::ALL.map(|channel| GossipNodeMessage::from_bytes(channel, from, to, &bytes).is_ok());
        read.contains(&true)
    }))
}

fn compressed_gradient() -> anyhow::Result<PreparedTarget> {
    const LENGTH: usize = 40;
    const BLOCK: usize = 16;
    let gradient: Vec<f32> = (0..LENGTH).map(|index| (index as f32 * 0.7).sin()).collect();
    let one_bit = OneBitCompressor::new(LENGTH, BLOCK).compress(&gradient)?;
    let top_k = TopKCompressor::new(LENGTH, 7).compress(&gradient)?;
    Ok(PreparedTarget::new(vec![one_bit, top_k], |input| {
        let mut sum = vec![0.0; LENGTH];
        let one_bit = OneBitCompressor::decompress_add(input, BLOCK, &mut sum).is_ok();
        TopKCompressor::decompress_add(input, &mut sum).is_ok() || one_bit
    }))
}
