//! The objects of the Kubernetes API, with the fields that manifests set.

use std::collections::BTreeMap;

use serde::Serialize;

pub(super) type Labels = BTreeMap<&'static str, String>;

/// An object with a kind, as a manifest has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Object<S> {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    pub(super) spec: S,
}

#[derive(Default, Serialize)]
pub(super) struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) labels: Labels,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceSpec {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(rename = "clusterIP", skip_serializing_if = "Option::is_none")]
    pub(super) cluster_ip: Option<&'static str>,
    #[serde(rename = "loadBalancerIP", skip_serializing_if = "Option::is_none")]
    pub(super) load_balancer_ip: Option<String>,
    /// A node is ready once its peers are connected, and they connect through the service.
    pub(super) publish_not_ready_addresses: bool,
    pub(super) selector: Labels,
    pub(super) ports: Vec<ServicePort>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServicePort {
    pub(super) name: &'static str,
    pub(super) protocol: &'static str,
    pub(super) port: u16,
    pub(super) target_port: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimSpec {
    pub(super) access_modes: [&'static str; 1],
    pub(super) resources: ClaimResources,
}

#[derive(Serialize)]
pub(super) struct ClaimResources {
    pub(super) requests: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobSpec {
    pub(super) completions: u32,
    pub(super) parallelism: u32,
    pub(super) backoff_limit: u32,
    /// Two pods of one node would share its claim.
    pub(super) pod_replacement_policy: &'static str,
    pub(super) pod_failure_policy: PodFailurePolicy,
    pub(super) template: PodTemplate,
}

#[derive(Serialize)]
pub(super) struct PodFailurePolicy {
    pub(super) rules: Vec<FailureRule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FailureRule {
    pub(super) action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) on_exit_codes: Option<ExitCodes>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) on_pod_conditions: Vec<PodCondition>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExitCodes {
    pub(super) container_name: &'static str,
    pub(super) operator: &'static str,
    pub(super) values: [i32; 1],
}

#[derive(Serialize)]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
}

#[derive(Serialize)]
pub(super) struct PodTemplate {
    pub(super) metadata: Metadata,
    pub(super) spec: PodSpec,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) hostname: String,
    pub(super) subdomain: String,
    pub(super) restart_policy: &'static str,
    pub(super) termination_grace_period_seconds: u32,
    pub(super) automount_service_account_token: bool,
    pub(super) enable_service_links: bool,
    pub(super) security_context: PodSecurity,
    pub(super) containers: [Container; 1],
    pub(super) volumes: Vec<Volume>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSecurity {
    pub(super) run_as_non_root: bool,
    pub(super) run_as_user: u32,
    pub(super) run_as_group: u32,
    pub(super) fs_group: u32,
    pub(super) seccomp_profile: SeccompProfile,
}

#[derive(Serialize)]
pub(super) struct SeccompProfile {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    pub(super) name: &'static str,
    pub(super) image: String,
    pub(super) args: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) env_from: Option<[EnvFrom; 1]>,
    pub(super) ports: Vec<ContainerPort>,
    pub(super) liveness_probe: Probe,
    pub(super) readiness_probe: Probe,
    pub(super) security_context: ContainerSecurity,
    pub(super) volume_mounts: Vec<VolumeMount>,
}

/// Variables of the environment from a secret.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvFrom {
    pub(super) secret_ref: SecretRef,
}

#[derive(Serialize)]
pub(super) struct SecretRef {
    pub(super) name: String,
    pub(super) optional: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerPort {
    pub(super) name: &'static str,
    pub(super) protocol: &'static str,
    pub(super) container_port: u16,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Probe {
    pub(super) http_get: HttpGet,
    pub(super) period_seconds: u32,
    pub(super) timeout_seconds: u32,
    pub(super) failure_threshold: u32,
}

#[derive(Serialize)]
pub(super) struct HttpGet {
    pub(super) path: &'static str,
    pub(super) port: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerSecurity {
    pub(super) allow_privilege_escalation: bool,
    pub(super) read_only_root_filesystem: bool,
    pub(super) capabilities: Capabilities,
}

#[derive(Serialize)]
pub(super) struct Capabilities {
    pub(super) drop: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeMount {
    pub(super) name: &'static str,
    pub(super) mount_path: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) read_only: bool,
}

#[derive(Serialize)]
pub(super) struct Volume {
    pub(super) name: &'static str,
    #[serde(flatten)]
    pub(super) source: VolumeSource,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum VolumeSource {
    #[serde(rename_all = "camelCase")]
    Secret {
        secret_name: String,
        default_mode: u32,
        items: Vec<KeyToPath>,
    },
    ConfigMap {
        name: String,
    },
    /// A folder on the disk of the machine, which is gone with its pod.
    EmptyDir {},
    #[serde(rename_all = "camelCase")]
    PersistentVolumeClaim {
        claim_name: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        read_only: bool,
    },
}

#[derive(Serialize)]
pub(super) struct KeyToPath {
    pub(super) key: String,
    pub(super) path: String,
}

/// What `kubectl apply -k` takes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kustomization {
    api_version: &'static str,
    kind: &'static str,
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generator_options: Option<GeneratorOptions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    config_map_generator: Vec<Generator>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secret_generator: Vec<Generator>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeneratorOptions {
    disable_name_suffix_hash: bool,
    labels: Labels,
}

/// An object that is made from files.
#[derive(Serialize)]
pub(super) struct Generator {
    pub(super) name: String,
    /// `KEY=FILE`.
    pub(super) files: Vec<String>,
}

impl Kustomization {
    /// One that applies those of folders.
    pub(super) fn of_folders(folders: Vec<String>) -> Self {
        Self {
            api_version: "kustomize.config.k8s.io/v1beta1",
            kind: "Kustomization",
            resources: folders,
            generator_options: None,
            config_map_generator: Vec::new(),
            secret_generator: Vec::new(),
        }
    }

    /// One of manifests and of objects made from files. Their names have no hashes: the pods of a Job cannot be changed to
    /// name others, and a running node reads a Secret again that was replaced.
    pub(super) fn of_manifests(
        manifests: Vec<String>,
        labels: Labels,
        config_maps: Vec<Generator>,
        secrets: Vec<Generator>,
    ) -> Self {
        Self {
            generator_options: Some(GeneratorOptions { disable_name_suffix_hash: true, labels }),
            config_map_generator: config_maps,
            secret_generator: secrets,
            ..Self::of_folders(manifests)
        }
    }
}

/// Objects as documents of one file.
pub(super) fn yaml<T: Serialize>(objects: &[T]) -> String {
    let texts = objects.iter().map(|object| {
        serde_saphyr::to_string(object).expect("objects have string keys and plain values")
    });
    texts.collect::<Vec<_>>().join("---\n")
}
