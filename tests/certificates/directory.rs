//! What lies on disk: folders that can be copied, rotation with an overlap, files that are wrong.

use std::fs;
use std::path::Path;

use gaia_certificates::{CertificateError, Credentials, Directory, Refusal, State};

use super::handshake::{Shown, accept, meet};
use super::*;

const QUARTER: Duration = Duration::from_secs(90 * 86_400);

/// Oregon and tokyo, with a directory made a year ago.
fn directory(path: &Path) -> Directory {
    let mut directory = Directory::create(path, RUN, days_from_now(-365)).unwrap();
    directory.issue(&[server("oregon"), server("tokyo")], now(), QUARTER).unwrap();
    directory
}

fn load(directory: &Directory, dc: &str) -> Credentials {
    Credentials::load(&directory.folder(&server(dc))).unwrap()
}

fn state(directory: &Directory, dc: &str, at: i64) -> State {
    let listed = directory.list(days_from_now(at)).unwrap();
    let of_dc = |entry: &&gaia_certificates::Listed| {
        entry.identity.as_ref().is_some_and(|identity| identity.dc == dc)
    };
    listed.iter().find(of_dc).unwrap().state
}

fn meets(connects: &Credentials, accepts: &Credentials) -> bool {
    meet(connects, accepts).is_ok()
}

#[test]
fn a_directory_read_again_signs_and_revokes_as_before() {
    let path = tempfile::tempdir().unwrap();
    let tokyo = load(&directory(path.path()), "tokyo");
    let mut again = Directory::open(path.path()).unwrap();
    assert_eq!(again.run(), RUN);
    assert_eq!(again.members(), [server("oregon"), server("tokyo")]);
    again.issue(&[server("sydney")], now(), QUARTER).unwrap();
    assert!(meets(&load(&again, "sydney"), &tokyo));

    again.remove(&server("oregon"), now()).unwrap();
    let again = Directory::open(path.path()).unwrap();
    assert_eq!(again.members(), [server("sydney"), server("tokyo")]);
    assert_eq!(state(&again, "oregon", 0), State::Removed);
    let refused = meet(&load(&again, "tokyo"), &load(&again, "oregon")).unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Removed { claimed: server("oregon") }));
}

#[test]
fn a_secret_is_the_same_wherever_the_key_is_and_another_for_each_purpose_and_node() {
    let path = tempfile::tempdir().unwrap();
    let directory = directory(path.path());
    let (tokyo, again, oregon) =
        (load(&directory, "tokyo"), load(&directory, "tokyo"), load(&directory, "oregon"));
    assert_eq!(tokyo.secret("one"), again.secret("one"));
    assert_ne!(tokyo.secret("one"), tokyo.secret("other"));
    assert_ne!(tokyo.secret("one"), oregon.secret("one"));
}

#[test]
fn a_certificate_stands_as_its_dates_say() {
    let path = tempfile::tempdir().unwrap();
    let directory = directory(path.path());
    for (at, expect) in [
        (-2, State::NotYetValid),
        (0, State::Valid),
        (59, State::Valid),
        (61, State::ExpiresSoon),
        (89, State::ExpiresSoon),
        (91, State::Expired),
    ] {
        assert_eq!(state(&directory, "oregon", at), expect, "day {at}");
    }
    fs::remove_dir_all(directory.folder(&server("tokyo"))).unwrap();
    assert_eq!(state(&directory, "tokyo", 0), State::Absent);
    assert_eq!(directory.list(now()).unwrap()[0].identity, None, "the authority comes first");
}

#[test]
fn no_certificate_outlives_its_authority() {
    let mut old = Authority::create(RUN, days_from_now(-3_640)).unwrap();
    let credentials = old.issue(&server("oregon"), from_to(0, 90)).unwrap();
    assert!(credentials.validity().unwrap().not_after <= days_from_now(10));
}

#[test]
fn a_renewed_certificate_has_another_key_and_the_same_owner() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = directory(path.path());
    let before = load(&directory, "oregon");
    directory.renew(&server("oregon"), now(), QUARTER).unwrap();
    let after = load(&directory, "oregon");
    assert_eq!(before.identity(), after.identity());
    assert_ne!(before.chain(), after.chain());
    let tokyo = load(&directory, "tokyo");
    assert!(meets(&before, &tokyo) && meets(&after, &tokyo));
    let stranger = directory.renew(&server("sydney"), now(), QUARTER).unwrap_err();
    assert!(matches!(stranger, CertificateError::UnknownNode { .. }), "{stranger}");
}

#[test]
fn hosts_get_a_new_authority_one_by_one_and_never_lose_each_other() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = directory(path.path());
    let (oregon, tokyo) = (load(&directory, "oregon"), load(&directory, "tokyo"));
    directory.replace_authority(now(), QUARTER).unwrap();
    let (new_oregon, new_tokyo) = (load(&directory, "oregon"), load(&directory, "tokyo"));
    assert_eq!(new_oregon.authorities().len(), 2);
    for connects in [&oregon, &new_oregon] {
        for accepts in [&tokyo, &new_tokyo] {
            assert!(meets(connects, accepts) && meets(accepts, connects));
        }
    }
    let twice = directory.replace_authority(now(), QUARTER).unwrap_err();
    assert!(matches!(twice, CertificateError::Overlap), "{twice}");

    let mut directory = Directory::open(path.path()).unwrap();
    directory.end_overlap().unwrap();
    let (last_oregon, last_tokyo) = (load(&directory, "oregon"), load(&directory, "tokyo"));
    assert_eq!(last_oregon.authorities().len(), 1);
    assert!(meets(&last_oregon, &last_tokyo) && meets(&last_oregon, &new_tokyo));
    assert!(!meets(&oregon, &last_tokyo), "the older authority is believed no more");
    assert!(!path.path().join("authority/previous.pem").exists());
    let over = directory.end_overlap().unwrap_err();
    assert!(matches!(over, CertificateError::NoOverlap), "{over}");
}

#[test]
fn both_authorities_revoke_while_they_overlap() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = directory(path.path());
    let old = load(&directory, "oregon");
    directory.replace_authority(now(), QUARTER).unwrap();
    let new = load(&directory, "oregon");
    directory.remove(&server("oregon"), now()).unwrap();
    let tokyo = load(&directory, "tokyo");
    for removed in [&old, &new] {
        let refused = meet(&tokyo, removed).unwrap_err();
        assert_eq!(Refusal::of(&refused), Some(Refusal::Removed { claimed: server("oregon") }));
    }
}

#[test]
fn an_overlap_does_not_end_before_all_have_the_newer_authority() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = directory(path.path());
    let old = load(&directory, "tokyo");
    directory.replace_authority(now(), QUARTER).unwrap();
    old.save(&directory.folder(&server("tokyo"))).unwrap();
    let error = Directory::open(path.path()).unwrap().end_overlap().unwrap_err().to_string();
    assert!(
        error.contains("tokyo/server-0: found a certificate of the older authority"),
        "{error}"
    );
    assert_eq!(load(&directory, "oregon").authorities().len(), 2, "nothing has changed");
}

/// The authority is written before the folders of nodes.
#[test]
fn an_overlap_whose_end_has_failed_half_way_is_ended_by_another_call() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = directory(path.path());
    directory.replace_authority(now(), QUARTER).unwrap();
    // A folder in the place of a draft, which cannot be written.
    let draft = directory.folder(&server("tokyo")).join(".trust.pem.part");
    fs::create_dir(&draft).unwrap();
    let failed = directory.end_overlap().unwrap_err();
    assert!(matches!(failed, CertificateError::Io { .. }), "{failed}");
    assert_eq!(load(&directory, "tokyo").authorities().len(), 2);

    fs::remove_dir(&draft).unwrap();
    let mut directory = Directory::open(path.path()).unwrap();
    directory.end_overlap().unwrap();
    for dc in ["oregon", "tokyo"] {
        assert_eq!(load(&directory, dc).authorities().len(), 1, "{dc}");
    }
    let over = directory.end_overlap().unwrap_err();
    assert!(matches!(over, CertificateError::NoOverlap), "{over}");
}

#[test]
fn a_folder_without_a_list_of_what_is_revoked_is_no_good() {
    let path = tempfile::tempdir().unwrap();
    let directory = directory(path.path());
    let folder = directory.folder(&server("oregon"));
    let trust = fs::read_to_string(folder.join("trust.pem")).unwrap();
    let list = trust.find("-----BEGIN X509 CRL").unwrap();
    fs::write(folder.join("trust.pem"), &trust[..list]).unwrap();
    let error = Credentials::load(&folder).unwrap_err().to_string();
    assert!(
        error
            .contains("an authority without a revocation list, expected a revocation list of each"),
        "{error}"
    );

    let other = tempfile::tempdir().unwrap();
    let others = self::directory(other.path());
    let theirs = fs::read_to_string(others.folder(&server("oregon")).join("trust.pem")).unwrap();
    let theirs = &theirs[theirs.find("-----BEGIN X509 CRL").unwrap()..];
    fs::write(folder.join("trust.pem"), format!("{}{theirs}", &trust[..list])).unwrap();
    let error = Credentials::load(&folder).unwrap_err().to_string();
    assert!(error.contains("an authority without a revocation list"), "{error}");
}

type Breaks = fn(&str) -> String;

/// One file of a directory is put out of order: whoever reads it says which, what is in it and what should be.
#[test]
fn wrong_files_are_named_with_what_was_expected() {
    let node = |file: &'static str| format!("nodes/oregon/server-0/{file}");
    let cases: [(String, Breaks, &str); 8] = [
        (node("node.pem"), |_| String::new(), "expected one"),
        (node("node.pem"), |text| text.replace("PRIVATE KEY", "PUBLIC KEY"), "`PUBLIC KEY`"),
        (
            node("node.pem"),
            |text| text[..text.len() / 2].into(),
            "found no certificate, expected the certificate of a node",
        ),
        (node("node.pem"), |text| text.repeat(2), "expected one"),
        (node("trust.pem"), |_| String::new(), "found no authority"),
        (node("trust.pem"), |text| text.replacen("MII", "MIJ", 1), "expected an authority"),
        ("authority/issued.json".into(), |text| text.replace("serial", "cereal"), "cereal"),
        (
            "authority/current.pem".into(),
            |_| "-----BEGIN".into(),
            "expected the key and certificate",
        ),
    ];
    for (file, broken, says) in cases {
        let path = tempfile::tempdir().unwrap();
        directory(path.path());
        let file = path.path().join(file);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, broken(&text)).unwrap();
        let error = Directory::open(path.path())
            .and_then(|directory| directory.list(now()))
            .expect_err(says)
            .to_string();
        assert!(error.contains(says), "should say {says:?}: {error}");
        let named = file.file_name().unwrap().to_str().unwrap();
        let folder = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert!(error.contains(named) || error.contains(folder), "should name {named}: {error}");
    }
}

#[test]
fn a_key_beside_another_certificate_is_refused() {
    let path = tempfile::tempdir().unwrap();
    let directory = directory(path.path());
    let read = |dc| fs::read_to_string(directory.folder(&server(dc)).join("node.pem")).unwrap();
    let (oregon, tokyo) = (read("oregon"), read("tokyo"));
    let at = |text: &str| text.find("-----BEGIN CERTIFICATE").unwrap();
    let mixed = format!("{}{}", &oregon[..at(&oregon)], &tokyo[at(&tokyo)..]);
    let folder = directory.folder(&server("oregon"));
    fs::write(folder.join("node.pem"), mixed).unwrap();
    let error = Credentials::load(&folder).unwrap_err().to_string();
    assert!(error.contains("a key that does not fit the certificate"), "{error}");
}

#[cfg(unix)]
#[test]
fn keys_are_for_their_owner_alone_and_no_drafts_are_left() {
    use std::os::unix::fs::PermissionsExt;

    let path = tempfile::tempdir().unwrap();
    let directory = directory(path.path());
    let folder = directory.folder(&server("oregon"));
    let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
    for file in [path.path().join("authority/current.pem"), folder.join("node.pem")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert!(!fs::read_to_string(folder.join("trust.pem")).unwrap().contains("PRIVATE"));
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["node.pem", "trust.pem"]);
    let tokyo = load(&directory, "tokyo");
    assert!(accept(&tokyo, &[server("oregon")], Shown::Nothing).is_err());
}
