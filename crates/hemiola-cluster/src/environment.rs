//! Every environment variable Hemiola reads or sets, in one file.
//!
//! The tables below are the reference: [`markdown`] generates `docs/reference/environment.md` from them, and a
//! test compares the two. Code that needs a variable takes a [`VariableSource`] and one of the names
//! from here. **Invariant:** no other code in Hemiola reads the process environment, so two peers
//! with different variables can live in one test.
//!
//! ```
//! use hemiola_cluster::environment::{self, VariableSource};
//! use std::collections::BTreeMap;
//!
//! let map = BTreeMap::from([(environment::RANK.name.to_owned(), "3".to_owned())]);
//! assert_eq!(map.get_set(environment::RANK.name).as_deref(), Some("3"));
//! assert_eq!(map.get_set(environment::SIZE.name), None);
//! ```

use std::collections::BTreeMap;
use std::env::VarError;
use std::fmt::Write as _;

/// Source of environment variables.
pub trait VariableSource {
    /// Returns the value of `name`, if it is set. It may be empty.
    fn get(&self, name: &str) -> Option<String>;

    /// Returns the value of `name`, if it is set and not empty. An empty variable counts as unset,
    /// because shells and pod templates cannot always unset one.
    fn get_set(&self, name: &str) -> Option<String> {
        self.get(name).filter(|value| !value.is_empty())
    }
}

/// Environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessEnvironment;

impl VariableSource for ProcessEnvironment {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads variables")]
    fn get(&self, name: &str) -> Option<String> {
        match std::env::var(name) {
            Ok(value) => Some(value),
            Err(VarError::NotPresent) => None,
            // Not "unset": the parser names the variable and shows the readable part of its value.
            Err(VarError::NotUnicode(value)) => Some(value.to_string_lossy().into_owned()),
        }
    }
}

impl VariableSource for BTreeMap<String, String> {
    fn get(&self, name: &str) -> Option<String> {
        Self::get(self, name).cloned()
    }
}

/// Environment variable with its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Name of the variable.
    pub name: &'static str,
    /// Meaning, in one line of Markdown.
    pub meaning: &'static str,
    /// Behaviour if the variable is unset.
    pub default: &'static str,
}

/// Declares variables as constants and collects them, in order, in a table.
macro_rules! table {
    ($(#[$outer:meta])* $table:ident { $($constant:ident = $name:literal, $meaning:literal, $default:literal;)* }) => {
        $(
            #[doc = concat!("`", $name, "`: ", $meaning, ".")]
            pub const $constant: EnvironmentVariable = EnvironmentVariable { name: $name, meaning: $meaning, default: $default };
        )*
        $(#[$outer])*
        pub const $table: &[EnvironmentVariable] = &[$($constant),*];
    };
}

table! {
    /// Variables of Hemiola itself, set by `hemiola run` or by hand.
    HEMIOLA {
        RANK = "HEMIOLA_RANK", "rank of this peer, from 0", "taken from another launcher, else a single peer";
        SIZE = "HEMIOLA_SIZE", "number of peers in the job (world size)", "taken from another launcher, else 1";
        SERVERS = "HEMIOLA_SERVERS", "number of dedicated servers, which have the highest ranks and run `hemiola serve` instead of the program", "none";
        LOCAL_RANK = "HEMIOLA_LOCAL_RANK", "rank of this peer among those on its host, from 0", "unknown";
        RENDEZVOUS = "HEMIOLA_RENDEZVOUS", "rendezvous of the peers: `host:port`, or `file:/path` on one host", "taken from another launcher";
        SECRET = "HEMIOLA_SECRET", "secret with which the peers of the job authenticate each other: at least 16 random bytes, for example the output of `openssl rand -hex 32`", "peers that meet on loopback or in a file exchange a fresh one in a file that only the user can read; others refuse to start";
        SECRET_FILE = "HEMIOLA_SECRET_FILE", "file that contains the secret, to keep it out of the environment", "none";
        JOB = "HEMIOLA_JOB", "name of the job; peers of different jobs refuse each other", "job id of the launcher, else none";
        WORKERS = "HEMIOLA_WORKERS", "number of workers (compute threads) of this peer", "the cores of this host, divided among the peers that a launcher has started on it; a peer that is bound to cores uses those";
        BIND = "HEMIOLA_BIND", "address on which this peer listens; `0.0.0.0` or `::` for all interfaces. Any address but loopback requires a secret", "the interface that leads to the rendezvous: loopback, if that is on this host";
        ADVERTISE = "HEMIOLA_ADVERTISE", "host name or address at which other peers reach this one", "the address on which it listens";
        TLS_CERT = "HEMIOLA_TLS_CERT", "certificate chain of this peer, a PEM file; enables TLS", "no TLS";
        TLS_KEY = "HEMIOLA_TLS_KEY", "private key of the certificate, a PEM file", "none; required with a certificate";
        TLS_CA = "HEMIOLA_TLS_CA", "authority that signs the certificates of the peers, a PEM file", "none; required with a certificate";
        TLS_NAME = "HEMIOLA_TLS_NAME", "name to which the certificates of the peers are issued", "`hemiola`";
        JOIN_SECONDS = "HEMIOLA_JOIN_SECONDS", "time that peers wait for each other at start-up", "60";
        SILENCE_SECONDS = "HEMIOLA_SILENCE_SECONDS", "silence after which a peer counts as lost", "10";
        WAIT_SECONDS = "HEMIOLA_WAIT_SECONDS", "longest wait inside a running job without progress of the awaited peers", "300";
        STALL_SECONDS = "HEMIOLA_STALL_SECONDS", "duration after which a wait appears in a stall report", "15";
        STATUS_DIR = "HEMIOLA_STATUS_DIR", "folder in which a failing peer leaves a status report for the launcher", "no report";
    }
}

table! {
    /// Variables of `torchrun`, and of launchers that set the same ones (Kubeflow's `PyTorchJob`,
    /// Ray Train).
    TORCHRUN {
        TORCH_RANK = "RANK", "rank of this process; enables the other variables of torchrun", "not started by torchrun";
        TORCH_WORLD_SIZE = "WORLD_SIZE", "number of processes; also the size of a Kubernetes indexed job", "required with `RANK`";
        TORCH_LOCAL_RANK = "LOCAL_RANK", "rank of this process among those on its host", "unknown";
        TORCH_LOCAL_SIZE = "LOCAL_WORLD_SIZE", "number of processes on this host, which divide its cores among their workers", "each process uses all cores";
        TORCH_MASTER_ADDR = "MASTER_ADDR", "host of process 0", "required with `RANK`";
        TORCH_MASTER_PORT = "MASTER_PORT", "rendezvous port on that host", "required with `RANK`";
        TORCH_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE", "`True` if torchrun's own agent listens on `MASTER_PORT`: the rendezvous is then at the next port", "the port is free";
        TORCH_RUN_ID = "TORCHELASTIC_RUN_ID", "name of the job", "none";
    }
}

table! {
    /// Variables of Open MPI's `mpirun` (versions 4 and 5).
    OPEN_MPI {
        OMPI_RANK = "OMPI_COMM_WORLD_RANK", "rank of this process", "not started by mpirun";
        OMPI_SIZE = "OMPI_COMM_WORLD_SIZE", "number of processes", "required with the rank";
        OMPI_LOCAL_RANK = "OMPI_COMM_WORLD_LOCAL_RANK", "rank of this process among those on its host", "unknown";
        OMPI_LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE", "number of processes on this host; if that is all of them, the rendezvous is a file in a folder that only the user can enter", "`HEMIOLA_RENDEZVOUS` is required";
        OMPI_NAMESPACE = "PMIX_NAMESPACE", "identifier of one `mpirun`, and so of the rendezvous file", "the next variable is used";
        OMPI_JOB_ID = "OMPI_MCA_ess_base_jobid", "identifier of one `mpirun` in version 4", "`HEMIOLA_RENDEZVOUS` is required";
        OMPI_TRANSPORT_KEY = "OMPI_MCA_orte_precondition_transports", "random number of one `mpirun`; makes the file name unique", "the file name may recur after a restart of the host";
        TMPDIR = "TMPDIR", "parent of the folder for rendezvous files and for the secrets of jobs that meet on loopback", "`/tmp`";
    }
}

table! {
    /// Variables of Slurm's `srun`.
    SLURM {
        SLURM_STEP_ID = "SLURM_STEP_ID", "number of the job step. `sbatch` scripts and `salloc` shells belong to no step: a program started there without `srun` is a single peer", "not started by srun";
        SLURM_PROCID = "SLURM_PROCID", "rank of this task", "required with the step";
        SLURM_STEP_NUM_TASKS = "SLURM_STEP_NUM_TASKS", "number of tasks of the step", "the next variable is used";
        SLURM_NTASKS = "SLURM_NTASKS", "number of tasks of the job", "one of the two is required";
        SLURM_LOCALID = "SLURM_LOCALID", "rank of this task among those on its host", "unknown";
        SLURM_STEP_TASKS_PER_NODE = "SLURM_STEP_TASKS_PER_NODE", "number of tasks on each host, as in `2(x3),1`; tasks of one host divide its cores among their workers", "each task uses all cores that Slurm allows it";
        SLURM_NODEID = "SLURM_NODEID", "number of this host in the step", "0";
        SLURM_CPUS_PER_TASK = "SLURM_CPUS_PER_TASK", "number of cores for each task, and so of its workers", "the cores of a host are divided among its tasks";
        SLURM_STEP_NODELIST = "SLURM_STEP_NODELIST", "hosts of the step, as in `node[001-004,7],other`; the rendezvous is on the first, or on loopback if there is only one", "the next variable is used";
        SLURM_JOB_NODELIST = "SLURM_JOB_NODELIST", "hosts of the job", "`HEMIOLA_RENDEZVOUS` is required";
        SLURM_JOB_ID = "SLURM_JOB_ID", "number of the job; together with the step it determines the port, from 20000 to 29999", "required with the step";
    }
}

table! {
    /// Variables of MPICH's `mpiexec`, and of launchers that set the same ones (Intel MPI, Cray PALS,
    /// Flux).
    MPICH {
        MPICH_RANK = "PMI_RANK", "rank of this process", "not started by such a launcher";
        MPICH_SIZE = "PMI_SIZE", "number of processes", "required with the rank";
        MPICH_LOCAL_RANK = "MPI_LOCALRANKID", "rank of this process among those on its host", "unknown";
        MPICH_LOCAL_SIZE = "MPI_LOCALNRANKS", "number of processes on this host, which divide its cores among their workers; if that is all of them, the rendezvous is a file in a folder that only the user can enter", "`HEMIOLA_RENDEZVOUS` is required";
        PMIX_RANK = "PMIX_RANK", "rank that a launcher of another kind has assigned: the process refuses to run as a single peer", "not started by such a launcher";
    }
}

table! {
    /// Variables of pods of a Kubernetes indexed job.
    KUBERNETES {
        JOB_COMPLETION_INDEX = "JOB_COMPLETION_INDEX", "index of this pod, which is the rank; the size comes from `HEMIOLA_SIZE` or `WORLD_SIZE`", "not in an indexed job";
        HOSTNAME = "HOSTNAME", "`<job>-<index>`, from which the root's address `<job>-0:29400` is derived; if pods find each other through a headless service, set `HEMIOLA_RENDEZVOUS` to `<job>-0.<service>:29400`", "`HEMIOLA_RENDEZVOUS` is required";
    }
}

table! {
    /// Variables of the terminal and of the system.
    TERMINAL {
        NO_COLOR = "NO_COLOR", "disables coloured output if set to any value", "colour on a terminal";
        CLICOLOR_FORCE = "CLICOLOR_FORCE", "enables coloured output also in files and pipes if set to any value but `0`", "colour on a terminal only";
        PATH = "PATH", "folders of programs, in which `hemiola doctor` looks for launchers", "no launcher is found";
        TERM = "TERM", "type of the terminal; `dumb` has no colours", "the terminal has colours";
    }
}

table! {
    /// Variables of tests and benchmarks.
    DEVELOPMENT {
        DATA = "HEMIOLA_DATA", "folder of real data sets for tests and benchmarks", "tests that need one are skipped; benchmarks use synthetic data";
        SKIPS = "HEMIOLA_SKIPS", "file to which skipped tests are appended", "skips are only printed";
        ALLOW_SKIPS = "HEMIOLA_ALLOW_SKIPS", "requirements whose absence may skip a test where `CI` is set, separated by commas", "in CI, a missing requirement fails the test";
        BLESS = "HEMIOLA_BLESS", "tests of generated pages write them if set to any value", "tests compare the pages with the code";
        SCHEDULES = "HEMIOLA_SCHEDULES", "number of random schedules in model checks and explorations", "the number that the test chooses";
        FIRST_SCHEDULE = "HEMIOLA_FIRST_SCHEDULE", "seed of the first random schedule", "0";
        PYTHON = "HEMIOLA_PYTHON", "Python interpreter with the packages `safetensors`, `onnx` and `onnxruntime`, for tests that read files with them", "`python3` in `PATH`";
    }
}

/// Variables that `hemiola run --hosts` forwards to peers on other hosts. Not among them: variables
/// that it sets itself, the secret, and `HEMIOLA_ADVERTISE`, which applies to one host only.
pub const FORWARDED: &[EnvironmentVariable] =
    &[BIND, TLS_CERT, TLS_KEY, TLS_CA, TLS_NAME, JOIN_SECONDS, SILENCE_SECONDS, WAIT_SECONDS, STALL_SECONDS];

/// Returns true if a stream gets coloured output, given whether it is a terminal.
///
/// ```
/// use hemiola_cluster::environment::allows_colour;
/// use std::collections::BTreeMap;
///
/// let dumb = BTreeMap::from([("TERM".to_owned(), "dumb".to_owned())]);
/// assert!(!allows_colour(&dumb, true));
/// assert!(allows_colour(&BTreeMap::new(), true) && !allows_colour(&BTreeMap::new(), false));
/// ```
#[must_use]
pub fn allows_colour(variables: &dyn VariableSource, is_terminal: bool) -> bool {
    if variables.get_set(NO_COLOR.name).is_some() {
        return false;
    }
    let is_forced = variables.get_set(CLICOLOR_FORCE.name).is_some_and(|value| value != "0");
    is_forced || (is_terminal && variables.get_set(TERM.name).is_none_or(|term| term != "dumb"))
}

/// Returns the text of `docs/reference/environment.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Environment variables\n\n\
         This page lists the environment variables that Hemiola reads. It is for operators and for authors of\n\
         launchers. It is generated from `crates/hemiola-cluster/src/environment.rs`; a test keeps the two\n\
         equal. An empty variable counts as unset.\n\n\
         Launchers are checked in the order of this page, and the first one whose variables are set\n\
         assigns rank and size of the process. `HEMIOLA_RENDEZVOUS` and `HEMIOLA_JOB` take precedence over\n\
         the values of any launcher. Without a launcher, the process is a job of one peer.\n",
    );
    let sections = [
        ("Hemiola", HEMIOLA),
        ("torchrun", TORCHRUN),
        ("Open MPI", OPEN_MPI),
        ("MPICH, Intel MPI, Cray PALS, Flux", MPICH),
        ("Slurm", SLURM),
        ("Kubernetes indexed jobs", KUBERNETES),
        ("Terminal and system", TERMINAL),
        ("Tests and benchmarks", DEVELOPMENT),
    ];
    for (title, table) in sections {
        let _ = write!(page, "\n## {title}\n\n| Variable | Meaning | If unset |\n|---|---|---|\n");
        for EnvironmentVariable { name, meaning, default } in table {
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/environment.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        if page != markdown() {
            let fresh = std::env::temp_dir().join("environment.md");
            std::fs::write(&fresh, markdown()).expect("the temporary folder is writable");
            panic!("docs/reference/environment.md is stale: copy {} over it", fresh.display());
        }
    }

    #[test]
    fn names_are_unique_and_own_variables_have_the_prefix() {
        let tables = [HEMIOLA, TORCHRUN, OPEN_MPI, SLURM, MPICH, KUBERNETES, TERMINAL, DEVELOPMENT];
        let names: Vec<_> = tables.iter().copied().flatten().map(|variable| variable.name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(HEMIOLA.iter().all(|variable| variable.name.starts_with("HEMIOLA_")));
    }

    #[test]
    fn colour_is_for_terminals_unless_forced_or_disabled() {
        let allows = |variables: &[(&str, &str)], is_terminal| {
            let map: BTreeMap<String, String> =
                variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            allows_colour(&map, is_terminal)
        };
        assert!(allows(&[("TERM", "xterm")], true) && !allows(&[("TERM", "xterm")], false));
        assert!(!allows(&[("TERM", "dumb")], true));
        assert!(allows(&[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], false));
        assert!(!allows(&[("CLICOLOR_FORCE", "0")], false));
        assert!(!allows(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true));
        assert!(allows(&[("NO_COLOR", "")], true), "an empty variable counts as unset");
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let map = BTreeMap::from([("A".to_owned(), String::new())]);
        assert_eq!(VariableSource::get(&map, "A").as_deref(), Some(""));
        assert_eq!(map.get_set("A"), None);
    }

    #[test]
    fn the_process_environment_can_be_read() {
        assert!(ProcessEnvironment.get("PATH").is_some());
        assert_eq!(ProcessEnvironment.get("HEMIOLA_NO_SUCH_VARIABLE"), None);
    }
}
