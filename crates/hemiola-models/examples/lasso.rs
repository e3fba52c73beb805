//! Solves a lasso problem from a folder and prints the time: run by `benchmarks/lasso.py`.
//!
//! ```sh
//! cargo run --release -p hemiola-models --example lasso -- target/benchmarks/lasso/dense --share 0.1 --workers 2
//! ```
//!
//! The folder contains `problem.json` with `rows` and `columns`, `target.f32`, and `values.f32`:
//! all values in column-major order, or, with `rows.u32` and `starts.u64`, the nonzero ones.
//! Numbers are little-endian. The output is one line of JSON for each of three runs.

use hemiola_models::SparseRegression;
use hemiola_models::sparse::{CscMatrix, DenseColumns, FeatureColumns, Lambda, SparseExamples, SparseLoss};
use serde_json::{Value, json};
use std::path::Path;
use std::{env, error::Error, fs};

const RUNS: usize = 3;

fn numbers<const N: usize, T>(path: &Path, number: impl Fn([u8; N]) -> T) -> Result<Vec<T>, Box<dyn Error>> {
    let bytes = fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    Ok(bytes.as_chunks::<N>().0.iter().copied().map(number).collect())
}

fn read(folder: &Path) -> Result<SparseExamples<f32>, Box<dyn Error>> {
    let about: Value = serde_json::from_slice(&fs::read(folder.join("problem.json"))?)?;
    let extent = |name: &str| about[name].as_u64().ok_or_else(|| format!("problem.json has no number `{name}`"));
    let (rows, columns) = (extent("rows")? as usize, extent("columns")? as usize);
    let values = numbers(&folder.join("values.f32"), f32::from_le_bytes)?;
    let target = numbers(&folder.join("target.f32"), f32::from_le_bytes)?.into_iter().map(f64::from).collect();
    let starts = folder.join("starts.u64");
    let columns = if starts.exists() {
        let starts: Vec<usize> = numbers(&starts, |bytes| u64::from_le_bytes(bytes) as usize)?;
        FeatureColumns::Sparse(CscMatrix::new(
            rows,
            &starts,
            numbers(&folder.join("rows.u32"), u32::from_le_bytes)?,
            values,
        ))
    } else {
        FeatureColumns::Dense(DenseColumns::new(rows, columns, values))
    };
    Ok(SparseExamples::new(columns, target))
}

#[expect(clippy::print_stdout, reason = "the output of the program")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let option = |name: &str, default: f64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(Ok(default), |text| text.parse::<f64>())
    };
    let folder = arguments.first().ok_or("usage: lasso FOLDER [--share SHARE] [--workers COUNT] [--tolerance GAP]")?;
    let examples = read(Path::new(folder))?;
    let lambda = Lambda::Share(option("--share", 0.1)?);
    let builder = SparseRegression::builder(SparseLoss::Squared).lambda(lambda).intercept(false);
    let regression = builder.tolerance(option("--tolerance", 1e-6)?).build()?;
    for _ in 0..RUNS {
        let fit = hemiola::standalone(1).workers(option("--workers", 1.0)? as usize).run(|cluster| {
            let trained = regression.fit_rows(cluster, examples.clone())?;
            Ok((trained.report, trained.model))
        });
        let (report, model) = fit?.swap_remove(0);
        let last = report.progress.last().ok_or("no round was made")?;
        let line = json!({
            "seconds": report.result.seconds,
            "lambda": model.lambda,
            "objective": report.result.objective,
            "gap": last.train["gap"],
            "updates": last.updates,
            "rounds": report.progress.len(),
            "nonzero": model.coefficients.len(),
            "coefficients": if arguments.iter().any(|argument| argument == "--coefficients") { json!(model.coefficients) } else { Value::Null },
        });
        println!("{line}");
    }
    Ok(())
}
