//! Architecture invariants, read from the manifests, the sources and the map in ARCHITECTURE.md.
//!
//! The map is a table with one row per crate and its direct dependencies among our crates. These
//! tests derive the same graph from the manifests, so the map cannot lie.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates without sockets, threads, wall clocks and randomness: those enter as arguments.
fn is_pure(name: &str) -> bool {
    name.ends_with("-proto")
        || ["hemiola-core", "hemiola-analysis", "hemiola-strategy", "hemiola-optim"].contains(&name)
}

/// Third-party crates that a pure crate may use: data structures, number formats, serialization.
const PURE_DEPENDENCIES: &[&str] = &[
    "bytemuck",
    "bytes",
    "half",
    "hashbrown",
    "libm",
    "memmap2",
    "parking_lot",
    "postcard",
    "pulp",
    "rustc-hash",
    "serde",
    "serde_json",
    "thiserror",
    "toml",
];

/// Source text that a pure crate or module must not contain.
const IMPURE: &[&str] = &[
    "std::thread",
    "std::net",
    "std::fs",
    "std::process",
    "Instant::now",
    "SystemTime::now",
    "getrandom",
    "hemiola_cluster",
    "hemiola_net",
    "hemiola_collective::",
    "hemiola_tables::",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn crates() -> BTreeMap<String, PathBuf> {
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    folders.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

/// Names in the section `[dependencies]` of a manifest.
fn dependencies(folder: &Path) -> BTreeSet<String> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]")).unwrap_or("");
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).map(str::to_owned).collect()
}

fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

/// Lines of code: neither comments nor unit tests.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or("");
    code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn uses_of(sources: &[(PathBuf, String)], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in sources {
        for (number, line) in code_lines(text) {
            for word in words.iter().filter(|word| line.contains(*word)) {
                let path = path.strip_prefix(root()).unwrap().display();
                found.push(format!("{path}:{}: {word}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn the_map_in_architecture_md_is_the_dependency_graph() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut map = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `hemiola")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let names = cells[2].split(',').map(|name| name.trim().trim_matches('`').to_owned());
        let dependencies: BTreeSet<String> = names.filter(|name| !name.is_empty() && name != "–").collect();
        map.insert(cells[1].trim_matches('`').to_owned(), dependencies);
    }
    let short = |name: &str| name.strip_prefix("hemiola-").unwrap_or(name).to_owned();
    let graph: BTreeMap<String, BTreeSet<String>> = crates()
        .into_iter()
        .map(|(name, folder)| {
            let ours = dependencies(&folder).into_iter().filter(|name| name.starts_with("hemiola"));
            (name, ours.map(|name| short(&name)).collect())
        })
        .collect();
    assert_eq!(map, graph, "left: ARCHITECTURE.md, right: the manifests");
}

#[test]
fn pure_crates_depend_on_pure_crates_alone() {
    for (name, folder) in crates().iter().filter(|(name, _)| is_pure(name)) {
        for dependency in dependencies(folder) {
            let allowed = is_pure(&dependency) || PURE_DEPENDENCIES.contains(&&*dependency);
            assert!(allowed, "{name} is pure and depends on {dependency}");
        }
    }
}

#[test]
fn pure_code_has_no_sockets_threads_clocks_or_files() {
    let mut folders: Vec<PathBuf> =
        crates().into_iter().filter(|(name, _)| is_pure(name)).map(|(_, folder)| folder.join("src")).collect();
    folders.extend(["hemiola-loops", "hemiola-schedule"].map(|name| root().join("crates").join(name).join("src/plan")));
    for folder in folders {
        let found = uses_of(&sources(&folder), IMPURE);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn heavy_libraries_have_one_owner_each() {
    let owners: [(&str, &[&str]); 7] = [
        ("burn", &["hemiola-nn"]),
        ("pyo3", &["hemiola-py"]),
        ("syn", &["hemiola-macros"]),
        ("quote", &["hemiola-macros"]),
        ("rustls", &["hemiola-net"]),
        ("polling", &["hemiola-net"]),
        ("object_store", &["hemiola-array"]),
    ];
    for (library, owners) in owners {
        for (name, folder) in crates() {
            let uses = dependencies(&folder).contains(library);
            assert!(!uses || owners.contains(&&*name), "{name} depends on {library}, which belongs to {owners:?}");
        }
    }
}

#[test]
fn models_use_what_any_user_could_use() {
    let facade = fs::read_to_string(root().join("crates/hemiola/src/lib.rs")).unwrap();
    let lines: Vec<&str> = facade.lines().collect();
    let always = lines.windows(2).filter(|pair| !pair[0].starts_with("#[cfg(feature")).map(|pair| pair[1]);
    let layers = always.filter_map(|line| Some(line.strip_prefix("pub use hemiola_")?.split_once(" as ")?.0));
    let layers: BTreeSet<String> = layers.map(|name| format!("hemiola-{}", name.replace('_', "-"))).collect();
    let ours = dependencies(&crates()["hemiola-models"]).into_iter().filter(|name| name.starts_with("hemiola"));
    for name in ours {
        assert!(layers.contains(&name), "hemiola-models depends on {name}, which `hemiola` does not re-export");
    }
}

#[test]
fn only_the_transport_opens_sockets_between_peers() {
    for (name, folder) in crates() {
        // Benchmarks measure a raw socket loop beside ours.
        if ["hemiola-net", "hemiola-bench"].contains(&&*name) {
            continue;
        }
        let found = uses_of(&sources(&folder.join("src")), &["TcpStream", "TcpListener", "UdpSocket"]);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn only_the_cluster_starts_threads_and_reads_variables() {
    // Clippy forbids `thread::spawn` and `env::var`; these are their relatives, which tests may use.
    let words = ["thread::Builder", "thread::scope", "park_timeout", "env::var_os", "env::vars"];
    // Programs and tools start threads of their own, and so do sweeps over independent simulations.
    let programs = ["hemiola-cluster", "hemiola-cli", "hemiola-bench", "hemiola-fuzz", "hemiola-py", "hemiola-testkit"];
    let sweeps = ["hemiola-sim/src/explore.rs", "hemiola-sim/src/staleness/sweep.rs"];
    let test_support = ["hemiola-net/src/test_support.rs", "hemiola-tables/src/sharded_rwlock_tests.rs"];
    for (_, folder) in crates().iter().filter(|(name, _)| !programs.contains(&&***name)) {
        let allowed = |path: &Path| sweeps.iter().chain(&test_support).any(|end| path.ends_with(end));
        let sources: Vec<_> = sources(&folder.join("src")).into_iter().filter(|(path, _)| !allowed(path)).collect();
        let found = uses_of(&sources, &words);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn public_type_names_are_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, folder) in crates() {
        // A file `absent.rs` stands in for its sibling in builds without a feature.
        for (path, text) in sources(&folder.join("src")).into_iter().filter(|(path, _)| !path.ends_with("absent.rs")) {
            for (number, line) in code_lines(&text) {
                let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
                let Some((kind, rest)) = rest.split_once(' ') else { continue };
                if !["struct", "enum", "trait", "union"].contains(&kind) {
                    continue;
                }
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                if end == 0 {
                    continue; // a macro's parameter
                }
                let place = format!("{}:{}", path.strip_prefix(root()).unwrap().display(), number + 1);
                places.entry(rest[..end].to_owned()).or_default().push(place);
            }
        }
    }
    places.remove("Error"); // one per crate, by convention
    let shared: Vec<String> = places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(shared.is_empty(), "{}", shared.join("\n"));
}
