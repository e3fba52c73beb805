//! `hemiola probe`: measures the links of a cluster and writes a resource specification for
//! strategies.

use crate::output::{self, OutputCompression, StagedFile};
use crate::plural::counted;
use crate::report;
use clap::Args;
use hemiola::collective::{LinkMeasurement, probe};
use hemiola_cluster::Cluster;
use hemiola_core::Rank;
use hemiola_strategy::{LinkSpec, PeerSpec, ResourceSpec};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Every pair of peers exchanges small messages and then 24 MB, one pair after the other: about 50 ms per pair on a fast \
network. The specification lists hosts and devices, typical bandwidth and latency within a host and between hosts, and \
the pairs that differ. It is TOML and can be edited.

Examples:
    hemiola run -n 4 -- hemiola probe --output cluster.toml
    hemiola run --hosts ada,grace -- hemiola probe --output cluster.toml
    hemiola probe                       # a single process: no links to measure";

/// Arguments of `hemiola probe`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProbeArgs {
    /// File for the specification [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Name of this peer's compute device in the specification.
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: String,
}

impl ProbeArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        if let Some(path) = &self.output {
            report::check(path)?;
        }
        let measure = |cluster: &Cluster| -> hemiola_cluster::Result<_> {
            let places = cluster.all_gather((host(), self.device.clone()))?;
            let peers = places.into_iter().map(|(host, device)| PeerSpec::on(host).device(device)).collect();
            let pairs = probe(cluster, |_, _| ())?;
            Ok((cluster.is_root(), describe(peers, &pairs), pairs))
        };
        let (is_root, description, pairs) = Cluster::builder().from_environment()?.run(measure)?;
        if !is_root {
            return Ok(ExitCode::SUCCESS);
        }
        match &self.output {
            None => output::print(&description.to_toml())?,
            Some(path) => {
                let mut staged = StagedFile::create(path, OutputCompression::None)?;
                staged.write(description.to_toml().as_bytes())?;
                staged.finish()?.publish()?;
                output::print(&summary(&description, &pairs))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the host name of this machine.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn describe(peers: Vec<PeerSpec>, pairs: &[LinkMeasurement]) -> ResourceSpec {
    let link = |one: Rank, other: Rank| {
        let probed = pairs.iter().find(|probed| (probed.one, probed.other) == (one, other));
        let LinkMeasurement { latency, bytes_per_second, .. } = probed.expect("every pair was measured");
        LinkSpec { latency: *latency, bytes_per_second: *bytes_per_second }
    };
    ResourceSpec::measured(peers, link)
}

fn summary(description: &ResourceSpec, pairs: &[LinkMeasurement]) -> String {
    let hosts = description.hosts().len();
    let mut text = format!("{} on {}\n", counted(description.size(), "peer"), counted(hosts, "host"));
    let mut line = |name: &str, link: LinkSpec| {
        let (rate, latency) = (link.bytes_per_second / 1e6, link.latency * 1e6);
        writeln!(text, "  {name}: {rate:.0} MB/s, {latency:.0} µs").expect("writing to a string cannot fail");
    };
    let within = |probed: &LinkMeasurement| description.same_host(probed.one, probed.other);
    if pairs.iter().any(within) {
        line("within a host", description.within_host);
    }
    if !pairs.iter().all(within) {
        line("between hosts", description.between_hosts);
    }
    for pair in &description.pairs {
        line(&format!("peers {} and {}", pair.one, pair.other), pair.link);
    }
    text
}
