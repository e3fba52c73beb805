//! Agreement between peers before a training: every peer needs the same model and settings.

use crate::error::Error;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::CollectiveExt;
use hemiola_core::Rank;
use hemiola_strategy::ModelSpec;
use std::fmt;

/// *Collective.* Fails on all peers if a preparation failed on one of them, such as reading the
/// variables of its model. That peer returns its own error, and the others name it.
pub fn agree_on_success<T, E>(cluster: &Cluster, mine: std::result::Result<T, E>) -> Result<T>
where
    E: fmt::Display + Into<hemiola_cluster::Error>,
{
    let problems = cluster.all_gather(mine.as_ref().err().map(ToString::to_string))?;
    let mine = mine.map_err(Into::into)?;
    match problems.into_iter().enumerate().find_map(|(rank, problem)| Some((rank, problem?))) {
        None => Ok(mine),
        Some((rank, difference)) => Err(Error::ModelMismatch { rank: Rank::new(rank as u32), difference }.into()),
    }
}

/// *Collective.* Fails with the first difference between the models of two peers.
pub(crate) fn compare_models(cluster: &Cluster, model: &ModelSpec) -> Result<()> {
    // As JSON text: the wire format does not support the tagged enums of a model.
    let all = cluster.all_gather(serde_json::to_string(model).expect("plain data"))?;
    let read =
        |text: &String| serde_json::from_str::<ModelSpec>(text).map_err(|error| Error::Failed(error.to_string()));
    let first = read(&all[0])?;
    for (rank, other) in Rank::all(all.len()).zip(&all) {
        if let Some(difference) = first.first_difference(&read(other)?) {
            return Err(Error::ModelMismatch { rank, difference }.into());
        }
    }
    Ok(())
}

/// *Collective.* Fails if the settings of two peers differ.
pub(crate) fn compare_settings(cluster: &Cluster, settings: String) -> Result<()> {
    let all = cluster.all_gather(settings)?;
    match Rank::all(all.len()).zip(&all).find(|(_, other)| **other != all[0]) {
        None => Ok(()),
        Some((rank, there)) => Err(Error::SettingsMismatch { rank, here: all[0].clone(), there: there.clone() }.into()),
    }
}

/// *Collective.* Broadcasts the initial values of peer 0.
pub(crate) fn broadcast_initial_values(cluster: &Cluster, values: &mut [Vec<f32>]) -> Result<()> {
    if cluster.size() == 1 {
        return Ok(());
    }
    let communicator = cluster.communicator()?;
    for values in values {
        communicator.broadcast(Rank::ROOT, values)?;
    }
    Ok(())
}
