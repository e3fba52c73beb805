//! Contents of one member of a zip archive, with their size and checksum checked at the end.

use super::archive::{ArchiveMember, data_start};
use super::input::{InputFile, RawInput};
use crate::{Error, Result};
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Take};

type StoredBytes = BufReader<Take<RawInput>>;

/// Reader of a member.
pub(super) struct MemberReader {
    member: ArchiveMember,
    contents: MemberContents,
    checksum: flate2::Crc,
    read: u64,
}

enum MemberContents {
    Stored(StoredBytes),
    Deflated(Box<flate2::bufread::DeflateDecoder<StoredBytes>>),
}

impl MemberReader {
    /// Opens a member. `raw` reads its archive.
    pub(super) fn open(source: &InputFile, mut raw: RawInput) -> Result<Self> {
        let Some(member) = source.place.as_ref().and_then(|place| place.member) else {
            let problem = "it is a zip archive; name a member of it, as in `archive.zip/data.csv`";
            return Err(Error::BadFile { file: source.path().to_owned(), problem: problem.to_owned() });
        };
        let failed = |error| Error::io("read", source.path(), &error);
        raw.seek(SeekFrom::Start(data_start(source, &member)?)).map_err(failed)?;
        let stored = BufReader::with_capacity(256 * 1024, raw.take(member.stored));
        let contents = if member.deflated {
            MemberContents::Deflated(Box::new(flate2::bufread::DeflateDecoder::new(stored)))
        } else {
            MemberContents::Stored(stored)
        };
        Ok(Self { member, contents, checksum: flate2::Crc::new(), read: 0 })
    }

    /// The bytes of the archive.
    pub(super) fn raw(&self) -> &RawInput {
        match &self.contents {
            MemberContents::Stored(stored) => stored.get_ref().get_ref(),
            MemberContents::Deflated(decoder) => decoder.get_ref().get_ref().get_ref(),
        }
    }
}

impl Read for MemberReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.contents {
            MemberContents::Stored(stored) => stored.read(buffer)?,
            MemberContents::Deflated(decoder) => decoder.read(buffer)?,
        };
        self.checksum.update(&buffer[..count]);
        self.read += count as u64;
        let ended = count == 0 && !buffer.is_empty();
        if self.read > self.member.bytes || ended && self.read < self.member.bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its size is not the declared one"));
        }
        if ended && self.checksum.sum() != self.member.crc {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum is wrong"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::{write_zip, zip_of};
    use super::*;

    fn contents(path: &std::path::Path) -> Result<Vec<u8>> {
        let mut reader = InputFile::open(path)?.reader()?;
        let (mut all, mut buffer) = (Vec::new(), [0; 1000]);
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(all),
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn members_have_the_contents_that_were_packed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.zip");
        let long = b"1,2,3\n".repeat(10_000);
        write_zip(&path, &[("set/", b"", false), ("set/u.data", &long, true), ("set/u.item", b"1|Toy\n", false)]);
        assert!(contents(&path.join("set/u.data")).unwrap() == long);
        assert_eq!(contents(&path.join("set/u.item")).unwrap(), b"1|Toy\n");
        let found = InputFile::find(path.join("set/u.*").to_str().unwrap()).unwrap();
        assert_eq!(found.len(), 2);
        let told = InputFile::open(&path).unwrap_err().to_string();
        assert!(
            told.contains("the archive contains 2 files: `set/u.data`, `set/u.item`; name one, such as `"),
            "{told}"
        );
        let told = contents(&path.join("u.data")).unwrap_err().to_string();
        assert!(told.contains("no member is named `u.data`; the archive contains 2 files"), "{told}");
    }

    #[test]
    fn the_only_data_file_needs_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.zip");
        write_zip(&path, &[("README.txt", b"about", true), ("__MACOSX/x", b"", false), ("a.csv", b"1,2\n", true)]);
        assert_eq!(contents(&path).unwrap(), b"1,2\n");
    }

    #[test]
    fn damaged_archives_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.zip");
        let whole = zip_of(&[("a.csv", &b"1,2,3\n".repeat(500), true)]);
        for at in 0..whole.len() {
            for flip in [0x01, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                std::fs::write(&path, &damaged).unwrap();
                // Some bytes do not matter, such as times; all others are found out.
                if let Ok(read) = contents(&path) {
                    assert!(read == b"1,2,3\n".repeat(500) || read == damaged, "byte {at}");
                }
            }
        }
        for length in 4..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(contents(&path).is_err(), "{length} bytes");
        }
    }
}
