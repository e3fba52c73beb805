//! Differences between two strategies.

use crate::strategy::Strategy;
use std::fmt;

/// Single difference between two strategies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyDifference {
    /// Name of the variable, if the difference concerns one.
    pub variable: Option<String>,
    /// Description in the first strategy; `None` if it does not mention the variable.
    pub before: Option<String>,
    /// Description in the second strategy.
    pub after: Option<String>,
}

impl fmt::Display for StrategyDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.variable.as_deref().unwrap_or("training");
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(formatter, "{name}: {before} -> {after}"),
            (Some(before), None) => write!(formatter, "{name}: {before} -> nothing"),
            (None, after) => write!(formatter, "{name}: nothing -> {}", after.as_deref().unwrap_or("nothing")),
        }
    }
}

impl Strategy {
    /// Returns the differences of `other`, in the order of this strategy's variables and then of
    /// the other's. Group numbers are arbitrary: only the members of a group matter.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<StrategyDifference> {
        let mut differences = Vec::new();
        if self.replicas != other.replicas {
            let description = |strategy: &Self| Some(format!("on {}", crate::display::ranks(&strategy.replicas)));
            differences.push(StrategyDifference {
                variable: None,
                before: description(self),
                after: description(other),
            });
        }
        for plan in &self.plans {
            let (before, after) = (self.describe_variable(&plan.variable), other.describe_variable(&plan.variable));
            if before != after {
                differences.push(StrategyDifference { variable: Some(plan.variable.clone()), before, after });
            }
        }
        for plan in other.plans.iter().filter(|plan| self.plan(&plan.variable).is_none()) {
            let after = other.describe_variable(&plan.variable);
            differences.push(StrategyDifference { variable: Some(plan.variable.clone()), before: None, after });
        }
        differences
    }

    fn describe_variable(&self, variable: &str) -> Option<String> {
        self.plan(variable).map(|plan| {
            let shape = format!("{:?} ", plan.shape);
            shape + &crate::display::plan(plan, &|group| self.companions(group, variable))
        })
    }

    /// Members of a group other than this variable, as a name that does not depend on the group's
    /// number.
    fn companions(&self, group: u32, variable: &str) -> String {
        let shares = |plan: &&crate::strategy::VariablePlan| plan.nodes.iter().any(|node| node.group() == Some(group));
        let others: Vec<&str> = self
            .plans
            .iter()
            .filter(shares)
            .map(|plan| plan.variable.as_str())
            .filter(|name| *name != variable)
            .collect();
        match others.as_slice() {
            [] => "alone".to_owned(),
            [one] => format!("with {one}"),
            [first, .., last] => format!("with {first} to {last} ({})", others.len()),
        }
    }
}
