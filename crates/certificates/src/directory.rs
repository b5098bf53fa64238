//! The certificates of a run on the machine of its operator: the authority, and one folder for each node, to be copied to
//! its host.
//!
//! ```text
//! authority/                 stays here
//!   current.pem              the key and certificate that sign
//!   previous.pem             those that are being replaced, if any
//!   issued.json              the certificates that were signed, and which of them are revoked
//! nodes/oregon/server-0/     goes to the host of that server
//!   node.pem                 its key and certificate
//!   trust.pem                the authorities and their revocation lists, the same for all nodes
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustls::pki_types::{CertificateDer, UnixTime};

use super::credentials::{NODE, save_trust};
use super::{Authority, CertificateError, Credentials, Identity, Validity, fingerprint};

/// A directory of certificates. Each change replaces whole files, so that a crash leaves it usable.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    authority: Authority,
}

/// One certificate as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The node that it is for; `None` for an authority.
    pub identity: Option<Identity>,
    /// `None` where the node's folder is missing.
    pub certificate: Option<Details>,
    /// Whether it is valid, and if not, why.
    pub state: State,
}

/// The contents of a certificate that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// From when to when it is valid.
    pub validity: Validity,
    /// SHA-256, in hexadecimal digits.
    pub fingerprint: String,
}

/// The state of a certificate at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is valid.
    Valid,
    /// It is valid, and less than a third of its time is left.
    ExpiresSoon,
    /// Its validity has ended.
    Expired,
    /// Its validity has not started.
    NotYetValid,
    /// It is revoked.
    Removed,
    /// Its folder is missing.
    Absent,
}

impl Directory {
    /// Makes a directory with a new authority. The directory must be new or empty.
    ///
    /// # Errors
    /// [`CertificateError::Exists`] where it is not empty, and those of [`Authority::create`] and [`Authority::save`].
    pub fn create(path: &Path, run: &str, now: UnixTime) -> Result<Self, CertificateError> {
        let occupied = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(CertificateError::io(path, "cannot be opened")(error)),
        };
        if occupied {
            return Err(CertificateError::Exists { path: path.into() });
        }
        let authority = Authority::create(run, now)?;
        authority.save(path)?;
        Ok(Self { path: path.into(), authority })
    }

    /// Writes the folders of nodes as [`Self::issue`] does, and nothing of the authority, which is made for this and gone
    /// after it: no other node is ever let in, and none can be revoked.
    pub fn issue_once(
        path: &Path,
        run: &str,
        nodes: &[Identity],
        now: UnixTime,
        lasting: Duration,
    ) -> Result<(), CertificateError> {
        let mut authority = Authority::create(run, now)?;
        let validity = Validity::starting(now, lasting);
        for node in nodes {
            authority.issue(node, validity)?.save(&path.join(NODES).join(node.folder()))?;
        }
        Ok(())
    }

    /// Opens a directory that `gaia certs init` has written.
    ///
    /// # Errors
    /// As [`Authority::load`].
    pub fn open(path: &Path) -> Result<Self, CertificateError> {
        Ok(Self { path: path.into(), authority: Authority::load(path)? })
    }

    /// Signs a certificate for each node, valid for `lasting` from `now`, and writes the folders.
    ///
    /// # Errors
    /// Those of [`Authority::issue`]; [`CertificateError::Io`] where a file cannot be written.
    pub fn issue(
        &mut self,
        nodes: &[Identity],
        now: UnixTime,
        lasting: Duration,
    ) -> Result<(), CertificateError> {
        let validity = Validity::starting(now, lasting);
        let mut issued = Vec::new();
        for node in nodes {
            issued.push(self.authority.issue(node, validity)?);
        }
        self.authority.save(&self.path)?;
        issued
            .iter()
            .try_for_each(|credentials| credentials.save(&self.folder(credentials.identity())))
    }

    /// Signs a new certificate for a member of the run.
    ///
    /// # Errors
    /// [`CertificateError::UnknownNode`] where it is no member, and those of [`Directory::issue`].
    pub fn renew(
        &mut self,
        node: &Identity,
        now: UnixTime,
        lasting: Duration,
    ) -> Result<(), CertificateError> {
        if !self.members().contains(node) {
            return Err(CertificateError::UnknownNode { identity: node.clone() });
        }
        self.issue(std::slice::from_ref(node), now, lasting)
    }

    /// Revokes a node's certificates, and writes the revocation list into the folders of the others.
    ///
    /// # Errors
    /// Those of [`Authority::remove`]; [`CertificateError::Io`] where a file cannot be written.
    pub fn remove(&mut self, node: &Identity, now: UnixTime) -> Result<(), CertificateError> {
        self.authority.remove(node, now)?;
        self.authority.save(&self.path)?;
        self.write_trust()
    }

    /// Replaces the authority by a new one, which signs a new certificate for every node.
    ///
    /// Both are trusted until [`Directory::end_overlap`], so that hosts can receive their folders one by one.
    ///
    /// # Errors
    /// Those of [`Authority::replace`] and [`Directory::issue`].
    pub fn replace_authority(
        &mut self,
        now: UnixTime,
        lasting: Duration,
    ) -> Result<(), CertificateError> {
        self.authority.replace(now)?;
        self.authority.save(&self.path)?;
        self.write_trust()?;
        self.issue(&self.members(), now, lasting)
    }

    /// Stops trusting the authority that was replaced, once every node here has a certificate of the newer one. Where a
    /// file could not be written, another call writes those that are left.
    ///
    /// # Errors
    /// Where no authority was replaced, a node still has a certificate of the older one, or a file cannot be written.
    pub fn end_overlap(&mut self) -> Result<(), CertificateError> {
        match self.authority.end_overlap() {
            Ok(()) => self.check_bridged()?,
            // The authority is written first, so that an overlap that has ended may be left in folders of nodes.
            Err(CertificateError::NoOverlap) if self.has_other_trust()? => {}
            Err(error) => return Err(error),
        }
        self.authority.save(&self.path)?;
        self.write_trust()
    }

    /// Checks that every node here has a certificate of the newer authority.
    fn check_bridged(&self) -> Result<(), CertificateError> {
        for folder in self.member_folders() {
            if Credentials::load(&folder)?.chain().len() == 1 {
                return Err(CertificateError::Wrong {
                    path: folder,
                    found: "a certificate of the older authority".into(),
                    expected: "one of the newer authority, as gaia certs rotate writes it".into(),
                });
            }
        }
        Ok(())
    }

    /// Whether a node here trusts other authorities than those of this directory.
    fn has_other_trust(&self) -> Result<bool, CertificateError> {
        let authorities = self.authority.certificates();
        for folder in self.member_folders() {
            if Credentials::load(&folder)?.authorities() != authorities {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The name of the run.
    pub fn run(&self) -> &str {
        self.authority.run()
    }

    /// The nodes whose certificates are not revoked, sorted.
    pub fn members(&self) -> Vec<Identity> {
        let nodes = self.authority.nodes().into_iter();
        nodes.filter(|node| !self.authority.is_removed(node)).collect()
    }

    /// The path of a node's folder. It need not exist.
    pub fn folder(&self, node: &Identity) -> PathBuf {
        self.path.join(NODES).join(node.folder())
    }

    /// The authorities and every node that ever had a certificate, with the states at `now`.
    ///
    /// # Errors
    /// Where a folder cannot be read.
    pub fn list(&self, now: UnixTime) -> Result<Vec<Listed>, CertificateError> {
        let mut all = Vec::new();
        for certificate in self.authority.certificates() {
            all.push(Listed::new(None, Details::of(&certificate)?, now));
        }
        for node in self.authority.nodes() {
            all.push(self.listed(node, now)?);
        }
        Ok(all)
    }

    fn listed(&self, node: Identity, now: UnixTime) -> Result<Listed, CertificateError> {
        let folder = self.folder(&node);
        let removed = self.authority.is_removed(&node);
        if !folder.join(NODE).exists() {
            let state = if removed { State::Removed } else { State::Absent };
            return Ok(Listed { identity: Some(node), certificate: None, state });
        }
        let mut listed = Credentials::load(&folder)?.listed(now)?;
        if listed.identity.as_ref() != Some(&node) {
            let found = listed.identity.map(|other| other.to_string()).unwrap_or_default();
            let expected = node.to_string();
            return Err(CertificateError::Wrong { path: folder, found, expected });
        }
        if removed {
            listed.state = State::Removed;
        }
        Ok(listed)
    }

    /// Writes the authorities and their revocation lists into the folder of every node.
    fn write_trust(&self) -> Result<(), CertificateError> {
        let (authorities, removed) = (self.authority.certificates(), self.authority.removed()?);
        self.member_folders()
            .iter()
            .try_for_each(|folder| save_trust(folder, &authorities, &removed))
    }

    /// The folders of members that are there.
    fn member_folders(&self) -> Vec<PathBuf> {
        let folders = self.members().into_iter().map(|node| self.folder(&node));
        folders.filter(|folder| folder.join(NODE).exists()).collect()
    }
}

impl Listed {
    fn new(identity: Option<Identity>, details: Details, now: UnixTime) -> Self {
        let state = details.validity.state(now);
        Self { identity, certificate: Some(details), state }
    }
}

impl Credentials {
    /// The node's certificate and its state at `now`.
    ///
    /// # Errors
    /// [`CertificateError::Unfit`] where the certificate cannot be read.
    pub fn listed(&self, now: UnixTime) -> Result<Listed, CertificateError> {
        let first = self.chain().first().expect("a chain has a first certificate");
        Ok(Listed::new(Some(self.identity().clone()), Details::of(first)?, now))
    }
}

impl Details {
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let validity = Validity::of(certificate)?;
        Ok(Self { validity, fingerprint: fingerprint(certificate) })
    }
}

impl Validity {
    fn state(self, now: UnixTime) -> State {
        let (from, to, now) = (self.not_before.as_secs(), self.not_after.as_secs(), now.as_secs());
        match () {
            () if now > to => State::Expired,
            () if now < from => State::NotYetValid,
            () if to - now < to.saturating_sub(from) / 3 => State::ExpiresSoon,
            () => State::Valid,
        }
    }
}

impl State {
    /// The name of the state, as lists show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::ExpiresSoon => "expires soon",
            Self::Expired => "expired",
            Self::NotYetValid => "not yet valid",
            Self::Removed => "removed",
            Self::Absent => "folder is gone",
        }
    }
}

const NODES: &str = "nodes";
