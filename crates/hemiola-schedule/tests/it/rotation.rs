//! Jobs around the ring: the order of a serial walk, sums, and failures.

use hemiola_cluster::{Result, standalone};
use hemiola_core::Rank;
use hemiola_schedule::{Deal, Rotating, Rotation, Synchronize};
use serde::{Deserialize, Serialize};

/// A job that notes who did it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Token {
    job: usize,
    visits: Vec<usize>,
    value: f64,
}

/// Something that does not commute: the order in which jobs meet workers shows in the bits.
struct Mingle {
    panics_at: Option<(usize, usize)>,
    found: Vec<(usize, u64)>,
}

#[derive(Clone, Debug)]
struct Own {
    worker: usize,
    value: f64,
    slow: bool,
}

impl Rotating for Mingle {
    type Job = Token;
    type Own = Own;
    type Partial = (usize, u64);

    fn update(&self, job: &mut Token, own: &mut Own, partial: &mut (usize, u64)) {
        assert_ne!(self.panics_at, Some((own.worker, job.job)), "no such word");
        mingle(job, own);
        if own.slow {
            std::hint::black_box((0..20_000_u64).map(std::hint::black_box).sum::<u64>());
        }
        *partial = (own.worker, partial.1 + 1);
    }

    fn aggregate(&mut self, partials: Vec<(usize, u64)>, own: &mut [Own]) -> Result<()> {
        self.found = partials;
        for own in own {
            own.value += 1.0;
        }
        Ok(())
    }
}

fn mingle(job: &mut Token, own: &mut Own) {
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
struct Shape {
    peers: usize,
    workers: usize,
    jobs: usize,
    blocks: usize,
    how: Deal,
    when: Synchronize,
}

/// All jobs in order, and the values that stayed with workers.
fn run(shape: Shape, rotations: usize) -> (Vec<Token>, Vec<f64>, Vec<(usize, u64)>) {
    let Shape { peers, workers, jobs, blocks, how, when } = shape;
    let outcomes = standalone(peers).workers(workers).run(|cluster| {
        let mut rotation = Rotation::new(cluster, &weights(jobs), blocks, how, token)?.synchronize(when);
        let (first, _) = rotation.seats();
        let mut own: Vec<Own> =
            (first..first + workers).map(|worker| Own { worker, value: worker as f64, slow: worker == 1 }).collect();
        let mut program = Mingle { panics_at: None, found: Vec::new() };
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

/// The same by one thread: seat after seat, step after step.
fn serially(shape: Shape, rotations: usize) -> (Vec<Token>, Vec<f64>) {
    let seats = shape.peers * shape.workers;
    let weights = weights(shape.jobs);
    let hands = hemiola_schedule::plan::deal::deal(shape.how, &weights, seats);
    let mut tokens: Vec<Token> = (0..shape.jobs).map(token).collect();
    let mut own: Vec<Own> = (0..seats).map(|worker| Own { worker, value: worker as f64, slow: false }).collect();
    for _ in 0..rotations {
        for step in 0..seats {
            for seat in 0..seats {
                for job in &hands[(seat + seats - step) % seats] {
                    mingle(&mut tokens[*job], &mut own[seat]);
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
fn a_rotation_gives_the_bits_of_a_serial_walk_around_the_ring() {
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
        for how in [Deal::HeavyFirst, Deal::ByTurns] {
            for when in [Synchronize::Macro, Synchronize::Micro] {
                let shape = Shape { peers, workers, jobs, blocks, how, when };
                let (tokens, own, found) = run(shape, 3);
                let (serial, serial_own) = serially(shape, 3);
                assert_eq!(tokens, serial, "{peers} x {workers}, {jobs} jobs in {blocks} blocks");
                assert_eq!(own, serial_own);
                let seats = peers * workers;
                let expected =
                    if jobs == 0 { vec![(0, 0); seats] } else { (0..seats).map(|seat| (seat, jobs as u64)).collect() };
                assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn a_job_that_panics_is_named_on_every_peer() {
    for when in [Synchronize::Macro, Synchronize::Micro] {
        let told = standalone(3).workers(2).run(|cluster| {
            let mut rotation = Rotation::new(cluster, &weights(30), 2, Deal::HeavyFirst, token)?.synchronize(when);
            let (first, _) = rotation.seats();
            let mut own: Vec<Own> = (first..first + 2).map(|worker| Own { worker, value: 0.0, slow: false }).collect();
            let mut program = Mingle { panics_at: Some((3, 17)), found: Vec::new() };
            let told = rotation.rotate(&mut program, &mut own).unwrap_err().to_string();
            cluster.barrier()?;
            Ok(told)
        });
        let told = told.unwrap();
        assert!(told[1].contains("job: 17") && told[1].contains("no such word"), "{told:?}");
        for other in [0, 2] {
            assert!(
                told[other].contains("peer 1 could not go on with round 0") && told[other].contains("job: 17"),
                "{told:?}"
            );
        }
    }
}

#[test]
fn peers_that_bring_other_jobs_are_refused() {
    let told = standalone(2).workers(1).run(|cluster| {
        let jobs = 3 + cluster.rank().index();
        Ok(Rotation::new(cluster, &weights(jobs), 2, Deal::HeavyFirst, token).unwrap_err().to_string())
    });
    for told in told.unwrap() {
        assert!(
            told.contains("peer 1") && told.contains("3 jobs of weight") && told.contains("4 jobs of weight"),
            "{told}"
        );
    }
    let alone = standalone(1)
        .run(|cluster| Ok(Rotation::new(cluster, &[1], 0, Deal::HeavyFirst, token).unwrap_err().to_string()));
    assert!(alone.unwrap()[0].contains("cannot be 0"));
}

#[test]
fn a_lost_peer_is_a_typed_error() {
    let outcome = standalone(2).workers(1).run(|cluster| {
        let mut rotation = Rotation::new(cluster, &weights(9), 2, Deal::HeavyFirst, token)?;
        if cluster.rank() == Rank::new(1) {
            return Err(hemiola_cluster::Error::program(std::io::Error::other("peer 1 gives up")));
        }
        let mut own = [Own { worker: 0, value: 0.0, slow: false }];
        rotation.rotate(&mut Mingle { panics_at: None, found: Vec::new() }, &mut own)?;
        Ok(())
    });
    assert!(outcome.unwrap_err().to_string().contains("peer 1"));
}
