//! Every environment variable Hemiola reads or sets, in one file.
//!
//! The tables below are the reference: `docs/environment.md` is made from them by [`markdown`], and a test compares
//! the two. Code that needs a variable takes a [`Variables`] and one of the names from here. **Invariant:** nothing
//! else in Hemiola reads the process environment, so two peers with different variables can live in one test.
//!
//! ```
//! use hemiola_cluster::variables::{self, Variables};
//! use std::collections::BTreeMap;
//!
//! let map = BTreeMap::from([(variables::RANK.name.to_owned(), "3".to_owned())]);
//! assert_eq!(map.get_set(variables::RANK.name).as_deref(), Some("3"));
//! assert_eq!(map.get_set(variables::SIZE.name), None);
//! ```

use std::collections::BTreeMap;
use std::env::VarError;
use std::fmt::Write as _;

/// Where variables are looked up.
pub trait Variables {
    /// The value of `name`, if it is set. It may be empty.
    fn get(&self, name: &str) -> Option<String>;

    /// The value of `name`, if it is set to something: an empty variable counts as unset, because shells and pod
    /// templates cannot always unset one.
    fn get_set(&self, name: &str) -> Option<String> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessVariables;

impl Variables for ProcessVariables {
    #[expect(clippy::disallowed_methods, reason = "this is the one place where variables are read")]
    fn get(&self, name: &str) -> Option<String> {
        match std::env::var(name) {
            Ok(value) => Some(value),
            Err(VarError::NotPresent) => None,
            // Not "unset": whoever parses it will name the variable and show what is readable of its value.
            Err(VarError::NotUnicode(value)) => Some(value.to_string_lossy().into_owned()),
        }
    }
}

impl Variables for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        Self::get(self, name).cloned()
    }
}

/// A variable and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// How it is spelled.
    pub name: &'static str,
    /// What it means, in one line of markdown.
    pub meaning: &'static str,
    /// What holds when it is unset.
    pub default: &'static str,
}

/// Declares the variables as constants and collects them, in order, in a table.
macro_rules! table {
    ($(#[$outer:meta])* $table:ident { $($constant:ident = $name:literal, $meaning:literal, $default:literal;)* }) => {
        $(
            #[doc = concat!("`", $name, "`: ", $meaning, ".")]
            pub const $constant: Variable = Variable { name: $name, meaning: $meaning, default: $default };
        )*
        $(#[$outer])*
        pub const $table: &[Variable] = &[$($constant),*];
    };
}

table! {
    /// Our own variables, set by `hemiola run` or by hand.
    OURS {
        RANK = "HEMIOLA_RANK", "the number of this peer, from 0", "asked of other launchers, else a single peer";
        SIZE = "HEMIOLA_SIZE", "the number of peers in the job", "asked of other launchers, else 1";
        SERVERS = "HEMIOLA_SERVERS", "how many of the peers, those with the highest ranks, are dedicated servers: they run `hemiola serve` instead of the program", "none";
        LOCAL_RANK = "HEMIOLA_LOCAL_RANK", "the number of this peer among those on its host, from 0", "unknown";
        RENDEZVOUS = "HEMIOLA_RENDEZVOUS", "where the peers meet: `host:port`, or `file:/path` on one host", "asked of other launchers";
        SECRET = "HEMIOLA_SECRET", "the secret every peer of the job must prove to know", "none: only loopback is allowed";
        SECRET_FILE = "HEMIOLA_SECRET_FILE", "a file that holds the secret, for those who keep it out of the environment", "none";
        JOB = "HEMIOLA_JOB", "the name of the job; peers of different jobs refuse each other", "the launcher's job id, else none";
        WORKERS = "HEMIOLA_WORKERS", "the number of compute threads of this peer", "one per core; `hemiola run` shares the cores of a host among its peers";
        BIND = "HEMIOLA_BIND", "the address this peer listens on; `0.0.0.0` or `::` for all. Anything but loopback needs a secret", "the interface that leads to the meeting point: loopback, if that is on this host";
        ADVERTISE = "HEMIOLA_ADVERTISE", "the host name or address other peers reach this one at", "the address it listens on";
        TLS_CERT = "HEMIOLA_TLS_CERT", "this peer's certificate chain, a PEM file; turns TLS on", "no TLS";
        TLS_KEY = "HEMIOLA_TLS_KEY", "the private key of the certificate, a PEM file", "none; required with a certificate";
        TLS_CA = "HEMIOLA_TLS_CA", "the authority that signs the peers' certificates, a PEM file", "none; required with a certificate";
        TLS_NAME = "HEMIOLA_TLS_NAME", "the name the peers' certificates are made out to", "`hemiola`";
        JOIN_SECONDS = "HEMIOLA_JOIN_SECONDS", "how long peers wait for each other at the start", "60";
        SILENCE_SECONDS = "HEMIOLA_SILENCE_SECONDS", "a peer that has been silent this long is lost", "10";
        WAIT_SECONDS = "HEMIOLA_WAIT_SECONDS", "the longest wait inside a running job", "1800";
        STALL_SECONDS = "HEMIOLA_STALL_SECONDS", "a wait of this length is shown in a stall report", "15";
        STATUS_DIR = "HEMIOLA_STATUS_DIR", "the folder where a failing peer tells the launcher why", "none: nobody asks";
    }
}

table! {
    /// What `torchrun` sets, and whoever imitates it (Kubeflow's `PyTorchJob`, Ray Train).
    TORCHRUN {
        TORCH_RANK = "RANK", "the number of this process; with it the other four are read", "not started by torchrun";
        TORCH_WORLD_SIZE = "WORLD_SIZE", "the number of processes; also the size of a Kubernetes indexed job", "required with `RANK`";
        TORCH_LOCAL_RANK = "LOCAL_RANK", "the number of this process among those on its host", "unknown";
        TORCH_MASTER_ADDR = "MASTER_ADDR", "the host of process 0", "required with `RANK`";
        TORCH_MASTER_PORT = "MASTER_PORT", "a port on that host, where the peers meet", "required with `RANK`";
        TORCH_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE", "`True` if torchrun's own agent listens on `MASTER_PORT`: then the peers meet at the port after it", "the port is free";
        TORCH_RUN_ID = "TORCHELASTIC_RUN_ID", "the name of the job", "none";
    }
}

table! {
    /// What Open MPI's `mpirun` sets (versions 4 and 5).
    OPEN_MPI {
        OMPI_RANK = "OMPI_COMM_WORLD_RANK", "the number of this process", "not started by mpirun";
        OMPI_SIZE = "OMPI_COMM_WORLD_SIZE", "the number of processes", "required with the rank";
        OMPI_LOCAL_RANK = "OMPI_COMM_WORLD_LOCAL_RANK", "the number of this process among those on its host", "unknown";
        OMPI_LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE", "the number of processes on this host; if that is all of them, they meet through a file in a folder only the user can enter", "`HEMIOLA_RENDEZVOUS` is required";
        OMPI_NAMESPACE = "PMIX_NAMESPACE", "names one `mpirun`, and so the file to meet at", "the next one";
        OMPI_JOB_ID = "OMPI_MCA_ess_base_jobid", "the same, in version 4", "`HEMIOLA_RENDEZVOUS` is required";
        OMPI_TRANSPORT_KEY = "OMPI_MCA_orte_precondition_transports", "a random number of one `mpirun`; makes the file's name unique for ever", "the name may return after a restart of the host";
        TMPDIR = "TMPDIR", "where the folder for such files is made", "`/tmp`";
    }
}

table! {
    /// What Slurm's `srun` sets.
    SLURM {
        SLURM_STEP_ID = "SLURM_STEP_ID", "the number of the job step. `sbatch` scripts and `salloc` shells belong to no step: a program started there without `srun` is a single peer", "not started by srun";
        SLURM_PROCID = "SLURM_PROCID", "the number of this task", "required with the step";
        SLURM_STEP_NUM_TASKS = "SLURM_STEP_NUM_TASKS", "the number of tasks of the step", "the next one";
        SLURM_NTASKS = "SLURM_NTASKS", "the number of tasks of the job", "one of the two is required";
        SLURM_LOCALID = "SLURM_LOCALID", "the number of this task among those on its host", "unknown";
        SLURM_STEP_NODELIST = "SLURM_STEP_NODELIST", "the hosts of the step, as in `node[001-004,7],other`; the peers meet on the first, or on loopback if there is only one", "the next one";
        SLURM_JOB_NODELIST = "SLURM_JOB_NODELIST", "the hosts of the job", "`HEMIOLA_RENDEZVOUS` is required";
        SLURM_JOB_ID = "SLURM_JOB_ID", "the number of the job; with the step's it gives the port, from 20000 to 29999", "required with the step";
    }
}

table! {
    /// What Kubernetes sets in the pods of an indexed job.
    KUBERNETES {
        JOB_COMPLETION_INDEX = "JOB_COMPLETION_INDEX", "the number of this pod, which is the rank; the size comes from `HEMIOLA_SIZE` or `WORLD_SIZE`", "not in an indexed job";
        HOSTNAME = "HOSTNAME", "`<job>-<index>`, from which the root's address `<job>-0:29400` is made; where pods find each other through a headless service, set `HEMIOLA_RENDEZVOUS` to `<job>-0.<service>:29400`", "`HEMIOLA_RENDEZVOUS` is required";
    }
}

table! {
    /// What `hemiola run` itself obeys.
    TERMINAL {
        NO_COLOR = "NO_COLOR", "if set to anything, nothing is printed in colour", "colour on a terminal";
    }
}

table! {
    /// What tests and benchmarks look at.
    DEVELOPMENT {
        DATA = "HEMIOLA_DATA", "the folder of real data sets for tests and benchmarks", "tests that need one say \"skipped\"; benchmarks make their data up";
        PYTHON = "HEMIOLA_PYTHON", "a Python with the package `safetensors`, for the tests that have it read what we write", "`python3` of the path";
    }
}

/// Settings of ours that `hemiola run --hosts` hands on to peers on other hosts. What it sets itself, what holds for
/// one host only (`HEMIOLA_ADVERTISE`) and the secret are not among them.
pub const FORWARDED: &[Variable] =
    &[BIND, TLS_CERT, TLS_KEY, TLS_CA, TLS_NAME, JOIN_SECONDS, SILENCE_SECONDS, WAIT_SECONDS, STALL_SECONDS];

/// The text of `docs/environment.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Environment variables\n\n\
         Made from `crates/hemiola-cluster/src/variables.rs`; a test keeps the two equal. An empty variable counts as \
         unset.\n\n\
         Which peer a process is, is asked in the order of this page, and the first launcher that answers is believed. \
         `HEMIOLA_RENDEZVOUS` and `HEMIOLA_JOB` take precedence over what any launcher says. If none answers, the \
         process is a job of its own.\n",
    );
    let sections = [
        ("Hemiola", OURS),
        ("torchrun", TORCHRUN),
        ("Open MPI", OPEN_MPI),
        ("Slurm", SLURM),
        ("Kubernetes indexed jobs", KUBERNETES),
        ("The terminal", TERMINAL),
        ("Tests and benchmarks", DEVELOPMENT),
    ];
    for (title, table) in sections {
        let _ = write!(page, "\n## {title}\n\n| Variable | Meaning | If unset |\n|---|---|---|\n");
        for Variable { name, meaning, default } in table {
            let _ = writeln!(page, "| `{name}` | {meaning} | {default} |");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_page_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/environment.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        if page != markdown() {
            let fresh = std::env::temp_dir().join("environment.md");
            std::fs::write(&fresh, markdown()).expect("the folder for temporary files can be written");
            panic!("docs/environment.md is stale: copy {} over it", fresh.display());
        }
    }

    #[test]
    fn names_are_unique_and_ours_have_our_prefix() {
        let tables = [OURS, TORCHRUN, OPEN_MPI, SLURM, KUBERNETES, TERMINAL, DEVELOPMENT];
        let names: Vec<_> = tables.iter().copied().flatten().map(|variable| variable.name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(OURS.iter().all(|variable| variable.name.starts_with("HEMIOLA_")));
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let map = BTreeMap::from([("A".to_owned(), String::new())]);
        assert_eq!(Variables::get(&map, "A").as_deref(), Some(""));
        assert_eq!(map.get_set("A"), None);
    }

    #[test]
    fn the_process_environment_can_be_read() {
        assert!(ProcessVariables.get("PATH").is_some());
        assert_eq!(ProcessVariables.get("HEMIOLA_NO_SUCH_VARIABLE"), None);
    }
}
