//! The file of a trained model, of a state dict, and of a script's model.

use std::collections::BTreeMap;
use std::sync::Arc;

use gaia_core::application::Attachment;
use gaia_core::types::{Model, ModelLayout, TableLayout};
use gaia_model::{
    MetricValue, ModelDescription, ScriptModel, ScriptSettings, StateDict, TensorSpec,
    TrainedModel, model_bytes,
};

use super::files::{check_error, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "model", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        let file = write(folder, "model.safetensors", data);
        match TrainedModel::read(&file) {
            Ok(read) => {
                for table in read.tables.values() {
                    assert_eq!(table.values.len(), table.rows * table.width);
                    assert!(table.values.iter().all(|value| value.is_finite()));
                }
                // It may be the model of another application.
                if let Err(error) = read.model(&layout(), &attachments()) {
                    check_error(&error, &file);
                }
            }
            Err(error) => check_error(&error, &file),
        }

        match ScriptModel::read(&file) {
            Ok(read) => {
                let values: usize = read.tensors.iter().map(TensorSpec::len).sum();
                assert_eq!(read.values.len(), values);
                assert!(read.values.iter().all(|value| value.is_finite()));
                assert_eq!(read.layout().parameters(), values);
            }
            Err(error) => check_error(&error, &file),
        }
        match StateDict::read(&file, &script().layout()) {
            Ok(read) => assert!(read.model.values.iter().all(|value| value.is_finite())),
            Err(error) => check_error(&error, &file),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let mut model = Model::zeros(layout());
    model.values.iter_mut().zip(0_u8..).for_each(|(value, at)| *value = f32::from(at) - 2.5);
    let description = ModelDescription {
        run: "r".into(),
        seed: 7,
        application: serde_json::Value::Null,
        settings: String::new(),
        data_digest: None,
        remote_sync: "asp".into(),
        clock: 9,
        objective: 0.5,
        metric: MetricValue { name: "rmse".into(), value: 0.25 },
        shard: None,
        of_script: false,
        version: "0".into(),
    };
    let description = serde_json::to_string(&description).expect("a description is JSON");
    vec![
        (
            "described",
            model_bytes(&model, &attachments(), Some(&description)).expect("it is small"),
        ),
        ("script", script().to_bytes("0").expect("it is small")),
        ("tables-alone", model_bytes(&model, &BTreeMap::new(), None).expect("it is small")),
    ]
}

fn script() -> ScriptModel {
    let spec = |name: &str, shape: &[usize], is_statistics| TensorSpec {
        name: name.into(),
        shape: shape.into(),
        is_statistics,
        sparse: None,
    };
    ScriptModel {
        tensors: vec![spec("net.weight", &[2, 1, 2], false), spec("net.mean", &[2], true)],
        values: vec![0.5, -1.0, 2.0, 3.0, 0.25, 7.0],
        settings: ScriptSettings {
            metric: "accuracy".into(),
            higher_is_better: true,
            momentum: 0.5,
            average: true,
            sharded: false,
        },
    }
}

fn layout() -> Arc<ModelLayout> {
    let table = |name: &str, rows, width| TableLayout { name: name.into(), rows, width };
    Arc::new(ModelLayout::new(vec![table("users", 2, 3), table("items", 1, 3)]))
}

fn attachments() -> BTreeMap<String, Attachment> {
    [
        ("items.names", Attachment::Texts(vec!["a\n\"b\"".into()])),
        ("mean", Attachment::Floats(vec![3.5])),
        ("users.names", Attachment::Integers(vec![4, u64::MAX])),
    ]
    .map(|(name, attachment)| (name.to_owned(), attachment))
    .into()
}
