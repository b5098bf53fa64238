//! Kubernetes: the manifests fit together, and the published schemas and kustomize take them.

use std::collections::BTreeSet;
use std::fs;

use gaia_config::RunFile;
use serde_json::{Value, json};

use super::*;
use crate::manifests::{Manifests, documents};

/// Settings of a run whose data centers are in clusters of their own.
const ADDRESSES: [&str; 8] = [
    "--set",
    "topology.coordinator_address=coordinator.example.org:7000",
    "--set",
    "topology.data_center.0.server_addresses=[\"virginia.example.org:7001\"]",
    "--set",
    "topology.data_center.1.server_addresses=[\"192.0.2.7:7001\"]",
    "--set",
    "topology.data_center.2.server_addresses=[\"ireland.example.org:7001\"]",
];

const DATA: [&str; 4] =
    ["--set", "app.data.source=movielens", "--set", "app.data.path=/data/{dc}/ratings.csv"];

const OBJECTS: [&str; 4] =
    ["--set", "app.data.source=movielens", "--set", "app.data.path=s3://ratings/{dc}/"];

/// The faults of all data centers of a deployment.
fn faults(bench: &Bench, out: &str, data: Option<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    for (dc, processes) in PROCESSES {
        let folder = bench.path(out).join(dc);
        let plan = RunFile::read(&folder.join("run.toml"), &[]).unwrap().plan().unwrap();
        let manifests = Manifests::read(&folder);
        faults.extend(manifests.faults(&plan, dc, data));
        assert_eq!(manifests.jobs().len(), processes.len());
    }
    faults
}

#[test]
fn every_address_port_secret_and_volume_leads_to_something() {
    let bench = Bench::new();
    bench.deploy("kubernetes", "together", &[]);
    assert_eq!(faults(&bench, "together", None), [""; 0]);

    bench.deploy("kubernetes", "apart", &[&ADDRESSES[..], &DATA].concat());
    assert_eq!(faults(&bench, "apart", Some("gaia-three-data")), [""; 0]);
    let virginia = Manifests::read(&bench.path("apart/virginia"));
    // The headless one, that of the coordinator and that of the server.
    assert_eq!(virginia.services().len(), 3);
    // Clusters of their own are not applied together.
    assert!(bench.path("together/kustomization.yaml").exists());
    assert!(!bench.path("apart/kustomization.yaml").exists());
}

/// Containers have a file system that is read-only.
#[test]
fn examples_on_disk_have_a_volume_in_the_pods_that_read_data() {
    let bench = Bench::new();
    let on_disk = |path: &str, scratch: &str| -> Vec<String> {
        let settings = ["source=movielens", "examples=disk", path, scratch].into_iter();
        let flags = settings.map(|setting| ["--set".to_owned(), format!("app.data.{setting}")]);
        flags.flatten().collect()
    };
    let check = |out: &str, settings: Vec<String>, dc: &str, expect: &[(&str, &[&str])]| {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        bench.deploy("kubernetes", out, &settings);
        assert_eq!(faults(&bench, out, Some("gaia-three-data")), [""; 0], "{out}");
        let manifests = Manifests::read(&bench.path(out).join(dc));
        let found: Vec<(String, Vec<String>)> = manifests
            .jobs()
            .iter()
            .map(|job| {
                let pod = &job["spec"]["template"]["spec"];
                let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap().iter();
                let scratch = mounts.filter(|mount| mount["name"] == "scratch");
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (text(&pod["hostname"]), scratch.map(|mount| text(&mount["mountPath"])).collect())
            })
            .collect();
        let expect: Vec<(String, Vec<String>)> = expect
            .iter()
            .map(|(pod, at)| ((*pod).into(), at.iter().map(|at| (*at).into()).collect()))
            .collect();
        assert_eq!(found, expect, "{out}");
    };

    // Only workers have data where each data center has its own.
    let own = on_disk("path=/data/{dc}/ratings.csv", "scratch=/var/tmp");
    let expect: [(&str, &[&str]); 2] = [("server-0", &[]), ("worker-0", &["/var/tmp"])];
    check("own", own, "Tokyo_1", &expect);
    let elsewhere = on_disk("path=/data/{dc}/ratings.csv", "at.ireland.scratch=/mnt/fast");
    check("elsewhere", elsewhere, "ireland", &[("server-0", &["/mnt/fast"])]);
    let whole = on_disk("path=/data/ratings.csv", "scratch=/tmp");
    check("whole", whole, "Tokyo_1", &[("server-0", &["/tmp"]), ("worker-0", &["/tmp"])]);
    let state = on_disk("path=/data/ratings.csv", "scratch=/var/lib/gaia");
    check("state", state, "Tokyo_1", &[("server-0", &[]), ("worker-0", &[])]);

    let below = on_disk("path=/data/ratings.csv", "scratch=/data/scratch");
    let mut deploy = vec!["deploy", "kubernetes", "run.toml", "--out", "below"];
    deploy.extend(below.iter().map(String::as_str));
    let refused = bench.gaia(&deploy);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let expect = "`app.data.scratch` is `/data/scratch`, expected a folder beside those";
    assert!(said(&refused).contains(expect), "{}", said(&refused));
}

#[test]
fn credentials_of_object_storage_come_from_a_secret() {
    let bench = Bench::new();
    bench.deploy("kubernetes", "objects", &OBJECTS);
    bench.deploy("kubernetes", "files", &DATA);
    assert_eq!(faults(&bench, "objects", None), [""; 0], "nothing is mounted");
    for (out, secret) in [("objects", Some("gaia-three-credentials")), ("files", None)] {
        for job in Manifests::read(&bench.path(out).join("virginia")).jobs() {
            let container = &job["spec"]["template"]["spec"]["containers"][0];
            let found = &container["envFrom"][0]["secretRef"];
            assert_eq!(found["name"].as_str(), secret, "{found}");
            assert_eq!(found["optional"].as_bool(), secret.map(|_| true));
        }
        let readme = fs::read_to_string(bench.path(out).join("README.md")).unwrap();
        assert_eq!(readme.contains("gaia-three-credentials"), secret.is_some());
    }
}

/// A loop that writes a checkpoint stands still, and says so.
#[test]
fn a_node_that_writes_a_checkpoint_for_minutes_is_not_killed() {
    let bench = Bench::new();
    bench.deploy("kubernetes", "out", &[]);
    for (dc, _) in PROCESSES {
        for job in Manifests::read(&bench.path("out").join(dc)).jobs() {
            let probe = &job["spec"]["template"]["spec"]["containers"][0]["livenessProbe"];
            let [every, failures] =
                ["periodSeconds", "failureThreshold"].map(|key| probe[key].as_u64().unwrap());
            assert!(every * failures >= 600, "{probe}");
        }
    }
}

#[test]
fn pods_that_have_ipv6_addresses_alone_listen_at_them() {
    let bench = Bench::new();
    bench.deploy("kubernetes", "out", &["--ipv6"]);
    let listens: Vec<(String, String)> = Manifests::read(&bench.path("out/virginia"))
        .jobs()
        .iter()
        .flat_map(|job| {
            let container = &job["spec"]["template"]["spec"]["containers"][0];
            let words = container["args"].as_array().unwrap().iter();
            let words: Vec<String> = words.map(|word| word.as_str().unwrap().to_owned()).collect();
            let pairs = words.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
            pairs.filter(|(flag, _)| flag == "--listen" || flag == "--metrics").collect::<Vec<_>>()
        })
        .collect();
    // The coordinator and a server listen; they and two workers serve metrics.
    assert_eq!(listens.len(), 2 + 4, "{listens:?}");
    assert!(listens.iter().all(|(_, at)| at.starts_with("[::]:")), "{listens:?}");
}

#[test]
fn names_of_objects_are_labels_and_differ() {
    let bench = Bench::new();
    bench.deploy("kubernetes", "out", &ADDRESSES);
    let mut seen = BTreeSet::new();
    for (dc, _) in PROCESSES {
        for object in Manifests::read(&bench.path("out").join(dc)).objects {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.len() <= 63 && name.chars().all(fits), "{name}");
            assert!(seen.insert((object["kind"].to_string(), name.clone())), "{name} twice");
        }
    }
}

#[test]
fn planted_faults_are_found() {
    let bench = Bench::new();
    bench.deploy("kubernetes", "out", &ADDRESSES);
    let folder = bench.path("out/virginia");
    let plan = RunFile::read(&folder.join("run.toml"), &[]).unwrap().plan().unwrap();

    let check = |what: &str, expect: &str, plant: &dyn Fn(&mut Manifests)| {
        let mut manifests = Manifests::read(&folder);
        plant(&mut manifests);
        let found = manifests.faults(&plan, "virginia", None);
        assert!(found.iter().any(|fault| fault.contains(expect)), "{what}: {found:?}");
    };
    let object = |kind: &'static str, name: &'static str| {
        move |manifests: &mut Manifests| {
            let is_it =
                |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
            manifests.objects.iter().position(is_it).unwrap()
        }
    };
    let job = object("Job", "gaia-three-virginia-server-0");
    let container = "/spec/template/spec/containers/0";
    let set = |at: String, value: Value| {
        move |manifests: &mut Manifests| {
            let job = job(manifests);
            *manifests.objects[job].pointer_mut(&at).unwrap() = value.clone();
        }
    };

    check(
        "a port",
        "the program opens",
        &set(format!("{container}/ports/0/containerPort"), json!(1)),
    );
    check(
        "a probe",
        "its readinessProbe asks",
        &set(format!("{container}/readinessProbe/httpGet/port"), json!("mirrors")),
    );
    check(
        "a mount",
        "its mounts are not",
        &set(format!("{container}/volumeMounts/2/name"), json!("x")),
    );
    check(
        "another's claim",
        "is another pod's, too",
        &set(
            "/spec/template/spec/volumes/2/persistentVolumeClaim/claimName".into(),
            json!("gaia-three-virginia-worker-0"),
        ),
    );
    check(
        "another's key",
        "virginia/server-0 has",
        &set(
            "/spec/template/spec/volumes/1/secret/secretName".into(),
            json!("gaia-three-virginia-worker-0-certs"),
        ),
    );
    check(
        "no Secret",
        "nothing makes Secret",
        &set("/spec/template/spec/volumes/1/secret/secretName".into(), json!("x")),
    );
    check(
        "a subdomain",
        "no headless service",
        &set("/spec/template/spec/subdomain".into(), json!("x")),
    );
    check(
        "a label",
        "selects 0 pods",
        &set("/spec/template/metadata/labels/app.kubernetes.io~1component".into(), json!("x")),
    );
    let service = object("Service", "gaia-three-virginia-server-0");
    check("a service's port", "and its service is", &|manifests| {
        let service = service(manifests);
        manifests.objects[service]["spec"]["ports"][0]["port"] = json!(1);
    });
    check("no service", "where nothing leads to", &|manifests| {
        let service = service(manifests);
        manifests.objects.remove(service);
    });
    check("no run file", "is not in ConfigMap", &|manifests| {
        manifests.kustomization["configMapGenerator"] = json!([]);
    });
}

#[test]
fn the_published_schemas_take_every_manifest() {
    let validator = "kubernetes-validate";
    if !installed(validator) {
        println!("skipped: {validator} is not installed; it is a Python package");
        return;
    }
    let bench = Bench::new();
    bench.deploy("kubernetes", "together", &[]);
    bench.deploy("kubernetes", "apart", &[&ADDRESSES[..], &DATA].concat());
    bench.deploy("kubernetes", "objects", &OBJECTS);

    let is_valid = |path: &Path| {
        let output = bench.command(validator).args(["--strict", "--quiet"]).arg(path).output();
        let output = output.unwrap();
        (output.status.success(), said(&output) + &String::from_utf8_lossy(&output.stdout))
    };
    for out in ["together", "apart", "objects"] {
        for (dc, _) in PROCESSES {
            for name in ["services.yaml", "claims.yaml", "jobs.yaml"] {
                let path = bench.path(out).join(dc).join(name);
                let (valid, said) = is_valid(&path);
                assert!(valid, "{path:?}: {said}");
            }
        }
    }

    // Strict: a field that the API does not know is refused.
    let jobs = bench.path("apart/ireland/jobs.yaml");
    let text = fs::read_to_string(&jobs).unwrap();
    let planted = text.replace("completions: 1", "completions: 1\n  completion: 1");
    fs::write(&jobs, planted).unwrap();
    assert!(!is_valid(&jobs).0);
}

#[test]
fn kustomize_makes_the_objects_of_all_data_centers() {
    if !installed("kubectl") {
        println!("skipped: kubectl is not installed");
        return;
    }
    let bench = Bench::new();
    bench.deploy("kubernetes", "out", &[]);
    let output = bench.command("kubectl").args(["kustomize", "out"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    fs::write(bench.path("all.yaml"), &output.stdout).unwrap();

    let all = documents(&bench.path("all.yaml"));
    let count = |kind: &str| all.iter().filter(|object| object["kind"] == kind).count();
    let processes = PROCESSES.iter().map(|(_, processes)| processes.len()).sum::<usize>();
    let kinds = ["Service", "ConfigMap", "Secret", "PersistentVolumeClaim", "Job"];
    assert_eq!(kinds.map(count), [3, 3, processes, processes, processes]);
}

#[test]
fn what_does_not_fit_kubernetes_is_refused_with_its_reason() {
    let bench = Bench::new();
    let check = |arguments: &[&str], expect: &str| {
        let verb = ["deploy", "kubernetes", "run.toml", "--out", "out"];
        let output = bench.gaia(&[&verb, arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(expect), "{arguments:?}: {}", said(&output));
        assert!(!bench.path("out").exists(), "{arguments:?}");
    };
    check(&["--set", "topology.data_center.0.name=tokyo-1"], "`tokyo-1` and `Tokyo_1` are both");
    let long = format!("name={}", "n".repeat(50));
    check(&["--set", &long], "expected at most 63: shorten the name");
    check(
        &["--set", "app.data.source=movielens", "--set", "app.data.path=/ratings.csv"],
        "the data is at `/ratings.csv`, expected a path below one folder",
    );
    check(&["--image", "a b"], "--image");
    check(&["--storage", "ten"], "--storage");
}

#[test]
fn the_image_has_what_the_program_needs_and_does_not_run_as_root() {
    let bench = Bench::new();
    bench.deploy("kubernetes", "out", &["--image", "registry.example.org/gaia:7"]);
    let text = fs::read_to_string(bench.path("out/Dockerfile")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let last_stage = lines.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert!(lines[last_stage].contains("distroless/cc"), "{text}");
    let copied = "COPY --from=build /source/target/release/gaia /usr/local/bin/gaia";
    assert!(lines[last_stage..].contains(&copied), "{text}");
    assert!(lines[last_stage..].contains(&"USER 65532:65532"), "{text}");
    assert!(lines[last_stage..].contains(&"ENTRYPOINT [\"/usr/local/bin/gaia\"]"), "{text}");
    let jobs = fs::read_to_string(bench.path("out/ireland/jobs.yaml")).unwrap();
    assert!(jobs.contains("image: registry.example.org/gaia:7\n"), "{jobs}");
    assert!(jobs.contains("runAsUser: 65532\n"), "{jobs}");

    #[cfg(target_os = "linux")]
    check_libraries(&bench);
}

/// The program needs no library that the image lacks.
#[cfg(target_os = "linux")]
fn check_libraries(bench: &Bench) {
    let output = bench.command("ldd").arg(env!("CARGO_BIN_EXE_gaia")).output().unwrap();
    let libraries = String::from_utf8(output.stdout).unwrap();
    for line in libraries.lines().filter(|line| !line.contains("statically linked")) {
        let known = ["linux-vdso", "libgcc_s", "libc.", "libm.", "ld-linux", "libpthread", "libdl"];
        assert!(known.iter().any(|known| line.contains(known)), "not in the image: {line}");
    }
}
