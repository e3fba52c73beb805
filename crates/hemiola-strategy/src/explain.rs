//! Explanation of a strategy: each variable with its method, bytes, time, and all alternatives.

use crate::builders::{candidates, price};
use crate::cost::{CostModel, NetworkLoad};
use crate::display;
use crate::model::{ModelSpec, VariableSpec};
use crate::node::Synchronizer;
use crate::resources::ResourceSpec;
use crate::strategy::{Strategy, VariablePlan};
use serde::Serialize;
use std::fmt;

/// Synchronization method of a variable, with its cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SyncChoice {
    /// Description of the method.
    pub method: String,
    /// Bytes that all peers send for it in a step.
    pub bytes: f64,
    /// Seconds that it takes if it is alone.
    pub seconds: f64,
}

/// Choice for one variable, its runner-up, and all alternatives.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct VariableExplanation {
    variable: String,
    shape: Vec<usize>,
    bytes: u64,
    choice: SyncChoice,
    runner_up: Option<SyncChoice>,
    /// The cheapest of each other method, in ascending order of time.
    alternatives: Vec<SyncChoice>,
}

/// Strategy with its reasons, for people and, serialized, for programs. The alternate form `{:#}`
/// lists all alternatives of each variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StrategyExplanation {
    peers: usize,
    variables: Vec<VariableExplanation>,
    /// Bytes that all peers send in a step.
    bytes: f64,
    /// Seconds that a step's communication takes.
    seconds: f64,
    /// Peer that sends and receives the most, with its number of bytes.
    busiest: (u32, f64),
}

impl StrategyExplanation {
    /// Predicted seconds of a step's communication.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Lists the cost of each alternative of each variable.
    fn write_alternatives(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for VariableExplanation { variable, choice, alternatives, .. } in &self.variables {
            writeln!(formatter, "{variable}")?;
            let all = std::iter::once((choice, "*")).chain(alternatives.iter().map(|other| (other, " ")));
            for (SyncChoice { method, bytes: sent, seconds: alone }, mark) in all {
                writeln!(formatter, "{mark} {:>9} {:>10}  {method}", seconds(*alone), bytes(*sent))?;
            }
        }
        Ok(())
    }

    /// Predicted bytes that all peers send in a step.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.bytes
    }
}

/// Explains a strategy, which must have been [verified](Strategy::verify).
///
/// # Panics
/// If the cluster has no peers.
#[must_use]
pub fn explain(strategy: &Strategy, model: &ModelSpec, cluster: &ResourceSpec) -> StrategyExplanation {
    let costs = CostModel::new(cluster, &strategy.replicas);
    let load = costs.strategy(model, strategy);
    let known = |plan: &&VariablePlan| model.find(&plan.variable).is_some();
    let variables = strategy.plans.iter().filter(known).map(|plan| {
        let variable = model.find(&plan.variable).expect("only known variables pass the filter");
        explain_variable(plan, variable, cluster, &costs)
    });
    let handled = |peer| load.sent(peer) + load.received(peer);
    let busiest =
        cluster.ranks().max_by(|one, other| handled(*one).total_cmp(&handled(*other))).expect("a cluster has peers");
    StrategyExplanation {
        peers: strategy.peers,
        variables: variables.collect(),
        bytes: load.total(),
        seconds: load.seconds(),
        busiest: (busiest.index() as u32, handled(busiest)),
    }
}

fn explain_variable(
    plan: &VariablePlan,
    variable: &VariableSpec,
    cluster: &ResourceSpec,
    costs: &CostModel<'_>,
) -> VariableExplanation {
    let priced_choice = |plan: &VariablePlan, load: &NetworkLoad, group: &dyn Fn(u32) -> String| SyncChoice {
        method: display::plan(plan, group),
        bytes: load.total(),
        seconds: load.seconds(),
    };
    let in_group = |group: u32| format!("in group {group}");
    let choice = priced_choice(plan, &price(costs, variable, plan), &in_group);
    let mut alternatives: Vec<(MethodKind, SyncChoice)> = Vec::new();
    for other in candidates(variable, cluster).into_iter().filter(|other| MethodKind::of(other) != MethodKind::of(plan))
    {
        let choice = priced_choice(&other, &price(costs, variable, &other), &|_| String::new());
        let choice =
            SyncChoice { method: choice.method.replace("all-reduce ,", "all-reduce,").trim_end().to_owned(), ..choice };
        // One of each method: any peer may serve a variable.
        match alternatives.iter_mut().find(|(kind, _)| *kind == MethodKind::of(&other)) {
            Some((_, best)) if best.seconds <= choice.seconds => {}
            Some((_, best)) => *best = choice,
            None => alternatives.push((MethodKind::of(&other), choice)),
        }
    }
    let mut alternatives: Vec<SyncChoice> = alternatives.into_iter().map(|(_, choice)| choice).collect();
    alternatives.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let runner_up = alternatives.first().cloned();
    VariableExplanation {
        variable: variable.name.clone(),
        shape: variable.shape.clone(),
        bytes: variable.bytes(),
        choice,
        runner_up,
        alternatives,
    }
}

/// Method of a plan, without its peers and groups.
#[derive(PartialEq)]
enum MethodKind {
    AllReduce { two_level: bool },
    Other { synchronizer: Synchronizer, shards: usize, two_level: bool },
}

impl MethodKind {
    fn of(plan: &VariablePlan) -> Self {
        let node = &plan.nodes[0];
        let two_level = node.route.as_ref().is_some_and(|route| route.groups().len() > 1);
        match node.group() {
            Some(_) => Self::AllReduce { two_level },
            None => Self::Other { synchronizer: node.synchronizer.clone(), shards: plan.nodes.len(), two_level },
        }
    }
}

/// Formats a number of bytes with a fitting unit.
fn bytes(count: f64) -> String {
    match count {
        _ if count < 1e3 => format!("{count:.0} B"),
        _ if count < 1e6 => format!("{:.1} kB", count / 1e3),
        _ if count < 1e9 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.2} GB", count / 1e9),
    }
}

/// Formats a time with a fitting unit.
fn seconds(count: f64) -> String {
    match count {
        _ if count < 1e-3 => format!("{:.0} µs", count * 1e6),
        _ if count < 1.0 => format!("{:.1} ms", count * 1e3),
        _ => format!("{count:.2} s"),
    }
}

impl fmt::Display for StrategyExplanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["variable", "size", "synchronized by", "sent", "alone"].map(str::to_owned);
        let mut rows = vec![heads];
        let mut second = vec!["runner-up".to_owned()];
        for decided in &self.variables {
            let VariableExplanation { variable, shape, choice, .. } = decided;
            let size = format!("{} {shape:?}", bytes(decided.bytes as f64));
            rows.push([variable.clone(), size, choice.method.clone(), bytes(choice.bytes), seconds(choice.seconds)]);
            second.push(
                decided
                    .runner_up
                    .as_ref()
                    .map_or_else(String::new, |other| format!("{}: {}", other.method, seconds(other.seconds))),
            );
        }
        let mut widths = [0; 5];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (row, second) in rows.iter().zip(&second) {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                // Numbers are right-aligned.
                let padded = if column < 3 { format!("{cell:width$}  ") } else { format!("{cell:>width$}  ") };
                line.push_str(&padded);
            }
            line.push_str(second);
            writeln!(formatter, "{}", line.trim_end())?;
        }
        if formatter.alternate() {
            self.write_alternatives(formatter)?;
        }
        let (peer, most) = self.busiest;
        writeln!(
            formatter,
            "a step of {} peers sends {} in about {}; peer {peer} sends and receives the most, {}",
            self.peers,
            bytes(self.bytes),
            seconds(self.seconds),
            bytes(most)
        )
    }
}
