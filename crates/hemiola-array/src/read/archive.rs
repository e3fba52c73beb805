//! Members of zip archives, the form in which many data sets are shipped.
//!
//! The central directory at the end of an archive lists its members; each is then a stream of its
//! own, stored or deflated, that any worker of any peer opens by itself. **Decision:** the directory
//! is parsed here, because archive libraries hand out readers that borrow one open archive.
//!
//! **Invariant:** nothing in an archive is trusted. Sizes and offsets are checked against the file,
//! the directory is bounded, names are only shown and compared, and the contents of a member must
//! have the size and the checksum that the directory declares.

use super::input::InputFile;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Seek as _, SeekFrom};

/// First bytes of an archive.
pub(super) const ZIP_MAGIC: &[u8] = b"PK\x03\x04";
/// Maximum size of the central directory in bytes.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
/// Maximum size of the end record, with the longest comment.
const MAX_END_BYTES: u64 = 22 + 0xffff;
/// Maximum number of members listed in a message.
const MEMBERS_SHOWN: usize = 12;

/// Place of a member in its archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArchiveMember {
    /// Offset of the local header.
    header: u64,
    /// Size in the archive.
    pub(super) stored: u64,
    /// Size of the contents.
    pub(super) bytes: u64,
    pub(super) crc: u32,
    pub(super) deflated: bool,
    /// Size of the whole archive when reading was planned.
    pub(super) archive: u64,
}

/// Entry of the central directory.
#[derive(Debug)]
pub(super) struct DirectoryEntry {
    pub(super) name: String,
    member: ArchiveMember,
    method: u16,
    encrypted: bool,
}

impl DirectoryEntry {
    /// Returns true for a file that may hold data: no folder, nothing hidden, no description.
    pub(super) fn is_data(&self) -> bool {
        let file = self.name.rsplit('/').next().unwrap_or_default();
        let upper = file.to_ascii_uppercase();
        !file.is_empty()
            && !self.name.split('/').any(|part| part.starts_with(['.', '_']))
            && !["README", "LICENSE"].iter().any(|name| upper.starts_with(name))
    }

    /// Returns the place of the member, if it can be read.
    pub(super) fn member(&self, archive: &InputFile) -> Result<ArchiveMember> {
        let problem = match self.method {
            _ if self.encrypted => "is encrypted",
            0 | 8 => return Ok(self.member),
            _ => "is compressed by a method other than deflate",
        };
        Err(bad(archive, format!("its member `{}` {problem}; unpack the archive with another program", self.name)))
    }
}

/// Reads the central directory of an archive.
pub(super) fn directory(archive: &InputFile) -> Result<Vec<DirectoryEntry>> {
    let size = archive.bytes();
    let tail_start = size.saturating_sub(MAX_END_BYTES);
    let tail = bytes_at(archive, tail_start, size - tail_start)?;
    let end = (0..tail.len().saturating_sub(21)).rev().find(|&at| tail[at..].starts_with(b"PK\x05\x06"));
    let Some(end) = end else { return Err(bad(archive, "its directory is missing: it ends too early".to_owned())) };
    let end_record = RecordFields(&tail[end..]);
    let (mut count, mut length, mut start) =
        (u64::from(end_record.u16(10)), u64::from(end_record.u32(12)), u64::from(end_record.u32(16)));
    // Large archives have a second end record, and a locator of it just before the first.
    if let Some(at) = end.checked_sub(20).filter(|&at| tail[at..].starts_with(b"PK\x06\x07")) {
        let record = bytes_at(archive, RecordFields(&tail[at..]).u64(8), 56)?;
        if record.starts_with(b"PK\x06\x06") {
            let record = RecordFields(&record);
            (count, length, start) = (record.u64(32), record.u64(40), record.u64(48));
        }
    }
    if length > MAX_DIRECTORY_BYTES || start.checked_add(length).is_none_or(|end| end > size) {
        return Err(bad(archive, "its directory is damaged".to_owned()));
    }
    let directory = bytes_at(archive, start, length)?;
    let (mut entries, mut at) = (Vec::new(), 0);
    while entries.len() as u64 != count {
        let entry = directory.get(at..).filter(|rest| rest.len() >= 46 && rest.starts_with(b"PK\x01\x02"));
        let Some(entry) = entry else { return Err(bad(archive, "its directory is damaged".to_owned())) };
        let fields = RecordFields(entry);
        let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(fields.u16(at)));
        let whole = 46 + name + extra + comment;
        if entry.len() < whole {
            return Err(bad(archive, "its directory is damaged".to_owned()));
        }
        entries.push(DirectoryEntry {
            name: String::from_utf8_lossy(&entry[46..46 + name]).into_owned(),
            member: located(fields, &entry[46 + name..46 + name + extra], size),
            method: fields.u16(10),
            encrypted: fields.u16(8) & 1 != 0,
        });
        at += whole;
    }
    Ok(entries)
}

/// Sizes and offset of a directory entry, some of them in an extra field of large archives.
fn located(entry: RecordFields<'_>, mut extra: &[u8], archive: u64) -> ArchiveMember {
    let [mut bytes, mut stored, mut header] = [24, 20, 42].map(|at| u64::from(entry.u32(at)));
    while extra.len() >= 4 {
        let length = usize::from(RecordFields(extra).u16(2)).min(extra.len() - 4);
        if RecordFields(extra).u16(0) == 1 {
            let mut wide = extra[4..4 + length].chunks_exact(8).map(|bytes| RecordFields(bytes).u64(0));
            for value in [&mut bytes, &mut stored, &mut header] {
                if *value == u64::from(u32::MAX) {
                    *value = wide.next().unwrap_or(*value);
                }
            }
        }
        extra = &extra[4 + length..];
    }
    ArchiveMember { header, stored, bytes, crc: entry.u32(16), deflated: entry.u16(10) == 8, archive }
}

/// Returns the offset of the stored bytes of a member.
pub(super) fn data_start(archive: &InputFile, member: &ArchiveMember) -> Result<u64> {
    let header = bytes_at(archive, member.header, 30)?;
    let fields = RecordFields(&header);
    let start = member.header + 30 + u64::from(fields.u16(26)) + u64::from(fields.u16(28));
    if !header.starts_with(ZIP_MAGIC) || start.checked_add(member.stored).is_none_or(|end| end > member.archive) {
        return Err(bad(archive, "its directory does not match its members".to_owned()));
    }
    Ok(start)
}

/// Error for an archive with several data files, of which one must be chosen.
pub(super) fn choose_member(archive: &InputFile, entries: &[DirectoryEntry]) -> Error {
    let path = archive.path().display();
    let names: Vec<&str> = entries.iter().filter(|entry| entry.is_data()).map(|entry| entry.name.as_str()).collect();
    let Some(first) = names.first() else { return bad(archive, "the archive contains no data file".to_owned()) };
    let more = if names.len() > MEMBERS_SHOWN { ", .." } else { "" };
    let shown = names[..names.len().min(MEMBERS_SHOWN)].join("`, `");
    let count = names.len();
    bad(archive, format!("the archive contains {count} files: `{shown}`{more}; name one, such as `{path}/{first}`"))
}

/// Error for a member that does not exist.
pub(super) fn missing_member(archive: &InputFile, name: &str, entries: &[DirectoryEntry]) -> Error {
    match choose_member(archive, entries) {
        Error::BadFile { file, problem } => {
            Error::BadFile { file, problem: format!("no member is named `{name}`; {problem}") }
        }
        other => other,
    }
}

fn bytes_at(archive: &InputFile, start: u64, length: u64) -> Result<Vec<u8>> {
    let failed = |error| Error::io("read", archive.path(), &error);
    let mut raw = archive.raw()?;
    raw.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut bytes = Vec::new();
    raw.take(length).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 != length {
        return Err(bad(archive, "it ends too early".to_owned()));
    }
    Ok(bytes)
}

fn bad(archive: &InputFile, problem: String) -> Error {
    Error::BadFile { file: archive.path().to_owned(), problem }
}

/// Little-endian fields of a record that is long enough for them.
#[derive(Clone, Copy)]
struct RecordFields<'a>(&'a [u8]);

impl RecordFields<'_> {
    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32(self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }

    fn u64(self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;
    use std::path::Path;

    /// Bytes of an archive of members: name, contents, and true to deflate.
    pub(in super::super) fn zip_of(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
        let (mut all, mut directory) = (Vec::new(), Vec::new());
        for (name, contents, deflate) in members {
            let mut packed = contents.to_vec();
            if *deflate {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(contents).unwrap();
                packed = encoder.finish().unwrap();
            }
            let mut crc = flate2::Crc::new();
            crc.update(contents);
            let mut shared = Vec::new();
            shared.extend([20, 0, 0, 0, if *deflate { 8 } else { 0 }, 0, 0, 0, 0, 0]);
            for number in [crc.sum(), packed.len() as u32, contents.len() as u32] {
                shared.extend(number.to_le_bytes());
            }
            shared.extend((name.len() as u16).to_le_bytes());
            shared.extend([0, 0]);
            let start = all.len() as u32;
            all.extend(super::ZIP_MAGIC);
            all.extend(&shared);
            all.extend(name.as_bytes());
            all.extend(&packed);
            directory.extend(b"PK\x01\x02\x14\x00");
            directory.extend(&shared);
            directory.extend([0; 10]);
            directory.extend(start.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let (start, length, count) = (all.len() as u32, directory.len() as u32, members.len() as u16);
        all.extend(directory);
        all.extend(b"PK\x05\x06\0\0\0\0");
        all.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
        all.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
        all.extend([0, 0]);
        all
    }

    pub(in super::super) fn write_zip(path: &Path, members: &[(&str, &[u8], bool)]) {
        std::fs::write(path, zip_of(members)).unwrap();
    }
}
