//! Files in memory, with faults and crashes, for tests of code that saves and loads.
//!
//! [`SimFileSystem`] distinguishes what a process sees from what is durable. Bytes become durable
//! by [`FileWriter::sync`], names by [`FileSystem::sync_dir`]. A power failure keeps everything
//! durable; of the rest it keeps any subset: each change of a folder since its last sync may be
//! lost on its own, and an unsynced file has its old bytes, its new ones, or a torn mixture. A kill
//! of the process keeps everything. A fault may have taken effect although it is reported, as on a
//! network file system, and a failed sync loses the bytes for good.
//!
//! Each operation has a number, counted from 0. A test runs the code once to count the operations,
//! and then once for each operation and fault; or it draws both from a seed. There are no threads,
//! clocks and sleeps, so a schedule is a function of its seed.
//!
//! ```
//! use hemiola_array::files::testing::{CrashKind, SimFileSystem};
//! use hemiola_array::save::{Manifest, PartReader, PartWriter};
//! use std::path::Path;
//!
//! let (disk, path) = (SimFileSystem::new(1), Path::new("/model"));
//! let save = || PartWriter::begin_on(&disk.shared(), path)?.commit(&Manifest::default());
//! save()?;
//! disk.crash_at(disk.operations() + 4); // within the next save
//! assert!(save().is_err());
//! disk.restart(CrashKind::PowerLoss);
//! assert!(PartReader::open_on(&disk.shared(), path).is_ok());
//! save()?;
//! # Ok::<(), hemiola_array::Error>(())
//! ```

use super::{EntryKind, FileReader, FileSystem, FileWriter, SharedFileSystem};
use hemiola_core::rng::SplitMix64;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Cursor, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// End of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrashKind {
    /// The process is killed; the system goes on, and nothing is lost.
    Kill,
    /// The machine loses power; what is not synced may be lost or torn.
    PowerLoss,
}

/// Fault of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFault {
    /// Input or output error (`EIO`). The operation may have taken effect.
    Io,
    /// No space left (`ENOSPC`). A write may have taken effect in part.
    NoSpace,
}

impl FileFault {
    fn error(self) -> io::Error {
        match self {
            Self::Io => io::Error::other("simulated input/output error"),
            Self::NoSpace => io::ErrorKind::StorageFull.into(),
        }
    }
}

/// File system in memory. Clones share their files.
#[derive(Clone, Debug)]
pub struct SimFileSystem {
    state: Arc<Mutex<SimState>>,
}

#[derive(Debug)]
struct SimState {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    operations: u64,
    crash_at: Option<u64>,
    faults: BTreeMap<u64, FileFault>,
    /// True from a crash to the restart: every operation fails.
    down: bool,
    /// Number of restarts; writers of earlier processes fail.
    epoch: u64,
    /// Claimed files whose writers live.
    claimed: BTreeSet<u64>,
    capacity: Option<u64>,
    random: SplitMix64,
}

#[derive(Debug)]
enum Inode {
    File {
        bytes: Vec<u8>,
        durable: Vec<u8>,
        /// True after a failed sync: the bytes never become durable.
        lost: bool,
    },
    Folder {
        entries: BTreeMap<OsString, u64>,
        durable: BTreeMap<OsString, u64>,
        pending: Vec<EntryChange>,
    },
}

/// Change of a folder that is not durable yet.
#[derive(Clone, Debug)]
enum EntryChange {
    Add(OsString, u64),
    Remove(OsString),
    Rename(OsString, OsString, u64),
}

impl EntryChange {
    fn apply(&self, entries: &mut BTreeMap<OsString, u64>) {
        match self {
            Self::Add(name, inode) => drop(entries.insert(name.clone(), *inode)),
            Self::Remove(name) => drop(entries.remove(name)),
            Self::Rename(from, to, inode) => {
                entries.remove(from);
                entries.insert(to.clone(), *inode);
            }
        }
    }
}

const ROOT: u64 = 0;

impl SimFileSystem {
    /// Creates an empty file system. The seed decides what faults and crashes leave.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let root = Inode::Folder { entries: BTreeMap::new(), durable: BTreeMap::new(), pending: Vec::new() };
        let state = SimState {
            inodes: BTreeMap::from([(ROOT, root)]),
            next_inode: ROOT + 1,
            operations: 0,
            crash_at: None,
            faults: BTreeMap::new(),
            down: false,
            epoch: 0,
            claimed: BTreeSet::new(),
            capacity: None,
            random: SplitMix64::new(seed),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the file system as a shared object.
    #[must_use]
    pub fn shared(&self) -> SharedFileSystem {
        Arc::new(self.clone())
    }

    /// Returns the number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Crashes at the operation with this number, which may take effect; later ones fail.
    pub fn crash_at(&self, operation: u64) {
        self.state.lock().crash_at = Some(operation);
    }

    /// Returns true if the file system has crashed and was not restarted.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.state.lock().down
    }

    /// Injects a fault into the operation with this number.
    pub fn fail_at(&self, operation: u64, fault: FileFault) {
        self.state.lock().faults.insert(operation, fault);
    }

    /// Limits the bytes of all files.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Ends the process and starts a new one: removes planned faults and crashes, and after a power
    /// failure what was not durable.
    pub fn restart(&self, crash: CrashKind) {
        let mut state = self.state.lock();
        state.epoch += 1;
        (state.down, state.crash_at) = (false, None);
        state.faults.clear();
        state.claimed.clear();
        if crash == CrashKind::PowerLoss {
            state.lose_power();
        }
    }

    /// Writes a durable file, as another program would; creates missing folders.
    ///
    /// # Panics
    /// Panics if a folder has the name of the file, or a file that of a folder.
    pub fn plant(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state.lock();
        let mut folder = ROOT;
        let names = names(path);
        let (last, folders) = names.split_last().expect("a file has a name");
        for name in folders {
            let found = state.entries(folder).expect("a folder").get(*name).copied();
            folder = found.unwrap_or_else(|| {
                let made = Inode::Folder { entries: BTreeMap::new(), durable: BTreeMap::new(), pending: Vec::new() };
                state.add_durable(folder, name, made)
            });
        }
        let file = Inode::File { bytes: bytes.to_vec(), durable: bytes.to_vec(), lost: false };
        state.add_durable(folder, last, file);
    }

    /// Inverts a bit of a file, as a failing disk does.
    ///
    /// # Panics
    /// Panics if there is no such file or byte.
    pub fn corrupt(&self, path: &Path, byte: usize) {
        let mut state = self.state.lock();
        let inode = state.resolve(path).expect("the file exists");
        let Some(Inode::File { bytes, durable, .. }) = state.inodes.get_mut(&inode) else {
            panic!("`{}` is a folder", path.display())
        };
        bytes[byte] ^= 1;
        durable.clone_from(bytes);
    }

    fn operate<T>(&self, apply: impl FnOnce(&mut SimState) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        if state.down {
            return Err(down());
        }
        let number = state.operations;
        state.operations += 1;
        let takes_effect = state.random.below(2) == 0;
        let (error, takes_effect) = if state.crash_at == Some(number) {
            state.down = true;
            (down(), takes_effect)
        } else if let Some(fault) = state.faults.remove(&number) {
            (fault.error(), takes_effect && fault == FileFault::Io)
        } else {
            return apply(&mut state);
        };
        // The process does not learn the result. A writer locks the state when it is dropped.
        let effect = takes_effect.then(|| apply(&mut state));
        drop(state);
        drop(effect);
        Err(error)
    }

    fn create_file(&self, path: &Path, claimed: bool) -> io::Result<Box<dyn FileWriter>> {
        self.operate(|state| {
            let (folder, name) = state.slot(path)?;
            let inode = state.add(folder, name, Inode::File { bytes: Vec::new(), durable: Vec::new(), lost: false })?;
            if claimed {
                state.claimed.insert(inode);
            }
            let writer = SimFileWriter { files: self.clone(), inode, epoch: state.epoch };
            Ok(Box::new(writer) as Box<dyn FileWriter>)
        })
    }
}

impl SimState {
    fn entries(&self, inode: u64) -> io::Result<&BTreeMap<OsString, u64>> {
        match self.inodes.get(&inode) {
            Some(Inode::Folder { entries, .. }) => Ok(entries),
            Some(Inode::File { .. }) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn resolve(&self, path: &Path) -> io::Result<u64> {
        names(path)
            .into_iter()
            .try_fold(ROOT, |folder, name| Ok(*self.entries(folder)?.get(name).ok_or(io::ErrorKind::NotFound)?))
    }

    /// Folder and name of a path.
    fn slot<'a>(&self, path: &'a Path) -> io::Result<(u64, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = self.resolve(path.parent().unwrap_or(Path::new("/")))?;
        self.entries(folder)?;
        Ok((folder, name))
    }

    fn change(&mut self, folder: u64, change: EntryChange) {
        if let Some(Inode::Folder { entries, pending, .. }) = self.inodes.get_mut(&folder) {
            change.apply(entries);
            pending.push(change);
        }
    }

    fn add(&mut self, folder: u64, name: &OsStr, inode: Inode) -> io::Result<u64> {
        if self.entries(folder)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(number, inode);
        self.change(folder, EntryChange::Add(name.to_owned(), number));
        Ok(number)
    }

    fn add_durable(&mut self, folder: u64, name: &OsStr, inode: Inode) -> u64 {
        let number = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(number, inode);
        let Some(Inode::Folder { entries, durable, .. }) = self.inodes.get_mut(&folder) else {
            panic!("the parent is a folder")
        };
        entries.insert(name.to_owned(), number);
        durable.insert(name.to_owned(), number);
        number
    }

    fn used(&self) -> u64 {
        let mut reached = vec![ROOT];
        let mut bytes = 0;
        while let Some(inode) = reached.pop() {
            match &self.inodes[&inode] {
                Inode::File { bytes: content, .. } => bytes += content.len() as u64,
                Inode::Folder { entries, .. } => reached.extend(entries.values()),
            }
        }
        bytes
    }

    fn append(&mut self, inode: u64, data: &[u8]) -> io::Result<usize> {
        if self.capacity.is_some_and(|capacity| self.used() + data.len() as u64 > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match self.inodes.get_mut(&inode) {
            Some(Inode::File { bytes, .. }) => {
                bytes.extend_from_slice(data);
                Ok(data.len())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn lose_power(&mut self) {
        let random = &mut self.random;
        for inode in self.inodes.values_mut() {
            match inode {
                Inode::File { bytes, durable, lost } => {
                    if bytes != durable {
                        *bytes = torn(bytes, durable, *lost, random);
                        durable.clone_from(bytes);
                    }
                    *lost = false;
                }
                Inode::Folder { entries, durable, pending } => {
                    // All, none or any subset of the changes reached the disk.
                    let mode = random.below(3);
                    for change in pending.drain(..) {
                        if mode == 0 || (mode == 1 && random.below(2) == 0) {
                            change.apply(durable);
                        }
                    }
                    entries.clone_from(durable);
                }
            }
        }
    }
}

/// Bytes of an unsynced file after a power failure.
fn torn(bytes: &[u8], durable: &[u8], lost: bool, random: &mut SplitMix64) -> Vec<u8> {
    match random.below(4) {
        0 if !lost => bytes.to_vec(),
        1 => {
            // The length reached the disk and the bytes did not.
            let mut zeros = durable.to_vec();
            zeros.resize(bytes.len(), 0);
            zeros
        }
        2 => bytes[..random.below(bytes.len() + 1)].to_vec(),
        _ => durable.to_vec(),
    }
}

struct SimFileWriter {
    files: SimFileSystem,
    inode: u64,
    epoch: u64,
}

impl SimFileWriter {
    fn check(&self, state: &SimState) -> io::Result<()> {
        if state.epoch == self.epoch { Ok(()) } else { Err(down()) }
    }
}

impl Write for SimFileWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.files.operate(|state| {
            self.check(state)?;
            // The system may take fewer bytes than it is given.
            let length = if data.len() > 1 { 1 + state.random.below(data.len()) } else { data.len() };
            state.append(self.inode, &data[..length])
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileWriter for SimFileWriter {
    fn sync(&mut self) -> io::Result<()> {
        let synced = self.files.operate(|state| {
            self.check(state)?;
            match state.inodes.get_mut(&self.inode) {
                Some(Inode::File { bytes, durable, lost: false }) => durable.clone_from(bytes),
                Some(Inode::File { .. }) => {}
                _ => return Err(io::ErrorKind::NotFound.into()),
            }
            Ok(())
        });
        if synced.is_err()
            && let Some(Inode::File { lost, .. }) = self.files.state.lock().inodes.get_mut(&self.inode)
        {
            *lost = true;
        }
        synced
    }
}

impl Drop for SimFileWriter {
    fn drop(&mut self) {
        self.files.state.lock().claimed.remove(&self.inode);
    }
}

impl FileSystem for SimFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        self.create_file(path, false)
    }

    fn create_claimed(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        self.create_file(path, true)
    }

    fn remove_abandoned(&self, path: &Path) -> io::Result<bool> {
        self.operate(|state| {
            let (folder, name) = state.slot(path)?;
            let inode = state.resolve(path)?;
            if state.claimed.contains(&inode) || matches!(state.inodes[&inode], Inode::Folder { .. }) {
                return Ok(false);
            }
            state.change(folder, EntryChange::Remove(name.to_owned()));
            Ok(true)
        })
    }

    fn open(&self, path: &Path) -> io::Result<FileReader> {
        self.operate(|state| {
            let inode = state.resolve(path)?;
            let Inode::File { bytes, .. } = &state.inodes[&inode] else {
                return Err(io::ErrorKind::IsADirectory.into());
            };
            Ok(FileReader { length: bytes.len() as u64, data: Box::new(Cursor::new(bytes.clone())) })
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(|state| {
            let inode = state.resolve(from)?;
            let ((folder, from), (other, to)) = (state.slot(from)?, state.slot(to)?);
            if folder != other {
                return Err(io::ErrorKind::CrossesDevices.into());
            }
            if let Some(replaced) = state.entries(folder)?.get(to) {
                match (&state.inodes[&inode], &state.inodes[replaced]) {
                    (Inode::File { .. }, Inode::File { .. }) => {}
                    (Inode::Folder { .. }, Inode::Folder { entries, .. }) if entries.is_empty() => {}
                    (Inode::Folder { .. }, Inode::Folder { .. }) => {
                        return Err(io::ErrorKind::DirectoryNotEmpty.into());
                    }
                    (Inode::File { .. }, Inode::Folder { .. }) => return Err(io::ErrorKind::IsADirectory.into()),
                    (Inode::Folder { .. }, Inode::File { .. }) => return Err(io::ErrorKind::NotADirectory.into()),
                }
            }
            state.change(folder, EntryChange::Rename(from.to_owned(), to.to_owned(), inode));
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            let (folder, name) = state.slot(path)?;
            if matches!(state.inodes[&state.resolve(path)?], Inode::Folder { .. }) {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            state.change(folder, EntryChange::Remove(name.to_owned()));
            Ok(())
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            let (folder, name) = state.slot(path)?;
            let made = Inode::Folder { entries: BTreeMap::new(), durable: BTreeMap::new(), pending: Vec::new() };
            state.add(folder, name, made).map(drop)
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            let (folder, name) = state.slot(path)?;
            if !state.entries(state.resolve(path)?)?.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            state.change(folder, EntryChange::Remove(name.to_owned()));
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.operate(|state| Ok(state.entries(state.resolve(path)?)?.keys().cloned().collect()))
    }

    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.operate(|state| match &state.inodes[&state.resolve(path)?] {
            Inode::File { .. } => Ok(EntryKind::File),
            Inode::Folder { .. } => Ok(EntryKind::Folder),
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.operate(|state| {
            let inode = state.resolve(path)?;
            match state.inodes.get_mut(&inode) {
                Some(Inode::Folder { entries, durable, pending }) => {
                    durable.clone_from(entries);
                    pending.clear();
                    Ok(())
                }
                _ => Err(io::ErrorKind::NotADirectory.into()),
            }
        })
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.operate(|state| state.resolve(path).map(|_| path.to_owned()))
    }

    fn free_bytes(&self, _path: &Path) -> Option<u64> {
        let state = self.state.lock();
        Some(state.capacity?.saturating_sub(state.used()))
    }
}

fn names(path: &Path) -> Vec<&OsStr> {
    let parts = path.components();
    parts.filter_map(|part| if let Component::Normal(name) = part { Some(name) } else { None }).collect()
}

fn down() -> io::Error {
    io::Error::other("the simulated machine is down")
}
