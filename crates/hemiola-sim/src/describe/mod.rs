//! A cluster as somebody describes it: peers, links, racks, faults. Plain data, in TOML or JSON.
//!
//! ```
//! let cluster = hemiola_sim::Description::from_toml(
//!     r#"
//!     peers = 8
//!     compute = [{ kind = "jitter", deviation = 0.1 }, { kind = "stragglers", chance = 0.01, factor = 5.0 }]
//!     link = { bandwidth = "1gbit", latency = "100us", jitter = "10us", loss = 0.0001 }
//!     racks = { peers = 4, uplink = "2gbit", latency = "20us" }
//!     faults = [{ kind = "slow", peer = 3, at = "1s", until = "2s", factor = 10.0 }]
//!     "#,
//! )?;
//! assert_eq!(cluster.peers, 8);
//! # Ok::<(), hemiola_sim::describe::Impossible>(())
//! ```
//!
//! What cannot be is refused by [`Description::check`] (in `check.rs`), with the reason.

mod check;

pub use check::{Impossible, MOST_PEERS};

use crate::units::{Rate, Span};
use serde::{Deserialize, Serialize};

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// How many peers there are.
    pub peers: usize,
    /// How fast they compute; all that is named here applies at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compute: Vec<Compute>,
    /// Peers that are slower than the others all the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slower: Vec<Slower>,
    /// How every peer is connected.
    #[serde(default)]
    pub link: Link,
    /// Groups of peers that share the cores of a host; without, every worker has one to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Hosts>,
    /// Groups of peers that share a way to the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub racks: Option<Racks>,
    /// What goes wrong, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// After so much silence a peer counts as lost.
    #[serde(default = "ten_seconds")]
    pub deadline: Span,
}

fn ten_seconds() -> Span {
    Span::from_secs(10)
}

/// What changes how long a computation takes. A computation that would take a second alone takes as many seconds as the product says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Compute {
    /// So many times as fast as the machine that was measured.
    Constant {
        /// 2 is twice as fast.
        speed: f64,
    },
    /// Every computation is a bit longer or shorter: its factor is log-normal with median 1.
    Jitter {
        /// Of the logarithm: 0.1 is about 10 percent.
        deviation: f64,
    },
    /// Some computations take much longer.
    Stragglers {
        /// How likely each is.
        chance: f64,
        /// How much longer they take.
        factor: f64,
    },
    /// Peers fall into slow times and out of them: a neighbour on the same host, a garbage collection, heat.
    Markov {
        /// How long a fast time lasts on average.
        fast: Span,
        /// How long a slow one lasts.
        slow: Span,
        /// How many times as long computing takes in a slow one.
        factor: f64,
    },
}

/// Some peers are slower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slower {
    /// Which.
    pub peers: Vec<usize>,
    /// How many times as long they take.
    pub factor: f64,
}

/// What connects a peer with the network: as much in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// Of its interface, in each direction.
    pub bandwidth: Rate,
    /// From one peer to another, one way.
    pub latency: Span,
    /// Up to so much is added to the latency of each message, evenly.
    pub jitter: Span,
    /// Share of packets that are lost. The transport sends them again: a message is late, never missing.
    pub loss: f64,
    /// What each message costs beside its bytes: system calls, frames, checksums.
    pub overhead: Span,
    /// Bytes that a packet has beside its part of a message, of which it carries 1448 at most.
    pub header: u64,
    /// How messages share an interface.
    pub sharing: Sharing,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            bandwidth: Rate::from_bits(10_000_000_000),
            latency: Span::from_micros(50),
            jitter: Span::ZERO,
            loss: 0.0,
            overhead: Span::from_micros(1),
            // Ethernet 14, IPv4 20, TCP with time stamps 32.
            header: 66,
            sharing: Sharing::Queue,
        }
    }
}

/// How messages share an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One after the other in the order they came; the control lane does not wait. Takes the same time for any number of peers.
    #[default]
    Queue,
    /// All connections that have something to send get equal shares of what each interface and uplink can carry, as flows of a fluid: what one
    /// cannot use goes to the others (max-min fairness, by progressive filling).
    Fair,
}

/// Groups of consecutive peers on one machine. What they compute at the same time shares its cores evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// Peers of a host; the last may have fewer.
    pub peers: usize,
    /// Cores of a host.
    pub cores: usize,
    /// What a message keeps a core busy with, at each of its ends.
    #[serde(default)]
    pub message: Span,
    /// The same for each of its bytes, in nanoseconds.
    #[serde(default)]
    pub byte_nanos: f64,
}

/// Groups of consecutive peers behind one switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Racks {
    /// Peers of a rack; the last may have fewer.
    pub peers: usize,
    /// What all of them together have towards other racks, in each direction.
    pub uplink: Rate,
    /// What a way through two uplinks adds to the latency.
    #[serde(default)]
    pub latency: Span,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// A peer ends.
    Crash {
        /// Which.
        peer: usize,
        /// When.
        at: Span,
        /// Whether its machine falls silent, so that others learn it by the deadline; otherwise its connections are closed at once.
        #[serde(default)]
        silent: bool,
    },
    /// A peer that has ended begins again, with nothing but what its actor has kept elsewhere.
    Restart {
        /// Which.
        peer: usize,
        /// When.
        at: Span,
    },
    /// Some peers cannot reach the others. What is sent meanwhile arrives afterwards, unless the deadline comes first.
    Partition {
        /// One side.
        peers: Vec<usize>,
        /// From when.
        at: Span,
        /// Until when.
        until: Span,
    },
    /// The link of a peer carries less.
    Slow {
        /// Which.
        peer: usize,
        /// From when.
        at: Span,
        /// Until when.
        until: Span,
        /// How many times as long everything takes.
        factor: f64,
    },
    /// The clock of a peer runs ahead, or behind.
    Drift {
        /// Which.
        peer: usize,
        /// By how many millionths.
        millionths: f64,
    },
}

impl Description {
    /// So many peers with links of 10 Gbit/s and 50 µs, and nothing that disturbs them.
    #[must_use]
    pub fn new(peers: usize) -> Self {
        Self {
            peers,
            compute: Vec::new(),
            slower: Vec::new(),
            link: Link::default(),
            hosts: None,
            racks: None,
            faults: Vec::new(),
            deadline: ten_seconds(),
        }
    }

    /// Reads a description, and checks that it can be.
    pub fn from_toml(text: &str) -> Result<Self, Impossible> {
        let read: Self = toml::from_str(text).map_err(|error| Impossible::unreadable("TOML", &error))?;
        read.check()?;
        Ok(read)
    }

    /// Reads a description, and checks that it can be.
    pub fn from_json(text: &str) -> Result<Self, Impossible> {
        let read: Self = serde_json::from_str(text).map_err(|error| Impossible::unreadable("JSON", &error))?;
        read.check()?;
        Ok(read)
    }

    /// The description as it is written by hand.
    ///
    /// # Panics
    /// Never: a description is plain data.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a description is plain data")
    }

    /// The rack of a peer; all are in the same if there are none.
    #[must_use]
    pub fn rack(&self, peer: usize) -> usize {
        self.racks.map_or(0, |racks| peer / racks.peers)
    }
}
