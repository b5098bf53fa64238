//! URLs of object storage.

use std::path::Path;

use url::{Host, Url};

use crate::error::StorageError;

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) kind: Kind,
    /// What holds the objects: a bucket with its scheme, or a whole URL of a web server.
    pub(crate) root: String,
    /// The object in it, or a pattern of objects. Empty for a web server, whose URL names one object.
    pub(crate) key: String,
}

/// Who holds objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    S3,
    GoogleCloud,
    Azure,
    Web,
}

/// Whether a path of a run file is a URL instead of a path of files.
pub fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| scheme(text).is_some())
}

/// The scheme of a text that is a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric());
    is_scheme.then_some(scheme)
}

impl Location {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// [`StorageError::Url`] where it is of no storage that is known.
    pub(crate) fn parse(path: &Path) -> Result<Self, StorageError> {
        let wrong = |found: &str, expected| StorageError::Url { found: found.into(), expected };
        let text = path.to_str().unwrap_or_default();
        let scheme = scheme(text).unwrap_or_default();
        let kind = match scheme {
            "s3" => Kind::S3,
            "gs" => Kind::GoogleCloud,
            "az" => Kind::Azure,
            "http" | "https" => Kind::Web,
            other => return Err(wrong(other, "a URL of s3, gs, az or https")),
        };
        if kind == Kind::Web {
            let url = Url::parse(text).map_err(|_| wrong("no URL", "https://HOST/PATH"))?;
            if scheme == "http" && !is_this_machine(&url) {
                return Err(wrong("http", "https, or http on this machine alone"));
            }
            return Ok(Self { kind, root: text.into(), key: String::new() });
        }

        let rest = &text[scheme.len() + "://".len()..];
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong("no bucket", "SCHEME://BUCKET/KEY"));
        }
        Ok(Self { kind, root: format!("{scheme}://{bucket}"), key: key.into() })
    }

    /// The URL of an object in the same bucket.
    pub(crate) fn of_key(&self, key: &str) -> String {
        format!("{}/{key}", self.root)
    }
}

impl Kind {
    /// The variables of the environment that give credentials.
    pub(crate) fn variables(self) -> &'static str {
        match self {
            Self::S3 => {
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the role of the machine"
            }
            Self::GoogleCloud => {
                "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS, or the account of the machine"
            }
            Self::Azure => {
                "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_CLIENT_ID, \
                 AZURE_CLIENT_SECRET and AZURE_TENANT_ID"
            }
            Self::Web => "the URL alone",
        }
    }
}

/// Whether a URL names this machine, so that what is read does not cross a network in the open.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parse = |text: &str| Location::parse(Path::new(text));
        let parts =
            |text: &str| parse(text).map(|found| (found.kind, found.root, found.key)).unwrap();
        let s3 = (Kind::S3, "s3://b".to_owned(), "a/b?.csv".to_owned());
        assert_eq!(parts("s3://b/a/b?.csv"), s3);
        assert_eq!(parts("gs://b"), (Kind::GoogleCloud, "gs://b".into(), String::new()));
        let web = "https://host/a.csv?signature=1";
        assert_eq!(parts(web), (Kind::Web, web.into(), String::new()));
        assert!(parse("http://127.0.0.1:1/a").is_ok() && parse("http://[::1]/a").is_ok());

        for (text, says) in [
            ("ftp://b/a", "found ftp, expected a URL of s3, gs, az or https"),
            ("s3:///a", "found no bucket, expected SCHEME://BUCKET/KEY"),
            ("http://example.com/a", "found http, expected https, or http on this machine alone"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), says);
        }
        assert!(is_url(Path::new("s3://b/a")) && !is_url(Path::new("/data/s3:/b")));
        assert!(!is_url(Path::new("a b://c")));
    }
}
