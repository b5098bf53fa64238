//! Which keys a deployment gives to a data center, and what a second deployment keeps.

use std::collections::BTreeSet;
use std::fs;

use gaia_certificates::Credentials;

use super::*;

#[test]
fn a_data_center_gets_the_keys_of_its_own_nodes_and_nothing_of_the_authority() {
    let bench = Bench::new();
    for scheduler in SCHEDULERS {
        bench.deploy(scheduler, scheduler, &[]);
        let authority =
            fs::read_to_string(bench.path(scheduler).join("certs/authority/current.pem")).unwrap();
        let secret = authority.lines().nth(1).unwrap();

        for (dc, processes) in PROCESSES {
            let mut nodes: BTreeSet<String> =
                processes.iter().map(|process| format!("{dc}/{process}")).collect();
            if dc == "ireland" {
                nodes.insert("ireland/worker-0".into());
            }

            let folder = bench.path(scheduler).join(dc);
            let mut found = BTreeSet::new();
            for file in files(&folder) {
                let text = fs::read_to_string(&file).unwrap();
                assert!(!text.contains(secret), "{file:?} has the authority's key");
                if file.ends_with("node.pem") {
                    let credentials = Credentials::load(file.parent().unwrap()).unwrap();
                    let own = credentials.identity().folder();
                    assert!(file.parent().unwrap().ends_with(format!("certs/nodes/{own}")));
                    check_mode(&file);
                    found.insert(own);
                } else {
                    assert!(!text.contains("PRIVATE KEY"), "{file:?} has a key");
                }
            }
            assert_eq!(found, nodes, "{scheduler}");
        }
    }
}

#[test]
fn a_second_deployment_keeps_certificates_and_takes_in_new_nodes() {
    let bench = Bench::new();
    bench.deploy("local", "out", &[]);
    let old = bench.path("out/Tokyo_1/certs/nodes/Tokyo_1/server-0/node.pem");
    let new = bench.path("out/Tokyo_1/certs/nodes/Tokyo_1/worker-1/node.pem");
    let key = fs::read(&old).unwrap();
    assert!(!new.exists());

    bench.deploy("local", "out", &["--set", "topology.defaults.workers=2"]);
    assert_eq!(fs::read(&old).unwrap(), key);
    assert!(new.exists());

    let rotated = ["certs", "rotate", "--out", "out/certs", "--dc", "Tokyo_1", "--server", "0"];
    assert_eq!(bench.gaia(&rotated).status.code(), Some(0));
    bench.deploy("local", "out", &[]);
    assert_ne!(fs::read(&old).unwrap(), key, "the new certificate has not arrived");
}

#[test]
fn a_node_whose_certificate_is_gone_is_given_another() {
    let bench = Bench::new();
    bench.deploy("local", "out", &[]);
    let [gone, deployed, other] = [
        "out/certs/nodes/Tokyo_1/server-0",
        "out/Tokyo_1/certs/nodes/Tokyo_1/server-0/node.pem",
        "out/Tokyo_1/certs/nodes/Tokyo_1/worker-0/node.pem",
    ]
    .map(|path| bench.path(path));
    let (key, kept) = (fs::read(&deployed).unwrap(), fs::read(&other).unwrap());
    fs::remove_dir_all(&gone).unwrap();

    bench.deploy("local", "out", &[]);
    let issued = fs::read(gone.join("node.pem")).unwrap();
    assert_ne!(issued, key);
    assert_eq!(fs::read(&deployed).unwrap(), issued);
    assert_eq!(fs::read(&other).unwrap(), kept);
}

#[test]
fn folders_of_others_are_refused() {
    let bench = Bench::new();
    bench.deploy("slurm", "out", &[]);
    fs::create_dir(bench.path("other")).unwrap();
    fs::write(bench.path("other/thesis.txt"), "").unwrap();

    let check = |arguments: &[&str], expect: &str| {
        let output = bench.gaia(&[&["deploy", "local", "run.toml"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(expect), "{arguments:?}: {}", said(&output));
    };
    check(&["--out", "other"], "`other`, which holds other files");
    check(&["--out", "out", "--set", "name=second"], "which holds run `three`");
    check(&["--out", "new", "--set", "topology.data_center.0.name=certs"], "expected another name");
    assert!(!bench.path("new").exists());
    assert_eq!(files(&bench.path("other")).len(), 1);
}

#[cfg(unix)]
fn check_mode(file: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "{file:?}");
}

#[cfg(not(unix))]
fn check_mode(_: &Path) {}
