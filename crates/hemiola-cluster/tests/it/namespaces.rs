//! Three hosts in three network namespaces joined by a bridge. One is cut off, and the others detect
//! it.
//!
//! Needs root and `ip`. Names carry the process id, so that runs do not meet.

use crate::support::{short_deadlines, start_process, with_watchdog};
use hemiola_cluster::{Cluster, Error};
use hemiola_net::Secret;
use hemiola_testkit::{MissingRequirement, PeerProcess, require};
use std::process::Command;

const SIZE: usize = 3;

#[test]
#[ignore = "entry point of a child process"]
fn the_host_process() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let rank: usize = variable("TEST_RANK").parse().unwrap();
    let builder = Cluster::builder()
        .peer(rank, SIZE)
        .workers(1)
        .rendezvous(variable("TEST_ADDRESS").parse().unwrap())
        .secret(Secret::new("secret of three hosts"))
        .deadlines(short_deadlines());
    let outcome: Result<(), Error> = builder.run(|cluster| {
        cluster.barrier()?;
        println!("ready");
        loop {
            cluster.barrier()?;
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    });
    println!("outcome: {}", outcome.unwrap_err());
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

/// Hosts of one run; removed when dropped.
struct NamespaceHosts(u32);

impl NamespaceHosts {
    /// Creates the namespaces; `None` if this machine does not permit it.
    fn set_up() -> Option<Self> {
        let hosts = Self(std::process::id());
        let Self(id) = hosts;
        let hub = format!("hm{id}hub");
        let mut fine = ip(&format!("netns add {hub}"))
            && ip(&format!("-n {hub} link add bridge type bridge"))
            && ip(&format!("-n {hub} link set bridge up"));
        for rank in 0..SIZE {
            let host = hosts.name(rank);
            fine = fine
                && ip(&format!("netns add {host}"))
                && ip(&format!("-n {hub} link add port{rank} type veth peer name eth0 netns {host}"))
                && ip(&format!("-n {hub} link set port{rank} master bridge up"))
                && ip(&format!("-n {host} addr add 10.77.0.{}/24 dev eth0", rank + 1))
                && ip(&format!("-n {host} link set eth0 up"))
                && ip(&format!("-n {host} link set lo up"));
        }
        fine.then_some(hosts)
    }

    fn name(&self, rank: usize) -> String {
        format!("hm{}n{rank}", self.0)
    }

    fn cut_off(&self, rank: usize) {
        assert!(ip(&format!("-n hm{}hub link set port{rank} down", self.0)));
    }
}

impl Drop for NamespaceHosts {
    fn drop(&mut self) {
        for rank in 0..SIZE {
            ip(&format!("netns delete {}", self.name(rank)));
        }
        ip(&format!("netns delete hm{}hub", self.0));
    }
}

#[test]
fn a_host_that_is_cut_off_is_lost_by_its_silence() {
    let missing = || MissingRequirement::new("root", "network namespaces need root and `ip`");
    let hosts = require!(NamespaceHosts::set_up().ok_or_else(missing));
    with_watchdog(|| {
        let mut peers: Vec<PeerProcess> = (0..SIZE)
            .map(|rank| {
                let variables = [("TEST_RANK", rank.to_string()), ("TEST_ADDRESS", "10.77.0.1:29400".to_owned())];
                start_process(Some(&hosts.name(rank)), "namespaces::the_host_process", &variables)
            })
            .collect();
        for peer in &mut peers {
            peer.wait_for_line("ready");
        }
        hosts.cut_off(2);
        let output: Vec<String> = peers.into_iter().map(|peer| peer.finish().1).collect();
        for text in &output[..2] {
            assert!(text.contains("outcome: lost peer 2 at 10.77.0.3:"), "{text}");
            assert!(text.contains("it has been silent for 3."), "{text}");
        }
        // The one that is cut off has lost the others.
        assert!(output[2].contains("outcome: lost peer"), "{}", output[2]);
    });
}
