//! Saves survive a crash at any operation: simulated file systems that lose, tear and refuse.
//!
//! `HEMIOLA_SCHEDULES` sets the number of random schedules, `HEMIOLA_FIRST_SCHEDULE` the seed of the
//! first one; a failure names its seed.

use hemiola_array::files::testing::{CrashKind, FileFault, SimFileSystem};
use hemiola_array::files::{AtomicFile, EntryKind, FileReader, FileSystem, FileWriter, SharedFileSystem};
use hemiola_array::save::{Manifest, PartReader, PartWriter};
use hemiola_array::{DenseArray, Result, Shape};
use hemiola_core::rng::SplitMix64;
use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Saves a dense array in two parts of two peers, and a value in the manifest.
fn save(disk: &SimFileSystem, path: &Path, version: u32) -> Result<()> {
    save_on(&disk.shared(), path, version)
}

fn save_on(files: &SharedFileSystem, path: &Path, version: u32) -> Result<()> {
    let writer = PartWriter::begin_on(files, path)?;
    let other = PartWriter::join_on(files, path, writer.generation())?;
    let part = |rows: usize| DenseArray::from_fn(Shape::new([rows, 2]), |index| version * 100 + index as u32);
    let mut manifest = Manifest::default();
    let parts = vec![writer.write_dense("w", 0, 0, &part(2)?)?, other.write_dense("w", 1, 2, &part(1)?)?];
    manifest.add_dense::<u32, 2>("w", Shape::new([3, 2]), parts);
    manifest.metadata.insert("version".to_owned(), version.into());
    writer.commit(&manifest)
}

/// Loads a save; panics unless it is whole and bit-equal to one that was saved.
fn load(reader: &PartReader) -> Result<u32> {
    let version = reader.manifest().metadata["version"].as_u64().unwrap() as u32;
    let cells = |part| Ok::<_, hemiola_array::Error>(reader.read_dense::<u32, 2>("w", part)?.1.to_cells());
    assert_eq!(cells(0)?, [0, 1, 2, 3].map(|index| version * 100 + index));
    assert_eq!(cells(1)?, [0, 1].map(|index| version * 100 + index));
    Ok(version)
}

fn newest(disk: &SimFileSystem, path: &Path) -> Option<u32> {
    let files = disk.shared();
    PartReader::exists_on(&files, path).then(|| load(&PartReader::open_on(&files, path).unwrap()).unwrap())
}

/// Files of others, in the places where a save might harm them.
fn plant_foreign(disk: &SimFileSystem, path: &Path, has_save: bool) -> Vec<std::path::PathBuf> {
    let mut foreign = vec![path.with_file_name("neighbour"), path.with_file_name(".model.check.txt")];
    if has_save {
        foreign.push(path.join("thesis.txt"));
        foreign.push(path.join("generation-1").join("notes.txt"));
    }
    for file in &foreign {
        disk.plant(file, b"years of work");
    }
    foreign
}

/// Reads a number from the environment, for longer runs.
#[expect(clippy::disallowed_methods, reason = "a knob of this test, not of the library")]
fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn seeds(count: u64) -> Range<u64> {
    let first = variable("HEMIOLA_FIRST_SCHEDULE", 0);
    first..first + variable("HEMIOLA_SCHEDULES", count)
}

/// One schedule: saves with faults and crashes, and after each crash the checks of the module.
fn run_schedule(seed: u64, on: impl Fn(&SimFileSystem) -> SharedFileSystem) {
    let mut random = SplitMix64::new(seed ^ 0x5eed);
    let disk = SimFileSystem::new(seed);
    let files = on(&disk);
    let save = |_: &SimFileSystem, path: &Path, version| save_on(&files, path, version);
    let path = Path::new("/lab/model");
    disk.plant(Path::new("/lab/neighbour"), b"");
    let mut committed: Option<u32> = None;
    let mut version = 0;
    for _ in 0..random.below(3) {
        version += 1;
        save(&disk, path, version).unwrap();
        committed = Some(version);
    }
    let foreign = plant_foreign(&disk, path, committed.is_some());
    for _ in 0..=random.below(3) {
        // The versions that may be found: the last one that was reported as saved, or a later one.
        let mut oldest_allowed = committed;
        let start = disk.operations();
        disk.crash_at(start + random.below(160) as u64);
        for _ in 0..random.below(3) {
            let fault = if random.below(2) == 0 { FileFault::Io } else { FileFault::NoSpace };
            disk.fail_at(start + random.below(120) as u64, fault);
        }
        for _ in 0..=random.below(4) {
            version += 1;
            if save(&disk, path, version).is_ok() {
                oldest_allowed = Some(version);
            }
        }
        disk.restart(if random.below(3) == 0 { CrashKind::Kill } else { CrashKind::PowerLoss });
        let found = newest(&disk, path);
        assert!(found >= oldest_allowed && found <= Some(version), "{found:?}, not {oldest_allowed:?} to {version}");
        version += 1;
        save(&disk, path, version).unwrap_or_else(|error| panic!("a save after the crash fails: {error}"));
        assert_eq!(newest(&disk, path), Some(version));
        committed = Some(version);
        for file in &foreign {
            assert_eq!(disk.read(file).unwrap(), b"years of work", "`{}` was harmed", file.display());
        }
    }
    let others = ["thesis.txt", "generation-1"];
    let names: Vec<_> = disk.list(path).unwrap().into_iter().filter(|name| !others.iter().any(|o| name == o)).collect();
    assert!(names.len() <= 3, "only two generations and the manifest are kept: {names:?}");
    assert!(disk.list(Path::new("/lab")).unwrap().len() <= 3, "nothing is left beside the save");
}

#[test]
fn after_any_crash_the_old_or_the_new_save_is_whole_and_the_next_save_succeeds() {
    for seed in seeds(400) {
        let outcome = std::panic::catch_unwind(|| run_schedule(seed, SimFileSystem::shared));
        assert!(outcome.is_ok(), "HEMIOLA_FIRST_SCHEDULE={seed} fails");
    }
}

/// Disk that reports syncs of files or of folders and does not make them.
#[derive(Debug)]
struct LyingDisk {
    disk: SimFileSystem,
    ignores_files: bool,
}

/// Writer that reports syncs and does not make them.
struct LyingWriter(Box<dyn FileWriter>);

impl Write for LyingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl FileWriter for LyingWriter {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LyingDisk {
    fn writer(&self, writer: io::Result<Box<dyn FileWriter>>) -> io::Result<Box<dyn FileWriter>> {
        let ignored = |writer| Box::new(LyingWriter(writer)) as Box<dyn FileWriter>;
        writer.map(|writer| if self.ignores_files { ignored(writer) } else { writer })
    }
}

impl FileSystem for LyingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        self.writer(self.disk.create(path))
    }
    fn create_claimed(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        self.writer(self.disk.create_claimed(path))
    }
    fn remove_abandoned(&self, path: &Path) -> io::Result<bool> {
        self.disk.remove_abandoned(path)
    }
    fn open(&self, path: &Path) -> io::Result<FileReader> {
        self.disk.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.disk.list(path)
    }
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.disk.entry_kind(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if self.ignores_files { self.disk.sync_dir(path) } else { Ok(()) }
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.canonicalize(path)
    }
    fn free_bytes(&self, path: &Path) -> Option<u64> {
        self.disk.free_bytes(path)
    }
}

#[test]
fn schedules_find_a_save_that_is_not_made_durable() {
    let found = [true, false].map(|ignores_files| {
        let lying =
            |disk: &SimFileSystem| Arc::new(LyingDisk { disk: disk.clone(), ignores_files }) as SharedFileSystem;
        (0..200).any(|seed| std::panic::catch_unwind(|| run_schedule(seed, lying)).is_err())
    });
    assert_eq!(found, [true; 2], "of unsynced files and unsynced folders");
}

#[test]
fn a_crash_at_each_single_operation_of_a_save_is_survived() {
    let path = Path::new("/model");
    for saves_before in 0..4 {
        for crash in [CrashKind::Kill, CrashKind::PowerLoss] {
            let mut operation = 0;
            loop {
                let disk = SimFileSystem::new(operation);
                (1..=saves_before).for_each(|version| save(&disk, path, version).unwrap());
                disk.crash_at(disk.operations() + operation);
                let saved = save(&disk, path, 9).is_ok();
                let crashed = disk.is_down();
                disk.restart(crash);
                let before = (saves_before > 0).then_some(saves_before);
                let found = newest(&disk, path);
                assert!(found == Some(9) || (!saved && found == before), "operation {operation}: {found:?}");
                save(&disk, path, 10).unwrap();
                assert_eq!(newest(&disk, path), Some(10));
                if !crashed {
                    break;
                }
                operation += 1;
            }
            assert!(operation > 20, "a save has more than {operation} operations");
        }
    }
}

#[test]
fn a_fault_at_each_single_operation_is_reported_or_harmless() {
    let path = Path::new("/model");
    for fault in [FileFault::Io, FileFault::NoSpace] {
        for operation in 0..120 {
            let disk = SimFileSystem::new(operation);
            (1..=2).for_each(|version| save(&disk, path, version).unwrap());
            disk.fail_at(disk.operations() + operation, fault);
            let saved = save(&disk, path, 3).is_ok();
            disk.restart(CrashKind::Kill); // no fault is left
            let found = newest(&disk, path).unwrap();
            assert!(found == 3 || (!saved && found == 2), "operation {operation}: {found}");
            save(&disk, path, 4).unwrap();
            disk.restart(CrashKind::PowerLoss);
            assert_eq!(newest(&disk, path), Some(4));
        }
    }
}

#[test]
fn of_a_damaged_save_the_one_before_is_read_with_a_warning() {
    let (disk, path) = (SimFileSystem::new(1), Path::new("/model"));
    (1..=3).for_each(|version| save(&disk, path, version).unwrap());
    let read = || {
        let mut warnings = Vec::new();
        let read =
            PartReader::read_intact(&disk.shared(), path, &mut |warning| warnings.push(warning.to_owned()), load);
        (read.map_err(|error| error.to_string()), warnings)
    };
    assert_eq!(read(), (Ok(3), vec![]));
    disk.corrupt(&path.join("generation-3/w.00001.safetensors"), 79);
    let (found, warnings) = read();
    assert_eq!(found, Ok(2));
    assert!(
        warnings[0].contains("generation-3/w.00001.safetensors` is not a complete save: its SHA-256"),
        "{warnings:?}"
    );
    assert!(warnings[0].ends_with("`/model/generation-2`, the save before it, is used"), "{warnings:?}");
    disk.corrupt(&path.join("generation-2/w.00000.safetensors"), 79);
    assert!(read().0.unwrap_err().contains("generation-3/"), "the newest damage is reported");
    // A save replaces damaged ones.
    save(&disk, path, 4).unwrap();
    assert_eq!(read(), (Ok(4), vec![]));
}

#[test]
fn a_save_that_a_failing_disk_hides_is_not_taken_for_absent() {
    let (disk, path) = (SimFileSystem::new(1), Path::new("/model"));
    assert!(!PartReader::exists_on(&disk.shared(), path));
    save(&disk, path, 1).unwrap();
    let start = disk.operations();
    (start..start + 20).for_each(|operation| disk.fail_at(operation, FileFault::Io));
    assert!(PartReader::exists_on(&disk.shared(), path));
    let error = PartReader::open_on(&disk.shared(), path).unwrap_err();
    assert_eq!(error.kind(), hemiola_core::ErrorKind::External, "{error}");
}

#[test]
fn a_small_disk_keeps_one_generation_rather_than_none() {
    let (disk, path) = (SimFileSystem::new(1), Path::new("/model"));
    save(&disk, path, 1).unwrap();
    let sizes = disk.list(&path.join("generation-1")).unwrap();
    let bytes: usize = sizes.iter().map(|name| disk.read(&path.join("generation-1").join(name)).unwrap().len()).sum();
    // Room for two generations and the manifest twice, while it is replaced.
    disk.set_capacity(Some(bytes as u64 * 4));
    for version in 2..9 {
        save(&disk, path, version).unwrap();
        assert_eq!(newest(&disk, path), Some(version));
    }
}

#[test]
fn a_file_that_is_written_atomically_is_old_or_new_after_any_crash() {
    let target = Path::new("/report.json");
    for seed in seeds(1000) {
        let disk = SimFileSystem::new(seed);
        AtomicFile::write_on(&disk.shared(), target, b"the old report").unwrap();
        disk.crash_at(disk.operations() + seed % 30);
        let written = AtomicFile::write_on(&disk.shared(), target, b"the new report").is_ok();
        disk.restart(CrashKind::PowerLoss);
        let found = disk.read(target).unwrap();
        assert!(found == b"the new report" || (!written && found == b"the old report"), "schedule {seed}");
        AtomicFile::write_on(&disk.shared(), target, b"a later report").unwrap();
        assert_eq!(disk.list(Path::new("/")).unwrap(), ["report.json"], "schedule {seed}");
    }
}
