//! Profiles: what one peer has measured is enough for the plans of any cluster.

use hemiola::loops::profile::{Follows, Unsound};
use hemiola::loops::{Plan, Profile};
use hemiola::prelude::*;

type Matrix = DistArray<f32, 2>;

/// Few of the low keys, many of the high ones.
fn skewed(cluster: &Cluster, [users, items]: [u64; 2]) -> hemiola::Result<Matrix> {
    let all = cluster.from_fn([users, items], |[u, i]| (u + i) as f32)?;
    all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 7 < 3 * u / users + 3 * i / items).materialize()
}

/// Two passes of a loop that rotates, the first of them without a profile to add to.
fn measured(cluster: &Cluster, [users, items]: [u64; 2]) -> hemiola::Result<(Plan, Profile)> {
    let ratings = skewed(cluster, [users, items])?;
    let (w, h) = (cluster.uniform([users, 4], 0.0..1.0, 1)?, cluster.uniform([items, 4], 0.0..1.0, 2)?);
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
            None => (run.plan().clone(), Profile::of_entries(&run, &ratings)?),
        };
        profile.add(&run);
        found = Some((run.plan().clone(), profile));
    }
    Ok(found.expect("there were two passes"))
}

const SMALL: [u64; 2] = [90, 70];

fn on(peers: usize, workers: usize, extents: [u64; 2]) -> (Plan, Profile) {
    let program = |cluster: &Cluster| measured(cluster, extents);
    hemiola::standalone(peers).workers(workers).run(program).unwrap().remove(0)
}

fn of_one_peer(workers: usize) -> Profile {
    on(1, workers, SMALL).1
}

#[test]
fn the_plan_from_a_profile_of_one_peer_is_that_of_the_cluster() {
    for own in [1, 2] {
        let profile = Profile::from_json(&of_one_peer(own).to_json()).unwrap();
        for (peers, workers) in [(1, 2), (2, 1), (2, 2), (4, 1)] {
            let real = on(peers, workers, SMALL).0;
            let planned = profile.plan(peers, workers).unwrap();
            assert_eq!(planned.strategy, real.strategy, "{planned}\n{real}");
            assert_eq!(planned.cuts, real.cuts, "{planned}\n{real}");
            assert_eq!(planned.arrays, real.arrays);
            assert_eq!(profile.beyond(&planned), None);
            let entries = profile.entries_of(&planned).unwrap();
            assert_eq!(entries.len(), planned.cuts.parts() * planned.cuts.times());
            assert_eq!(entries.iter().sum::<u64>(), profile.subject.entries);
            let travels = profile.travelling(&planned);
            assert!(travels.iter().all(|array| array.row_bytes == 16 && array.rows.len() == planned.cuts.times()));
            let rows: u64 = travels.iter().flat_map(|array| &array.rows).map(|rows| rows.end - rows.start).sum();
            assert!([70, 90].contains(&rows), "all rows of one of the arrays: {rows}");
        }
    }
}

#[test]
fn where_entries_are_counted_by_ranges_the_plan_is_still_that_of_the_cluster() {
    let extents = [700, 450];
    let profile = on(1, 1, extents).1;
    for peers in [2, 4] {
        let (real, planned) = (on(peers, 1, extents).0, profile.plan(peers, 1).unwrap());
        assert_eq!((&planned.strategy, &planned.cuts), (&real.strategy, &real.cuts), "{planned}\n{real}");
    }
}

#[test]
fn every_block_is_measured_in_every_pass() {
    let profile = of_one_peer(2);
    assert_eq!(profile.passes.len(), 2);
    for pass in &profile.passes {
        assert_eq!(pass.workers, 2);
        assert_eq!(pass.blocks.iter().map(|block| block.entries).sum::<u64>(), profile.subject.entries);
        assert!(pass.blocks.len() >= 2 && pass.seconds > 0.0);
    }
    assert!(profile.seconds_per_entry() > 0.0 && profile.spread() >= 0.0);
}

#[test]
fn a_loop_over_ranges_is_cut_evenly() {
    let program = |cluster: &Cluster| {
        let a = cluster.zeros::<f32, 2>([64, 8])?;
        let run = parallel_for!(
            cluster,
            for [i] in [0..64] {
                a[i][0] += i as f32;
            }
        )?;
        let mut profile = Profile::of_indices(&run);
        profile.add(&run);
        Ok(profile)
    };
    let profile = hemiola::standalone(1).run(program).unwrap().remove(0);
    let profile = Profile::from_json(&profile.to_json()).unwrap();
    let plan = profile.plan(4, 1).unwrap();
    assert_eq!(profile.entries_of(&plan).unwrap(), [16; 4], "{plan}");
    assert_eq!(profile.beyond(&plan), None, "{plan}");
}

#[test]
fn a_program_that_is_no_loop_has_a_profile_too() {
    let program = |cluster: &Cluster| {
        let ratings = skewed(cluster, SMALL)?;
        let row = |name, dimension| Follows { name, dimension, width: 4, cell_bytes: 4 };
        let mut profile = Profile::by_hand("by hand", &ratings, &[row("w", 0), row("h", 1)])?;
        profile.add_pass(0.5, &[(ratings.len(), 0.25)]);
        Ok(profile)
    };
    let profile = hemiola::standalone(1).run(program).unwrap().remove(0);
    let profile = Profile::from_json(&profile.to_json()).unwrap();
    let (by_hand, of_loop) = (profile.plan(2, 1).unwrap(), of_one_peer(1).plan(2, 1).unwrap());
    assert_eq!((by_hand.strategy, by_hand.cuts), (of_loop.strategy, of_loop.cuts));
    let rate = 0.25 / profile.subject.entries as f64;
    assert!((profile.seconds_per_entry() - rate).abs() < 1e-12);
}

#[test]
fn what_is_no_profile_is_refused_with_the_reason() {
    let sound = of_one_peer(1);
    let refused = |change: &dyn Fn(&mut serde_json::Value)| -> String {
        let mut value: serde_json::Value = serde_json::from_str(&sound.to_json()).unwrap();
        change(&mut value);
        let found: Result<Profile, Unsound> = Profile::from_json(&value.to_string());
        found.unwrap_err().to_string()
    };
    let said = |change: &dyn Fn(&mut serde_json::Value), what: &str| {
        let text = refused(change);
        assert!(text.starts_with("this is no profile: ") && text.contains(what), "{text}");
    };
    said(&|value| value["format"] = "hemiola profile 9".into(), "this version reads `hemiola profile 1`");
    said(&|value| value["passes"] = serde_json::json!([]), "no pass was measured");
    said(&|value| value["passes"][0]["workers"] = 0.into(), "pass 0 was run by no worker");
    said(&|value| value["passes"][1]["blocks"][0]["computing"] = (-1.0).into(), "a time of pass 1 is negative");
    said(&|value| value["passes"][1]["blocks"] = serde_json::json!([]), "no time of computing was measured in pass 1");
    said(&|value| value["subject"]["entries"] = 3.into(), "entries");
    said(&|value| value["subject"]["arrays"] = serde_json::json!([]), "shapes of 0 are given");
    said(&|value| value["subject"]["arrays"][0]["shape"] = serde_json::json!([3]), "has 2 dimensions, and 1 extents");
    said(&|value| value["subject"]["arrays"][0]["shape"][0] = u64::MAX.into(), "more bytes than can be counted");
    said(&|value| value["subject"]["extents"] = serde_json::json!([]), "has 0 extents");
    said(
        &|value| value["histograms"][0]["counts"] = serde_json::json!([1]),
        "the histogram of dimension 0 is not one of 90",
    );
    said(&|value| value["histograms"][0]["width"] = 0.into(), "the histogram of dimension 0");
    said(&|value| value["joints"][0]["counts"] = serde_json::json!([1, 2]), "ranges of dimensions 0 and 1");
    said(&|value| value["joints"][0]["dimensions"] = serde_json::json!([0, 7]), "ranges of dimensions 0 and 7");
    said(&|value| value["surprise"] = 1.into(), "unknown field `surprise`");
    let text = Profile::from_json("ratings\n1,2,3").unwrap_err().to_string();
    assert!(text.contains("write one with `--profile FILE`"), "{text}");
}
