//! Suggestions for misspelled names: the existing names with the smallest edit distance.
//!
//! **Invariant:** only names near enough to be a typing error are suggested, the nearest first and
//! ties in the given order, so the suggestions are deterministic. The cost is the number of
//! candidates times the length of the name.

use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of suggested names.
const MAX_SUGGESTIONS: usize = 3;

/// Returns the candidates nearest to `name`, nearest first: those within an edit distance of a
/// third of its length, ignoring case.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let limit = (wanted.len() / 3).max(1);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let letters: Vec<char> = candidate.to_lowercase().chars().collect();
            // The distance is at least the difference in length, which rules out most candidates.
            if letters.len().abs_diff(wanted.len()) > limit {
                return None;
            }
            Some((distance(&wanted, &letters), candidate)).filter(|(distance, _)| *distance <= limit)
        })
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.truncate(MAX_SUGGESTIONS);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns the candidates that contain a phrase near to `name`, nearest first. A phrase has as many
/// consecutive words as `name`: `star warz` finds `Star Wars (1977)`, though the whole titles
/// differ much.
fn nearest_by_part<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let count = name.split_whitespace().count().max(1);
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let limit = (wanted.len() / 4).max(1);
    // Too many phrases are near a short word.
    if wanted.len() < 4 {
        return Vec::new();
    }
    let best = |candidate: &str| {
        let lower = candidate.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let parts = words.windows(count).map(|part| part.join(" ").chars().collect::<Vec<char>>());
        parts.filter(|part| part.len().abs_diff(wanted.len()) <= limit).map(|part| distance(&wanted, &part)).min()
    };
    let with_distance = candidates.into_iter().filter_map(|candidate| Some((best(candidate)?, candidate)));
    let mut near: Vec<(usize, &str)> = with_distance.filter(|(distance, _)| *distance <= limit).collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.truncate(MAX_SUGGESTIONS);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns the hint `did you mean ..?` for an unknown name, or `None` if no candidate is near.
pub(crate) fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    meant(&nearest(name, candidates))
}

/// Returns the hint `did you mean ..?` for a missing file or folder, from the names beside it.
pub(crate) fn path_hint(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    if path.exists() {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = std::fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // Sorted, so that ties are resolved alike on every machine.
    let beside: BTreeSet<String> = beside.collect();
    hint(&name, beside.iter().map(String::as_str))
}

/// Returns the hint `did you mean ..?` from candidates that contain a similar phrase.
pub(crate) fn hint_by_part<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    meant(&nearest_by_part(name, candidates))
}

/// Returns the hint `did you mean ..?` for some names, or `None` without any.
pub(crate) fn meant(near: &[&str]) -> Option<String> {
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let (last, others) = near.split_last()?;
    Some(if others.is_empty() {
        format!("did you mean {last}?")
    } else {
        format!("did you mean {} or {last}?", others.join(", "))
    })
}

/// Computes the restricted Damerau-Levenshtein distance: the number of letters to insert, delete,
/// replace or exchange with their neighbour.
fn distance(left: &[char], right: &[char]) -> usize {
    // Distances of all prefixes of `right` from the prefixes of `left` two letters and one letter
    // shorter.
    let mut two_above: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, &letter) in left.iter().enumerate() {
        let mut here = vec![row + 1];
        for (column, &other) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != other);
            let mut edits = replaced.min(above[column + 1] + 1).min(here[column] + 1);
            if row > 0 && column > 0 && letter == right[column - 1] && left[row - 1] == other {
                edits = edits.min(two_above[column - 1] + 1);
            }
            here.push(edits);
        }
        two_above = std::mem::replace(&mut above, here);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_edits() {
        let edits =
            |left: &str, right: &str| distance(&left.chars().collect::<Vec<_>>(), &right.chars().collect::<Vec<_>>());
        let cases = [
            ("", "", 0),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("film", "flim", 1),
            ("año", "ano", 1),
            ("ab", "ba", 1),
        ];
        for (left, right, expected) in cases {
            assert_eq!((edits(left, right), edits(right, left)), (expected, expected), "{left} {right}");
        }
    }

    #[test]
    fn a_phrase_within_a_title_is_suggested() {
        let titles = ["Star Wars (1977)", "Star Trek: First Contact (1996)", "Alien (1979)", "Aliens (1986)"];
        assert_eq!(hint("star warz", titles), None);
        assert_eq!(hint_by_part("star warz", titles), Some("did you mean `Star Wars (1977)`?".to_owned()));
        assert_eq!(hint_by_part("alein", titles), Some("did you mean `Alien (1979)`?".to_owned()));
        assert_eq!(hint_by_part("casablanca", titles), None);
        assert_eq!(hint_by_part("st", titles), None);
    }

    #[test]
    fn near_names_are_suggested_and_distant_ones_are_not() {
        let names = ["person-12", "person-21", "person-3", "Anna", "Zoe Miller"];
        assert_eq!(nearest("persom-12", names), ["person-12", "person-21", "person-3"]);
        assert_eq!(nearest("anna", names), ["Anna"]);
        assert_eq!(nearest("wilhelm", names), [""; 0]);
        assert_eq!(hint("Ana", names), Some("did you mean `Anna`?".to_owned()));
        assert_eq!(hint("film", ["flim", "fil", "film-1"]), Some("did you mean `flim` or `fil`?".to_owned()));
        assert_eq!(hint("x", names), None);
    }
}
