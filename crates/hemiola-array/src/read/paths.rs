//! Selection of input files: paths, folders, patterns and URLs, or files that were found before.
//!
//! A command takes several arguments for one data set, and a reader may be handed the files that
//! its caller has inspected. Both are [`InputPaths`]. **Invariant:** the order of files is the order
//! of the arguments, and sorted by path within a folder or a pattern; no file is read twice.

use super::input::InputFile;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Input files of one data set, to be found or found already.
///
/// ```
/// use hemiola_array::read::InputPaths;
/// # let folder = tempfile::tempdir().unwrap();
/// # for part in ["a.csv", "b.csv", "c.csv"] { std::fs::write(folder.path().join(part), "1,2,3\n").unwrap(); }
/// # let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
/// let paths = InputPaths::from(vec![at("c.csv"), at("[ab].csv")]);
/// let names: Vec<_> = paths.find()?.iter().map(|file| file.path().file_name().unwrap().to_owned()).collect();
/// assert_eq!(names, ["c.csv", "a.csv", "b.csv"]);
/// # Ok::<(), hemiola_array::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPaths(Selection);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Selection {
    Patterns(Vec<String>),
    Files(Vec<InputFile>),
}

impl InputPaths {
    /// Finds the files, in the order of the arguments. Never returns an empty list.
    pub fn find(&self) -> Result<Vec<InputFile>> {
        let patterns = match &self.0 {
            Selection::Files(files) if files.is_empty() => return Err(Error::NoFiles { pattern: self.to_string() }),
            Selection::Files(files) => return Ok(files.clone()),
            Selection::Patterns(patterns) => patterns,
        };
        let mut files: Vec<InputFile> = Vec::new();
        for pattern in patterns {
            files.extend(InputFile::find(pattern)?);
        }
        if files.is_empty() {
            return Err(Error::NoFiles { pattern: self.to_string() });
        }
        if patterns.len() > 1 {
            let mut paths: Vec<_> = files.iter().map(InputFile::path).collect();
            paths.sort_unstable();
            if let Some(twice) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::FileRepeated { file: twice[0].to_owned() });
            }
        }
        Ok(files)
    }

    /// Paths and patterns as given; empty for files that were found before.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        match &self.0 {
            Selection::Patterns(patterns) => patterns,
            Selection::Files(_) => &[],
        }
    }

    /// Returns true if the files were found before.
    pub(crate) fn are_found(&self) -> bool {
        matches!(self.0, Selection::Files(_))
    }
}

/// The first path, and the number of the others.
impl fmt::Display for InputPaths {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, count) = match &self.0 {
            Selection::Patterns(patterns) => (patterns.first().cloned(), patterns.len()),
            Selection::Files(files) => (files.first().map(|file| file.path().display().to_string()), files.len()),
        };
        formatter.write_str(&first.unwrap_or_default())?;
        if count > 1 { write!(formatter, " and {} more", count - 1) } else { Ok(()) }
    }
}

impl From<&str> for InputPaths {
    fn from(pattern: &str) -> Self {
        Self(Selection::Patterns(vec![pattern.to_owned()]))
    }
}

impl From<&&str> for InputPaths {
    fn from(pattern: &&str) -> Self {
        Self::from(*pattern)
    }
}

impl From<&String> for InputPaths {
    fn from(pattern: &String) -> Self {
        pattern.as_str().into()
    }
}

impl From<String> for InputPaths {
    fn from(pattern: String) -> Self {
        Self(Selection::Patterns(vec![pattern]))
    }
}

impl From<Vec<String>> for InputPaths {
    fn from(patterns: Vec<String>) -> Self {
        Self(Selection::Patterns(patterns))
    }
}

impl From<&[String]> for InputPaths {
    fn from(patterns: &[String]) -> Self {
        patterns.to_vec().into()
    }
}

impl From<&Vec<String>> for InputPaths {
    fn from(patterns: &Vec<String>) -> Self {
        patterns.clone().into()
    }
}

impl From<Vec<InputFile>> for InputPaths {
    fn from(files: Vec<InputFile>) -> Self {
        Self(Selection::Files(files))
    }
}

impl From<&[InputFile]> for InputPaths {
    fn from(files: &[InputFile]) -> Self {
        files.to_vec().into()
    }
}

impl From<&Self> for InputPaths {
    fn from(paths: &Self) -> Self {
        paths.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_the_order_of_the_arguments_and_occur_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "b.csv", "z.csv"] {
            std::fs::write(folder.path().join(name), "1,2,3\n").unwrap();
        }
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let names = |patterns: &[&str]| {
            let paths = InputPaths::from(patterns.iter().map(|name| at(name)).collect::<Vec<_>>());
            paths.find().map(|files| {
                let name = |file: &InputFile| file.path().file_name().unwrap().to_str().unwrap().to_owned();
                files.iter().map(name).collect::<Vec<_>>()
            })
        };
        assert_eq!(names(&["z.csv", "[ab].csv"]).unwrap(), ["z.csv", "a.csv", "b.csv"]);
        assert_eq!(names(&["a.csv", "*.csv"]), Err(Error::FileRepeated { file: at("a.csv").into() }));
        let paths = InputPaths::from(vec!["x".to_owned(), "y".to_owned(), "z".to_owned()]);
        assert_eq!(paths.to_string(), "x and 2 more");
    }
}
