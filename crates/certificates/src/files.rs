//! Files of certificates and keys: PEM, replaced whole, keys readable by their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use pem::{EncodeConfig, LineEnding, Pem};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer,
};

use super::CertificateError;

/// The contents of a PEM file, in its order.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    pub(super) keys: Vec<PrivateKeyDer<'static>>,
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) removed: Vec<CertificateRevocationListDer<'static>>,
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    Everyone,
    Owner,
}

impl Bundle {
    pub(super) fn read(path: &Path, expected: &'static str) -> Result<Self, CertificateError> {
        let text = read(path, expected)?;
        let wrong = |found: String| CertificateError::Wrong {
            path: path.into(),
            found,
            expected: expected.into(),
        };

        let sections = pem::parse_many(&text).map_err(|error| wrong(error.to_string()))?;
        let mut bundle = Self::default();
        for section in sections {
            let tag = section.tag().to_owned();
            let bytes = section.into_contents();

            match tag.as_str() {
                KEY => bundle.keys.push(PrivatePkcs8KeyDer::from(bytes).into()),
                CERTIFICATE => bundle.certificates.push(bytes.into()),
                REMOVED => bundle.removed.push(bytes.into()),
                other => return Err(wrong(format!("a section `{other}`"))),
            }
        }

        if !bundle.keys.is_empty() {
            warn_of_readers(path);
        }

        Ok(bundle)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), CertificateError> {
        let keys = self.keys.iter().map(|key| Pem::new(KEY, key.secret_der()));
        let certificates = self.certificates.iter().map(|der| Pem::new(CERTIFICATE, der.to_vec()));
        let removed = self.removed.iter().map(|der| Pem::new(REMOVED, der.to_vec()));
        let sections: Vec<Pem> = keys.chain(certificates).chain(removed).collect();
        let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
        let readers = if self.keys.is_empty() { Readers::Everyone } else { Readers::Owner };
        write(path, pem::encode_many_config(&sections, config).as_bytes(), readers)
    }
}

pub(super) fn read(path: &Path, expected: &'static str) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            CertificateError::Missing { path: path.into(), expected }
        }
        _ => CertificateError::io(path, "cannot be read")(error),
    })
}

/// Replaces a file, and makes its folder. A reader, or a crash at any moment, finds the old bytes or the new ones.
pub(super) fn write(path: &Path, bytes: &[u8], readers: Readers) -> Result<(), CertificateError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder.join(format!(".{name}.part"));
    let write = || {
        fs::create_dir_all(folder)?;
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = create(&draft, readers)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        sync_folder(folder)
    };
    write().map_err(CertificateError::io(path, "cannot be written"))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), CertificateError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CertificateError::io(path, "cannot be removed")(error))
        }
        _ => Ok(()),
    }
}

/// Makes a new file, with its permissions set when it is created.
fn create(path: &Path, readers: Readers) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    options.open(path)
}

/// Syncs a folder, and with it the renames in it. Only Unix can open a folder.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn warn_of_readers(path: &Path) {
    #[cfg(unix)]
    if let Ok(found) = fs::metadata(path) {
        let mode = std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "other users may read this key: found mode {mode:o}, expected 600");
        }
    }
}

const KEY: &str = "PRIVATE KEY";
const CERTIFICATE: &str = "CERTIFICATE";
const REMOVED: &str = "X509 CRL";
