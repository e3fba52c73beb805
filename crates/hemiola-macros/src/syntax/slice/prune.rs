//! Removal of the steps that no touch needs.
//!
//! The pass runs through the steps backwards, like dead-code elimination. A touch stays. A
//! definition or a change stays if later steps need it. A condition or loop stays if a step inside
//! it stays. A jump stays if it skips something.

use std::collections::BTreeSet;

use syn::Expr;

use super::effects::{bindings, changed_locals, mentioned_locals};
use super::steps::{SliceStep, uses};
use crate::syntax::names::NameTable;

/// Keeps the steps that touches need. `needed`: locals that are needed so far, from the end
/// backwards. `has_later_steps`: a kept step follows these steps, so that jumps matter.
pub(super) fn prune(
    steps: Vec<SliceStep>,
    names: &NameTable,
    needed: &mut BTreeSet<usize>,
    has_later_steps: bool,
) -> Vec<SliceStep> {
    let mut kept: Vec<SliceStep> = Vec::new();
    for step in steps.into_iter().rev() {
        let has_later_steps = has_later_steps || !kept.is_empty();
        let changes = |expr: &Expr, needed: &BTreeSet<usize>| {
            changed_locals(names, expr).iter().any(|local| needed.contains(local))
        };
        let step = match step {
            SliceStep::Touch { .. } => Some(step),
            SliceStep::Item(_) => (!kept.is_empty()).then_some(step),
            SliceStep::Jump(_) => has_later_steps.then_some(step),
            SliceStep::Bind { ref local, .. } => {
                let bound = bindings(names, &local.pat);
                let init = local.init.as_ref();
                let wanted = bound.iter().any(|local| needed.contains(local))
                    || init.is_some_and(|init| changes(&init.expr, needed))
                    || (has_later_steps && init.is_some_and(|init| init.diverge.is_some()));
                wanted.then_some(step)
            }
            SliceStep::Change { ref statement } => changes(statement, needed).then_some(step),
            SliceStep::If { condition, then, otherwise } => {
                let then = prune(then, names, needed, has_later_steps);
                let otherwise = prune(otherwise, names, needed, has_later_steps);
                let wanted = !then.is_empty() || !otherwise.is_empty() || changes(&condition, needed);
                wanted.then_some(SliceStep::If { condition, then, otherwise })
            }
            SliceStep::Match { value, arms } => {
                let arms: Vec<_> =
                    arms.into_iter().map(|(arm, steps)| (arm, prune(steps, names, needed, has_later_steps))).collect();
                let wanted = arms.iter().any(|(_, steps)| !steps.is_empty()) || changes(&value, needed);
                wanted.then_some(SliceStep::Match { value, arms })
            }
            SliceStep::For { label, pattern, iterator, body } => {
                let body = prune_loop(&body, names, needed, has_later_steps, &[&iterator]);
                (!body.is_empty()).then_some(SliceStep::For { label, pattern, iterator, body })
            }
            SliceStep::While { label, condition, body } => {
                let body = prune_loop(&body, names, needed, has_later_steps, &[&condition]);
                let wanted = !body.is_empty() || changes(&condition, needed);
                wanted.then_some(SliceStep::While { label, condition, body })
            }
            SliceStep::Loop { label, body } => {
                let body = prune_loop(&body, names, needed, has_later_steps, &[]);
                (!body.is_empty()).then_some(SliceStep::Loop { label, body })
            }
            SliceStep::Block { label, body } => {
                let body = prune(body, names, needed, has_later_steps);
                (!body.is_empty()).then_some(SliceStep::Block { label, body })
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

/// Prunes the body of a loop. An iteration may need values that the one before it changed, so the
/// pass is repeated until nothing is added.
fn prune_loop(
    body: &[SliceStep],
    names: &NameTable,
    needed: &mut BTreeSet<usize>,
    has_later_steps: bool,
    header: &[&Expr],
) -> Vec<SliceStep> {
    // A loop that would keep only its own jumps is removed, unless it jumps over later steps.
    let first = prune(body.to_vec(), names, &mut needed.clone(), has_later_steps && body.iter().any(step_leaves));
    if first.is_empty() {
        return first;
    }
    needed.extend(header.iter().flat_map(|expr| mentioned_locals(names, expr)));
    loop {
        let before = needed.len();
        let kept = prune(body.to_vec(), names, needed, true);
        if needed.len() == before {
            return kept;
        }
    }
}

/// Returns whether a step may jump further than to the end of the innermost loop around it.
fn step_leaves(step: &SliceStep) -> bool {
    match step {
        SliceStep::Jump(Expr::Return(_)) => true,
        SliceStep::Jump(Expr::Break(jump)) => jump.label.is_some(),
        SliceStep::Jump(Expr::Continue(jump)) => jump.label.is_some(),
        SliceStep::Item(_)
        | SliceStep::Touch { .. }
        | SliceStep::Bind { .. }
        | SliceStep::Change { .. }
        | SliceStep::Jump(_) => false,
        SliceStep::If { then, otherwise, .. } => then.iter().chain(otherwise).any(step_leaves),
        SliceStep::Match { arms, .. } => arms.iter().any(|(_, steps)| steps.iter().any(step_leaves)),
        SliceStep::For { body, .. }
        | SliceStep::While { body, .. }
        | SliceStep::Loop { body, .. }
        | SliceStep::Block { body, .. } => body.iter().any(step_leaves),
    }
}
