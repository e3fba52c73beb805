//! Only what touches need.
//!
//! Goes through the steps backwards, like dead-code elimination: a touch stays; a definition or a change stays if what comes
//! later needs it; a condition or loop stays if something in it does; a jump stays if it jumps over something.

use std::collections::BTreeSet;

use syn::Expr;

use super::effects::{bindings, effects, mentioned};
use super::steps::{Step, uses};
use crate::syntax::names::Names;

/// Keeps what touches need. `needed`: locals that are needed so far, from the end backwards. `goes_on`: whether anything kept comes
/// after these steps, so that jumps matter.
pub(super) fn prune(steps: Vec<Step>, names: &Names, needed: &mut BTreeSet<usize>, goes_on: bool) -> Vec<Step> {
    let mut kept: Vec<Step> = Vec::new();
    for step in steps.into_iter().rev() {
        let goes_on = goes_on || !kept.is_empty();
        let changes =
            |expr: &Expr, needed: &BTreeSet<usize>| effects(names, expr).iter().any(|local| needed.contains(local));
        let step = match step {
            Step::Touch { .. } => Some(step),
            Step::Item(_) => (!kept.is_empty()).then_some(step),
            Step::Jump(_) => goes_on.then_some(step),
            Step::Bind { ref local, .. } => {
                let bound = bindings(names, &local.pat);
                let init = local.init.as_ref();
                let wanted = bound.iter().any(|local| needed.contains(local))
                    || init.is_some_and(|init| changes(&init.expr, needed))
                    || (goes_on && init.is_some_and(|init| init.diverge.is_some()));
                wanted.then_some(step)
            }
            Step::Change { ref statement } => changes(statement, needed).then_some(step),
            Step::If { condition, then, otherwise } => {
                let then = prune(then, names, needed, goes_on);
                let otherwise = prune(otherwise, names, needed, goes_on);
                let wanted = !then.is_empty() || !otherwise.is_empty() || changes(&condition, needed);
                wanted.then_some(Step::If { condition, then, otherwise })
            }
            Step::Match { value, arms } => {
                let arms: Vec<_> =
                    arms.into_iter().map(|(arm, steps)| (arm, prune(steps, names, needed, goes_on))).collect();
                let wanted = arms.iter().any(|(_, steps)| !steps.is_empty()) || changes(&value, needed);
                wanted.then_some(Step::Match { value, arms })
            }
            Step::For { label, pattern, iterator, body } => {
                let body = prune_loop(&body, names, needed, goes_on, &[&iterator]);
                (!body.is_empty()).then_some(Step::For { label, pattern, iterator, body })
            }
            Step::While { label, condition, body } => {
                let body = prune_loop(&body, names, needed, goes_on, &[&condition]);
                let wanted = !body.is_empty() || changes(&condition, needed);
                wanted.then_some(Step::While { label, condition, body })
            }
            Step::Loop { label, body } => {
                let body = prune_loop(&body, names, needed, goes_on, &[]);
                (!body.is_empty()).then_some(Step::Loop { label, body })
            }
            Step::Block { label, body } => {
                let body = prune(body, names, needed, goes_on);
                (!body.is_empty()).then_some(Step::Block { label, body })
            }
        };
        if let Some(step) = step {
            needed.extend(uses(&step, names));
            kept.push(step);
        }
    }
    kept.reverse();
    kept
}

/// The body of a loop may need in one round what it changed in the round before: repeated until nothing is added.
fn prune_loop(
    body: &[Step],
    names: &Names,
    needed: &mut BTreeSet<usize>,
    goes_on: bool,
    header: &[&Expr],
) -> Vec<Step> {
    // If nothing in it is wanted but its own jumps, neither is the loop, unless it jumps over what comes after it.
    let first = prune(body.to_vec(), names, &mut needed.clone(), goes_on && body.iter().any(step_leaves));
    if first.is_empty() {
        return first;
    }
    needed.extend(header.iter().flat_map(|expr| mentioned(names, expr)));
    loop {
        let before = needed.len();
        let kept = prune(body.to_vec(), names, needed, true);
        if needed.len() == before {
            return kept;
        }
    }
}

/// Whether a step may leave the loop around it for more than that loop.
fn step_leaves(step: &Step) -> bool {
    match step {
        Step::Jump(Expr::Return(_)) => true,
        Step::Jump(Expr::Break(jump)) => jump.label.is_some(),
        Step::Jump(Expr::Continue(jump)) => jump.label.is_some(),
        Step::Item(_) | Step::Touch { .. } | Step::Bind { .. } | Step::Change { .. } | Step::Jump(_) => false,
        Step::If { then, otherwise, .. } => then.iter().chain(otherwise).any(step_leaves),
        Step::Match { arms, .. } => arms.iter().any(|(_, steps)| steps.iter().any(step_leaves)),
        Step::For { body, .. } | Step::While { body, .. } | Step::Loop { body, .. } | Step::Block { body, .. } => {
            body.iter().any(step_leaves)
        }
    }
}
