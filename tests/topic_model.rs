//! Topic modelling: its sampler draws from the exact posterior, its counts are conserved, its copies are judged by
//! what they hold, and what was planted is found.

mod homes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use gaia_config::{Plan, RunFile};
use gaia_core::application::{Application, ApplicationError, EvaluationSums, Metric, Task};
use gaia_core::sync::{LocalStepsConfig, RemoteSync};
use gaia_core::types::{Clock, Deltas, Model, ModelLayout, Seed, TableId, TableLayout, TableRows};
use gaia_data::synthetic;
use gaia_ml::apps::{AppConfig, Completion, TokenCounts, TopicModel, TopicModelConfig, top_words};
use gaia_ml::config::Split;
use gaia_ml::divided::Divided;
use gaia_ml::examples::Documents;
use gaia_telemetry::{Observer, Progress};
use homes::homes;

#[test]
fn one_worker_samples_the_posterior_of_all_assignments() {
    let (topics, vocabulary, alpha, beta) = (2, 3, 0.4, 0.3);
    let documents = documents(vocabulary, &[&[0, 0, 1], &[1, 2, 2]]);
    let tokens = [(0, 0), (0, 0), (0, 1), (1, 1), (1, 2), (1, 2)];
    let mut posterior: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
    for assignment in 0..1_u32 << tokens.len() {
        let topic_of = |at: usize| (assignment >> at & 1) as usize;
        let (mut of_document, mut of_word) = ([[0_u32; 2]; 2], vec![0_u32; topics * vocabulary]);
        let (mut totals, mut odds) = ([0_u32; 2], 1.0);
        // The chain rule: each token given those before it.
        for (at, &(document, word)) in tokens.iter().enumerate() {
            let topic = topic_of(at);
            odds *= (f64::from(of_document[document][topic]) + alpha)
                / (of_document[document].iter().sum::<u32>() as f64 + alpha * topics as f64)
                * (f64::from(of_word[word * topics + topic]) + beta)
                / (f64::from(totals[topic]) + beta * vocabulary as f64);
            of_document[document][topic] += 1;
            of_word[word * topics + topic] += 1;
            totals[topic] += 1;
        }
        *posterior.entry(of_word).or_default() += odds;
    }
    let sum: f64 = posterior.values().sum();

    let config = TopicModelConfig { topics, alpha, beta, clocks_per_pass: 2, ..Default::default() };
    let app = topic_model(config, documents, None, Seed(1));
    let mut model = app.initial_model(Seed(1));
    let mut tasks = vec![app.task(0, Seed(2))];
    let sweeps = 60_000;
    let mut seen: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
    for pass in 0..sweeps {
        clock(&mut tasks, &mut model, 2 * pass);
        clock(&mut tasks, &mut model, 2 * pass + 1);
        let counts = model.table(WORD_TOPIC).iter().map(|&count| count as u32).collect();
        *seen.entry(counts).or_default() += 1.0 / sweeps as f64;
    }
    assert!(seen.keys().all(|counts| posterior.contains_key(counts)));
    let apart: f64 = posterior
        .iter()
        .map(|(counts, odds)| (odds / sum - seen.get(counts).copied().unwrap_or(0.0)).abs())
        .sum();
    assert!(apart < 0.03, "{apart}");
}

#[test]
fn counts_are_conserved_by_one_worker_and_by_many() {
    for workers in [vec![1], vec![2, 0, 3], vec![2; 11]] {
        let config = small();
        let made = synthetic::documents(
            &config.data.synthetic,
            config.data.held_out,
            SEED.child("data").child("synthetic"),
        );
        let mut occurs = vec![0.0; made.train.vocabulary];
        for document in 0..made.train.len() {
            made.train.tokens(document).for_each(|word| occurs[word as usize] += 1.0);
        }
        let app = build(config, &workers);
        let mut model = app.initial_model(SEED.child("model"));
        let mut tasks = tasks(&*app, workers.iter().sum());
        check_counts(&model, &occurs);
        let start = model.values.clone();
        for at in 0..12 {
            clock(&mut tasks, &mut model, at);
            check_counts(&model, &occurs);
        }
        assert_ne!(model.values, start);
    }
}

#[test]
fn local_steps_conserve_counts_to_the_last_token() {
    // What no round has taken is delivered: every token is in one topic.
    for settings in ["steps = 4", "steps = 3, fragments = 3, overlap = 1"] {
        let (occurs, model) = drained(&plan("three-regions", settings, "residuals"));
        check_counts(&model, &occurs);
    }
    // Or half of it is, by the mean of two copies, and halves are as exact.
    let (occurs, model) = drained(&plan("gaia-2016-ss", "steps = 4", "mean"));
    check_tokens(&model, &occurs);
    // Of sparse rounds all that is owed is, by either.
    for drain in ["residuals", "mean"] {
        let (occurs, model) = drained(&plan("gaia-2016-ss", "steps = 4, density = 0.2", drain));
        check_tokens(&model, &occurs);
    }
}

#[test]
fn local_steps_that_would_average_counts_do_not_begin() {
    let mut plan = plan("three-regions", "steps = 4", "mean");
    plan.remote = RemoteSync::LocalSteps(LocalStepsConfig::default());
    let app = gaia_data::build(plan.app.as_ref(), &plan.topology.data_homes(), SEED)
        .expect("made-up data");
    let refused = gaia_driver::run(&plan, &app, &mut Nobody).expect_err("counts have no mean");
    assert!(refused.to_string().contains("combine = \"sum\""), "{refused}");
}

#[test]
fn a_model_as_wrong_as_a_stale_copy_can_be_is_sampled_and_judged() {
    let app = build(small(), &[1, 1]);
    for wrong in [0.0, -3.0, 0.5, 1e30, -1e30, f32::NAN, f32::INFINITY] {
        let mut model = Model::zeros(app.layout().clone());
        model.values.fill(wrong);
        let mut task = app.task(0, SEED);
        for at in 0..8 {
            task.rows(Clock(at));
            let (deltas, work) = task.iterate(Clock(at), &model).unwrap();
            assert!(work.flops.is_finite());
            for row in deltas.tables.iter().flat_map(|table| table.values.chunks(10)) {
                assert!(row.iter().all(|change| change.fract() == 0.0));
                assert_eq!(row.iter().sum::<f32>(), 0.0, "a token leaves as often as it comes");
            }
        }
        let judged = app.evaluate(&model).unwrap();
        if wrong.is_finite() {
            assert!(judged.objective.is_finite() && judged.metric.is_finite(), "{wrong}");
        }
    }
}

#[test]
fn a_copy_is_judged_by_its_words_alone_and_not_by_the_names_of_topics() {
    let app = build(small(), &[1]);
    let mut model = app.initial_model(SEED);
    let mut tasks = tasks(&*app, 1);
    (0..8).for_each(|at| clock(&mut tasks, &mut model, at));
    let judged = app.evaluate(&model).unwrap();
    let mut other = model.clone();
    other.table_mut(TOPICS).fill(1.0);
    assert_eq!(app.evaluate(&other).unwrap(), judged, "totals of another moment win nothing");
    let width = other.row(TOPICS, 0).len();
    other.table_mut(WORD_TOPIC).chunks_mut(width).for_each(<[f32]>::reverse);
    let renamed = app.evaluate(&other).unwrap();
    assert!((renamed.objective / judged.objective - 1.0).abs() < 1e-5);
    assert!((renamed.metric / judged.metric - 1.0).abs() < 1e-4);
}

#[test]
fn planted_topics_are_found_by_many_workers_on_even_and_on_skewed_data() {
    for split in [Split::Even, Split::ByLabel] {
        // A sampler may stay where two topics have become one. Which starts do that is chance, so several are judged.
        let reached: Vec<Reached> = (42..47).map(|seed| reach(split, Seed(seed))).collect();
        let median = |of: fn(&Reached) -> f64| {
            let mut all: Vec<f64> = reached.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        assert!(median(|reached| reached.start) > 1.25, "{split:?}: {reached:?}");
        assert!(
            (0.97..1.03).contains(&median(|reached| reached.objective)),
            "{split:?}: {reached:?}"
        );
        assert!(median(|reached| reached.metric) < 1.1, "{split:?}: {reached:?}");
        assert!(median(|reached| reached.overlap) > 0.75, "{split:?}: {reached:?}");
    }
}

/// A model after 160 clocks of six workers, beside the planted one.
#[derive(Debug)]
struct Reached {
    /// The objective before training, as a multiple of the planted model's.
    start: f64,
    objective: f64,
    metric: f64,
    /// The share of the planted topics' words that are found.
    overlap: f64,
}

fn reach(split: Split, seed: Seed) -> Reached {
    let mut config = small();
    config.data.split = split;
    let made = synthetic::documents(
        &config.data.synthetic,
        config.data.held_out,
        seed.child("data").child("synthetic"),
    );
    let app = gaia_data::build(Some(&AppConfig::TopicModel(config)), &homes(&[2, 2, 2]), seed)
        .expect("made-up data");
    let mut planted = Model::zeros(app.layout().clone());
    for (count, probability) in planted.table_mut(WORD_TOPIC).iter_mut().zip(&made.words) {
        *count = 1e6 * probability;
    }
    let best = app.evaluate(&planted).expect("data in memory");
    let mut model = app.initial_model(seed.child("model"));
    let start = app.evaluate(&model).expect("data in memory");
    let mut tasks = tasks(&*app, 6);
    (0..160).for_each(|at| clock(&mut tasks, &mut model, at));
    let reached = app.evaluate(&model).expect("data in memory");
    Reached {
        start: start.objective / best.objective,
        objective: reached.objective / best.objective,
        metric: reached.metric / best.metric,
        overlap: found(&top_words(&planted, 10), &top_words(&model, 10)),
    }
}

#[test]
fn split_by_label_gives_a_worker_the_words_of_few_topics() {
    let words_of = |split| {
        let mut config = small();
        config.clocks_per_pass = 1;
        config.data.split = split;
        config.data.synthetic.topic_concentration = 0.01;
        config.data.synthetic.word_concentration = 0.01;
        let app = build(config, &[1; 10]);
        let rows = |worker| app.task(worker, SEED).rows(Clock(0)).tables[0].clone();
        (0..10).map(|worker| rows(worker).len(0)).sum::<usize>()
    };
    let (even, skewed) = (words_of(Split::Even), words_of(Split::ByLabel));
    assert!((skewed as f64) < 0.75 * even as f64, "{skewed} {even}");
}

#[test]
fn made_up_documents_are_drawn_from_their_model() {
    let generator = small().data.synthetic;
    let made = synthetic::documents(&generator, 0.1, SEED);
    assert_eq!((made.test.len(), made.train.len()), (40, 360));
    assert_eq!(made.labels.len(), 360);
    let mean = made.train.token_count() as f64 / 360.0;
    assert!((mean / generator.length as f64 - 1.0).abs() < 0.05, "{mean}");
    for topic in 0..generator.topics {
        let sum: f32 = made.words.iter().skip(topic).step_by(generator.topics).sum();
        assert!((sum - 1.0).abs() < 1e-4);
    }
    // Documents have the words of their labels.
    let (mut own, mut other) = (0.0, 0.0);
    for (document, &label) in made.labels.iter().enumerate() {
        for word in made.train.tokens(document) {
            let row = &made.words[word as usize * generator.topics..][..generator.topics];
            own += f64::from(row[label as usize]);
            other += f64::from(row.iter().sum::<f32>() - row[label as usize])
                / (generator.topics - 1) as f64;
        }
    }
    assert!(own > 3.0 * other, "{own} {other}");
    let again = synthetic::documents(&generator, 0.1, SEED);
    assert_eq!((again.train, again.test, again.labels), (made.train, made.test, made.labels));
}

#[test]
fn top_words_are_the_most_frequent_first_and_none_that_do_not_occur() {
    let documents = documents(4, &[&[0, 1], &[2, 3]]);
    let config = TopicModelConfig { topics: 2, ..Default::default() };
    let names = ["ant", "bee", "cat", "dog"].map(String::from).to_vec();
    let app = topic_model(config, documents, Some(names), SEED);
    let mut model = Model::zeros(app.layout().clone());
    for (word, counts) in [[1.0, 0.0], [3.0, 2.0], [3.0, -1.0], [0.0, 5.0]].iter().enumerate() {
        model.row_mut(WORD_TOPIC, word).copy_from_slice(counts);
    }
    model.row_mut(TOPICS, 0).copy_from_slice(&[2.0, 6.0]);
    assert_eq!(top_words(&model, 9), [vec![1, 2, 0], vec![3, 1]]);
    assert_eq!(top_words(&model, 1), [[1], [3]]);
    let lines = app.highlights(&model);
    assert_eq!(lines, ["topic 2      75.0 %  dog bee", "topic 1      25.0 %  bee cat ant"]);
}

/// Animals and plants, each in documents of their own: the file of topics says so in words.
#[test]
fn a_run_over_files_leaves_its_topics_in_words() {
    let folder = tempfile::tempdir().expect("room for a temporary folder");
    let names = ["ant", "bee", "cat", "fir", "oak", "yew"];
    let (mut rows, mut count) = (String::new(), 0);
    for document in 1..=40 {
        for word in 1..=3 {
            rows += &format!("{document} {} {}\n", word + 3 * (document % 2), 2 * word);
            count += 1;
        }
    }
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("room for a small file");
    };
    write("docword", &format!("40\n6\n{count}\n{rows}"));
    write("vocab", &names.join("\n"));
    write(
        "run.toml",
        "name = 'words'\n\
        app = { kind = 'topic-model', topics = 2, data = \
            { source = 'docword', path = 'docword', vocabulary_path = 'vocab' } }\n\
        topology = { file = 'three-regions' }\n\
        sync.remote = { model = 'asp' }\n\
        compute = { clock_overhead = '1 s' }\n\
        stop = { clocks = 80 }\n",
    );
    let mut command = assert_cmd::Command::cargo_bin("gaia").expect("it is built");
    let train = command.current_dir(folder.path()).args(["train", "run.toml", "--out", "out"]);
    let shown = String::from_utf8(train.assert().success().get_output().stdout.clone());
    let file = std::fs::read_to_string(folder.path().join("out/highlights.txt"));
    let file = file.expect("the run says what it has learnt");
    let mut topics: Vec<&str> = file.lines().map(|line| &line[line.len() - 11..]).collect();
    topics.sort_unstable();
    assert_eq!(topics, ["cat bee ant", "yew oak fir"], "{file}");
    assert!(file.lines().all(|line| shown.as_ref().is_ok_and(|shown| shown.contains(line))));

    let page = folder.path().join("out/report.html");
    let first = std::fs::read_to_string(&page).expect("the run has a page");
    assert!(first.contains(file.trim_end()), "{file}");
    std::fs::remove_file(&page).expect("it is there");
    let mut command = assert_cmd::Command::cargo_bin("gaia").expect("it is built");
    command.current_dir(folder.path()).args(["report", "out"]).assert().success();
    assert_eq!(std::fs::read_to_string(&page).expect("written again"), first);
}

/// How often each word occurs in the training documents, and the model when local steps over a WAN have ended.
fn drained(plan: &Plan) -> (Vec<f32>, Model) {
    let app = gaia_data::build(plan.app.as_ref(), &plan.topology.data_homes(), SEED)
        .expect("made-up data");
    let mut model = app.initial_model(SEED);
    let topics = model.row(TOPICS, 0).len();
    let occurs = model.table(WORD_TOPIC).chunks(topics).map(|row| row.iter().sum()).collect();
    let telling: Arc<dyn Application> = Arc::new(Telling(app));
    let told = gaia_driver::run(plan, &telling, &mut Nobody).expect("a run").highlights;
    let start = model.values.clone();
    for (value, line) in model.values.iter_mut().zip(&told) {
        *value = line.parse().expect("a number");
    }
    assert_ne!(model.values, start);
    (occurs, model)
}

/// Some clocks of local steps on made-up documents, more than rounds have taken.
fn plan(wan: &str, local_steps: &str, drain: &str) -> Plan {
    let text = format!(
        "name = 'counts'\n\
        sync.remote = {{ model = 'local-steps', values = 'f32', {local_steps} }}\n\
        drain.method = '{drain}'\n\
        compute = {{ clock_overhead = '1 s' }}\n\
        stop = {{ clocks = 22 }}\n\
        [app]\nkind = 'topic-model'\ntopics = 10\n\
        data.synthetic = {{ documents = 400, vocabulary = 200, topics = 10, length = 60 }}\n\
        [topology]\nfile = '{wan}'\nbandwidth_scale = 0.01\n"
    );
    let plan = RunFile::from_text("counts.toml", &text, &[]).and_then(|file| file.plan());
    plan.unwrap_or_else(|error| panic!("{}", error.render(false)))
}

/// Whole counts, none below zero, of all tokens.
fn check_counts(model: &Model, occurs: &[f32]) {
    assert!(model.values.iter().all(|&count| count >= 0.0 && count.fract() == 0.0));
    check_tokens(model, occurs);
}

/// Every occurrence of a word is in some topic, and topics are as large as what they hold.
fn check_tokens(model: &Model, occurs: &[f32]) {
    let topics = model.row(TOPICS, 0).len();
    let mut totals = vec![0.0; topics];
    for (row, occurs) in model.table(WORD_TOPIC).chunks(topics).zip(occurs) {
        assert_eq!(row.iter().sum::<f32>(), *occurs);
        totals.iter_mut().zip(row).for_each(|(total, count)| *total += count);
    }
    assert_eq!(model.row(TOPICS, 0), totals);
    assert_eq!(totals.iter().sum::<f32>(), occurs.iter().sum::<f32>());
}

/// Two documents of one worker, which train and are held out.
fn topic_model(
    config: TopicModelConfig,
    documents: Documents,
    names: Option<Vec<String>>,
    seed: Seed,
) -> TopicModel {
    let counts = TokenCounts::of(&documents);
    let divided = Divided::new(documents.clone(), documents, vec![Arc::from([0, 1])]);
    let held_out = Completion::new(&divided.test, &divided.test_parts, seed);
    TopicModel::new(config, divided, held_out, counts, names, seed, "two")
}

/// An application whose highlights are all values of the final model.
struct Telling(Arc<dyn Application>);

impl Application for Telling {
    fn layout(&self) -> &Arc<ModelLayout> {
        self.0.layout()
    }

    fn initial_model(&self, seed: Seed) -> Model {
        self.0.initial_model(seed)
    }

    fn task(&self, worker: usize, seed: Seed) -> Box<dyn Task> {
        self.0.task(worker, seed)
    }

    fn workers(&self) -> usize {
        self.0.workers()
    }

    fn sums(
        &self,
        model: &Model,
        workers: Range<usize>,
    ) -> Result<EvaluationSums, ApplicationError> {
        self.0.sums(model, workers)
    }

    fn metric(&self) -> Metric {
        self.0.metric()
    }

    fn learning_rate_factor(&self, clock: Clock) -> f64 {
        self.0.learning_rate_factor(clock)
    }

    fn deltas_are_counts(&self) -> bool {
        self.0.deltas_are_counts()
    }

    fn clocks_per_pass(&self) -> u64 {
        self.0.clocks_per_pass()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn highlights(&self, model: &Model) -> Vec<String> {
        model.values.iter().map(f32::to_string).collect()
    }
}

struct Nobody;

impl Observer for Nobody {
    fn on_progress(&mut self, _: &Progress) {}
}

/// The share of planted topics' words that are in the topic found that has most of them.
fn found(planted: &[Vec<u32>], found: &[Vec<u32>]) -> f64 {
    let shared = |a: &[u32], b: &[u32]| a.iter().filter(|word| b.contains(word)).count();
    let best = |topic: &Vec<u32>| found.iter().map(|other| shared(topic, other)).max().unwrap_or(0);
    let words: usize = planted.iter().map(Vec::len).sum();
    planted.iter().map(best).sum::<usize>() as f64 / words as f64
}

fn small() -> TopicModelConfig {
    let mut config = TopicModelConfig { topics: 10, ..Default::default() };
    let generator = &mut config.data.synthetic;
    generator.topics = 10;
    generator.vocabulary = 200;
    generator.documents = 400;
    generator.length = 60;
    generator.word_concentration = 0.03;
    config
}

fn build(config: TopicModelConfig, workers_per_dc: &[usize]) -> Arc<dyn Application> {
    gaia_data::build(Some(&AppConfig::TopicModel(config)), &homes(workers_per_dc), SEED)
        .expect("made-up data")
}

fn documents(vocabulary: usize, documents: &[&[u32]]) -> Documents {
    let mut made = Documents::empty(vocabulary);
    documents.iter().for_each(|tokens| made.push_tokens(&mut tokens.to_vec()));
    made
}

fn tasks(app: &dyn Application, workers: usize) -> Vec<Box<dyn Task>> {
    (0..workers).map(|worker| app.task(worker, SEED.nth(worker))).collect()
}

/// One clock of a bulk-synchronous cluster: all workers iterate on what was, then all deltas are added.
fn clock(tasks: &mut [Box<dyn Task>], model: &mut Model, clock: u64) {
    let all: Vec<Deltas> = tasks
        .iter_mut()
        .map(|task| {
            let read = task.rows(Clock(clock));
            assert!(read.tables.iter().all(|rows| matches!(rows, TableRows::Listed(_))));
            task.iterate(Clock(clock), model).expect("deltas").0
        })
        .collect();
    for deltas in &all {
        for (id, table) in [WORD_TOPIC, TOPICS].into_iter().zip(&deltas.tables) {
            let TableLayout { rows, width, .. } = *model.layout().table(id);
            for (row, changes) in table.rows.iter(rows).zip(table.values.chunks(width)) {
                for (value, change) in model.row_mut(id, row as usize).iter_mut().zip(changes) {
                    *value += change;
                }
            }
        }
    }
}

const WORD_TOPIC: TableId = TableId(0);
const TOPICS: TableId = TableId(1);
const SEED: Seed = Seed(42);
