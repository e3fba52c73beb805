//! Jobs around the ring: the order of a serial walk, sums, and failures.

use hemiola_cluster::{Result, standalone};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Purpose, Rank};
use hemiola_schedule::{JobAssignment, RotationBarrier, RotationProgram, RotationScheduler};
use serde::{Deserialize, Serialize};

/// A job that records the workers it visited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Token {
    job: usize,
    visits: Vec<usize>,
    value: f64,
}

/// An update that does not commute: the order in which jobs visit workers changes the result.
struct NonCommutingProgram {
    panics_at: Option<(usize, usize)>,
    found: Vec<(usize, u64)>,
}

#[derive(Clone, Debug)]
struct RingWorkerState {
    worker: usize,
    value: f64,
    slow: bool,
}

impl RotationProgram for NonCommutingProgram {
    type Job = Token;
    type WorkerState = RingWorkerState;
    type Partial = (usize, u64);

    fn update(&self, job: &mut Token, own: &mut RingWorkerState, partial: &mut (usize, u64)) {
        assert_ne!(self.panics_at, Some((own.worker, job.job)), "no such word");
        update_both(job, own);
        if own.slow {
            std::hint::black_box((0..20_000_u64).map(std::hint::black_box).sum::<u64>());
        }
        *partial = (own.worker, partial.1 + 1);
    }

    fn aggregate(&mut self, partials: Vec<(usize, u64)>, own: &mut [RingWorkerState]) -> Result<()> {
        self.found = partials;
        for own in own {
            own.value += 1.0;
        }
        Ok(())
    }
}

fn update_both(job: &mut Token, own: &mut RingWorkerState) {
    job.visits.push(own.worker);
    job.value = (job.value + own.value * 1.1).sin();
    own.value = (own.value * 0.7 + job.value).cos();
}

fn token(job: usize) -> Token {
    Token { job, visits: Vec::new(), value: job as f64 }
}

fn weights(jobs: usize) -> Vec<u64> {
    (0..jobs).map(|job| 1000 / (1 + job as u64 * 7 % 31)).collect()
}

#[derive(Clone, Copy)]
struct RingShape {
    peers: usize,
    workers: usize,
    jobs: usize,
    blocks: usize,
    assignment: JobAssignment,
    when: RotationBarrier,
}

/// All jobs in order, and the values that stayed with workers.
fn run(shape: RingShape, rotations: usize) -> (Vec<Token>, Vec<f64>, Vec<(usize, u64)>) {
    let RingShape { peers, workers, jobs, blocks, assignment, when } = shape;
    let outcomes = standalone(peers).workers(workers).run(|cluster| {
        let mut rotation = RotationScheduler::new(cluster, &weights(jobs), blocks, assignment, token)?.barrier(when);
        let (first, _) = rotation.ring_positions();
        let mut own: Vec<RingWorkerState> = (first..first + workers)
            .map(|worker| RingWorkerState { worker, value: worker as f64, slow: worker == 1 })
            .collect();
        let mut program = NonCommutingProgram { panics_at: None, found: Vec::new() };
        for _ in 0..rotations {
            let turn = rotation.rotate(&mut program, &mut own)?;
            assert_eq!(turn.busy.len(), workers);
        }
        let own: Vec<f64> = own.into_iter().map(|own| own.value).collect();
        Ok((rotation.jobs().cloned().collect::<Vec<_>>(), own, program.found))
    });
    let outcomes = outcomes.unwrap();
    let mut tokens: Vec<Token> = outcomes.iter().flat_map(|outcome| outcome.0.clone()).collect();
    tokens.sort_by_key(|token| token.job);
    assert!(outcomes.iter().all(|outcome| outcome.2 == outcomes[0].2));
    (tokens, outcomes.iter().flat_map(|outcome| outcome.1.clone()).collect(), outcomes[0].2.clone())
}

/// Serial reference: stage by stage, position by position.
fn serially(shape: RingShape, rotations: usize) -> (Vec<Token>, Vec<f64>) {
    let ring_size = shape.peers * shape.workers;
    let weights = weights(shape.jobs);
    let assigned = hemiola_schedule::plan::assignment::assign_jobs(shape.assignment, &weights, ring_size);
    let mut tokens: Vec<Token> = (0..shape.jobs).map(token).collect();
    let mut own: Vec<RingWorkerState> =
        (0..ring_size).map(|worker| RingWorkerState { worker, value: worker as f64, slow: false }).collect();
    for _ in 0..rotations {
        for stage in 0..ring_size {
            for position in 0..ring_size {
                for job in &assigned[(position + ring_size - stage) % ring_size] {
                    update_both(&mut tokens[*job], &mut own[position]);
                }
            }
        }
        for own in &mut own {
            own.value += 1.0;
        }
    }
    (tokens, own.into_iter().map(|own| own.value).collect())
}

#[test]
fn a_rotation_is_bit_identical_to_a_serial_walk_around_the_ring() {
    for (peers, workers, jobs, blocks) in [
        (1, 1, 9, 2),
        (1, 2, 20, 3),
        (1, 4, 3, 2),
        (2, 1, 20, 1),
        (2, 2, 33, 4),
        (3, 2, 40, 2),
        (4, 1, 0, 2),
        (3, 1, 1, 2),
    ] {
        for assignment in [JobAssignment::HeaviestFirst, JobAssignment::RoundRobin] {
            for when in [RotationBarrier::PerRotation, RotationBarrier::PerStage] {
                let shape = RingShape { peers, workers, jobs, blocks, assignment, when };
                let (tokens, own, found) = run(shape, 3);
                let (serial, serial_own) = serially(shape, 3);
                assert_eq!(tokens, serial, "{peers} x {workers}, {jobs} jobs in {blocks} blocks");
                assert_eq!(own, serial_own);
                let ring_size = peers * workers;
                let expected = if jobs == 0 {
                    vec![(0, 0); ring_size]
                } else {
                    (0..ring_size).map(|position| (position, jobs as u64)).collect()
                };
                assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn a_job_that_panics_is_named_on_every_peer() {
    for when in [RotationBarrier::PerRotation, RotationBarrier::PerStage] {
        let messages = standalone(3).workers(2).run(|cluster| {
            let mut rotation =
                RotationScheduler::new(cluster, &weights(30), 2, JobAssignment::HeaviestFirst, token)?.barrier(when);
            let (first, _) = rotation.ring_positions();
            let mut own: Vec<RingWorkerState> =
                (first..first + 2).map(|worker| RingWorkerState { worker, value: 0.0, slow: false }).collect();
            let mut program = NonCommutingProgram { panics_at: Some((3, 17)), found: Vec::new() };
            let messages = rotation.rotate(&mut program, &mut own).unwrap_err().to_string();
            cluster.barrier()?;
            Ok(messages)
        });
        let messages = messages.unwrap();
        assert!(messages[1].contains("job: 17") && messages[1].contains("no such word"), "{messages:?}");
        for other in [0, 2] {
            assert!(
                messages[other].contains("peer 1 failed in round 0") && messages[other].contains("job: 17"),
                "{messages:?}"
            );
        }
    }
}

/// Message of the ring, as it is encoded.
#[derive(Serialize)]
enum ForgedMessage {
    Block { rotation: u64, block: usize, jobs: Vec<Token> },
}

#[test]
fn a_block_of_another_rotation_is_an_invalid_message() {
    let messages = standalone(2).workers(1).run(|cluster| {
        let mut rotation = RotationScheduler::new(cluster, &weights(9), 2, JobAssignment::HeaviestFirst, token)?;
        // The scheduler has taken the channel before this one.
        let next = cluster.next_channel(ChannelOwner::Schedules).number();
        if cluster.rank() == Rank::new(1) {
            let forged = ForgedMessage::Block { rotation: 7, block: 0, jobs: vec![token(0)] };
            let payload = postcard::to_stdvec(&forged).unwrap().into();
            let channel = ChannelId::new(next - 1);
            let message = OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Rotation, payload };
            cluster.send(Rank::ROOT, message)?;
        }
        let mut own = [RingWorkerState { worker: cluster.rank().index(), value: 0.0, slow: false }];
        let outcome = rotation.rotate(&mut NonCommutingProgram { panics_at: None, found: Vec::new() }, &mut own);
        Ok(outcome.unwrap_err().to_string())
    });
    for message in messages.unwrap() {
        assert!(message.contains("block 0 of rotation 7 arrived in rotation 0"), "{message}");
    }
}

#[test]
fn peers_with_different_jobs_are_rejected() {
    let messages = standalone(2).workers(1).run(|cluster| {
        let jobs = 3 + cluster.rank().index();
        Ok(RotationScheduler::new(cluster, &weights(jobs), 2, JobAssignment::HeaviestFirst, token)
            .unwrap_err()
            .to_string())
    });
    for messages in messages.unwrap() {
        assert!(
            messages.contains("peer 1")
                && messages.contains("3 jobs of weight")
                && messages.contains("4 jobs of weight"),
            "{messages}"
        );
    }
    let alone = standalone(1).run(|cluster| {
        Ok(RotationScheduler::new(cluster, &[1], 0, JobAssignment::HeaviestFirst, token).unwrap_err().to_string())
    });
    assert!(alone.unwrap()[0].contains("cannot be 0"));
}

#[test]
fn a_lost_peer_is_a_typed_error() {
    let outcome = standalone(2).workers(1).run(|cluster| {
        let mut rotation = RotationScheduler::new(cluster, &weights(9), 2, JobAssignment::HeaviestFirst, token)?;
        if cluster.rank() == Rank::new(1) {
            return Err(hemiola_cluster::Error::program(std::io::Error::other("peer 1 gives up")));
        }
        let mut own = [RingWorkerState { worker: 0, value: 0.0, slow: false }];
        rotation.rotate(&mut NonCommutingProgram { panics_at: None, found: Vec::new() }, &mut own)?;
        Ok(())
    });
    assert!(outcome.unwrap_err().to_string().contains("peer 1"));
}
