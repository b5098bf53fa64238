//! The manifests of one data center.

use std::collections::BTreeMap;

use super::names::Names;
use super::objects::{
    Capabilities, ClaimResources, ClaimSpec, Container, ContainerPort, ContainerSecurity, EnvFrom,
    ExitCodes, FailureRule, Generator, HttpGet, JobSpec, KeyToPath, Kustomization, Labels,
    Metadata, Object, PodCondition, PodFailurePolicy, PodSecurity, PodSpec, PodTemplate, Probe,
    SeccompProfile, SecretRef, ServicePort, ServiceSpec, Volume, VolumeMount, VolumeSource, yaml,
};
use super::port;
use crate::{CERTIFICATES, Process, Site};
use gaia_certificates::Role;

/// What the manifests of a data center are made from.
pub(super) struct SiteManifests<'p> {
    pub(super) site: &'p Site,
    pub(super) names: &'p Names,
    pub(super) image: &'p str,
    pub(super) storage: &'p str,
    /// The IP address that stands for all those of a pod.
    pub(super) all_addresses: &'static str,
    /// Whether data is in object storage.
    pub(super) reads_objects: bool,
    /// Where the claim for data is mounted.
    pub(super) data: Option<&'p str>,
    /// The folders that processes with data write examples to.
    pub(super) scratch: Vec<String>,
    /// Whether processes without a worker read data, too.
    pub(super) all_read: bool,
}

impl SiteManifests<'_> {
    /// The names and texts of the files.
    pub(super) fn files(&self) -> Vec<(&'static str, String)> {
        let processes = &self.site.processes;
        let jobs: Vec<_> = processes.iter().map(|process| self.job(process)).collect();
        let claims: Vec<_> = processes.iter().map(|process| self.claim(process)).collect();
        vec![
            ("kustomization.yaml", yaml(&[self.kustomization()])),
            (SERVICES, yaml(&self.services())),
            (CLAIMS, yaml(&claims)),
            (JOBS, yaml(&jobs)),
        ]
    }

    fn kustomization(&self) -> Kustomization {
        let dc = &self.site.name;
        let run_file = Generator {
            name: self.names.run_file(dc),
            files: vec![format!("{RUN_FILE}={RUN_FILE}")],
        };
        let secrets = self.site.processes.iter().map(|process| Generator {
            name: self.names.secret(dc, &process.name),
            files: certificates(process)
                .map(|(key, path)| format!("{key}={CERTIFICATES}/{path}"))
                .collect(),
        });
        let manifests = [SERVICES, CLAIMS, JOBS].map(str::to_owned).to_vec();
        Kustomization::of_manifests(manifests, self.labels(), vec![run_file], secrets.collect())
    }

    /// The headless service that names all pods, and a service for each node that other clusters reach.
    fn services(&self) -> Vec<Object<ServiceSpec>> {
        let dc = &self.site.name;
        // A service has one port of a name. Pods are reached at the ports that they open, whatever is listed.
        let mut ports: Vec<ServicePort> = Vec::new();
        for port in self.site.processes.iter().flat_map(service_ports) {
            if !ports.iter().any(|own| own.name == port.name) {
                ports.push(port);
            }
        }
        let headless = ServiceSpec {
            kind: None,
            cluster_ip: Some("None"),
            load_balancer_ip: None,
            publish_not_ready_addresses: true,
            selector: self.selector(None),
            ports,
        };

        let mut services =
            vec![self.object("v1", "Service", self.names.service(dc).to_owned(), headless)];
        services.extend(self.site.processes.iter().filter_map(|process| self.exposed(process)));
        services
    }

    /// The service at which other clusters reach a node, where the topology names its address.
    fn exposed(&self, process: &Process) -> Option<Object<ServiceSpec>> {
        let address = process.named.as_ref()?;
        let is_ip = address.host.parse::<std::net::IpAddr>().is_ok();
        let spec = ServiceSpec {
            kind: Some("LoadBalancer"),
            cluster_ip: None,
            load_balancer_ip: is_ip.then(|| address.host.clone()),
            publish_not_ready_addresses: true,
            selector: self.selector(Some(process)),
            ports: service_ports(process),
        };
        let name = self.names.object(&self.site.name, &process.name);
        let mut service = self.object("v1", "Service", name, spec);
        if !is_ip {
            service.metadata.annotations.insert(EXTERNAL_DNS, address.host.clone());
        }
        Some(service)
    }

    fn claim(&self, process: &Process) -> Object<ClaimSpec> {
        let requests = BTreeMap::from([("storage", self.storage.to_owned())]);
        let spec =
            ClaimSpec { access_modes: ["ReadWriteOnce"], resources: ClaimResources { requests } };
        let name = self.names.object(&self.site.name, &process.name);
        self.object("v1", "PersistentVolumeClaim", name, spec)
    }

    fn job(&self, process: &Process) -> Object<JobSpec> {
        let on_exit =
            |code: i32| ExitCodes { container_name: CONTAINER, operator: "In", values: [code] };
        let rule = |action, on_exit_codes, on_pod_conditions| FailureRule {
            action,
            on_exit_codes,
            on_pod_conditions,
        };
        let disrupted = vec![PodCondition { kind: "DisruptionTarget", status: "True" }];
        let spec = JobSpec {
            completions: 1,
            parallelism: 1,
            backoff_limit: RESTARTS_MAX,
            pod_replacement_policy: "Failed",
            pod_failure_policy: PodFailurePolicy {
                rules: vec![
                    rule("Ignore", None, disrupted),
                    rule("Ignore", Some(on_exit(INTERRUPTED)), Vec::new()),
                    rule("FailJob", Some(on_exit(WRONG_FILE)), Vec::new()),
                ],
            },
            template: PodTemplate {
                metadata: Metadata {
                    name: None,
                    labels: self.selector(Some(process)),
                    annotations: BTreeMap::from([
                        ("prometheus.io/scrape", "true".into()),
                        ("prometheus.io/port", METRICS_PORT.to_string()),
                        ("prometheus.io/path", "/metrics".into()),
                    ]),
                },
                spec: self.pod(process),
            },
        };
        let name = self.names.object(&self.site.name, &process.name);
        self.object("batch/v1", "Job", name, spec)
    }

    fn pod(&self, process: &Process) -> PodSpec {
        PodSpec {
            hostname: process.name.clone(),
            subdomain: self.names.service(&self.site.name).to_owned(),
            restart_policy: "Never",
            // Servers and workers write a checkpoint. The coordinator takes no signal, and its state is always on disk.
            termination_grace_period_seconds: if process.is_coordinator() { 1 } else { 60 },
            automount_service_account_token: false,
            enable_service_links: false,
            security_context: PodSecurity {
                run_as_non_root: true,
                run_as_user: NONROOT,
                run_as_group: NONROOT,
                fs_group: NONROOT,
                seccomp_profile: SeccompProfile { kind: "RuntimeDefault" },
            },
            containers: [self.container(process)],
            volumes: self.volumes(process),
        }
    }

    fn container(&self, process: &Process) -> Container {
        let mut ports: Vec<ContainerPort> = service_ports(process)
            .into_iter()
            .map(|ServicePort { name, protocol, port, .. }| ContainerPort {
                name,
                protocol,
                container_port: port,
            })
            .collect();
        ports.push(ContainerPort { name: METRICS, protocol: "TCP", container_port: METRICS_PORT });

        let probe = |path, failure_threshold| Probe {
            http_get: HttpGet { path, port: METRICS },
            period_seconds: 10,
            timeout_seconds: 5,
            failure_threshold,
        };
        let mount = |name, mount_path: &str, read_only| VolumeMount {
            name,
            mount_path: mount_path.to_owned(),
            read_only,
        };
        let mut volume_mounts = vec![
            mount(RUN, RUN_FOLDER, true),
            mount(CERTIFICATES, CERTIFICATES_FOLDER, true),
            mount(STATE, STATE_FOLDER, false),
        ];
        volume_mounts.extend(self.data.map(|folder| mount(DATA, folder, true)));
        volume_mounts.extend(self.scratch(process).iter().map(|at| mount(SCRATCH, at, false)));

        Container {
            name: CONTAINER,
            image: self.image.to_owned(),
            args: self.arguments(process),
            env_from: self.reads_objects.then(|| {
                // A machine may have a role of its own.
                let secret_ref = SecretRef { name: self.names.credentials(), optional: true };
                [EnvFrom { secret_ref }]
            }),
            ports,
            liveness_probe: probe("/healthz", STUCK_PROBES),
            readiness_probe: probe("/readyz", 1),
            security_context: ContainerSecurity {
                allow_privilege_escalation: false,
                read_only_root_filesystem: true,
                capabilities: Capabilities { drop: ["ALL"] },
            },
            volume_mounts,
        }
    }

    /// The arguments of the program.
    fn arguments(&self, process: &Process) -> Vec<String> {
        let all = self.all_addresses;
        let mut arguments = vec!["node".to_owned(), format!("{RUN_FOLDER}/{RUN_FILE}")];
        arguments.extend(process.place());
        if let Some(results) = process.results {
            arguments.extend(["--out".to_owned(), format!("{STATE_FOLDER}/{results}")]);
        }
        if process.listens() {
            arguments.extend(["--listen".to_owned(), format!("{all}:{}", port(process))]);
        }
        arguments.extend(["--certs".to_owned(), CERTIFICATES_FOLDER.to_owned()]);
        arguments.extend(["--state".to_owned(), format!("{STATE_FOLDER}/state")]);
        arguments.extend(["--metrics".to_owned(), format!("{all}:{METRICS_PORT}")]);
        arguments.extend(["--log", "json"].map(str::to_owned));
        arguments
    }

    fn volumes(&self, process: &Process) -> Vec<Volume> {
        let dc = &self.site.name;
        let items = certificates(process).map(|(key, path)| KeyToPath { key, path }).collect();
        let secret_name = self.names.secret(dc, &process.name);
        let claim =
            |claim_name, read_only| VolumeSource::PersistentVolumeClaim { claim_name, read_only };
        let mut sources = vec![
            (RUN, VolumeSource::ConfigMap { name: self.names.run_file(dc) }),
            // The group of the pod may read the keys; nobody else.
            (CERTIFICATES, VolumeSource::Secret { secret_name, default_mode: 0o440, items }),
            (STATE, claim(self.names.object(dc, &process.name), false)),
        ];
        sources.extend(self.data.map(|_| (DATA, claim(self.names.data_claim(), true))));
        if !self.scratch(process).is_empty() {
            sources.push((SCRATCH, VolumeSource::EmptyDir {}));
        }
        sources.into_iter().map(|(name, source)| Volume { name, source }).collect()
    }

    /// The folders that a process writes examples to.
    fn scratch(&self, process: &Process) -> &[String] {
        let reads = self.all_read || process.nodes.iter().any(|node| node.role == Role::Worker);
        if reads { &self.scratch } else { &[] }
    }

    fn object<S>(
        &self,
        api_version: &'static str,
        kind: &'static str,
        name: String,
        spec: S,
    ) -> Object<S> {
        let metadata = Metadata { name: Some(name), labels: self.labels(), ..Metadata::default() };
        Object { api_version, kind, metadata, spec }
    }

    /// The labels of all objects of the data center.
    fn labels(&self) -> Labels {
        let mut labels = self.selector(None);
        labels.insert("app.kubernetes.io/managed-by", "gaia-deploy".into());
        labels
    }

    /// The labels of the pods of the data center, or of one process.
    fn selector(&self, process: Option<&Process>) -> Labels {
        let mut labels = BTreeMap::from([
            ("app.kubernetes.io/name", "gaia".to_owned()),
            ("app.kubernetes.io/part-of", self.names.run().to_owned()),
            ("app.kubernetes.io/instance", self.names.service(&self.site.name).to_owned()),
        ]);
        labels.extend(process.map(|own| ("app.kubernetes.io/component", own.name.clone())));
        labels
    }
}

/// The ports at which other nodes reach a process.
fn service_ports(process: &Process) -> Vec<ServicePort> {
    let port = port(process);
    let tcp = |name| ServicePort { name, protocol: "TCP", port, target_port: name };
    if process.is_coordinator() {
        return vec![tcp("coordinator")];
    }
    if !process.listens() {
        return Vec::new();
    }
    let mirrors = ServicePort { name: "mirrors", protocol: "UDP", port, target_port: "mirrors" };
    vec![mirrors, tcp("workers")]
}

/// The certificates of a process: the key of each file in its Secret, and the path of the file below the folder of
/// certificates.
fn certificates(process: &Process) -> impl Iterator<Item = (String, String)> {
    process.nodes.iter().flat_map(|node| {
        let folder = node.folder();
        let (_, own) =
            folder.rsplit_once('/').expect("a folder of a node is in that of its data center");
        let own = own.to_owned();
        ["node.pem", "trust.pem"]
            .map(|file| (format!("{own}.{file}"), format!("nodes/{folder}/{file}")))
    })
}

const SERVICES: &str = "services.yaml";
const CLAIMS: &str = "claims.yaml";
const JOBS: &str = "jobs.yaml";
const RUN_FILE: &str = "run.toml";

/// Names of the container, its port and its volumes.
const CONTAINER: &str = "gaia";
const METRICS: &str = "metrics";
const RUN: &str = "run";
const STATE: &str = "state";
const DATA: &str = "data";
const SCRATCH: &str = "scratch";

/// Folders in the container.
const RUN_FOLDER: &str = "/etc/gaia/run";
const CERTIFICATES_FOLDER: &str = "/etc/gaia/certs";
pub(super) const STATE_FOLDER: &str = "/var/lib/gaia";

const METRICS_PORT: u16 = 9464;

/// Exit codes of the program.
const INTERRUPTED: i32 = 75;
const WRONG_FILE: i32 = 2;

/// How often a node may fail, with pauses of up to six minutes. Evictions and interruptions do not count.
const RESTARTS_MAX: u32 = 20;

/// The failed probes after which a pod is killed: ten minutes of them. A node answers that it stands still while it waits for its
/// disk, which may be slow, and a killed one would have to begin again.
const STUCK_PROBES: u32 = 60;

/// The user of distroless images that is not root.
const NONROOT: u32 = 65_532;

/// From this, external-dns makes the name of a service's address.
const EXTERNAL_DNS: &str = "external-dns.alpha.kubernetes.io/hostname";
