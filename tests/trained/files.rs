//! `model.safetensors` of every application.

use safetensors::{Dtype, SafeTensors};

use super::{APPS, Bench};

#[test]
fn every_application_leaves_its_tables_and_what_predictions_need() {
    let bench = Bench::new();
    let expected: [(&[&str], &[&str]); 6] = [
        (&["items", "users"], &["items.names", "mean", "unit", "users.names"]),
        (
            &["bias0", "bias0.squares", "inputs", "weights0", "weights0.squares"],
            &["classes", "input.shape"],
        ),
        (
            &[
                "bias0",
                "bias0.squares",
                "bias1",
                "bias1.squares",
                "inputs",
                "weights0",
                "weights0.column_squares",
                "weights0.row_squares",
                "weights1",
                "weights1.column_squares",
                "weights1.row_squares",
            ],
            &["classes", "input.shape"],
        ),
        (&["bias0", "bias1", "weights0", "weights1"], &["classes", "input.shape"]),
        (&["bias", "bias.squares", "inputs", "weights", "weights.squares"], &[]),
        (&["topics", "word-topic"], &[]),
    ];
    for ((kind, keys), (tables, attachments)) in APPS.into_iter().zip(expected) {
        let file = std::fs::read(bench.path(&bench.train(kind, kind, keys))).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let of_axes = |axes: usize| {
            let names = tensors.iter().filter(|(_, tensor)| tensor.shape().len() == axes);
            let mut names: Vec<&str> = names.map(|(name, _)| name).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(of_axes(1), attachments, "{kind}");
        assert_eq!(of_axes(2), tables, "{kind}");
        let mut tables = tensors.iter().filter(|(_, tensor)| tensor.shape().len() == 2);
        assert!(tables.all(|(_, tensor)| tensor.dtype() == Dtype::F32), "{kind}");
        let (_, header) = SafeTensors::read_metadata(&file).unwrap();
        let description = &header.metadata().as_ref().unwrap()["gaia"];
        let description: serde_json::Value = serde_json::from_str(description).unwrap();
        assert_eq!(description["application"]["kind"], kind);
        let run_toml = std::fs::read_to_string(bench.path(&format!("{kind}/run.toml"))).unwrap();
        assert_eq!(description["settings"], run_toml);
    }
}
