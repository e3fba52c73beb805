//! Facts about this machine and this process, as `hemiola doctor` finds them.
//!
//! **Invariant:** looking changes nothing: no file is left behind, and nothing is sent beyond the
//! loopback interface. A fact that cannot be found is `None` or an error text, never a guess.

use super::system_files::SystemFiles;
use hemiola_cluster::environment::{self, EnvironmentVariable, ProcessEnvironment, VariableSource};
use hemiola_cluster::rank_assignment::RankAssignment;
use hemiola_cluster::{Cluster, SystemEnv};
use hemiola_net::{loopback_round_trip, outgoing_address};
use serde::Serialize;
use std::io::Write as _;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// Launchers and helpers to look for on the PATH.
pub(super) const PROGRAMS: [&str; 7] = ["mpirun", "mpiexec", "srun", "torchrun", "kubectl", "ssh", "nvidia-smi"];

/// Facts about machine and process.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MachineFacts {
    pub(super) cores: CoreFacts,
    pub(super) memory: MemoryFacts,
    pub(super) temporary: TemporaryFacts,
    pub(super) network: NetworkFacts,
    pub(super) launch: LaunchFacts,
    pub(super) gpu: GpuFacts,
    /// Maximum number of open files of a process; `None` if unlimited.
    pub(super) open_files: Option<u64>,
    /// Vector instructions of the CPU that Hemiola can use.
    pub(super) vector_instructions: Vec<&'static str>,
    /// Features of this build.
    pub(super) features: Vec<&'static str>,
}

/// Cores that this process may use.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CoreFacts {
    /// Cores of the machine.
    pub(super) machine: Option<usize>,
    /// Cores in the affinity mask of this process.
    pub(super) affinity: Option<usize>,
    /// CPU limit of the control group, in cores.
    pub(super) group_limit: Option<f64>,
    /// Worker threads that a single peer would start.
    pub(super) workers: usize,
}

/// Memory of the machine and of the control group, in bytes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MemoryFacts {
    pub(super) machine: Option<u64>,
    pub(super) available: Option<u64>,
    /// Memory limit of the control group.
    pub(super) group_limit: Option<u64>,
    /// Memory that the control group uses.
    pub(super) group_used: Option<u64>,
}

/// Folder for temporary files.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TemporaryFacts {
    pub(super) folder: PathBuf,
    /// Free bytes on its disk.
    pub(super) free: Option<u64>,
    /// Reason why no file can be created there.
    pub(super) problem: Option<String>,
}

/// Network as a peer needs it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NetworkFacts {
    /// Interfaces that are up, without loopback.
    pub(super) interfaces: Vec<String>,
    /// Address of this host on the way to other networks.
    pub(super) address: Option<IpAddr>,
    /// Median round trip on the loopback interface in microseconds, or the reason why there is none.
    pub(super) loopback: Result<f64, String>,
    pub(super) host: String,
    /// Addresses of the host name, or the reason why it has none.
    pub(super) addresses: Result<Vec<IpAddr>, String>,
}

/// Launchers, and what the environment says about a job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LaunchFacts {
    /// Programs on the PATH.
    pub(super) programs: Vec<&'static str>,
    /// Variables of launchers that are set.
    pub(super) variables: Vec<&'static str>,
    /// Job that a peer would join; `None` without a launcher.
    pub(super) job: Result<Option<JobFacts>, String>,
    /// Where the secret comes from: a variable, a file, or nowhere.
    pub(super) secret: Option<&'static str>,
}

/// Rank assignment of this process.
#[derive(Clone, Debug, Serialize)]
pub(super) struct JobFacts {
    pub(super) rank: usize,
    pub(super) size: usize,
    pub(super) launcher: String,
    pub(super) rendezvous: Option<String>,
}

/// NVIDIA GPUs of this machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct GpuFacts {
    /// Models of the GPUs that the driver lists.
    pub(super) models: Vec<String>,
    /// Number of device files.
    pub(super) devices: usize,
    /// Version of the kernel driver.
    pub(super) driver: Option<String>,
    /// True if this build can compute on GPUs.
    pub(super) enabled: bool,
}

impl MachineFacts {
    /// Looks at this machine.
    pub(super) fn find() -> Self {
        let (files, variables) = (SystemFiles::default(), ProcessEnvironment);
        let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Self {
            cores: cores(&files, &variables),
            memory: files.memory(),
            temporary: temporary(&variables),
            network: network(&files),
            launch: launch(&variables),
            gpu: files.gpu(cfg!(feature = "cuda")),
            open_files,
            vector_instructions: vector_instructions(),
            features: features(),
        }
    }
}

fn cores(files: &SystemFiles, variables: &dyn VariableSource) -> CoreFacts {
    let affinity = rustix::thread::sched_getaffinity(None).ok().map(|set| set.count() as usize);
    let set = variables.get_set(environment::WORKERS.name).and_then(|text| text.parse().ok());
    let workers = set.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    CoreFacts { machine: files.cores(), affinity, group_limit: files.group_cores(), workers }
}

fn temporary(variables: &dyn VariableSource) -> TemporaryFacts {
    let folder = variables.get_set(environment::TMPDIR.name).map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let free = rustix::fs::statvfs(&folder).ok().map(|room| room.f_bavail.saturating_mul(room.f_frsize));
    // A full disk may still have room for an empty file.
    let written = tempfile::tempfile_in(&folder).and_then(|mut file| file.write_all(&[0; 4096]));
    TemporaryFacts { folder, free, problem: written.err().map(|error| error.to_string()) }
}

fn network(files: &SystemFiles) -> NetworkFacts {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let resolved = (host.as_str(), 0).to_socket_addrs();
    let mut addresses = resolved.map(|found| found.map(|address| address.ip()).collect::<Vec<_>>());
    if let Ok(found) = &mut addresses {
        found.sort_unstable();
        found.dedup();
    }
    let loopback = loopback_round_trip(&SystemEnv::new()).map(|time| time.as_secs_f64() * 1e6);
    NetworkFacts {
        interfaces: files.interfaces(),
        address: outgoing_address().ok(),
        loopback: loopback.map_err(|error| error.to_string()),
        host,
        addresses: addresses.map_err(|error| error.to_string()),
    }
}

fn launch(variables: &dyn VariableSource) -> LaunchFacts {
    let path = variables.get_set(environment::PATH.name).unwrap_or_default();
    let is_there = |program: &&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let tables =
        [environment::TORCHRUN, environment::OPEN_MPI, environment::MPICH, environment::SLURM, environment::KUBERNETES];
    let of_jobs = [environment::RANK, environment::SIZE, environment::RENDEZVOUS, environment::JOB];
    let is_set = |variable: &EnvironmentVariable| {
        // Every system sets these two.
        let is_common = [environment::HOSTNAME.name, environment::TMPDIR.name].contains(&variable.name);
        !is_common && variables.get_set(variable.name).is_some()
    };
    let all = of_jobs.iter().chain(tables.into_iter().flatten());
    let secret = [environment::SECRET, environment::SECRET_FILE];
    LaunchFacts {
        programs: PROGRAMS.into_iter().filter(|program| is_there(program)).collect(),
        variables: all.filter(|variable| is_set(variable)).map(|variable| variable.name).collect(),
        job: job(variables),
        secret: secret.into_iter().find(|one| variables.get_set(one.name).is_some()).map(|one| one.name),
    }
}

fn job(variables: &dyn VariableSource) -> Result<Option<JobFacts>, String> {
    let assignment = RankAssignment::detect(variables).map_err(|error| error.to_string())?;
    // Also reads the secret, the certificates and all deadlines; nothing is joined.
    let checked = Cluster::builder().from_variables(variables);
    checked.map(drop).map_err(|error| error.to_string())?;
    Ok(assignment.map(|assignment| JobFacts {
        rank: assignment.rank.index(),
        size: assignment.size,
        launcher: assignment.launcher.to_string(),
        rendezvous: assignment.rendezvous.map(|rendezvous| rendezvous.to_string()),
    }))
}

fn vector_instructions() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            found.push("AVX2");
        }
        if std::is_x86_feature_detected!("avx512f") {
            found.push("AVX-512");
        }
    }
    #[cfg(target_arch = "aarch64")]
    found.push("NEON");
    found
}

/// Returns the features of this build.
fn features() -> Vec<&'static str> {
    [
        ("arrow", cfg!(feature = "arrow")),
        ("bench", cfg!(feature = "bench")),
        ("cuda", cfg!(feature = "cuda")),
        ("nets", cfg!(feature = "nets")),
        ("object-store", cfg!(feature = "object-store")),
        ("sim", cfg!(feature = "sim")),
    ]
    .into_iter()
    .filter_map(|(name, present)| present.then_some(name))
    .collect()
}
