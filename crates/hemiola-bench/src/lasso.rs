//! `hemiola bench lasso`: a lasso problem from a folder, for the comparison with other solvers by
//! `benchmarks/lasso.py`.
//!
//! The folder contains `problem.json` with `rows` and `columns`, `target.f32`, and `values.f32`:
//! all values in column-major order, or, with `rows.u32` and `starts.u64`, the nonzero ones.
//! Numbers are little-endian.

use crate::benchmark::Benchmark;
use anyhow::Context as _;
use clap::Args;
use hemiola_models::SparseRegression;
use hemiola_models::sparse::{CscMatrix, DenseColumns, FeatureColumns, Lambda, SparseExamples, SparseLoss};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Example:
  hemiola bench lasso target/benchmarks/lasso/dense --share 0.1 --workers 2 --report -

The report holds \"runs\", one for each round: \"seconds\", \"lambda\", \"objective\", \"gap\" (in shares of the objective without \
coefficients), \"updates\" (columns visited), \"rounds\" and \"nonzero\" (number of coefficients).";

/// Arguments of `hemiola bench lasso`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct LassoBench {
    /// Folder of the problem, written by `benchmarks/lasso.py`.
    folder: PathBuf,

    /// L1 penalty as a share of the smallest one that makes all coefficients 0.
    #[arg(long, value_name = "SHARE", default_value = "0.1")]
    share: f64,

    /// Number of worker threads.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    workers: u32,

    /// Duality gap at which the solver stops, in shares of the objective without coefficients.
    #[arg(long, value_name = "GAP", default_value = "1e-6")]
    tolerance: f64,

    /// Number of rounds.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LassoMeasurement {
    runs: Vec<LassoRun>,
}

/// One solution of the problem.
#[derive(Clone, Debug, Serialize)]
struct LassoRun {
    seconds: f64,
    lambda: f64,
    objective: f64,
    gap: f64,
    updates: u64,
    rounds: usize,
    nonzero: usize,
}

impl Benchmark for LassoBench {
    type Measurement = LassoMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let examples = read_problem(&self.folder)?;
        let builder = SparseRegression::builder(SparseLoss::Squared).lambda(Lambda::Share(self.share)).intercept(false);
        let regression = builder.tolerance(self.tolerance).build()?;
        let mut runs = Vec::new();
        for _ in 0..self.rounds {
            let fit = hemiola_cluster::standalone(1).workers(self.workers as usize).run(|cluster| {
                let trained = regression.fit_rows(cluster, examples.clone())?;
                Ok((trained.report, trained.model))
            });
            let (report, model) = fit?.swap_remove(0);
            let last = report.progress.last().context("the solver has made no round")?;
            runs.push(LassoRun {
                seconds: report.result.seconds,
                lambda: model.lambda,
                objective: report.result.objective,
                gap: last.train.get("gap").copied().unwrap_or(f64::NAN),
                updates: last.updates,
                rounds: report.progress.len(),
                nonzero: model.coefficients.len(),
            });
        }
        Ok(Some(LassoMeasurement { runs }))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        for LassoRun { seconds, lambda, objective, gap, updates, rounds, nonzero } in &measured.runs {
            writeln!(
                out,
                "lambda {lambda:.4e}: {nonzero} coefficients, objective {objective:.6e}, gap {gap:.1e} after {rounds} rounds, \
                 {updates} updates, {seconds:.3} s"
            )?;
        }
        Ok(())
    }
}

fn read_numbers<const N: usize, T>(path: &Path, number: impl Fn([u8; N]) -> T) -> anyhow::Result<Vec<T>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(bytes.as_chunks::<N>().0.iter().copied().map(number).collect())
}

fn read_problem(folder: &Path) -> anyhow::Result<SparseExamples<f32>> {
    let path = folder.join("problem.json");
    let text = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let about: serde_json::Value = serde_json::from_slice(&text)?;
    let extent = |name: &str| about[name].as_u64().with_context(|| format!("problem.json has no number `{name}`"));
    let (rows, columns) = (extent("rows")? as usize, extent("columns")? as usize);
    let values = read_numbers(&folder.join("values.f32"), f32::from_le_bytes)?;
    let target = read_numbers(&folder.join("target.f32"), |bytes| f64::from(f32::from_le_bytes(bytes)))?;
    let starts = folder.join("starts.u64");
    let columns = if starts.exists() {
        let starts: Vec<usize> = read_numbers(&starts, |bytes| u64::from_le_bytes(bytes) as usize)?;
        let positions = read_numbers(&folder.join("rows.u32"), u32::from_le_bytes)?;
        FeatureColumns::Sparse(CscMatrix::new(rows, &starts, positions, values))
    } else {
        FeatureColumns::Dense(DenseColumns::new(rows, columns, values))
    };
    Ok(SparseExamples::new(columns, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_files_give_the_same_solution() {
        // The columns of the identity, of length 1: each coefficient is its soft-thresholded target.
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
        let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        write("problem.json", br#"{"rows": 2, "columns": 2}"#.to_vec());
        write("target.f32", floats(&[4.0, 1.0]));
        write("values.f32", floats(&[1.0, 0.0, 0.0, 1.0]));
        let bench = LassoBench {
            folder: folder.path().to_owned(),
            share: 0.5,
            workers: 1,
            tolerance: 1e-9,
            rounds: 1,
            report: None,
        };
        let dense = bench.measure().unwrap().unwrap().runs.remove(0);
        write("values.f32", floats(&[1.0, 1.0]));
        write("rows.u32", [0_u32, 1].iter().flat_map(|row| row.to_le_bytes()).collect());
        write("starts.u64", [0_u64, 1, 2].iter().flat_map(|start| start.to_le_bytes()).collect());
        let sparse = bench.measure().unwrap().unwrap().runs.remove(0);
        // Half of the largest penalty, 4 / 2 rows: only the first coefficient is not zero.
        assert!((dense.lambda - 1.0).abs() < 1e-9 && dense.nonzero == 1, "{dense:?}");
        assert!((dense.objective - sparse.objective).abs() < 1e-9 && sparse.nonzero == 1, "{sparse:?}");
    }
}
