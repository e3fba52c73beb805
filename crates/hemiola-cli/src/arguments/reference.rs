//! The reference page of the command line, `docs/reference/command-line.md`, made of the definition
//! that clap parses by.
//!
//! The page is of the build that CI tests, with the feature `full`; `HEMIOLA_BLESS=1` writes it.

use super::definition;
use clap::{Arg, Command};
use std::fmt::Write as _;

/// Returns the reference page as Markdown.
fn page() -> String {
    let mut root = definition().disable_help_subcommand(true).term_width(0);
    root.build();
    let mut page = String::from(
        "# Command line\n\n\
         Every command of `hemiola` with its flags, defaults and aliases, for looking up. The page is\n\
         generated from the code of a build with the feature `full`; `hemiola COMMAND --help` prints the\n\
         part of one command, and `hemiola examples` prints commands to copy.\n",
    );
    let _ = write!(page, "\n| Command | Purpose |\n|---|---|\n");
    contents(&root, "hemiola", &mut page);
    section(&root, "hemiola", &mut page);
    page
}

/// Commands that are shown.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set())
}

/// Adds a line of the table of contents for each command that does something.
fn contents(command: &Command, path: &str, page: &mut String) {
    if !command.has_subcommands() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "| [`{path}`](#{}) | {about} |", path.replace(' ', "-"));
    }
    for inner in shown(command) {
        contents(inner, &format!("{path} {}", inner.get_name()), page);
    }
}

/// Adds the sections of a command and of all below it.
fn section(command: &Command, path: &str, page: &mut String) {
    let _ = write!(page, "\n## {path}\n\n");
    if let Some(about) = command.get_about() {
        let _ = write!(page, "{about}.\n\n");
    }
    if command.has_subcommands() {
        let names: Vec<String> = shown(command)
            .map(|inner| format!("[`{}`](#{}-{})", inner.get_name(), path.replace(' ', "-"), inner.get_name()))
            .collect();
        let _ = writeln!(page, "{}", wrapped(&format!("Commands: {}.", names.join(", "))));
    } else {
        let usage = command.clone().render_usage().to_string();
        let _ = write!(page, "```text\n{}\n```\n", usage.trim());
        arguments(command, page);
    }
    if let Some(help) = command.get_after_help().or_else(|| command.get_after_long_help()) {
        let _ = write!(page, "\n```text\n{}\n```\n", reflowed(&help.to_string()));
    }
    for inner in shown(command) {
        section(inner, &format!("{path} {}", inner.get_name()), page);
    }
}

/// Adds a table of arguments for each heading of the help, in the order of the help.
fn arguments(command: &Command, page: &mut String) {
    let all: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str()))
        .collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in &all {
        let heading = argument.get_help_heading();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    // Those without a heading come first.
    headings.sort_by_key(Option::is_some);
    for heading in headings {
        let title = heading.unwrap_or("Argument");
        let _ = write!(page, "\n| {title} | Meaning | Default |\n|---|---|---|\n");
        for argument in all.iter().filter(|argument| argument.get_help_heading() == heading) {
            let _ = writeln!(page, "{}", row(argument));
        }
    }
}

/// Formats the row of an argument: its names, its meaning, its default.
fn row(argument: &Arg) -> String {
    let mut names = Vec::new();
    names.extend(argument.get_short().map(|short| format!("`-{short}`")));
    let values = if argument.get_action().takes_values() || argument.is_positional() {
        let names: Vec<String> =
            argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
        names.join(" ")
    } else {
        String::new()
    };
    match argument.get_long() {
        Some(long) if values.is_empty() => names.push(format!("`--{long}`")),
        Some(long) => names.push(format!("`--{long} {values}`")),
        None if argument.is_positional() => names.push(format!("`{values}`")),
        None => {}
    }
    names.extend(argument.get_visible_short_aliases().unwrap_or_default().iter().map(|short| format!("`-{short}`")));
    names.extend(argument.get_visible_aliases().unwrap_or_default().iter().map(|alias| format!("`--{alias}`")));
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let (mut meaning, stated) = match help.split_once(" [default: ") {
        Some((meaning, rest)) => (meaning.to_owned(), rest.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    if !meaning.ends_with('.') {
        meaning.push('.');
    }
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), help.to_string().trim_end_matches('.')),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !possible.is_empty() && !argument.is_hide_possible_values_set() && argument.get_action().takes_values() {
        let _ = write!(meaning, " One of {}.", possible.join(", "));
    }
    let default = if !stated.is_empty() {
        stated
    } else if argument.is_required_set() {
        "required".to_owned()
    } else if argument.get_action().takes_values() {
        let values: Vec<String> =
            argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
        values.join(", ")
    } else {
        String::new()
    };
    format!("| {} | {} | {} |", cell(&names.join(", ")), cell(&meaning), cell(&default))
}

/// Escapes what would end a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Wraps a paragraph at 100 characters.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines.join("\n")
}

/// Wraps the long lines of a help text, as clap does on a terminal of 100 columns.
fn reflowed(help: &str) -> String {
    let lines = help.trim_end().lines().map(|line| if line.starts_with(' ') { line.to_owned() } else { wrapped(line) });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn aliases_defaults_and_values_are_in_the_page() {
    let page = page();
    for expected in [
        "## hemiola train mf\n",
        "`--rank N`, `--factors`, `--n-components`",
        "| `--seed N`, `--random-state` |",
        "| `32` |",
        "0.045; 0.007 with --loss one-class",
        "`squared` (Squared error of numeric ratings)",
        "| required |",
    ] {
        assert!(page.contains(expected), "no {expected:?} in\n{page}");
    }
}

#[cfg(all(feature = "arrow", feature = "bench", feature = "nets", feature = "object-store", feature = "sim"))]
#[test]
fn the_reference_page_is_fresh() {
    use hemiola_cluster::environment::{self, ProcessEnvironment, VariableSource as _};

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/command-line.md");
    if ProcessEnvironment.get_set(environment::BLESS.name).is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, page()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == page(), "docs/reference/command-line.md is stale: write it with HEMIOLA_BLESS=1");
}
