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

/// Returns what the labels have in common at their start, without a trailing `seed` and separators:
/// `small` for `small-seed-1` and `small-seed-2`. `None` if that is nothing.
pub(super) fn common<'a>(labels: impl Iterator<Item = &'a str>) -> Option<String> {
    let shared = |common: String, label: &str| {
        common.chars().zip(label.chars()).take_while(|(a, b)| a == b).map(|(letter, _)| letter).collect()
    };
    let mut labels = labels;
    let first = labels.next()?.to_owned();
    let common: String = labels.fold(first, shared);
    let separators = |letter: char| !letter.is_alphanumeric();
    // Digits belong to a number of which the rest differs.
    let common = common.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches(separators);
    let without = ["seed", "run"].iter().find_map(|word| common.strip_suffix(word));
    // `overrun` is not `over`.
    let common = without.filter(|rest| !rest.ends_with(char::is_alphanumeric)).unwrap_or(common);
    let common = common.trim_end_matches(separators);
    (!common.is_empty()).then(|| common.to_owned())
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
    #[test]
    fn the_label_of_repetitions_is_their_common_part() {
        let of = |labels: &[&str]| common(labels.iter().copied());
        assert_eq!(of(&["small-seed-1", "small-seed-2"]).as_deref(), Some("small"));
        assert_eq!(of(&["rank16_s11", "rank16_s12"]).as_deref(), Some("rank16_s"));
        assert_eq!(of(&["overrun1", "overrun2"]).as_deref(), Some("overrun"));
        assert_eq!(of(&["a/mf", "a/mf (2)"]).as_deref(), Some("a/mf"));
        assert_eq!((of(&["run-1", "run-2"]), of(&["1", "2"]), of(&[])), (None, None, None));
    }
}
