//! A synchronization strategy: how data-parallel peers combine the updates of each variable.
//!
//! The builder `Cheapest` prices several methods for each variable by a cost model and takes the
//! cheapest: all-reduce, a parameter server, only the rows that a batch touched, or sufficient
//! factors (the vectors whose outer products are the gradient of a linear layer). Nothing is
//! trained here: a strategy is plain data that can be printed, saved, edited and compared.
//!
//! `cargo run --release --example strategy` prints the cheapest strategy as a table, then:
//! ```text
//! ...
//! a step of 4 peers sends 19.9 MB in about 42.3 ms; peer 3 sends and receives the most, 10.0 MB
//! parameter-server: 2232.3 ms per step
//! all-reduce: 1115.9 ms per step
//! poseidon: 338.1 ms per step
//! cheapest: 42.3 ms per step
//! ```

use hemiola::strategy::{LinkSpec, ModelSpec, ResourceSpec, Result, StrategyBuilder, VariableSpec, explain};

/// A model for text: a batch of 32 sentences touches at most 2,000 rows of the embedding, and the
/// gradient of a linear layer is a sum of 32 outer products.
pub(crate) fn model() -> Result<ModelSpec> {
    ModelSpec::new(vec![
        VariableSpec::embedding("words", [50_000, 128], 2_000),
        VariableSpec::linear("hidden.weight", [4096, 4096], 32),
        VariableSpec::dense("hidden.bias", [4096]),
        VariableSpec::linear("output.weight", [4096, 10], 32),
        VariableSpec::dense("output.bias", [10]),
    ])
}

/// Predicted seconds of communication per step by each builder, on four peers with 1 Gbit/s.
pub(crate) fn compare(model: &ModelSpec, cluster: &ResourceSpec) -> Result<Vec<(StrategyBuilder, f64)>> {
    let all_reduce = StrategyBuilder::AllReduce { chunk: None };
    let builders = [StrategyBuilder::ParameterServer, all_reduce, StrategyBuilder::Poseidon, StrategyBuilder::Cheapest];
    let seconds = |builder: StrategyBuilder| Ok(explain(&builder.build(model, cluster)?, model, cluster).seconds());
    builders.into_iter().map(|builder| Ok((builder, seconds(builder)?))).collect()
}

#[expect(clippy::print_stdout, reason = "the output of the program")]
fn main() -> Result<()> {
    let (model, cluster) = (model()?, ResourceSpec::uniform(4, LinkSpec::bits(1e9, 1e-4)));
    print!("{}", explain(&StrategyBuilder::Cheapest.build(&model, &cluster)?, &model, &cluster));
    for (builder, seconds) in compare(&model, &cluster)? {
        println!("{builder}: {:.1} ms per step", 1e3 * seconds);
    }
    Ok(())
}
