//! Rank assignment: rank and size of this process, and the rendezvous of the job.
//!
//! A process learns these from variables that its launcher has set. [`RankAssignment::detect`]
//! checks the known launchers in a fixed order, and the first that has set its variables wins:
//! `HEMIOLA_*`, torchrun, Open MPI, MPICH, Slurm, Kubernetes. One file of this module handles each.
//! Detection is a function of its argument alone, apart from the user id and, for MPICH, the process
//! that started the peers.
//!
//! **Invariant:** a process is never taken for a peer of a job that was not started, nor for a
//! single peer of a job that was. So an allocation without a running step (an `sbatch` script) is
//! not a launcher, while incomplete variables (a rank without a size) are an error that names the
//! variable, its value and a way out.
//!
//! `HEMIOLA_RENDEZVOUS` and `HEMIOLA_JOB` override the values of any launcher, so that a user can
//! set the rendezvous without numbering the peers.
//!
//! ```
//! use hemiola_cluster::rank_assignment::{LauncherKind, RankAssignment};
//! use std::collections::BTreeMap;
//!
//! let torchrun = [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "node7"), ("MASTER_PORT", "29500")];
//! let variables: BTreeMap<String, String> = torchrun.map(|(name, value)| (name.into(), value.into())).into();
//! let assignment = RankAssignment::detect(&variables)?.expect("torchrun assigned a rank");
//! assert_eq!((assignment.rank.index(), assignment.size), (1, 4));
//! assert_eq!(assignment.rendezvous, Some("node7:29500".parse()?));
//! assert_eq!(assignment.launcher, LauncherKind::Torchrun);
//!
//! assert_eq!(RankAssignment::detect(&BTreeMap::new())?, None, "no launcher");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod hemiola;
mod kubernetes;
mod lookup;
mod mpich;
mod open_mpi;
pub(crate) mod private_folder;
mod process_tree;
mod rendezvous;
mod slurm;
mod torchrun;

pub use error::RankAssignmentError;
pub(crate) use rendezvous::{join_host_port, prepare};

use crate::environment::{self, VariableSource};
use hemiola_core::Rank;
use hemiola_net::Rendezvous;
use lookup::VariableLookup;
use std::fmt;

/// Launcher that assigned the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LauncherKind {
    /// `hemiola run`, or a user who set the `HEMIOLA_*` variables.
    Hemiola,
    /// `torchrun`, or a program that sets the same variables.
    Torchrun,
    /// Open MPI's launcher `mpirun`.
    OpenMpi,
    /// Slurm's job step launcher `srun`.
    Slurm,
    /// MPICH's launcher `mpiexec`, or a launcher with the same variables (Intel MPI, Cray PALS, Flux).
    Mpich,
    /// Pod of a Kubernetes indexed job.
    Kubernetes,
}

impl fmt::Display for LauncherKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Hemiola => "hemiola",
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "Open MPI",
            Self::Slurm => "Slurm",
            Self::Mpich => "MPICH",
            Self::Kubernetes => "Kubernetes",
        })
    }
}

/// Rank of this process in its job, as assigned by a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankAssignment {
    /// Rank of this peer; less than `size`.
    pub rank: Rank,
    /// Number of peers; at least 1.
    pub size: usize,
    /// Rank among the peers on the same host, if the launcher gives it.
    pub local_rank: Option<usize>,
    /// Number of peers on this host, if the launcher gives it.
    pub local_size: Option<usize>,
    /// Number of cores for each peer, if the launcher gives it.
    pub cores: Option<usize>,
    /// Rendezvous of the peers; `None` exactly if `size` is 1.
    pub rendezvous: Option<Rendezvous>,
    /// Name that all peers of this job share and other jobs do not, if the launcher gives one.
    pub job: Option<String>,
    /// Launcher that assigned the rank.
    pub launcher: LauncherKind,
}

impl RankAssignment {
    /// Detects the assignment from `variables`. Returns `None` if no launcher started this process,
    /// which is then a single peer.
    pub fn detect(variables: &dyn VariableSource) -> Result<Option<Self>, RankAssignmentError> {
        let lookup = VariableLookup::new(variables);
        let launchers =
            [hemiola::detect, torchrun::detect, open_mpi::detect, mpich::detect, slurm::detect, kubernetes::detect];
        for detect in launchers {
            if let Some(answer) = detect(&lookup)? {
                return answer.check(&lookup).map(Some);
            }
        }
        // A launcher of another kind has started several processes, of which each would train alone.
        if let Some(value) = lookup.text(environment::PMIX_RANK) {
            return Err(RankAssignmentError::Missing {
                missing: environment::RANK.name,
                because: environment::PMIX_RANK.name,
                value,
                remedy: "this launcher gives no number of processes: set `HEMIOLA_RANK`, `HEMIOLA_SIZE` and \
                         `HEMIOLA_RENDEZVOUS`, or unset `PMIX_RANK` to run as a single peer",
            });
        }
        // Without a launcher, neither a size nor a rendezvous may be set.
        for variable in [environment::SIZE, environment::RENDEZVOUS] {
            if let Some(value) = lookup.text(variable) {
                return Err(RankAssignmentError::Missing {
                    missing: environment::RANK.name,
                    because: variable.name,
                    value,
                    remedy: "set it too, or unset both to run as a single peer",
                });
            }
        }
        Ok(None)
    }
}

/// Values of one launcher, before they are checked and overridden by `HEMIOLA_*` variables.
#[derive(Debug)]
struct LauncherAssignment {
    /// Rank, with the variable that sets it.
    rank: (&'static str, usize),
    /// Size, with the variable that sets it.
    size: (&'static str, usize),
    local_rank: Option<usize>,
    local_size: Option<usize>,
    cores: Option<usize>,
    /// Rendezvous according to this launcher. Used only if there are several peers and
    /// `HEMIOLA_RENDEZVOUS` is not set.
    rendezvous: Result<Rendezvous, RankAssignmentError>,
    job: Option<String>,
    launcher: LauncherKind,
}

impl LauncherAssignment {
    fn check(self, lookup: &VariableLookup<'_>) -> Result<RankAssignment, RankAssignmentError> {
        let (size_variable, size) = self.size;
        let (rank_variable, rank) = self.rank;
        if size == 0 {
            return Err(RankAssignmentError::NoPeers { variable: size_variable });
        }
        if let Some(own_size) = lookup.number(environment::SIZE)?
            && own_size != size
        {
            return Err(RankAssignmentError::Contradiction {
                first: environment::SIZE.name,
                first_value: own_size,
                second: size_variable,
                second_value: size,
            });
        }
        let number = u32::try_from(rank).ok().filter(|_| rank < size);
        let Some(number) = number else {
            return Err(RankAssignmentError::RankTooLarge { rank_variable, rank, size_variable, size });
        };
        let rendezvous = match rendezvous::given(lookup)? {
            _ if size == 1 => None,
            Some(given) => Some(given),
            None => Some(self.rendezvous?),
        };
        Ok(RankAssignment {
            rank: Rank::new(number),
            size,
            local_rank: self.local_rank,
            local_size: self.local_size,
            cores: self.cores,
            rendezvous,
            job: lookup.text(environment::JOB).or(self.job),
            launcher: self.launcher,
        })
    }
}

#[cfg(test)]
mod tests;
