//! Requirements of tests: real data sets, Python packages, root, programs.
//!
//! A test that cannot run on this machine calls [`require!`](crate::require!). Without the
//! requirement it is skipped, and the skip is never silent:
//!
//! - every skip is printed, and appended to the file that `HEMIOLA_SKIPS` names, from which the CI
//!   script prints a count at its end;
//! - where `CI` is set, a skip fails the test unless `HEMIOLA_ALLOW_SKIPS` lists its name
//!   (separated by commas).

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Reason why a test cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRequirement {
    /// Name in `HEMIOLA_ALLOW_SKIPS`, such as `data`, `python` or `root`.
    pub name: &'static str,
    /// Text for the developer: the missing thing and the way to provide it.
    pub reason: String,
}

impl MissingRequirement {
    /// Creates a requirement that is not met.
    #[must_use]
    pub fn new(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, reason: reason.into() }
    }

    /// Records the skip of the calling test.
    ///
    /// # Panics
    ///
    /// Panics in CI unless the skip is allowed by name.
    #[expect(clippy::print_stderr, reason = "a skip must be visible")]
    pub fn skip(&self) {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("skipped {test}: {} ({})", self.reason, self.name);
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
        let allowed = variable("HEMIOLA_ALLOW_SKIPS").split(',').any(|name| name.trim() == self.name);
        assert!(variable("CI").is_empty() || allowed, "{line}; HEMIOLA_ALLOW_SKIPS={} would allow it", self.name);
        eprintln!("{line}");
        if let Some(file) = std::env::var_os("HEMIOLA_SKIPS") {
            let opened = std::fs::File::options().create(true).append(true).open(file);
            opened.and_then(|mut file| writeln!(file, "{line}")).expect("the file of skips can be written");
        }
    }
}

/// Path of `file` below the folder of real data sets that `HEMIOLA_DATA` names.
pub fn data(file: &str) -> Result<PathBuf, MissingRequirement> {
    let Some(folder) = std::env::var_os("HEMIOLA_DATA").filter(|folder| !folder.is_empty()) else {
        return Err(MissingRequirement::new("data", "HEMIOLA_DATA is not set"));
    };
    let path = PathBuf::from(folder).join(file);
    if path.exists() {
        Ok(path)
    } else {
        Err(MissingRequirement::new("data", format!("`{}` is missing", path.display())))
    }
}

/// Python interpreter that can import `packages`: the one that `HEMIOLA_PYTHON` names, or `python3`.
pub fn python(packages: &[&str]) -> Result<OsString, MissingRequirement> {
    let python = std::env::var_os("HEMIOLA_PYTHON").unwrap_or_else(|| "python3".into());
    let imports = packages.iter().map(|package| format!("import {package}")).collect::<Vec<_>>().join("\n");
    let mut command = Command::new(&python);
    command.args(["-c", &imports]).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Ok(python);
    }
    let reason = format!("`{}` cannot import {}", python.display(), packages.join(", "));
    Err(MissingRequirement::new("python", reason))
}

/// Succeeds if `program` with `arguments` exits with 0 on this machine.
pub fn program(name: &'static str, program: &str, arguments: &[&str]) -> Result<(), MissingRequirement> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(MissingRequirement::new(name, format!("`{program} {}` fails here", arguments.join(" "))))
}

/// Succeeds if `condition` holds.
pub fn condition(name: &'static str, condition: bool, reason: &str) -> Result<(), MissingRequirement> {
    if condition { Ok(()) } else { Err(MissingRequirement::new(name, reason)) }
}

/// Evaluates to the value of a requirement, or records a skip and returns from the test.
///
/// ```no_run
/// let ratings = hemiola_testkit::require!(hemiola_testkit::data("movielens-100k"));
/// assert!(ratings.is_dir());
/// ```
#[macro_export]
macro_rules! require {
    ($requirement:expr) => {
        match $requirement {
            Ok(value) => value,
            Err(missing) => {
                $crate::MissingRequirement::skip(&missing);
                return;
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_command() {
        let missing = program("tool", "no-such-program-of-hemiola", &["--version"]).unwrap_err();
        assert_eq!((missing.name, missing.reason.contains("no-such-program-of-hemiola")), ("tool", true));
    }

    #[test]
    fn a_requirement_that_holds_gives_its_value() {
        assert_eq!(condition("always", true, "never"), Ok(()));
        assert_eq!(condition("never", false, "no"), Err(MissingRequirement::new("never", "no")));
    }
}
