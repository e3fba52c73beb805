//! Loading while somebody may replace the save.
//!
//! A save is replaced in one step, but read in many: who opens it just before that step finds files that do not fit the manifest, or
//! none. If the manifest is another by then, nothing was damaged, and the new save is read instead.

use super::store::Load;
use crate::save::Loading;
use hemiola_cluster::{Cluster, Result};
use std::path::Path;

/// How often a save may be replaced while it is read. A model is read faster than the next one is trained.
const ATTEMPTS: usize = 8;

impl Load {
    /// What `read` reads from the save at `path`: again, if it failed and the save is another one now. As everything here `read`
    /// succeeds on all peers or on none.
    pub fn steady<T>(cluster: &Cluster, path: &Path, mut read: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        // The root looks for all.
        let manifest = || if cluster.is_root() { Loading::manifest_of(path).ok() } else { None };
        let mut before = manifest();
        for _ in 1..ATTEMPTS {
            let outcome = Self::open(cluster, path).and_then(|load| read(&load));
            if outcome.is_ok() {
                return outcome;
            }
            let now = manifest();
            // If peers are lost, that is why reading failed.
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
    use crate::dist::{MakeArrays, Save};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_save_that_is_replaced_meanwhile_is_read_again_and_a_damaged_one_is_not() {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("model");
        let reads = AtomicUsize::new(0);
        hemiola_cluster::standalone(2)
            .run(|cluster| {
                let save = |value: f32| {
                    let mut save = Save::begin(cluster, &path)?;
                    save.put("w", &cluster.from_fn([4, 2], |_| value)?)?;
                    save.commit()
                };
                save(1.0)?;
                let mut replacements = vec![2.0, 3.0];
                let mut read = |load: &Load| {
                    reads.fetch_add(1, Ordering::Relaxed); // a counter, which orders nothing
                    if let Some(value) = replacements.pop() {
                        save(value)?;
                    }
                    load.get::<f32, 2>("w")?.collect()
                };
                let cells = Load::steady(cluster, &path, &mut read)?;
                assert!(cells.iter().all(|(_, cell)| cell.to_bits() == 2.0_f32.to_bits()), "{cells:?}");
                cluster.barrier()?;
                if cluster.is_root() {
                    std::fs::write(path.join("w.00000.safetensors"), "torn").unwrap();
                }
                cluster.barrier()?;
                let torn = Load::steady(cluster, &path, &mut read).unwrap_err().to_string();
                assert!(torn.contains("w.00000.safetensors"), "{torn}");
                Ok(())
            })
            .unwrap();
        // On each peer three times while it was replaced, once when it was damaged.
        assert_eq!(reads.into_inner(), 2 * 4);
    }
}
