//! The terminal: colours and width.
//!
//! **Invariant:** a stream that is no terminal gets no colour, unless the user forces it: see
//! [`environment::allows_colour`]. Widths are at least one column, and 80 where they are unknown.

use hemiola_cluster::environment::{self, ProcessEnvironment};
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;

/// Colours of one output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    enabled: bool,
}

impl Palette {
    /// Returns the colours of standard output.
    pub(crate) fn stdout() -> Self {
        Self { enabled: environment::allows_colour(&ProcessEnvironment, io::stdout().is_terminal()) }
    }

    /// Returns the colours of standard error.
    pub(crate) fn stderr() -> Self {
        Self { enabled: environment::allows_colour(&ProcessEnvironment, io::stderr().is_terminal()) }
    }

    /// Returns a palette with or without colours.
    #[cfg(test)]
    pub(crate) const fn new(enabled: bool) -> Self {
        Self { enabled }
    }

    /// Returns true if text is coloured.
    pub(crate) const fn is_enabled(self) -> bool {
        self.enabled
    }

    /// Formats the label of an error, or a state that needs action.
    pub(crate) fn error(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Formats the label of a hint or a note.
    pub(crate) fn note(self, text: &str) -> String {
        self.paint("1;33", text)
    }

    /// Formats a good state.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Formats a heading of a section.
    pub(crate) fn heading(self, text: &str) -> String {
        self.paint("1;32", text)
    }

    /// Formats text that a user can type.
    pub(crate) fn code(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.enabled { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns the number of columns of a terminal.
pub(crate) fn columns(stream: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(stream);
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_text_is_unchanged() {
        assert_eq!(Palette::new(false).error("hemiola:"), "hemiola:");
        assert_eq!(Palette::new(true).error("hemiola:"), "\x1b[1;31mhemiola:\x1b[0m");
    }
}
