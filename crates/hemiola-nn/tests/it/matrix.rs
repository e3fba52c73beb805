//! Every synchronizer with every consistency model and path of updates on small nets of the model
//! zoo: the loss after training is that of one process, within a stated tolerance.
//!
//! Methods that sum all gradients of a step differ from one process by the order of summation only.
//! Compressed, stale and decentralized ones take another path to the same loss. By default each net
//! takes a few steps on four peers; `HEMIOLA_TEST_MATRIX=full` trains longer, on more numbers of
//! peers, and over random routes.

use hemiola_collective::{Algorithm, Compression, GossipSync, Route, Topology};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use hemiola_nn::data::synthetic::{SyntheticImages, SyntheticText};
use hemiola_nn::data::{Dataset, ImageDataset, TextDataset};
use hemiola_nn::models::{CnnConfig, Device, LstmConfig, MlpConfig, NeuralNet, TransformerConfig};
use hemiola_nn::{Optimizer, Trainer};
use hemiola_strategy::{
    GossipPlan, GradientKind, LinkSpec, ModelSpec, Partitioning, PeerSpec, ResourceSpec, Strategy, StrategyBuilder,
    StrategyNode, Synchronizer, TableConsistency, VariablePlan, VariableSpec,
};

/// Tolerance of methods that sum all gradients of a step, as a part of the decrease of the loss.
const EXACT: f64 = 0.02;
/// Tolerance of compressed and decentralized methods, which take more steps.
const CLOSE: f64 = 0.4;
/// Tolerance of methods whose result depends on timing, for the mean over the peers: tables that may
/// be stale, and averages that wait for nobody.
const LOOSE: f64 = 0.7;
/// Steps of methods that take another path, as a multiple of those of exact ones.
const LONGER: usize = 3;
/// Examples of a step, of all peers together.
const BATCH: usize = 12;
const EXAMPLES: usize = 48;
const SEQUENCE: usize = 5;

/// Method with the tolerance of its result.
struct Method {
    name: String,
    strategy: Strategy,
    tolerance: f64,
    /// Factor of the learning rate: less where each peer's gradient is a step of its own.
    rate: f64,
}

/// Methods for the variables of a net.
struct Methods<'a> {
    model: &'a ModelSpec,
    /// Two hosts, so that there are two levels.
    cluster: ResourceSpec,
    all: Vec<Method>,
}

impl<'a> Methods<'a> {
    fn new(model: &'a ModelSpec, peers: usize) -> Self {
        let mut cluster = ResourceSpec::uniform(peers, LinkSpec::bits(1e9, 1e-4));
        cluster.within_host = LinkSpec::bits(4e10, 1e-6);
        cluster.peers = (0..peers).map(|rank| PeerSpec::on(["a", "b"][rank % 2])).collect();
        Self { model, cluster, all: Vec::new() }
    }

    fn peers(&self) -> usize {
        self.cluster.size()
    }

    fn push(&mut self, name: impl Into<String>, strategy: Strategy, tolerance: f64, rate: f64) {
        let name = name.into();
        if let Err(error) = strategy.verify(self.model, &self.cluster) {
            panic!("{name}: {error}");
        }
        self.all.push(Method { name, strategy, tolerance, rate });
    }

    fn built(&mut self, builder: StrategyBuilder, tolerance: f64, rate: f64) {
        let strategy = builder.build(self.model, &self.cluster).unwrap();
        self.push(builder.to_string(), strategy, tolerance, rate);
    }

    /// Strategy with the node of each whole variable.
    fn of_nodes(&self, replicas: Vec<Rank>, node: impl Fn(usize, &VariableSpec) -> StrategyNode) -> Strategy {
        let plan = |(index, variable): (usize, &VariableSpec)| VariablePlan {
            variable: variable.name.clone(),
            shape: variable.shape.clone(),
            partitioning: Partitioning::whole(variable),
            nodes: vec![node(index, variable)],
        };
        Strategy::new(self.peers(), replicas, self.model.variables.iter().enumerate().map(plan).collect())
    }

    fn each(&mut self, name: &str, tolerance: f64, node: impl Fn(usize, &VariableSpec) -> StrategyNode) {
        let strategy = self.of_nodes(Rank::all(self.peers()).collect(), node);
        self.push(name, strategy, tolerance, 1.0);
    }

    fn add_synchronous(&mut self) {
        for builder in StrategyBuilder::ALL.into_iter().chain(StrategyBuilder::SHAPED) {
            self.built(builder, EXACT, 1.0);
        }
        let algorithms = [
            Algorithm::Ring,
            Algorithm::Tree,
            Algorithm::HalvingDoubling,
            Algorithm::Doubling,
            Algorithm::TwoLevel { group: 2 },
        ];
        for algorithm in algorithms {
            self.each(&format!("all-reduce by {algorithm}"), EXACT, |_, _| StrategyNode {
                synchronizer: Synchronizer::AllReduce { algorithm: Some(algorithm), group: 0 },
                ..StrategyNode::all_reduce(0)
            });
        }
        self.each("sufficient factors", EXACT, |_, variable| match variable.gradient {
            GradientKind::Product { pairs } => StrategyNode::sufficient_factors(pairs),
            _ => StrategyNode::all_reduce(0),
        });
        let hosts = self.cluster.host_route(&Rank::all(self.peers()).collect::<Vec<_>>()).unwrap();
        let peers = self.peers();
        let owner = |index: usize| Rank::new((index % peers) as u32);
        self.each("proxies", EXACT, |index, _| {
            StrategyNode::parameter_server(owner(index)).with_proxies(hosts.clone())
        });
        self.each("two levels without proxies", EXACT, |index, _| {
            StrategyNode::parameter_server(owner(index)).over(hosts.clone())
        });
    }

    /// The last peer serves and does not train.
    fn add_subsets(&mut self) {
        let last = Rank::new(self.peers() as u32 - 1);
        let trainers: Vec<Rank> = Rank::all(self.peers() - 1).collect();
        let nodes = [
            ("all-reduce", StrategyNode::all_reduce(0)),
            ("served by the others", StrategyNode::parameter_server(last)),
            ("tables of the others", StrategyNode::table(last, TableConsistency::Bsp)),
        ];
        for (name, node) in nodes {
            let strategy = self.of_nodes(trainers.clone(), |_, _| node.clone());
            self.push(format!("subset, {name}"), strategy, EXACT, 1.0);
        }
    }

    fn add_compressed(&mut self) {
        for compression in [Compression::Bf16, Compression::F16, Compression::OneBit { block: 32 }] {
            self.each(&format!("all-reduce as {compression}"), CLOSE, |index, _| StrategyNode {
                compression,
                ..StrategyNode::all_reduce(index as u32)
            });
        }
        self.each("all-reduce of a quarter", CLOSE, |index, variable| StrategyNode {
            compression: Compression::TopK { keep: variable.elements().div_ceil(4) as usize },
            ..StrategyNode::all_reduce(index as u32)
        });
        self.each("all-reduce of low rank", CLOSE, |index, variable| {
            let (rows, columns) = variable.matrix();
            let compression = if rows.min(columns) > 2 { Compression::LowRank { rank: 2 } } else { Compression::Plain };
            StrategyNode { compression, ..StrategyNode::all_reduce(index as u32) }
        });
        self.each("served as bf16", CLOSE, |_, _| StrategyNode {
            compression: Compression::Bf16,
            ..StrategyNode::parameter_server(Rank::ROOT)
        });
        self.each("served, one step stale", CLOSE, |_, _| StrategyNode {
            staleness: 1,
            ..StrategyNode::parameter_server(Rank::ROOT)
        });
    }

    fn add_relaxed(&mut self) {
        let share = 1.0 / self.peers() as f64;
        for builder in StrategyBuilder::TABLES {
            let is_bsp = builder == StrategyBuilder::TABLES[0];
            self.built(builder, if is_bsp { EXACT } else { LOOSE }, if is_bsp { 1.0 } else { share });
        }
        let tolerance = |synchronization| if synchronization == GossipSync::Asynchronous { LOOSE } else { CLOSE };
        for builder in StrategyBuilder::GOSSIP {
            let StrategyBuilder::Gossip { synchronization } = builder else { unreachable!("it averages") };
            self.built(builder, tolerance(synchronization), 1.0);
        }
        for synchronization in [GossipSync::NotifyAck, GossipSync::Barrier, GossipSync::Asynchronous] {
            let plan = GossipPlan { topology: Topology::Ring, synchronization };
            self.each(&format!("gossip over a ring, {synchronization:?}"), tolerance(synchronization), |_, _| {
                StrategyNode::gossip(plan.clone())
            });
        }
    }

    fn add_random_routes(&mut self, count: u64) {
        for seed in 0..count {
            let mut random = SplitMix64::new(seed);
            let mut ranks: Vec<Rank> = Rank::all(self.peers()).collect();
            for index in (1..ranks.len()).rev() {
                ranks.swap(index, random.below(index + 1));
            }
            let route = Route::new(ranks.chunks(1 + random.below(ranks.len())).map(<[Rank]>::to_vec).collect());
            let owner = ranks[random.below(ranks.len())];
            self.each(&format!("all-reduce over {route}"), EXACT, |_, _| {
                StrategyNode::all_reduce(0).over(route.clone())
            });
            self.each(&format!("served by {owner} over {route}"), EXACT, |_, _| {
                StrategyNode::parameter_server(owner).over(route.clone()).with_proxies(route.clone())
            });
        }
    }
}

/// Net of the zoo with its data.
struct Subject<N, D> {
    name: &'static str,
    net: fn() -> N,
    data: D,
    rate: f64,
    steps: usize,
}

impl<N: NeuralNet<Batch = D::Batch>, D: Dataset + Sync> Subject<N, D> {
    fn loss(&self, net: &N) -> f64 {
        net.evaluate(&self.data.batch(&(0..EXAMPLES).collect::<Vec<_>>(), &Device::flex())).loss
    }

    /// Variables of the net when so many peers train it.
    fn variables(&self, trainers: usize) -> ModelSpec {
        let described = hemiola_cluster::standalone(1).run(|cluster| {
            let trainer = Trainer::builder(cluster, (self.net)(), Optimizer::sgd(0.1));
            Ok(trainer.batch_size(BATCH / trainers).sequence_length(SEQUENCE).build()?.variables().clone())
        });
        described.unwrap().remove(0)
    }

    /// Trains, and returns the loss of the net of each peer over all examples.
    fn train(&self, peers: usize, strategy: Option<&Strategy>, rate: f64, steps: usize) -> Vec<f64> {
        let device = Device::flex().autodiff();
        let trained = hemiola_cluster::standalone(peers).run(|cluster| {
            let builder = Trainer::builder(cluster, (self.net)(), Optimizer::sgd(rate).momentum(0.5));
            let mut builder = builder.batch_size(BATCH / peers).sequence_length(SEQUENCE);
            if let Some(strategy) = strategy {
                builder = builder.strategy(strategy.clone());
            }
            let mut trainer = builder.build()?;
            let replicas = trainer.strategy().replicas.clone();
            let me = replicas.iter().position(|rank| *rank == cluster.rank());
            for step in 0..steps {
                let mine = (0..BATCH).filter(|index| Some(index % replicas.len()) == me);
                let mine: Vec<usize> = mine.map(|index| (step * BATCH + index) % EXAMPLES).collect();
                trainer.step(mine.len(), |net| net.loss(&self.data.batch(&mine, &device)))?;
            }
            Ok(self.loss(&trainer.synced_model()?))
        });
        trained.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn check(&self, peers: usize, steps: usize, add: impl Fn(&mut Methods<'_>)) {
        let before = self.loss(&burn::module::Module::valid(&(self.net)()));
        let expected = self.train(1, None, self.rate, steps)[0];
        assert!(expected < 0.97 * before, "{} learns in one process: {before} {expected}", self.name);
        let model = self.variables(peers);
        let mut methods = Methods::new(&model, peers);
        add(&mut methods);
        for Method { name, strategy, tolerance, rate } in &methods.all {
            let found = self.train(peers, Some(strategy), rate * self.rate, steps);
            let distances = found.iter().map(|loss| (loss - expected).abs());
            // A peer that is ahead of all others has averaged with old copies only.
            let far = if *tolerance > CLOSE {
                distances.sum::<f64>() / found.len() as f64
            } else {
                distances.fold(0.0, f64::max)
            };
            let case = format!("{}, {name} on {peers} peers", self.name);
            assert!(far <= tolerance * (before - expected), "{case}: {found:?} instead of {expected}, from {before}");
        }
    }

    /// All methods on four peers, or with `HEMIOLA_TEST_MATRIX=full` on two to six and for longer.
    fn check_all(&self) {
        let exact = |methods: &mut Methods<'_>| {
            methods.add_synchronous();
            methods.add_subsets();
        };
        let relaxed = |methods: &mut Methods<'_>| {
            methods.add_compressed();
            methods.add_relaxed();
        };
        if std::env::var_os("HEMIOLA_TEST_MATRIX").is_none_or(|depth| depth != "full") {
            self.check(4, self.steps, exact);
            return self.check(4, LONGER * self.steps, relaxed);
        }
        for peers in [3, 4, 6] {
            self.check(peers, 2 * self.steps, |methods| {
                exact(methods);
                methods.add_random_routes(10);
            });
            self.check(peers, 2 * LONGER * self.steps, relaxed);
        }
    }
}

fn images() -> ImageDataset {
    SyntheticImages { shape: [1, 8, 8], classes: 4, examples: EXAMPLES, seed: 3 }.dataset()
}

fn text() -> TextDataset {
    let length = EXAMPLES * SEQUENCE + 1;
    SyntheticText { vocabulary_size: 12, length, sequence_length: SEQUENCE, seed: 5 }.dataset()
}

fn device() -> Device {
    Device::flex().autodiff()
}

#[test]
fn every_method_trains_a_multilayer_perceptron() {
    let net = || MlpConfig { inputs: 64, hidden: vec![12], classes: 4, seed: 1 }.init(&device());
    Subject { name: "mlp", net, data: images(), rate: 0.1, steps: 12 }.check_all();
}

#[test]
fn every_method_trains_a_convolutional_net() {
    let net = || CnnConfig { image_shape: [1, 8, 8], channels: [2, 3], hidden: 8, classes: 4, seed: 1 }.init(&device());
    Subject { name: "cnn", net, data: images(), rate: 0.05, steps: 14 }.check_all();
}

#[test]
fn every_method_trains_an_lstm() {
    let net = || {
        let config = LstmConfig { vocabulary_size: 12, embedding_size: 6, hidden_size: 6, layers: 1, seed: 1 };
        config.init(&device())
    };
    Subject { name: "lstm", net, data: text(), rate: 0.4, steps: 10 }.check_all();
}

#[test]
fn every_method_trains_a_transformer() {
    let net = || {
        let config = TransformerConfig {
            vocabulary_size: 12,
            context_length: SEQUENCE,
            embedding_size: 8,
            heads: 2,
            blocks: 1,
            seed: 1,
        };
        config.init(&device())
    };
    Subject { name: "transformer", net, data: text(), rate: 0.2, steps: 8 }.check_all();
}
