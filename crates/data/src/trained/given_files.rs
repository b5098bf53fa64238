//! Which files a trained model is given, so that predictions are not written over them or among them.

use std::path::Path;

use super::path;
use crate::error::DataError;
use crate::formats::files::would_name;
use crate::homes::inventory::Inventory;
use gaia_ml::apps::AppConfig;
use gaia_ml::config::DataConfig;
use gaia_storage::is_url;

/// Whether the data that the settings of an application name is read from a file, or would be once there is such a file: among
/// those of a folder, or of a pattern.
///
/// # Errors
/// As [`TrainedOver::read`](super::TrainedOver::read), where the files cannot be listed.
pub fn would_be_read(config: &AppConfig, file: &Path) -> Result<bool, DataError> {
    match config {
        AppConfig::MatrixFactorization(config) => is_read_by(&config.data, file),
        AppConfig::SoftmaxRegression(config) => is_read_by(&config.data, file),
        AppConfig::Perceptron(config) => is_read_by(&config.data, file),
        AppConfig::ConvolutionalNetwork(config) => is_read_by(&config.data, file),
        AppConfig::LogisticRegression(config) => is_read_by(&config.data, file),
        AppConfig::TopicModel(config) => is_read_by(&config.data.as_data(), file),
        AppConfig::External(_) => Ok(false),
    }
}

fn is_read_by<S: Inventory, G: Clone + Default>(
    data: &DataConfig<S, G>,
    file: &Path,
) -> Result<bool, DataError> {
    let path = path(data)?;
    if is_url(path) {
        return Ok(false);
    }
    if data.source.reads_any_name() && would_name(path, file) {
        return Ok(true);
    }
    let files = data.source.files(path)?;
    Ok(file.canonicalize().is_ok_and(|file| {
        files.iter().any(|read| read.canonicalize().is_ok_and(|read| read == file))
    }))
}
