//! Parsing of input locations: a local path, or the URL of an object.
//!
//! A `file://` URL is a path in another notation. URLs of object stores (`s3://bucket/key`) are
//! taken literally, as the stores' own tools do: keys are not percent-encoded and may contain
//! patterns. URLs of web servers are percent-encoded.
//!
//! **Invariant:** this file only parses text; it does not check that the object exists.

use crate::{Error, Result};
use std::borrow::Cow;

/// Location of input: a local path or an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InputLocation<'a> {
    /// Local path or pattern.
    Local(Cow<'a, str>),
    /// Object, folder of objects or pattern.
    Object(ObjectUrl<'a>),
}

/// Parsed URL of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectUrl<'a> {
    pub(super) text: &'a str,
    pub(super) service: ObjectService,
    /// Scheme and bucket or host: `s3://bucket`.
    pub(super) root: &'a str,
    /// Path after the bucket or host, without the leading slash.
    pub(super) key: &'a str,
}

/// Service that stores an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectService {
    S3,
    Google,
    Azure,
    /// Web server, which cannot list its objects.
    Web,
}

/// Parses a path or URL.
pub(super) fn parse(text: &str) -> Result<InputLocation<'_>> {
    let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(InputLocation::Local(Cow::Borrowed(text)));
    };
    let bad = |problem: &str| Error::BadUrl { url: text.to_owned(), problem: problem.to_owned() };
    let service = match scheme {
        "file" => {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err(bad("a file of this machine is `file:///` and its absolute path"));
            }
            return decoded(path)
                .map(InputLocation::Local)
                .ok_or_else(|| bad("`%` is followed by two hexadecimal digits"));
        }
        "s3" | "s3a" => ObjectService::S3,
        "gs" => ObjectService::Google,
        "az" | "azure" | "abfs" | "abfss" => ObjectService::Azure,
        "http" | "https" => ObjectService::Web,
        _ => return Err(bad("it begins with none of file, s3, gs, az, http and https")),
    };
    let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return Err(bad("the name of the bucket or host is missing after `://`"));
    }
    if service == ObjectService::Web && key.contains(['?', '#']) {
        return Err(bad("a query (`?`) or fragment (`#`) cannot be read in ranges; fetch it into a file"));
    }
    let root = &text[..scheme.len() + "://".len() + authority.len()];
    Ok(InputLocation::Object(ObjectUrl { text, service, root, key }))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.'))
}

/// Decodes percent-encoding; `None` if it is malformed or not UTF-8.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_are_distinguished() {
        for path in ["/data/a.csv", "a.csv", "data/*.csv", "c:/x", "odd://".trim_end_matches('/'), "1s3://b/k", "://"] {
            assert_eq!(parse(path).unwrap(), InputLocation::Local(path.into()), "{path}");
        }
        let url = |text: &'static str| match parse(text).unwrap() {
            InputLocation::Object(url) => (url.service, url.root, url.key),
            local @ InputLocation::Local(_) => panic!("{local:?}"),
        };
        assert_eq!(url("s3://bucket/a/b?.csv"), (ObjectService::S3, "s3://bucket", "a/b?.csv"));
        assert_eq!(url("gs://bucket"), (ObjectService::Google, "gs://bucket", ""));
        assert_eq!(url("az://container/x%20y"), (ObjectService::Azure, "az://container", "x%20y"));
        assert_eq!(url("http://host:81/a/"), (ObjectService::Web, "http://host:81", "a/"));
    }

    #[test]
    fn file_urls_are_paths() {
        let local = |text: &'static str| match parse(text).unwrap() {
            InputLocation::Local(path) => path.into_owned(),
            object @ InputLocation::Object(_) => panic!("{object:?}"),
        };
        assert_eq!(local("file:///data/a%20b%C3%A9?.csv"), "/data/a bé?.csv");
        assert_eq!(local("file://localhost/data"), "/data");
    }

    #[test]
    fn bad_urls_say_what_is_expected() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        let none = "it begins with none of file, s3, gs, az, http and https";
        assert_eq!(message("ftp://host/a"), format!("`ftp://host/a` cannot be read: {none}"));
        assert!(message("file://data/a").ends_with("`file:///` and its absolute path"));
        assert!(message("file:///a%2").ends_with("two hexadecimal digits"));
        assert!(message("s3:///key").ends_with("is missing after `://`"));
        assert!(message("https://host/a?b=c").ends_with("fetch it into a file"));
    }
}
