//! `hemiola man`: manual pages.

use crate::error::CommandError;
use crate::plural::counted;
use crate::{arguments, output};
use clap::{Args, ValueHint};
use clap_mangen::Man;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  For this user:
    hemiola man --output ~/.local/share/man/man1
    man hemiola-train-mf

  In a package:
    hemiola man --output debian/usr/share/man/man1

The folder gets a page for each command: hemiola.1, hemiola-train.1, hemiola-train-mf.1 and so on.";

/// Arguments of `hemiola man`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ManArgs {
    /// Folder for the pages; created if it does not exist.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: PathBuf,
}

impl ManArgs {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        fs::create_dir_all(&self.output).map_err(|error| CommandError::io("create", &self.output, &error))?;
        let mut command = arguments::definition().disable_help_subcommand(true);
        command.build();
        let pages = write_pages(&command, "hemiola", &self.output)?;
        output::print(&format!("wrote {} to `{}`\n", counted(pages, "page"), self.output.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the pages of a command and of all commands below it; returns their number.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> anyhow::Result<u64> {
    let mut page = Vec::new();
    let titled = command.clone().name(name.to_owned());
    Man::new(titled).manual("Hemiola").render(&mut page)?;
    output::write(&folder.join(format!("{name}.1")), &String::from_utf8_lossy(&page))?;
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    inner
        .map(|inner| write_pages(inner, &format!("{name}-{}", inner.get_name()), folder))
        .sum::<anyhow::Result<u64>>()
        .map(|pages| pages + 1)
}
