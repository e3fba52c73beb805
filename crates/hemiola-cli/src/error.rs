//! Errors of the command itself, and the exit code of every error.
//!
//! **Invariant:** the exit code is that of the [`ErrorKind`] of the innermost typed error: 2 if the
//! user has to change something, 3 if the system failed and the same command may succeed later.
//! Message texts are never inspected.

use hemiola_cluster::launch::LaunchError;
use hemiola_core::ErrorKind;
use std::io;
use std::path::Path;

/// Error with a message, a kind (who has to act) and an optional hint (a way out).
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl CommandError {
    /// Creates an error of wrong use, exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, message: message.into(), hint: None }
    }

    /// Creates an error for a failed `action` on `path`, with a hint for common causes.
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("free some space and run again"),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some("choose another folder, or ask its owner for access")
            }
            io::ErrorKind::NotFound => Some("create the folder first, or check the path"),
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

    /// Wraps an error of `hemiola-array` and adds a hint that names a flag of this command.
    pub(crate) fn array(error: &hemiola_array::Error, hint: &str) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: Some(hint.to_owned()) }
    }

    /// Adds a hint: a way out of the error.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Returns the hint of an error, unless the message contains it already.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&str> {
    find_command_error(error)?.hint.as_deref()
}

/// Converts an error to a cluster error that keeps its kind and its hint.
pub(crate) fn into_cluster_error(error: anyhow::Error) -> hemiola_cluster::Error {
    match error.downcast::<CommandError>() {
        Ok(failure) => hemiola_cluster::Error::program(failure),
        Err(other) => hemiola_cluster::Error::program(other),
    }
}

/// Finds the [`CommandError`] within an error, through any number of layers.
fn find_command_error(error: &anyhow::Error) -> Option<&CommandError> {
    error.chain().find_map(|cause| match cause.downcast_ref::<hemiola_cluster::Error>() {
        Some(hemiola_cluster::Error::Program(carried)) => carried.downcast_ref(),
        _ => cause.downcast_ref(),
    })
}

/// Returns the error and its causes in one line. A layer that only repeats its cause is left out.
pub(crate) fn text(error: &anyhow::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !causes.last().is_some_and(|before| before.contains(&cause)) {
            causes.push(cause);
        }
    }
    causes.join(": ")
}

/// Returns the exit code of an error.
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
    fn a_message_repeated_by_a_layer_is_printed_once() {
        let missing = hemiola_array::Error::NoFiles { pattern: "x".into() };
        let expected = missing.to_string();
        let error = anyhow::Error::from(hemiola_cluster::Error::from(missing));
        assert_eq!(text(&error), expected);
        assert_eq!(text(&error.context("reading")), format!("reading: {expected}"));
    }

    #[test]
    fn the_exit_code_follows_the_error_kind() {
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
    fn an_error_keeps_its_kind_and_hint_through_a_cluster() {
        let full = || CommandError::io("write", Path::new("x"), &io::ErrorKind::StorageFull.into());
        let through = anyhow::Error::from(into_cluster_error(full().into()));
        assert_eq!(text(&through), full().to_string());
        assert_eq!((exit_code(&through), hint(&through)), (3, Some("free some space and run again")));
    }
}
