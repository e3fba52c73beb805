//! Loading while another process may replace the save.
//!
//! A save is replaced atomically but read in many steps. A reader that opens it just before the
//! replacement finds files that do not match the manifest, or none. If the manifest has changed by
//! then, nothing is damaged, and the new save is read instead. If the save is damaged, the one
//! before it is read, with a warning to the observer of the cluster.

use super::store::ArrayLoader;
use crate::files::{OsFileSystem, SharedFileSystem};
use crate::save::PartReader;
use hemiola_cluster::{Cluster, Result};
use std::path::Path;

/// Maximum number of attempts while the save is being replaced. A model is read faster than the
/// next one is trained.
const ATTEMPTS: usize = 8;

impl ArrayLoader {
    /// Runs `read` on the save at `path`, and again if it fails and the save has been replaced
    /// meanwhile. `read` succeeds on all peers or on none, as everything here.
    pub fn load_with_retry<T>(cluster: &Cluster, path: &Path, read: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        Self::load_with_retry_on(cluster, &OsFileSystem::shared(), path, read)
    }

    /// Runs `read` as [`load_with_retry`](Self::load_with_retry) does, on a file system that all
    /// peers share.
    pub fn load_with_retry_on<T>(
        cluster: &Cluster,
        files: &SharedFileSystem,
        path: &Path,
        mut read: impl FnMut(&Self) -> Result<T>,
    ) -> Result<T> {
        // Only the root reads the manifest.
        let manifest = || if cluster.is_root() { PartReader::read_manifest(files, path).ok() } else { None };
        let mut before = manifest();
        for _ in 1..ATTEMPTS {
            let outcome = Self::open_on(cluster, files, path).and_then(|load| load.read_with_warning(&mut read));
            if outcome.is_ok() {
                return outcome;
            }
            let now = manifest();
            // If peers are lost, that is the cause of the failure.
            let Ok(replaced) = cluster.broadcast(now != before) else { return outcome };
            if !replaced {
                return match Self::open_previous(cluster, files, path) {
                    // The damage of the newest save is the error to report.
                    Ok(Some(load)) => load.read_with_warning(&mut read).or(outcome),
                    _ => outcome,
                };
            }
            before = now;
        }
        Self::open_on(cluster, files, path).and_then(|load| load.read_with_warning(&mut read))
    }

    /// Runs `read`; if it succeeds, the root warns that another save than the newest was read.
    fn read_with_warning<T>(&self, read: &mut impl FnMut(&Self) -> Result<T>) -> Result<T> {
        let outcome = read(self)?;
        if let Some(warning) = self.warning().filter(|_| self.cluster.is_root()) {
            self.cluster.warn(warning);
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::{ArrayExt, ArraySaver};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_replaced_save_is_read_again_and_of_a_damaged_one_the_save_before() {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("model");
        let reads = AtomicUsize::new(0);
        hemiola_cluster::standalone(2)
            .run(|cluster| {
                let save = |value: f32| {
                    let mut save = ArraySaver::begin(cluster, &path)?;
                    save.put("w", &cluster.from_fn([4, 2], |_| value)?)?;
                    save.commit()
                };
                save(1.0)?;
                // Two saves at each read, so that the opened one is gone.
                let mut replacements = vec![[2.0, 3.0], [4.0, 5.0]];
                let mut warnings = Vec::new();
                let mut read = |load: &ArrayLoader| {
                    reads.fetch_add(1, Ordering::Relaxed); // Relaxed: a counter, no ordering needed
                    warnings.extend(load.warning().map(str::to_owned));
                    for value in replacements.pop().into_iter().flatten() {
                        save(value)?;
                    }
                    Ok(load.get::<f32, 2>("w")?.collect()?.iter().map(|(_, cell)| *cell).fold(0.0, f32::max))
                };
                let newest = ArrayLoader::load_with_retry(cluster, &path, &mut read)?;
                assert_eq!(newest.to_bits(), 3.0_f32.to_bits());
                cluster.barrier()?;
                let tear = |generation: u32| {
                    let part = path.join(format!("generation-{generation}/w.00000.safetensors"));
                    if cluster.is_root() {
                        std::fs::write(part, "torn").unwrap();
                    }
                    cluster.barrier()
                };
                tear(5)?;
                let before = ArrayLoader::load_with_retry(cluster, &path, &mut read)?;
                assert_eq!(before.to_bits(), 2.0_f32.to_bits());
                tear(4)?;
                let torn = ArrayLoader::load_with_retry(cluster, &path, &mut read).unwrap_err().to_string();
                assert!(torn.contains("generation-5/w.00000.safetensors"), "{torn}");
                assert!(
                    warnings[0].contains("generation-5/w.00000.safetensors` is not a complete save"),
                    "{warnings:?}"
                );
                assert!(warnings[0].contains("generation-4`, the save before it, is used"), "{warnings:?}");
                Ok(())
            })
            .unwrap();
        // On each peer: three reads during replacement, two of each damaged save.
        assert_eq!(reads.into_inner(), 2 * 7);
    }
}
