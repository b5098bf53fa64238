//! Nodes that run while their folders change: whom they believe is read again, and a removed node is parted from.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use gaia_certificates::{Directory, Proof, Refusal, accepting, connecting};
use rustls::{ClientConnection, ServerConnection};

use super::*;

const QUARTER: Duration = Duration::from_secs(90 * 86_400);

fn load(directory: &Directory, dc: &str) -> Credentials {
    Credentials::load(&directory.folder(&server(dc))).unwrap()
}

/// Whether what a peer has shown is revoked by now.
fn revoked(proof: &mut Proof) -> Option<Refusal> {
    match pin!(proof.revoked()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(refusal) => Some(refusal),
        Poll::Pending => None,
    }
}

/// A handshake over what each end has long since made.
fn meet(
    connects: &Arc<rustls::ClientConfig>,
    accepts: &Arc<rustls::ServerConfig>,
) -> Result<(), rustls::Error> {
    let name = gaia_certificates::SERVER_NAME.try_into().unwrap();
    let mut client = ClientConnection::new(connects.clone(), name).unwrap();
    let mut server = ServerConnection::new(accepts.clone()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut sent.as_slice()).unwrap();
        server.process_new_packets()?;
        let mut answer = Vec::new();
        server.write_tls(&mut answer).unwrap();
        client.read_tls(&mut answer.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

fn trust_file(folder: &Path) -> std::path::PathBuf {
    folder.join("trust.pem")
}

#[test]
fn a_running_node_learns_whom_it_is_to_believe_no_more() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = Directory::create(path.path(), RUN, days_from_now(-365)).unwrap();
    directory.issue(&["oregon", "sydney", "tokyo"].map(server), now(), QUARTER).unwrap();
    let [oregon, sydney, tokyo] = ["oregon", "sydney", "tokyo"].map(|dc| load(&directory, dc));
    let folder = directory.folder(&server("tokyo"));
    let accepts = Arc::new(accepting(&tokyo, ["oregon", "sydney"].map(server)));
    let connects = Arc::new(connecting(&oregon, &server("tokyo")));
    let also = Arc::new(connecting(&sydney, &server("tokyo")));
    let mut shown = [&oregon, &sydney].map(|peer| tokyo.proof(peer.chain().to_vec()));
    assert!(!tokyo.reload(&folder).unwrap(), "nothing has changed");
    meet(&connects, &accepts).unwrap();
    assert!(shown.each_mut().map(revoked).iter().all(Option::is_none));

    directory.remove(&server("oregon"), now()).unwrap();
    meet(&connects, &accepts).expect("it has not looked");
    assert!(tokyo.clone().reload(&folder).unwrap());
    assert!(!tokyo.reload(&folder).unwrap());
    let removed = Refusal::Removed { claimed: server("oregon") };
    let refused = meet(&connects, &accepts).unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(removed.clone()));
    meet(&also, &accepts).unwrap();
    assert_eq!(shown.each_mut().map(revoked), [Some(removed.clone()), None]);
    // Who was let in while this was read is parted from too.
    assert_eq!(revoked(&mut tokyo.proof(oregon.chain().to_vec())), Some(removed));

    directory.issue(&[server("oregon")], now(), QUARTER).unwrap();
    let again = Arc::new(connecting(&load(&directory, "oregon"), &server("tokyo")));
    meet(&again, &accepts).unwrap();
}

#[test]
fn a_file_that_cannot_be_believed_changes_nothing() {
    let path = tempfile::tempdir().unwrap();
    let mut directory = Directory::create(path.path(), RUN, days_from_now(-365)).unwrap();
    directory.issue(&["oregon", "tokyo"].map(server), now(), QUARTER).unwrap();
    directory.remove(&server("oregon"), now()).unwrap();
    let (oregon, tokyo) = (load(&directory, "oregon"), load(&directory, "tokyo"));
    let folder = directory.folder(&server("tokyo"));
    let whole = std::fs::read_to_string(trust_file(&folder)).unwrap();
    let accepts = Arc::new(accepting(&tokyo, [server("oregon")]));
    let connects = Arc::new(connecting(&oregon, &server("tokyo")));
    let without_list = whole.split("-----BEGIN X509 CRL").next().unwrap();
    for wrong in [&whole[..whole.len() / 2], without_list, ""] {
        std::fs::write(trust_file(&folder), wrong).unwrap();
        let error = tokyo.reload(&folder).unwrap_err().to_string();
        assert!(error.contains("trust.pem"), "{error}");
        assert!(meet(&connects, &accepts).is_err());
    }
    std::fs::remove_file(trust_file(&folder)).unwrap();
    assert!(tokyo.reload(&folder).is_err());
    assert!(meet(&connects, &accepts).is_err());
}
