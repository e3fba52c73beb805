//! Objects of S3, Google and Azure stores and of web servers, found and read in ranges (feature `object-store`).
//!
//! An object is read in blocks, each a request of its own that grows from 64 KB to 8 MB as long as reading goes straight
//! on: looking for the beginning of a line costs little, and a long range few round trips. Access rights come from the
//! environment of each peer, by the variables that the tools of each store use (`AWS_ACCESS_KEY_ID`, ...).
//!
//! `object_store` is asynchronous. Each [`Store`] has a runtime of the calling thread that only waits between retries, so
//! this is the one file that knows of futures, and no thread is started; see [`object_http`](super::object_http).
//!
//! **Invariant:** all blocks that are handed out belong to one version of the object, told by its e-tag (or, where it has
//! none, the time of its last change) and its size: every answer is compared with what was found when reading was planned,
//! by whichever peer.

use super::object_http::Connector;
use super::url::{Service, Url};
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

/// The first block after a jump.
const FIRST_BLOCK: u64 = 64 * 1024;
/// The largest block.
const LARGEST_BLOCK: u64 = 8 << 20;
/// How often a request that failed on the way is repeated: within two seconds, because other peers are waiting.
const RETRIES: usize = 4;

/// What was found out about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its URL.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Which version of it this is.
    pub(super) version: String,
}

impl Found {
    fn new(path: PathBuf, meta: &ObjectMeta) -> Self {
        let version = meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339());
        Self { path, bytes: meta.size, version }
    }
}

/// A bucket or host, and the way to ask it.
pub(super) struct Store {
    objects: Box<dyn ObjectStore>,
    runtime: tokio::runtime::Runtime,
    service: Service,
    root: String,
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn open(url: Url<'_>) -> Result<Self> {
        let retries =
            RetryConfig { max_retries: RETRIES, retry_timeout: Duration::from_mins(1), ..RetryConfig::default() };
        let root = url.root;
        let store: object_store::Result<Box<dyn ObjectStore>> = match url.service {
            Service::S3 => AmazonS3Builder::from_env()
                .with_url(root)
                .with_retry(retries)
                .with_http_connector(Connector)
                .build()
                .map(boxed),
            Service::Google => GoogleCloudStorageBuilder::from_env()
                .with_url(root)
                .with_retry(retries)
                .with_http_connector(Connector)
                .build()
                .map(boxed),
            Service::Azure => MicrosoftAzureBuilder::from_env()
                .with_url(root)
                .with_retry(retries)
                .with_http_connector(Connector)
                .build()
                .map(boxed),
            // Whoever writes `http` wants no encryption.
            Service::Web => HttpBuilder::new()
                .with_url(root)
                .with_client_options(ClientOptions::new().with_allow_http(root.starts_with("http:")))
                .with_retry(retries)
                .with_http_connector(Connector)
                .build()
                .map(boxed),
        };
        let store = store.map_err(|error| Error::BadUrl { url: url.text.to_owned(), problem: one_line(&error) })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Error::io("open", Path::new(url.text), &error))?;
        Ok(Self { objects: store, runtime, service: url.service, root: root.to_owned() })
    }

    /// What there is at a key; `None` if nothing is.
    pub(super) fn look(&self, url: Url<'_>) -> Result<Option<Found>> {
        let path = PathBuf::from(url.text);
        match self.runtime.block_on(self.objects.head(&self.key(url.text, url.key)?)) {
            Ok(meta) => Ok(Some(Found::new(path, &meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure("open", &path, &error)),
        }
    }

    /// The objects of a folder, not of those below.
    pub(super) fn list(&self, url: Url<'_>) -> Result<Vec<Found>> {
        let folder = self.folder(url.text, url.key)?;
        let listed = self.runtime.block_on(self.objects.list_with_delimiter(folder.as_ref()));
        let listed = listed.map_err(|error| self.unlisted(url.text, &error))?;
        Ok(listed.objects.iter().map(|meta| self.found(meta)).collect())
    }

    /// The objects whose keys match a pattern, in which `*` stands for no `/`.
    pub(super) fn search(&self, url: Url<'_>) -> Result<Vec<Found>> {
        let pattern = glob::Pattern::new(url.key).map_err(|error| Error::BadPattern {
            pattern: url.text.to_owned(),
            problem: error.msg.to_owned(),
            position: url.root.len() + 1 + error.pos,
        })?;
        let fixed = &url.key[..url.key.find(['*', '?', '[']).unwrap_or(url.key.len())];
        let folder = self.folder(url.text, fixed.rsplit_once('/').map_or("", |(folder, _)| folder))?;
        let all: object_store::Result<Vec<ObjectMeta>> =
            self.runtime.block_on(self.objects.list(folder.as_ref()).try_collect());
        let all = all.map_err(|error| self.unlisted(url.text, &error))?;
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
        let matching = all.iter().filter(|meta| pattern.matches_with(meta.location.as_ref(), options));
        Ok(matching.map(|meta| self.found(meta)).collect())
    }

    fn found(&self, meta: &ObjectMeta) -> Found {
        Found::new(format!("{}/{}", self.root, meta.location).into(), meta)
    }

    fn folder(&self, url: &str, key: &str) -> Result<Option<Key>> {
        let key = key.trim_end_matches('/');
        if key.is_empty() { Ok(None) } else { self.key(url, key).map(Some) }
    }

    fn key(&self, url: &str, key: &str) -> Result<Key> {
        let key = if self.service == Service::Web { Key::from_url_path(key) } else { Key::parse(key) };
        key.map_err(|error| Error::BadUrl { url: url.to_owned(), problem: one_line(&error) })
    }

    fn unlisted(&self, url: &str, error: &object_store::Error) -> Error {
        if self.service == Service::Web {
            let problem = "a web server does not tell what it has; name one object per URL".to_owned();
            return Error::BadUrl { url: url.to_owned(), problem };
        }
        failure("list", Path::new(url), error)
    }
}

fn boxed(store: impl ObjectStore) -> Box<dyn ObjectStore> {
    Box::new(store)
}

/// One version of an object, read like a file.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    store: Store,
    key: Key,
    found: Found,
    /// Where the next byte is read.
    at: u64,
    /// The block fetched last, and where it begins.
    block: Bytes,
    block_start: u64,
    /// The size of the next block.
    next_block: u64,
    /// Blocks end here until reading goes beyond.
    planned_end: u64,
}

impl ObjectReader {
    pub(super) fn open(url: Url<'_>, found: Found) -> Result<Self> {
        let store = Store::open(url)?;
        let key = store.key(url.text, url.key)?;
        let planned_end = found.bytes;
        let (block, next_block) = (Bytes::new(), FIRST_BLOCK);
        Ok(Self { store, key, found, at: 0, block, block_start: 0, next_block, planned_end })
    }

    /// Tells where reading will probably end, so that no block is fetched in vain.
    pub(super) fn plan_to(&mut self, end: u64) {
        self.planned_end = end.min(self.found.bytes);
    }

    /// The size of the object now; an error if it is another version of it.
    pub(super) fn size_now(&self) -> Result<u64> {
        let meta = self.store.runtime.block_on(self.store.objects.head(&self.key));
        let meta = meta.map_err(|error| failure("read", &self.found.path, &error))?;
        self.must_be_same(&meta)?;
        Ok(meta.size)
    }

    fn must_be_same(&self, meta: &ObjectMeta) -> Result<()> {
        let Found { path, bytes, version } = &self.found;
        let now = Found::new(path.clone(), meta);
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
            .map_err(|error| failure("read", &self.found.path, &error))?;
        self.must_be_same(&meta)?;
        if bytes.len() as u64 == wanted {
            return Ok(bytes);
        }
        let problem = format!("{} of {wanted} bytes arrived", bytes.len());
        Err(Error::io("read", &self.found.path, &io::Error::new(io::ErrorKind::UnexpectedEof, problem)))
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.found.bytes || buffer.is_empty() {
            return Ok(0);
        }
        let block_end = self.block_start + self.block.len() as u64;
        if !(self.block_start..block_end).contains(&self.at) {
            self.next_block = if self.at == block_end { self.next_block } else { FIRST_BLOCK };
            let end = if self.at < self.planned_end { self.planned_end } else { self.found.bytes };
            let size = if self.at < self.planned_end { self.next_block } else { FIRST_BLOCK };
            // The crate's own error travels inside the one that `Read` asks for.
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
            SeekFrom::End(by) => self.found.bytes.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// A failure in the words of this crate.
fn failure(action: &str, path: &Path, error: &object_store::Error) -> Error {
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

/// What an error says, in one line of bearable length: answers of servers are pages of text.
fn one_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(300).collect()
}
