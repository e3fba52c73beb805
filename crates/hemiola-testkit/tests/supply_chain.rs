//! Third-party crates obey the rules in `deny.toml`: licences, one version each, known build
//! scripts, one registry. `cargo deny check` reads the same file and checks advisories as well.

use hemiola_testkit::supply_chain::{
    ThirdPartyCrate, bill_of_materials, license_is_allowed, third_party_crates, workspace_root,
};
use std::collections::{BTreeMap, BTreeSet};
use toml::Value;

fn rules() -> Value {
    let text = std::fs::read_to_string(workspace_root().join("deny.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

/// Texts of a list, or of one field of the tables in it.
fn texts(list: &Value, field: Option<&str>) -> BTreeSet<String> {
    let entries = list.as_array().unwrap().iter();
    entries.map(|entry| field.map_or(entry, |field| &entry[field]).as_str().unwrap().to_owned()).collect()
}

fn crates() -> Vec<ThirdPartyCrate> {
    let crates = third_party_crates().unwrap();
    assert!(crates.len() > 200, "a full build has more than {} crates", crates.len());
    crates
}

/// Returns true if `version` begins with the parts of `prefix`: 0.12.5 is of 0.12.
fn is_version_of(version: &str, prefix: &str) -> bool {
    version.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[test]
fn licences_are_allowed() {
    let rules = rules();
    let allowed = texts(&rules["licenses"]["allow"], None);
    for one in crates() {
        let exceptions = rules["licenses"]["exceptions"].as_array().unwrap().iter();
        let excepted: BTreeSet<String> = exceptions
            .filter(|exception| exception["crate"].as_str() == Some(&one.name))
            .flat_map(|exception| texts(&exception["allow"], None))
            .collect();
        let is_allowed = |license: &str| allowed.contains(license) || excepted.contains(license);
        assert!(
            license_is_allowed(&one.license, &is_allowed),
            "{} {} is licensed `{}`",
            one.name,
            one.version,
            one.license
        );
    }
}

#[test]
fn second_versions_are_listed_with_a_reason() {
    let rules = rules();
    let skipped = texts(&rules["bans"]["skip"], Some("crate"));
    let is_skipped = |one: &ThirdPartyCrate| {
        skipped.iter().any(|skip| {
            skip.split_once('@').is_some_and(|(name, version)| name == one.name && is_version_of(&one.version, version))
        })
    };
    let crates = crates();
    let mut counted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in crates.iter().filter(|one| !is_skipped(one)) {
        counted.entry(&one.name).or_default().push(&one.version);
    }
    let twice: Vec<_> = counted.iter().filter(|(_, versions)| versions.len() > 1).collect();
    assert!(twice.is_empty(), "several versions of {twice:?}: unify them, or list one with a reason in deny.toml");
    for skip in &skipped {
        let (name, version) = skip.split_once('@').unwrap();
        let found = crates.iter().any(|one| one.name == name && is_version_of(&one.version, version));
        assert!(found, "deny.toml skips `{skip}`, which is no longer used: remove the line");
    }
}

#[test]
fn build_scripts_are_listed() {
    let listed = texts(&rules()["bans"]["build"]["allow-build-scripts"], Some("name"));
    let found: BTreeSet<String> = crates().into_iter().filter(|one| one.has_build_script).map(|one| one.name).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty(), "new build scripts: read those of {new:?}, then list them in deny.toml");
    assert!(gone.is_empty(), "deny.toml lists build scripts that are gone: {gone:?}");
}

#[test]
fn crates_come_from_the_registry_with_a_digest() {
    for one in crates() {
        assert!(one.from_registry && one.checksum.is_some(), "{} {} has no known source", one.name, one.version);
    }
}

#[test]
fn the_bill_of_materials_lists_every_crate() {
    let crates = crates();
    let bill = bill_of_materials(&crates, "0.0.0");
    let components = bill["components"].as_array().unwrap();
    assert_eq!(components.len(), crates.len());
    assert!(
        components.iter().any(|one| one["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/rustls@")))
    );
}

#[test]
fn licence_expressions_are_evaluated() {
    let mit = |license: &str| license == "MIT";
    for allowed in ["MIT", "MIT/Apache-2.0", "Apache-2.0 / MIT", "GPL-3.0 OR (MIT AND MIT)", "(MIT)"] {
        assert!(license_is_allowed(allowed, &mit), "{allowed}");
    }
    for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR BSD-2-Clause) AND GPL-3.0"] {
        assert!(!license_is_allowed(refused, &mit), "{refused}");
    }
}
