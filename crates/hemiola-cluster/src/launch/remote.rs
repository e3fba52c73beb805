//! Script that runs a peer on another host.
//!
//! ```text
//!   launcher ── stdin of ssh ──► sshd ──► the script ──────────► the program, in a session of its own
//!               1st line: the secret       │  └ a reader: each further line is a signal for the program;
//!               then: names of signals     │    when the lines end, so does the program
//!                                          └ waits for the program, hands on its status file and its exit code
//! ```
//!
//! The secret is never on a command line, where every user of the host could read it. When the
//! launcher or the connection dies, the script's stdin ends, and the reader terminates the program:
//! no orphan is left in any case.
//!
//! The *reader* runs in the background, and not the program, because a shell without job control
//! makes its background commands ignore SIGINT, and a program cannot be expected to undo that.
//!
//! The script requires `sh`, `mktemp`, `mkfifo` and, for a process group of its own, `setsid`;
//! without the last (macOS, BSD) signals reach the program but not its children.

use super::quote::quote;
use super::status;
use hemiola_core::Rank;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Prefix of the line on stderr that contains the status file. It starts with a byte that no text
/// starts with.
pub(super) const STATUS_MARK: &[u8] = b"\x01hemiola-status ";

/// Parameters of a peer on another host.
#[derive(Debug)]
pub(super) struct RemotePeer<'a> {
    pub(super) rank: Rank,
    /// Names and values of all variables but the secret.
    pub(super) variables: &'a [(&'static str, String)],
    /// Number of peers that share the host's cores, if the number of workers is not given.
    pub(super) share_cores: Option<usize>,
    /// Working folder of the launcher, which is also that of the peers.
    pub(super) folder: &'a Path,
    pub(super) program: &'a OsStr,
    pub(super) arguments: &'a [OsString],
}

impl RemotePeer<'_> {
    /// Returns the single argument for ssh. The user's login shell parses it, so it consists of a
    /// call of `sh` and one single-quoted word.
    pub(super) fn command(&self) -> OsString {
        let mut command = OsString::from("exec sh -c ");
        command.push(quote(self.script()));
        command
    }

    fn script(&self) -> OsString {
        let mut script = OsString::from(
            "IFS= read -r HEMIOLA_SECRET || exit 255\nexport HEMIOLA_SECRET\nunset HEMIOLA_SECRET_FILE\n",
        );
        for (name, value) in self.variables {
            script.push(format!("export {name}="));
            script.push(quote(value));
            script.push("\n");
        }
        if let Some(peers) = self.share_cores {
            script.push(format!(
                "cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)\n\
                 export HEMIOLA_WORKERS=$((cores > {peers} ? cores / {peers} : 1))\n"
            ));
        }
        script.push("cd -- ");
        script.push(quote(self.folder));
        script.push(" || exit 126\n");
        script.push(BEFORE);
        for word in std::iter::once(self.program).chain(self.arguments.iter().map(OsString::as_os_str)) {
            script.push(" ");
            script.push(quote(word));
        }
        script.push(AFTER.replace("STATUS", &status::file_name(self.rank)));
        script
    }
}

/// Script before the program and its arguments. `box` contains the status file, the process id, and
/// a pipe that signals the start of the program. The traps keep the script itself alive through
/// signals to its group and through the loss of its output; unlike ignored signals they are not
/// inherited. Its own stderr is closed because shells print messages about killed children.
const BEFORE: &str = r#"box=$(mktemp -d "${TMPDIR:-/tmp}/hemiola-XXXXXX") || exit 126
export HEMIOLA_STATUS_DIR="$box"
mkfifo "$box/started" || exit 126
if command -v setsid >/dev/null 2>&1; then session=setsid group=-; else session= group=; fi
exec 3<&0 </dev/null 4>&2 2>/dev/null
trap : HUP INT PIPE TERM
(
    read -r pid <"$box/started"
    while IFS= read -r signal <&3; do kill -s "$signal" -- "$group$pid"; done
    trap 'kill "$nap"; exit' TERM
    kill -s TERM -- "$group$pid"
    sleep 2 & nap=$!
    wait "$nap"
    kill -s KILL -- "$group$pid"
) >/dev/null 4>&- &
reader=$!
$session sh -c 'echo $$ >"$HEMIOLA_STATUS_DIR/pid"; echo $$ >"$HEMIOLA_STATUS_DIR/started"
    exec 2>&4 3<&- 4>&-; exec "$@"' hemiola"#;

/// Script after the program and its arguments.
const AFTER: &str = r#"
code=$?
kill "$reader"
if [ -n "$group" ] && read -r pid <"$box/pid"; then kill -s KILL -- "-$pid"; fi
if [ -s "$box/STATUS" ]; then printf '\001hemiola-status %s\n' "$(cat "$box/STATUS")" >&4; fi
rm -rf "$box"
exit "$code"
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_testkit::require;
    use std::fs;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::{Command, Stdio};

    /// Result of a script.
    struct ScriptResult {
        code: Option<i32>,
        stdout: String,
        stderr: String,
    }

    /// Runs the remote script with `lines` as ssh's stdin, which ends after the program's first
    /// line.
    fn run(program: &str, arguments: &[&str], lines: &str) -> ScriptResult {
        let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
        let peer = RemotePeer {
            rank: Rank::new(1),
            variables: &[("HEMIOLA_RANK", "1".into()), ("HEMIOLA_JOB", "it's $HOME".into())],
            share_cores: Some(1_000_000),
            folder: Path::new("/"),
            program: OsStr::new(program),
            arguments: &arguments,
        };
        let mut command = Command::new("sh");
        command.arg("-c").arg(peer.command());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines.as_bytes()).unwrap();
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        if lines.is_empty() {
            drop(stdin);
        } else {
            reader.read_line(&mut stdout).unwrap();
            drop(stdin);
        }
        reader.read_to_string(&mut stdout).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        ScriptResult { code: child.wait().unwrap().code(), stdout, stderr }
    }

    /// Returns true if the process runs; a zombie does not.
    fn is_running(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    }

    #[test]
    fn variables_folder_and_arguments_arrive() {
        // One line, since the script ends after the first one.
        let show =
            r#"printf '%s|' "$HEMIOLA_SECRET" "$HEMIOLA_RANK" "$HEMIOLA_JOB" "$HEMIOLA_WORKERS" "$PWD" "$@"; exit 7"#;
        let ended = run("sh", &["-c", show, "sh", "a 'b'", "$x"], "s3cret\n");
        assert_eq!(ended.stdout, "s3cret|1|it's $HOME|1|/|a 'b'|$x|");
        assert_eq!(ended.code, Some(7));
    }

    /// Returns true if this process ignores SIGINT, as background jobs of a script do. A shell
    /// started by it cannot undo that.
    fn interrupts_are_ignored() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
        u64::from_str_radix(ignored, 16).is_ok_and(|ignored| ignored & 0b10 != 0)
    }

    #[test]
    fn signals_are_forwarded_and_sigint_is_not_ignored() {
        let heeded = !interrupts_are_ignored();
        require!(hemiola_testkit::condition("signals", heeded, "the tests run with SIGINT ignored"));
        let ended = run("sh", &["-c", "kill -s STOP $$; echo alive"], "s\nINT\nCONT\n");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(130), ""));
    }

    #[test]
    fn the_end_of_the_lines_ends_the_program_and_its_children() {
        let ended = run("sh", &["-c", "sleep 1000 & echo $! $$; wait"], "s\n");
        assert_eq!(ended.code, Some(128 + 15));
        let pids: Vec<_> = ended.stdout.split_whitespace().collect();
        assert!(pids.len() == 2 && !pids.iter().any(|pid| is_running(pid)), "{pids:?}");
    }

    #[test]
    fn without_a_secret_nothing_starts() {
        let ended = run("echo", &["started"], "");
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(255), ""));
    }

    #[test]
    fn the_status_file_comes_back_and_nothing_is_left() {
        let script =
            r#"echo '{"rank":1}' >"$HEMIOLA_STATUS_DIR/status-1.json"; printf %s "$HEMIOLA_STATUS_DIR"; exit 3"#;
        let ended = run("sh", &["-c", script], "s\n");
        assert_eq!(ended.stderr.as_bytes(), [STATUS_MARK, b"{\"rank\":1}\n"].concat());
        assert!(!ended.stdout.is_empty() && !Path::new(&ended.stdout).exists());
    }

    #[test]
    fn a_missing_program_is_127() {
        let ended = run("/no/such/program", &[], "s\n");
        assert_eq!(ended.code, Some(127));
        assert!(ended.stderr.contains("/no/such/program"), "{}", ended.stderr);
    }
}
