//! Quoting of words for a POSIX shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Quotes `word` so that any POSIX shell parses it as this one word.
///
/// The whole word is put between single quotes, where only the single quote has a meaning; it is
/// written `'\''`.
pub(super) fn quote(word: impl AsRef<OsStr>) -> OsString {
    let mut quoted = vec![b'\''];
    for &byte in word.as_ref().as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(br"'\''"),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_every_word_back() {
        let nasty = [
            &b""[..],
            b"plain",
            b"two words",
            b"it's",
            b"''",
            b"\"$HOME\"",
            b"`id`",
            b"$(id)",
            b"a\nb\n",
            b"\\",
            b"\\'",
            b"*",
            b"~",
            b"!x",
            b"-n",
            b"#",
            b"a;b&c|d>e<f",
            b"\t",
            b"\xff\xfe",
            "\u{e9}".as_bytes(),
        ];
        for word in nasty {
            let mut script = OsString::from("printf %s ");
            script.push(quote(OsStr::from_bytes(word)));
            // Twice, because the remote script is itself a word of a command line.
            let mut outer = OsString::from("exec sh -c ");
            outer.push(quote(&script));
            for script in [script, outer] {
                let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
                assert_eq!(output.stdout, word, "{}", word.escape_ascii());
            }
        }
    }
}
