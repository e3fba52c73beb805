//! The built-in update rules as plain data, for servers that do not run the user program.
//!
//! A [`BuiltInRule`] travels in a message and creates a fresh rule with the same settings. A
//! user-defined rule has no such form: its code exists only in the user program.

use super::{AdaGrad, AdaRevision, Adam, Addition, Sgd, UpdateRule};
use crate::dtype::{ComputeType, FloatType};
use serde::{Deserialize, Serialize};

/// Settings of a built-in update rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BuiltInRule {
    /// Plain [`Addition`], without settings.
    Add,
    /// [`Sgd`] with its settings.
    Sgd {
        /// Learning rate of the rule.
        learning_rate: f64,
    },
    /// [`AdaGrad`] with its settings.
    AdaGrad {
        /// Initial learning rate of the rule.
        learning_rate: f64,
    },
    /// [`Adam`] with its settings.
    Adam {
        /// Learning rate of the rule.
        learning_rate: f64,
        /// Decay rates of the two moving averages.
        betas: (f64, f64),
    },
    /// [`AdaRevision`] with its settings.
    AdaRevision {
        /// Initial learning rate of the rule.
        learning_rate: f64,
        /// Bound of versions that a shard keeps; `None` if updates carry the old sums.
        snapshots: Option<u64>,
    },
}

/// Compute type for which built-in rules can be created.
pub trait RuleScalar: ComputeType {
    /// Creates the rule; `None` if it does not support this type.
    fn instantiate(rule: &BuiltInRule) -> Option<Box<dyn UpdateRule<Self>>>;
}

fn real<W: FloatType>(rule: &BuiltInRule) -> Box<dyn UpdateRule<W>> {
    match *rule {
        BuiltInRule::Add => Box::new(Addition),
        BuiltInRule::Sgd { learning_rate } => Box::new(Sgd::new(learning_rate)),
        BuiltInRule::AdaGrad { learning_rate } => Box::new(AdaGrad::new(learning_rate)),
        BuiltInRule::Adam { learning_rate, betas: (beta1, beta2) } => {
            Box::new(Adam::new(learning_rate).betas(beta1, beta2))
        }
        BuiltInRule::AdaRevision { learning_rate, snapshots: None } => Box::new(AdaRevision::new(learning_rate)),
        BuiltInRule::AdaRevision { learning_rate, snapshots: Some(bound) } => {
            Box::new(AdaRevision::with_snapshots(learning_rate, usize::try_from(bound).unwrap_or(usize::MAX)))
        }
    }
}

impl RuleScalar for f32 {
    fn instantiate(rule: &BuiltInRule) -> Option<Box<dyn UpdateRule<Self>>> {
        Some(real(rule))
    }
}

impl RuleScalar for f64 {
    fn instantiate(rule: &BuiltInRule) -> Option<Box<dyn UpdateRule<Self>>> {
        Some(real(rule))
    }
}

impl RuleScalar for i32 {
    fn instantiate(rule: &BuiltInRule) -> Option<Box<dyn UpdateRule<Self>>> {
        (*rule == BuiltInRule::Add).then(|| Box::new(Addition) as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_survives_the_round_trip_through_data() {
        let all: [Box<dyn UpdateRule<f64>>; 6] = [
            Box::new(Addition),
            Box::new(Sgd::new(0.25)),
            Box::new(AdaGrad::new(0.5)),
            Box::new(Adam::new(0.1).betas(0.8, 0.9)),
            Box::new(AdaRevision::new(0.3)),
            Box::new(AdaRevision::with_snapshots(0.3, 17)),
        ];
        for original in all {
            let rule = original.built_in().expect("it is built in");
            let again = f64::instantiate(&rule).expect("floating-point types support all rules");
            assert_eq!((format!("{again:?}"), again.built_in()), (format!("{original:?}"), Some(rule)));
        }
    }

    #[test]
    fn integers_support_only_addition() {
        assert!(i32::instantiate(&BuiltInRule::Add).is_some());
        assert!(i32::instantiate(&BuiltInRule::Sgd { learning_rate: 0.1 }).is_none());
    }
}
