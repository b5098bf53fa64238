//! The identity of a node: `gaia://RUN/DC/ROLE/INDEX`, the only URI among the alternative names of its certificate.

use std::fmt;
use std::str::FromStr;

/// The three kinds of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A parameter server.
    Server,
    /// A worker.
    Worker,
    /// The coordinator.
    Coordinator,
}

/// One node of one run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The name of the run.
    pub run: String,
    /// The name of its data center in the topology.
    pub dc: String,
    /// Its kind.
    pub role: Role,
    /// The shard of a server, the number of a worker within its data center, 0 for the coordinator.
    pub index: u16,
}

/// A text that is not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found `{found}`, expected gaia://RUN/DC/ROLE/INDEX, where ROLE is `server`, `worker` or `coordinator`"
)]
pub struct NotAnIdentity {
    /// The text.
    pub found: String,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Server, Self::Worker, Self::Coordinator];

    /// The name of the role in an identity: `server`, `worker` or `coordinator`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Worker => "worker",
            Self::Coordinator => "coordinator",
        }
    }
}

impl Identity {
    /// The server of a shard in a data center.
    pub fn server(run: &str, dc: &str, index: u16) -> Self {
        Self::new(run, dc, Role::Server, index)
    }

    /// A worker of a data center, by its number there.
    pub fn worker(run: &str, dc: &str, index: u16) -> Self {
        Self::new(run, dc, Role::Worker, index)
    }

    /// The coordinator, which runs in a data center.
    pub fn coordinator(run: &str, dc: &str) -> Self {
        Self::new(run, dc, Role::Coordinator, 0)
    }

    fn new(run: &str, dc: &str, role: Role, index: u16) -> Self {
        Self { run: run.into(), dc: dc.into(), role, index }
    }

    /// The node's folder: its data center and its role, such as `oregon/server-0`.
    ///
    /// Every name becomes one component of a path, so that no name leads out of the folder that holds it.
    pub fn folder(&self) -> String {
        let dc = encoded(&self.dc);
        match self.role {
            Role::Coordinator => format!("{dc}/coordinator"),
            role => format!("{dc}/{}-{}", role.name(), self.index),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (run, dc) = (encoded(&self.run), encoded(&self.dc));
        write!(f, "{SCHEME}{run}/{dc}/{}/{}", self.role, self.index)
    }
}

impl FromStr for Identity {
    type Err = NotAnIdentity;

    /// Takes the one spelling that [`Identity`] displays as, and no other.
    fn from_str(text: &str) -> Result<Self, NotAnIdentity> {
        let read = || {
            let mut parts = text.strip_prefix(SCHEME)?.split('/');
            let (run, dc) = (decoded(parts.next()?)?, decoded(parts.next()?)?);
            let role = parts.next()?;
            let role = Role::ALL.into_iter().find(|known| known.name() == role)?;
            let identity = Self { run, dc, role, index: parts.next()?.parse().ok()? };
            (identity.to_string() == text).then_some(identity)
        };
        read().ok_or_else(|| NotAnIdentity { found: shown(text) })
    }
}

/// A name as one segment of a URI (RFC 3986, section 3.3), in which two dots would mean the segment before.
fn encoded(name: &str) -> String {
    let dots = name.bytes().all(|byte| byte == b'.');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
    let mut text = String::new();
    for byte in name.bytes() {
        if plain(byte) || (byte == b'.' && !dots) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (code, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// Text of a stranger as an error may show it: short, and unable to drive a terminal.
pub(super) fn shown(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    visible.take(SHOWN_CHARS_MAX).collect()
}

const SCHEME: &str = "gaia://";
const SHOWN_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expect: Option<Identity>) {
        assert_eq!(text.parse().ok(), expect, "{text}");
    }

    #[test]
    fn an_identity_has_one_spelling() {
        check("gaia://demo/oregon/server/3", Some(Identity::server("demo", "oregon", 3)));
        check("gaia://a%2Fb/S%C3%A3o/worker/0", Some(Identity::worker("a/b", "São", 0)));
        check("gaia://demo/%2E%2E/coordinator/0", Some(Identity::coordinator("demo", "..")));

        for other in [
            "",
            "demo/oregon/server/3",
            "GAIA://demo/oregon/server/3",
            "gaia://demo/oregon/server",
            "gaia://demo/oregon/server/",
            "gaia://demo/oregon/server/03",
            "gaia://demo/oregon/server/+3",
            "gaia://demo/oregon/server/65536",
            "gaia://demo/oregon/server/3/",
            "gaia://demo/oregon/Server/3",
            "gaia://demo/oregon/master/3",
            "gaia://demo/../server/3",
            "gaia://demo/%6fregon/server/3",
            "gaia://demo/%/server/3",
            "gaia://demo/%C3/server/3",
            "gaia://demo/a b/server/3",
        ] {
            check(other, None);
        }
    }

    proptest! {
        #[test]
        fn any_name_survives_its_certificate_and_stays_in_its_folder(
            run in any::<String>(),
            dc in any::<String>(),
            index in any::<u16>(),
        ) {
            let identity = Identity::worker(&run, &dc, index);
            let text = identity.to_string();
            prop_assert!(text.is_ascii());
            prop_assert_eq!(text.parse(), Ok(identity.clone()));
            let parts: Vec<String> = identity.folder().split('/').map(str::to_owned).collect();
            prop_assert_eq!(parts.len(), 2);
            prop_assert!(parts.iter().all(|part| part != ".." && part != "."));
        }
    }
}
