//! `gaia certs` as it is called.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use gaia_certificates::{Credentials, Directory, Identity};
use serde_json::Value;
use tempfile::TempDir;

use super::handshake::meet;

/// A folder with a run of two data centers, of one server and two workers each.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("run.toml"),
        "name = \"demo\"\n\
         [app]\nkind = \"matrix-factorization\"\n\
         [topology]\nname = \"pair\"\n\
         defaults = { servers = 1, workers = 2, lan_bandwidth = \"1 Gbit/s\" }\n\
         data_center = [{ name = \"oregon\" }, { name = \"tokyo\" }]\n\
         wan = { bandwidth = \"100 Mbit/s\", rtt = \"80 ms\" }\n\
         [sync.remote]\nmodel = \"asp\"\n\
         [stop]\nclocks = 10\n",
    )
    .unwrap();
    folder
}

fn gaia(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::cargo_bin("gaia").unwrap();
    command.current_dir(folder).env("NO_COLOR", "1").arg("certs").args(arguments.split(' '));
    command
}

/// What a verb says, having done what it should.
fn says(folder: &Path, arguments: &str) -> (String, String) {
    let output = gaia(folder, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (said, noted) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments}: {noted}");
    (said, noted)
}

/// What a verb complains of, having ended with exit code 2 and printed no result.
fn refusal(folder: &Path, arguments: &str) -> String {
    let output = gaia(folder, arguments).output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments}: {complaint}");
    assert!(output.stdout.is_empty(), "{arguments} printed a result");
    complaint
}

fn rows(json: &str) -> Vec<(String, String)> {
    let answer: Value = serde_json::from_str(json).unwrap();
    assert_eq!(answer["run"], "demo");
    let rows = answer["certificates"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["name"]), text(&row["state"]))).collect()
}

#[test]
fn every_node_of_a_topology_gets_a_folder() {
    let folder = folder();
    let (said, noted) = says(folder.path(), "init run.toml");
    assert!(said.starts_with("certificates of run demo, in certs\n"), "{said}");
    assert!(noted.contains("copy each folder under certs/nodes"), "{noted}");
    assert!(!said.contains('\u{1b}'), "{said}");
    let nodes = [
        "oregon/coordinator",
        "oregon/server-0",
        "oregon/worker-0",
        "oregon/worker-1",
        "tokyo/server-0",
        "tokyo/worker-0",
        "tokyo/worker-1",
    ];
    for node in nodes {
        let path = folder.path().join("certs/nodes").join(node);
        assert_eq!(Credentials::load(&path).unwrap().identity().folder(), node);
        assert!(said.contains(node), "{said}");
    }
    let (json, _) = says(folder.path(), "show --json");
    let rows = rows(&json);
    assert_eq!(rows.len(), nodes.len() + 1);
    assert!(rows.iter().all(|(_, state)| state == "valid"), "{json}");
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["certificates"][4]["identity"], "gaia://demo/oregon/coordinator/0");
    let days = answer["certificates"][4]["days_left"].as_u64().unwrap();
    assert!((89..=90).contains(&days), "{days}");
    assert_eq!(answer["certificates"][4]["fingerprint"].as_str().unwrap().len(), 64);

    let (said, _) = says(folder.path(), "show --out certs/nodes/tokyo/worker-1");
    assert_eq!(said.lines().filter(|line| line.contains("worker")).count(), 2, "{said}");
}

#[test]
fn an_authority_is_not_overwritten() {
    let folder = folder();
    says(folder.path(), "init run.toml --quiet --out mine");
    let before = fs::read(folder.path().join("mine/authority/current.pem")).unwrap();
    let complaint = refusal(folder.path(), "init run.toml --out mine");
    assert!(complaint.contains("error: mine: found certificates"), "{complaint}");
    assert!(complaint.contains("expected a new or an empty directory"), "{complaint}");
    assert_eq!(fs::read(folder.path().join("mine/authority/current.pem")).unwrap(), before);
}

#[test]
fn nodes_come_are_renewed_and_go() {
    let folder = folder();
    let path = folder.path();
    says(path, "init run.toml --quiet");
    let (json, noted) = says(path, "issue --dc sydney --server 0 --validity 36h --json");
    assert_eq!(rows(&json), [("sydney/server-0".into(), "valid".into())]);
    assert!(noted.contains("`sydney` is a new data center"), "{noted}");

    let node = path.join("certs/nodes/oregon/server-0/node.pem");
    let first = fs::read(&node).unwrap();
    let (json, _) = says(path, "rotate --dc oregon --server 0 --json");
    assert_eq!(rows(&json).len(), 1);
    let second = fs::read(&node).unwrap();
    assert_ne!(first, second);
    let (json, _) = says(path, "rotate --json --validity 30d");
    assert_eq!(rows(&json).len(), 9);
    assert_ne!(fs::read(&node).unwrap(), second);

    let (said, noted) = says(path, "revoke --dc tokyo --server 0");
    assert!(said.contains("removed"), "{said}");
    assert!(noted.contains("trust.pem"), "{noted}");
    let directory = Directory::open(&path.join("certs")).unwrap();
    let load = |dc| Credentials::load(&directory.folder(&Identity::server("demo", dc, 0))).unwrap();
    assert!(meet(&load("oregon"), &load("tokyo")).is_err());
    assert!(meet(&load("oregon"), &load("sydney")).is_ok());
    says(path, "rotate --quiet");
    assert!(meet(&load("oregon"), &load("tokyo")).is_err(), "a removed node is not renewed");
    let complaint = refusal(path, "rotate --dc tokyo --server 0");
    assert!(complaint.contains("gaia://demo/tokyo/server/0 has no certificate"), "{complaint}");
}

#[test]
fn an_authority_is_replaced_in_two_steps() {
    let folder = folder();
    let path = folder.path();
    says(path, "init run.toml --quiet");
    let (said, noted) = says(path, "rotate --authority");
    assert_eq!(said.lines().filter(|line| line.contains("authority")).count(), 2, "{said}");
    assert!(noted.contains("--end-overlap"), "{noted}");
    let complaint = refusal(path, "rotate --authority");
    assert!(complaint.contains("is being replaced already"), "{complaint}");
    let (said, _) = says(path, "rotate --end-overlap");
    assert_eq!(said.lines().filter(|line| line.contains("authority")).count(), 1, "{said}");
    let complaint = refusal(path, "rotate --end-overlap");
    assert!(complaint.contains("found one authority, expected two"), "{complaint}");
}

#[test]
fn show_warns_of_what_expires_soon() {
    let folder = folder();
    let path = folder.path();
    says(path, "init run.toml --quiet");
    let directory = path.join("certs");
    let day = std::time::Duration::from_secs(86_400);
    let long_ago = super::days_from_now(-80);
    let node = Identity::server("demo", "tokyo", 0);
    fs::remove_dir_all(&directory).unwrap();
    let mut made = Directory::create(&directory, "demo", long_ago).unwrap();
    made.issue(&[node], long_ago, 90 * day).unwrap();
    made.issue(&[Identity::server("demo", "oregon", 0)], long_ago, 79 * day).unwrap();
    let (said, noted) = says(path, "show");
    assert!(said.contains("expires soon") && said.contains("expired"), "{said}");
    assert!(noted.contains("warning: 2 certificates have expired or will soon expire"), "{noted}");
    let (json, _) = says(path, "show --json");
    assert_eq!(rows(&json)[1], ("oregon/server-0".into(), "expired".into()));
}

#[test]
fn mistakes_are_named_with_what_was_expected() {
    let folder = folder();
    let path = folder.path();
    for (arguments, said) in [
        (
            "show",
            "issued.json: no such file, expected the certificates of a run, as gaia certs init",
        ),
        ("show --out run.toml", "run.toml/authority/issued.json"),
        ("init none.toml", "none.toml"),
        ("init run.toml --set topology.nme=x", "topology.nme"),
        ("init run.toml --validity 90", "expected a time from 1h to 3650d"),
        ("init run.toml --validity 0d", "expected a time from 1h to 3650d"),
        ("init run.toml --validity 99999999999999999999d", "expected a time from 1h to 3650d"),
        ("issue --server 0", "--dc"),
        ("issue --dc oregon", "--server <N>|--worker <N>|--coordinator"),
        ("issue --dc oregon --server 0 --worker 1", "cannot be used with"),
        ("issue --dc oregon --server 65536", "65536"),
        ("rotate --server 0", "--dc"),
        ("rotate --authority --dc oregon --server 0", "cannot be used with"),
        ("rotate --authority --end-overlap", "cannot be used with"),
    ] {
        let complaint = refusal(path, arguments);
        assert!(complaint.contains(said), "{arguments} should say {said:?}: {complaint}");
        assert!(!path.join("certs").exists(), "{arguments} left something");
    }
    says(path, "init run.toml --quiet");
    let complaint = refusal(path, "revoke --dc oregon --server 7");
    assert!(complaint.contains("gaia://demo/oregon/server/7 has no certificate"), "{complaint}");
}
