//! Saved arrays round-trip; torn, modified or foreign files are rejected with the reason.

use hemiola_array::save::{ArrayRecord, Manifest, PartReader, PartWriter};
use hemiola_array::sparse::{DuplicatePolicy, SparseBlock, SparseBuilder};
use hemiola_array::{DenseArray, Dictionary, Error, Shape};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn block(entries: &[([usize; 2], f32)], shape: Shape<2>) -> SparseBlock<f32, 2> {
    let mut builder = SparseBuilder::new();
    for &(key, value) in entries {
        builder.push(key, value);
    }
    builder.finish(shape, [1, 0], DuplicatePolicy::Last).unwrap()
}

/// Saves a dense array in two parts and a sparse one with names.
fn saved(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("model");
    let saving = PartWriter::begin(&path).unwrap();
    let other = PartWriter::join(&path, saving.generation()).unwrap();
    let mut manifest = Manifest::default();
    let top = DenseArray::from_fn(Shape::new([2, 3]), |index| index as f64).unwrap();
    let bottom = DenseArray::from_fn(Shape::new([1, 3]), |index| 6.0 + index as f64).unwrap();
    let parts = vec![saving.write_dense("w", 0, 0, &top).unwrap(), other.write_dense("w", 1, 2, &bottom).unwrap()];
    manifest.add_dense::<f64, 2>("w", Shape::new([3, 3]), parts);
    let ratings = block(&[([0, 1], 0.5), ([4, 0], 2.5), ([4, 1], 3.5)], Shape::new([5, 1 << 40]));
    let parts = vec![saving.write_sparse("ratings", 0, &ratings).unwrap()];
    manifest.add_sparse::<f32, 2>("ratings", ratings.shape(), ratings.order(), parts);
    let names: Dictionary = ["ann", "", "caf\u{e9}", "d", "e"].iter().map(|name| name.as_bytes()).collect();
    manifest.add_names("ratings", 0, saving.write_names("ratings", 0, &names).unwrap());
    drop(other);
    saving.commit(&manifest).unwrap();
    path
}

/// Folder of the parts of a save that was written once.
fn parts(path: &Path) -> PathBuf {
    path.join("generation-1")
}

fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn dense_sparse_and_names_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    assert_eq!(listing(folder.path()), ["model"]);
    assert_eq!(listing(&path), ["generation-1", "manifest.json"]);
    assert_eq!(
        listing(&path.join("generation-1")),
        [
            "manifest.json",
            "ratings.00000.safetensors",
            "ratings.names0.safetensors",
            "w.00000.safetensors",
            "w.00001.safetensors"
        ]
    );
    let loading = PartReader::open(&path).unwrap();
    let (first, part) = loading.read_dense::<f64, 2>("w", 1).unwrap();
    assert_eq!((first, part.to_cells()), (2, vec![6.0, 7.0, 8.0]));
    let ratings = loading.read_sparse::<f32, 2>("ratings", 0).unwrap();
    assert_eq!(ratings, block(&[([0, 1], 0.5), ([4, 0], 2.5), ([4, 1], 3.5)], Shape::new([5, 1 << 40])));
    let names = loading.read_names("ratings", 0).unwrap().unwrap();
    assert_eq!(names.name_lossy(2).unwrap(), "café");
    assert_eq!(loading.read_names("ratings", 1).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_block_round_trips(
        entries in prop::collection::vec(([0_usize..50, 0_usize..50], any::<f32>()), 0..60), rows in 0_usize..9, width in 0_usize..40,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("save");
        let saving = PartWriter::begin(&path).unwrap();
        let sparse = block(&entries, Shape::new([50, 50]));
        let dense = DenseArray::from_fn(Shape::new([rows, width]), |index| (index as u32).cast_signed() - 7).unwrap();
        let mut manifest = Manifest::default();
        let parts = vec![saving.write_sparse("s", 0, &sparse).unwrap()];
        manifest.add_sparse::<f32, 2>("s", sparse.shape(), sparse.order(), parts);
        manifest.add_dense::<i32, 2>("d", dense.shape(), vec![saving.write_dense("d", 0, 0, &dense).unwrap()]);
        saving.commit(&manifest).unwrap();
        let loading = PartReader::open(&path).unwrap();
        let read = loading.read_sparse::<f32, 2>("s", 0).unwrap();
        prop_assert!(read.iter().map(|(key, value)| (key, value.to_bits())).eq(
            sparse.iter().map(|(key, value)| (key, value.to_bits()))));
        prop_assert_eq!(loading.read_dense::<i32, 2>("d", 0).unwrap(), (0, dense));
    }
}

fn reason(path: &Path) -> String {
    let read = || {
        let loading = PartReader::open(path)?;
        loading.read_dense::<f64, 2>("w", 0)?;
        loading.read_dense::<f64, 2>("w", 1)?;
        loading.read_sparse::<f32, 2>("ratings", 0)?;
        loading.read_names("ratings", 0)?;
        Ok::<(), Error>(())
    };
    let error = read().unwrap_err().to_string();
    error.replace(&format!("{}/", parts(path).display()), "").replace(&format!("{}/", path.display()), "")
}

#[test]
fn every_single_changed_byte_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    // A changed manifest of the save alone is replaced by the one of its generation; see below.
    std::fs::remove_file(path.join("manifest.json")).unwrap();
    for name in listing(&parts(&path)) {
        let file = parts(&path).join(&name);
        let original = std::fs::read(&file).unwrap();
        for position in 0..original.len() {
            let mut changed = original.clone();
            changed[position] ^= 1;
            std::fs::write(&file, &changed).unwrap();
            // White space of the JSON text is not covered by the digest.
            let blank = original[position].is_ascii_whitespace() && changed[position].is_ascii_whitespace();
            if !blank {
                let reason = std::panic::catch_unwind(|| reason(&path));
                assert!(reason.is_ok(), "{name}: byte {position} was changed and not refused");
            }
        }
        std::fs::write(&file, &original).unwrap();
    }
}

#[test]
fn a_damaged_manifest_is_replaced_by_that_of_its_generation_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    let file = path.join("manifest.json");
    let original = std::fs::read(&file).unwrap();
    assert_eq!(PartReader::open(&path).unwrap().warning(), None);
    for position in 0..original.len() {
        let mut changed = original.clone();
        changed[position] ^= 1;
        if original[position].is_ascii_whitespace() && changed[position].is_ascii_whitespace() {
            continue;
        }
        std::fs::write(&file, &changed).unwrap();
        let reader = PartReader::open(&path).unwrap();
        let warning = reader.warning().unwrap_or_else(|| panic!("byte {position} was changed and not noticed"));
        assert!(warning.contains("manifest.json") && warning.ends_with("generation-1` is used instead"), "{warning}");
        assert_eq!(reader.read_dense::<f64, 2>("w", 1).unwrap().1.to_cells(), [6.0, 7.0, 8.0]);
    }
}

#[test]
fn parts_that_are_missing_misplaced_or_shared_are_rejected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let saved_as = |edit: &dyn Fn(&mut Manifest)| {
        let path = folder.path().join("model");
        let saving = PartWriter::begin(&path).unwrap();
        let mut manifest = Manifest::default();
        let rows = |count| DenseArray::from_fn(Shape::new([count, 3]), |index| index as f64).unwrap();
        let parts =
            vec![saving.write_dense("w", 0, 0, &rows(2)).unwrap(), saving.write_dense("w", 1, 2, &rows(1)).unwrap()];
        manifest.add_dense::<f64, 2>("w", Shape::new([3, 3]), parts);
        manifest.add_dense::<f64, 2>("h", Shape::new([1, 3]), vec![saving.write_dense("h", 0, 0, &rows(1)).unwrap()]);
        edit(&mut manifest);
        saving.commit(&manifest).unwrap();
        let opened = PartReader::open(&path).map(drop).map_err(|error| error.to_string());
        std::fs::remove_dir_all(&path).unwrap();
        opened
    };
    let record = |manifest: &mut Manifest, name: &str, edit: &dyn Fn(&mut ArrayRecord)| {
        edit(manifest.arrays.get_mut(name).unwrap());
    };
    let rejected = |expected: &str, edit: &dyn Fn(&mut Manifest)| {
        let problem = saved_as(edit).unwrap_err();
        assert!(problem.ends_with(expected), "{problem}");
    };
    assert_eq!(saved_as(&|_| {}), Ok(()));
    rejected("array `w` has 3 rows and parts of 2", &|m| record(m, "w", &|w| drop(w.parts.pop())));
    rejected("rows 0 to 2 of array `w` are in no part", &|m| record(m, "w", &|w| drop(w.parts.remove(0))));
    rejected("rows 1 to 2 of array `w` are in two parts", &|m| record(m, "w", &|w| w.parts[1].first = 1));
    rejected("array `w` names the file `w.00000.safetensors` twice", &|m| {
        record(m, "w", &|w| w.parts[1].file = w.parts[0].file.clone());
    });
    rejected("array `h` names the file `w.00001.safetensors`, which is not one of its parts", &|m| {
        record(m, "h", &|h| "w.00001.safetensors".clone_into(&mut h.parts[0].file));
    });
    rejected("which is not one of its parts", &|m| {
        record(m, "h", &|h| "h.../../evil.safetensors".clone_into(&mut h.parts[0].file));
    });
}

#[test]
fn torn_and_modified_saves_are_rejected_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    // With the manifest of the generation alone, as nothing can replace that one.
    std::fs::remove_file(path.join("manifest.json")).unwrap();
    let part = parts(&path).join("w.00000.safetensors");
    let original = std::fs::read(&part).unwrap();

    std::fs::write(&part, &original[..original.len() - 1]).unwrap();
    assert_eq!(
        reason(&path),
        format!(
            "`w.00000.safetensors` is not a complete save: it has {} bytes, the manifest says {}",
            original.len() - 1,
            original.len()
        )
    );
    let mut changed = original.clone();
    *changed.last_mut().unwrap() ^= 0x80;
    std::fs::write(&part, &changed).unwrap();
    let message = reason(&path);
    assert!(message.starts_with("`w.00000.safetensors` is not a complete save: its SHA-256 is "), "{message}");
    assert!(message.ends_with("; it was changed after saving"), "{message}");
    std::fs::remove_file(&part).unwrap();
    assert_eq!(reason(&path), "cannot open `w.00000.safetensors`: no such file or directory; check the path");
    std::fs::write(&part, &original).unwrap();

    let manifest = path.join("manifest.json");
    std::fs::rename(parts(&path).join("manifest.json"), &manifest).unwrap();
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replacen("\"first\": 2", "\"first\": 1", 1)).unwrap();
    assert_eq!(
        reason(&path),
        "`manifest.json` is not a complete save: its digest does not fit its contents; it was changed after saving"
    );
    std::fs::write(&manifest, text.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    assert_eq!(
        reason(&path),
        "`manifest.json` is not a complete save: expected `hemiola-array` version 1, found `hemiola-array` version 2; a \
         newer hemiola may read it"
    );
    std::fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    assert!(reason(&path).starts_with("`manifest.json` is not a complete save: it is damaged ("));
}

#[test]
fn a_wrong_request_is_an_error_that_lists_the_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    let loading = PartReader::open(&path).unwrap();
    let problem = |error: Error| match error {
        Error::BadSave { problem, .. } => problem,
        error => panic!("{error}"),
    };
    let ask = |error| problem(error);
    assert_eq!(
        ask(loading.read_dense::<f64, 2>("h", 0).unwrap_err()),
        "it has no array `h`; its arrays are: ratings, w"
    );
    assert_eq!(ask(loading.read_dense::<f32, 2>("w", 0).unwrap_err()), "array `w` holds F64, not F32 as requested");
    assert_eq!(
        ask(loading.read_dense::<f64, 3>("w", 0).unwrap_err()),
        "array `w` has 2 dimensions, not 3 as requested"
    );
    assert_eq!(ask(loading.read_dense::<f64, 2>("w", 2).unwrap_err()), "array `w` has 2 parts, so there is no part 2");
    assert_eq!(ask(loading.read_sparse::<f64, 2>("w", 0).unwrap_err()), "array `w` is dense");
    assert_eq!(ask(loading.read_dense::<f32, 2>("ratings", 0).unwrap_err()), "array `ratings` is sparse");
}

#[test]
fn nothing_half_written_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let saving = PartWriter::begin(&path).unwrap();
    saving.write_dense("w", 0, 0, &DenseArray::filled(Shape::new([2]), 0_u8).unwrap()).unwrap();
    assert_eq!(listing(folder.path()), [".model.partial"]);
    drop(saving);
    assert_eq!(listing(folder.path()), [""; 0]);
    // A crash leaves the temporary folder; the next save clears it, and keeps what is not its own.
    std::mem::forget(PartWriter::begin(&path).unwrap());
    std::fs::write(folder.path().join(".model.partial/generation-1/w.00000.safetensors"), "x").unwrap();
    std::fs::write(folder.path().join(".model.partial/thesis.txt"), "x").unwrap();
    saved(&folder);
    assert_eq!(listing(folder.path()), ["model"]);
    assert_eq!(listing(&path), ["generation-1", "manifest.json", "thesis.txt"]);
    // A save within a folder that exists leaves the folder of a generation.
    std::mem::forget(PartWriter::begin(&path).unwrap());
    assert_eq!(listing(&path), ["generation-1", "generation-2", "manifest.json", "thesis.txt"]);
    drop(PartWriter::begin(&path).unwrap());
    assert_eq!(listing(&path), ["generation-1", "manifest.json", "thesis.txt"]);
}

#[test]
fn a_save_replaces_a_save_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        saved(&folder);
    }
    let path = saved(&folder);
    assert_eq!(listing(folder.path()), ["model"]);
    assert_eq!(listing(&path), ["generation-3", "generation-4", "manifest.json"]);
    PartReader::open(&path).unwrap();
    let other = folder.path().join("thesis");
    std::fs::create_dir_all(other.join("chapters")).unwrap();
    assert_eq!(
        PartWriter::begin(&other).unwrap_err().to_string(),
        format!(
            "`{}` is not a complete save: it contains other data; remove it or choose another path",
            other.display()
        )
    );
    let saving = PartWriter::begin(&folder.path().join("new")).unwrap();
    let error = saving.write_names("../evil", 0, &Dictionary::new()).unwrap_err();
    assert!(error.to_string().ends_with("`../evil` is not a valid array name; use letters, digits, `_`, `-` and `.`"));
}

#[test]
fn the_safetensors_crate_reads_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    let bytes = std::fs::read(parts(&path).join("ratings.00000.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.tensor("key0").unwrap().dtype(), safetensors::Dtype::U32);
    assert_eq!(tensors.tensor("key1").unwrap().dtype(), safetensors::Dtype::U64);
    assert_eq!(tensors.tensor("values").unwrap().shape(), [3]);
}

/// Uses the `python3` of the path, or the one that `HEMIOLA_PYTHON` names.
#[test]
fn python_reads_what_we_write() {
    let python = hemiola_testkit::require!(hemiola_testkit::python(&["safetensors.numpy"]));
    let run = |arguments: &[&std::ffi::OsStr]| std::process::Command::new(&python).args(arguments).output();
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    let program = "
import sys, json, hashlib
from safetensors.numpy import load_file
folder = sys.argv[1]
w = load_file(folder + '/generation-1/w.00000.safetensors')['values']
assert w.dtype == 'float64' and w.tolist() == [[0, 1, 2], [3, 4, 5]], w
r = load_file(folder + '/generation-1/ratings.00000.safetensors')
assert r['key0'].dtype == 'uint32' and r['key0'].tolist() == [4, 0, 4], r
assert r['key1'].dtype == 'uint64' and r['key1'].tolist() == [0, 1, 1], r
assert r['values'].dtype == 'float32' and r['values'].tolist() == [2.5, 0.5, 3.5], r
for array in json.load(open(folder + '/manifest.json'))['arrays'].values():
    for part in array['parts']:
        assert hashlib.sha256(open(folder + '/' + part['file'], 'rb').read()).hexdigest() == part['sha256']
";
    let output = run(&["-c".as_ref(), program.as_ref(), path.as_os_str()]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn foreign_files_are_never_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    assert_eq!(PartWriter::check(&path, 0), Ok(()));
    // Files of others stay where they are, in the folder of a removed generation, too.
    let foreign = ["thesis.txt", "generation-1/notes.txt", "generation-7"];
    for name in foreign {
        std::fs::write(path.join(name), "years of work").unwrap();
    }
    for _ in 0..3 {
        assert_eq!(PartWriter::check(&path, 0), Ok(()));
        PartWriter::begin(&path).unwrap().commit(&Manifest::default()).unwrap();
    }
    for name in foreign {
        assert_eq!(std::fs::read_to_string(path.join(name)).unwrap(), "years of work");
    }
    assert_eq!(
        listing(&path),
        ["generation-1", "generation-10", "generation-7", "generation-9", "manifest.json", "thesis.txt"]
    );
    assert_eq!(listing(&path.join("generation-1")), ["notes.txt"]);
    assert_eq!(listing(folder.path()), ["model"]);
}

#[test]
fn a_save_of_an_older_version_is_read_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    // Older versions had the files of one save beside the manifest.
    std::fs::remove_file(path.join("manifest.json")).unwrap();
    for name in listing(&parts(&path)) {
        std::fs::rename(parts(&path).join(&name), path.join(&name)).unwrap();
    }
    std::fs::remove_dir(parts(&path)).unwrap();
    let reader = PartReader::open(&path).unwrap();
    assert_eq!(reader.read_dense::<f64, 2>("w", 1).unwrap().1.to_cells(), [6.0, 7.0, 8.0]);
    PartWriter::begin(&path).unwrap().commit(&Manifest::default()).unwrap();
    assert_eq!(listing(&path), ["generation-1", "manifest.json"]);
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(&folder);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("model", &link).unwrap();
    PartWriter::check(&link, 0).unwrap();
    PartWriter::begin(&link).unwrap().commit(&Manifest::default()).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(PartReader::open(&path).unwrap().manifest().arrays.is_empty(), "the save it leads to is the new one");
    std::fs::remove_dir_all(&path).unwrap();
    let refused = PartWriter::check(&link, 0).unwrap_err().to_string();
    assert!(refused.contains("follow the link") && refused.contains("link"), "{refused}");
}
