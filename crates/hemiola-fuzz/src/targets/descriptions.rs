//! Descriptions that people write and programs exchange: clusters, strategies, profiles.
#![expect(clippy::unnecessary_wraps, reason = "all targets are prepared by functions of one type")]

use super::{FuzzTarget, PreparedTarget};
use hemiola::Cluster;
use hemiola::loops::LoopProfile;
use hemiola::prelude::*;
use hemiola::sim::ClusterSpec;
use hemiola::strategy::{ModelSpec, ResourceSpec, Strategy, VariableSpec};

pub(super) const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "cluster-spec", about: "simulated clusters, TOML and JSON", prepare: cluster_spec },
    FuzzTarget { name: "resources", about: "hosts and links of a strategy", prepare: resources },
    FuzzTarget { name: "strategy", about: "strategies, verified against a model", prepare: strategy },
    FuzzTarget { name: "profile", about: "profiles of loops", prepare: profile },
];

/// Creates a target of UTF-8 text; other inputs are read with replacement characters.
fn of_text(seeds: Vec<String>, read: impl Fn(&str) -> bool + 'static) -> PreparedTarget {
    let seeds = seeds.into_iter().map(String::into_bytes).collect();
    PreparedTarget::new(seeds, move |input| read(&String::from_utf8_lossy(input)))
}

fn cluster_spec() -> anyhow::Result<PreparedTarget> {
    let spec = ClusterSpec::new(4);
    let seeds = vec![spec.to_toml(), serde_json::to_string(&spec)?, include_str!("cluster.toml").to_owned()];
    Ok(of_text(seeds, |text| {
        let read = [ClusterSpec::from_toml(text), ClusterSpec::from_json(text)];
        read.into_iter().flatten().any(|spec| {
            // A valid cluster is also usable: its hosts and links can be listed.
            let _ = spec.resource_spec();
            true
        })
    }))
}

fn resources() -> anyhow::Result<PreparedTarget> {
    let link = hemiola::strategy::LinkSpec::bits(1e9, 1e-4);
    let seeds = vec![ResourceSpec::uniform(3, link).to_toml()];
    Ok(of_text(seeds, |text| ResourceSpec::parse(text).is_ok_and(|resources| resources.hosts().len() < usize::MAX)))
}

fn strategy() -> anyhow::Result<PreparedTarget> {
    let model = ModelSpec::new(vec![
        VariableSpec::embedding("embedding", [50, 8], 4),
        VariableSpec::linear("linear.weight", [8, 3], 16),
        VariableSpec::dense("linear.bias", [3]),
    ])?;
    let cluster = ResourceSpec::uniform(3, hemiola::strategy::LinkSpec::bits(1e9, 1e-4));
    let mut seeds = Vec::new();
    for builder in hemiola::strategy::StrategyBuilder::ALL {
        let strategy = builder.build(&model, &cluster)?;
        seeds.extend([strategy.to_json(), strategy.to_toml()]);
    }
    Ok(of_text(seeds, move |text| {
        Strategy::parse(text).is_ok_and(|strategy| strategy.verify(&model, &cluster).is_ok())
    }))
}

fn profile() -> anyhow::Result<PreparedTarget> {
    let profiles = hemiola::standalone(1).workers(2).run(profile_of_a_loop)?;
    let seeds = profiles.iter().map(LoopProfile::to_json).collect();
    Ok(of_text(seeds, |text| LoopProfile::from_json(text).is_ok()))
}

/// Profiles a factorization of a few ratings.
fn profile_of_a_loop(cluster: &Cluster) -> hemiola::Result<LoopProfile> {
    let ratings = cluster.from_fn([12, 9], |[user, item]| (user * item % 5) as f32)?;
    let mut w = cluster.uniform([12, 2], 0.0..1.0, Seed(1))?;
    let mut h = cluster.uniform([9, 2], 0.0..1.0, Seed(2))?;
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in &ratings {
            let (wu, hi) = (&mut w[u], &mut h[i]);
            let error: f32 = rating - wu.iter().zip(hi.iter()).map(|(a, b)| a * b).sum::<f32>();
            for k in 0..2 {
                (wu[k], hi[k]) = (wu[k] + 1e-4 * error * hi[k], hi[k] + 1e-4 * error * wu[k]);
            }
        }
    )?;
    let mut profile = LoopProfile::from_entries(&run, &ratings)?;
    profile.add_run(&run);
    Ok(profile)
}
