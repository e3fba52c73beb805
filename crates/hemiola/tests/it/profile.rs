//! Profiles: measurements of one peer suffice to plan a loop for any cluster.

use hemiola::loops::profile::{AlignedArray, InvalidProfile};
use hemiola::loops::{LoopPlan, LoopProfile};
use hemiola::prelude::*;

type Matrix = DistArray<f32, 2>;

/// Skewed entries: few with low keys, many with high keys.
fn skewed(cluster: &Cluster, [users, items]: [usize; 2]) -> hemiola::cluster::Result<Matrix> {
    let all = cluster.from_fn([users, items], |[u, i]| (u + i) as f32)?;
    all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 7 < 3 * u / users + 3 * i / items).materialize()
}

/// Runs two passes of a loop with rotation and profiles them.
fn profiled(cluster: &Cluster, [users, items]: [usize; 2]) -> hemiola::cluster::Result<(LoopPlan, LoopProfile)> {
    let ratings = skewed(cluster, [users, items])?;
    let (mut w, mut h) =
        (cluster.uniform([users, 4], 0.0..1.0, Seed(1))?, cluster.uniform([items, 4], 0.0..1.0, Seed(2))?);
    let mut found = None;
    for _ in 0..2 {
        let run = parallel_for!(
            cluster,
            for ([u, i], rating) in &ratings {
                let (wu, hi) = (&mut w[u], &mut h[i]);
                let error: f32 = rating - wu.iter().zip(hi.iter()).map(|(a, b)| a * b).sum::<f32>();
                for k in 0..4 {
                    (wu[k], hi[k]) = (wu[k] + 1e-4 * error * hi[k], hi[k] + 1e-4 * error * wu[k]);
                }
            }
        )?;
        let (_, mut profile) = match found.take() {
            Some(before) => before,
            None => (run.plan().clone(), LoopProfile::from_entries(&run, &ratings)?),
        };
        profile.add_run(&run);
        found = Some((run.plan().clone(), profile));
    }
    Ok(found.expect("there were two passes"))
}

const SMALL: [usize; 2] = [90, 70];

fn on(peers: usize, workers: usize, extents: [usize; 2]) -> (LoopPlan, LoopProfile) {
    let program = |cluster: &Cluster| profiled(cluster, extents);
    hemiola::cluster::standalone(peers).workers(workers).run(program).unwrap().remove(0)
}

fn single_peer_profile(workers: usize) -> LoopProfile {
    on(1, workers, SMALL).1
}

#[test]
fn the_plan_from_a_profile_of_one_peer_is_that_of_the_cluster() {
    for own in [1, 2] {
        let profile = LoopProfile::from_json(&single_peer_profile(own).to_json()).unwrap();
        for (peers, workers) in [(1, 2), (2, 1), (2, 2), (4, 1)] {
            let real = on(peers, workers, SMALL).0;
            let planned = profile.plan(peers, workers).unwrap();
            assert_eq!(planned.parallelization, real.parallelization, "{planned}\n{real}");
            assert_eq!(planned.cuts, real.cuts, "{planned}\n{real}");
            assert_eq!(planned.arrays, real.arrays);
            assert_eq!(profile.unsupported(&planned), None);
            let entries = profile.entries_of(&planned).unwrap();
            assert_eq!(entries.len(), planned.cuts.parts() * planned.cuts.times());
            assert_eq!(entries.iter().sum::<u64>(), profile.description.entries);
            let travels = profile.rotating_arrays(&planned);
            assert!(travels.iter().all(|array| array.row_bytes == 16 && array.rows.len() == planned.cuts.times()));
            let rows: usize = travels.iter().flat_map(|array| &array.rows).map(|rows| rows.end - rows.start).sum();
            assert!([70, 90].contains(&rows), "all rows of one of the arrays: {rows}");
        }
    }
}

#[test]
fn a_joint_histogram_over_ranges_gives_the_plan_of_the_cluster() {
    let extents = [700, 450];
    let profile = on(1, 1, extents).1;
    for peers in [2, 4] {
        let (real, planned) = (on(peers, 1, extents).0, profile.plan(peers, 1).unwrap());
        assert_eq!((&planned.parallelization, &planned.cuts), (&real.parallelization, &real.cuts), "{planned}\n{real}");
    }
}

#[test]
fn every_block_is_measured_in_every_pass() {
    let profile = single_peer_profile(2);
    assert_eq!(profile.passes.len(), 2);
    for pass in &profile.passes {
        assert_eq!(pass.workers, 2);
        assert_eq!(pass.blocks.iter().map(|block| block.entries).sum::<u64>(), profile.description.entries);
        assert!(pass.blocks.len() >= 2 && pass.seconds > 0.0);
    }
    assert!(profile.seconds_per_entry() > 0.0 && profile.time_spread() >= 0.0);
}

#[test]
fn a_loop_over_ranges_is_cut_evenly() {
    let program = |cluster: &Cluster| {
        let mut a = cluster.zeros::<f32, 2>([64, 8])?;
        let run = parallel_for!(
            cluster,
            for [i] in [0..64] {
                a[i][0] += i as f32;
            }
        )?;
        let mut profile = LoopProfile::from_ranges(&run);
        profile.add_run(&run);
        Ok(profile)
    };
    let profile = hemiola::cluster::standalone(1).run(program).unwrap().remove(0);
    let profile = LoopProfile::from_json(&profile.to_json()).unwrap();
    let plan = profile.plan(4, 1).unwrap();
    assert_eq!(profile.entries_of(&plan).unwrap(), [16; 4], "{plan}");
    assert_eq!(profile.unsupported(&plan), None, "{plan}");
}

#[test]
fn a_custom_loop_can_be_profiled() {
    let program = |cluster: &Cluster| {
        let ratings = skewed(cluster, SMALL)?;
        let row = |name, dimension| AlignedArray { name, dimension, width: 4, cell_bytes: 4 };
        let mut profile = LoopProfile::from_custom_loop("custom", &ratings, &[row("w", 0), row("h", 1)])?;
        profile.add_pass(0.5, &[(ratings.len() as u64, 0.25)]);
        Ok(profile)
    };
    let profile = hemiola::cluster::standalone(1).run(program).unwrap().remove(0);
    let profile = LoopProfile::from_json(&profile.to_json()).unwrap();
    let (custom, parallel_for) = (profile.plan(2, 1).unwrap(), single_peer_profile(1).plan(2, 1).unwrap());
    assert_eq!((custom.parallelization, custom.cuts), (parallel_for.parallelization, parallel_for.cuts));
    let rate = 0.25 / profile.description.entries as f64;
    assert!((profile.seconds_per_entry() - rate).abs() < 1e-12);
}

#[test]
fn invalid_profiles_are_rejected_with_the_reason() {
    let valid = single_peer_profile(1);
    let refused = |change: &dyn Fn(&mut serde_json::Value)| -> String {
        let mut value: serde_json::Value = serde_json::from_str(&valid.to_json()).unwrap();
        change(&mut value);
        let found: Result<LoopProfile, InvalidProfile> = LoopProfile::from_json(&value.to_string());
        found.unwrap_err().to_string()
    };
    let check = |change: &dyn Fn(&mut serde_json::Value), what: &str| {
        let text = refused(change);
        assert!(text.starts_with("invalid profile: ") && text.contains(what), "{text}");
    };
    check(&|value| value["format"] = "hemiola profile 9".into(), "this version reads `hemiola profile 1`");
    check(&|value| value["passes"] = serde_json::json!([]), "it has no passes");
    // Numbers of dimensions that no list in the file confirms must not cost time.
    for path in ["/description/spec/dimensions", "/description/spec/arrays/0/dimensions"] {
        let absurd = |value: &mut serde_json::Value| *value.pointer_mut(path).unwrap() = (1_u64 << 40).into();
        check(&absurd, "1099511627776 dimensions");
    }
    check(&|value| value["passes"][0]["workers"] = 0.into(), "pass 0 has no workers");
    check(&|value| value["passes"][1]["blocks"][0]["compute_seconds"] = (-1.0).into(), "a time of pass 1 is negative");
    check(&|value| value["passes"][1]["blocks"] = serde_json::json!([]), "pass 1 has no compute time");
    check(&|value| value["description"]["entries"] = 3.into(), "entries");
    check(&|value| value["description"]["arrays"] = serde_json::json!([]), "2 arrays, but 0 shapes");
    check(
        &|value| value["description"]["arrays"][0]["shape"] = serde_json::json!([3]),
        "has 2 dimensions, but 1 extents",
    );
    check(&|value| value["description"]["arrays"][0]["shape"][0] = u64::MAX.into(), "overflows");
    check(&|value| value["description"]["extents"] = serde_json::json!([]), "has 0 extents");
    check(
        &|value| value["histograms"][0]["counts"] = serde_json::json!([1]),
        "the histogram of dimension 0 does not cover 90 indices",
    );
    check(&|value| value["histograms"][0]["width"] = 0.into(), "the histogram of dimension 0");
    check(&|value| value["joints"][0]["counts"] = serde_json::json!([1, 2]), "joint histogram of dimensions 0 and 1");
    check(
        &|value| value["joints"][0]["dimensions"] = serde_json::json!([0, 7]),
        "joint histogram of dimensions 0 and 7",
    );
    check(&|value| value["surprise"] = 1.into(), "unknown field `surprise`");
    let text = LoopProfile::from_json("ratings\n1,2,3").unwrap_err().to_string();
    assert!(text.contains("write one with `--profile FILE`"), "{text}");
}
