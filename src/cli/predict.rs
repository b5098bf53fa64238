//! `gaia predict`: what a trained model predicts, as a file.

use super::trained::Trained;
use super::{Failure, PredictFlags, Terminal};
use gaia_data::{DataError, TableWriter, TrainedOver, would_be_read};

/// Writes what a model predicts of the examples in some files.
pub(super) fn predict(flags: &PredictFlags, terminal: &Terminal) -> Result<(), Failure> {
    // A name that says no format is refused before any work, and so is a file that is read.
    TableWriter::check_name(&flags.out).map_err(Failure::Data)?;
    let trained = Trained::read(&flags.trained, Some(&flags.data))?;
    let application = trained.application()?;
    if would_be_read(application, &flags.out).map_err(|error| trained.failed(error))? {
        let out = flags.out.display();
        return Err(Failure::usage(format!(
            "--out is {out}, which --data reads, expected another file"
        )));
    }
    let over = TrainedOver::read(application, &trained.model, trained.plan.seed);
    let over = over.map_err(|error| trained.failed(error))?;

    let predictions = over.predictions().map_err(|error| trained.failed(error))?;
    predictions.write(&flags.out).map_err(|error| match error {
        DataError::Unwritable { .. } => Failure::run(error),
        other => Failure::Data(other),
    })?;
    let (rows, columns) = (predictions.len(), predictions.columns.len());
    terminal.line(&format!("{}: {rows} rows of {columns} columns", flags.out.display()));
    terminal.result(&serde_json::json!({
        "file": flags.out.display().to_string(),
        "rows": rows,
        "columns": predictions.columns.iter().map(|column| &column.name).collect::<Vec<_>>(),
    }));
    Ok(())
}

pub(super) const PREDICT_HELP: &str = "\
Examples:
  gaia predict runs/first/model.safetensors --data pairs.csv --out predicted.csv
  gaia predict runs/first/model.safetensors --data mnist --out classes.parquet

One row for each example: of ratings the user, the item and the predicted rating, whether or not the file has ratings; \
of examples with classes the label, the most likely class and the probability of each; of documents the largest topic \
and the share of each. Of data with test files the test set is taken.";
