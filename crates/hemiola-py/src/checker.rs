//! Dependence analysis of a loop that Python describes.
//!
//! Python reads the accesses from the syntax tree of a function and passes them as the JSON of a
//! [`LoopSpec`]. The decision is that of `hemiola-analysis`, as for loops in Rust.

use hemiola_analysis::{LoopSpec, Parallelization, ScheduleVerdict, analyze};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

/// Analyzes a loop; returns dependences, legal parallelizations and the reasons against the others,
/// as JSON.
#[pyfunction]
pub(crate) fn analyze_loop(description: &str, indices: Vec<String>) -> PyResult<String> {
    let spec: LoopSpec = serde_json::from_str(description)
        .map_err(|error| PyValueError::new_err(format!("this is no description of a loop: {error}")))?;
    let analysis = analyze(&spec).map_err(|error| PyValueError::new_err(error.to_string()))?.with_indices(indices);
    let legal: Vec<Value> = analysis.legal().map(|legal| described(legal, &analysis.describe(legal))).collect();
    let illegal: Vec<Value> = analysis
        .verdicts
        .iter()
        .filter_map(|verdict| match verdict {
            ScheduleVerdict::Illegal(violation) => Some(violation),
            ScheduleVerdict::Legal(_) => None,
        })
        .map(|violation| {
            let dependence = violation.dependence.and_then(|position| analysis.dependences.get(position));
            let lines = dependence.map(|dependence| {
                let pair = dependence.pairs.first();
                pair.map(|pair| vec![pair.first.line, pair.second.line]).unwrap_or_default()
            });
            json!({
                "candidate": analysis.describe_candidate(&violation.candidate),
                "reason": analysis.explain(violation),
                "lines": lines.unwrap_or_default(),
            })
        })
        .collect();
    let vectors: Vec<String> = analysis.dependences.iter().map(|dependence| dependence.vector.to_string()).collect();
    let found = json!({ "legal": legal, "illegal": illegal, "vectors": vectors, "text": analysis.to_string() });
    Ok(found.to_string())
}

/// Returns a parallelization with its kind and its dimensions.
fn described(parallelization: &Parallelization, text: &str) -> Value {
    let (kind, space, time) = match parallelization {
        Parallelization::OneD { space } => ("1D", Some(*space), None),
        Parallelization::TwoD { space, time, .. } => ("2D", Some(*space), Some(*time)),
        Parallelization::Transformed { space, time, .. } => ("transformed", Some(*space), Some(*time)),
        Parallelization::Serial => ("serial", None, None),
    };
    json!({ "kind": kind, "space": space, "time": time, "text": text })
}
