//! Streaming reader and writer of one safetensors file, with its SHA-256 computed on the way.
//!
//! The `safetensors` crate serializes from and to one buffer that holds the whole file; a block of
//! several gigabytes would be in memory twice. The format is eight bytes of header length, a JSON
//! header and the data. The data is therefore streamed here, and the crate's `Metadata` writes and
//! checks the header: it rejects offsets that overlap, leave gaps or do not match the shapes.

use super::dtype::TensorElement;
use super::manifest::PartRecord;
use crate::files::{FileWriter, SharedFileSystem};
use crate::{Error, Result};
use safetensors::tensor::{Metadata, TensorInfo};
use sha2::{Digest, Sha256};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes encoded at a time.
const BUFFER_BYTES: usize = 1 << 20;
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Writer of a file; the data of the tensors must follow in the order of their specifications.
pub(super) struct TensorWriter {
    path: PathBuf,
    file: BufWriter<Box<dyn FileWriter>>,
    hash: Sha256,
    written: u64,
    expected: u64,
    buffer: Vec<u8>,
}

/// Specification of a tensor: name, type, shape.
pub(super) struct TensorSpec {
    pub(super) name: String,
    pub(super) dtype: safetensors::Dtype,
    pub(super) shape: Vec<usize>,
}

impl TensorWriter {
    pub(super) fn create(files: &SharedFileSystem, path: PathBuf, tensors: Vec<TensorSpec>) -> Result<Self> {
        let mut offset = 0;
        let mut infos = Vec::new();
        for TensorSpec { name, dtype, shape } in tensors {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            infos.push((name, TensorInfo { dtype, shape, data_offsets: (offset, offset + bytes) }));
            offset += bytes;
        }
        let metadata = Metadata::new(None, infos).expect("offsets were just computed");
        let mut header = serde_json::to_vec(&metadata).expect("a header is plain data");
        // The data starts at a multiple of 8, as other readers expect.
        header.resize(header.len().next_multiple_of(8), b' ');
        let failed = |error| Error::io("write", &path, &error);
        let file = BufWriter::with_capacity(BUFFER_BYTES, files.create(&path).map_err(failed)?);
        let expected = 8 + header.len() as u64 + offset as u64;
        let mut writer = Self { path, file, hash: Sha256::new(), written: 0, expected, buffer: Vec::new() };
        writer.write(&(header.len() as u64).to_le_bytes())?;
        writer.write(&header)?;
        Ok(writer)
    }

    pub(super) fn put<T: TensorElement>(&mut self, values: &[T]) -> Result<()> {
        for values in values.chunks(BUFFER_BYTES / size_of::<T>()) {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            T::encode(values, &mut buffer);
            self.write(&buffer)?;
            self.buffer = buffer;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.written += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|error| Error::io("write", &self.path, &error))
    }

    /// Syncs the file and returns its record for the manifest.
    pub(super) fn finish(mut self, first: usize, length: usize) -> Result<PartRecord> {
        assert_eq!(self.written, self.expected, "all specified tensors must be written");
        let failed = |error| Error::io("write", &self.path, &error);
        self.file.flush().map_err(failed)?;
        self.file.get_mut().sync().map_err(failed)?;
        let file = self.path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        Ok(PartRecord { file, bytes: self.written, sha256: hex(&self.hash.finalize()), first, length })
    }
}

/// Returns an error unless a file has the size and the checksum of its record.
pub(super) fn verify(files: &SharedFileSystem, folder: &Path, record: &PartRecord) -> Result<()> {
    let mut reader = TensorReader::open(files, folder, record)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut left = reader.metadata.data_len();
    while left > 0 {
        let bytes = &mut buffer[..BUFFER_BYTES.min(left)];
        read(&mut reader.file, &mut reader.hash, &reader.path, bytes)?;
        left -= bytes.len();
    }
    reader.finish()
}

/// Reader of a file, tensor by tensor in file order; [`finish`](Self::finish) verifies the
/// checksum.
pub(super) struct TensorReader {
    path: PathBuf,
    file: BufReader<Box<dyn Read + Send>>,
    hash: Sha256,
    expected: String,
    metadata: Metadata,
    /// Offset of the next tensor in the data.
    position: usize,
}

impl TensorReader {
    pub(super) fn open(files: &SharedFileSystem, folder: &Path, record: &PartRecord) -> Result<Self> {
        let path = folder.join(&record.file);
        let torn = |problem: String| Error::BadSave { path: path.clone(), problem };
        if Path::new(&record.file).components().count() != 1 || record.file.starts_with('.') {
            return Err(torn("the manifest names a file outside the save; do not load it".to_owned()));
        }
        let opened = files.open(&path).map_err(|error| Error::io("open", &path, &error))?;
        let bytes = opened.length;
        if bytes != record.bytes {
            return Err(torn(format!("it has {bytes} bytes, the manifest says {}", record.bytes)));
        }
        let mut file = BufReader::with_capacity(BUFFER_BYTES, opened.data);
        let mut hash = Sha256::new();
        let mut length = [0; 8];
        read(&mut file, &mut hash, &path, &mut length)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES.min(bytes.saturating_sub(8)) {
            return Err(torn(format!("a header of {length} bytes does not fit the file")));
        }
        let mut header = vec![0; length as usize];
        read(&mut file, &mut hash, &path, &mut header)?;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| torn(format!("its header is damaged ({error})")))?;
        if 8 + length + metadata.data_len() as u64 != bytes {
            return Err(torn("its header does not describe all of the file".to_owned()));
        }
        Ok(Self { path, file, hash, expected: record.sha256.clone(), metadata, position: 0 })
    }

    /// Shape of the next tensor, which must have this name and element type.
    pub(super) fn next<T: TensorElement>(&mut self, name: &str) -> Result<Vec<usize>> {
        // An empty tensor starts where the next one does, so the offset is checked and not the
        // order of names.
        let Some(info) = self.metadata.info(name).filter(|info| info.data_offsets.0 == self.position) else {
            return Err(self.bad_save(format!("expected the tensor `{name}` at byte {} of the data", self.position)));
        };
        if info.dtype != T::DTYPE {
            return Err(self.bad_save(format!(
                "tensor `{name}` holds {:?}, not {:?} as requested",
                info.dtype,
                T::DTYPE
            )));
        }
        self.position = info.data_offsets.1;
        Ok(info.shape.clone())
    }

    /// Element type of a tensor.
    pub(super) fn dtype(&self, name: &str) -> Option<safetensors::Dtype> {
        self.metadata.info(name).map(|info| info.dtype)
    }

    /// Reads the next values of the current tensor.
    pub(super) fn take<T: TensorElement>(&mut self, values: &mut [T]) -> Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES.min(size_of_val(values))];
        for values in values.chunks_mut(BUFFER_BYTES / size_of::<T>()) {
            let bytes = &mut buffer[..size_of_val(values)];
            read(&mut self.file, &mut self.hash, &self.path, bytes)?;
            for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
                *value = T::decode(bytes);
            }
        }
        Ok(())
    }

    /// Returns an error unless the bytes read have the checksum of the manifest.
    pub(super) fn finish(self) -> Result<()> {
        let found = hex(&self.hash.clone().finalize());
        if found == self.expected {
            return Ok(());
        }
        Err(self.bad_save(format!(
            "its SHA-256 is {found}, the manifest says {}; it was changed after saving",
            self.expected
        )))
    }

    pub(super) fn bad_save(&self, problem: String) -> Error {
        Error::BadSave { path: self.path.clone(), problem }
    }
}

fn read(file: &mut impl Read, hash: &mut Sha256, path: &Path, bytes: &mut [u8]) -> Result<()> {
    file.read_exact(bytes).map_err(|error| Error::io("read", path, &error))?;
    hash.update(bytes);
    Ok(())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
