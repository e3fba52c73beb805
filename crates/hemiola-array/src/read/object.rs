//! Objects of S3, Google and Azure stores and of web servers, found and read in ranges (feature
//! `object-store`).
//!
//! An object is read in blocks, each with its own request. Blocks grow from 64 KB to 8 MB while
//! reading is sequential: a search for the start of a line costs little, and a long range few round
//! trips. Credentials come from the environment of each peer, in the variables that the tools of
//! each store use (`AWS_ACCESS_KEY_ID`, ...).
//!
//! `object_store` is asynchronous. Each [`ObjectStoreClient`] has a current-thread runtime that
//! only waits between retries. This is therefore the one file with futures, and no thread is
//! started; see [`object_http`](super::object_http).
//!
//! **Invariant:** all returned blocks belong to one version of the object, identified by its e-tag
//! (or, without one, its modification time) and its size. Every response is compared with the
//! version found when reading was planned, on any peer.

use super::object_http::BlockingHttpConnector;
use super::url::{ObjectService, ObjectUrl};
use crate::{Error, Result};
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{ClientOptions, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Size of the first block after a seek.
const FIRST_BLOCK: u64 = 64 * 1024;
/// Maximum block size in bytes.
const LARGEST_BLOCK: u64 = 8 << 20;
/// Maximum number of retries of a failed request: within two seconds, because other peers are
/// waiting.
const MAX_RETRIES: usize = 4;

/// Metadata of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectInfo {
    /// URL of the object.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// E-tag or modification time of the version.
    pub(super) version: String,
}

impl ObjectInfo {
    fn new(path: PathBuf, meta: &ObjectMeta) -> Self {
        let version = meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339());
        Self { path, bytes: meta.size, version }
    }
}

/// Client of a bucket or host.
pub(super) struct ObjectStoreClient {
    objects: Box<dyn ObjectStore>,
    runtime: tokio::runtime::Runtime,
    service: ObjectService,
    root: String,
}

impl fmt::Debug for ObjectStoreClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ObjectStoreClient").field("root", &self.root).finish_non_exhaustive()
    }
}

impl ObjectStoreClient {
    pub(super) fn open(url: ObjectUrl<'_>) -> Result<Self> {
        let retries =
            RetryConfig { max_retries: MAX_RETRIES, retry_timeout: Duration::from_mins(1), ..RetryConfig::default() };
        let root = url.root;
        let store: object_store::Result<Box<dyn ObjectStore>> = match url.service {
            ObjectService::S3 => AmazonS3Builder::from_env()
                .with_url(root)
                .with_retry(retries)
                .with_http_connector(BlockingHttpConnector)
                .build()
                .map(boxed),
            ObjectService::Google => GoogleCloudStorageBuilder::from_env()
                .with_url(root)
                .with_retry(retries)
                .with_http_connector(BlockingHttpConnector)
                .build()
                .map(boxed),
            ObjectService::Azure => MicrosoftAzureBuilder::from_env()
                .with_url(root)
                .with_retry(retries)
                .with_http_connector(BlockingHttpConnector)
                .build()
                .map(boxed),
            // The scheme `http` asks for an unencrypted connection.
            ObjectService::Web => HttpBuilder::new()
                .with_url(root)
                .with_client_options(ClientOptions::new().with_allow_http(root.starts_with("http:")))
                .with_retry(retries)
                .with_http_connector(BlockingHttpConnector)
                .build()
                .map(boxed),
        };
        let store = store.map_err(|error| Error::BadUrl { url: url.text.to_owned(), problem: one_line(&error) })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Error::io("open", Path::new(url.text), &error))?;
        Ok(Self { objects: store, runtime, service: url.service, root: root.to_owned() })
    }

    /// Metadata of the object at a key; `None` if there is none.
    pub(super) fn head(&self, url: ObjectUrl<'_>) -> Result<Option<ObjectInfo>> {
        let path = PathBuf::from(url.text);
        match self.runtime.block_on(self.objects.head(&self.key(url.text, url.key)?)) {
            Ok(meta) => Ok(Some(ObjectInfo::new(path, &meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_error("open", &path, &error)),
        }
    }

    /// Lists the objects of a folder, without subfolders.
    pub(super) fn list(&self, url: ObjectUrl<'_>) -> Result<Vec<ObjectInfo>> {
        let folder = self.folder(url.text, url.key)?;
        let listed = self.runtime.block_on(self.objects.list_with_delimiter(folder.as_ref()));
        let listed = listed.map_err(|error| self.list_error(url.text, &error))?;
        Ok(listed.objects.iter().map(|meta| self.info(meta)).collect())
    }

    /// Lists the objects whose keys match a pattern, in which `*` does not match `/`.
    pub(super) fn glob(&self, url: ObjectUrl<'_>) -> Result<Vec<ObjectInfo>> {
        let pattern = glob::Pattern::new(url.key).map_err(|error| Error::BadPattern {
            pattern: url.text.to_owned(),
            problem: error.msg.to_owned(),
            position: url.root.len() + 1 + error.pos,
        })?;
        let fixed = &url.key[..url.key.find(['*', '?', '[']).unwrap_or(url.key.len())];
        let folder = self.folder(url.text, fixed.rsplit_once('/').map_or("", |(folder, _)| folder))?;
        let all: object_store::Result<Vec<ObjectMeta>> =
            self.runtime.block_on(self.objects.list(folder.as_ref()).try_collect());
        let all = all.map_err(|error| self.list_error(url.text, &error))?;
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let matching = all.iter().filter(|meta| pattern.matches_with(meta.location.as_ref(), options));
        Ok(matching.map(|meta| self.info(meta)).collect())
    }

    fn info(&self, meta: &ObjectMeta) -> ObjectInfo {
        ObjectInfo::new(format!("{}/{}", self.root, meta.location).into(), meta)
    }

    fn folder(&self, url: &str, key: &str) -> Result<Option<Key>> {
        let key = key.trim_end_matches('/');
        if key.is_empty() { Ok(None) } else { self.key(url, key).map(Some) }
    }

    fn key(&self, url: &str, key: &str) -> Result<Key> {
        let key = if self.service == ObjectService::Web { Key::from_url_path(key) } else { Key::parse(key) };
        key.map_err(|error| Error::BadUrl { url: url.to_owned(), problem: one_line(&error) })
    }

    fn list_error(&self, url: &str, error: &object_store::Error) -> Error {
        if self.service == ObjectService::Web {
            let problem = "a web server cannot list its objects; name one object per URL".to_owned();
            return Error::BadUrl { url: url.to_owned(), problem };
        }
        store_error("list", Path::new(url), error)
    }
}

fn boxed(store: impl ObjectStore) -> Box<dyn ObjectStore> {
    Box::new(store)
}

/// Reader of one version of an object, with the interface of a file.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    store: ObjectStoreClient,
    key: Key,
    info: ObjectInfo,
    /// Offset of the next byte to read.
    at: u64,
    /// The block fetched last; it starts at `block_start`.
    block: Bytes,
    block_start: u64,
    /// Size of the next block in bytes.
    next_block: u64,
    /// Blocks end here until reading goes beyond.
    planned_end: u64,
}

impl ObjectReader {
    pub(super) fn open(url: ObjectUrl<'_>, info: ObjectInfo) -> Result<Self> {
        let store = ObjectStoreClient::open(url)?;
        let key = store.key(url.text, url.key)?;
        let planned_end = info.bytes;
        let (block, next_block) = (Bytes::new(), FIRST_BLOCK);
        Ok(Self { store, key, info, at: 0, block, block_start: 0, next_block, planned_end })
    }

    /// Sets the probable end of reading, so that no block is fetched in vain.
    pub(super) fn hint_end(&mut self, end: u64) {
        self.planned_end = end.min(self.info.bytes);
    }

    /// Current size of the object; an error if it is another version.
    pub(super) fn size_now(&self) -> Result<u64> {
        let meta = self.store.runtime.block_on(self.store.objects.head(&self.key));
        let meta = meta.map_err(|error| store_error("read", &self.info.path, &error))?;
        self.check_version(&meta)?;
        Ok(meta.size)
    }

    fn check_version(&self, meta: &ObjectMeta) -> Result<()> {
        let ObjectInfo { path, bytes, version } = &self.info;
        let now = ObjectInfo::new(path.clone(), meta);
        if now.bytes == *bytes && now.version == *version {
            return Ok(());
        }
        Err(Error::FileChanged { file: path.clone(), before: *bytes, after: now.bytes })
    }

    fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let wanted = range.end - range.start;
        let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
        let (meta, bytes) = self
            .store
            .runtime
            .block_on(async {
                let answer = self.store.objects.get_opts(&self.key, options).await?;
                let meta = answer.meta.clone();
                answer.bytes().await.map(|bytes| (meta, bytes))
            })
            .map_err(|error| store_error("read", &self.info.path, &error))?;
        self.check_version(&meta)?;
        if bytes.len() as u64 == wanted {
            return Ok(bytes);
        }
        let problem = format!("{} of {wanted} bytes arrived", bytes.len());
        Err(Error::io("read", &self.info.path, &io::Error::new(io::ErrorKind::UnexpectedEof, problem)))
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.info.bytes || buffer.is_empty() {
            return Ok(0);
        }
        let block_end = self.block_start + self.block.len() as u64;
        if !(self.block_start..block_end).contains(&self.at) {
            self.next_block = if self.at == block_end { self.next_block } else { FIRST_BLOCK };
            let end = if self.at < self.planned_end { self.planned_end } else { self.info.bytes };
            let size = if self.at < self.planned_end { self.next_block } else { FIRST_BLOCK };
            // The error of this crate travels inside the one that `Read` requires.
            self.block = self.fetch(self.at..end.min(self.at + size)).map_err(io::Error::other)?;
            self.block_start = self.at;
            self.next_block = (self.next_block * 4).min(LARGEST_BLOCK);
        }
        let from = (self.at - self.block_start) as usize;
        let count = buffer.len().min(self.block.len() - from);
        buffer[..count].copy_from_slice(&self.block[from..from + count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.info.bytes.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Converts an error of the object store.
fn store_error(action: &str, path: &Path, error: &object_store::Error) -> Error {
    use object_store::Error::{NotFound, NotSupported, PermissionDenied, Unauthenticated};
    let (message, may_retry) = match error {
        NotFound { .. } => ("no such object; check the URL".to_owned(), false),
        PermissionDenied { .. } | Unauthenticated { .. } => {
            ("permission denied; check the credentials in the environment of every peer".to_owned(), false)
        }
        NotSupported { .. } => (format!("{}; fetch it into a file", one_line(error)), false),
        other => (one_line(other), true),
    };
    Error::Io { action: action.to_owned(), path: path.to_owned(), message, may_retry }
}

/// Error text in one line of at most 300 characters: responses of servers can be pages long.
fn one_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}
