//! Paths in messages: as the bytes they are. Names of files need not be UTF-8, and serde refuses those that are not.

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
    use crate::read::Source;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn names_that_are_not_utf_8_travel() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(OsStr::from_bytes(b"caf\xe9.csv"));
        std::fs::write(&file, "1,2\n").unwrap();
        let source = Source::open(&file).unwrap();
        let bytes = postcard::to_stdvec(&source).unwrap();
        assert_eq!(postcard::from_bytes::<Source>(&bytes).unwrap(), source);
        let error = Error::FileChanged { file, before: 1, after: 2 };
        let bytes = postcard::to_stdvec(&error).unwrap();
        assert_eq!(postcard::from_bytes::<Error>(&bytes).unwrap(), error);
    }
}
