//! ONNX graphs of linear models: features times weights, and what follows from the scores.
//!
//! Regressions have the output `value`. Classifiers have `label`, and `probabilities` or `scores`, a
//! column for each class (`scores` of two classes: one, that of the second). Scores and
//! probabilities are in double precision, as those of `hemiola predict`.

use super::features;
use hemiola_models::Predictor as _;
use hemiola_models::input::InputSchema;
use hemiola_models::linear::LinearModel;
use hemiola_models::ridge::RidgeModel;
use hemiola_models::softmax::SoftmaxModel;
use hemiola_models::sparse::SparseModel;
use hemiola_onnx::{Attribute, ElementType, Extent, OnnxGraph};

const BATCH: Extent = Extent::Named("batch");
/// Attribute of operators on classes.
const OF_CLASSES: (&str, Attribute) = ("axis", Attribute::Int(1));

/// Linear functions of the features.
struct LinearScores<'a> {
    kind: &'a str,
    input: Option<&'a InputSchema>,
    /// Weights of all features, by function.
    weights: Vec<Vec<f64>>,
    intercepts: Vec<f64>,
}

impl LinearScores<'_> {
    /// Adds input, preparation and scores. Returns the graph and the value with the scores.
    fn graph(self) -> anyhow::Result<(OnnxGraph, String)> {
        let Self { kind, input, weights, intercepts } = self;
        let (functions, count) = (weights.len(), weights.first().map_or(0, Vec::len));
        let mut graph = OnnxGraph::new(kind);
        graph.metadata("hemiola.model", kind);
        let found = features::add(&mut graph, input, count)?;
        let mut matrix = Vec::with_capacity(found.order.len() * functions);
        for feature in &found.order {
            matrix.extend(weights.iter().map(|of_function| of_function[*feature]));
        }
        let matrix = graph.doubles("weights", &[found.order.len(), functions], &matrix);
        let products = graph.node("MatMul", &[&found.value, &matrix], &[]);
        let intercepts = graph.doubles("intercepts", &[functions], &intercepts);
        let scores = graph.node("Add", &[&products, &intercepts], &[]);
        Ok((graph, scores))
    }
}

/// Encodes a ridge regression.
pub(super) fn of_ridge(model: &RidgeModel) -> anyhow::Result<Vec<u8>> {
    let (weights, intercepts) = (vec![model.weights().to_vec()], vec![model.intercept]);
    regression(LinearScores { kind: model.kind(), input: model.input.as_ref(), weights, intercepts })
}

/// Encodes a lasso, an elastic net, or a logistic regression with an L1 penalty.
pub(super) fn of_sparse(model: &SparseModel) -> anyhow::Result<Vec<u8>> {
    let mut weights = vec![0.0; model.columns];
    for (column, value) in &model.coefficients {
        weights[*column as usize] = *value;
    }
    let (weights, intercepts) = (vec![weights], vec![model.intercept]);
    let scores = LinearScores { kind: model.kind(), input: model.input.as_ref(), weights, intercepts };
    let Some(classes) = model.classes else { return regression(scores) };
    let (graph, scores) = scores.graph()?;
    let classes = ClassLabels { labels: &classes, names: Vec::new() };
    classification(graph, &scores, &classes, Probabilities::Logistic)
}

/// Encodes a support vector machine or a logistic regression.
pub(super) fn of_classifier(model: &LinearModel) -> anyhow::Result<Vec<u8>> {
    let problems = model.problems();
    let (graph, scores) = LinearScores {
        kind: model.kind(),
        input: model.input.as_ref(),
        weights: (0..problems).map(|problem| model.weights(problem).to_vec()).collect(),
        intercepts: (0..problems).map(|problem| model.intercept(problem)).collect(),
    }
    .graph()?;
    let classes = ClassLabels { labels: &model.classes, names: model.names.clone() };
    let has_probabilities = model.settings.loss.has_probabilities();
    let probabilities = if has_probabilities { Probabilities::Logistic } else { Probabilities::None };
    classification(graph, &scores, &classes, probabilities)
}

/// Encodes a softmax regression.
pub(super) fn of_softmax(model: &SoftmaxModel) -> anyhow::Result<Vec<u8>> {
    let classes = model.classes.len();
    let (graph, scores) = LinearScores {
        kind: model.kind(),
        input: model.input.as_ref(),
        weights: (0..classes).map(|class| model.weights(class).to_vec()).collect(),
        intercepts: (0..classes).map(|class| model.intercept(class)).collect(),
    }
    .graph()?;
    let names = if model.names.is_empty() { Vec::new() } else { model.class_names() };
    classification(graph, &scores, &ClassLabels { labels: &model.classes, names }, Probabilities::Softmax)
}

fn regression(scores: LinearScores<'_>) -> anyhow::Result<Vec<u8>> {
    let (mut graph, value) = scores.graph()?;
    graph.output("value", &value, ElementType::F64, &[BATCH, Extent::Fixed(1)]);
    Ok(graph.to_bytes()?)
}

/// Labels of the classes, ascending, and their names, if they have names.
struct ClassLabels<'a> {
    labels: &'a [f32],
    names: Vec<String>,
}

/// Probabilities of a classifier by its scores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Probabilities {
    None,
    /// Logistic function of each score; of more than two classes, normalized.
    Logistic,
    Softmax,
}

/// Adds the outputs of a classifier, and encodes the graph.
fn classification(
    mut graph: OnnxGraph,
    scores: &str,
    classes: &ClassLabels<'_>,
    probabilities: Probabilities,
) -> anyhow::Result<Vec<u8>> {
    let count = classes.labels.len();
    // One score of two classes is that of the second.
    let single = count == 2 && probabilities != Probabilities::Softmax;
    let index = if single {
        let zero = graph.doubles("zero", &[1], &[0.0]);
        let second = graph.node("Greater", &[scores, &zero], &[]);
        let second = graph.cast(&second, ElementType::I64);
        let batch = graph.ints("one_dimension", &[1], &[-1]);
        graph.node("Reshape", &[&second, &batch], &[])
    } else {
        graph.node("ArgMax", &[scores], &[OF_CLASSES, ("keepdims", Attribute::Int(0))])
    };
    let whole = classes.labels.iter().all(|label| label.fract() == 0.0);
    let (labels, element) = if !classes.names.is_empty() {
        (graph.texts("labels", &classes.names), ElementType::Text)
    } else if whole {
        let labels: Vec<i64> = classes.labels.iter().map(|label| *label as i64).collect();
        (graph.ints("labels", &[count], &labels), ElementType::I64)
    } else {
        (graph.floats("labels", &[count], classes.labels), ElementType::F32)
    };
    let label = graph.node("Gather", &[&labels, &index], &[]);
    graph.output("label", &label, element, &[BATCH]);
    match probabilities {
        Probabilities::None => {
            let columns = if single { 1 } else { count };
            graph.output("scores", scores, ElementType::F64, &[BATCH, Extent::Fixed(columns)]);
        }
        Probabilities::Logistic => {
            let value = add_logistic(&mut graph, scores, single);
            graph.output("probabilities", &value, ElementType::F64, &[BATCH, Extent::Fixed(count)]);
        }
        Probabilities::Softmax => {
            let value = graph.node("Softmax", &[scores], &[OF_CLASSES]);
            graph.output("probabilities", &value, ElementType::F64, &[BATCH, Extent::Fixed(count)]);
        }
    }
    Ok(graph.to_bytes()?)
}

/// Adds the probabilities of log-odds: of both classes, or of each class against the rest, normalized.
fn add_logistic(graph: &mut OnnxGraph, scores: &str, single: bool) -> String {
    if single {
        let negative = graph.node("Neg", &[scores], &[]);
        let both = graph.node("Concat", &[&negative, scores], &[OF_CLASSES]);
        return graph.node("Sigmoid", &[&both], &[]);
    }
    let each = graph.node("Sigmoid", &[scores], &[]);
    let axes = graph.ints("axes", &[1], &[1]);
    let sum = graph.node("ReduceSum", &[&each, &axes], &[]);
    let least = graph.doubles("least", &[1], &[f64::MIN_POSITIVE]);
    let sum = graph.node("Max", &[&sum, &least], &[]);
    graph.node("Div", &[&each, &sum], &[])
}
