//! What goes wrong, and how it is told.

use hemiola_collective_proto::protocol::Body;
use hemiola_collective_proto::{Algorithm, Engine, Error, Message, Operation, Operator, Random};
use hemiola_core::Rank;

fn sum(length: usize) -> Operation {
    Operation::AllReduce { algorithm: Algorithm::Ring, operator: Operator::Sum, length }
}

/// What each peer asks for.
enum Asks {
    F32(Operation),
    I32(Operation),
}

/// Carries on until nothing is under way; what each peer was told.
fn outcomes(asks: &[Asks], seed: u64) -> Vec<Result<bool, Error>> {
    let peers = asks.len();
    let mut random = Random::new(seed);
    let mut engines: Vec<Engine> = Rank::all(peers).map(|me| Engine::new(me, peers)).collect();
    let mut tags = Vec::new();
    for (engine, asks) in engines.iter_mut().zip(asks) {
        tags.push(match asks {
            Asks::F32(operation) => engine.begin::<f32>(operation).unwrap(),
            Asks::I32(operation) => engine.begin::<i32>(operation).unwrap(),
        });
    }
    let mut outcomes: Vec<Result<bool, Error>> = vec![Ok(false); peers];
    let mut pool: Vec<Message> = Vec::new();
    loop {
        for peer in 0..peers {
            if outcomes[peer] == Ok(false) {
                outcomes[peer] = match &asks[peer] {
                    Asks::F32(operation) => {
                        engines[peer].advance(tags[peer], &mut vec![1.0_f32; operation.buffer_length(peers)], &mut pool)
                    }
                    Asks::I32(operation) => {
                        engines[peer].advance(tags[peer], &mut vec![1_i32; operation.buffer_length(peers)], &mut pool)
                    }
                };
            }
        }
        if pool.is_empty() {
            return outcomes;
        }
        let message = pool.swap_remove(random.below(pool.len()));
        let to = message.to.index();
        if let Err(error) = engines[to].deliver(message) {
            outcomes[to] = Err(error);
        }
    }
}

#[test]
fn lengths_or_types_that_differ_fail_on_all_naming_both() {
    for seed in 0..50 {
        for peers in 2..=6 {
            for odd in 0..peers {
                let with = |odd_one: fn() -> Asks| {
                    let asks: Vec<Asks> =
                        (0..peers).map(|peer| if peer == odd { odd_one() } else { Asks::F32(sum(10)) }).collect();
                    outcomes(&asks, seed)
                };
                for (outcomes, words) in [
                    (with(|| Asks::F32(sum(11))), ["of 10 f32", "of 11 f32"]),
                    (with(|| Asks::F32(sum(0))), ["of 10 f32", "of 0 f32"]),
                    (with(|| Asks::I32(sum(10))), ["of 10 f32", "of 10 i32"]),
                    (with(|| Asks::F32(Operation::AllToAll { block: 10 })), ["all-reduce (ring)", "all-to-all"]),
                ] {
                    for outcome in outcomes {
                        let error = outcome.expect_err("peers that differ must not end well");
                        assert!(matches!(error, Error::Disagreement(_)), "{error}");
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
fn who_waits_for_whom_is_known() {
    let mut engine = Engine::new(Rank::new(1), 3);
    let mut out = Vec::new();
    let tag = engine.begin::<f32>(&sum(6)).unwrap();
    assert!(!engine.advance(tag, &mut [0.0_f32; 6], &mut out).unwrap());
    let wait = engine.waits().next().unwrap();
    assert_eq!((wait.tag, wait.peer), (tag, Rank::new(0)));
    assert!(wait.call.to_string().starts_with("all-reduce (ring) of 6 f32 by sum"), "{}", wait.call);
}

#[test]
fn a_buffer_that_does_not_fit_can_be_given_again() {
    let mut engine = Engine::new(Rank::new(0), 1);
    let tag = engine.begin::<f32>(&sum(3)).unwrap();
    let mut out = Vec::new();
    assert!(matches!(
        engine.advance(tag, &mut [0.0_f32; 2], &mut out),
        Err(Error::WrongLength { expected: 3, found: 2, .. })
    ));
    assert!(matches!(engine.advance(tag, &mut [0_i32; 3], &mut out), Err(Error::WrongKind { .. })));
    assert_eq!(engine.advance(tag, &mut [0.0_f32; 3], &mut out), Ok(true));
    assert_eq!(engine.advance(tag, &mut [0.0_f32; 3], &mut out), Err(Error::NotInFlight { tag }));
}

#[test]
fn roots_and_blocks_must_fit_the_job() {
    let mut engine = Engine::new(Rank::new(0), 2);
    assert!(engine.begin::<f32>(&Operation::Broadcast { root: Rank::new(2), length: 1 }).is_err());
    assert!(engine.begin::<f32>(&Operation::AllGatherRagged { blocks: vec![1] }).is_err());
    assert!(engine.begin::<f32>(&Operation::AllGatherRagged { blocks: vec![usize::MAX; 2] }).is_err());
    assert!(engine.begin::<f32>(&Operation::AllToAll { block: usize::MAX }).is_err());
}

#[test]
fn broken_messages_are_refused() {
    let two = || [Engine::new(Rank::new(0), 2), Engine::new(Rank::new(1), 2)];
    let first_message = || {
        let [mut sender, _] = two();
        let tag = sender.begin::<f32>(&sum(4)).unwrap();
        let mut out = Vec::new();
        sender.advance(tag, &mut [0.0_f32; 4], &mut out).unwrap();
        out.remove(0)
    };
    let refused = |messages: Vec<Message>| {
        let [_, mut receiver] = two();
        let tag = receiver.begin::<f32>(&sum(4)).unwrap();
        messages
            .into_iter()
            .try_for_each(|message| receiver.deliver(message))
            .and_then(|()| receiver.advance(tag, &mut [0.0_f32; 4], &mut Vec::new()))
    };
    assert_eq!(refused(vec![first_message()]), Ok(false));
    let twice = refused(vec![first_message(), first_message()]).unwrap_err();
    assert!(twice.to_string().contains("came twice"), "{twice}");
    let short = refused(vec![Message { body: Body::Elements(bytes::Bytes::from_static(b"abc")), ..first_message() }]);
    assert!(short.unwrap_err().to_string().contains("3 bytes came where 8 were due"));
    let stranger = refused(vec![Message { from: Rank::new(7), ..first_message() }]);
    assert!(matches!(stranger, Err(Error::BadMessage { .. })));
}

#[test]
fn a_peer_that_is_ahead_waits_in_memory_that_is_counted() {
    let mut root = Engine::new(Rank::new(0), 2);
    let mut other = Engine::new(Rank::new(1), 2);
    let broadcast = Operation::Broadcast { root: Rank::new(0), length: 10 };
    for value in 0..5 {
        let tag = root.begin::<i32>(&broadcast).unwrap();
        let mut out = Vec::new();
        assert!(root.advance(tag, &mut [value; 10], &mut out).unwrap());
        for message in out {
            other.deliver(message).unwrap();
        }
    }
    assert_eq!(other.early_bytes(), 200);
    for value in 0..5 {
        let tag = other.begin::<i32>(&broadcast).unwrap();
        let mut got = [0; 10];
        assert!(other.advance(tag, &mut got, &mut Vec::new()).unwrap());
        assert_eq!(got, [value; 10]);
    }
    assert_eq!(other.early_bytes(), 0);
}

#[test]
fn a_window_bounds_what_is_to_be_sent_at_once() {
    let mut root = Engine::new(Rank::new(0), 2).segment_bytes(40).window_bytes(100);
    let tag = root.begin::<i32>(&Operation::Broadcast { root: Rank::new(0), length: 100 }).unwrap();
    let mut data = [3; 100];
    let mut sizes = Vec::new();
    loop {
        let mut out = Vec::new();
        let over = root.advance(tag, &mut data, &mut out).unwrap();
        sizes.push(out.len());
        if over {
            break;
        }
        assert_eq!(root.waits_for(tag), None, "there is more to be sent");
    }
    assert_eq!(sizes, [3, 3, 3, 1], "messages of 40 bytes each");
}
