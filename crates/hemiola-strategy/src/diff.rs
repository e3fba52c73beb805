//! How two strategies differ.

use crate::strategy::Strategy;
use std::fmt;

/// One thing that two strategies decide differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The variable, if it is about one.
    pub variable: Option<String>,
    /// What the first says; nothing if it says nothing of the variable.
    pub before: Option<String>,
    /// What the second says.
    pub after: Option<String>,
}

impl fmt::Display for Difference {
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
    /// What `other` decides differently, in the order of this strategy's variables and then of the other's. Numbers of groups are names: only who shares one matters.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        if self.replicas != other.replicas {
            let said = |strategy: &Self| Some(format!("on {}", crate::show::ranks(&strategy.replicas)));
            differences.push(Difference { variable: None, before: said(self), after: said(other) });
        }
        for plan in &self.plans {
            let (before, after) = (self.said_of(&plan.variable), other.said_of(&plan.variable));
            if before != after {
                differences.push(Difference { variable: Some(plan.variable.clone()), before, after });
            }
        }
        for plan in other.plans.iter().filter(|plan| self.plan(&plan.variable).is_none()) {
            let after = other.said_of(&plan.variable);
            differences.push(Difference { variable: Some(plan.variable.clone()), before: None, after });
        }
        differences
    }

    fn said_of(&self, variable: &str) -> Option<String> {
        self.plan(variable).map(|plan| {
            let shape = format!("{:?} ", plan.shape);
            shape + &crate::show::plan(plan, &|group| self.companions(group, variable))
        })
    }

    /// Who travels in the same message, as a name for a group that does not depend on its number.
    fn companions(&self, group: u32, variable: &str) -> String {
        let shares = |plan: &&crate::strategy::Plan| plan.nodes.iter().any(|node| node.group() == Some(group));
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
