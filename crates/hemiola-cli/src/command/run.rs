//! `hemiola run`: starts peers and supervises them.

use anyhow::Context as _;
use clap::Args;
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

  Four peers, whose tables are held by two further processes:
    hemiola run -n 4 --servers 2 -- ./train

  Two peers on each of two hosts that ssh can log in to without a password:
    hemiola run --hosts ada:2,bob:2 -- ./train --epochs 20

  A result that another program reads, as peer 0 prints it:
    hemiola run -n 4 --bare -- hemiola train mf --data ratings.csv --report - | jq .result

  With a copy of each peer's output in logs/peer-<rank>.log:
    hemiola run -n 2 --logs logs -- ./train

Peers read nothing from stdin. With --hosts they start in the same folder as the launcher, which has to exist on every \
host with the program in it; of the environment they get only the settings HEMIOLA_*, not the rest. Servers have the last \
slots, and need `hemiola` under the same path.

When a peer fails, the others have the time of --grace to end, then they are terminated and, two seconds later, killed. \
Ctrl-C is forwarded to the peers, which have the time of --shutdown-timeout to end; a second one kills them at once.

Exit codes:
  0     all peers ended well, or nobody read their output any more
  2     wrong use
  3     the system would not start the peers
  126   the program cannot be executed
  127   the program was not found
  130   after Ctrl-C (128 + the signal, for others)
  other that of the peer that failed; 128 + the signal if it was killed";

/// The arguments of `hemiola run`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct RunArgs {
    /// Number of peers that run the program [default: one per slot of the hosts that no server has, else 1].
    #[arg(short = 'n', long, value_name = "N")]
    peers: Option<NonZeroUsize>,

    /// Dedicated servers: further processes that hold the program's tables, see `hemiola serve --help`.
    #[arg(long, value_name = "K", default_value = "0", hide_default_value = true)]
    servers: usize,

    /// Compute threads of each peer [default: the cores of a host, shared among its peers].
    #[arg(short, long, value_name = "W")]
    workers: Option<NonZeroUsize>,

    /// Hosts to start the peers on through ssh: `host`, `user@host` or `host:slots`.
    #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
    hosts: Vec<LaunchHost>,

    /// Port on the first host where peers on several hosts meet [default: a random one from 20000 to 39999].
    #[arg(long, value_name = "PORT", requires = "hosts", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Program to use as ssh.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh", requires = "hosts")]
    ssh: OsString,

    /// Folder for a copy of each peer's output.
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    /// How long the other peers may go on after one has failed.
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    grace: Duration,

    /// Time that the peers have to end after Ctrl-C or another signal, for instance to save a checkpoint.
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    shutdown_timeout: Duration,

    /// Pass on what peer 0 prints to standard output as it is, without `[0]` before each line, so that JSON stays JSON. Lines of other
    /// peers, and what goes to standard error, keep their ranks.
    #[arg(long)]
    bare: bool,

    /// Print only what the peers print.
    #[arg(short, long)]
    quiet: bool,

    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
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
            .unprefixed_root(self.bare);
        if let Some(peers) = self.peers {
            launcher = launcher.peers(peers.get());
        }
        if let Some(folder) = self.logs {
            launcher = launcher.log_dir(folder);
        }
        if self.servers > 0 {
            let hemiola = std::env::current_exe().context("cannot find the program `hemiola` for the servers")?;
            launcher = launcher.servers(self.servers, hemiola, ["serve"]);
        }
        Ok(launcher)
    }
}

/// Reads a time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is no time in seconds, such as `3` or `0.5`");
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "-1", "nan", "inf", "soon", "1e300"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
