//! A plan on the terminal: blocks of at most 80 columns.

use console::Alignment;

use super::{PlanFile, PlanRow, ScalingTable, TargetFrom, Verdict};
use crate::terminal::{Paint, line};
use crate::text::{TextTable, WIDTH, fitted, numbers, wrapped};

/// A line for each candidate, and the one to choose with its reason and its `[sync.remote]`.
pub fn plan_block(plan: &PlanFile, paint: Paint) -> String {
    let mut block = String::new();
    let PlanFile { name, app, wan, seed, data_centers, .. } = plan;
    let places = numbers::counted(*data_centers, "data center");
    let title = format!("{name}: {app} over {wan}, {places}, seed {seed}");
    line(&mut block, &paint.bold(&fitted(&title, WIDTH)));

    for text in wrapped(&target(plan), WIDTH) {
        line(&mut block, &text);
    }
    line(&mut block, "");

    let (head, rows) = table(plan).lines(WIDTH);
    line(&mut block, &paint.dim(&head));
    for (row, text) in plan.rows.iter().zip(rows) {
        let is_chosen =
            plan.choice.as_ref().is_some_and(|choice| choice.candidate == row.candidate);
        line(&mut block, &if is_chosen { paint.bold(&text) } else { text });
    }
    for text in notes(plan).iter().flat_map(|note| wrapped(note, WIDTH)) {
        line(&mut block, &paint.dim(&text));
    }

    line(&mut block, "");
    match &plan.choice {
        Some(choice) => {
            for text in wrapped(&format!("Choose {}. {}", choice.candidate, choice.reason), WIDTH) {
                line(&mut block, &text);
            }
            line(&mut block, "");
            choice.toml.lines().for_each(|text| line(&mut block, text));
        }
        None => line(&mut block, "No candidate has trained."),
    }

    block
}

/// A line for each number of workers in one data center.
pub fn scaling_block(scaling: &ScalingTable, paint: Paint) -> String {
    let mut block = String::new();
    let servers = numbers::counted(scaling.servers, "server");
    let title = format!(
        "One data center with {servers}: {} of computation a clock, {} to read, {} to send, {} cards",
        numbers::seconds(scaling.compute_s),
        numbers::bytes(scaling.read_bytes),
        numbers::bytes(scaling.sent_bytes),
        numbers::bandwidth(scaling.lan_bits_per_second),
    );
    for text in wrapped(&title, WIDTH) {
        line(&mut block, &text);
    }
    let most = scaling.rows.last().map_or(0, |row| row.workers);
    let bound = match scaling.network_bound_beyond {
        Some(workers) if workers >= most => {
            format!("Not network-bound with up to {}.", numbers::counted(most, "worker"))
        }
        Some(workers) => format!("Network-bound beyond {}.", numbers::counted(workers, "worker")),
        None => "Network-bound with one worker.".into(),
    };
    line(&mut block, &bound);
    line(&mut block, "");

    let right = Alignment::Right;
    let mut table = TextTable::new(&[
        ("workers", right),
        ("clock", right),
        ("speed", right),
        ("servers that hide it", right),
        ("clock with them", right),
    ]);
    for row in &scaling.rows {
        table.row(vec![
            row.workers.to_string(),
            numbers::seconds(row.clock_s),
            numbers::times(row.speedup),
            row.hiding_servers.map_or_else(|| "none".into(), |servers| servers.to_string()),
            numbers::shown(row.hiding_clock_s, numbers::seconds),
        ]);
    }
    let (head, rows) = table.lines(WIDTH);
    line(&mut block, &paint.dim(&head));
    rows.iter().for_each(|text| line(&mut block, text));

    block
}

/// What each candidate is simulated for at most.
pub fn budget_text(clocks: u64, seconds: Option<f64>) -> String {
    match seconds {
        Some(seconds) => format!("{clocks} clocks or {}", numbers::seconds(seconds)),
        None => format!("{clocks} clocks"),
    }
}

fn target(plan: &PlanFile) -> String {
    if plan.target_objective.is_nan() {
        return "No candidate has trained, so there is no target. Simulated, virtual time.".into();
    }
    let from = match plan.target_from {
        TargetFrom::Flag => "from --target".to_owned(),
        TargetFrom::RunFile => "stop.objective of the run file".to_owned(),
        TargetFrom::BestCandidate => format!(
            "near what the best candidate holds after {}; it counts once the mean of three evaluations is there",
            budget_text(plan.budget_clocks, plan.budget_s)
        ),
    };
    format!(
        "Target objective {}: {from}. Simulated, virtual time.",
        numbers::target(plan.target_objective)
    )
}

fn table(plan: &PlanFile) -> TextTable {
    let right = Alignment::Right;
    let mut table = TextTable::new(&[
        ("", Alignment::Left),
        ("to target", right),
        ("clocks", right),
        ("WAN sent", right),
        ("cost", right),
        ("memory", right),
        ("objective", right),
    ]);
    for row in &plan.rows {
        let about = if row.verdict == Verdict::Extrapolated { "≈" } else { "" };
        let shown =
            |text: Option<String>| text.map_or_else(|| "-".into(), |text| about.to_owned() + &text);
        let own = if row.is_own { "* " } else { "  " };
        table.row(vec![
            format!("{own}{}", row.candidate),
            time(row, about, plan.budget_clocks),
            shown(row.clocks_to_target.map(|clocks| clocks.to_string())),
            shown(row.wan_bytes_to_target.map(numbers::bytes)),
            shown(row.cost_usd.map(numbers::dollars)),
            numbers::bytes(row.memory_bytes),
            if row.simulated_clocks == 0 {
                "-".into()
            } else {
                numbers::objective(row.held_objective)
            },
        ]);
    }
    table
}

fn time(row: &PlanRow, about: &str, budget: u64) -> String {
    match &row.verdict {
        Verdict::Reached | Verdict::Extrapolated => {
            numbers::shown(row.time_to_target_s, |time| about.to_owned() + &numbers::seconds(time))
        }
        Verdict::NotReached => format!("not in {budget}"),
        Verdict::Diverged => "diverged".into(),
        Verdict::Impossible(_) => "impossible".into(),
    }
}

/// What the marks of the table mean, as far as they are in it.
fn notes(plan: &PlanFile) -> Vec<String> {
    let has = |verdict: &Verdict| plan.rows.iter().any(|row| row.verdict == *verdict);
    let clocks = plan.budget_clocks;
    let budget = budget_text(clocks, plan.budget_s);
    let mut notes = Vec::new();
    if plan.rows.iter().any(|row| row.is_own) {
        notes.push("*: as the run file has it".to_owned());
    }
    if has(&Verdict::Extrapolated) {
        notes
            .push(format!("≈: not within {budget}; extrapolated from the course of the objective"));
    }
    if has(&Verdict::NotReached) {
        notes.push(format!("not in {clocks}: not within {budget}, and no course that leads there"));
    }
    for row in &plan.rows {
        if let Verdict::Impossible(reason) = &row.verdict {
            notes.push(fitted(&format!("{}: {reason}", row.candidate), WIDTH));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_json;

    /// A plan of which no candidate has trained.
    fn untrained() -> PlanFile {
        PlanFile {
            name: "run".into(),
            app: "perceptron".into(),
            wan: "three-regions".into(),
            seed: 1,
            version: "0".into(),
            data_centers: 3,
            workers: 6,
            parameters: 10,
            changed_share: 1.0,
            compute_s: 0.1,
            budget_clocks: 200,
            budget_s: None,
            target_objective: f64::NAN,
            target_from: TargetFrom::BestCandidate,
            rows: Vec::new(),
            choice: None,
            scaling: ScalingTable {
                compute_s: 0.1,
                model_bytes: 40,
                read_bytes: 40,
                sent_bytes: 40,
                lan_bits_per_second: 1e9,
                servers: 1,
                network_bound_beyond: None,
                rows: Vec::new(),
            },
        }
    }

    #[test]
    fn where_no_candidate_has_trained_a_plan_has_no_target() {
        let plan = untrained();
        let shown = plan_block(&plan, Paint::Plain);
        assert!(
            shown.contains("so there is no target") && !shown.contains("not finite"),
            "{shown}"
        );

        let text = to_json(&plan);
        assert!(text.contains("\"target_objective\": null"), "{text}");
        let read: PlanFile = serde_json::from_str(&text).unwrap();
        assert!(read.target_objective.is_nan());
        assert_eq!(
            PlanFile { target_objective: 0.0, ..read },
            PlanFile { target_objective: 0.0, ..plan }
        );
    }

    #[test]
    fn the_seconds_of_a_run_are_said_beside_the_clocks() {
        let with = |budget_s| PlanFile { target_objective: 0.5, budget_s, ..untrained() };
        let said = [None, Some(45.0)].map(|seconds| target(&with(seconds)));
        assert!(said[0].contains("holds after 200 clocks; it counts"), "{}", said[0]);
        assert!(said[1].contains("holds after 200 clocks or 45.0 s; it counts"), "{}", said[1]);
    }
}
