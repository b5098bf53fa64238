//! Reads a model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, SafeTensors};

use super::description::{DESCRIPTION, ModelDescription, Shard};
use super::error::{ModelError, plain, shown};
use super::file::kind_name;
use super::shards;
use gaia_core::application::Attachment;
use gaia_core::types::{Model, ModelLayout};

/// A trained model as its file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedModel {
    /// The file.
    pub file: PathBuf,
    /// The tables, by name.
    pub tables: BTreeMap<String, TrainedTable>,
    /// What predictions need beside the tables, by name.
    pub attachments: BTreeMap<String, Attachment>,
    /// The run that has trained the model, where the file says so.
    pub description: Option<ModelDescription>,
}

/// A table of a trained model.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedTable {
    /// The number of rows.
    pub rows: usize,
    /// Parameters in each row.
    pub width: usize,
    /// The parameters row by row. All are finite.
    pub values: Vec<f32>,
}

impl TrainedModel {
    /// Reads the file of a model, or the files of all shards in a folder.
    ///
    /// # Errors
    /// [`ModelError::Unreadable`] where a file cannot be read. [`ModelError::Broken`] where it is not a safetensors
    /// file, has a tensor that is neither a table nor an attachment, a number that is not finite, a description that
    /// is none, or the model of a script.
    pub fn read(file: &Path) -> Result<Self, ModelError> {
        if is_folder(file)? {
            let model = shards::read(file)?;
            check_application(file, model.description.as_ref())?;
            return Ok(model);
        }
        let model = Self::read_file(file)?;
        match model.shard() {
            Some(shard) => Err(unfit_shard(file, shard)),
            None => Ok(model),
        }
    }

    /// Reads one file.
    pub(super) fn read_file(file: &Path) -> Result<Self, ModelError> {
        let bytes = std::fs::read(file);
        let bytes = bytes.map_err(|reason| ModelError::Unreadable { file: file.into(), reason })?;
        Self::parse(file, &bytes)
    }

    /// The shard that the file has.
    pub(super) fn shard(&self) -> Option<Shard> {
        self.description.as_ref()?.shard
    }

    fn parse(file: &Path, bytes: &[u8]) -> Result<Self, ModelError> {
        let not_safetensors = |error: safetensors::SafeTensorError| {
            // It may repeat what is in the file.
            let found = error.to_string().escape_debug().to_string();
            ModelError::broken(file, found, "a safetensors file")
        };
        let tensors = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
        let description = description(file, &header)?;
        // The tables of a shard are rows, of whatever application.
        if description.as_ref().is_some_and(|description| description.shard.is_none()) {
            check_application(file, description.as_ref())?;
        }

        let (mut tables, mut attachments) = (BTreeMap::new(), BTreeMap::new());
        for (name, tensor) in tensors.iter() {
            let broken = |(found, expected): (String, &str)| {
                ModelError::broken(file, format!("{found} of `{}`", plain(name)), expected)
            };
            match (tensor.dtype(), tensor.shape()) {
                (Dtype::F32, &[rows, width]) => {
                    let values = floats(&tensor, width).map_err(broken)?;
                    tables.insert(name.to_owned(), TrainedTable { rows, width, values });
                }
                _ => {
                    attachments.insert(name.to_owned(), attachment(&tensor).map_err(broken)?);
                }
            }
        }
        Ok(Self { file: file.into(), tables, attachments, description })
    }

    /// The tables as a model of this layout. `attachments` are those of the application: names and whole
    /// numbers that the file has too must be the same.
    ///
    /// # Errors
    /// [`ModelError::Broken`] with the first table, tensor or value that differs.
    pub fn model(
        &self,
        layout: &Arc<ModelLayout>,
        attachments: &BTreeMap<String, Attachment>,
    ) -> Result<Model, ModelError> {
        let broken =
            |found: String, expected: String| ModelError::broken(&self.file, found, expected);
        let mut model = Model::zeros(layout.clone());
        for id in layout.table_ids() {
            let table = layout.table(id);
            let (name, shape) = (&table.name, [table.rows, table.width]);
            let expected = format!("the table `{name}` with the shape {shape:?} as F32");
            let Some(found) = self.tables.get(name) else {
                return Err(broken(listed(self.tensor_names()), expected));
            };
            let found_shape = [found.rows, found.width];
            if found_shape != shape {
                return Err(broken(
                    format!("`{name}` with the shape {found_shape:?} as F32"),
                    expected,
                ));
            }
            model.table_mut(id).copy_from_slice(&found.values);
        }

        let own: Vec<&str> = layout.tables().iter().map(|table| table.name.as_str()).collect();
        let is_known = |name: &&str| {
            // Names say more about a model than some runs know.
            own.contains(name) || attachments.contains_key(*name) || name.ends_with(NAMES)
        };
        if let Some(other) = self.tensor_names().find(|name| !is_known(name)) {
            let expected = format!("only {}", listed(own.iter().copied()));
            return Err(broken(format!("the table {}", shown(other)), expected));
        }
        for (name, expected) in attachments {
            let found = self.attachments.get(name);
            if let Some((found, expected)) =
                found.and_then(|found| first_difference(found, expected))
            {
                return Err(broken(format!("{found} of `{name}`"), expected));
            }
        }
        Ok(model)
    }

    /// The names of all tensors, tables first.
    fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().chain(self.attachments.keys()).map(String::as_str)
    }
}

/// Whether a path is that of a folder and not of a file.
///
/// # Errors
/// [`ModelError::Unreadable`] where there is neither, [`ModelError::Broken`] where reading could block, as of a pipe without a
/// writer.
pub(super) fn is_folder(file: &Path) -> Result<bool, ModelError> {
    let unreadable = |reason| ModelError::Unreadable { file: file.into(), reason };
    let metadata = std::fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_dir() && !metadata.is_file() {
        return Err(ModelError::broken(file, kind_name(metadata.file_type()), "a file"));
    }
    Ok(metadata.is_dir())
}

/// The description in the metadata of a file, if there is one.
pub(super) fn description(
    file: &Path,
    header: &Metadata,
) -> Result<Option<ModelDescription>, ModelError> {
    let text = header.metadata().as_ref().and_then(|metadata| metadata.get(DESCRIPTION));
    let parsed = text.map(|text| serde_json::from_str(text)).transpose();
    parsed.map_err(|error| {
        let found = format!("`{DESCRIPTION}` in the metadata with a mistake ({error})");
        ModelError::broken(file, found, "the description of a run")
    })
}

/// The error of a file that has one shard, where a whole model is needed.
pub(super) fn unfit_shard(file: &Path, Shard { index, count }: Shard) -> ModelError {
    let found = format!("shard {} of {count}", index + 1);
    ModelError::broken(file, found, "a whole model, or the folder of all shards")
}

/// Checks that a model is that of an application with tables.
fn check_application(
    file: &Path,
    description: Option<&ModelDescription>,
) -> Result<(), ModelError> {
    match description {
        Some(ModelDescription { of_script: true, .. }) => Err(ModelError::broken(
            file,
            "the model of a script",
            "the model of an application that is built in; load_state_dict takes that of a script",
        )),
        _ => Ok(()),
    }
}

/// The numbers of a tensor whose rows are `width` long, all finite.
fn floats(tensor: &TensorView<'_>, width: usize) -> Result<Vec<f32>, (String, &'static str)> {
    let values: Vec<f32> =
        tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(place) => Err((format!("{} in row {}", values[place], place / width), "a number")),
    }
}

fn attachment(tensor: &TensorView<'_>) -> Result<Attachment, (String, &'static str)> {
    match (tensor.dtype(), tensor.shape()) {
        (Dtype::F32, [_]) => floats(tensor, 1).map(Attachment::Floats),
        (Dtype::U64, [_]) => {
            let numbers = tensor.data().as_chunks().0.iter();
            Ok(Attachment::Integers(numbers.map(|bytes| u64::from_le_bytes(*bytes)).collect()))
        }
        (Dtype::U8, [_]) => serde_json::from_slice(tensor.data())
            .map(Attachment::Texts)
            .map_err(|error| (format!("bytes with a mistake ({error})"), "a JSON list of strings")),
        (dtype, shape) => {
            let expected = "F32 with one or two axes, U64 or U8 with one";
            Err((format!("{dtype:?} with the shape {shape:?}"), expected))
        }
    }
}

/// The first value that differs, as it was found and expected. Numbers that are not whole may differ: a mean is that of the
/// data.
fn first_difference(found: &Attachment, expected: &Attachment) -> Option<(String, String)> {
    fn first<T: PartialEq>(
        found: &[T],
        expected: &[T],
        shown: impl Fn(&T) -> String,
    ) -> Option<(String, String)> {
        let place = found.iter().zip(expected).position(|(one, other)| one != other);
        let lengths = || {
            let count = |all: &[T]| format!("{} values", all.len());
            (found.len() != expected.len()).then(|| (count(found), count(expected)))
        };
        let named = |place: usize| {
            let expected = shown(&expected[place]);
            (format!("{} at place {place}", shown(&found[place])), expected)
        };
        place.map(named).or_else(lengths)
    }
    match (found, expected) {
        (Attachment::Floats(_), Attachment::Floats(_)) => None,
        (Attachment::Integers(found), Attachment::Integers(expected)) => {
            first(found, expected, u64::to_string)
        }
        (Attachment::Texts(found), Attachment::Texts(expected)) => {
            first(found, expected, |text| shown(text))
        }
        (found, expected) => Some((kind(found).into(), kind(expected).into())),
    }
}

fn kind(attachment: &Attachment) -> &'static str {
    match attachment {
        Attachment::Floats(_) => "numbers",
        Attachment::Integers(_) => "whole numbers",
        Attachment::Texts(_) => "text",
    }
}

/// The names of tables, as many as fit in a message.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<String> = names.map(shown).collect();
    let more = if all.len() > NAMES_SHOWN { " and others" } else { "" };
    format!("the tables {}{more}", all[..all.len().min(NAMES_SHOWN)].join(", "))
}

/// What the name of an attachment with the names of a table's rows ends with.
const NAMES: &str = ".names";

const NAMES_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MetricValue, TensorSpec, model_bytes, tensor_layout};
    use gaia_core::types::TableLayout;

    fn layout() -> Arc<ModelLayout> {
        let table = |name: &str, rows, width| TableLayout { name: name.into(), rows, width };
        Arc::new(ModelLayout::new(vec![table("users", 2, 3), table("items", 1, 3)]))
    }

    fn attachments() -> BTreeMap<String, Attachment> {
        [
            ("mean".to_owned(), Attachment::Floats(vec![3.5])),
            ("users.names".to_owned(), Attachment::Integers(vec![4, u64::MAX])),
            ("items.names".to_owned(), Attachment::Texts(vec!["a \"b\"\nÄ".into()])),
        ]
        .into()
    }

    fn model() -> Model {
        let mut model = Model::zeros(layout());
        model.values.iter_mut().zip(0_u8..).for_each(|(value, at)| *value = f32::from(at) - 4.5);
        model
    }

    fn bytes(
        model: &Model,
        attachments: &BTreeMap<String, Attachment>,
        description: Option<&str>,
    ) -> Vec<u8> {
        model_bytes(model, attachments, description).unwrap()
    }

    fn parse(bytes: &[u8]) -> Result<TrainedModel, ModelError> {
        TrainedModel::parse(Path::new("m"), bytes)
    }

    #[test]
    fn a_model_reads_back_as_it_was_written() {
        let written = bytes(&model(), &attachments(), None);
        assert_eq!(written, bytes(&model(), &attachments(), None));
        let read = parse(&written).unwrap();
        assert_eq!(read.attachments, attachments());
        assert_eq!(read.model(&layout(), &attachments()).unwrap().values, model().values);
        assert_eq!(read.description, None);

        let tables_alone = parse(&bytes(&model(), &BTreeMap::new(), None)).unwrap();
        assert!(tables_alone.model(&layout(), &attachments()).is_ok());
    }

    #[test]
    fn the_first_that_differs_is_named() {
        let read = parse(&bytes(&model(), &attachments(), None)).unwrap();
        let check = |name: &str, attachment: Attachment, expect: &str| {
            let mut own = attachments();
            own.insert(name.into(), attachment);
            let refused = read.model(&layout(), &own).err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some(expect));
        };
        check(
            "users.names",
            Attachment::Integers(vec![4, 7]),
            &format!("m: found {} at place 1 of `users.names`, expected 7", u64::MAX),
        );
        check(
            "users.names",
            Attachment::Integers(vec![4]),
            "m: found 2 values of `users.names`, expected 1 values",
        );
        check(
            "items.names",
            Attachment::Integers(vec![1]),
            "m: found text of `items.names`, expected whole numbers",
        );
        let mut fewer = attachments();
        fewer.remove("mean");
        let refused = read.model(&layout(), &fewer).unwrap_err().to_string();
        assert!(refused.contains("found the table \"mean\", expected only"), "{refused}");
    }

    #[test]
    fn the_model_of_a_script_has_its_own_shapes_and_is_of_no_application() {
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            shape: shape.into(),
            is_statistics: false,
            sparse: None,
        };
        let layout = tensor_layout(&[spec("kernel", &[2, 3, 1, 2]), spec("scale", &[])], false);
        let described = ModelDescription {
            run: "r".into(),
            seed: 1,
            application: serde_json::Value::Null,
            settings: String::new(),
            data_digest: None,
            remote_sync: "bsp".into(),
            clock: 8,
            objective: 0.5,
            metric: MetricValue { name: "m".into(), value: 0.25 },
            shard: None,
            of_script: true,
            version: "v".into(),
        };
        let described = serde_json::to_string(&described).unwrap();
        let bytes = bytes(&Model::zeros(layout), &BTreeMap::new(), Some(&described));

        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let shape = |name| tensors.tensor(name).unwrap().shape().to_vec();
        assert_eq!((shape("kernel"), shape("scale")), (vec![2, 3, 1, 2], vec![]));
        let refused = parse(&bytes).unwrap_err().to_string();
        assert!(refused.starts_with("m: found the model of a script, expected"), "{refused}");
    }

    #[test]
    fn files_that_are_no_model_are_refused() {
        let mut broken = attachments();
        broken.insert("mean".into(), Attachment::Floats(vec![f32::NAN]));
        let refused = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        let nan = refused(&bytes(&model(), &broken, None));
        assert_eq!(nan, "m: found NaN in row 0 of `mean`, expected a number");
        let described = refused(&bytes(&model(), &BTreeMap::new(), Some("{}")));
        assert!(
            described.contains("`gaia` in the metadata with a mistake (missing field"),
            "{described}"
        );

        let whole = bytes(&model(), &attachments(), None);
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err());
        }
        for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            // It may still be a model, of other values.
            if let Ok(read) = parse(&flipped) {
                let _ = read.model(&layout(), &attachments());
            }
        }
    }
}
