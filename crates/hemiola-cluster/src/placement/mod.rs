//! Which peer am I, of how many, and where do we meet?
//!
//! A process learns this from variables that whoever started it has set. [`Placement::detect`] asks the launchers we
//! know, in a fixed order, and believes the first that answers: `HEMIOLA_*`, torchrun, Open MPI, Slurm, Kubernetes.
//! One file here speaks to each. Detection is a function of its argument alone, apart from the user's id.
//!
//! **Invariant:** a process is never taken for a peer of a job nobody started, nor for a single peer of a job somebody
//! did. So an allocation without a running step (an `sbatch` script) is no launcher, while half an answer (a rank
//! without a size) is an error that names the variable, its value and the way out.
//!
//! `HEMIOLA_RENDEZVOUS` and `HEMIOLA_JOB` win over what any launcher says, so that one can say where to meet without
//! also having to number the peers.
//!
//! ```
//! use hemiola_cluster::placement::{Origin, Placement};
//! use std::collections::BTreeMap;
//!
//! let torchrun = [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "node7"), ("MASTER_PORT", "29500")];
//! let variables: BTreeMap<String, String> = torchrun.map(|(name, value)| (name.into(), value.into())).into();
//! let placement = Placement::detect(&variables)?.expect("somebody launched us");
//! assert_eq!((placement.rank.index(), placement.size), (1, 4));
//! assert_eq!(placement.rendezvous, Some("node7:29500".parse()?));
//! assert_eq!(placement.origin, Origin::Torchrun);
//!
//! assert_eq!(Placement::detect(&BTreeMap::new())?, None, "nobody launched us");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod hemiola;
mod kubernetes;
mod lookup;
mod open_mpi;
mod private_folder;
mod rendezvous;
mod slurm;
mod torchrun;

pub use error::PlacementError;
pub(crate) use rendezvous::{join_host_port, prepare};

use crate::variables::{self, Variables};
use hemiola_core::Rank;
use hemiola_net::Rendezvous;
use lookup::Lookup;
use std::fmt;

/// Who numbered the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// `hemiola run`, or a person who set our variables.
    Hemiola,
    /// `torchrun`, or whoever sets the same variables.
    Torchrun,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// Slurm's `srun`.
    Slurm,
    /// A Kubernetes indexed job.
    Kubernetes,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Hemiola => "hemiola",
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "Open MPI",
            Self::Slurm => "Slurm",
            Self::Kubernetes => "Kubernetes",
        })
    }
}

/// What a launcher told this process about its place in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// This peer; less than `size`.
    pub rank: Rank,
    /// Number of peers; at least 1.
    pub size: usize,
    /// This peer's number among those on its host, where the launcher says.
    pub local_rank: Option<usize>,
    /// Where the peers meet; `None` exactly if `size` is 1.
    pub rendezvous: Option<Rendezvous>,
    /// A name that all peers of this job share and other jobs do not, where the launcher gives one.
    pub job: Option<String>,
    /// Who says so.
    pub origin: Origin,
}

impl Placement {
    /// What `variables` say; `None` if nobody launched this process, which is then a single peer.
    pub fn detect(variables: &dyn Variables) -> Result<Option<Self>, PlacementError> {
        let lookup = Lookup::new(variables);
        let launchers = [hemiola::detect, torchrun::detect, open_mpi::detect, slurm::detect, kubernetes::detect];
        for detect in launchers {
            if let Some(answer) = detect(&lookup)? {
                return answer.check(&lookup).map(Some);
            }
        }
        // Nobody numbered us; then nobody may have counted us or told us where to meet either.
        for variable in [variables::SIZE, variables::RENDEZVOUS] {
            if let Some(value) = lookup.text(variable) {
                return Err(PlacementError::Missing {
                    missing: variables::RANK.name,
                    because: variable.name,
                    value,
                    remedy: "set it too, or unset both to run as a single peer",
                });
            }
        }
        Ok(None)
    }
}

/// What one launcher says, before it is checked and our own variables have had their word.
#[derive(Debug)]
struct Answer {
    /// The rank with the variable it came from.
    rank: (&'static str, usize),
    /// The size with the variable it came from.
    size: (&'static str, usize),
    local_rank: Option<usize>,
    /// Where this launcher would have the peers meet. Asked only if there are several and we were not told ourselves.
    rendezvous: Result<Rendezvous, PlacementError>,
    job: Option<String>,
    origin: Origin,
}

impl Answer {
    fn check(self, lookup: &Lookup<'_>) -> Result<Placement, PlacementError> {
        let (size_variable, size) = self.size;
        let (rank_variable, rank) = self.rank;
        if size == 0 {
            return Err(PlacementError::NoPeers { variable: size_variable });
        }
        if let Some(ours) = lookup.number(variables::SIZE)?
            && ours != size
        {
            return Err(PlacementError::Contradiction {
                first: variables::SIZE.name,
                first_value: ours,
                second: size_variable,
                second_value: size,
            });
        }
        let number = u32::try_from(rank).ok().filter(|_| rank < size);
        let Some(number) = number else {
            return Err(PlacementError::RankTooLarge { rank_variable, rank, size_variable, size });
        };
        let rendezvous = match rendezvous::given(lookup)? {
            _ if size == 1 => None,
            Some(given) => Some(given),
            None => Some(self.rendezvous?),
        };
        Ok(Placement {
            rank: Rank::new(number),
            size,
            local_rank: self.local_rank,
            rendezvous,
            job: lookup.text(variables::JOB).or(self.job),
            origin: self.origin,
        })
    }
}

#[cfg(test)]
mod tests;
