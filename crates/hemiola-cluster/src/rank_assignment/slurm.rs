//! Slurm's `srun`.
//!
//! Only a *step* counts. An `sbatch` script sees `SLURM_PROCID=0` and `SLURM_NTASKS=4` although it
//! is one process; it differs by having no `SLURM_STEP_ID`. A `salloc` shell has neither, or, where
//! the site starts the shell inside the allocation, a step with one of the numbers that Slurm
//! reserves for itself (`0xfffffff0` and up). The step's own number of tasks takes precedence over
//! the job's, because one job may run steps of different sizes concurrently.

use super::lookup::VariableLookup;
use super::rendezvous::join_host_port;
use super::{LauncherAssignment, LauncherKind, RankAssignmentError};
use crate::environment::{
    EnvironmentVariable, SLURM_CPUS_PER_TASK, SLURM_JOB_ID, SLURM_JOB_NODELIST, SLURM_LOCALID, SLURM_NODEID,
    SLURM_NTASKS, SLURM_PROCID, SLURM_STEP_ID, SLURM_STEP_NODELIST, SLURM_STEP_NUM_TASKS, SLURM_STEP_TASKS_PER_NODE,
};
use hemiola_net::Rendezvous;

/// First port that is derived from job and step. All derived ports are below the ephemeral range of
/// Linux (32768).
const FIRST_PORT: u64 = 20_000;
/// Number of ports that can be derived.
const PORTS: u64 = 10_000;
/// Number of consecutive ports per job, one per step, so that jobs with neighbouring ids do not
/// collide.
const STEPS_PER_JOB: u64 = 16;
/// Steps with this number or a higher one belong to Slurm: batch scripts, interactive shells, the
/// pending step.
const RESERVED_STEPS: usize = 0xffff_fff0;

const REMEDY: &str = "start the program with srun, or unset `SLURM_STEP_ID` to run as a single peer";

pub(super) fn detect(lookup: &VariableLookup<'_>) -> Result<Option<LauncherAssignment>, RankAssignmentError> {
    let Some(step) = lookup.number(SLURM_STEP_ID)?.filter(|step| *step < RESERVED_STEPS) else { return Ok(None) };
    let rank = lookup.required_number(SLURM_PROCID, SLURM_STEP_ID, REMEDY)?;
    let size = match lookup.number(SLURM_STEP_NUM_TASKS)? {
        Some(size) => (SLURM_STEP_NUM_TASKS.name, size),
        None => (SLURM_NTASKS.name, lookup.required_number(SLURM_NTASKS, SLURM_STEP_ID, REMEDY)?),
    };
    let job = lookup.required_number(SLURM_JOB_ID, SLURM_STEP_ID, REMEDY)?;
    Ok(Some(LauncherAssignment {
        rank: (SLURM_PROCID.name, rank),
        size,
        local_rank: lookup.number(SLURM_LOCALID)?,
        local_size: local_size(*lookup)?,
        cores: lookup.number(SLURM_CPUS_PER_TASK)?,
        rendezvous: rendezvous(*lookup, size.1, port(job as u64, step as u64)),
        job: Some(format!("slurm-{job}.{step}")),
        launcher: LauncherKind::Slurm,
    }))
}

/// Returns the number of tasks on this host, from a list such as `2(x3),1`: that of the host with
/// the number of this one in the step.
fn local_size(lookup: VariableLookup<'_>) -> Result<Option<usize>, RankAssignmentError> {
    let Some(list) = lookup.text(SLURM_STEP_TASKS_PER_NODE) else { return Ok(None) };
    let host = lookup.number(SLURM_NODEID)?.unwrap_or(0);
    let unreadable = || RankAssignmentError::Unreadable {
        variable: SLURM_STEP_TASKS_PER_NODE.name,
        value: list.clone(),
        expected: "numbers of tasks such as `2(x3),1`",
    };
    let mut hosts = 0_usize;
    for part in list.split(',') {
        let (tasks, repeats) = match part.split_once("(x") {
            Some((tasks, repeats)) => (tasks, repeats.strip_suffix(')').ok_or_else(unreadable)?),
            None => (part, "1"),
        };
        let tasks: usize = tasks.trim().parse().map_err(|_| unreadable())?;
        let repeats: usize = repeats.parse().map_err(|_| unreadable())?;
        hosts = hosts.saturating_add(repeats);
        if host < hosts {
            return Ok(Some(tasks));
        }
    }
    Err(unreadable())
}

/// Returns the port of a step. It is equal on all its tasks, and different from those of other
/// steps and jobs that are likely to run concurrently.
fn port(job: u64, step: u64) -> u16 {
    let offset = job.wrapping_mul(STEPS_PER_JOB).wrapping_add(step) % PORTS;
    (FIRST_PORT + offset) as u16
}

fn rendezvous(lookup: VariableLookup<'_>, size: usize, port: u16) -> Result<Rendezvous, RankAssignmentError> {
    let (variable, list) = [SLURM_STEP_NODELIST, SLURM_JOB_NODELIST]
        .into_iter()
        .find_map(|variable| Some((variable, lookup.text(variable)?)))
        .ok_or(RankAssignmentError::NoRendezvous { launcher: LauncherKind::Slurm, size, situation: "of this step" })?;
    let (first, more) = first_host(variable, &list)?;
    // On one host, loopback works even without a network, and other hosts cannot connect.
    Ok(Rendezvous::Address(join_host_port(if more { &first } else { "127.0.0.1" }, port)))
}

/// Returns the first host of a list such as `node[001-004,7],other`, and whether there are more.
fn first_host(variable: EnvironmentVariable, list: &str) -> Result<(String, bool), RankAssignmentError> {
    let unreadable = || RankAssignmentError::Unreadable {
        variable: variable.name,
        value: list.to_owned(),
        expected: "a list of hosts such as `node[001-004,7],other`",
    };
    let mut host = String::new();
    let mut more = false;
    let mut rest = list.trim();
    loop {
        match rest.find(['[', ',']) {
            None => {
                host.push_str(rest);
                break;
            }
            Some(at) if rest[at..].starts_with(',') => {
                host.push_str(&rest[..at]);
                more = true;
                break;
            }
            Some(at) => {
                host.push_str(&rest[..at]);
                let (range, after) = rest[at + 1..].split_once(']').ok_or_else(unreadable)?;
                let first = range.split(['-', ',']).next().unwrap_or_default();
                if first.is_empty() || !first.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(unreadable());
                }
                host.push_str(first);
                more |= first.len() < range.len();
                rest = after;
            }
        }
    }
    let plausible = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    if host.is_empty() || !host.chars().all(plausible) {
        return Err(unreadable());
    }
    Ok((host, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(list: &str) -> Option<(String, bool)> {
        first_host(SLURM_JOB_NODELIST, list).ok()
    }

    #[test]
    fn the_first_host_of_a_list_is_found() {
        let found = |host: &str, more| Some((host.to_owned(), more));
        assert_eq!(first("node[001-004,7],other"), found("node001", true));
        assert_eq!(first("node7"), found("node7", false));
        assert_eq!(first("a,b"), found("a", true));
        assert_eq!(first("node[7]"), found("node7", false));
        assert_eq!(first("node[9,11]"), found("node9", true));
        assert_eq!(first("rack[1-2]-node[03-04].local"), found("rack1-node03.local", true));
        assert_eq!(first("node[5]-ib,other"), found("node5-ib", true));
    }

    #[test]
    fn a_broken_list_is_refused() {
        for list in ["", "node[1-4", "node[]", "node[a-b]", ",b", "no de", "$(reboot)"] {
            assert_eq!(first(list), None, "{list}");
        }
    }

    #[test]
    fn ports_stay_in_the_documented_range() {
        for (job, step) in [(0, 0), (1, 0), (u64::MAX, 3), (123_456_789, 0xffff_ffef)] {
            assert!((20_000..30_000).contains(&port(job, step)));
        }
        assert_ne!(port(1, 0), port(1, 1));
        assert_ne!(port(1, 0), port(2, 0));
    }
}
