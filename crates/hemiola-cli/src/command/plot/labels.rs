//! Unique labels of runs.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Returns the name of each file without extension, with as many parent folders as make it unique.
pub(super) fn of_files(files: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<String>> = files.iter().map(|file| parts(file)).collect();
    let name = |parts: &[String], depth: usize| parts[parts.len().saturating_sub(depth)..].join("/");
    let distinct = |(at, own): (usize, &Vec<String>)| {
        let unique = |depth: &usize| {
            let mut others = parts.iter().enumerate().filter(|(other, _)| *other != at);
            others.all(|(_, parts)| name(parts, *depth) != name(own, *depth))
        };
        // Names that no folder distinguishes get numbers.
        let depth = (1..=own.len()).find(unique).unwrap_or(1);
        name(own, depth)
    };
    numbered(parts.iter().enumerate().map(distinct).collect())
}

/// Appends a number to each repeated name.
pub(super) fn numbered(names: Vec<String>) -> Vec<String> {
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    let all = names.clone();
    let distinct = |name: String| {
        let times = used.entry(name.clone()).and_modify(|times| *times += 1).or_insert(1);
        while *times > 1 && all.contains(&format!("{name} ({times})")) {
            *times += 1;
        }
        if *times == 1 { name } else { format!("{name} ({times})") }
    };
    names.into_iter().map(distinct).collect()
}

fn parts(file: &Path) -> Vec<String> {
    if file == Path::new("-") {
        return vec!["standard input".to_owned()];
    }
    let named = file.with_extension("");
    let text = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::ParentDir => Some("..".to_owned()),
        _ => None,
    };
    named.components().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        of_files(&names.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn labels_are_short_and_unique() {
        assert_eq!(files(&["runs/a.json", "/x/b.v2.json", "-"]), ["a", "b.v2", "standard input"]);
        assert_eq!(files(&["one/run.json", "two/run.json", "three.json"]), ["one/run", "two/run", "three"]);
        assert_eq!(files(&["a/x/run.json", "b/x/run.json"]), ["a/x/run", "b/x/run"]);
        assert_eq!(files(&["run.json", "run.json", "./run.json"]), ["run", "run (2)", "run (3)"]);
        assert_eq!(files(&["run.json", "run.txt", "x/run.json"])[2], "x/run");
        let given = ["a", "a", "a (2)", "a"].map(str::to_owned).to_vec();
        assert_eq!(numbered(given), ["a", "a (3)", "a (2)", "a (4)"]);
    }
}
