//! The evaluation of a trained model on the terminal.

use super::lines::line;
use super::paint::Paint;
use crate::text::{WIDTH, fitted, numbers, plain};

/// The evaluation of a trained model, beside the figures of the run that has trained it.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedEvaluation {
    /// The file of the model.
    pub model: String,
    /// The name of the run that has trained it, and the clock that it holds.
    pub run: (String, u64),
    /// The data that it was evaluated on, in a few words.
    pub data: String,
    /// The objective on this data, and when trained.
    pub objective: [f64; 2],
    /// The name of the metric.
    pub metric_name: String,
    /// The metric on this data, and when trained.
    pub metric: [f64; 2],
}

/// The evaluation as lines of at most 80 columns, except for paths.
pub fn evaluation_block(evaluation: &TrainedEvaluation, paint: Paint) -> String {
    let TrainedEvaluation { model, run, data, objective, metric_name, metric } = evaluation;
    let mut block = String::new();
    let title = format!("{model}: clock {} of {}", run.1, run.0);
    line(&mut block, &paint.bold(&plain(&title)));
    line(&mut block, "");
    let both = |[now, trained]: [f64; 2]| {
        format!("{}, {} when trained", numbers::objective(now), numbers::objective(trained))
    };
    for (label, value) in [
        ("data", data.clone()),
        ("objective", both(*objective)),
        (metric_name.as_str(), both(*metric)),
    ] {
        let label = paint.dim(&format!("{:<16}", fitted(label, 15)));
        line(&mut block, &format!("  {label}{}", fitted(&value, WIDTH - 18)));
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_figures_are_shown_within_eighty_columns() {
        let evaluation = TrainedEvaluation {
            model: "m.safetensors".into(),
            run: ("first".into(), 60),
            data: "long ".repeat(30),
            objective: [0.25, 0.5],
            metric_name: "rmse".into(),
            metric: [0.875, 1.0],
        };
        let block = evaluation_block(&evaluation, Paint::Plain);
        assert!(
            block.starts_with("m.safetensors: clock 60 of first\n\n  data            long long")
        );
        assert!(block.contains("  rmse            0.875"), "{block}");
        assert!(block.lines().all(|line| line.chars().count() <= 80), "{block}");
    }

    #[test]
    fn the_name_of_a_run_in_a_model_sends_no_commands_to_the_terminal() {
        let evaluation = TrainedEvaluation {
            model: "m.safetensors".into(),
            run: ("first\u{1b}[2J".into(), 60),
            data: "\u{7}data".into(),
            objective: [0.25, 0.5],
            metric_name: "rmse".into(),
            metric: [0.875, 1.0],
        };
        let block = evaluation_block(&evaluation, Paint::Plain);
        assert!(block.chars().all(|c| c == '\n' || !c.is_control()), "{block:?}");
    }
}
