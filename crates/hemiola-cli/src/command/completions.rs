//! `hemiola completions`: shell completion scripts.

use crate::{arguments, output};
use clap::Args;
use clap_complete::Shell;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  bash, for this user, from the next login:
    hemiola completions bash > ~/.local/share/bash-completion/completions/hemiola

  zsh, in a folder that $fpath names:
    hemiola completions zsh > ~/.zfunc/_hemiola

  fish:
    hemiola completions fish > ~/.config/fish/completions/hemiola.fish

  bash, in the running shell:
    source <(hemiola completions bash)";

/// Arguments of `hemiola completions`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for.
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut arguments::definition(), "hemiola", &mut script);
        output::print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
