//! Failures of collectives and their messages.

use crate::network::Peer;
use hemiola_collective_proto::protocol::{CallSetup, CollectiveBody};
use hemiola_collective_proto::{Algorithm, CollectiveMessage, Error, Operation, ReduceOp};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;

fn sum(length: usize) -> Operation {
    Operation::AllReduce { algorithm: Algorithm::Ring, operator: ReduceOp::Sum, length }
}

/// Request of one peer.
enum Request {
    F32(Operation),
    I32(Operation),
}

/// Runs until no message is in flight; returns the result of each peer.
fn outcomes(requests: &[Request], seed: u64) -> Vec<Result<bool, Error>> {
    let peers = requests.len();
    let mut random = SplitMix64::new(seed);
    let mut nodes: Vec<Peer> = Rank::all(peers).map(|me| Peer::new(me, peers)).collect();
    let mut tags = Vec::new();
    for (node, requests) in nodes.iter_mut().zip(requests) {
        tags.push(match requests {
            Request::F32(operation) => node.begin::<f32>(operation).unwrap(),
            Request::I32(operation) => node.begin::<i32>(operation).unwrap(),
        });
    }
    let mut outcomes: Vec<Result<bool, Error>> = vec![Ok(false); peers];
    let mut pool: Vec<CollectiveMessage> = Vec::new();
    loop {
        for peer in 0..peers {
            if outcomes[peer] == Ok(false) {
                outcomes[peer] = match &requests[peer] {
                    Request::F32(operation) => {
                        let mut elements = vec![1.0_f32; operation.buffer_length(peers)];
                        nodes[peer].advance(tags[peer], &mut elements, usize::MAX, &mut pool)
                    }
                    Request::I32(operation) => {
                        let mut elements = vec![1_i32; operation.buffer_length(peers)];
                        nodes[peer].advance(tags[peer], &mut elements, usize::MAX, &mut pool)
                    }
                };
            }
        }
        if pool.is_empty() {
            return outcomes;
        }
        let message = pool.swap_remove(random.below(pool.len()));
        nodes[message.to.index()].early.keep(message);
    }
}

#[test]
fn lengths_or_types_that_differ_fail_on_all_naming_both() {
    for seed in 0..50 {
        for peers in 2..=6 {
            for odd in 0..peers {
                let with = |odd_one: fn() -> Request| {
                    let requests: Vec<Request> =
                        (0..peers).map(|peer| if peer == odd { odd_one() } else { Request::F32(sum(10)) }).collect();
                    outcomes(&requests, seed)
                };
                for (outcomes, words) in [
                    (with(|| Request::F32(sum(11))), ["of 10 f32", "of 11 f32"]),
                    (with(|| Request::F32(sum(0))), ["of 10 f32", "of 0 f32"]),
                    (with(|| Request::I32(sum(10))), ["of 10 f32", "of 10 i32"]),
                    (with(|| Request::F32(Operation::AllToAll { block: 10 })), ["all-reduce (ring)", "all-to-all"]),
                ] {
                    for outcome in outcomes {
                        let error = outcome.expect_err("mismatched calls must fail");
                        assert!(matches!(error, Error::CollectiveMismatch(_)), "{error}");
                        let text = error.to_string();
                        assert!(words.iter().all(|word| text.contains(word)), "{text}");
                        assert!(text.contains(&format!("peer {odd} does")), "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn waits_name_collective_and_peer() {
    let mut node = Peer::new(Rank::new(1), 3);
    let tag = node.begin::<f32>(&sum(6)).unwrap();
    assert!(!node.advance(tag, &mut [0.0_f32; 6], usize::MAX, &mut Vec::new()).unwrap());
    let call = &node.calls[&tag];
    assert_eq!((call.tag(), call.waits_for()), (tag, Some(Rank::new(0))));
    let signature = call.signature().to_string();
    assert!(signature.starts_with("all-reduce (ring) of 6 f32 by sum"), "{signature}");
}

#[test]
fn a_rejected_buffer_can_be_replaced() {
    let mut node = Peer::new(Rank::new(0), 1);
    let tag = node.begin::<f32>(&sum(3)).unwrap();
    let mut out = Vec::new();
    let short = node.advance(tag, &mut [0.0_f32; 2], usize::MAX, &mut out);
    assert!(matches!(short, Err(Error::WrongLength { expected: 3, found: 2, .. })));
    let other = node.advance(tag, &mut [0_i32; 3], usize::MAX, &mut out);
    assert!(matches!(other, Err(Error::WrongElementKind { .. })));
    assert_eq!(node.advance(tag, &mut [0.0_f32; 3], usize::MAX, &mut out), Ok(true));
    assert_eq!(out, []);
}

#[test]
fn roots_and_blocks_must_fit_the_job() {
    let mut node = Peer::new(Rank::new(0), 2);
    assert!(node.begin::<f32>(&Operation::Broadcast { root: Rank::new(2), length: 1 }).is_err());
    assert!(node.begin::<f32>(&Operation::AllGatherRagged { blocks: vec![1] }).is_err());
    assert!(node.begin::<f32>(&Operation::AllGatherRagged { blocks: vec![usize::MAX; 2] }).is_err());
    assert!(node.begin::<f32>(&Operation::AllToAll { block: usize::MAX }).is_err());
}

#[test]
fn broken_messages_are_refused() {
    let first_message = || {
        let mut sender = Peer::new(Rank::new(0), 2);
        let tag = sender.begin::<f32>(&sum(4)).unwrap();
        let mut out = Vec::new();
        sender.advance(tag, &mut [0.0_f32; 4], usize::MAX, &mut out).unwrap();
        out.remove(0)
    };
    let refused = |messages: Vec<CollectiveMessage>| {
        let mut receiver = Peer::new(Rank::new(1), 2);
        let tag = receiver.begin::<f32>(&sum(4)).unwrap();
        for message in messages {
            receiver.early.keep(message);
        }
        let mut out = Vec::new();
        let refused = receiver.advance(tag, &mut [0.0_f32; 4], usize::MAX, &mut out);
        assert!(!out.iter().any(|message| matches!(message.body, CollectiveBody::Failed(_))), "no peer is to blame");
        refused
    };
    assert_eq!(refused(vec![first_message()]), Ok(false));
    let twice = refused(vec![first_message(), first_message()]).unwrap_err();
    assert!(twice.to_string().contains("came twice"), "{twice}");
    let short = refused(vec![CollectiveMessage {
        body: CollectiveBody::Elements(bytes::Bytes::from_static(b"abc")),
        ..first_message()
    }]);
    assert!(short.unwrap_err().to_string().contains("3 bytes came where 8 were due"));
    let unknown_sender = refused(vec![CollectiveMessage { from: Rank::new(7), ..first_message() }]);
    assert!(matches!(unknown_sender, Err(Error::InvalidMessage { .. })));
}

#[test]
fn early_messages_are_buffered_and_counted() {
    let mut root = Peer::new(Rank::new(0), 2);
    let mut other = Peer::new(Rank::new(1), 2);
    let broadcast = Operation::Broadcast { root: Rank::new(0), length: 10 };
    for value in 0..5 {
        let tag = root.begin::<i32>(&broadcast).unwrap();
        let mut out = Vec::new();
        assert!(root.advance(tag, &mut [value; 10], usize::MAX, &mut out).unwrap());
        for message in out {
            other.early.keep(message);
        }
    }
    assert_eq!(other.early.bytes(), 200);
    for value in 0..5 {
        let tag = other.begin::<i32>(&broadcast).unwrap();
        let mut got = [0; 10];
        assert!(other.advance(tag, &mut got, usize::MAX, &mut Vec::new()).unwrap());
        assert_eq!(got, [value; 10]);
    }
    assert!(other.early.is_empty() && other.early.bytes() == 0);
}

#[test]
fn a_refused_message_is_lent_again() {
    let mut root = Peer::with_setup(CallSetup::new(Rank::new(0), 2).segment_bytes(40));
    let tag = root.begin::<i32>(&Operation::Broadcast { root: Rank::new(0), length: 100 }).unwrap();
    let mut data = [3; 100];
    let mut sizes = Vec::new();
    loop {
        let mut out = Vec::new();
        let over = root.advance(tag, &mut data, 100, &mut out).unwrap();
        sizes.push(out.len());
        if over {
            break;
        }
        assert_eq!(root.calls[&tag].waits_for(), None, "there is more to be sent");
    }
    assert_eq!(sizes, [3, 3, 3, 1], "messages of 40 bytes each");
}
