//! Tests of `config/reference.toml`: every key is in it, and its defaults are those of the code.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::value::Error as Stop;
use serde::de::{Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

use super::run_file::{RunKeys, SyncKeys};
use super::{Plan, RunFile};
use crate::document::ConfigError;
use crate::sections::{
    CheckpointConfig, ComputeKeys, CostConfig, DrainConfig, EvaluateConfig, FailuresConfig,
    LocalSspKeys, LogConfig, ModelConfig,
};
use crate::topology::{DataCenterKeys, DefaultKeys, GroupKeys, LinkKeys, TopologyKeys, WanKeys};
use gaia_core::coordinator::{ChangeRule, StopRules};
use gaia_core::sync::{
    AspConfig, BspConfig, GuardConfig, LocalStepsConfig, OutlierConfig, SspConfig, TapConfig,
};
use gaia_ml::apps::{
    ConvolutionalNetworkConfig, CorpusConfig, ExternalConfig, ImageGenerator, ImageSource,
    LogisticRegressionConfig, MatrixFactorizationConfig, MixtureGenerator, PerceptronConfig,
    PlantedGenerator, RatingGenerator, SoftmaxRegressionConfig, TeacherGenerator, TopicGenerator,
    TopicModelConfig,
};
use gaia_ml::columns::{DenseColumns, RatingColumns, SparseColumns};
use gaia_ml::config::DataConfig;

const REFERENCE: &str = include_str!("../../../../config/reference.toml");

/// One run file that the reference describes: the file itself, or with one of its blocks in place.
struct Variant {
    lines: Vec<String>,
    /// The lines that this variant is about.
    own: Vec<usize>,
}

/// The file itself, and once with each block of alternatives in the place of its table.
fn variants() -> Vec<Variant> {
    let plain: Vec<String> = REFERENCE.lines().map(str::to_owned).collect();
    let mut variants = vec![Variant { own: (0..plain.len()).collect(), lines: plain.clone() }];
    for block in REFERENCE.split("\n\n").filter(|block| block.starts_with("#: [")) {
        let block: Vec<String> = block
            .lines()
            .map(|line| line.strip_prefix("#: ").expect("a block is of one kind").to_owned())
            .collect();
        let table = header(&block[0]).expect("a block opens with its table").to_owned();
        let mut inside = false;
        let mut lines: Vec<String> = plain
            .iter()
            .filter(|line| {
                if let Some(name) = header(line) {
                    inside = name == table || name.starts_with(&format!("{table}."));
                }
                !inside
            })
            .cloned()
            .collect();
        let own = (lines.len()..lines.len() + block.len()).collect();

        lines.extend(block);
        variants.push(Variant { lines, own });
    }

    variants
}

fn header(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.trim_start_matches('[').split(']').next()
}

/// The key that a line sets.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.split_once(" = ")?;
    key.chars().all(|c| c.is_ascii_lowercase() || c == '_').then_some(key)
}

fn read(lines: &[String]) -> Result<Plan, ConfigError> {
    RunFile::from_text("config/reference.toml", &lines.join("\n"), &[])?.plan()
}

#[test]
fn leaving_a_key_out_changes_nothing_unless_it_is_required() {
    for variant in variants() {
        let whole = read(&variant.lines).unwrap_or_else(|error| panic!("{}", error.render(false)));
        for &at in &variant.own {
            let line = &variant.lines[at];
            if key(line).is_none() {
                continue;
            }

            let mut lines = variant.lines.clone();
            lines.remove(at);

            let required = line.contains("equired");
            match read(&lines) {
                Ok(plan) if plan == whole => assert!(!required, "{line:?} is not required"),
                Ok(_) => {
                    assert!(NO_DEFAULT.contains(&key(line).unwrap()), "another default: {line}");
                }
                Err(error) => assert!(required, "{line:?} is required: {error}"),
            }
        }
    }
}

#[test]
fn a_key_without_a_default_may_be_put_in() {
    let plain: Vec<String> = REFERENCE.lines().map(str::to_owned).collect();
    let mut block = false;
    for (at, line) in plain.iter().enumerate() {
        block = line.starts_with("#: [") || (block && !line.is_empty());
        let Some(bare) = line.strip_prefix("#: ").filter(|_| !block) else { continue };
        let mut lines = plain.clone();
        lines[at] = bare.to_owned();
        if key(bare) == Some("file") {
            lines.retain(|line| !line.starts_with("slowdown") && !line.starts_with("#: slow"));
            let topology = lines.iter().position(|line| line == "[topology.defaults]").unwrap_or(0);
            lines.truncate(topology.max(at));
        }
        if key(bare) == Some("path") {
            lines.retain(|line| !line.starts_with("source = \"synthetic\""));
        }
        read(&lines).unwrap_or_else(|error| panic!("{}", error.render(false)));
    }
}

#[test]
fn every_line_that_sets_a_key_says_why() {
    for line in REFERENCE.lines() {
        let bare = line.strip_prefix("#: ").unwrap_or(line);
        if key(bare).is_some() {
            assert!(bare.contains(" # "), "{line:?} says nothing");
        }
        assert!(line.chars().count() <= 120, "{line:?} is too long");
    }
}

#[test]
fn every_key_in_the_code_is_in_the_reference() {
    let mut written: BTreeSet<String> = BTreeSet::new();
    let mut table = String::new();
    for line in REFERENCE.lines() {
        let bare = line.strip_prefix("#: ").unwrap_or(line);
        if let Some(name) = header(bare) {
            table = format!("{name}.");
            written.insert(name.to_owned());
        }

        let within: Vec<&str> =
            bare.split(" # ").next().unwrap_or("").split(['{', ',', '}']).collect();
        for key in within.iter().filter_map(|part| key(part.trim_start())) {
            written.insert(format!("{table}{key}"));
        }
    }

    for (table, keys) in tables() {
        for key in keys {
            let path = if table.is_empty() { (*key).to_owned() } else { format!("{table}.{key}") };
            let within = format!("{path}.");
            let known = written.iter().any(|name| *name == path || name.starts_with(&within));
            assert!(known, "`{path}` is not in config/reference.toml");
        }
    }
}

/// Keys in blocks whose absence means something else than any value.
const NO_DEFAULT: [&str; 20] = [
    "arguments",
    "batch",
    "clip_norm",
    "data",
    "declared",
    "evaluate_examples",
    "examples_per_second",
    "features",
    "learning_rate_clocks",
    "median_times",
    "model",
    "norm_max",
    "optimizer",
    "ring",
    "row_step_max",
    "script",
    "settings",
    "shape",
    "vocabulary_path",
    "where",
];

/// Every table, and the keys that the code reads in it.
fn tables() -> Vec<(&'static str, &'static [&'static str])> {
    vec![
        ("", keys::<RunKeys>()),
        ("app", keys::<MatrixFactorizationConfig>()),
        ("app", keys::<SoftmaxRegressionConfig>()),
        ("app", keys::<PerceptronConfig>()),
        ("app", keys::<ConvolutionalNetworkConfig>()),
        ("app", keys::<LogisticRegressionConfig>()),
        ("app", keys::<TopicModelConfig>()),
        ("app", keys::<ExternalConfig>()),
        ("app.data", keys::<DataConfig<ImageSource, MixtureGenerator>>()),
        ("app.data", keys::<CorpusConfig>()),
        ("app.data.columns", keys::<RatingColumns>()),
        ("app.data.columns", keys::<DenseColumns>()),
        ("app.data.columns", keys::<SparseColumns>()),
        ("app.data.synthetic", keys::<RatingGenerator>()),
        ("app.data.synthetic", keys::<MixtureGenerator>()),
        ("app.data.synthetic", keys::<TeacherGenerator>()),
        ("app.data.synthetic", keys::<ImageGenerator>()),
        ("app.data.synthetic", keys::<PlantedGenerator>()),
        ("app.data.synthetic", keys::<TopicGenerator>()),
        ("sync", keys::<SyncKeys>()),
        ("sync.local", keys::<LocalSspKeys>()),
        ("sync.remote", keys::<BspConfig>()),
        ("sync.remote", keys::<SspConfig>()),
        ("sync.remote", keys::<TapConfig>()),
        ("sync.remote", keys::<AspConfig>()),
        ("sync.remote", keys::<LocalStepsConfig>()),
        ("sync.remote.guard", keys::<GuardConfig>()),
        ("sync.outliers", keys::<OutlierConfig>()),
        ("stop", keys::<StopRules>()),
        ("stop", keys::<ChangeRule>()),
        ("evaluate", keys::<EvaluateConfig>()),
        ("drain", keys::<DrainConfig>()),
        ("compute", keys::<ComputeKeys>()),
        ("cost", keys::<CostConfig>()),
        ("model", keys::<ModelConfig>()),
        ("checkpoint", keys::<CheckpointConfig>()),
        ("log", keys::<LogConfig>()),
        ("failures", keys::<FailuresConfig>()),
        ("topology", keys::<TopologyKeys>()),
        ("topology.defaults", keys::<DefaultKeys>()),
        ("topology.data_center", keys::<DataCenterKeys>()),
        ("topology.wan", keys::<WanKeys>()),
        ("topology.link", keys::<LinkKeys>()),
        ("topology.group", keys::<GroupKeys>()),
    ]
}

/// The fields that a struct reads: what its `Deserialize` asks for.
fn keys<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    let asked = T::deserialize(Ask { fields: &mut fields });
    assert!(asked.is_err() && !fields.is_empty());
    fields
}

struct Ask<'f> {
    fields: &'f mut &'static [&'static str],
}

impl<'de> Deserializer<'de> for Ask<'_> {
    type Error = Stop;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Stop> {
        Err(Stop::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Stop> {
        *self.fields = fields;
        Err(Stop::custom("only asked"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map enum option newtype_struct identifier ignored_any
    }
}
