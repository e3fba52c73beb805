//! Quoting of command lines, so that they can be pasted into a shell.

use std::ffi::{OsStr, OsString};

/// Joins words to one line that a POSIX shell splits into the same words.
pub(crate) fn line(words: impl IntoIterator<Item = OsString>) -> String {
    words.into_iter().map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-+=:,./@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    // Between single quotes only the single quote itself is special.
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_splits_the_line_into_the_same_words() {
        let words = ["printf", "%s|", "a b", "", "it's", "*.csv", "--plain=1", "$HOME", "a\nb"];
        let line = line(words.iter().map(OsString::from));
        assert!(line.starts_with("printf '%s|' 'a b' ''"), "{line}");
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a b||it's|*.csv|--plain=1|$HOME|a\nb|");
    }
}
