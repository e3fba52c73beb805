//! Agreement of peers before training: all must have the same settings.
//!
//! A peer with other settings would not fail. It would add its own idea of the model to all
//! others, so the result would be wrong without a word.

use crate::Error;
use hemiola_cluster::{Cluster, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// *Collective.* Returns an error that names the first setting in which a peer differs from the
/// root. Every peer gets the same error.
///
/// # Panics
/// If the settings cannot be serialized to JSON.
pub fn check_same_settings(cluster: &Cluster, model: &str, settings: &impl Serialize) -> Result<()> {
    if cluster.size() == 1 {
        return Ok(());
    }
    let mut own = BTreeMap::from([("model".to_owned(), model.to_owned())]);
    flatten("", &serde_json::to_value(settings).expect("settings serialize to JSON"), &mut own);
    check_same_values(cluster, own)
}

/// *Collective.* Returns an error that names the first value in which a peer differs from the root.
pub fn check_same_values(cluster: &Cluster, own: BTreeMap<String, String>) -> Result<()> {
    let all = cluster.all_gather(own)?;
    let Some((root, others)) = all.split_first() else { return Ok(()) };
    match others.iter().enumerate().find_map(|(index, peer)| Some((index + 1, first_difference(root, peer)?))) {
        None => Ok(()),
        Some((rank, (setting, root, peer))) => Err(Error::PeersDiffer { setting, root, peer, rank }.into()),
    }
}

/// Returns the name of the first value that differs, and both values.
fn first_difference(
    root: &BTreeMap<String, String>,
    peer: &BTreeMap<String, String>,
) -> Option<(String, String, String)> {
    let shown = |value: Option<&String>| value.map_or_else(|| "unset".to_owned(), |value| format!("`{value}`"));
    let name = root.keys().chain(peer.keys()).filter(|name| root.get(*name) != peer.get(*name)).min()?;
    Some((name.clone(), shown(root.get(name)), shown(peer.get(name))))
}

/// Adds all values within `value` by their path, such as `limits.epochs`.
fn flatten(path: &str, value: &Value, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, all);
            }
        }
        // Single-precision settings would otherwise be printed with digits that nobody typed.
        Value::Number(number) if number.is_f64() => {
            let exact = number.as_f64().unwrap_or_default();
            let short = exact as f32;
            let text =
                if f64::from(short).to_bits() == exact.to_bits() { short.to_string() } else { exact.to_string() };
            all.insert(path.to_owned(), text);
        }
        Value::String(text) => drop(all.insert(path.to_owned(), text.clone())),
        other => drop(all.insert(path.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_setting_that_differs_is_named_on_all_peers() {
        let outcome = |rank_of: &(dyn Fn(usize) -> u32 + Sync)| {
            hemiola_cluster::standalone(3).run(|cluster| {
                let rank = rank_of(cluster.rank().index());
                let settings = json!({ "l2": 0.1_f32, "limits": { "epochs": 3 }, "rank": rank });
                Ok(check_same_settings(cluster, "mf", &settings).map_err(|error| error.to_string()))
            })
        };
        assert!(outcome(&|_| 8).unwrap().iter().all(Result::is_ok));
        for told in outcome(&|rank| if rank == 2 { 16 } else { 8 }).unwrap() {
            let told = told.unwrap_err();
            assert!(told.contains("`rank` is `16` on peer 2 and `8` on peer 0"), "{told}");
        }
    }
}
