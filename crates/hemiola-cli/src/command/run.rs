//! `hemiola run`: launches peers and supervises them.

use crate::Invocation;
use anyhow::Context as _;
use clap::{Args, ValueHint};
use hemiola_cluster::environment::ProcessEnvironment;
use hemiola_cluster::launch::{LaunchHost, Launcher, Output};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  Four peers on this machine, two compute threads each:
    hemiola run -n 4 --workers 2 -- target/release/examples/hello

  Four peers, with two dedicated parameter servers for their tables:
    hemiola run -n 4 --servers 2 -- ./train

  Two peers on each of two hosts that ssh can log in to without a password:
    hemiola run --hosts ada:2,bob:2 -- ./train --epochs 20

  JSON from peer 0, without the prefix `[0]`, for another program:
    hemiola run -n 4 --no-prefix -- hemiola train mf --data ratings.csv --report - | jq .result

  With a copy of each peer's output in logs/peer-<rank>.log:
    hemiola run -n 2 --log-dir logs -- ./train

Peers have an empty stdin. With --hosts they start in the launcher's folder, which must exist on every host and \
contain the program; of the environment they inherit only the variables HEMIOLA_*. Servers take the last slots, \
and need `hemiola` under the same path.

When a peer fails, the others have --grace seconds to exit; then they get SIGTERM and, two seconds later, SIGKILL. \
Ctrl-C is forwarded to the peers, which have --shutdown-timeout seconds to exit; a second Ctrl-C kills them at once.

Exit codes:
  0     all peers exited with 0, or the reader of their output closed it
  2     wrong use
  3     the system failed to start the peers
  126   the program cannot be executed
  127   the program was not found
  130   after Ctrl-C (128 + the signal number for other signals)
  other the exit code of the peer that failed; 128 + the signal number if it was killed";

/// Arguments of `hemiola run`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Number of peers that run the program (world size) [default: one per free slot of the hosts,
    /// else 1].
    #[arg(short = 'n', long, visible_alias = "np", value_name = "N")]
    peers: Option<NonZeroUsize>,

    /// Number of dedicated parameter servers: further processes that hold the program's tables, see
    /// `hemiola serve --help`.
    #[arg(long, value_name = "K", default_value = "0", hide_default_value = true)]
    servers: usize,

    /// Worker threads of each peer [default: the cores of a host, divided among its peers].
    #[arg(short, long, visible_alias = "threads", visible_short_alias = 'j', value_name = "W")]
    workers: Option<NonZeroUsize>,

    /// Hosts to launch peers on through ssh: `host`, `user@host` or `host:slots`.
    #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
    hosts: Vec<LaunchHost>,

    /// Rendezvous port on the first host, for peers on several hosts [default: random, 20000 to
    /// 39999].
    #[arg(long, value_name = "PORT", requires = "hosts", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Program to run in place of ssh.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh", requires = "hosts")]
    ssh: OsString,

    /// Folder for a copy of each peer's output.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,

    /// Grace period of the other peers after one has failed.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    grace: Duration,

    /// Time for the peers to exit after Ctrl-C or another signal, for instance to save a
    /// checkpoint.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    shutdown_timeout: Duration,

    /// Print the standard output of peer 0 without the prefix `[0]`, so that JSON stays JSON. Other
    /// peers and standard error keep the prefix.
    #[arg(long)]
    no_prefix: bool,

    /// Print only the output of the peers.
    #[arg(short, long)]
    quiet: bool,

    /// Program to launch, with its arguments. Flags of this command come before it; `--` may separate
    /// them.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

impl RunArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let outcome = self.launcher()?.run(Output::standard(&ProcessEnvironment))?;
        Ok(ExitCode::from(outcome.code()))
    }

    fn launcher(self) -> anyhow::Result<Launcher> {
        let (program, arguments) = self.program.split_first().expect("clap requires a program");
        let mut launcher = Launcher::new(program, arguments)
            .workers(self.workers.map(NonZeroUsize::get))
            .hosts(self.hosts)
            .port(self.port)
            .ssh(self.ssh)
            .grace(self.grace)
            .shutdown_timeout(self.shutdown_timeout)
            .quiet(self.quiet)
            .unprefixed_root(self.no_prefix);
        if let Some(peers) = self.peers {
            launcher = launcher.peers(peers.get());
        }
        if let Some(folder) = self.log_dir {
            launcher = launcher.log_dir(folder);
        }
        if self.servers > 0 {
            let serve = Invocation::current().command(&["serve".into()]);
            let (hemiola, arguments) = serve.context("cannot find the executable `hemiola` for the servers")?;
            launcher = launcher.servers(self.servers, hemiola, arguments);
        }
        Ok(launcher)
    }
}

/// Parses a duration in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is not a time in seconds, such as `3` or `0.5`");
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_parsed() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "-1", "nan", "inf", "soon", "1e300"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
