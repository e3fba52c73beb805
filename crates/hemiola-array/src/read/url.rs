//! Where input is, as a user writes it: a path of this machine, or the URL of an object.
//!
//! A `file://` URL is a path in other words. The URLs of object stores (`s3://bucket/key`) are taken as they stand, as the
//! stores' own tools do: keys are not percent-encoded and may hold patterns. Those of web servers are percent-encoded.
//!
//! **Invariant:** this file reads text and nothing else; whether the object exists is asked elsewhere.

use crate::{Error, Result};
use std::borrow::Cow;

/// A place that input is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location<'a> {
    /// A path or pattern of this machine.
    Local(Cow<'a, str>),
    /// An object, a folder of objects or a pattern.
    Object(Url<'a>),
}

/// The URL of an object, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Url<'a> {
    /// All of it.
    pub(super) text: &'a str,
    pub(super) service: Service,
    /// Scheme and bucket or host: `s3://bucket`.
    pub(super) root: &'a str,
    /// What follows the slash.
    pub(super) key: &'a str,
}

/// Who holds an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    S3,
    Google,
    Azure,
    /// A web server, which cannot tell what it has.
    Web,
}

/// Takes a path or URL apart.
pub(super) fn parse(text: &str) -> Result<Location<'_>> {
    let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
        return Ok(Location::Local(Cow::Borrowed(text)));
    };
    let bad = |problem: &str| Error::BadUrl { url: text.to_owned(), problem: problem.to_owned() };
    let service = match scheme {
        "file" => {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            if !path.starts_with('/') {
                return Err(bad("a file of this machine is `file:///` and its absolute path"));
            }
            return decoded(path).map(Location::Local).ok_or_else(|| bad("`%` is followed by two hexadecimal digits"));
        }
        "s3" | "s3a" => Service::S3,
        "gs" => Service::Google,
        "az" | "azure" | "abfs" | "abfss" => Service::Azure,
        "http" | "https" => Service::Web,
        _ => return Err(bad("it begins with none of file, s3, gs, az, http and https")),
    };
    let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return Err(bad("the name of the bucket or host is missing after `://`"));
    }
    if service == Service::Web && key.contains(['?', '#']) {
        return Err(bad("a query (`?`) or fragment (`#`) cannot be read in ranges; fetch it into a file"));
    }
    let root = &text[..scheme.len() + "://".len() + authority.len()];
    Ok(Location::Object(Url { text, service, root, key }))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.'))
}

/// Text without percent-encoding; `None` if that is damaged or hides something that is no text.
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
    fn paths_and_urls_are_told_apart() {
        for path in ["/data/a.csv", "a.csv", "data/*.csv", "c:/x", "odd://".trim_end_matches('/'), "1s3://b/k", "://"] {
            assert_eq!(parse(path).unwrap(), Location::Local(path.into()), "{path}");
        }
        let url = |text: &'static str| match parse(text).unwrap() {
            Location::Object(url) => (url.service, url.root, url.key),
            local @ Location::Local(_) => panic!("{local:?}"),
        };
        assert_eq!(url("s3://bucket/a/b?.csv"), (Service::S3, "s3://bucket", "a/b?.csv"));
        assert_eq!(url("gs://bucket"), (Service::Google, "gs://bucket", ""));
        assert_eq!(url("az://container/x%20y"), (Service::Azure, "az://container", "x%20y"));
        assert_eq!(url("http://host:81/a/"), (Service::Web, "http://host:81", "a/"));
    }

    #[test]
    fn file_urls_are_paths() {
        let local = |text: &'static str| match parse(text).unwrap() {
            Location::Local(path) => path.into_owned(),
            object @ Location::Object(_) => panic!("{object:?}"),
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
