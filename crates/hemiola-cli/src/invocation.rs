//! Invocation of the command line: the words that start it, and its arguments.
//!
//! A shell starts the binary as `hemiola ARGUMENTS`. The Python package starts the same code as
//! `python -m hemiola ARGUMENTS`, where the executable of the process is the interpreter. Commands
//! that start themselves again, as peers or servers, need the words in front of the arguments.
//!
//! **Invariant:** no other code of this crate reads the arguments or the executable of the process.

use hemiola_cluster::Error;
use hemiola_cluster::environment::ProcessEnvironment;
use hemiola_cluster::launch::{Launcher, Output, respawn_with};
use hemiola_cluster::rank_assignment::RankAssignment;
use hemiola_core::ErrorKind;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Invocation of this process. A process has one command line, as `std::env::args` does.
static OF_PROCESS: OnceLock<Invocation> = OnceLock::new();

/// Words that start the command line, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Program and leading arguments that start the command line, such as `python -m hemiola`.
    /// `None` is the executable of this process.
    launcher: Option<(PathBuf, Vec<OsString>)>,
    /// Name of the program, as it was called.
    name: OsString,
    arguments: Vec<OsString>,
}

impl Invocation {
    /// Returns the invocation of a binary of its own: the arguments of the process.
    #[must_use]
    pub fn of_binary() -> Self {
        let mut words = std::env::args_os();
        let name = words.next().unwrap_or_else(|| "hemiola".into());
        Self { launcher: None, name, arguments: words.collect() }
    }

    /// Creates an invocation with `arguments` through another program, which starts the command line
    /// if it is called with the arguments `leading` before them.
    #[must_use]
    pub fn through(program: PathBuf, leading: Vec<OsString>, arguments: Vec<OsString>) -> Self {
        Self { launcher: Some((program, leading)), name: "hemiola".into(), arguments }
    }

    /// Makes this the invocation of the process, unless there is one already; returns that one.
    pub(crate) fn of_process(self) -> &'static Self {
        OF_PROCESS.get_or_init(|| self)
    }

    /// Returns the invocation of the process.
    pub(crate) fn current() -> &'static Self {
        // Unit tests call parts of the command line without its main function.
        OF_PROCESS.get_or_init(Self::of_binary)
    }

    /// Iterates over the words of the command line, the name of the program first.
    pub(crate) fn words(&self) -> impl Iterator<Item = OsString> {
        std::iter::once(&self.name).chain(&self.arguments).cloned()
    }

    /// Returns the program to start, and its arguments, for the command line `arguments`.
    pub(crate) fn command(&self, arguments: &[OsString]) -> io::Result<(PathBuf, Vec<OsString>)> {
        let (program, leading) = match &self.launcher {
            Some(launcher) => launcher.clone(),
            None => (std::env::current_exe()?, Vec::new()),
        };
        Ok((program, leading.into_iter().chain(arguments.iter().cloned()).collect()))
    }

    /// Starts this invocation again as peers, as [`respawn_with`] does for a binary.
    pub(crate) fn respawn(
        &self,
        configure: impl FnOnce(Launcher) -> Launcher,
    ) -> hemiola_cluster::Result<Option<ExitCode>> {
        let Some((program, leading)) = &self.launcher else { return respawn_with(configure) };
        if RankAssignment::detect(&ProcessEnvironment).map_err(Error::RankAssignment)?.is_some() {
            return Ok(None);
        }
        let launcher = Launcher::new(program, leading.iter().chain(&self.arguments));
        let outcome = configure(launcher).run(Output::standard(&ProcessEnvironment))?;
        let lost = outcome.code() == 0 && outcome.output_lost;
        Ok(Some(ExitCode::from(if lost { ErrorKind::External.exit_code() } else { outcome.code() })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_started_with_its_leading_arguments() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let invocation = Invocation::through("/bin/python".into(), words("-m hemiola"), words("train mf -n 2"));
        assert_eq!(invocation.words().collect::<Vec<_>>(), words("hemiola train mf -n 2"));
        let command = ("/bin/python".into(), words("-m hemiola serve"));
        assert_eq!(invocation.command(&words("serve")).unwrap(), command);
    }
}
