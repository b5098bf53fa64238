//! The file of a script's model before it is trained: what nodes that do not run the script must know of it.
//!
//! It has the tensors by the names and shapes of the script, in single precision. One key of the metadata, `gaia.script`, has
//! a JSON object with the rest: the order of the tensors, which of them are statistics, how the script trains, and the shapes
//! of sparse tables with the rules of their initial values, which the file does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::error::{ModelError, plain};
use super::header::HeaderTooLong;
use super::read::is_folder;
use super::state_dict::{read_values, unreadable};
use super::tensors::{LAYOUT_RULE, TABLES_MAX, TensorSpec, tensor_layout};
use super::write::{Values, tensors_with};
use gaia_core::application::{Aggregation, Direction, Metric};
use gaia_core::types::{InitialRows, Model, ModelLayout};

/// The model that a script declares, before it is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptModel {
    /// The tensors, in the order of the script.
    pub tensors: Vec<TensorSpec>,
    /// The initial values of those that are not sparse, one tensor after the other. Those of sparse ones follow from rules.
    pub values: Vec<f32>,
    /// How the script trains them.
    pub settings: ScriptSettings,
}

/// What a script says about its training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptSettings {
    /// The name of its metric.
    pub metric: String,
    /// Whether a higher metric is better. The objective is lower where it is better.
    pub higher_is_better: bool,
    /// The momentum of its optimizer, if a clock is one step of it and the optimizer adds a share of its last step.
    pub momentum: f64,
    /// Whether changes are divided by the number of workers.
    pub average: bool,
    /// Whether the workers of each data center share one copy of the model among them.
    pub sharded: bool,
}

/// What the metadata of the file has.
#[derive(Debug, Serialize, Deserialize)]
struct Declaration {
    /// The rule by which tensors become tables.
    layout: u32,
    /// The names of the tensors, in the order of the script.
    tensors: Vec<String>,
    /// The names of those that are statistics.
    statistics: BTreeSet<String>,
    /// Those of which the file has no values, and how these are made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sparse: BTreeMap<String, SparseTensor>,
    #[serde(flatten)]
    settings: ScriptSettings,
    /// The version of the program that has written the file.
    version: String,
}

/// A tensor of which the file has no values.
#[derive(Debug, Serialize, Deserialize)]
struct SparseTensor {
    shape: Vec<usize>,
    initial: InitialRows,
}

impl ScriptSettings {
    /// The metric: a mean over held-out examples.
    pub fn metric(&self) -> Metric {
        let direction = if self.higher_is_better { Direction::Higher } else { Direction::Lower };
        Metric { name: self.metric.clone().into(), aggregation: Aggregation::Mean, direction }
    }
}

impl ScriptModel {
    /// Checks that the tensors are a model: that there are values to train, tables for all tensors, and no two of one name.
    ///
    /// # Errors
    /// What was found and expected.
    pub fn check(&self) -> Result<(), String> {
        if self.tensors.iter().all(TensorSpec::is_empty) {
            let expected = "expected tensors of floating-point numbers";
            return Err(format!("the model has no values to train, {expected}"));
        }
        let mut names = BTreeSet::new();
        if let Some(second) = self.tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
            let name = second.name.escape_debug();
            return Err(format!("two tensors are called {name}, expected a name for each"));
        }
        match self.tensors.len() {
            found if found > TABLES_MAX => {
                Err(format!("the model has {found} tensors, expected at most {TABLES_MAX}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether each worker's deltas are its own step of the whole model, divided by the number of all workers. Of a sparse
    /// table a worker changes its own rows.
    pub fn deltas_are_shares(&self) -> bool {
        self.settings.average && self.tensors.iter().all(|tensor| tensor.sparse.is_none())
    }

    /// The tables of the tensors.
    pub fn layout(&self) -> Arc<ModelLayout> {
        tensor_layout(&self.tensors, self.settings.sharded)
    }

    /// The initial values as a model of this layout, which is that of the tensors.
    ///
    /// # Panics
    /// If the layout is another one.
    pub fn initial_model(&self, layout: &Arc<ModelLayout>) -> Model {
        let mut model = Model::without_sparse_rows(layout.clone());
        model.values.copy_from_slice(&self.values);
        model
    }

    /// How another model that the same script should have declared differs from this one, initial values apart: what is found
    /// there, and what is expected here. `None` where it does not.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let tensors = different_tensor(&other.tensors, &self.tensors);
        let settings = || {
            let (found, expected) = (&other.settings, &self.settings);
            let in_words = |settings: &ScriptSettings| {
                let ScriptSettings { metric, higher_is_better, momentum, average, sharded } =
                    settings;
                let better = if *higher_is_better { "higher" } else { "lower" };
                let change = if *average { "averaged" } else { "added" };
                let held = if *sharded { "shared" } else { "held whole" };
                format!(
                    "the metric {metric}, better if {better}, momentum {momentum}, a model {held} by workers and {change} changes"
                )
            };
            (found != expected)
                .then(|| format!("found {}, expected {}", in_words(found), in_words(expected)))
        };
        tensors.or_else(settings)
    }

    /// The bytes of the file, which are the same for the same model. `version` is that of the program.
    ///
    /// # Errors
    /// [`HeaderTooLong`] if names and shapes are more than the header of such a file has room for.
    pub fn to_bytes(&self, version: &str) -> Result<Vec<u8>, HeaderTooLong> {
        let names = self.tensors.iter().map(|tensor| tensor.name.clone());
        let statistics = self.tensors.iter().filter(|tensor| tensor.is_statistics);
        let sparse = self.tensors.iter().filter_map(|tensor| {
            let (initial, shape) = (tensor.sparse?, tensor.shape.clone());
            Some((tensor.name.clone(), SparseTensor { shape, initial }))
        });
        let declaration = Declaration {
            layout: LAYOUT_RULE,
            tensors: names.collect(),
            statistics: statistics.map(|tensor| tensor.name.clone()).collect(),
            sparse: sparse.collect(),
            settings: self.settings.clone(),
            version: version.into(),
        };
        let declaration =
            serde_json::to_string(&declaration).expect("a declaration can be written as JSON");

        let mut rest = self.values.as_slice();
        let dense = self.tensors.iter().filter(|tensor| tensor.sparse.is_none());
        let tensors = dense.map(|tensor| {
            let (values, others) = rest.split_at(tensor.len());
            rest = others;
            (tensor.name.as_str(), tensor.shape.clone(), Values::F32(values))
        });
        tensors_with(tensors, Some((DECLARATION, &declaration)))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`ModelError::Unreadable`] where it cannot be read, [`ModelError::Broken`] where it is not such a file.
    pub fn read(file: &Path) -> Result<Self, ModelError> {
        if is_folder(file)? {
            return Err(ModelError::broken(file, "a folder", WRITTEN));
        }
        let bytes = std::fs::read(file);
        let bytes = bytes.map_err(|reason| ModelError::Unreadable { file: file.into(), reason })?;
        Self::parse(file, &bytes)
    }

    fn parse(file: &Path, bytes: &[u8]) -> Result<Self, ModelError> {
        let broken = |found: String| ModelError::broken(file, found, WRITTEN);
        let not_safetensors = |error| unreadable(file, bytes, &error);
        let found = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
        let text = header.metadata().as_ref().and_then(|metadata| metadata.get(DECLARATION));
        let Some(text) = text else {
            return Err(broken(format!("no `{DECLARATION}` in the metadata")));
        };
        let declaration: Declaration = serde_json::from_str(text).map_err(|error| {
            let error = error.to_string().escape_debug().to_string();
            broken(format!("`{DECLARATION}` in the metadata with a mistake ({error})"))
        })?;
        let Declaration { layout, tensors: names, statistics, mut sparse, settings, .. } =
            declaration;
        if layout != LAYOUT_RULE {
            let expected = format!("rule {LAYOUT_RULE}: write it again with gaia init");
            let found = format!("tensors that become tables by rule {layout}");
            return Err(ModelError::broken(file, found, expected));
        }
        if names.len() != found.len() + sparse.len() {
            let (listed, found) = (names.len(), found.len() + sparse.len());
            return Err(broken(format!("{found} tensors, of which {listed} are listed")));
        }
        if settings.metric.chars().any(char::is_control) {
            return Err(broken(format!("the metric {:?}", settings.metric)));
        }
        if !(settings.momentum.is_finite() && settings.momentum >= 0.0) {
            return Err(broken(format!("momentum {}", settings.momentum)));
        }

        let mut missing: BTreeSet<&str> = found.names().into_iter().collect();
        let (mut tensors, mut values) = (Vec::new(), Vec::new());
        for name in names {
            let is_statistics = statistics.contains(&name);
            if let Some(SparseTensor { shape, initial }) = sparse.remove(&name) {
                if !is_table(&shape) || !initial.is_valid() || is_statistics {
                    let found = format!("the sparse table `{}` {shape:?}, {initial}", plain(&name));
                    return Err(broken(found));
                }
                tensors.push(TensorSpec { name, shape, is_statistics, sparse: Some(initial) });
                continue;
            }
            let tensor = found.tensor(&name).ok().filter(|_| missing.remove(name.as_str()));
            let tensor = tensor.ok_or_else(|| broken(format!("no `{}`", plain(&name))))?;
            let begun = values.len();
            let shape = tensor.shape().to_vec();
            values.resize(begun + shape.iter().product::<usize>(), 0.0);
            read_values(&tensor, &mut values[begun..])
                .map_err(|found| broken(format!("{found} in `{}`", plain(&name))))?;
            tensors.push(TensorSpec { name, shape, is_statistics, sparse: None });
        }
        if let Some(name) =
            missing.first().copied().or_else(|| sparse.keys().next().map(String::as_str))
        {
            return Err(broken(format!("`{}`, which is not listed once", plain(name))));
        }

        let model = Self { tensors, values, settings };
        model.check().map_err(broken)?;
        Ok(model)
    }
}

/// The first tensor that differs from what is expected, in words. `None` where none does.
pub fn different_tensor(found: &[TensorSpec], expected: &[TensorSpec]) -> Option<String> {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(at) = differs {
        return Some(format!("tensor {} is {}, expected {}", at + 1, found[at], expected[at]));
    }
    let (found, expected) = (found.len(), expected.len());
    (found != expected).then(|| format!("{found} tensors, expected {expected}"))
}

/// The key of the declaration in the metadata of the file.
const DECLARATION: &str = "gaia.script";

/// Whether a shape is that of a table of at most [`SPARSE_PARAMETERS_MAX`] values, whose rows have numbers.
fn is_table(shape: &[usize]) -> bool {
    let [rows, width] = *shape else { return false };
    let values = rows.checked_mul(width);
    u32::try_from(rows).is_ok() && values.is_some_and(|values| values <= SPARSE_PARAMETERS_MAX)
}

/// More than a data center holds: four tebibytes.
const SPARSE_PARAMETERS_MAX: usize = 1 << 40;

const WRITTEN: &str = "the file that gaia init writes of a script";

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ScriptModel {
        let spec = |name: &str, shape: &[usize], is_statistics| TensorSpec {
            name: name.into(),
            shape: shape.into(),
            is_statistics,
            sparse: None,
        };
        ScriptModel {
            tensors: vec![
                spec("z.weight", &[2, 2], false),
                spec("a.scale", &[], false),
                spec("z.mean", &[3], true),
            ],
            values: vec![0.5, -1.0, 2.0, 3.0, 7.0, 1.0, 1.5, 2.0],
            settings: ScriptSettings {
                metric: "accuracy".into(),
                higher_is_better: true,
                momentum: 0.9,
                average: false,
                sharded: true,
            },
        }
    }

    fn parse(bytes: &[u8]) -> Result<ScriptModel, String> {
        ScriptModel::parse(Path::new("m"), bytes).map_err(|error| error.to_string())
    }

    #[test]
    fn names_that_a_file_has_no_room_for_are_refused() {
        let mut model = model();
        // The file has each name twice.
        model.tensors[0].name = "n".repeat(51_000_000);
        let refused = model.to_bytes("v").unwrap_err();
        assert_eq!(refused.tensors, 3);
    }

    #[test]
    fn a_model_reads_back_as_the_script_has_declared_it() {
        let bytes = model().to_bytes("v").unwrap();
        assert_eq!(bytes, model().to_bytes("v").unwrap());
        assert_eq!(parse(&bytes), Ok(model()));

        let layout = model().layout();
        let initial = model().initial_model(&layout);
        assert_eq!(initial.values, model().values);
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(tensors.tensor("a.scale").unwrap().shape(), [0; 0]);
    }

    #[test]
    fn of_a_sparse_table_the_file_has_the_rule() {
        let mut model = model();
        let table = |std| TensorSpec {
            name: "table".into(),
            shape: vec![1 << 30, 1 << 10],
            is_statistics: false,
            sparse: InitialRows::new(u64::MAX, 0.5, std),
        };
        model.tensors.insert(1, table(2.0));
        model.settings.sharded = false;
        let bytes = model.to_bytes("v").unwrap();
        assert_eq!(parse(&bytes), Ok(model.clone()));
        assert!(bytes.len() < 4096);
        assert_eq!(model.initial_model(&model.layout()).values, model.values);

        let mut other = model.clone();
        other.tensors[1] = table(3.0);
        let difference = "tensor 2 is table [1073741824, 1024] of rows in hand, seed 18446744073709551615, mean 0.5, deviation 3, \
            expected table [1073741824, 1024] of rows in hand, seed 18446744073709551615, mean 0.5, deviation 2";
        assert_eq!(model.difference(&other).as_deref(), Some(difference));

        model.tensors[1].is_statistics = true;
        assert!(
            parse(&model.to_bytes("v").unwrap())
                .unwrap_err()
                .contains("found the sparse table `table`")
        );
    }

    #[test]
    fn the_first_difference_is_named() {
        let check = |change: &dyn Fn(&mut ScriptModel), expect: Option<&str>| {
            let mut other = model();
            change(&mut other);
            assert_eq!(model().difference(&other).as_deref(), expect);
        };
        check(&|_| {}, None);
        check(&|other| other.values[0] = 9.0, None);
        check(
            &|other| other.tensors[1].shape = vec![1],
            Some("tensor 2 is a.scale [1], expected a.scale []"),
        );
        check(
            &|other| other.tensors[2].is_statistics = false,
            Some("tensor 3 is z.mean [3], expected z.mean [3] of statistics"),
        );
        check(&|other| drop(other.tensors.pop()), Some("2 tensors, expected 3"));
        check(
            &|other| other.settings.momentum = 0.0,
            Some(
                "found the metric accuracy, better if higher, momentum 0, a model shared by workers and added changes, \
                 expected the metric accuracy, better if higher, momentum 0.9, a model shared by workers and added changes",
            ),
        );
        check(
            &|other| other.settings.sharded = false,
            Some(
                "found the metric accuracy, better if higher, momentum 0.9, a model held whole by workers and added changes, \
                 expected the metric accuracy, better if higher, momentum 0.9, a model shared by workers and added changes",
            ),
        );
    }

    #[test]
    fn two_tensors_of_one_name_are_no_model() {
        let mut model = model();
        assert_eq!(model.check(), Ok(()));
        model.tensors[2].name = "z.weight".into();
        let refused = model.check().unwrap_err();
        assert_eq!(refused, "two tensors are called z.weight, expected a name for each");
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |change: &dyn Fn(&mut ScriptModel), expect: &str| {
            let mut other = model();
            change(&mut other);
            let refused = parse(&other.to_bytes("v").unwrap()).unwrap_err();
            assert_eq!(refused, format!("m: found {expect}, expected {WRITTEN}"));
        };
        refused(&|other| other.values[5] = f32::NAN, "NaN at place 0 in `z.mean`");
        refused(&|other| other.settings.momentum = -1.0, "momentum -1");
        refused(&|other| other.settings.metric = "a\u{1b}".into(), "the metric \"a\\u{1b}\"");
        refused(
            &|other| (other.tensors, other.values) = (Vec::new(), Vec::new()),
            "the model has no values to train, expected tensors of floating-point numbers",
        );

        let plain = tensors_with([("a", vec![1], Values::F32(&[1.0]))].into_iter(), None).unwrap();
        let refused = parse(&plain).unwrap_err();
        assert!(refused.contains("no `gaia.script` in the metadata"), "{refused}");
        let described = |text: &str| {
            let tensors = [("a", vec![1], Values::F32(&[1.0]))].into_iter();
            parse(&tensors_with(tensors, Some((DECLARATION, text))).unwrap()).unwrap_err()
        };
        assert!(described("{}").contains("with a mistake (missing field `layout`"));
        let rest = "\"metric\":\"m\",\"higher_is_better\":true,\"momentum\":0,\"average\":true,\"sharded\":false,\"version\":\"v\"";
        let names = |names: &str, layout: u32| {
            described(&format!(
                "{{\"layout\":{layout},\"tensors\":{names},\"statistics\":[],{rest}}}"
            ))
        };
        assert!(names("[\"b\"]", LAYOUT_RULE).contains("found no `b`"));
        assert!(names("[]", LAYOUT_RULE).contains("found 1 tensors, of which 0 are listed"));
        assert!(names("[\"a\"]", 99).contains("by rule 99, expected rule 1: write it again"));

        let whole = model().to_bytes("v").unwrap();
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err());
        }
    }
}
