//! Loading while another process may replace the save.
//!
//! A save is replaced atomically but read in many steps. A reader that opens it just before the
//! replacement finds files that do not match the manifest, or none. If the manifest has changed by
//! then, nothing is damaged, and the new save is read instead.

use super::store::ArrayLoader;
use crate::save::PartReader;
use hemiola_cluster::{Cluster, Result};
use std::path::Path;

/// Maximum number of attempts while the save is being replaced. A model is read faster than the
/// next one is trained.
const ATTEMPTS: usize = 8;

impl ArrayLoader {
    /// Runs `read` on the save at `path`, and again if it fails and the save has been replaced
    /// meanwhile. `read` succeeds on all peers or on none, as everything here.
    pub fn load_with_retry<T>(cluster: &Cluster, path: &Path, mut read: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        // Only the root reads the manifest.
        let manifest = || if cluster.is_root() { PartReader::read_manifest(path).ok() } else { None };
        let mut before = manifest();
        for _ in 1..ATTEMPTS {
            let outcome = Self::open(cluster, path).and_then(|load| read(&load));
            if outcome.is_ok() {
                return outcome;
            }
            let now = manifest();
            // If peers are lost, that is the cause of the failure.
            if !cluster.broadcast(now != before).unwrap_or(false) {
                return outcome;
            }
            before = now;
        }
        Self::open(cluster, path).and_then(|load| read(&load))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::{ArrayExt, ArraySaver};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_replaced_save_is_retried_and_a_damaged_one_is_not() {
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
                let mut replacements = vec![2.0, 3.0];
                let mut read = |load: &ArrayLoader| {
                    reads.fetch_add(1, Ordering::Relaxed); // Relaxed: a counter, no ordering needed
                    if let Some(value) = replacements.pop() {
                        save(value)?;
                    }
                    load.get::<f32, 2>("w")?.collect()
                };
                let cells = ArrayLoader::load_with_retry(cluster, &path, &mut read)?;
                assert!(cells.iter().all(|(_, cell)| cell.to_bits() == 2.0_f32.to_bits()), "{cells:?}");
                cluster.barrier()?;
                if cluster.is_root() {
                    std::fs::write(path.join("w.00000.safetensors"), "torn").unwrap();
                }
                cluster.barrier()?;
                let torn = ArrayLoader::load_with_retry(cluster, &path, &mut read).unwrap_err().to_string();
                assert!(torn.contains("w.00000.safetensors"), "{torn}");
                Ok(())
            })
            .unwrap();
        // On each peer: three reads during replacement, one of the damaged save.
        assert_eq!(reads.into_inner(), 2 * 4);
    }
}
