//! Compressed collectives of all kinds, several in flight, on a random cluster; in some scenarios a
//! peer has a vector that cannot be compressed.

use super::{MAX_EVENTS, Scenario, bits32, random_cluster, require_nonzero};
use crate::actors::compressed::{CompressedActor, CompressedSetup, CompressedVector};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use hemiola_collective_proto::compress::{CollectiveContext, CollectiveGoal};
use hemiola_collective_proto::{Algorithm, Compression, Error, ReduceOp};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use serde::{Deserialize, Serialize};

/// Collective that a compressed vector is used in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompressedGoal {
    /// Sum on all peers.
    AllReduce,
    /// One chunk of the sum on each peer.
    ReduceScatter,
    /// Sum on this root.
    Reduce(u32),
    /// All vectors on all peers.
    AllGather,
    /// Vector of this root on all peers.
    Broadcast(u32),
    /// One block from every peer on each peer.
    AllToAll,
}

impl CompressedGoal {
    fn goal(self, peers: usize) -> CollectiveGoal {
        let root = |root: u32| Rank::new(root % peers as u32);
        match self {
            Self::AllReduce => CollectiveGoal::AllReduce,
            Self::ReduceScatter => CollectiveGoal::ReduceScatter,
            Self::Reduce(to) => CollectiveGoal::Reduce { root: root(to) },
            Self::AllGather => CollectiveGoal::AllGather,
            Self::Broadcast(from) => CollectiveGoal::Broadcast { root: root(from) },
            Self::AllToAll => CollectiveGoal::AllToAll,
        }
    }
}

/// Compressed collectives on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompressedScenario {
    /// Random seed of data and cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Compression, collective and length of each vector. The length is the number of rows (with
    /// three columns) where a matrix is needed, and the block length in an all-to-all.
    pub vectors: Vec<(Compression, CompressedGoal, usize)>,
    /// Number of updates of each vector.
    pub updates: usize,
    /// Maximum number of operations in flight.
    pub in_flight: usize,
    /// Bytes of elements in a message.
    pub segment: usize,
    /// Peer and update with a NaN in every vector, if any.
    pub not_finite: Option<(usize, usize)>,
    /// Injected fault: tags are reserved when a collective starts, instead of all at the start of
    /// the operation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tags_late: bool,
}

/// Random update of one peer.
fn numbers(random: &mut SplitMix64, length: usize) -> Vec<f32> {
    (0..length).map(|_| random.symmetric() as f32).collect()
}

impl CompressedScenario {
    fn shape(&self, (compression, aim, length): (Compression, CompressedGoal, usize)) -> (usize, usize) {
        match (compression, aim) {
            (Compression::LowRank { .. } | Compression::SufficientFactors { .. }, _) => (length, 3),
            (_, CompressedGoal::AllToAll) => (length * self.cluster.peers, 1),
            _ => (length, 1),
        }
    }

    fn vector(&self, number: usize, me: Rank) -> CompressedVector {
        let of = self.vectors[number];
        let ((compression, aim, _), (rows, columns)) = (of, self.shape(of));
        let mut random = sampling::generator(self.seed, 1000 * (1 + number as u64) + me.index() as u64);
        let length = match compression {
            Compression::SufficientFactors { pairs } => (pairs + me.index() % 2) * (rows + columns),
            _ => rows * columns,
        };
        let update = |update: usize| {
            let mut given = numbers(&mut random, length);
            let is_nan = self.not_finite == Some((me.index(), update)) && compression.has_error_feedback();
            if let Some(first) = given.first_mut().filter(|_| is_nan) {
                *first = f32::NAN;
            }
            given
        };
        CompressedVector {
            compression,
            goal: aim.goal(self.cluster.peers),
            rows,
            columns,
            updates: (0..self.updates).map(update).collect(),
        }
    }

    fn run(&self, cluster: &ClusterSpec) -> Result<(RunSummary, Vec<CompressedActor>), String> {
        let peers = cluster.peers;
        let setup = |me: Rank| CompressedSetup {
            collective: CollectiveContext { me, peers, operator: ReduceOp::Sum, algorithm: Algorithm::Ring },
            vectors: (0..self.vectors.len()).map(|number| self.vector(number, me)).collect(),
            in_flight: self.in_flight,
            segment: self.segment,
            before: SimDuration::from_micros(50),
            tags_late: self.tags_late,
        };
        let actors = Rank::all(peers).map(|me| CompressedActor::new(setup(me))).collect::<Result<Vec<_>, _>>()?;
        let mut actors = actors.into_iter().map(Some);
        let mut simulation = Simulation::new(cluster, self.seed, |_| actors.next().flatten())
            .map_err(|error| error.to_string())?
            .event_limit(MAX_EVENTS);
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        Ok((ended, simulation.into_actors().into_iter().flatten().collect()))
    }

    /// Checks that sums plus residuals equal the inputs, for all-reduce. Without error feedback,
    /// the sum must be close to the exact sum.
    fn conserves(&self, number: usize, actors: &[CompressedActor]) -> Result<(), String> {
        let (compression, aim, _) = self.vectors[number];
        if aim != CompressedGoal::AllReduce {
            return Ok(());
        }
        let (rows, columns) = self.shape(self.vectors[number]);
        let (mut left, mut size) = (vec![0.0_f64; rows * columns], vec![1.0_f64; rows * columns]);
        let result = actors[0].results(number);
        let mut add = |values: &[f32], sign: f64| {
            for ((left, size), value) in left.iter_mut().zip(&mut size).zip(values) {
                *left += sign * f64::from(*value);
                *size += f64::from(value.abs());
            }
        };
        for (me, actor) in Rank::all(actors.len()).zip(actors) {
            let given = self.vector(number, me).updates;
            for (given, _) in given.iter().zip(result).filter(|(_, result)| result.is_ok()) {
                if let Compression::SufficientFactors { .. } = compression {
                    let (u, v) = given.split_at(given.len() / (rows + columns) * rows);
                    for (u, v) in u.chunks(rows).zip(v.chunks(columns)) {
                        let product = |at: usize| u[at / columns] * v[at % columns];
                        add(&(0..rows * columns).map(product).collect::<Vec<f32>>(), 1.0);
                    }
                } else {
                    add(given, 1.0);
                }
            }
            add(actor.residual(number), -1.0);
        }
        for sum in result.iter().flatten() {
            add(sum, -1.0);
        }
        // 8 and 11 significant bits, rounded twice; 24 bits, rounded once per term.
        let rounding = match compression {
            Compression::Bf16 => 0.01,
            Compression::F16 => 0.001,
            _ => 1e-5,
        };
        match (0..left.len()).find(|at| left[*at].abs() > rounding * size[*at]) {
            Some(at) => Err(format!("number {at} of vector {number}, {compression:?}, is off by {}", left[at])),
            None => Ok(()),
        }
    }
}

impl Scenario for CompressedScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let peers = 1 + random.below(7);
        let vector = |random: &mut SplitMix64| {
            let compression = match random.below(7) {
                0 => Compression::Plain,
                1 => Compression::Bf16,
                2 => Compression::F16,
                3 => Compression::OneBit { block: 1 + random.below(8) },
                4 => Compression::TopK { keep: 1 + random.below(4) },
                5 => Compression::LowRank { rank: 1 + random.below(2) },
                _ => Compression::SufficientFactors { pairs: random.below(3) },
            };
            let root = random.below(9) as u32;
            let aim = match random.below(9) {
                0 => CompressedGoal::ReduceScatter,
                1 => CompressedGoal::Reduce(root),
                2 => CompressedGoal::AllGather,
                3 => CompressedGoal::Broadcast(root),
                4 => CompressedGoal::AllToAll,
                _ => CompressedGoal::AllReduce,
            };
            let aim = if aim.goal(peers).supports(compression) { aim } else { CompressedGoal::AllReduce };
            (compression, aim, [1, 5, 40, 300][random.below(4)])
        };
        let vectors = (0..=random.below(4)).map(|_| vector(random)).collect();
        let updates = 1 + random.below(4);
        Self {
            seed,
            cluster: random_cluster::draw(peers, random),
            vectors,
            updates,
            in_flight: 1 + random.below(4),
            segment: [4, 64, 4096][random.below(3)],
            not_finite: (random.below(4) == 0).then(|| (random.below(peers), random.below(updates))),
            tags_late: false,
        }
    }

    fn check(&self) -> Result<RunSummary, String> {
        require_nonzero(&[
            ("peers", self.cluster.peers),
            ("vectors", self.vectors.len()),
            ("updates", self.updates),
            ("in_flight", self.in_flight),
        ])?;
        let (ended, actors) = self.run(&self.cluster)?;
        let (_, calm) = self.run(&ClusterSpec::new(self.cluster.peers))?;
        for (number, (compression, aim, _)) in self.vectors.iter().enumerate() {
            for (peer, (actor, calm)) in actors.iter().zip(&calm).enumerate() {
                let here =
                    |what: &str| Err(format!("peer {peer}, vector {number}, {compression:?} for {aim:?}: {what}"));
                if actor.results(number).len() != self.updates {
                    return here("a result is missing");
                }
                for (update, (result, calm)) in actor.results(number).iter().zip(calm.results(number)).enumerate() {
                    if let Err(error @ (Error::CollectiveMismatch(_) | Error::InvalidMessage { .. })) = result {
                        return here(&format!("update {update}: {error}"));
                    }
                    let same = match (result, calm) {
                        (Ok(result), Ok(calm)) => bits32(result) == bits32(calm),
                        (Err(_), Err(_)) => true,
                        _ => false,
                    };
                    if !same {
                        return here(&format!("update {update} result to something else than on a calm cluster"));
                    }
                    let alone = result.is_ok() != actors[0].results(number)[update].is_ok();
                    if alone {
                        return here(&format!("update {update} failed on some peers only"));
                    }
                    let all = matches!(
                        aim,
                        CompressedGoal::AllReduce | CompressedGoal::AllGather | CompressedGoal::Broadcast(_)
                    );
                    if let (true, Ok(result), Ok(first)) = (all, result, &actors[0].results(number)[update])
                        && bits32(result) != bits32(first)
                    {
                        return here(&format!("update {update} has other bits than on peer 0"));
                    }
                }
                if bits32(actor.residual(number)) != bits32(calm.residual(number)) {
                    return here("the residual differs from that on an undisturbed cluster");
                }
            }
            self.conserves(number, &actors)?;
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for peers in random_cluster::smaller_numbers(self.cluster.peers, 1) {
            let not_finite = self.not_finite.filter(|(peer, _)| *peer < peers);
            all.push(Self {
                cluster: random_cluster::with_fewer_peers(&self.cluster, peers),
                not_finite,
                ..self.clone()
            });
        }
        for number in (0..self.vectors.len()).filter(|_| self.vectors.len() > 1) {
            let mut vectors = self.vectors.clone();
            vectors.remove(number);
            all.push(Self { vectors, ..self.clone() });
        }
        for updates in random_cluster::smaller_numbers(self.updates, 1) {
            all.push(Self { updates, ..self.clone() });
        }
        if self.not_finite.is_some() {
            all.push(Self { not_finite: None, ..self.clone() });
        }
        all.extend(random_cluster::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        for in_flight in random_cluster::smaller_numbers(self.in_flight, 1) {
            all.push(Self { in_flight, ..self.clone() });
        }
        for (number, (compression, aim, length)) in self.vectors.iter().enumerate() {
            for length in random_cluster::smaller_numbers(*length, 1) {
                let mut vectors = self.vectors.clone();
                vectors[number] = (*compression, *aim, length);
                all.push(Self { vectors, ..self.clone() });
            }
        }
        all
    }
}
