//! torchrun, and launchers that set the same variables.
//!
//! `RANK` alone decides: `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` are often exported in job
//! scripts for programs that run under another launcher. Under the elastic agent
//! (`TORCHELASTIC_USE_AGENT_STORE=True`, which is torchrun's default) the agent itself listens on
//! `MASTER_PORT` and lives as long as the job, so the rendezvous is one port higher.

use super::lookup::VariableLookup;
use super::rendezvous::join_host_port;
use super::{LauncherAssignment, LauncherKind, RankAssignmentError};
use crate::environment::{
    TORCH_AGENT_STORE, TORCH_LOCAL_RANK, TORCH_LOCAL_SIZE, TORCH_MASTER_ADDR, TORCH_MASTER_PORT, TORCH_RANK,
    TORCH_RUN_ID, TORCH_WORLD_SIZE,
};
use hemiola_net::Rendezvous;

const REMEDY: &str = "start the program with torchrun, or unset `RANK` to run as a single peer";

pub(super) fn detect(lookup: &VariableLookup<'_>) -> Result<Option<LauncherAssignment>, RankAssignmentError> {
    let Some(rank) = lookup.number(TORCH_RANK)? else { return Ok(None) };
    let size = lookup.required_number(TORCH_WORLD_SIZE, TORCH_RANK, REMEDY)?;
    Ok(Some(LauncherAssignment {
        rank: (TORCH_RANK.name, rank),
        size: (TORCH_WORLD_SIZE.name, size),
        local_rank: lookup.number(TORCH_LOCAL_RANK)?,
        local_size: lookup.number(TORCH_LOCAL_SIZE)?,
        cores: None,
        rendezvous: rendezvous(*lookup),
        job: lookup.text(TORCH_RUN_ID).filter(|id| id != "none"), // default of torchrun, equal for all its jobs
        launcher: LauncherKind::Torchrun,
    }))
}

fn rendezvous(lookup: VariableLookup<'_>) -> Result<Rendezvous, RankAssignmentError> {
    let host = lookup.text(TORCH_MASTER_ADDR).ok_or_else(|| lookup.missing(TORCH_MASTER_ADDR, TORCH_RANK, REMEDY))?;
    let port = lookup.port(TORCH_MASTER_PORT)?.ok_or_else(|| lookup.missing(TORCH_MASTER_PORT, TORCH_RANK, REMEDY))?;
    let taken = lookup.text(TORCH_AGENT_STORE).is_some_and(|value| value == "True");
    let port = port.checked_add(u16::from(taken)).filter(|port| *port > 0).ok_or(RankAssignmentError::Unreadable {
        variable: TORCH_MASTER_PORT.name,
        value: port.to_string(),
        expected: "a port from 1 to 65534, because the rendezvous is at the next port",
    })?;
    Ok(Rendezvous::Address(join_host_port(&host, port)))
}
