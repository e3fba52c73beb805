//! ONNX nodes from the columns of a table, or the features of LIBSVM text, to the features of a model.
//!
//! The arithmetic is that of `hemiola predict`: scaling in double precision, rounded to single
//! precision. **Invariant:** a preparation that these nodes cannot reproduce is refused by name.

use crate::error::CommandError;
use hemiola_models::input::{ColumnRole, InputSchema, Preparation, PreparedColumn};
use hemiola_onnx::{ElementType, Extent, OnnxGraph};

/// Prepared features of a graph.
#[derive(Debug)]
pub(super) struct GraphFeatures {
    /// Value with the features in double precision.
    pub(super) value: String,
    /// For each feature of the value, its index in the model.
    pub(super) order: Vec<usize>,
}

/// Adds the input `features`, and the preparation of a model with `count` features.
pub(super) fn add(graph: &mut OnnxGraph, input: Option<&InputSchema>, count: usize) -> anyhow::Result<GraphFeatures> {
    let names: Vec<&str> = input
        .map(|schema| schema.with_role(ColumnRole::Feature).map(|(_, column)| column.name.as_str()).collect())
        .unwrap_or_default();
    if !names.is_empty() {
        graph.metadata("hemiola.features", &serde_json::to_string(&names)?);
    }
    match input.and_then(|schema| schema.preparation.as_deref()) {
        None => {
            let value = add_input(graph, count);
            Ok(GraphFeatures { value: graph.cast(&value, ElementType::F64), order: (0..count).collect() })
        }
        Some(preparation) if preparation.columns.is_empty() => add_sparse(graph, preparation, count),
        Some(preparation) => add_columns(graph, preparation, &names),
    }
}

fn add_input(graph: &mut OnnxGraph, count: usize) -> String {
    graph.input("features", ElementType::F32, &[Extent::Named("batch"), Extent::Fixed(count)])
}

/// Adds the scaling of features of LIBSVM text.
fn add_sparse(graph: &mut OnnxGraph, preparation: &Preparation, count: usize) -> anyhow::Result<GraphFeatures> {
    let weighting = preparation.options.weighting;
    if weighting.tfidf || weighting.sublinear || weighting.binary {
        return Err(refusal("weights of terms (`--tfidf`, `--sublinear-tf` or `--binary`)"));
    }
    let value = add_input(graph, count);
    let mut scales = preparation.sparse.as_ref().map(|statistics| statistics.scales.clone()).unwrap_or_default();
    scales.resize(count, 1.0);
    let value = add_scaling(graph, &value, &vec![0.0; count], &scales);
    Ok(GraphFeatures { value, order: (0..count).collect() })
}

/// Adds filling and scaling of columns of numbers. Indicators of missing values follow all columns.
fn add_columns(graph: &mut OnnxGraph, preparation: &Preparation, names: &[&str]) -> anyhow::Result<GraphFeatures> {
    let (mut fills, mut shifts, mut scales) = (Vec::new(), Vec::new(), Vec::new());
    let (mut order, mut indicated, mut next) = (Vec::new(), Vec::new(), 0);
    for (at, column) in preparation.columns.iter().enumerate() {
        let name = names.get(at).copied().unwrap_or_default();
        let PreparedColumn::Number { fill, indicator, shift, scale } = column else {
            let kind = match column {
                PreparedColumn::Text { .. } => "text",
                _ => "categories",
            };
            return Err(refusal(&format!("a column of {kind}, `{name}`")));
        };
        fills.push(fill.unwrap_or(f32::NAN));
        shifts.push(*shift);
        scales.push(*scale);
        order.push(next);
        next += 1;
        if *indicator {
            indicated.push((at.cast_signed() as i64, next));
            next += 1;
        }
    }
    let count = preparation.columns.len();
    let mut value = add_input(graph, count);
    let missing = graph.node("IsNaN", &[&value], &[]);
    if fills.iter().any(|fill| !fill.is_nan()) {
        let fills = graph.floats("fill", &[count], &fills);
        value = graph.node("Where", &[&missing, &fills, &value], &[]);
    }
    value = add_scaling(graph, &value, &shifts, &scales);
    if !indicated.is_empty() {
        let columns: Vec<i64> = indicated.iter().map(|(column, _)| *column).collect();
        let columns = graph.ints("indicated", &[columns.len()], &columns);
        let missing = graph.cast(&missing, ElementType::F64);
        let flags = graph.node("Gather", &[&missing, &columns], &[("axis", hemiola_onnx::Attribute::Int(1))]);
        value = graph.node("Concat", &[&value, &flags], &[("axis", hemiola_onnx::Attribute::Int(1))]);
        order.extend(indicated.iter().map(|(_, feature)| *feature));
    }
    Ok(GraphFeatures { value, order })
}

/// Adds `(value - shift) / scale`, rounded to single precision. The result is in double precision.
fn add_scaling(graph: &mut OnnxGraph, value: &str, shifts: &[f64], scales: &[f64]) -> String {
    let exact = graph.cast(value, ElementType::F64);
    let shift = graph.doubles("shift", &[shifts.len()], shifts);
    let scale = graph.doubles("scale", &[scales.len()], scales);
    let centred = graph.node("Sub", &[&exact, &shift], &[]);
    let scaled = graph.node("Div", &[&centred, &scale], &[]);
    let rounded = graph.cast(&scaled, ElementType::F32);
    graph.cast(&rounded, ElementType::F64)
}

fn refusal(what: &str) -> anyhow::Error {
    let message = format!("the model has {what}, and only numbers and their scaling can be exported to ONNX");
    CommandError::usage(message).hint("prepare the data before training, or use `hemiola predict`").into()
}
