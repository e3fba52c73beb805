//! Chosen plans and their texts. The expected texts are the specification of `explain`.

use super::run;
use hemiola::array::DistArray;
use hemiola::cluster::{Cluster, Result};
use hemiola::loops::LoopPlan;
use hemiola::loops::plan::{ArrayPlacement, LoopSchedule};
use hemiola::prelude::*;

fn ratings(
    cluster: &Cluster,
    users: usize,
    items: usize,
    keep: impl Fn(usize, usize) -> bool + Sync,
) -> Result<DistArray<f32, 2>> {
    let all = cluster.from_fn([users, items], |[u, i]| (u + i) as f32)?;
    all.entries().filter(|[u, i], _| keep(u, i)).materialize()
}

fn factorize(cluster: &Cluster, ratings: &DistArray<f32, 2>) -> Result<LoopPlan> {
    let [users, items] = ratings.shape().extents();
    let (mut w, mut h) =
        (cluster.uniform([users, 8], 0.0..0.5, Seed(1))?, cluster.uniform([items, 8], 0.0..0.5, Seed(2))?);
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let (wu, hi) = (&mut w[u], &mut h[i]);
            let error = rating - wu.iter().zip(&*hi).map(|(a, b)| a * b).sum::<f32>();
            for k in 0..8 {
                let (a, b) = (wu[k], hi[k]);
                wu[k] += 1e-5 * error * b;
                hi[k] += 1e-5 * error * a;
            }
        }
    )?;
    Ok(run.plan().clone())
}

/// Text of a plan without its title, its costs, which change with the cost model, and its line
/// numbers, which change with this file.
fn text(plan: &LoopPlan) -> String {
    let text = plan.to_string();
    let (_, rest) = text.split_once(", over ").expect("a title");
    let (rest, costs) = rest.split_once("  cost of a pass: ").expect("costs");
    assert!(costs.contains("alternative, serial: "), "{costs}");
    let mut parts = rest.split("(line ");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| text + "(line _" + part.trim_start_matches(|c: char| c.is_ascii_digit()));
    text.trim_end().to_owned()
}

#[test]
fn the_smaller_factor_rotates() {
    for (users, items) in [(1200, 60), (60, 1200)] {
        let plans = run(2, 2, |cluster| factorize(cluster, &ratings(cluster, users, items, |u, i| (u + i) % 3 > 0)?));
        for plan in &plans {
            assert!(matches!(plan.cuts.schedule, LoopSchedule::Rotation { .. }), "{plan}");
            let placement = |name: &str| plan.arrays.iter().find(|array| array.name == name).unwrap().placement;
            let (kept, moved) = if users > items { ("w", "h") } else { ("h", "w") };
            assert_eq!(placement(kept), ArrayPlacement::Local { offset: 0 }, "{plan}");
            assert_eq!(placement(moved), ArrayPlacement::Rotating { offset: 0 }, "{plan}");
            assert_eq!(*plan, plans[0]);
        }
    }
}

#[test]
fn parts_are_balanced_by_entry_counts() {
    // A tenth of the users have nine tenths of the entries.
    let plans = run(2, 2, |cluster| factorize(cluster, &ratings(cluster, 1000, 100, |u, i| u < 100 || i % 10 == 0)?));
    let plan = &plans[0];
    assert!(plan.cuts.parts() == 4 && plan.cost.imbalance < 1.1, "{plan}");
    assert!(plan.cuts.space[1] < 60, "{plan}");
}

#[test]
fn independent_parts_are_preferred_to_rotation() {
    run(2, 2, |cluster| {
        let entries = ratings(cluster, 400, 100, |u, i| (u + i) % 2 > 0)?;
        let (mut w, h) = (cluster.zeros::<f32, 1>([400])?, cluster.uniform([100], 0.0..1.0, Seed(1))?);
        let run = parallel_for!(
            cluster,
            for ([u, i], rating) in &entries {
                w[u] += rating * h[i];
            }
        )?;
        assert_eq!((run.plan().cuts.schedule, run.plan().dimensions), (LoopSchedule::Independent, (0, None)));
        Ok(())
    });
}

#[test]
fn a_loop_with_unknown_dependences_runs_on_one_worker() {
    run(2, 2, |cluster| {
        let mut array = cluster.zeros::<u64, 1>([50])?;
        let next: Vec<usize> = (0..20_000).map(|at| at * 7 % 50).collect();
        let run = parallel_for!(
            cluster,
            for at in 0..20_000 {
                array[next[at]] = array[0].wrapping_mul(3).wrapping_add(1);
            }
        )?;
        let plan = run.plan();
        assert_eq!((plan.cuts.parts(), plan.cuts.peers_used), (1, 1), "{plan}");
        assert!(plan.to_string().contains("on one worker"), "{plan}");
        Ok(())
    });
}

#[test]
fn plans_serialize_and_print() {
    let plans = run(2, 2, |cluster| factorize(cluster, &ratings(cluster, 1200, 60, |u, i| (u + i) % 3 > 0)?));
    let back: LoopPlan = serde_json::from_str(&plans[0].to_json()).unwrap();
    assert_eq!((&back.analysis, &back.cuts, &back.arrays), (&plans[0].analysis, &plans[0].cuts, &plans[0].arrays));
    let expected = include_str!("plans/factorization.txt");
    assert_eq!(text(&plans[0]), expected.trim_end(), "the text of the plan is now:\n{}", text(&plans[0]));
}

#[test]
fn a_stencil_runs_as_a_wavefront() {
    let plans = run(1, 2, |cluster| {
        let mut a = cluster.zeros::<f32, 2>([400, 400])?;
        let run = parallel_for!(
            cluster,
            ordered,
            for [i, j] in [1..399, 1..399] {
                a[[i, j]] = (a[[i - 1, j]] + a[[i, j - 1]] + a[[i + 1, j]] + a[[i, j + 1]]) / 4.0;
            }
        )?;
        Ok(run.plan().clone())
    });
    let expected = include_str!("plans/stencil.txt");
    assert_eq!(text(&plans[0]), expected.trim_end(), "the text of the plan is now:\n{}", text(&plans[0]));
}
