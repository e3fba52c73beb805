//! The built-in update rules as plain data, for servers that do not run the user program.
//!
//! A [`BuiltInRule`] travels in a message and creates a fresh rule with the same settings. A
//! user-defined rule has no such form: its code exists only in the user program.

use super::{Addition, SnapshotAdaRevision, UpdateRule};
use crate::dtype::ComputeType;
use hemiola_optim::{AdaGrad, AdaRevision, Adam, Float, Sgd};
use serde::{Deserialize, Serialize};

/// Settings of a built-in update rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BuiltInRule {
    /// Plain [`Addition`], without settings.
    Add,
    /// [`Sgd`] with its settings.
    Sgd(Sgd),
    /// [`AdaGrad`] with its settings.
    AdaGrad(AdaGrad),
    /// [`Adam`] with its settings.
    Adam(Adam),
    /// [`AdaRevision`] with its settings; updates carry the old sums.
    AdaRevision(AdaRevision),
    /// [`SnapshotAdaRevision`] with its settings.
    SnapshotAdaRevision {
        /// Initial learning rate of the rule.
        learning_rate: f64,
        /// Number of kept versions at which a shard stops eager pushes.
        bound: u64,
    },
}

/// Compute type for which built-in rules can be created.
pub trait RuleScalar: ComputeType {
    /// Creates the rule; `None` if it does not support this type.
    fn instantiate(rule: &BuiltInRule) -> Option<Box<dyn UpdateRule<Self>>>;
}

fn real<W: ComputeType + Float>(rule: &BuiltInRule) -> Box<dyn UpdateRule<W>> {
    match *rule {
        BuiltInRule::Add => Box::new(Addition),
        BuiltInRule::Sgd(rule) => Box::new(rule),
        BuiltInRule::AdaGrad(rule) => Box::new(rule),
        BuiltInRule::Adam(rule) => Box::new(rule),
        BuiltInRule::AdaRevision(rule) => Box::new(rule),
        BuiltInRule::SnapshotAdaRevision { learning_rate, bound } => {
            Box::new(SnapshotAdaRevision::new(learning_rate, usize::try_from(bound).unwrap_or(usize::MAX)))
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
    use crate::cells::RowCells;
    use crate::update_rule::RowUpdate;

    fn all_rules() -> [Box<dyn UpdateRule<f64>>; 6] {
        [
            Box::new(Addition),
            Box::new(Sgd::new(0.25)),
            Box::new(AdaGrad { epsilon: 1e-3, ..AdaGrad::new(0.5) }),
            Box::new(Adam::new(0.1).betas(0.8, 0.9)),
            Box::new(AdaRevision::new(0.3)),
            Box::new(SnapshotAdaRevision::new(0.3, 17)),
        ]
    }

    #[test]
    fn sparse_updates_of_all_columns_equal_dense_updates() {
        const WIDTH: usize = 5;
        for rule in all_rules() {
            let (mut row, mut state) = ([0.5_f64; WIDTH], vec![0.0; rule.state_width(WIDTH)]);
            rule.init_row(3, &mut row, &mut state);
            let (mut other_row, mut other_state) = (row, state.clone());
            for step in 0..20_u32 {
                let values: [f64; WIDTH] = std::array::from_fn(|column| f64::from(step + column as u32).sin());
                let attachment: Vec<f64> = rule.attachment(&state).iter().map(|sum| 0.9 * sum).collect();
                let dense = RowUpdate { key: 3, version: 0, cells: RowCells::Dense(&values), attachment: &attachment };
                let cells = RowCells::Sparse { columns: &[0, 1, 2, 3, 4], values: &values };
                rule.apply(&dense, &mut row, &mut state).unwrap();
                rule.apply(&RowUpdate { cells, ..dense }, &mut other_row, &mut other_state).unwrap();
                assert_eq!((row.map(f64::to_bits), &state), (other_row.map(f64::to_bits), &other_state), "{rule:?}");
            }
        }
    }

    #[test]
    fn a_rule_survives_the_round_trip_through_data() {
        for original in all_rules() {
            let rule = original.built_in().expect("it is built in");
            let again = f64::instantiate(&rule).expect("floating-point types support all rules");
            assert_eq!((format!("{again:?}"), again.built_in()), (format!("{original:?}"), Some(rule)));
        }
    }

    #[test]
    fn integers_support_only_addition() {
        assert!(i32::instantiate(&BuiltInRule::Add).is_some());
        assert!(i32::instantiate(&BuiltInRule::Sgd(Sgd::new(0.1))).is_none());
    }
}
