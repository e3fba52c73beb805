//! Failures of the command itself, and the exit code of any failure.
//!
//! **Invariant:** the exit code is that of the [`ErrorKind`] of the innermost typed error: 2 if the user has to change
//! something, 3 if the world failed and the same command may succeed later. Text is never looked at.

use hemiola_cluster::launch::LaunchError;
use hemiola_core::ErrorKind;
use std::io;
use std::path::Path;

/// What went wrong, who has to act, and what could help.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl CommandError {
    /// Something wrong was asked for.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, message: message.into(), hint: None }
    }

    /// The system refused to do `action` to `path`.
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("free some space and run again"),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some("choose another place, or ask its owner")
            }
            io::ErrorKind::NotFound => Some("make the folder first, or check the path"),
            _ => None,
        };
        let failure = Self {
            kind: io_kind(error),
            message: format!("cannot {action} `{}`: {error}", path.display()),
            hint: None,
        };
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// An error of the arrays with a hint to an option of this command.
    pub(crate) fn array(error: &hemiola_array::Error, hint: &str) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: Some(hint.to_owned()) }
    }

    /// Adds a way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The way out that an error knows of, if it is not part of its message.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&str> {
    find_command_error(error)?.hint.as_deref()
}

/// A failure as a cluster carries it out of a program: its kind and its hint are not lost on the way.
pub(crate) fn into_cluster_error(error: anyhow::Error) -> hemiola_cluster::Error {
    match error.downcast::<CommandError>() {
        Ok(failure) => hemiola_cluster::Error::program(failure),
        Err(other) => hemiola_cluster::Error::program(other),
    }
}

/// The failure of the command, if that is what it is, whichever layers it has come through.
fn find_command_error(error: &anyhow::Error) -> Option<&CommandError> {
    error.chain().find_map(|cause| match cause.downcast_ref::<hemiola_cluster::Error>() {
        Some(hemiola_cluster::Error::Program(carried)) => carried.downcast_ref(),
        _ => cause.downcast_ref(),
    })
}

/// The failure and its causes in one line. A layer that only passes on what is beneath it is not repeated.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !causes.last().is_some_and(|before| before.contains(&cause)) {
            causes.push(cause);
        }
    }
    causes.join(": ")
}

/// The exit code of a failure.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(failure) = find_command_error(error) {
        return failure.kind.exit_code();
    }
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<LaunchError>() {
            return error.exit_code();
        }
        let kind = cause
            .downcast_ref::<hemiola_array::Error>()
            .map(hemiola_array::Error::kind)
            .or_else(|| cause.downcast_ref::<hemiola_cluster::Error>().map(hemiola_cluster::Error::kind))
            .or_else(|| cause.downcast_ref::<io::Error>().map(io_kind));
        if let Some(kind) = kind {
            return kind.exit_code();
        }
    }
    1
}

fn io_kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory => ErrorKind::Usage,
        _ => ErrorKind::External,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn what_a_layer_passes_on_is_said_once() {
        let missing = hemiola_array::Error::NoFiles { pattern: "x".into() };
        let expected = missing.to_string();
        let error = anyhow::Error::from(hemiola_cluster::Error::from(missing));
        assert_eq!(text(&error), expected);
        assert_eq!(text(&error.context("reading")), format!("reading: {expected}"));
    }

    #[test]
    fn the_exit_code_is_that_of_the_kind() {
        let code = |error: anyhow::Error| exit_code(&error);
        assert_eq!(code(CommandError::usage("no").into()), 2);
        assert_eq!(code(CommandError::io("write", Path::new("x"), &io::ErrorKind::StorageFull.into()).into()), 3);
        assert_eq!(code(hemiola_array::Error::NoFiles { pattern: "x".into() }.into()), 2);
        let changed = hemiola_array::Error::FileChanged { file: "x".into(), before: 1, after: 2 };
        assert_eq!(code(anyhow::Error::from(changed).context("reading")), 3);
        assert_eq!(code(Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("x").unwrap_err()), 3);
        assert_eq!(code(anyhow::anyhow!("anything else")), 1);
        assert_eq!(
            code(CommandError::io("write", Path::new("x"), &io::ErrorKind::ReadOnlyFilesystem.into()).into()),
            3
        );
    }

    #[test]
    fn a_failure_that_has_come_through_a_cluster_is_the_same() {
        let full = || CommandError::io("write", Path::new("x"), &io::ErrorKind::StorageFull.into());
        let through = anyhow::Error::from(into_cluster_error(full().into()));
        assert_eq!(text(&through), full().to_string());
        assert_eq!((exit_code(&through), hint(&through)), (3, Some("free some space and run again")));
    }
}
