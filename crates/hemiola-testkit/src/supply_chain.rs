//! Third-party crates of the workspace, as `cargo` resolves them, and their bill of materials.
//!
//! `cargo tree` knows which crates the features of a build really use; `cargo metadata` knows the
//! facts about each crate. This module joins the two. The binary `sbom` prints the result as
//! `CycloneDX` JSON, and the test `supply_chain` compares it with the rules in `deny.toml`.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Features of a build with everything that needs no GPU.
const FEATURES: &str = "hemiola-cli/full,hemiola/arrow,hemiola/object-store";
/// The tested platform.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A crate from a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThirdPartyCrate {
    /// Name in the registry.
    pub name: String,
    /// Resolved version.
    pub version: String,
    /// SPDX expression of the licence; empty if the crate names none.
    pub license: String,
    /// SHA-256 digest of the package in Cargo.lock.
    pub checksum: Option<String>,
    /// Runs a build script.
    pub has_build_script: bool,
    /// True if the crate comes from the default registry.
    pub from_registry: bool,
}

/// Root folder of the workspace.
///
/// # Panics
/// If this crate is not two folders below the root.
#[must_use]
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a crate is two folders below the root").to_owned()
}

/// Returns the crates that a full build of the workspace compiles, without those of tests alone, in
/// the order of their names.
///
/// # Errors
/// If `cargo` cannot resolve the workspace.
pub fn third_party_crates() -> Result<Vec<ThirdPartyCrate>, String> {
    let used = cargo(&["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}", "--target", TARGET])?;
    let used: BTreeSet<(&str, &str)> =
        used.lines().filter_map(|line| Some((line.split(' ').next()?, line.split(' ').nth(1)?))).collect();
    let metadata = cargo(&["metadata", "--format-version", "1", "--filter-platform", TARGET])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let checksums = checksums()?;
    let mut found = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let (name, version, source) = (text("name"), text("version"), text("source"));
        if source.is_empty() || !used.contains(&(name.as_str(), format!("v{version}").as_str())) {
            continue;
        }
        let targets = package["targets"].as_array().into_iter().flatten();
        let is_script =
            |target: &Value| target["kind"].as_array().into_iter().flatten().any(|kind| kind == "custom-build");
        let one = ThirdPartyCrate {
            license: text("license"),
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            has_build_script: targets.into_iter().any(is_script),
            from_registry: source.starts_with("registry+"),
            name: name.clone(),
            version: version.clone(),
        };
        found.insert((name, version), one);
    }
    Ok(found.into_values().collect())
}

fn cargo(arguments: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).args(["--locked", "--features", FEATURES]).current_dir(workspace_root());
    if arguments[0] == "tree" {
        command.arg("--workspace");
    }
    let output = command.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// Digests of packages by name and version, from Cargo.lock.
fn checksums() -> Result<BTreeMap<(String, String), String>, String> {
    let lock = std::fs::read_to_string(workspace_root().join("Cargo.lock")).map_err(|error| error.to_string())?;
    let field = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
    };
    let packages = lock
        .split("[[package]]")
        .filter_map(|block| Some(((field(block, "name")?, field(block, "version")?), field(block, "checksum")?)));
    Ok(packages.collect())
}

/// Returns true if an SPDX expression can be satisfied with licences that `is_allowed` accepts.
/// `/` is the old form of `OR`.
#[must_use]
pub fn license_is_allowed(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let expression = expression.trim();
    if let Some(parts) = split_outside(expression, &[" OR ", " / ", "/"]) {
        return parts.into_iter().any(|part| license_is_allowed(part, is_allowed));
    }
    if let Some(parts) = split_outside(expression, &[" AND "]) {
        return parts.into_iter().all(|part| license_is_allowed(part, is_allowed));
    }
    match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => license_is_allowed(inner, is_allowed),
        None => is_allowed(expression),
    }
}

/// Splits at the first separator that occurs outside parentheses.
fn split_outside<'a>(expression: &'a str, separators: &[&str]) -> Option<[&'a str; 2]> {
    let mut depth = 0_usize;
    for (position, character) in expression.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let rest = &expression[position..];
        if let Some(found) = separators.iter().find(|separator| depth == 0 && rest.starts_with(**separator)) {
            return Some([&expression[..position], &rest[found.len()..]]);
        }
    }
    None
}

/// Formats crates as a software bill of materials in `CycloneDX` 1.5 JSON.
#[must_use]
pub fn bill_of_materials(crates: &[ThirdPartyCrate], version: &str) -> Value {
    let component = |one: &ThirdPartyCrate| {
        let reference = format!("pkg:cargo/{}@{}", one.name, one.version);
        let mut component = json!({
            "type": "library",
            "bom-ref": reference,
            "name": one.name,
            "version": one.version,
            "purl": reference,
            "licenses": [{ "expression": one.license.replace(" / ", " OR ").replace('/', " OR ") }],
        });
        if let Some(checksum) = &one.checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    };
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "hemiola", "version": version } },
        "components": crates.iter().map(component).collect::<Vec<_>>(),
    })
}
