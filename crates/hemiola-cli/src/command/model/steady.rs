//! Reading a model while a training may replace it.
//!
//! A save is replaced in one step, but read in many: who opens it just before that step finds files that do not fit the manifest, or
//! none. If the manifest is another by then, nothing was damaged, and the new save is read instead.

use std::path::Path;

/// How often a save may be replaced while it is read. A model is read faster than the next one is trained.
const ATTEMPTS: usize = 8;

/// What `read` reads from the save in `folder`: again, if it failed and the save is another one now.
pub(super) fn steady<T, E>(folder: &Path, mut read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let manifest = || std::fs::read(folder.join("manifest.json")).ok();
    let mut before = manifest();
    for _ in 1..ATTEMPTS {
        let outcome = read();
        let now = manifest();
        if outcome.is_ok() || now == before {
            return outcome;
        }
        before = now;
    }
    read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_array::save::{Loading, Manifest, Saving};
    use hemiola_array::{Dense, Error, Shape};

    fn save(path: &Path, value: f32) {
        let cells = Dense::filled(Shape::new([2, 2]), value).unwrap();
        let (saving, mut manifest) = (Saving::begin(path).unwrap(), Manifest::default());
        manifest.add_dense::<f32, 2>("w", cells.shape(), vec![saving.write_dense("w", 0, 0, &cells).unwrap()]);
        saving.commit(&manifest).unwrap();
    }

    #[test]
    fn a_save_that_is_replaced_meanwhile_is_read_again_and_a_damaged_one_is_not() {
        let lab = tempfile::tempdir().unwrap();
        let path = lab.path().join("model");
        save(&path, 1.0);
        let mut replacements = vec![2.0, 3.0];
        let mut reads = 0;
        let mut read = || {
            reads += 1;
            let loading = Loading::open(&path)?;
            if let Some(value) = replacements.pop() {
                save(&path, value);
            }
            loading.read_dense::<f32, 2>("w", 0)
        };
        let (_, cells) = steady(&path, &mut read).unwrap();
        assert_eq!(cells.row(0), [2.0, 2.0]);
        std::fs::write(path.join("w.00000.safetensors"), "torn").unwrap();
        let torn = steady(&path, &mut read).unwrap_err();
        assert!(matches!(torn, Error::BadSave { .. }), "{torn}");
        assert_eq!(reads, 4, "three times while it was replaced, once when it was damaged");
    }
}
