//! A linear regression whose gradients are computed by hand: every strategy trains the model of one
//! process, and a training resumes with other peers and another strategy.

use hemiola_cluster::{Cluster, Result};
use hemiola_strategy::{ModelSpec, StrategyBuilder, VariableSpec};
use hemiola_sync::{ModelSync, NamedArray, PassKind, StateArchive, StrategySource, UpdateKernel, VariableId};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// Weights and biases.
const VARIABLES: [VariableId; 2] = [VariableId::new(0), VariableId::new(1)];
const INPUTS: usize = 3;
const OUTPUTS: usize = 2;
const EXAMPLES: usize = 12;
/// Effect of another order of summation after a few steps, for values of about 1.
const TOLERANCE: f32 = 1e-5;

/// Gradient descent with momentum; the state is the velocity of each element.
#[derive(Clone, Debug)]
pub(crate) struct MomentumKernel;

impl MomentumKernel {
    fn step(rate: f64, value: &mut f32, velocity: &mut f32, gradient: f32) {
        *velocity = 0.5 * *velocity + gradient;
        *value -= rate as f32 * *velocity;
    }
}

impl UpdateKernel for MomentumKernel {
    type State = Vec<f32>;

    fn update(&self, rate: f64, values: &mut [f32], gradient: &mut [f32], scale: f32, velocity: &mut Vec<f32>) {
        velocity.resize(values.len(), 0.0);
        for ((value, velocity), gradient) in values.iter_mut().zip(velocity).zip(gradient) {
            Self::step(rate, value, velocity, scale * *gradient);
        }
    }

    fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        (rows, gradients, width): (&[usize], &mut [f32], usize),
        scale: f32,
        velocity: &mut Vec<f32>,
    ) {
        velocity.resize(values.len(), 0.0);
        for (row, gradient) in rows.iter().zip(gradients.chunks(width)) {
            for (column, gradient) in gradient.iter().enumerate() {
                let index = row * width + column;
                Self::step(rate, &mut values[index], &mut velocity[index], scale * gradient);
            }
        }
    }

    fn can_update_rows(&self) -> bool {
        true
    }

    fn multiply_factors(&self, pairs: Vec<f32>, (rows, width): (usize, usize)) -> Vec<f32> {
        let mut product = vec![0.0; rows * width];
        for pair in pairs.chunks(rows + width) {
            for (index, element) in product.iter_mut().enumerate() {
                *element += pair[index / width] * pair[rows + index % width];
            }
        }
        product
    }
}

impl StateArchive for MomentumKernel {
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

/// Input and target of an example.
fn example(number: usize) -> ([f32; INPUTS], [f32; OUTPUTS]) {
    let input = [0.3, 0.7, 1.1].map(|factor: f32| (number as f32 * factor).sin());
    (input, [input[0] + 0.5 * input[2], 1.0 - input[1]])
}

/// Variables of the model when `peers` peers train it.
pub(crate) fn spec(peers: usize) -> ModelSpec {
    let pairs = (EXAMPLES / peers) as u64;
    let variables =
        vec![VariableSpec::linear("weights", [INPUTS, OUTPUTS], pairs), VariableSpec::dense("biases", [OUTPUTS])];
    ModelSpec::new(variables).unwrap()
}

/// Builds the model, from a checkpoint if there is one in the folder to resume from.
pub(crate) fn build(
    cluster: &Cluster,
    strategy: Option<StrategySource>,
    resume: Option<PathBuf>,
) -> Result<ModelSync<MomentumKernel>> {
    // Peers adopt the values of peer 0.
    let values = vec![vec![0.1 * (1.0 + cluster.rank().index() as f32); INPUTS * OUTPUTS], vec![0.0; OUTPUTS]];
    let mut sync = ModelSync::builder(cluster, spec(cluster.size()), values, MomentumKernel);
    if let Some(strategy) = strategy {
        sync = sync.strategy(strategy);
    }
    sync.resume(resume).trace(true).build()
}

/// Trains one step with the examples of this peer.
pub(crate) fn step(cluster: &Cluster, sync: &mut ModelSync<MomentumKernel>) -> Result<()> {
    let [weights_id, biases_id] = VARIABLES;
    let structured = sync.structured()[0];
    let gradients = sync.begin_pass(PassKind::Step);
    let weights = sync.next_values(weights_id, PassKind::Step).wait();
    let biases = sync.next_values(biases_id, PassKind::Step).wait();
    // A peer that does not train has no examples.
    let replicas = &sync.strategy().replicas;
    let (me, trainers) = (replicas.iter().position(|rank| *rank == cluster.rank()), replicas.len());
    let mine = (0..EXAMPLES).filter(|number| Some(number % trainers) == me);
    let (mut loss, mut factors, mut dense, mut bias_gradient) =
        (0.0, Vec::new(), vec![0.0; INPUTS * OUTPUTS], vec![0.0; OUTPUTS]);
    for number in mine.clone() {
        let (input, target) = example(number);
        let mut errors = [0.0; OUTPUTS];
        for (output, error) in errors.iter_mut().enumerate() {
            let products = input.iter().enumerate().map(|(row, input)| input * weights[row * OUTPUTS + output]);
            *error = products.sum::<f32>() + biases[output] - target[output];
            loss += f64::from(*error).powi(2) / 2.0;
            bias_gradient[output] += *error;
        }
        let product = (0..INPUTS * OUTPUTS).map(|index| input[index / OUTPUTS] * errors[index % OUTPUTS]);
        dense.iter_mut().zip(product).for_each(|(sum, product)| *sum += product);
        factors.extend(input.into_iter().chain(errors));
    }
    let examples = mine.count();
    sync.forward_complete(PassKind::Step, examples as u64, loss / examples.max(1) as f64, 0.2);
    gradients.send(biases_id, &bias_gradient[..]);
    gradients.send(weights_id, if structured { factors } else { dense });
    sync.end_pass(PassKind::Step)
}

/// Weights and biases after all steps.
pub(crate) fn values(sync: &mut ModelSync<MomentumKernel>) -> Result<Vec<Vec<f32>>> {
    sync.wait()?;
    Ok(VARIABLES.map(|variable| sync.newest_values(variable).wait()).to_vec())
}

/// Trains with all peers up to step `steps`; returns the weights and biases.
fn train(
    cluster: &Cluster,
    strategy: Option<StrategySource>,
    folder: &Path,
    resume: bool,
    steps: u64,
) -> Result<Vec<Vec<f32>>> {
    let mut sync = build(cluster, strategy, resume.then(|| folder.to_owned()))?;
    let start = sync.steps();
    while sync.steps() < steps {
        step(cluster, &mut sync)?;
    }
    let values = values(&mut sync)?;
    assert!(start == steps || sync.take_trace().iter().any(|span| span.name.contains("weights")));
    if !resume {
        sync.save(folder)?;
    }
    Ok(values)
}

pub(crate) fn train_on(
    peers: usize,
    strategy: impl Into<Option<StrategySource>>,
    folder: &Path,
    resume: bool,
    steps: u64,
) -> Vec<Vec<Vec<f32>>> {
    let strategy = strategy.into();
    let trained = Mutex::new(vec![Vec::new(); peers]);
    hemiola_cluster::standalone(peers)
        .run(|cluster| {
            let values = train(cluster, strategy.clone(), folder, resume, steps)?;
            trained.lock()[cluster.rank().index()] = values;
            Ok(())
        })
        .unwrap();
    trained.into_inner()
}

pub(crate) fn built(builder: StrategyBuilder) -> StrategySource {
    builder.into()
}

fn assert_near(found: &[Vec<f32>], expected: &[Vec<f32>], case: &str) {
    assert_within(TOLERANCE, found, expected, case);
}

pub(crate) fn assert_within(tolerance: f32, found: &[Vec<f32>], expected: &[Vec<f32>], case: &str) {
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!((found - expected).abs() < tolerance, "{case}: {found} instead of {expected}");
    }
}

#[test]
fn every_strategy_trains_the_model_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let alone = train_on(1, built(StrategyBuilder::default()), &folder.path().join("alone"), false, 10);
    for builder in StrategyBuilder::ALL {
        let all = train_on(3, built(builder), &folder.path().join("three"), false, 10);
        assert!(all.iter().all(|values| *values == all[0]), "{builder}: copies differ");
        assert_near(&all[0], &alone[0], &builder.to_string());
    }
}

#[test]
fn a_training_resumes_with_other_peers_and_another_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let straight = train_on(1, built(StrategyBuilder::default()), &folder.path().join("straight"), false, 10);
    let folder = folder.path().join("half");
    train_on(3, built(StrategyBuilder::ParameterServer), &folder, false, 4);
    for builder in [StrategyBuilder::Poseidon, StrategyBuilder::AllReduce { chunk: None }] {
        let resumed = train_on(2, built(builder), &folder, true, 10);
        assert_near(&resumed[0], &straight[0], &builder.to_string());
    }
}

#[test]
fn a_resumed_training_repeats_the_bits_of_an_undisturbed_one_without_naming_its_strategy() {
    let folder = tempfile::tempdir().unwrap();
    for builder in StrategyBuilder::ALL {
        let (straight, half) =
            (folder.path().join(format!("{builder}-straight")), folder.path().join(format!("{builder}")));
        let straight = train_on(3, built(builder), &straight, false, 10);
        train_on(3, built(builder), &half, false, 4);
        let resumed = train_on(3, None, &half, true, 10);
        assert_eq!(resumed, straight, "{builder}");
    }
}
