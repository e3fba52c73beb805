//! Checks of the facts: a state, a sentence and, where something is wrong, a way out.
//!
//! **Invariant:** a pure function of the facts. A *problem* keeps some commands from working; a
//! *note* makes them slower or less, or concerns some jobs only.

use super::facts::{CoreFacts, GpuFacts, LaunchFacts, MachineFacts, MemoryFacts, NetworkFacts, TemporaryFacts};
use crate::plural::counted;
use crate::readable;
use serde::Serialize;

/// Memory and free space below which training of real data fails.
const SCARCE: u64 = 256 << 20;
/// Memory and free space below which a note is printed.
const LITTLE: u64 = 2 << 30;
/// Open files below which a job of many peers fails.
const FEW_FILES: u64 = 1024;
/// Round trip on loopback, in microseconds, above which peers on one machine wait for the network.
const SLOW_ROUND_TRIP: f64 = 500.0;

/// State of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckState {
    Ok,
    Note,
    Problem,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) topic: &'static str,
    pub(super) state: CheckState,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) way_out: Option<String>,
}

impl Check {
    fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { topic, state: CheckState::Ok, text: text.into(), way_out: None }
    }

    fn note(topic: &'static str, text: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { topic, state: CheckState::Note, text: text.into(), way_out: Some(way_out.into()) }
    }

    fn problem(topic: &'static str, text: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { topic, state: CheckState::Problem, text: text.into(), way_out: Some(way_out.into()) }
    }
}

/// Checks all facts, in the order of the output.
pub(super) fn checks(facts: &MachineFacts) -> Vec<Check> {
    let mut all = vec![cores(&facts.cores), instructions(&facts.vector_instructions), memory(&facts.memory)];
    all.push(temporary(&facts.temporary));
    all.push(open_files(facts.open_files));
    all.extend(network(&facts.network));
    all.extend(launch(&facts.launch));
    all.push(gpu(&facts.gpu));
    all.push(features(&facts.features));
    all
}

fn cores(facts: &CoreFacts) -> Check {
    let topic = "cores";
    let CoreFacts { machine, affinity, group_limit, workers } = *facts;
    let text = match machine {
        Some(cores) => format!("{}, {}", counted(cores as u64, "core"), counted(workers as u64, "worker")),
        None => counted(workers as u64, "worker"),
    };
    let usable = [machine, affinity].into_iter().flatten().min();
    if let Some(limit) = group_limit.filter(|limit| (*limit as usize) < workers) {
        let way_out = format!("use `--workers {}`: more threads than that are throttled", (limit as usize).max(1));
        return Check::note(topic, format!("{text}; the control group allows {limit:.1} cores"), way_out);
    }
    match usable {
        Some(usable) if usable < workers => {
            let way_out = format!("set HEMIOLA_WORKERS to {usable}, or use `--workers {usable}`");
            Check::note(topic, format!("{text}; only {} may be used", counted(usable as u64, "core")), way_out)
        }
        Some(usable) if machine.is_some_and(|machine| usable < machine) => {
            Check::ok(topic, format!("{text}; the process is bound to {}", counted(usable as u64, "core")))
        }
        _ => Check::ok(topic, text),
    }
}

fn instructions(found: &[&str]) -> Check {
    if found.is_empty() {
        let way_out = "training is slower; use a machine with AVX2 if there is one";
        return Check::note("CPU", "no vector instructions that Hemiola uses", way_out);
    }
    Check::ok("CPU", found.join(", "))
}

fn memory(facts: &MemoryFacts) -> Check {
    let topic = "memory";
    let MemoryFacts { machine, available, group_limit, group_used } = *facts;
    let in_group = group_limit.map(|limit| limit.saturating_sub(group_used.unwrap_or(0)));
    let Some(free) = [available, in_group].into_iter().flatten().min() else {
        return Check::note(topic, "unknown", "`/proc/meminfo` cannot be read; watch the memory of large jobs");
    };
    let mut text = format!("{} available", readable::bytes(free));
    if let Some(machine) = machine {
        text = format!("{text} of {}", readable::bytes(machine));
    }
    if let Some(limit) = group_limit {
        text = format!("{text}; the control group allows {}", readable::bytes(limit));
    }
    if free < SCARCE {
        return Check::problem(topic, text, "end other programs, or raise the memory limit of the job");
    }
    if free < LITTLE {
        return Check::note(topic, text, "large data sets need more; use fewer peers on this machine");
    }
    Check::ok(topic, text)
}

fn temporary(facts: &TemporaryFacts) -> Check {
    let topic = "temporary files";
    let folder = facts.folder.display();
    if let Some(problem) = &facts.problem {
        let way_out = "set TMPDIR to a folder that you can write to; local peers meet there";
        return Check::problem(topic, format!("`{folder}` cannot be written to: {problem}"), way_out);
    }
    match facts.free {
        Some(free) if free < SCARCE => Check::note(
            topic,
            format!("`{folder}` has {} left", readable::bytes(free)),
            "free some space, or set TMPDIR",
        ),
        Some(free) => Check::ok(topic, format!("`{folder}`, {} free", readable::bytes(free))),
        None => Check::ok(topic, format!("`{folder}`")),
    }
}

fn open_files(limit: Option<u64>) -> Check {
    match limit {
        Some(limit) if limit < FEW_FILES => Check::note(
            "open files",
            format!("at most {limit} per process"),
            "a job of many peers needs more: `ulimit -n 4096`",
        ),
        Some(limit) => Check::ok("open files", format!("at most {limit} per process")),
        None => Check::ok("open files", "no limit"),
    }
}

fn network(facts: &NetworkFacts) -> Vec<Check> {
    let NetworkFacts { interfaces, address, loopback, host, addresses } = facts;
    let loopback = match loopback {
        Err(error) => Check::problem(
            "loopback",
            format!("no connection to 127.0.0.1: {error}"),
            "bring the interface up (`ip link set lo up`); local peers talk over it",
        ),
        Ok(micros) if *micros > SLOW_ROUND_TRIP => Check::note(
            "loopback",
            format!("a round trip takes {micros:.0} µs"),
            "the machine is busy or virtual; prefer worker threads (`--workers`) to local peers (`--peers`)",
        ),
        Ok(micros) => Check::ok("loopback", format!("a round trip takes {micros:.0} µs")),
    };
    let listed = match (interfaces.is_empty(), address) {
        (true, _) => "no interface but loopback is up".to_owned(),
        (false, Some(address)) => format!("{}; this host is {address}", interfaces.join(", ")),
        (false, None) => interfaces.join(", "),
    };
    let network = match address {
        Some(_) => Check::ok("network", listed),
        None => Check::note("network", listed, "jobs on several hosts need a network; jobs on this host do not"),
    };
    let is_loopback_only = |found: &[std::net::IpAddr]| found.iter().all(std::net::IpAddr::is_loopback);
    let name = match addresses {
        Err(error) => Check::note(
            "host name",
            format!("`{host}` has no address: {error}"),
            "for jobs on several hosts add it to /etc/hosts, or set HEMIOLA_ADVERTISE to an address of this host",
        ),
        Ok(found) if is_loopback_only(found) => Check::note(
            "host name",
            format!("`{host}` is a loopback address"),
            "other hosts cannot reach it: set HEMIOLA_ADVERTISE to another address for jobs on several hosts",
        ),
        Ok(found) => {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            Check::ok("host name", format!("`{host}` is {}", found.join(", ")))
        }
    };
    vec![loopback, network, name]
}

fn launch(facts: &LaunchFacts) -> Vec<Check> {
    let LaunchFacts { programs, variables, job, secret } = facts;
    let launchers = if programs.is_empty() {
        Check::ok("launchers", "`hemiola run`; no other launcher is on the PATH")
    } else {
        Check::ok("launchers", format!("`hemiola run`, {}", programs.join(", ")))
    };
    let set = if variables.is_empty() { String::new() } else { format!(" ({})", variables.join(", ")) };
    let rank = match job {
        Err(problem) => Check::problem(
            "job",
            format!("{problem}{set}"),
            "unset the variables to run as a single peer, or let the launcher set all of them",
        ),
        Ok(None) if variables.is_empty() => Check::ok("job", "none: a program started here is a single peer"),
        Ok(None) => Check::note(
            "job",
            format!("none: a program started here is a single peer{set}"),
            "start it with the launcher, such as `srun`, to have more peers",
        ),
        Ok(Some(job)) => {
            let rendezvous = job.rendezvous.as_ref().map(|place| format!(", rendezvous {place}")).unwrap_or_default();
            Check::ok("job", format!("rank {} of {} by {}{rendezvous}{set}", job.rank, job.size, job.launcher))
        }
    };
    let between_hosts = matches!(job, Ok(Some(job)) if job.size > 1
        && job.rendezvous.as_ref().is_some_and(|place| !is_local(place)));
    let secret = match secret {
        Some(name) => Check::ok("secret", format!("from {name}")),
        None if between_hosts => Check::problem(
            "secret",
            "none, and the rendezvous is not on loopback",
            "give all peers the same HEMIOLA_SECRET, for example from `openssl rand -hex 32`",
        ),
        None => Check::ok("secret", "none: peers on one host make their own; on several hosts set HEMIOLA_SECRET"),
    };
    vec![launchers, rank, secret]
}

/// Returns true if a rendezvous is a file, or on the loopback interface.
fn is_local(rendezvous: &str) -> bool {
    ["file:", "127.", "localhost", "[::1]"].iter().any(|start| rendezvous.starts_with(start))
}

fn gpu(facts: &GpuFacts) -> Check {
    let topic = "GPU";
    let GpuFacts { models, devices, driver, enabled } = facts;
    let found = if models.is_empty() { counted(*devices as u64, "NVIDIA device") } else { models.join(", ") };
    match (models.is_empty() && *devices == 0, driver) {
        (true, _) if *enabled => {
            Check::note(topic, "none is visible", "nets run with `--device cpu`; in a container, pass the GPUs through")
        }
        (true, _) => Check::ok(topic, "none; this build computes on CPUs"),
        (false, None) => Check::problem(
            topic,
            format!("{found}, but no driver"),
            "install the NVIDIA driver, or load its kernel module",
        ),
        (false, Some(driver)) if *enabled => {
            Check::ok(topic, format!("{found}, driver {driver}: nets can use `--device cuda`"))
        }
        (false, Some(driver)) => Check::note(
            topic,
            format!("{found}, driver {driver}; this build computes on CPUs"),
            "build with `cargo build --release --features cuda` for `--device cuda`",
        ),
    }
}

fn features(found: &[&str]) -> Check {
    let version = env!("CARGO_PKG_VERSION");
    if found.contains(&"nets") {
        return Check::ok("build", format!("hemiola {version} with {}", found.join(", ")));
    }
    let with = if found.is_empty() { String::new() } else { format!(" with {}", found.join(", ")) };
    Check::note(
        "build",
        format!("hemiola {version}{with}, without nets"),
        "build with `cargo build --release --features full` for nets, simulation and benchmarks",
    )
}

#[cfg(test)]
mod tests {
    use super::super::facts::JobFacts;
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::path::PathBuf;

    /// Returns facts of a machine that has everything.
    fn good() -> MachineFacts {
        MachineFacts {
            cores: CoreFacts { machine: Some(8), affinity: Some(8), group_limit: None, workers: 8 },
            memory: MemoryFacts {
                machine: Some(64 << 30),
                available: Some(32 << 30),
                group_limit: None,
                group_used: None,
            },
            temporary: TemporaryFacts { folder: PathBuf::from("/tmp"), free: Some(10 << 30), problem: None },
            network: NetworkFacts {
                interfaces: vec!["eth0".to_owned()],
                address: Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3))),
                loopback: Ok(12.0),
                host: "ada".to_owned(),
                addresses: Ok(vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3))]),
            },
            launch: LaunchFacts { programs: vec!["mpirun"], variables: Vec::new(), job: Ok(None), secret: None },
            gpu: GpuFacts { models: Vec::new(), devices: 0, driver: None, enabled: false },
            open_files: Some(4096),
            vector_instructions: vec!["AVX2"],
            features: vec!["nets"],
        }
    }

    fn of(facts: &MachineFacts, topic: &str) -> Check {
        checks(facts).into_iter().find(|check| check.topic == topic).unwrap()
    }

    fn changed(change: impl FnOnce(&mut MachineFacts)) -> MachineFacts {
        let mut facts = good();
        change(&mut facts);
        facts
    }

    #[test]
    fn a_good_machine_has_neither_notes_nor_problems() {
        for check in checks(&good()) {
            assert_eq!((check.state, &check.way_out), (CheckState::Ok, &None), "{check:?}");
        }
    }

    #[test]
    fn problems_are_what_keeps_commands_from_working() {
        let job = |rendezvous: &str| {
            let rendezvous = Some(rendezvous.to_owned());
            Ok(Some(JobFacts { rank: 1, size: 4, launcher: "Slurm".to_owned(), rendezvous }))
        };
        let cases = [
            ("memory", changed(|facts| facts.memory.available = Some(100 << 20))),
            (
                "memory",
                changed(|facts| (facts.memory.group_limit, facts.memory.group_used) = (Some(1 << 30), Some(1 << 30))),
            ),
            ("temporary files", changed(|facts| facts.temporary.problem = Some("read-only".to_owned()))),
            ("loopback", changed(|facts| facts.network.loopback = Err("refused".to_owned()))),
            ("job", changed(|facts| facts.launch.job = Err("`RANK` is set".to_owned()))),
            ("secret", changed(|facts| facts.launch.job = job("node7:20001"))),
            ("GPU", changed(|facts| facts.gpu.devices = 1)),
        ];
        for (topic, facts) in cases {
            let check = of(&facts, topic);
            assert!(check.state == CheckState::Problem && check.way_out.is_some(), "{check:?}");
            let problems = checks(&facts).iter().filter(|check| check.state == CheckState::Problem).count();
            assert_eq!(problems, 1, "{topic}");
        }
        let local = changed(|facts| facts.launch.job = job("127.0.0.1:20001"));
        assert_eq!(of(&local, "secret").state, CheckState::Ok, "peers on one host make their own secret");
        assert!(of(&local, "job").text.contains("rank 1 of 4 by Slurm"));
    }

    #[test]
    fn notes_are_what_makes_commands_slower_or_less() {
        let cases: [(&str, &str, MachineFacts); 8] = [
            ("cores", "--workers 1", changed(|facts| facts.cores.group_limit = Some(1.5))),
            ("cores", "HEMIOLA_WORKERS", changed(|facts| facts.cores.workers = 16)),
            ("memory", "fewer peers", changed(|facts| facts.memory.available = Some(1 << 30))),
            ("open files", "ulimit", changed(|facts| facts.open_files = Some(64))),
            ("host name", "HEMIOLA_ADVERTISE", changed(|facts| facts.network.addresses = Err("unknown".to_owned()))),
            ("job", "srun", changed(|facts| facts.launch.variables = vec!["SLURM_JOB_ID"])),
            ("CPU", "AVX2", changed(|facts| facts.vector_instructions.clear())),
            ("build", "--features full", changed(|facts| facts.features.clear())),
        ];
        for (topic, way_out, facts) in cases {
            let check = of(&facts, topic);
            assert_eq!(check.state, CheckState::Note, "{check:?}");
            assert!(check.way_out.as_ref().is_some_and(|text| text.contains(way_out)), "{check:?}");
        }
    }

    #[test]
    fn gpus_are_checked_against_the_build() {
        let with_gpu = |enabled| {
            changed(|facts| {
                facts.gpu = GpuFacts {
                    models: vec!["NVIDIA H200".to_owned()],
                    devices: 1,
                    driver: Some("580.82".to_owned()),
                    enabled,
                }
            })
        };
        assert_eq!(of(&with_gpu(true), "GPU").state, CheckState::Ok);
        let check = of(&with_gpu(false), "GPU");
        assert!(check.state == CheckState::Note && check.way_out.unwrap().contains("--features cuda"));
        assert_eq!(of(&changed(|facts| facts.gpu.enabled = true), "GPU").state, CheckState::Note);
    }
}
