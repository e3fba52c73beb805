//! What somebody may have meant: the names nearest to one that does not exist.
//!
//! **Invariant:** only names that are near enough to be a slip are offered, the nearest first and of equals the first given, so
//! that the same question has the same answer. Cost grows with the number of candidates times the length of the name.

use std::collections::BTreeSet;
use std::path::Path;

/// How many names are offered.
const MOST: usize = 3;

/// The candidates nearest to `name`, nearest first: those that differ from it by about a third of its letters at most, or only
/// in upper and lower case.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let limit = (wanted.len() / 3).max(1);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let letters: Vec<char> = candidate.to_lowercase().chars().collect();
            // As many edits are needed as lengths differ: most candidates need no more than this look.
            if letters.len().abs_diff(wanted.len()) > limit {
                return None;
            }
            Some((distance(&wanted, &letters), candidate)).filter(|(distance, _)| *distance <= limit)
        })
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.truncate(MOST);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The candidates with a part that is near to `name`, nearest first: as many words in a row as it has. So `star warz` finds
/// `Star Wars (1977)`, from which it differs by much more as a whole.
fn nearest_by_part<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let count = name.split_whitespace().count().max(1);
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let limit = (wanted.len() / 4).max(1);
    // Of a short word too much is near.
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
    near.truncate(MOST);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The hint for a name that does not exist: `did you mean ..?`; `None` if nothing is near.
pub(crate) fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    meant(&nearest(name, candidates))
}

/// The same for a file or folder that is not there: names beside it.
pub(crate) fn path_hint(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    if path.exists() {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = std::fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // In order, so that of equals the same is offered on every machine.
    let beside: BTreeSet<String> = beside.collect();
    hint(&name, beside.iter().map(String::as_str))
}

/// The same where a part of the candidate may have been meant.
pub(crate) fn hint_by_part<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    meant(&nearest_by_part(name, candidates))
}

fn meant(near: &[&str]) -> Option<String> {
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let (last, others) = near.split_last()?;
    Some(if others.is_empty() {
        format!("did you mean {last}?")
    } else {
        format!("did you mean {} or {last}?", others.join(", "))
    })
}

/// How many letters have to be put in, taken out, replaced or exchanged with their neighbour to make one word the other (the
/// distance of Damerau and Levenshtein, in its restricted form).
fn distance(left: &[char], right: &[char]) -> usize {
    // The distances of all beginnings of `right` from the beginnings of `left` that end two letters and one letter ago.
    let mut above_that: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, &letter) in left.iter().enumerate() {
        let mut here = vec![row + 1];
        for (column, &other) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != other);
            let mut edits = replaced.min(above[column + 1] + 1).min(here[column] + 1);
            if row > 0 && column > 0 && letter == right[column - 1] && left[row - 1] == other {
                edits = edits.min(above_that[column - 1] + 1);
            }
            here.push(edits);
        }
        above_that = std::mem::replace(&mut above, here);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_edits() {
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
    fn a_part_of_a_title_may_be_meant() {
        let titles = ["Star Wars (1977)", "Star Trek: First Contact (1996)", "Alien (1979)", "Aliens (1986)"];
        assert_eq!(hint("star warz", titles), None);
        assert_eq!(hint_by_part("star warz", titles), Some("did you mean `Star Wars (1977)`?".to_owned()));
        assert_eq!(hint_by_part("alein", titles), Some("did you mean `Alien (1979)`?".to_owned()));
        assert_eq!(hint_by_part("casablanca", titles), None);
        assert_eq!(hint_by_part("st", titles), None);
    }

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let names = ["person-12", "person-21", "person-3", "Anna", "somebody else"];
        assert_eq!(nearest("persom-12", names), ["person-12", "person-21", "person-3"]);
        assert_eq!(nearest("anna", names), ["Anna"]);
        assert_eq!(nearest("nobody", names), [""; 0]);
        assert_eq!(hint("Ana", names), Some("did you mean `Anna`?".to_owned()));
        assert_eq!(hint("film", ["flim", "fil", "film-1"]), Some("did you mean `flim` or `fil`?".to_owned()));
        assert_eq!(hint("x", names), None);
    }
}
