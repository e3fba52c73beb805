//! Serialization of paths as raw bytes. File names need not be UTF-8, and serde rejects those that
//! are not.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    OsString::deserialize(deserializer).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use crate::read::InputFile;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn paths_that_are_not_utf_8_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(OsStr::from_bytes(b"caf\xe9.csv"));
        std::fs::write(&file, "1,2\n").unwrap();
        let source = InputFile::open(&file).unwrap();
        let bytes = postcard::to_stdvec(&source).unwrap();
        assert_eq!(postcard::from_bytes::<InputFile>(&bytes).unwrap(), source);
        let error = Error::FileChanged { file, before: 1, after: 2 };
        let bytes = postcard::to_stdvec(&error).unwrap();
        assert_eq!(postcard::from_bytes::<Error>(&bytes).unwrap(), error);
    }
}
