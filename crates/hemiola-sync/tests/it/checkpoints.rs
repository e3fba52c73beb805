//! Checkpoints on a simulated disk: crashes, damage, and the kind of each error.

use crate::linear_model::MomentumKernel;
use hemiola_array::files::testing::{CrashKind, FileFault, SimFileSystem};
use hemiola_cluster::{Cluster, Error, Result, standalone};
use hemiola_core::ErrorKind;
use hemiola_core::rng::SplitMix64;
use hemiola_strategy::{ModelSpec, VariableSpec};
use hemiola_sync::{ModelSync, PassKind, VariableId};
use std::path::Path;

const FOLDER: &str = "/jobs/net";
const WEIGHTS: VariableId = VariableId::new(0);

fn model(cluster: &Cluster, disk: &SimFileSystem, width: usize) -> Result<ModelSync<MomentumKernel>> {
    let spec = ModelSpec::new(vec![VariableSpec::dense("weights", [width])]).map_err(hemiola_sync::Error::from)?;
    let values = (0..width).map(|index| 1.0 + index as f32).collect();
    ModelSync::builder(cluster, spec, vec![values], MomentumKernel)
        .files(disk.shared())
        .resume(Some(FOLDER.into()))
        .build()
}

/// Trains from the checkpoint on the disk, with one after each step. Ends when the disk is down.
/// Returns the bits of the weights.
fn train(disk: &SimFileSystem, steps: u64) -> Result<Vec<u32>> {
    let weights = standalone(2).run(|cluster| {
        let mut sync = model(cluster, disk, 3)?;
        while sync.steps() < steps {
            let gradients = sync.begin_pass(PassKind::Step);
            let weights = sync.next_values(WEIGHTS, PassKind::Step).wait();
            sync.forward_complete(PassKind::Step, 1, 0.0, 0.1);
            let share = 1.0 + cluster.rank().index() as f32;
            gradients.send(WEIGHTS, weights.iter().map(|weight| share * weight).collect::<Vec<_>>());
            sync.end_pass(PassKind::Step)?;
            let saved = sync.save(Path::new(FOLDER));
            if cluster.broadcast(disk.is_down())? {
                saved?;
                return Err(Error::program("the machine is down"));
            }
        }
        sync.wait()?;
        Ok(sync.newest_values(WEIGHTS).wait().into_iter().map(f32::to_bits).collect::<Vec<u32>>())
    })?;
    Ok(weights.into_iter().next().unwrap())
}

#[test]
fn after_crashes_at_any_operation_a_model_resumes_to_the_same_bits() {
    const STEPS: u64 = 4;
    let undisturbed = SimFileSystem::new(0);
    let expected = train(&undisturbed, STEPS).unwrap();
    let operations = undisturbed.operations();
    for seed in 0..60 {
        let (disk, mut random) = (SimFileSystem::new(seed), SplitMix64::new(seed));
        for _ in 0..=random.below(3) {
            disk.crash_at(disk.operations() + random.below(operations as usize) as u64);
            if random.below(2) == 0 {
                let fault = if random.below(2) == 0 { FileFault::Io } else { FileFault::NoSpace };
                disk.fail_at(disk.operations() + random.below(operations as usize) as u64, fault);
            }
            let _ended_early = train(&disk, STEPS);
            disk.restart(if random.below(2) == 0 { CrashKind::Kill } else { CrashKind::PowerLoss });
        }
        assert_eq!(train(&disk, STEPS).unwrap(), expected, "schedule {seed}");
    }
}

/// Builds the model from the checkpoint. Returns the kind of the error, with its text.
fn resume(disk: &SimFileSystem, width: usize) -> (ErrorKind, String) {
    let error = standalone(2).run(|cluster| model(cluster, disk, width).map(drop)).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn a_checkpoint_that_the_user_has_to_replace_is_wrong_use_and_a_failing_disk_is_not() {
    let disk = SimFileSystem::new(1);
    train(&disk, 2).unwrap();
    let (kind, text) = resume(&disk, 4);
    assert!(kind == ErrorKind::Usage && text.contains("it was made with another model"), "{text}");
    let start = disk.operations();
    (start..start + 100).for_each(|operation| disk.fail_at(operation, FileFault::Io));
    let (kind, text) = resume(&disk, 3);
    assert_eq!(kind, ErrorKind::External, "{text}");
    disk.restart(CrashKind::Kill); // no fault is left
    for generation in ["generation-1", "generation-2"] {
        disk.corrupt(&Path::new(FOLDER).join(generation).join("values.weights.00000.safetensors"), 79);
    }
    let (kind, text) = resume(&disk, 3);
    assert!(kind == ErrorKind::Usage && text.contains("it was changed after saving"), "{text}");
}
