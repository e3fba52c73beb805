//! Web server for tests, with the part of S3 that listing needs: objects in memory, read whole or
//! in ranges.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Shared {
    /// Contents and e-tag by path: `bucket/key`.
    objects: BTreeMap<String, (Arc<Vec<u8>>, String)>,
    /// Status codes for the next requests, by path.
    failures: BTreeMap<String, Vec<u16>>,
    /// Every request as `GET bucket/key 0-99`.
    log: Vec<String>,
    versions: u64,
    ended: bool,
}

/// Server that stops when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let known = shared.clone();
        let accept = move || {
            for stream in listener.incoming() {
                if known.lock().unwrap().ended {
                    return;
                }
                let known = known.clone();
                std::thread::Builder::new().spawn(move || drop(serve(&stream.unwrap(), &known))).unwrap();
            }
        };
        std::thread::Builder::new().spawn(accept).unwrap();
        Self { address, shared }
    }

    /// Scheme, host and port.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Writes or overwrites an object.
    pub(crate) fn put(&self, path: &str, contents: impl Into<Vec<u8>>) {
        let mut shared = self.shared.lock().unwrap();
        shared.versions += 1;
        let tag = format!("\"v{}\"", shared.versions);
        shared.objects.insert(path.to_owned(), (Arc::new(contents.into()), tag));
    }

    /// Answers the next requests for a path with these status codes.
    pub(crate) fn fail(&self, path: &str, codes: &[u16]) {
        self.shared.lock().unwrap().failures.insert(path.to_owned(), codes.to_vec());
    }

    /// Returns all requests since the last call.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().unwrap().log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.lock().unwrap().ended = true;
        drop(TcpStream::connect(self.address));
    }
}

/// Answers the requests of one connection.
fn serve(stream: &TcpStream, shared: &Mutex<Shared>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(request) = lines.next().transpose()? {
        let mut range = None;
        for line in lines.by_ref() {
            let line = line?.to_ascii_lowercase();
            if let Some(bytes) = line.strip_prefix("range: bytes=") {
                range = bytes.split_once('-').map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()));
            }
            if line.is_empty() {
                break;
            }
        }
        let [method, target, ..] = request.split(' ').collect::<Vec<_>>()[..] else { return Ok(()) };
        let (head, body) = answer(method, target, range, &mut shared.lock().unwrap());
        let mut stream = stream;
        stream.write_all(head.as_bytes())?;
        if method != "HEAD" {
            stream.write_all(&body)?;
        }
    }
    Ok(())
}

fn answer(method: &str, target: &str, range: Option<(usize, usize)>, shared: &mut Shared) -> (String, Vec<u8>) {
    let head = |code: u16, more: &str, length: usize| {
        format!(
            "HTTP/1.1 {code} x\r\nContent-Length: {length}\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n{more}\r\n"
        )
    };
    let (path, query) = target.trim_start_matches('/').split_once('?').unwrap_or((target.trim_start_matches('/'), ""));
    let path = path.trim_end_matches('/');
    shared.log.push(match range {
        Some((from, to)) => format!("{method} {path} {from}-{to}"),
        None => format!("{method} {path}{}", if query.is_empty() { "" } else { "?" }),
    });
    if let Some(code) = shared.failures.get_mut(path).filter(|codes| !codes.is_empty()).map(|codes| codes.remove(0)) {
        return (head(code, "", 0), Vec::new());
    }
    if query.contains("list-type=2") {
        let list = listed(path, query, shared);
        return (head(200, "", list.len()), list.into_bytes());
    }
    let Some((contents, tag)) = shared.objects.get(path).filter(|_| matches!(method, "GET" | "HEAD")) else {
        return (head(if method == "PROPFIND" { 405 } else { 404 }, "", 0), Vec::new());
    };
    let tag = format!("ETag: {tag}\r\n");
    let Some((from, to)) = range else { return (head(200, &tag, contents.len()), contents.to_vec()) };
    let body = contents[from.min(contents.len())..(to + 1).min(contents.len())].to_vec();
    let headers = format!("{tag}Content-Range: bytes {from}-{}/{}\r\n", from + body.len() - 1, contents.len());
    (head(206, &headers, body.len()), body)
}

/// One page with all objects of a bucket below a prefix; with a delimiter, folders are folded.
fn listed(bucket: &str, query: &str, shared: &Shared) -> String {
    let parameter = |name: &str| {
        let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
        pair.map_or(String::new(), |(_, value)| value.replace("%2F", "/"))
    };
    let (prefix, fold) = (parameter("prefix"), parameter("delimiter") == "/");
    let mut list = String::from("<ListBucketResult>");
    for (path, (contents, tag)) in &shared.objects {
        let Some(key) = path.strip_prefix(&format!("{bucket}/")) else { continue };
        let Some(rest) = key.strip_prefix(&prefix) else { continue };
        if fold && rest.contains('/') {
            let below = &key[..=prefix.len() + rest.find('/').unwrap()];
            write!(list, "<CommonPrefixes><Prefix>{below}</Prefix></CommonPrefixes>").unwrap();
            continue;
        }
        let (size, time) = (contents.len(), "2026-01-02T03:04:05Z");
        let entry = format!("<Key>{key}</Key><Size>{size}</Size><LastModified>{time}</LastModified><ETag>{tag}</ETag>");
        write!(list, "<Contents>{entry}</Contents>").unwrap();
    }
    list + "</ListBucketResult>"
}
