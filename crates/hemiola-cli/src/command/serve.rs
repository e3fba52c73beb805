//! `hemiola serve`: a peer that only holds tables.

use clap::Args;
use hemiola::tables;
use hemiola_cluster::{Cluster, Interrupt};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
A dedicated server holds the rows of tables (`cluster.table`) for the peers that run a program. It has no workers, runs no part of the program, \
and ends when the program does. Rows go to dedicated servers by themselves if a job has any.

Usually `hemiola run` starts them, besides the peers:
    hemiola run -n 4 --servers 2 -- ./train

With another launcher, start the program first and servers behind it, and say how many there are:
    HEMIOLA_SERVERS=2 mpirun -x HEMIOLA_SERVERS -n 4 ./train : -n 2 hemiola serve

By hand, with the same variables as every peer and the highest ranks:
    HEMIOLA_RANK=4 HEMIOLA_SIZE=6 HEMIOLA_SERVERS=2 HEMIOLA_RENDEZVOUS=ada:29400 HEMIOLA_SECRET_FILE=secret hemiola serve

Server and program must be of the same version. Procedures of a program's own are not known here: such tables are refused, and can be held \
by the peers with `.servers(Servers::Peers)`.

Ctrl-C and SIGTERM are left to the program, which may want to save its tables; a second one ends the server at once.";

/// The arguments of `hemiola serve`: none. What it needs to know is in the environment.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {}

impl ServeArgs {
    #[expect(clippy::unused_self, reason = "there are no arguments to look at")]
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        Cluster::builder().from_environment()?.as_server().run(|cluster| {
            // Not before the peers have met: until then a signal ends this process as it does any other.
            let _interrupt = Interrupt::watch(|_| ())?;
            tables::serve(cluster)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
