//! Process that started all peers of a host.
//!
//! A launcher sets a variable in the processes that it starts, and they pass it on to their own
//! children. The nearest ancestor *without* the variable is therefore the launcher's process on this
//! host, however many shells or wrappers are between: the same for all peers of the run. Its id and
//! start time together are unique until the host restarts.

use std::fs;

/// Largest number of ancestors that are looked at.
const MAX_ANCESTORS: usize = 64;

/// Fields of `/proc/PID/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessStatus {
    parent: u32,
    /// Start of the process, in ticks since the start of the host.
    start: u64,
}

/// Returns `PID-START` of the nearest ancestor of this process that was started without `variable`.
/// Returns `None` where the process table cannot be read.
pub(super) fn starter_without(variable: &str) -> Option<String> {
    let mut process = status(std::process::id())?.parent;
    for _ in 0..MAX_ANCESTORS {
        let status = status(process)?;
        // The environment of a process of another user cannot be read: our peers are our own.
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if !has_variable(&environment, variable) {
            return Some(format!("{process}-{}", status.start));
        }
        process = status.parent;
    }
    None
}

/// Returns true if `environment`, a list of `NAME=VALUE` that end with zeros, has the variable.
fn has_variable(environment: &[u8], variable: &str) -> bool {
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry.strip_prefix(variable.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

fn status(process: u32) -> Option<ProcessStatus> {
    parse_status(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Parses a line of `/proc/PID/stat`. The name of the program is in parentheses and may contain
/// spaces and parentheses itself.
fn parse_status(line: &str) -> Option<ProcessStatus> {
    let (_, fields) = line.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let parent = fields.nth(1)?.parse().ok()?; // after the state
    let start = fields.nth(17)?.parse().ok()?; // field 22 of the line
    Some(ProcessStatus { parent, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_parsed_whatever_the_program_is_called() {
        let line = "4711 (a) S (b) c) R 815 4711 99 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456 1000 2";
        assert_eq!(parse_status(line), Some(ProcessStatus { parent: 815, start: 123_456 }));
        assert_eq!(parse_status("4711 (short) R 815"), None);
        assert_eq!(parse_status(""), None);
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"PATH=/bin\0PMI_RANK=1\0EMPTY=\0";
        assert!(has_variable(environment, "PMI_RANK") && has_variable(environment, "EMPTY"));
        assert!(!has_variable(environment, "PMI") && !has_variable(environment, "RANK"));
    }

    #[test]
    fn the_nearest_ancestor_without_the_variable_is_found() {
        let parent = status(std::process::id()).unwrap().parent;
        let start = status(parent).unwrap().start;
        assert_eq!(starter_without("HEMIOLA_NO_SUCH_VARIABLE"), Some(format!("{parent}-{start}")));
        // Every process of a session has a search path, up to one that cannot be read.
        let above = starter_without("PATH");
        assert_ne!(above, Some(format!("{parent}-{start}")));
    }
}
