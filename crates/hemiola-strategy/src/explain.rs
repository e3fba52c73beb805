//! Why a strategy is as it is: each variable with its choice, what that sends, how long it takes, and what would have been second.

use crate::builders::{candidates, price};
use crate::cluster::Cluster;
use crate::cost::{Costs, Load};
use crate::model::{Model, Variable};
use crate::show;
use crate::strategy::{Plan, Strategy};
use serde::Serialize;
use std::fmt;

/// One way to keep a variable equal, and its price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// In words.
    pub way: String,
    /// Bytes that all peers send for it in a step.
    pub bytes: f64,
    /// Seconds that it takes if it is alone.
    pub seconds: f64,
}

/// What is decided for a variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Decided {
    variable: String,
    shape: Vec<usize>,
    bytes: u64,
    choice: Choice,
    runner_up: Option<Choice>,
}

/// A strategy with its reasons, for people and, serialized, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    peers: usize,
    variables: Vec<Decided>,
    /// Bytes that all peers send in a step.
    bytes: f64,
    /// Seconds that a step's communication takes.
    seconds: f64,
    /// The peer that sends and receives the most, and how many bytes.
    busiest: (u32, f64),
}

impl Explanation {
    /// Seconds that a step's communication is predicted to take.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Bytes that all peers are predicted to send in a step.
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
pub fn explain(strategy: &Strategy, model: &Model, cluster: &Cluster) -> Explanation {
    let costs = Costs::new(cluster, &strategy.replicas);
    let load = costs.strategy(model, strategy);
    let known = |plan: &&Plan| model.find(&plan.variable).is_some();
    let variables = strategy.plans.iter().filter(known).map(|plan| {
        let variable = model.find(&plan.variable).expect("it was just found");
        decided(plan, variable, cluster, &costs)
    });
    let handled = |peer| load.sent(peer) + load.received(peer);
    let busiest =
        cluster.ranks().max_by(|one, other| handled(*one).total_cmp(&handled(*other))).expect("a cluster has peers");
    Explanation {
        peers: strategy.peers,
        variables: variables.collect(),
        bytes: load.total(),
        seconds: load.seconds(),
        busiest: (busiest.index() as u32, handled(busiest)),
    }
}

fn decided(plan: &Plan, variable: &Variable, cluster: &Cluster, costs: &Costs<'_>) -> Decided {
    let told = |plan: &Plan, load: &Load, group: &dyn Fn(u32) -> String| Choice {
        way: show::plan(plan, group),
        bytes: load.total(),
        seconds: load.seconds(),
    };
    let in_group = |group: u32| format!("in group {group}");
    let choice = told(plan, &price(costs, variable, plan), &in_group);
    let kind = |plan: &Plan| (plan.nodes[0].synchronizer.clone(), plan.nodes.len());
    let same = |other: &Plan| match (plan.nodes[0].group(), other.nodes[0].group()) {
        (Some(_), Some(_)) => true,
        _ => kind(plan) == kind(other),
    };
    let others = candidates(variable, cluster).into_iter().filter(|other| !same(other));
    let priced = others.map(|other| told(&other, &price(costs, variable, &other), &|_| String::new()));
    let runner_up = priced.min_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let runner_up = runner_up.map(|choice| Choice { way: choice.way.trim_end().to_owned(), ..choice });
    Decided {
        variable: variable.name.clone(),
        shape: variable.shape.clone(),
        bytes: variable.bytes(),
        choice,
        runner_up,
    }
}

/// A number of bytes in the unit that fits.
fn bytes(count: f64) -> String {
    match count {
        _ if count < 1e3 => format!("{count:.0} B"),
        _ if count < 1e6 => format!("{:.1} kB", count / 1e3),
        _ if count < 1e9 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.2} GB", count / 1e9),
    }
}

/// A time in the unit that fits.
fn seconds(count: f64) -> String {
    match count {
        _ if count < 1e-3 => format!("{:.0} µs", count * 1e6),
        _ if count < 1.0 => format!("{:.1} ms", count * 1e3),
        _ => format!("{count:.2} s"),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["variable", "size", "kept equal by", "sent", "alone"].map(str::to_owned);
        let mut rows = vec![heads];
        let mut second = vec!["otherwise".to_owned()];
        for decided in &self.variables {
            let Decided { variable, shape, choice, .. } = decided;
            let size = format!("{} {shape:?}", bytes(decided.bytes as f64));
            rows.push([variable.clone(), size, choice.way.clone(), bytes(choice.bytes), seconds(choice.seconds)]);
            second.push(
                decided
                    .runner_up
                    .as_ref()
                    .map_or_else(String::new, |other| format!("{}: {}", other.way, seconds(other.seconds))),
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
                // Numbers are read from their end.
                let padded = if column < 3 { format!("{cell:width$}  ") } else { format!("{cell:>width$}  ") };
                line.push_str(&padded);
            }
            line.push_str(second);
            writeln!(formatter, "{}", line.trim_end())?;
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
