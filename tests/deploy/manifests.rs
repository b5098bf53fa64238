//! Reads the manifests of a data center back, and finds what does not fit together: addresses, ports, Secrets, volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use gaia_certificates::Credentials;
use gaia_config::Plan;
use serde_json::Value;

use super::*;

/// The manifests of one data center.
pub(crate) struct Manifests {
    pub(crate) folder: PathBuf,
    pub(crate) kustomization: Value,
    pub(crate) objects: Vec<Value>,
}

impl Manifests {
    pub(crate) fn read(folder: &Path) -> Self {
        let kustomization = documents(&folder.join("kustomization.yaml")).remove(0);
        let resources = strings(&kustomization["resources"]);
        let objects = resources.iter().flat_map(|name| documents(&folder.join(name))).collect();
        Self { folder: folder.to_owned(), kustomization, objects }
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    pub(crate) fn jobs(&self) -> Vec<&Value> {
        self.of_kind("Job").collect()
    }

    pub(crate) fn services(&self) -> Vec<&Value> {
        self.of_kind("Service").collect()
    }

    /// The keys and files of the objects that a generator makes, by their names.
    fn generated(&self, generator: &str) -> BTreeMap<String, BTreeMap<String, PathBuf>> {
        let entries = self.kustomization[generator].as_array().into_iter().flatten();
        let made = entries.map(|entry| {
            let files = strings(&entry["files"]).into_iter().map(|file| {
                let (key, path) = file.split_once('=').unwrap();
                (key.to_owned(), self.folder.join(path))
            });
            (text(&entry["name"]), files.collect())
        });
        made.collect()
    }

    /// What is wrong with the manifests of a data center of this plan, which is that of its run file. `data` is the claim
    /// for data, if the run has any.
    pub(crate) fn faults(&self, plan: &Plan, dc: &str, data: Option<&str>) -> Vec<String> {
        let mut faults = Vec::new();
        let mut claimed = BTreeSet::new();
        let mut addresses = BTreeMap::new();
        for job in self.jobs() {
            let name = text(&job["metadata"]["name"]);
            let mut fault = |what: String| faults.push(format!("{name}: {what}"));
            let pod = &job["spec"]["template"]["spec"];
            let arguments = strings(&pod["containers"][0]["args"]);
            let after = |flag: &str| {
                let at = arguments.iter().position(|argument| argument == flag)?;
                arguments.get(at + 1).cloned()
            };

            self.check_ports(job, after("--listen"), after("--metrics"), &mut fault);
            self.check_volumes(job, &arguments, data, &mut claimed, &mut fault);
            self.check_scratch(job, plan, dc, &arguments, &mut fault);
            let node = self.check_nodes(job, dc, &arguments, &mut fault);
            if let Some(listens) = after("--listen") {
                let port = listens.rsplit(':').next().unwrap().to_owned();
                let (hostname, subdomain) = (text(&pod["hostname"]), text(&pod["subdomain"]));
                addresses.insert(node, (format!("{hostname}.{subdomain}:{port}"), name.clone()));
            }
        }

        self.check_services(&mut faults);
        self.check_addresses(plan, dc, &addresses, &mut faults);
        let claims: BTreeSet<String> = self
            .of_kind("PersistentVolumeClaim")
            .map(|claim| text(&claim["metadata"]["name"]))
            .collect();
        if claims != claimed {
            faults.push(format!("claims are {claims:?}, and pods use {claimed:?}"));
        }
        faults
    }

    /// The ports that a process opens are those of its container, its probes and its annotations.
    fn check_ports(
        &self,
        job: &Value,
        listen: Option<String>,
        metrics: Option<String>,
        fault: &mut impl FnMut(String),
    ) {
        let template = &job["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        let mut opened = BTreeSet::new();
        if let Some(listen) = &listen {
            let port = listen.strip_prefix("0.0.0.0:").unwrap_or_default();
            opened.insert(("TCP".to_owned(), port.to_owned()));
            if text(&template["spec"]["hostname"]) != "coordinator" {
                opened.insert(("UDP".to_owned(), port.to_owned()));
            }
        }
        let metrics = metrics.unwrap_or_default();
        let metrics = metrics.strip_prefix("0.0.0.0:").unwrap_or_default().to_owned();
        opened.insert(("TCP".to_owned(), metrics.clone()));

        let ports: Vec<&Value> = container["ports"].as_array().into_iter().flatten().collect();
        let declared: BTreeSet<(String, String)> = ports
            .iter()
            .map(|port| (text(&port["protocol"]), port["containerPort"].to_string()))
            .collect();
        if declared != opened {
            fault(format!("its container declares {declared:?}, and the program opens {opened:?}"));
        }

        let number = |name: &Value| ports.iter().find(|port| port["name"] == *name);
        let number = |name: &Value| number(name).map(|port| port["containerPort"].to_string());
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            let get = &container[probe]["httpGet"];
            if get["path"] != path || number(&get["port"]).as_ref() != Some(&metrics) {
                fault(format!("its {probe} asks {get}, expected {path} on {metrics}"));
            }
        }
        let annotations = &template["metadata"]["annotations"];
        let scraped = ["scrape", "port", "path"]
            .map(|key| text(&annotations[format!("prometheus.io/{key}")]));
        if scraped != ["true", metrics.as_str(), "/metrics"] {
            fault(format!("Prometheus is told {scraped:?}, and metrics are on {metrics}"));
        }
    }

    /// What a pod mounts exists, is mounted where the program looks, and is not another pod's.
    fn check_volumes(
        &self,
        job: &Value,
        arguments: &[String],
        data: Option<&str>,
        claimed: &mut BTreeSet<String>,
        fault: &mut impl FnMut(String),
    ) {
        let pod = &job["spec"]["template"]["spec"];
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let volumes = pod["volumes"].as_array().unwrap();
        let names = |of: &[Value]| of.iter().map(|one| text(&one["name"])).collect::<BTreeSet<_>>();
        if names(mounts) != names(volumes) || mounts.len() != volumes.len() {
            fault("its mounts are not its volumes".into());
        }

        let (run_files, secrets) =
            (self.generated("configMapGenerator"), self.generated("secretGenerator"));
        for volume in volumes {
            let Some(mount) = mounts.iter().find(|mount| mount["name"] == volume["name"]) else {
                continue;
            };
            let at = text(&mount["mountPath"]);
            let is_below = |path: &String| path.starts_with(&format!("{at}/"));

            if let Some(name) = volume["configMap"]["name"].as_str() {
                let files = run_files.get(name).cloned().unwrap_or_default();
                let run_file = &arguments[1];
                let made = |(key, file): (&String, &PathBuf)| {
                    *run_file == format!("{at}/{key}") && file.is_file()
                };
                if !files.iter().any(made) {
                    fault(format!("{run_file} is not in ConfigMap {name}"));
                }
            } else if let Some(name) = volume["secret"]["secretName"].as_str() {
                let Some(files) = secrets.get(name) else {
                    fault(format!("nothing makes Secret {name}"));
                    continue;
                };
                for item in volume["secret"]["items"].as_array().into_iter().flatten() {
                    let key = text(&item["key"]);
                    if !files.get(&key).is_some_and(|file| file.is_file()) {
                        fault(format!("Secret {name} has no {key}"));
                    }
                }
                if !arguments.contains(&at) {
                    fault(format!("nothing reads certificates at {at}"));
                }
            } else if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                let is_data = data == Some(name);
                if (mount["readOnly"] == true) != is_data {
                    fault(format!("claim {name} is mounted for the wrong use"));
                }
                if !is_data && !claimed.insert(name.to_owned()) {
                    fault(format!("claim {name} is another pod's, too"));
                }
                if !is_data && !arguments.iter().any(is_below) {
                    fault(format!("nothing is kept at {at}"));
                }
            } else if !volume["emptyDir"].is_object() {
                fault(format!("volume {volume} has an unknown source"));
            }
        }
    }

    /// A pod whose process writes examples to disk has a volume for them, and no other pod has.
    fn check_scratch(
        &self,
        job: &Value,
        plan: &Plan,
        dc: &str,
        arguments: &[String],
        fault: &mut impl FnMut(String),
    ) {
        let pod = &job["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().unwrap();
        let is_scratch = |mount: &&Value| {
            let of_it = |volume: &&Value| volume["name"] == mount["name"];
            volumes.iter().find(of_it).is_some_and(|volume| volume["emptyDir"].is_object())
        };
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        let mounts: Vec<&Value> = mounts.iter().filter(is_scratch).collect();
        if mounts.iter().any(|mount| mount["readOnly"] == true) {
            fault("its examples cannot be written".into());
        }

        let found: BTreeSet<PathBuf> =
            mounts.iter().map(|mount| text(&mount["mountPath"]).into()).collect();
        let reads = !plan.has_own_data() || arguments.iter().any(|word| word == "--worker");
        let app = plan.app.as_ref().filter(|_| reads);
        let written = app.map(|app| app.scratch_folders(&[dc.to_owned()])).unwrap_or_default();
        let state = Path::new("/var/lib/gaia");
        let expected = written.into_iter().filter(|folder| folder != state).collect();
        if found != expected {
            fault(format!("it has volumes at {found:?}, and examples are written to {expected:?}"));
        }
    }

    /// A pod has the certificates of its own nodes where the program looks, and no others. Returns its first node.
    fn check_nodes(
        &self,
        job: &Value,
        dc: &str,
        arguments: &[String],
        fault: &mut impl FnMut(String),
    ) -> String {
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let secret = volumes.iter().find(|volume| volume["secret"].is_object()).unwrap();
        let secrets = self.generated("secretGenerator");
        let files =
            secrets.get(&text(&secret["secret"]["secretName"])).cloned().unwrap_or_default();

        // The folder as the container sees it.
        let seen = tempfile::tempdir().unwrap();
        for item in secret["secret"]["items"].as_array().into_iter().flatten() {
            let Some(file) = files.get(&text(&item["key"])) else { continue };
            let to = seen.path().join(text(&item["path"]));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            let _missing_is_found_elsewhere = fs::copy(file, to);
        }

        let mut expected: Vec<String> = Vec::new();
        if arguments.iter().any(|argument| argument == "--coordinator") {
            expected.push(format!("{dc}/coordinator"));
        }
        for pair in arguments.windows(2) {
            match pair[0].as_str() {
                "--dc" if pair[1] != dc => fault(format!("it is told to be in {}", pair[1])),
                "--server" | "--worker" => {
                    expected.push(format!("{dc}/{}-{}", &pair[0][2..], pair[1]));
                }
                _ => {}
            }
        }
        for node in &expected {
            match Credentials::load(&seen.path().join("nodes").join(node)) {
                Ok(credentials) if credentials.identity().folder() == *node => {}
                Ok(credentials) => {
                    fault(format!("{node} has the key of {}", credentials.identity()));
                }
                Err(error) => fault(format!("{node} has no certificate: {error}")),
            }
        }
        if files.len() != 2 * expected.len() {
            fault(format!("its Secret has {:?}, expected the files of {expected:?}", files.keys()));
        }
        expected.first().cloned().unwrap_or_default()
    }

    /// Every service selects pods, and its ports lead to ports that they open.
    fn check_services(&self, faults: &mut Vec<String>) {
        for service in self.services() {
            let name = text(&service["metadata"]["name"]);
            let jobs = self.jobs();
            let pods: Vec<&&Value> = jobs.iter().filter(|job| selects(service, job)).collect();
            let expected = if service["spec"]["clusterIP"] == "None" { jobs.len() } else { 1 };
            if pods.len() != expected {
                faults.push(format!(
                    "service {name} selects {} pods, expected {expected}",
                    pods.len()
                ));
            }
            if service["spec"]["publishNotReadyAddresses"] != true {
                faults.push(format!("service {name} hides nodes that wait for their peers"));
            }
            for port in service["spec"]["ports"].as_array().into_iter().flatten() {
                let opens = |job: &&&Value| {
                    let container = &job["spec"]["template"]["spec"]["containers"][0];
                    container["ports"].as_array().into_iter().flatten().any(|open| {
                        open["name"] == port["targetPort"] && open["protocol"] == port["protocol"]
                    })
                };
                if !pods.iter().any(opens) {
                    faults.push(format!("service {name} leads to {port}, which no pod opens"));
                }
            }
        }

        for job in self.jobs() {
            let subdomain = &job["spec"]["template"]["spec"]["subdomain"];
            let names = |service: &&Value| {
                service["spec"]["clusterIP"] == "None"
                    && service["metadata"]["name"] == *subdomain
                    && selects(service, job)
            };
            if !self.services().iter().any(names) {
                faults.push(format!("no headless service names the pods of {subdomain}"));
            }
        }
    }

    /// The addresses in the run file are those of pods, or of services for one node at the same port.
    fn check_addresses(
        &self,
        plan: &Plan,
        dc: &str,
        pods: &BTreeMap<String, (String, String)>,
        faults: &mut Vec<String>,
    ) {
        let topology = &plan.topology;
        let id = topology.dc_ids().find(|id| topology.dc(*id).name == dc).unwrap();
        let mut addresses = BTreeMap::new();
        if id.index() == 0 {
            addresses.insert(format!("{dc}/coordinator"), plan.deployment.coordinator.as_ref());
        }
        for shard in 0..topology.dc(id).servers {
            addresses.insert(format!("{dc}/server-{shard}"), plan.deployment.server(id, shard));
        }
        if !addresses.keys().eq(pods.keys()) {
            faults.push(format!("{:?} listen, expected {:?}", pods.keys(), addresses.keys()));
        }

        for (node, address) in addresses {
            let Some(((pod, job), address)) = pods.get(&node).zip(address) else {
                faults.push(format!("{node} has no address"));
                continue;
            };
            if address.to_string() == *pod {
                continue;
            }
            let services = self.services();
            let Some(service) =
                services.iter().find(|service| service["metadata"]["name"] == **job)
            else {
                faults.push(format!("{node} is at {address}, where nothing leads to {pod}"));
                continue;
            };
            let named = [
                &service["metadata"]["annotations"]["external-dns.alpha.kubernetes.io/hostname"],
                &service["spec"]["loadBalancerIP"],
            ];
            let ports = service["spec"]["ports"].as_array().unwrap();
            if service["spec"]["type"] != "LoadBalancer"
                || !named.iter().any(|name| **name == address.host.as_str())
                || ports.iter().any(|port| port["port"] != address.port)
            {
                faults.push(format!("{node} is at {address}, and its service is {service}"));
            }
        }
    }
}

fn selects(service: &Value, job: &Value) -> bool {
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    let selector = service["spec"]["selector"].as_object().unwrap();
    !selector.is_empty() && selector.iter().all(|(key, value)| labels[key] == *value)
}

/// The documents of a YAML file.
pub(crate) fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
