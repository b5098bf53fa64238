//! A model in one file for each shard.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::description::{ModelDescription, Shard};
use super::error::ModelError;
use super::read::{TrainedModel, TrainedTable};

/// Reads the model whose shards are in a folder.
///
/// # Errors
/// [`ModelError::Unreadable`] where the folder or a file cannot be read, [`ModelError::Broken`] where a shard is missing or
/// is of another model.
pub(super) fn read(folder: &Path) -> Result<TrainedModel, ModelError> {
    let files = files(folder)?;
    let Some(first) = files.first() else {
        let found = "a folder without shards of a model";
        return Err(ModelError::broken(
            folder,
            found,
            "a file, or a folder with model-00001-of-N.safetensors",
        ));
    };
    let mut shards = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let shard = TrainedModel::read_file(file)?;
        let expected = Shard { index, count: files.len() };
        if shard.shard() != Some(expected) {
            let found = match shard.shard() {
                Some(Shard { index, count }) => format!("shard {} of {count}", index + 1),
                None => "no shard".into(),
            };
            let expected = format!("shard {} of {}", index + 1, files.len());
            return Err(ModelError::broken(file, found, expected));
        }
        shards.push(shard);
    }

    let described = whole(&shards[0]);
    let names = |shard: &TrainedModel| shard.tables.keys().cloned().collect::<Vec<String>>();
    let differs = shards
        .iter()
        .position(|shard| whole(shard) != described || names(shard) != names(&shards[0]));
    if let Some(other) = differs {
        let expected = format!("a shard of the same model as {}", first.display());
        return Err(ModelError::broken(&files[other], "a shard of another run or clock", expected));
    }
    let attachments =
        shards.iter_mut().flat_map(|shard| std::mem::take(&mut shard.attachments)).collect();
    let tables = joined(&files, &shards)?;
    Ok(TrainedModel { file: folder.into(), tables, attachments, description: described })
}

/// The files of the shards in a folder, in the order of their numbers.
fn files(folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let unreadable = |reason| ModelError::Unreadable { file: folder.into(), reason };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("model-").and_then(|rest| rest.strip_suffix(".safetensors"));
        if number.is_some_and(|number| number.contains("-of-")) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The description of a shard without its number.
fn whole(shard: &TrainedModel) -> Option<ModelDescription> {
    let description = shard.description.clone()?;
    Some(ModelDescription { shard: None, ..description })
}

/// The tables of all shards: row `r` is row `r ÷ count` of the shard `r mod count`.
fn joined(
    files: &[PathBuf],
    shards: &[TrainedModel],
) -> Result<BTreeMap<String, TrainedTable>, ModelError> {
    let mut tables = BTreeMap::new();
    for (name, first) in &shards[0].tables {
        let parts: Vec<&TrainedTable> =
            shards.iter().filter_map(|shard| shard.tables.get(name)).collect();
        let rows: usize = parts.iter().map(|part| part.rows).sum();
        for (index, file) in files.iter().enumerate() {
            let expected = [(rows + files.len() - 1 - index) / files.len(), first.width];
            let found = shards[index].tables.get(name).map(|part| [part.rows, part.width]);
            if found != Some(expected) {
                let found = found.map_or_else(|| "nothing".into(), |shape| format!("{shape:?}"));
                let expected = format!("the shape {expected:?}");
                return Err(ModelError::broken(file, format!("{found} of `{name}`"), expected));
            }
        }

        let mut values = Vec::with_capacity(rows * first.width);
        for row in 0..rows {
            let start = row / parts.len() * first.width;
            values.extend_from_slice(&parts[row % parts.len()].values[start..start + first.width]);
        }
        tables.insert(name.clone(), TrainedTable { rows, width: first.width, values });
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{MetricValue, shard_bytes};
    use gaia_core::application::Attachment;
    use gaia_core::types::{Model, ModelLayout, ShardLayout, TableLayout};

    fn description(index: usize, count: usize, clock: u64) -> String {
        let description = ModelDescription {
            run: "r".into(),
            seed: 1,
            application: serde_json::Value::Null,
            settings: String::new(),
            data_digest: None,
            remote_sync: "bsp".into(),
            clock,
            objective: 0.5,
            metric: MetricValue { name: "m".into(), value: 0.25 },
            shard: Some(Shard { index, count }),
            of_script: false,
            version: "v".into(),
        };
        serde_json::to_string(&description).unwrap()
    }

    /// Writes the shards of a model into a folder, the one with number `late` of another clock.
    fn write(folder: &Path, count: usize, late: usize) -> Model {
        let table = |name: &str, rows, width| TableLayout { name: name.into(), rows, width };
        let layout = Arc::new(ModelLayout::new(vec![table("a", 7, 2), table("b", 1, 3)]));
        let mut model = Model::zeros(layout.clone());
        model.values.iter_mut().zip(0_u8..).for_each(|(value, at)| *value = f32::from(at));
        for layout in ShardLayout::all(&layout, count) {
            let index = layout.shard().index();
            let mut values = Vec::new();
            for id in layout.model().table_ids() {
                let rows = (0..layout.rows_of(id)).map(|row| layout.model_row(row));
                values.extend(rows.flat_map(|row| model.row(id, row).to_vec()));
            }
            let attachments = match index {
                0 => [("mean".to_owned(), Attachment::Floats(vec![3.0]))].into(),
                _ => BTreeMap::new(),
            };
            let description = description(index, count, if index == late { 9 } else { 8 });
            let bytes = shard_bytes(&layout, &values, &attachments, &description).unwrap();
            std::fs::write(folder.join(Shard { index, count }.file_name()), bytes).unwrap();
        }
        model
    }

    #[test]
    fn shards_are_the_model() {
        for count in [1, 2, 3, 9] {
            let folder = tempfile::tempdir().unwrap();
            let model = write(folder.path(), count, count);
            let read = TrainedModel::read(folder.path()).unwrap();
            let found = read.model(model.layout(), &read.attachments.clone()).unwrap();
            assert_eq!(found.values, model.values, "{count}");
            assert_eq!((read.attachments.len(), read.description.unwrap().clock), (1, 8));
        }
    }

    #[test]
    fn shards_that_do_not_go_together_are_refused() {
        let refused = |folder: &Path| TrainedModel::read(folder).unwrap_err().to_string();
        let folder = tempfile::tempdir().unwrap();
        assert!(refused(folder.path()).contains("found a folder without shards"));
        write(folder.path(), 3, 1);
        assert!(refused(folder.path()).contains("of another run or clock"));
        write(folder.path(), 3, 3);
        let one = folder.path().join("model-00002-of-00003.safetensors");
        assert!(refused(&one).contains("found shard 2 of 3, expected a whole model"));
        std::fs::remove_file(&one).unwrap();
        assert!(refused(folder.path()).contains("found shard 1 of 3, expected shard 1 of 2"));
    }
}
