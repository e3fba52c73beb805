//! Description of a simulated cluster: peers, links, racks and faults. Plain data, in TOML or JSON.
//!
//! ```
//! let cluster = hemiola_sim::ClusterSpec::from_toml(
//!     r#"
//!     peers = 8
//!     compute = [{ kind = "jitter", deviation = 0.1 }, { kind = "stragglers", probability = 0.01, factor = 5.0 }]
//!     link = { bandwidth = "1gbit", latency = "100us", jitter = "10us", loss = 0.0001 }
//!     racks = { peers = 4, uplink = "2gbit", latency = "20us" }
//!     faults = [{ kind = "slow", peer = 3, at = "1s", until = "2s", factor = 10.0 }]
//!     "#,
//! )?;
//! assert_eq!(cluster.peers, 8);
//! # Ok::<(), hemiola_sim::cluster_spec::InvalidClusterSpec>(())
//! ```
//!
//! What cannot be is refused by [`ClusterSpec::validate`] (in `validate.rs`), with the reason.

mod resources;
mod validate;

pub use validate::{InvalidClusterSpec, MAX_PEERS};

use crate::units::{DataRate, SimDuration};
use serde::{Deserialize, Serialize};

/// Description of a simulated cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Number of peers of the cluster.
    pub peers: usize,
    /// Compute models of all peers; their effects multiply. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compute: Vec<ComputeModel>,
    /// Peers that are slower than the others throughout. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_peers: Vec<SlowPeers>,
    /// Network interface of every peer.
    #[serde(default)]
    pub link: LinkModel,
    /// Groups of peers that share the cores of a host. Default: every worker has a core of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostSpec>,
    /// Groups of peers that share an uplink. Default: no racks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub racks: Option<RackSpec>,
    /// Faults and their times. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Time of silence after which a peer counts as lost. Default: 10 s.
    #[serde(default = "default_deadline")]
    pub deadline: SimDuration,
}

fn default_deadline() -> SimDuration {
    SimDuration::from_secs(10)
}

/// Model of compute time. It multiplies the duration of a computation by a factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ComputeModel {
    /// Constant speed relative to the reference machine.
    Constant {
        /// 2 is twice as fast.
        speed: f64,
    },
    /// Log-normal factor with median 1 for every computation.
    Jitter {
        /// Standard deviation of the logarithm: 0.1 is about 10 percent.
        deviation: f64,
    },
    /// Stragglers: some computations take much longer.
    Stragglers {
        /// Probability of a straggler, for each computation.
        probability: f64,
        /// Factor of a straggler.
        factor: f64,
    },
    /// Markov-modulated slow phases, as from a neighbour on the same host, garbage collection or
    /// heat.
    Markov {
        /// Mean duration of a fast phase.
        fast: SimDuration,
        /// Mean duration of a slow phase.
        slow: SimDuration,
        /// Factor in a slow phase.
        factor: f64,
    },
}

/// Some peers with a constant slowdown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowPeers {
    /// Ranks of the slow peers.
    pub peers: Vec<usize>,
    /// Factor of their compute times.
    pub factor: f64,
}

/// Network interface of a peer, full duplex.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkModel {
    /// Bandwidth in each direction. Default: 10 Gbit/s.
    pub bandwidth: DataRate,
    /// One-way latency between two peers. Default: 50 µs.
    pub latency: SimDuration,
    /// Maximum of the uniform jitter added to the latency of each message. Default: 0.
    pub jitter: SimDuration,
    /// Share of lost packets. The transport retransmits them: a message is late, never missing.
    /// Default: 0.
    pub loss: f64,
    /// Fixed cost of each message: system calls, frames, checksums. Default: 1 µs.
    pub overhead: SimDuration,
    /// Header bytes of each packet, which carries up to 1448 bytes of a message. Default: 66.
    pub header: u64,
    /// Model of bandwidth sharing between messages. Default: queue.
    pub sharing: LinkSharing,
}

impl Default for LinkModel {
    fn default() -> Self {
        Self {
            bandwidth: DataRate::from_bits(10_000_000_000),
            latency: SimDuration::from_micros(50),
            jitter: SimDuration::ZERO,
            loss: 0.0,
            overhead: SimDuration::from_micros(1),
            // Ethernet 14, IPv4 20, TCP with timestamps 32.
            header: 66,
            sharing: LinkSharing::Queue,
        }
    }
}

/// Model of bandwidth sharing between messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkSharing {
    /// First in, first out; the control lane does not wait. Constant cost per message for any
    /// number of peers.
    #[default]
    Queue,
    /// Max-min fair shares of every interface and uplink for all active connections, as fluid flows
    /// (progressive filling).
    Fair,
}

/// Groups of consecutive peers on one host. Concurrent computations share its cores evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Peers per host; the last host may have fewer.
    pub peers: usize,
    /// Number of cores of a host.
    pub cores: usize,
    /// Core time of each end of a message. Default: 0.
    #[serde(default)]
    pub message_time: SimDuration,
    /// Core time of each end of a message per byte, in nanoseconds. Default: 0.
    #[serde(default)]
    pub nanos_per_byte: f64,
}

/// Groups of consecutive peers behind one switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackSpec {
    /// Peers per rack; the last rack may have fewer.
    pub peers: usize,
    /// Bandwidth of a rack towards other racks, in each direction.
    pub uplink: DataRate,
    /// Additional latency between two racks. Default: 0.
    #[serde(default)]
    pub latency: SimDuration,
}

/// A fault of a peer, a link or a clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// A peer crashes and loses its memory.
    Crash {
        /// Rank of the peer.
        peer: usize,
        /// Time of the crash.
        at: SimDuration,
        /// The machine falls silent, so the others detect it after the deadline; otherwise its
        /// connections are closed at once.
        #[serde(default)]
        silent: bool,
    },
    /// A crashed peer restarts, with only the state that its actor keeps on stable storage.
    Restart {
        /// Rank of the peer.
        peer: usize,
        /// Time of the restart.
        at: SimDuration,
    },
    /// A network partition. Messages sent meanwhile arrive afterwards, unless the deadline passes
    /// first.
    Partition {
        /// Ranks on one side.
        peers: Vec<usize>,
        /// Start of the partition.
        at: SimDuration,
        /// End of the partition.
        until: SimDuration,
    },
    /// The link of a peer is slow for a while.
    Slow {
        /// Rank of the peer.
        peer: usize,
        /// Start of the slow phase.
        at: SimDuration,
        /// End of the slow phase.
        until: SimDuration,
        /// Factor of all transfer times.
        factor: f64,
    },
    /// The clock of a peer runs fast or slow.
    Drift {
        /// Rank of the peer.
        peer: usize,
        /// Drift in parts per million; negative is slow.
        ppm: f64,
    },
}

impl ClusterSpec {
    /// Creates a cluster with links of 10 Gbit/s and 50 µs, without disturbances.
    #[must_use]
    pub fn new(peers: usize) -> Self {
        Self {
            peers,
            compute: Vec::new(),
            slow_peers: Vec::new(),
            link: LinkModel::default(),
            hosts: None,
            racks: None,
            faults: Vec::new(),
            deadline: default_deadline(),
        }
    }

    /// Parses and validates a spec in TOML.
    pub fn from_toml(text: &str) -> Result<Self, InvalidClusterSpec> {
        let read: Self = toml::from_str(text).map_err(|error| InvalidClusterSpec::unreadable("TOML", &error))?;
        read.validate()?;
        Ok(read)
    }

    /// Parses and validates a spec in JSON.
    pub fn from_json(text: &str) -> Result<Self, InvalidClusterSpec> {
        let read: Self = serde_json::from_str(text).map_err(|error| InvalidClusterSpec::unreadable("JSON", &error))?;
        read.validate()?;
        Ok(read)
    }

    /// Formats the spec as TOML.
    ///
    /// # Panics
    /// Never: a spec is plain data.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a description is plain data")
    }

    /// Returns the rack of a peer; 0 without racks.
    #[must_use]
    pub fn rack(&self, peer: usize) -> usize {
        self.racks.map_or(0, |racks| peer / racks.peers)
    }
}
