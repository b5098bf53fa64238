//! The authority of one run: it signs the certificates of the nodes, and the lists of revoked ones.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevocationReason, RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime,
};

use super::files::{self, Bundle, Readers};
use super::register::{Register, from_hex, hex};
use super::validity::{at, offset};
use super::{CertificateError, Credentials, Identity, Validity};

/// The authority that signs the certificates of a run.
///
/// Keys are Ed25519. Their signatures have one length, so that handshakes take the same number of bytes every time.
///
/// While an authority is being replaced there are two, and the older one has signed the certificate of the newer: a node
/// that trusts only the older accepts certificates that the newer has signed.
pub struct Authority {
    current: Signer,
    /// The authority that `current` replaces, and the certificate that it has signed for `current`.
    previous: Option<(Signer, CertificateDer<'static>)>,
    register: Register,
}

struct Signer {
    certificate: CertificateDer<'static>,
    validity: Validity,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes the authority of a run, with a new key. Its certificate is valid for ten years.
    ///
    /// # Errors
    /// [`CertificateError::Making`] where the name of the run does not fit a certificate.
    pub fn create(run: &str, now: UnixTime) -> Result<Self, CertificateError> {
        let validity = Validity::starting(now, AUTHORITY_LASTS);
        let (current, _) = Signer::create(run, validity)?;
        Ok(Self { current, previous: None, register: Register::new(run) })
    }

    /// Reads the authority of a directory that `gaia certs init` has written.
    ///
    /// # Errors
    /// Where a file is missing, cannot be read, or is not what [`Authority::save`] writes.
    pub fn load(directory: &Path) -> Result<Self, CertificateError> {
        let folder = directory.join(FOLDER);
        let path = folder.join(REGISTER);
        let expected = "the certificates of a run, as gaia certs init writes them";
        let register = files::read(&path, expected)?;
        let register: Register =
            serde_json::from_slice(&register).map_err(|error| CertificateError::Wrong {
                path: path.clone(),
                found: error.to_string(),
                expected: "a register of signed certificates".into(),
            })?;

        let (current, bridge) = Signer::load(&folder.join(CURRENT))?;
        let previous = match bridge {
            Some(bridge) => Some((Signer::load(&folder.join(PREVIOUS))?.0, bridge)),
            None => None,
        };

        let authority = Self { current, previous, register };
        authority.removed().map_err(|error| error.at(&path))?;

        Ok(authority)
    }

    /// Writes the authority into a directory, and replaces the files of it that are there.
    ///
    /// # Errors
    /// [`CertificateError::Io`] where a file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<(), CertificateError> {
        let folder = directory.join(FOLDER);
        let register = serde_json::to_string_pretty(&self.register);
        let register = register.expect("the register is plain data with string keys") + "\n";
        files::write(&folder.join(REGISTER), register.as_bytes(), Readers::Everyone)?;
        if let Some((previous, _)) = &self.previous {
            previous.save(&folder.join(PREVIOUS), None)?;
        }
        let bridge = self.previous.as_ref().map(|(_, bridge)| bridge);
        self.current.save(&folder.join(CURRENT), bridge)?;
        if self.previous.is_none() { files::remove(&folder.join(PREVIOUS)) } else { Ok(()) }
    }

    /// Makes a key for a node and signs a certificate for it, which does not outlive the authority.
    ///
    /// Save the authority before the certificate leaves the machine: a certificate that is not in the saved register
    /// cannot be revoked.
    ///
    /// # Errors
    /// [`CertificateError::OtherRun`] for a node of another run, [`CertificateError::Making`] where a name does not fit a
    /// certificate.
    pub fn issue(
        &mut self,
        identity: &Identity,
        validity: Validity,
    ) -> Result<Credentials, CertificateError> {
        if identity.run != self.register.run {
            let (identity, run) = (identity.clone(), self.register.run.clone());
            return Err(CertificateError::OtherRun { identity, run });
        }

        let making = || CertificateError::making(identity.to_string());
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(making())?;
        let serial = serial(&key);
        let mut params = CertificateParams::default();

        validity.within(self.current.validity).write_to(&mut params);
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.distinguished_name = named(&identity.run, &identity.folder());

        let uri = identity.to_string().try_into().map_err(making())?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;

        let certificate = params.signed_by(&key, &self.current.issuer).map_err(making())?;
        let bridge = self.previous.as_ref().map(|(_, bridge)| bridge.clone());
        let chain = [certificate.into()].into_iter().chain(bridge).collect();

        self.register.add(&serial, identity);

        Credentials::new(chain, private(&key), self.certificates(), self.removed()?)
    }

    /// Revokes every certificate that a node has been given so far. A certificate issued later is valid again.
    ///
    /// # Errors
    /// [`CertificateError::UnknownNode`] for a node that was given none.
    pub fn remove(&mut self, identity: &Identity, now: UnixTime) -> Result<(), CertificateError> {
        if self.register.remove(identity, now) || self.register.is_removed(identity) {
            return Ok(());
        }
        Err(CertificateError::UnknownNode { identity: identity.clone() })
    }

    /// Replaces this authority by a new one. Both are trusted until [`Authority::end_overlap`].
    ///
    /// # Errors
    /// [`CertificateError::Overlap`] where it is being replaced already.
    pub fn replace(&mut self, now: UnixTime) -> Result<(), CertificateError> {
        if self.previous.is_some() {
            return Err(CertificateError::Overlap);
        }
        let validity = Validity::starting(now, AUTHORITY_LASTS);
        let (next, mut params) = Signer::create(&self.register.run, validity)?;
        validity.within(self.current.validity).write_to(&mut params);
        params.use_authority_key_identifier_extension = true;
        let bridge = params.signed_by(next.issuer.key(), &self.current.issuer);
        let bridge = bridge.map_err(CertificateError::making("the new authority"))?;
        let previous = std::mem::replace(&mut self.current, next);
        self.previous = Some((previous, bridge.into()));
        Ok(())
    }

    /// Stops trusting the authority that was replaced.
    ///
    /// # Errors
    /// [`CertificateError::NoOverlap`] where none was replaced.
    pub fn end_overlap(&mut self) -> Result<(), CertificateError> {
        self.previous.take().map(|_| ()).ok_or(CertificateError::NoOverlap)
    }

    /// The name of the run.
    pub fn run(&self) -> &str {
        &self.register.run
    }

    /// The certificates that nodes must trust: one, or two while one authority replaces another. The current one is first.
    pub fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.signers().map(|signer| signer.certificate.clone()).collect()
    }

    /// The revocation list of each authority, dated to the last revocation.
    ///
    /// # Errors
    /// [`CertificateError::Unfit`] where the register has a serial number that is none.
    pub fn removed(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateError> {
        let mut revoked_certs = Vec::new();
        for entry in self.register.issued.iter() {
            let Some(removed_s) = entry.removed_s else { continue };
            let serial = from_hex(&entry.serial).ok_or_else(|| {
                CertificateError::unfit(format!("the serial `{}`", entry.serial), "hex digits")
            })?;
            revoked_certs.push(RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: offset(at(removed_s)),
                reason_code: Some(RevocationReason::CessationOfOperation),
                invalidity_date: None,
            });
        }
        let last = self.register.issued.iter().filter_map(|entry| entry.removed_s).max();
        self.signers().map(|signer| signer.revoke(&revoked_certs, last)).collect()
    }

    /// Every node that was ever given a certificate, each once, sorted.
    pub fn nodes(&self) -> Vec<Identity> {
        self.register.nodes()
    }

    /// Whether every certificate that a node was given is revoked. False for a node that was given none.
    pub fn is_removed(&self, identity: &Identity) -> bool {
        self.register.is_removed(identity)
    }

    fn signers(&self) -> impl Iterator<Item = &Signer> {
        [&self.current].into_iter().chain(self.previous.as_ref().map(|(signer, _)| signer))
    }
}

impl Signer {
    /// A self-signed signer, and the parameters of its certificate.
    fn create(
        run: &str,
        validity: Validity,
    ) -> Result<(Self, CertificateParams), CertificateError> {
        let making = || CertificateError::making(format!("the authority of run `{run}`"));
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(making())?;
        let serial = serial(&key);
        let mut params = CertificateParams::default();
        validity.write_to(&mut params);
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        // A revocation list names its authority, so that no two authorities may have the same name.
        params.distinguished_name = named(run, &format!("authority {}", hex(&serial)));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(making())?.into();
        let issuer = Issuer::new(params.clone(), key);
        Ok((Self { certificate, validity, issuer }, params))
    }

    /// A signer, and the certificate that another has signed for it where the file has one.
    fn load(path: &Path) -> Result<(Self, Option<CertificateDer<'static>>), CertificateError> {
        let expected = "the key and certificate of an authority";
        let bundle = Bundle::read(path, expected)?;

        let wrong = |found: String| CertificateError::Wrong {
            path: path.into(),
            found,
            expected: expected.into(),
        };

        let mut certificates = bundle.certificates.into_iter();
        let (Some(certificate), bridge, None) =
            (certificates.next(), certificates.next(), certificates.next())
        else {
            return Err(wrong("no certificate or more than two".into()));
        };

        let [PrivateKeyDer::Pkcs8(key)] = bundle.keys.as_slice() else {
            return Err(wrong("no PKCS #8 private key or several".into()));
        };

        let key = KeyPair::from_pkcs8_der_and_sign_algo(key, &rcgen::PKCS_ED25519)
            .map_err(|error| wrong(error.to_string()))?;
        let validity = Validity::of(&certificate).map_err(|error| error.at(path))?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|error| wrong(error.to_string()))?;

        Ok((Self { certificate, validity, issuer }, bridge))
    }

    fn save(
        &self,
        path: &Path,
        bridge: Option<&CertificateDer<'static>>,
    ) -> Result<(), CertificateError> {
        let certificates = [&self.certificate].into_iter().chain(bridge).cloned().collect();
        let keys = vec![private(self.issuer.key())];
        Bundle { keys, certificates, ..Bundle::default() }.write(path)
    }

    fn revoke(
        &self,
        revoked_certs: &[RevokedCertParams],
        last_s: Option<u64>,
    ) -> Result<CertificateRevocationListDer<'static>, CertificateError> {
        let this_update = offset(last_s.map_or(self.validity.not_before, at));
        let number = u64::try_from(revoked_certs.len()).unwrap_or(u64::MAX).saturating_add(1);
        let params = CertificateRevocationListParams {
            this_update,
            next_update: offset(self.validity.not_after).max(this_update + SECOND),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.to_vec(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer);
        list.map(Into::into).map_err(CertificateError::making("the revocation list"))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("run", &self.register.run).finish_non_exhaustive()
    }
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(key.serialize_der()).into()
}

/// A serial number as unique as the key, of one length, positive and without leading zeros (RFC 5280, section 4.1.2.2).
fn serial(key: &KeyPair) -> Vec<u8> {
    let mut bytes = key.public_key_raw()[..SERIAL_BYTES].to_vec();
    bytes[0] = bytes[0] & 0x3f | 0x40;
    bytes
}

fn named(run: &str, name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::OrganizationName, format!("gaia {run}"));
    distinguished.push(DnType::CommonName, name);
    distinguished
}

const FOLDER: &str = "authority";
const CURRENT: &str = "current.pem";
const PREVIOUS: &str = "previous.pem";
const REGISTER: &str = "issued.json";

const SERIAL_BYTES: usize = 16;
const SECOND: Duration = Duration::from_secs(1);
const AUTHORITY_LASTS: Duration = Duration::from_secs(10 * 365 * 86_400);
