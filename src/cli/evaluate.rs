//! `gaia evaluate`: the objective and the metric of a trained model.

use serde::Serialize;

use super::trained::Trained;
use super::{EvaluateFlags, Failure, Terminal};
use crate::applications::{Applications, build_with};
use gaia_core::application::Evaluation;
use gaia_data::{DataError, TrainedOver};
use gaia_model::MetricValue;
use gaia_report::{Paint, TrainedEvaluation, evaluation_block};

/// The evaluation of a trained model.
#[derive(Debug, Serialize)]
struct Evaluated {
    model: String,
    /// The data, in a few words.
    data: String,
    objective: f64,
    metric: MetricValue,
    /// The figures of the run that has trained the model.
    trained: Figures,
}

#[derive(Debug, Serialize)]
struct Figures {
    run: String,
    clock: u64,
    objective: f64,
    metric: MetricValue,
}

/// Evaluates a model on the data of its run, or on other data.
pub(super) fn evaluate(
    flags: &EvaluateFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let trained = Trained::read(&flags.trained, flags.data.as_deref())?;
    let config = trained.application()?;
    let (metric, Evaluation { objective, metric: value }, data) = match &flags.data {
        Some(path) => {
            let over = TrainedOver::read(config, &trained.model, trained.plan.seed);
            let over = over.map_err(|error| trained.failed(error))?;
            let data = format!("{}: {} examples", path.display(), over.examples());
            let evaluation = over.evaluate().map_err(|error| trained.failed(error))?;
            (over.metric(), evaluation, data)
        }
        None => {
            // The values that training began with do not matter, and their file may be gone.
            let mut plan = trained.plan.clone();
            plan.model.init = None;
            let application = build_with(applications, &plan, 0..plan.topology.workers());
            let application = application.map_err(|error| trained.failed(error))?;
            trained.check_data(application.as_ref())?;
            let model = trained.model.model(application.layout(), &application.attachments());
            let model = model.map_err(|error| Failure::Data(error.into()))?;
            let evaluation = application
                .evaluate(&model)
                .map_err(|error| trained.failed(DataError::Application(error.into_inner())))?;
            (application.metric(), evaluation, application.describe())
        }
    };

    let description = &trained.description;
    let evaluated = Evaluated {
        model: trained.model.file.display().to_string(),
        data,
        objective,
        metric: MetricValue { name: metric.name.to_string(), value },
        trained: Figures {
            run: description.run.clone(),
            clock: description.clock,
            objective: description.objective,
            metric: description.metric.clone(),
        },
    };
    let Figures { run, clock, .. } = &evaluated.trained;
    let block = evaluation_block(
        &TrainedEvaluation {
            model: evaluated.model.clone(),
            run: (run.clone(), *clock),
            data: evaluated.data.clone(),
            objective: [objective, description.objective],
            metric_name: metric.name.into(),
            metric: [value, description.metric.value],
        },
        Paint::for_stdout(),
    );
    terminal.line(block.trim_end());
    terminal.result(&evaluated);
    Ok(())
}

pub(super) const EVALUATE_HELP: &str = "\
Examples:
  gaia evaluate runs/first/model.safetensors
  gaia evaluate runs/first/model.safetensors --data ratings-of-june.csv --json
  gaia evaluate runs/first/model.safetensors --data mnist --set app.data.source=idx

Without --data the model is evaluated as at the end of its run: the objective over the examples that trained it, the \
metric over those that were held out. With --data both are over all examples of the data, or over its test files if \
the format has test files. Users and items that the model does not know are predicted from what it knows.";
