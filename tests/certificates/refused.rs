//! Nine kinds of wrong certificate, and some more, each shown by who connects and by who accepts.

use std::sync::Arc;

use gaia_certificates::{CertificateError, Credentials, Identity, Refusal, accepting, connecting};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use rustls::HandshakeKind;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ServerSessionMemoryCache;
use rustls::sign::CertifiedKey;

use super::handshake::{Refused, Shown, accept, connect, connect_to_nobody, meet, meet_again};
use super::*;

/// Tokyo meets someone who says to be the server of oregon; what tokyo makes of it is the same whoever connects.
fn check(tokyo: &Credentials, shown: Shown, expect: impl Fn(&Refusal) -> bool, says: &[&str]) {
    let accepted = accept(tokyo, &[server("oregon")], shown.clone());
    let connected = connect(tokyo, &server("oregon"), shown);
    for refused in [accepted, connected] {
        let Refused { refusal, told } = *refused.expect_err("a stranger is let in");
        assert!(expect(&refusal), "{refusal:?}");
        let text = refusal.to_string();
        for said in says {
            assert!(text.contains(said), "should say {said:?}: {text}");
        }
        let told = told.expect("the other end is told").to_string();
        assert!(told.starts_with("received fatal alert"), "{told}");
    }
}

fn shown(credentials: &Credentials, key: PrivateKeyDer<'static>) -> Shown {
    Shown::chain(credentials.chain().to_vec(), key)
}

/// What a node that has been given a folder shows.
fn of_folder(credentials: &Credentials) -> Shown {
    let folder = tempfile::tempdir().unwrap();
    credentials.save(folder.path()).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.path().join("node.pem")).unwrap();
    shown(credentials, key)
}

/// The hand of an authority, which signs whatever it is given.
fn forger(authority: &Authority) -> Issuer<'static, KeyPair> {
    let folder = tempfile::tempdir().unwrap();
    authority.save(folder.path()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("authority/current.pem")).unwrap();
    let key = KeyPair::from_pem(&text).unwrap();
    Issuer::from_ca_cert_der(&CertificateDer::from_pem_slice(text.as_bytes()).unwrap(), key)
        .unwrap()
}

fn named(uris: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    let uri = |uri: &&str| SanType::URI((*uri).try_into().unwrap());
    params.subject_alt_names = uris.iter().map(uri).collect();
    params
}

fn signed(params: &CertificateParams, by: &Issuer<'_, KeyPair>) -> Shown {
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let certificate = params.signed_by(&key, by).unwrap();
    Shown::chain(vec![certificate.into()], private(&key))
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(key.serialize_der().into())
}

const OREGON: &str = "gaia://demo/oregon/server/0";

#[test]
fn nodes_of_a_run_believe_each_other() {
    let mut authority = authority();
    let oregon = issue(&mut authority, &server("oregon"));
    let tokyo = issue(&mut authority, &server("tokyo"));
    let seen = meet(&oregon, &tokyo).unwrap();
    assert_eq!(seen, (server("oregon"), server("tokyo")));
}

/// A session that is resumed, or begun with early data, would not look at the certificate again.
#[test]
fn every_meeting_is_a_whole_handshake() {
    let mut authority = authority();
    let oregon = issue(&mut authority, &server("oregon"));
    let tokyo = issue(&mut authority, &server("tokyo"));
    let connects = || connecting(&oregon, &server("tokyo"));
    let accepts = || accepting(&tokyo, [server("oregon")]);
    let mut eager = connects();
    eager.resumption = Resumption::in_memory_sessions(8);
    let mut generous = accepts();
    generous.send_tls13_tickets = 2;
    generous.session_storage = ServerSessionMemoryCache::new(8);
    assert_eq!(meet_again(eager.clone(), generous.clone()), HandshakeKind::Resumed);
    assert_eq!(meet_again(connects(), generous), HandshakeKind::Full);
    assert_eq!(meet_again(eager, accepts()), HandshakeKind::Full);
    assert!(!connects().enable_early_data);
    assert_eq!(accepts().max_early_data_size, 0);
}

#[test]
fn an_expired_certificate() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let validity = from_to(-90, -2);
    let expired = authority.issue(&server("oregon"), validity).unwrap();
    check(
        &tokyo,
        of_folder(&expired),
        |refusal| matches!(refusal, Refusal::Expired { not_after, .. } if *not_after == validity.not_after),
        &[OREGON, "expired at 2", "expected one that is valid at 2"],
    );
}

#[test]
fn a_certificate_that_is_not_yet_valid() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let early = authority.issue(&server("oregon"), from_to(2, 90)).unwrap();
    check(
        &tokyo,
        of_folder(&early),
        |refusal| matches!(refusal, Refusal::NotYetValid { .. }),
        &[OREGON, "is valid from 2", "expected one that is valid at 2"],
    );
}

#[test]
fn a_certificate_of_another_authority() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let mut other = super::authority();
    let stranger = issue(&mut other, &server("oregon"));
    let unknown = |refusal: &Refusal| matches!(refusal, Refusal::UnknownAuthority { .. });
    let says = [OREGON, "signed by an unknown authority", "expected the signature of authority "];
    check(&tokyo, of_folder(&stranger), unknown, &says);

    let folder = tempfile::tempdir().unwrap();
    authority.save(folder.path()).unwrap();
    let real = CertificateDer::from_pem_file(folder.path().join("authority/current.pem")).unwrap();
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let namesake = Issuer::from_ca_cert_der(&real, key).unwrap();
    check(&tokyo, signed(&named(&[OREGON]), &namesake), unknown, &says);
}

#[test]
fn a_certificate_signed_by_itself() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let mut params = named(&[OREGON]);
        params.is_ca = is_ca;
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        check(
            &tokyo,
            Shown::chain(vec![certificate.into()], private(&key)),
            |refusal| matches!(refusal, Refusal::SelfSigned { .. }),
            &[OREGON, "is self-signed", "expected the signature of authority "],
        );
    }
}

#[test]
fn a_certificate_of_another_data_center() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let sydney = issue(&mut authority, &server("sydney"));
    check(
        &tokyo,
        of_folder(&sydney),
        |refusal| matches!(refusal, Refusal::WrongDataCenter { expected, .. } if expected == &["oregon"]),
        &["gaia://demo/sydney/server/0", "expected data center oregon"],
    );
}

#[test]
fn a_certificate_of_another_role() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let worker = issue(&mut authority, &Identity::worker(RUN, "oregon", 0));
    check(
        &tokyo,
        of_folder(&worker),
        |refusal| matches!(refusal, Refusal::WrongRole { expected, .. } if expected == &["server"]),
        &["gaia://demo/oregon/worker/0", "expected a server"],
    );
    let coordinator = issue(&mut authority, &Identity::coordinator(RUN, "oregon"));
    check(
        &tokyo,
        of_folder(&coordinator),
        |refusal| matches!(refusal, Refusal::WrongRole { .. }),
        &["gaia://demo/oregon/coordinator/0", "expected a server"],
    );
}

#[test]
fn a_certificate_of_another_number() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let second = issue(&mut authority, &Identity::server(RUN, "oregon", 1));
    check(
        &tokyo,
        of_folder(&second),
        |refusal| matches!(refusal, Refusal::WrongIndex { expected, .. } if expected == &["0"]),
        &["gaia://demo/oregon/server/1", "expected number 0"],
    );
}

#[test]
fn no_certificate() {
    let tokyo = issue(&mut authority(), &server("tokyo"));
    let refused = accept(&tokyo, &[server("oregon")], Shown::Nothing).unwrap_err();
    assert_eq!(refused.refusal, Refusal::NoCertificate);
    let text = refused.refusal.to_string();
    assert_eq!(text, "the peer presented no certificate, expected one of this run");
    let told = refused.told.unwrap().to_string();
    assert_eq!(told, "received fatal alert: CertificateRequired");
    let error = connect_to_nobody(&tokyo, &server("oregon")).to_string();
    assert_eq!(error, "received fatal alert: AccessDenied");
}

#[test]
fn a_certificate_of_a_removed_node() {
    let mut authority = authority();
    let first = issue(&mut authority, &server("oregon"));
    let second = issue(&mut authority, &server("oregon"));
    authority.remove(&server("oregon"), now()).unwrap();
    let tokyo = issue(&mut authority, &server("tokyo"));
    for removed in [first, second] {
        check(
            &tokyo,
            of_folder(&removed),
            |refusal| *refusal == Refusal::Removed { claimed: server("oregon") },
            &[OREGON, "has been revoked", "expected one of a node of the run"],
        );
    }
    let again = issue(&mut authority, &server("oregon"));
    assert_eq!(meet(&again, &tokyo).unwrap(), (server("oregon"), server("tokyo")));
}

#[test]
fn a_certificate_of_another_run() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let other = Identity::server("other", "oregon", 0);
    let refused = authority.issue(&other, from_to(-1, 1)).unwrap_err();
    assert!(matches!(refused, CertificateError::OtherRun { .. }), "{refused}");
    check(
        &tokyo,
        signed(&named(&["gaia://other/oregon/server/0"]), &forger(&authority)),
        |refusal| matches!(refusal, Refusal::OtherRun { expected, .. } if expected == RUN),
        &["gaia://other/oregon/server/0", "expected a node of run `demo`"],
    );
}

#[test]
fn a_certificate_that_names_nobody_or_two() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let forger = forger(&authority);
    let two = [OREGON, "gaia://demo/tokyo/server/0"];
    let cases: [(&[&str], &str); 4] = [
        (&[], "nobody"),
        (&two, "2 names"),
        (&["spiffe://demo/oregon"], "`spiffe://demo/oregon`"),
        (&["gaia://demo/oregon/server/00"], "`gaia://demo/oregon/server/00`"),
    ];
    for (uris, found) in cases {
        let mut params = named(uris);
        params.distinguished_name.push(DnType::CommonName, OREGON);
        params.subject_alt_names.push(SanType::DnsName("oregon".try_into().unwrap()));
        check(
            &tokyo,
            signed(&params, &forger),
            |refusal| matches!(refusal, Refusal::NoIdentity { .. }),
            &[found, "gaia://RUN/DC/ROLE/INDEX"],
        );
    }
}

#[test]
fn a_certificate_that_a_node_has_signed() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let sydney = issue(&mut authority, &server("sydney"));
    let folder = tempfile::tempdir().unwrap();
    sydney.save(folder.path()).unwrap();
    let text = std::fs::read_to_string(folder.path().join("node.pem")).unwrap();
    let issuer =
        Issuer::from_ca_cert_der(&sydney.chain()[0], KeyPair::from_pem(&text).unwrap()).unwrap();
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let params = named(&[OREGON]);
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let chain = vec![certificate.into(), sydney.chain()[0].clone()];
    check(
        &tokyo,
        Shown::chain(chain, private(&key)),
        |refusal| matches!(refusal, Refusal::Broken { .. } | Refusal::UnknownAuthority { .. }),
        &[OREGON],
    );
}

#[test]
fn a_certificate_for_another_purpose() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let mut params = named(&[OREGON]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
    check(
        &tokyo,
        signed(&params, &forger(&authority)),
        |refusal| matches!(refusal, Refusal::Broken { .. }),
        &[OREGON, "is not valid"],
    );
}

/// Whichever bit it is, the refusal is about the certificate: the signature covers everything that is believed.
#[test]
fn a_certificate_with_a_flipped_bit() {
    let mut authority = authority();
    let tokyo = issue(&mut authority, &server("tokyo"));
    let oregon = issue(&mut authority, &server("oregon"));
    let Shown::Chain(good) = of_folder(&oregon) else { panic!("a node shows a certificate") };
    accept(&tokyo, &[server("oregon")], Shown::Chain(good.clone())).unwrap();
    for at in 0..good.cert[0].len() {
        let mut bytes = good.cert[0].to_vec();
        bytes[at] ^= 1 << (at % 8);
        let flipped = CertifiedKey::new(vec![bytes.into()], good.key.clone());
        let refused = accept(&tokyo, &[server("oregon")], Shown::Chain(Arc::new(flipped)));
        assert!(refused.is_err(), "bit {} of byte {at} is not missed", at % 8);
    }
}
