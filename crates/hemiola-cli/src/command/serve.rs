//! `hemiola serve`: a dedicated parameter server.

use clap::Args;
use hemiola::tables;
use hemiola_cluster::{Cluster, Interrupt};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
A dedicated server holds the rows of parameter-server tables (`cluster.table`) for the peers that run a program. It has \
no workers, runs no part of the program, and exits with it. A job with dedicated servers places all rows on them.

`hemiola run` starts them beside the peers:
    hemiola run -n 4 --servers 2 -- ./train

With another launcher, start the servers after the program, and set their number:
    HEMIOLA_SERVERS=2 mpirun -x HEMIOLA_SERVERS -n 4 ./train : -n 2 hemiola serve

By hand, with the same variables as every peer, and the highest ranks:
    HEMIOLA_RANK=4 HEMIOLA_SIZE=6 HEMIOLA_SERVERS=2 HEMIOLA_RENDEZVOUS=ada:29400 \
HEMIOLA_SECRET_FILE=secret hemiola serve

Server and program must have the same version. A server knows the built-in update rules only: tables with a custom \
update rule are refused, and can be held by the peers with `.servers(Servers::Peers)`.

A server ignores the first Ctrl-C or SIGTERM, so that the program can save its tables; a second one ends it at once.";

/// Arguments of `hemiola serve`: none. The configuration comes from the environment.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {}

impl ServeArgs {
    #[expect(clippy::unused_self, reason = "the command has no arguments")]
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        Cluster::builder().from_environment()?.as_server().run(|cluster| {
            // Installed after the rendezvous: until then a signal ends this process as usual.
            let _interrupt = Interrupt::watch(|_| ())?;
            tables::serve(cluster)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
