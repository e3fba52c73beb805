//! One training on three drivers of `SyncNode`: threads of one process, TCP between processes, the
//! simulator.
//!
//! The model has variables of all kinds, with gradients that depend on the current values. It is
//! trained by several strategies. **Invariant:** every driver gives the same bits on every peer, and
//! every peer sends the same number of messages and bytes.

#![expect(clippy::print_stdout, reason = "how a peer process tells its outcomes")]

use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_collective_proto::{Compression, Route};
use hemiola_core::{Purpose, Rank};
use hemiola_sim::actors::sync::{BatchTotals, ComputeProfile, SimulatedModel as _, SyncActor, SyncSetup};
use hemiola_sim::workload::synthetic_model::{MAX_EXAMPLES, MomentumKernel, SyntheticModel};
use hemiola_sim::{ClusterSpec, SimDuration, Simulation};
use hemiola_strategy::{
    LinkSpec, ModelSpec, ResourceSpec, ShareBasis, Strategy, StrategyBuilder, Synchronizer, TableConsistency,
    VariableSpec,
};
use hemiola_sync::{GradientClip, ModelSync, NamedArray, PassKind, StateArchive, UpdateKernel, VariableId};
use hemiola_sync_proto::{GradientPayload, SyncPlan};
use hemiola_testkit::{PeerProcesses, with_watchdog};
use std::sync::Arc;

const PEERS: usize = 3;
const STEPS: u64 = 4;
const SEED: u64 = 20;
const CLIP: GradientClip = GradientClip::Norm(0.5);

fn model() -> ModelSpec {
    ModelSpec::new(vec![
        VariableSpec::embedding("words", [9, 4], MAX_EXAMPLES),
        VariableSpec::linear("hidden.weight", [70, 90], MAX_EXAMPLES),
        VariableSpec::dense("hidden.bias", [90]),
        VariableSpec::dense("output", [90, 5]),
    ])
    .unwrap()
}

fn resources() -> ResourceSpec {
    ResourceSpec::uniform(PEERS, LinkSpec::bits(1e9, 1e-4))
}

/// Strategies of all builders, an all-reduce with each compression, and BSP tables.
fn strategies() -> Vec<Strategy> {
    let build = |builder: StrategyBuilder| builder.build(&model(), &resources()).unwrap();
    let mut all: Vec<Strategy> = StrategyBuilder::ALL.map(build).into();
    let compressions = [Compression::Bf16, Compression::OneBit { block: 64 }, Compression::TopK { keep: 5 }];
    for compression in compressions {
        let mut strategy = build(StrategyBuilder::AllReduce { chunk: Some(1) });
        let nodes = strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes);
        nodes.for_each(|node| node.compression = compression);
        all.push(strategy);
    }
    let mut half = build(StrategyBuilder::Balanced);
    for node in half.plans.iter_mut().flat_map(|plan| &mut plan.nodes) {
        assert_eq!(node.synchronizer, Synchronizer::ParameterServer);
        node.compression = Compression::F16;
    }
    all.push(half);
    all.extend(routed_strategies());
    all.push(table_strategy());
    all
}

/// Two levels, an order of a ring, proxies, uneven shards and random axes.
fn routed_strategies() -> Vec<Strategy> {
    let build = |builder: StrategyBuilder| builder.build(&model(), &resources()).unwrap();
    let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank::new).collect::<Vec<Rank>>();
    let mut all = vec![build(StrategyBuilder::RandomAxis { seed: 5 })];
    let groups = [
        vec![ranks(&[1, 0]), ranks(&(2..PEERS as u32).collect::<Vec<_>>())],
        vec![ranks(&(0..PEERS as u32).rev().collect::<Vec<_>>())],
    ];
    for route in groups.map(Route::new) {
        for builder in [StrategyBuilder::AllReduce { chunk: Some(2) }, StrategyBuilder::Partitioned { most: None }] {
            let mut strategy = build(builder);
            for node in strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes) {
                node.route = Some(route.clone());
                node.proxies = (node.synchronizer == Synchronizer::ParameterServer).then(|| route.clone());
            }
            strategy.verify(&model(), &resources()).unwrap();
            all.push(strategy);
        }
    }
    let mut cluster = resources();
    for (peer, memory) in cluster.peers.iter_mut().zip([1, 2, 3, 4]) {
        peer.memory = Some(memory << 30);
    }
    all.push(StrategyBuilder::Proportional { by: ShareBasis::Memory }.build(&model(), &cluster).unwrap());
    all
}

/// Strategy of BSP tables, which have an order of updates that no timing changes.
fn table_strategy() -> Strategy {
    StrategyBuilder::Tables { consistency: TableConsistency::Bsp }.build(&model(), &resources()).unwrap()
}

/// Gradient clipping of a strategy. Servers of tables do not know the norm of all gradients.
fn clip_of(strategy: &Strategy) -> GradientClip {
    if *strategy == table_strategy() { GradientClip::Value(0.02) } else { CLIP }
}

/// Kernel of the synthetic model, with the names that checkpoints of the runtime need.
#[derive(Clone, Debug)]
struct ArchivedKernel;

impl UpdateKernel for ArchivedKernel {
    type State = Vec<f32>;

    fn update(&self, rate: f64, values: &mut [f32], gradient: &mut [f32], scale: f32, state: &mut Vec<f32>) {
        MomentumKernel.update(rate, values, gradient, scale, state);
    }

    fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        touched: (&[usize], &mut [f32], usize),
        scale: f32,
        state: &mut Vec<f32>,
    ) {
        MomentumKernel.update_rows(rate, values, touched, scale, state);
    }

    fn can_update_rows(&self) -> bool {
        MomentumKernel.can_update_rows()
    }

    fn multiply_factors(&self, pairs: Vec<f32>, shape: (usize, usize)) -> Vec<f32> {
        MomentumKernel.multiply_factors(pairs, shape)
    }
}

impl StateArchive for ArchivedKernel {
    fn rule_name(&self) -> String {
        "momentum".to_owned()
    }

    fn moment_count(&self) -> Option<usize> {
        Some(1)
    }

    fn moment<'a>(&self, state: &'a Vec<f32>, _index: usize) -> Option<&'a [f32]> {
        (!state.is_empty()).then_some(state)
    }

    fn state_of(&self, _updates: u64, mut moments: Vec<Vec<f32>>) -> Vec<f32> {
        moments.pop().unwrap_or_default()
    }

    fn save_opaque(&self, _state: &Vec<f32>) -> std::result::Result<Vec<NamedArray>, String> {
        Ok(Vec::new())
    }

    fn load_opaque(&self, _saved: Vec<NamedArray>, _state: &mut Vec<f32>) -> std::result::Result<(), String> {
        Ok(())
    }
}

/// Outcome of a training on one peer: a digest of all values, the last loss, messages and bytes.
fn outcome<'a>(values: impl IntoIterator<Item = &'a [f32]>, loss: f64, (messages, bytes): (u64, u64)) -> String {
    let digest = values
        .into_iter()
        .flatten()
        .fold(0_u64, |digest, value| digest.rotate_left(7).wrapping_mul(31).wrapping_add(u64::from(value.to_bits())));
    format!("{digest:016x} loss {:016x} {messages} messages {bytes} bytes", loss.to_bits())
}

/// Messages and bytes that this peer's collectives have sent so far, headers included.
fn sent(cluster: &Cluster) -> (u64, u64) {
    let traffic = cluster.traffic();
    let lines = traffic.lines.iter().filter(|line| line.purpose == Purpose::Collective);
    lines.fold((0, 0), |(messages, bytes), line| (messages + line.messages_sent, bytes + line.bytes_sent))
}

/// Trains by one strategy on a cluster.
fn train(cluster: &Cluster, strategy: Strategy) -> Result<String> {
    let mut model_of_peer = SyntheticModel::new(SEED, cluster.rank(), model());
    let values = SyntheticModel::initial_values(SEED, &model());
    let builder = ModelSync::builder(cluster, model(), values, ArchivedKernel).network(resources());
    let clip = clip_of(&strategy);
    let mut sync = builder.strategy(strategy).clip(Some(clip)).build()?;
    let before = sent(cluster);
    let variables: Vec<VariableId> = (0..model().variables.len()).map(VariableId::new).collect();
    for step in 0..STEPS {
        let gradients = sync.begin_pass(PassKind::Step);
        let values: Vec<Vec<f32>> =
            variables.iter().map(|variable| sync.next_values(*variable, PassKind::Step).wait()).collect();
        let BatchTotals { examples, loss, rate } = model_of_peer.forward(step, &values);
        sync.forward_complete(PassKind::Step, examples, loss, rate);
        for variable in variables.iter().rev() {
            match model_of_peer.gradient(step, *variable, sync.structured()[variable.index()], &values) {
                GradientPayload::Dense(numbers) | GradientPayload::Structured(numbers) => {
                    gradients.send(*variable, numbers);
                }
                GradientPayload::Absent => {}
            }
        }
        sync.end_pass(PassKind::Step)?;
    }
    sync.wait()?;
    let after = sent(cluster);
    let values: Vec<Vec<f32>> = variables.iter().map(|variable| sync.newest_values(*variable).wait()).collect();
    let (_, loss) = sync.loss().expect("all steps are complete");
    Ok(outcome(values.iter().map(|values| &values[..]), loss, (after.0 - before.0, after.1 - before.1)))
}

fn simulate(strategy: &Strategy, seed: u64) -> Vec<String> {
    let plan = Arc::new(SyncPlan::new(&model(), strategy).unwrap());
    let time = SimDuration::from_micros(20 * seed);
    let peer = |rank: Rank| {
        let setup = SyncSetup {
            rank,
            plan: plan.clone(),
            kernel: MomentumKernel,
            clip: Some(clip_of(strategy)),
            values: SyntheticModel::initial_values(SEED, &model()),
            profile: ComputeProfile::uniform(model().variables.len(), time, time),
            steps: STEPS,
            segment: None,
            fault: None,
        };
        SyncActor::new(setup, SyntheticModel::new(SEED, rank, model())).unwrap()
    };
    let mut cluster = ClusterSpec::new(PEERS);
    cluster.link.jitter = SimDuration::from_micros(50 * seed);
    let mut simulation = Simulation::new(&cluster, seed, peer).unwrap();
    simulation.run().unwrap();
    let actors = simulation.actors().iter().zip(simulation.usage());
    let counted = *strategy != table_strategy();
    let outcomes = actors.map(|(actor, usage)| {
        // A peer without examples in the last step knows its own loss of an earlier one only.
        let loss = *actor.losses().values().last().expect("all steps are complete");
        // Messages of tables are no collectives, and acknowledgements depend on timing.
        let sent = if counted { (usage.sent_messages, usage.sent_bytes) } else { (0, 0) };
        outcome(actor.values(), loss, sent)
    });
    outcomes.collect()
}

/// Outcomes of one peer, one line per strategy.
fn body(cluster: &Cluster) -> Result<String> {
    let lines = strategies().into_iter().map(|strategy| train(cluster, strategy)).collect::<Result<Vec<_>>>()?;
    cluster.barrier()?;
    Ok(lines.join("\n"))
}

#[test]
#[ignore = "entry point of a child process"]
fn the_training_peer() {
    println!("<begin>{}<end>", hemiola_cluster::run(body).unwrap());
}

#[test]
fn trainings_on_threads_processes_and_the_simulator_agree() {
    with_watchdog(|| {
        let threads = standalone(PEERS).run(body).unwrap();
        let processes = PeerProcesses::start(PEERS as u32, "sync_conformance::the_training_peer", |_, _| {}).finish();
        for (printed, expected) in processes.iter().zip(&threads) {
            let (_, rest) = printed.split_once("<begin>").expect("the peer prints its outcomes");
            assert_eq!(rest.split_once("<end>").map(|(outcomes, _)| outcomes), Some(&expected[..]));
        }
        for (number, strategy) in strategies().iter().enumerate() {
            let expected: Vec<&str> =
                threads.iter().map(|lines| lines.lines().nth(number).expect("a line per strategy")).collect();
            for seed in 0..10 {
                assert_eq!(simulate(strategy, seed), expected, "seed {seed}, {strategy:?}");
            }
        }
    });
}
