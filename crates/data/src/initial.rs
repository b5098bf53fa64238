//! An initial model from a file, such as the `model.safetensors` of an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::DataError;
use crate::rescaled::rescaling_of;
use gaia_core::application::{
    Application, ApplicationError, Attachment, Breakdown, EvaluationSums, Metric, Task,
    TrivialPredictor,
};
use gaia_core::types::{Clock, DcId, Model, ModelLayout, RowSet, Seed};
use gaia_ml::apps::{AppConfig, MEAN, change_mean};
use gaia_ml::rescaling::Rescaling;
use gaia_model::{StateDict, TrainedModel};

/// An application whose initial model was read from a file.
struct Initialized {
    application: Arc<dyn Application>,
    initial: Model,
    /// The path of the file, and what of it is not used.
    source: String,
}

/// The same application, with the tables of a safetensors file as its initial model. Where tables are tensors of shapes of
/// their own, such as those of a script, the file has them by these shapes, and may have others beside them. A classifier
/// whose features are rescaled in another way is turned into the same one of those of the application, and a factorisation of
/// ratings with another mean, if it has biases, into one that predicts the same. `config` is that of the application.
///
/// # Errors
/// [`DataError::Unreadable`] where the file cannot be read. [`DataError::Model`] where it is not the file of a model, or its
/// tables or their names are not those of the application, with the first that differs.
pub fn initialized(
    application: Arc<dyn Application>,
    config: Option<&AppConfig>,
    file: &Path,
) -> Result<Arc<dyn Application>, DataError> {
    let (layout, name) = (application.layout(), file.display());
    if let Some(table) = layout.table_ids().find(|table| layout.sparse(*table).is_some()) {
        let table = layout.table(table).name.escape_debug();
        let reason = format!(
            "model.init is {name}, expected none for a model with the sparse table `{table}`, which starts from its rule"
        );
        return Err(DataError::Application(reason.into()));
    }
    if layout.has_shapes() {
        let StateDict { model: initial, others } = StateDict::read(file, layout)?;
        let source = format!("{name}{}", unused(&others));
        return Ok(Arc::new(Initialized { application, initial, source }));
    }
    let mut trained = TrainedModel::read(file)?;
    let mut attachments = application.attachments();
    let (from, others) = rescaling_of(&trained)?;
    trained.attachments = others;
    let to = Rescaling::take(&mut attachments).unwrap_or_default();
    let mut initial = trained.model(layout, &attachments)?;
    from.convert(&to, &mut initial);
    if let Some(AppConfig::MatrixFactorization(config)) = config {
        let means = [&trained.attachments, &attachments].map(|all| all.get(MEAN));
        if let [Some(Attachment::Floats(from)), Some(Attachment::Floats(to))] = means
            && let ([from], [to]) = (from.as_slice(), to.as_slice())
        {
            change_mean(config, [*from, *to], &mut initial);
        }
    }
    let source = name.to_string();
    Ok(Arc::new(Initialized { application, initial, source }))
}

/// The tensors of a file that are not used, as many as fit in a line.
fn unused(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(UNUSED_SHOWN).map(|name| name.escape_debug().to_string()).collect();
    match names.len().saturating_sub(UNUSED_SHOWN) {
        _ if names.is_empty() => String::new(),
        0 => format!(" without its {}", shown.join(", ")),
        more => format!(" without its {} and {more} more", shown.join(", ")),
    }
}

impl Application for Initialized {
    fn initial_model(&self, _: Seed) -> Model {
        self.initial.clone()
    }

    fn describe(&self) -> String {
        format!("{}, from {}", self.application.describe(), self.source)
    }

    fn data_digest(&self) -> Option<u64> {
        self.application.data_digest()
    }

    fn layout(&self) -> &Arc<ModelLayout> {
        self.application.layout()
    }

    fn evaluated_rows(&self, worker: usize) -> RowSet {
        self.application.evaluated_rows(worker)
    }

    fn parameters_in_use(&self, workers: Range<usize>) -> usize {
        self.application.parameters_in_use(workers)
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        self.application.task(worker, seed)
    }

    fn workers(&self) -> usize {
        self.application.workers()
    }

    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        self.application.sums(model, workers)
    }

    fn trivial_predictor(&self) -> Result<Option<TrivialPredictor>, ApplicationError> {
        self.application.trivial_predictor()
    }

    fn breakdown(&self, model: &Model) -> Result<Option<Breakdown>, ApplicationError> {
        self.application.breakdown(model)
    }

    fn metric(&self) -> Metric {
        self.application.metric()
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.application.learning_rate_factor(clock)
    }

    fn momentum(&self) -> f64 {
        self.application.momentum()
    }

    fn deltas_are_counts(&self) -> bool {
        self.application.deltas_are_counts()
    }

    fn deltas_are_shares(&self) -> bool {
        self.application.deltas_are_shares()
    }

    fn clocks_per_pass(&self) -> u64 {
        self.application.clocks_per_pass()
    }

    fn handle_data_centers(&self, present: &BTreeSet<DcId>) {
        self.application.handle_data_centers(present);
    }

    fn finish(&self, model: &Model, workers: Range<usize>) {
        self.application.finish(model, workers);
    }

    fn attachments(&self) -> BTreeMap<String, Attachment> {
        self.application.attachments()
    }

    fn highlights(&self, model: &Model) -> Vec<String> {
        self.application.highlights(model)
    }
}

/// How many tensors that are not used are named.
const UNUSED_SHOWN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_tensors_that_are_not_used_are_named() {
        let names = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>();
        assert_eq!(unused(&names(0)), "");
        assert_eq!(unused(&names(2)), " without its t0, t1");
        assert_eq!(unused(&names(5)), " without its t0, t1, t2 and 2 more");
    }
}
