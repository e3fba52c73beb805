//! Encoded exchanges of all kinds, several in flight, on an uneven cluster; in some a peer has a vector that cannot be encoded.

use super::{EVENTS, Scenario, bits32, some, weather};
use crate::actors::encoded::{Encoded, Setup, Vector};
use crate::chance;
use crate::describe::Description;
use crate::units::Span;
use crate::world::{Ended, World};
use hemiola_collective_proto::encode::{Goal, Place};
use hemiola_collective_proto::{Algorithm, Encoding, Operator, Random};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// What a vector is exchanged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// All have the sum.
    AllReduce,
    /// Each has its chunk of the sum.
    ReduceScatter,
    /// One has the sum.
    Reduce(u32),
    /// All have all vectors.
    AllGather,
    /// All have one peer's vector.
    Broadcast(u32),
    /// Each has everybody's block for it.
    AllToAll,
}

impl Aim {
    fn goal(self, peers: usize) -> Goal {
        let root = |root: u32| Rank::new(root % peers as u32);
        match self {
            Self::AllReduce => Goal::AllReduce,
            Self::ReduceScatter => Goal::ReduceScatter,
            Self::Reduce(to) => Goal::Reduce { root: root(to) },
            Self::AllGather => Goal::AllGather,
            Self::Broadcast(from) => Goal::Broadcast { root: root(from) },
            Self::AllToAll => Goal::AllToAll,
        }
    }
}

/// Exchanges on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncodedScenario {
    /// Of data and weather.
    pub seed: u64,
    /// Where it runs.
    pub cluster: Description,
    /// What travels how, what for, and how long it is: rows of a matrix with three columns where a matrix is needed, numbers for each peer in an all-to-all.
    pub vectors: Vec<(Encoding, Aim, usize)>,
    /// Updates of each vector.
    pub updates: usize,
    /// So many exchanges at once.
    pub in_flight: usize,
    /// Bytes of elements in a message.
    pub segment: usize,
    /// The peer that has a number in this update of all its vectors that is none.
    pub not_finite: Option<(usize, usize)>,
    /// Plants a fault: tags are taken when a collective begins, not all of an exchange when that does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tags_late: bool,
}

/// Numbers that one update of one peer has.
fn numbers(random: &mut Random, length: usize) -> Vec<f32> {
    (0..length).map(|_| random.symmetric() as f32).collect()
}

impl EncodedScenario {
    fn shape(&self, (encoding, aim, length): (Encoding, Aim, usize)) -> (usize, usize) {
        match (encoding, aim) {
            (Encoding::LowRank { .. } | Encoding::SufficientFactors { .. }, _) => (length, 3),
            (_, Aim::AllToAll) => (length * self.cluster.peers, 1),
            _ => (length, 1),
        }
    }

    fn vector(&self, number: usize, me: Rank) -> Vector {
        let of = self.vectors[number];
        let ((encoding, aim, _), (rows, columns)) = (of, self.shape(of));
        let mut random = chance::generator(self.seed, 1000 * (1 + number as u64) + me.index() as u64);
        let length = match encoding {
            Encoding::SufficientFactors { pairs } => (pairs + me.index() % 2) * (rows + columns),
            _ => rows * columns,
        };
        let update = |update: usize| {
            let mut given = numbers(&mut random, length);
            let spoiled = self.not_finite == Some((me.index(), update)) && encoding.has_feedback();
            if let Some(first) = given.first_mut().filter(|_| spoiled) {
                *first = f32::NAN;
            }
            given
        };
        Vector {
            encoding,
            goal: aim.goal(self.cluster.peers),
            rows,
            columns,
            updates: (0..self.updates).map(update).collect(),
        }
    }

    fn run(&self, cluster: &Description) -> Result<(Ended, Vec<Encoded>), String> {
        let peers = cluster.peers;
        let setup = |me: Rank| Setup {
            place: Place { me, peers, operator: Operator::Sum, algorithm: Algorithm::Ring },
            vectors: (0..self.vectors.len()).map(|number| self.vector(number, me)).collect(),
            in_flight: self.in_flight,
            segment: self.segment,
            before: Span::from_micros(50),
            tags_late: self.tags_late,
        };
        let actors = Rank::all(peers).map(|me| Encoded::new(setup(me))).collect::<Result<Vec<_>, _>>()?;
        let mut actors = actors.into_iter().map(Some);
        let mut world = World::new(cluster, self.seed, |_| actors.next().flatten())
            .map_err(|error| error.to_string())?
            .limit(EVENTS);
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        Ok((ended, world.into_actors().into_iter().flatten().collect()))
    }

    /// What was told and what is kept is what was given, of vectors that are summed with error feedback; of the others, a sum is near the sum.
    fn conserves(&self, number: usize, actors: &[Encoded]) -> Result<(), String> {
        let (encoding, aim, _) = self.vectors[number];
        if aim != Aim::AllReduce {
            return Ok(());
        }
        let (rows, columns) = self.shape(self.vectors[number]);
        let (mut left, mut size) = (vec![0.0_f64; rows * columns], vec![1.0_f64; rows * columns]);
        let came = actors[0].came(number);
        let mut add = |values: &[f32], sign: f64| {
            for ((left, size), value) in left.iter_mut().zip(&mut size).zip(values) {
                *left += sign * f64::from(*value);
                *size += f64::from(value.abs());
            }
        };
        for (me, actor) in Rank::all(actors.len()).zip(actors) {
            let given = self.vector(number, me).updates;
            for (given, _) in given.iter().zip(came).filter(|(_, came)| came.is_ok()) {
                if let Encoding::SufficientFactors { .. } = encoding {
                    let (u, v) = given.split_at(given.len() / (rows + columns) * rows);
                    for (u, v) in u.chunks(rows).zip(v.chunks(columns)) {
                        let product = |at: usize| u[at / columns] * v[at % columns];
                        add(&(0..rows * columns).map(product).collect::<Vec<f32>>(), 1.0);
                    }
                } else {
                    add(given, 1.0);
                }
            }
            add(actor.kept(number), -1.0);
        }
        for sum in came.iter().flatten() {
            add(sum, -1.0);
        }
        // Of 8 and 11 bits, rounded twice; of 24, as often as there are terms.
        let rounding = match encoding {
            Encoding::Bf16 => 0.01,
            Encoding::F16 => 0.001,
            _ => 1e-5,
        };
        match (0..left.len()).find(|at| left[*at].abs() > rounding * size[*at]) {
            Some(at) => Err(format!("number {at} of vector {number}, {encoding:?}, is off by {}", left[at])),
            None => Ok(()),
        }
    }
}

impl Scenario for EncodedScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut chance::generator(seed, 0);
        let peers = 1 + random.below(7);
        let vector = |random: &mut Random| {
            let encoding = match random.below(7) {
                0 => Encoding::Plain,
                1 => Encoding::Bf16,
                2 => Encoding::F16,
                3 => Encoding::OneBit { block: 1 + random.below(8) },
                4 => Encoding::TopK { keep: 1 + random.below(4) },
                5 => Encoding::LowRank { rank: 1 + random.below(2) },
                _ => Encoding::SufficientFactors { pairs: random.below(3) },
            };
            let root = random.below(9) as u32;
            let aim = match random.below(9) {
                0 => Aim::ReduceScatter,
                1 => Aim::Reduce(root),
                2 => Aim::AllGather,
                3 => Aim::Broadcast(root),
                4 => Aim::AllToAll,
                _ => Aim::AllReduce,
            };
            let aim = if aim.goal(peers).allows(encoding) { aim } else { Aim::AllReduce };
            (encoding, aim, [1, 5, 40, 300][random.below(4)])
        };
        let vectors = (0..=random.below(4)).map(|_| vector(random)).collect();
        let updates = 1 + random.below(4);
        Self {
            seed,
            cluster: weather::draw(peers, random),
            vectors,
            updates,
            in_flight: 1 + random.below(4),
            segment: [4, 64, 4096][random.below(3)],
            not_finite: (random.below(4) == 0).then(|| (random.below(peers), random.below(updates))),
            tags_late: false,
        }
    }

    fn check(&self) -> Result<Ended, String> {
        some(&[
            ("peers", self.cluster.peers),
            ("vectors", self.vectors.len()),
            ("updates", self.updates),
            ("in_flight", self.in_flight),
        ])?;
        let (ended, actors) = self.run(&self.cluster)?;
        let (_, calm) = self.run(&Description::new(self.cluster.peers))?;
        for (number, (encoding, aim, _)) in self.vectors.iter().enumerate() {
            for (peer, (actor, calm)) in actors.iter().zip(&calm).enumerate() {
                let here = |what: &str| Err(format!("peer {peer}, vector {number}, {encoding:?} for {aim:?}: {what}"));
                if actor.came(number).len() != self.updates {
                    return here("an update is missing");
                }
                for (update, (came, calm)) in actor.came(number).iter().zip(calm.came(number)).enumerate() {
                    let same = match (came, calm) {
                        (Ok(came), Ok(calm)) => bits32(came) == bits32(calm),
                        (Err(_), Err(_)) => true,
                        _ => false,
                    };
                    if !same {
                        return here(&format!("update {update} came to something else than on a calm cluster"));
                    }
                    let alone = came.is_ok() != actors[0].came(number)[update].is_ok();
                    if alone {
                        return here(&format!("update {update} failed on some and not on others"));
                    }
                    let all = matches!(aim, Aim::AllReduce | Aim::AllGather | Aim::Broadcast(_));
                    if let (true, Ok(came), Ok(first)) = (all, came, &actors[0].came(number)[update])
                        && bits32(came) != bits32(first)
                    {
                        return here(&format!("update {update} has other bits than on peer 0"));
                    }
                }
                if bits32(actor.kept(number)) != bits32(calm.kept(number)) {
                    return here("it keeps something else than on a calm cluster");
                }
            }
            self.conserves(number, &actors)?;
        }
        Ok(ended)
    }

    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for peers in weather::less(self.cluster.peers, 1) {
            let not_finite = self.not_finite.filter(|(peer, _)| *peer < peers);
            all.push(Self { cluster: weather::fewer(&self.cluster, peers), not_finite, ..self.clone() });
        }
        for number in (0..self.vectors.len()).filter(|_| self.vectors.len() > 1) {
            let mut vectors = self.vectors.clone();
            vectors.remove(number);
            all.push(Self { vectors, ..self.clone() });
        }
        for updates in weather::less(self.updates, 1) {
            all.push(Self { updates, ..self.clone() });
        }
        if self.not_finite.is_some() {
            all.push(Self { not_finite: None, ..self.clone() });
        }
        all.extend(weather::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        for in_flight in weather::less(self.in_flight, 1) {
            all.push(Self { in_flight, ..self.clone() });
        }
        for (number, (encoding, aim, length)) in self.vectors.iter().enumerate() {
            for length in weather::less(*length, 1) {
                let mut vectors = self.vectors.clone();
                vectors[number] = (*encoding, *aim, length);
                all.push(Self { vectors, ..self.clone() });
            }
        }
        all
    }
}
