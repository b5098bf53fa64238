//! Every application over made-up data, driven by the simplest loop there is, reaches what is known to be
//! reachable.

mod homes;
mod real_data;

use std::sync::Arc;

use gaia_core::application::{Application, Breakdown, Evaluation};
use gaia_core::types::{Clock, Deltas, Model, Seed, TableLayout, TableRows};
use gaia_ml::apps::{
    AppConfig, ConvolutionalNetworkConfig, DocumentSource, ImageSource, LogisticRegressionConfig,
    MatrixFactorizationConfig, Normalization, PerceptronConfig, RatingGenerator, RatingSource,
    SoftmaxRegressionConfig, SparseSource, TopicModelConfig, softmax_regression,
};
use gaia_ml::config::Split;
use gaia_ml::divided::Divided;
use gaia_ml::optimizer::Optimizer;
use homes::homes;
use real_data::real_data;

#[test]
fn matrix_factorization_comes_near_the_noise() {
    let config = MatrixFactorizationConfig {
        rank: 8,
        regularization: 0.02,
        row_step_max: Some(0.5),
        ..Default::default()
    };
    let noise = config.data.synthetic.noise;
    let reached = train(&AppConfig::MatrixFactorization(config), &[2, 2, 2], 200);
    assert!(reached.metric < 1.2 * noise, "{reached:?}");
    assert!(reached.metric > 0.95 * noise, "{reached:?}");
}

#[test]
fn softmax_regression_comes_near_the_best_answer() {
    let config = SoftmaxRegressionConfig::default();
    let generator = &config.data.synthetic;
    let best = gaia_data::synthetic::mixture(generator, 0.1, generator_seed()).best_accuracy;
    let reached = train(&AppConfig::SoftmaxRegression(config), &[2, 2, 2], 200);
    assert!((reached.metric - best).abs() < 0.02, "{reached:?} {best}");
}

#[test]
fn a_perceptron_learns_its_teacher() {
    let config = PerceptronConfig { learning_rate: Some(1.0), ..Default::default() };
    let generator = &config.data.synthetic;
    let best = gaia_data::synthetic::teacher(generator, 0.1, generator_seed()).best_accuracy;
    let reached = train(&AppConfig::Perceptron(config), &[2, 2, 2], 500);
    assert!(reached.metric > best - 0.07, "{reached:?} {best}");
}

#[test]
fn a_convolutional_network_finds_patterns_that_a_linear_model_does_not() {
    for normalization in [Normalization::None, Normalization::Group] {
        let config = ConvolutionalNetworkConfig { normalization, ..Default::default() };
        let (generator, best) = (&config.data.synthetic, 1.0 - config.data.synthetic.label_noise);
        let made = gaia_data::synthetic::images(generator, 0.1, generator_seed());
        assert!((made.best_accuracy - best).abs() < 0.02);
        let reached = train(&AppConfig::ConvolutionalNetwork(config), &[2, 2, 2], 300);
        assert!(reached.metric > made.best_accuracy - 0.1, "{normalization:?}: {reached:?}");
        let parts = vec![(0..made.train.len() as u32).collect()];
        let divided = Divided::new(made.train, made.test, parts);
        let linear = SoftmaxRegressionConfig::default();
        let linear = softmax_regression(&linear, divided, SEED, "images");
        let reached = descend(&linear, 1, 300);
        assert!(reached.metric < 0.65, "{reached:?}");
    }
}

#[test]
fn logistic_regression_comes_near_the_planted_weights() {
    let config = LogisticRegressionConfig {
        optimizer: Optimizer::Sgd,
        learning_rate: Some(5.0),
        ..Default::default()
    };
    let generator = &config.data.synthetic;
    let best = gaia_data::synthetic::planted(generator, 0.1, generator_seed()).best_accuracy;
    let reached = train(&AppConfig::LogisticRegression(config), &[2, 2, 2], 200);
    assert!((reached.metric - best).abs() < 0.02, "{reached:?} {best}");
}

#[test]
fn momentum_reaches_the_same_place() {
    let plain = SoftmaxRegressionConfig { optimizer: Some(Optimizer::Sgd), ..Default::default() };
    let config =
        SoftmaxRegressionConfig { momentum: 0.9, learning_rate: Some(0.05), ..plain.clone() };
    let [plain, config] = [plain, config].map(AppConfig::SoftmaxRegression);
    assert_eq!([&plain, &config].map(|config| build(config, &[1]).momentum()), [0.0, 0.9]);
    let plain = train(&plain, &[2, 2, 2], 200);
    let moved = train(&config, &[2, 2, 2], 200);
    assert!((moved.objective / plain.objective - 1.0).abs() < 0.05, "{moved:?} {plain:?}");
}

#[test]
fn summed_deltas_of_many_workers_go_where_one_worker_goes() {
    for split in [Split::Even, Split::ByUser] {
        let mut config = MatrixFactorizationConfig::default();
        config.data.split = split;
        let config = AppConfig::MatrixFactorization(config);
        let (one, many) = (train(&config, &[1], 60), train(&config, &[2; 11], 60));
        assert!((one.objective / many.objective - 1.0).abs() < 0.02, "{one:?} {many:?}");
    }
}

#[test]
fn a_factorisation_begins_at_the_mean() {
    for (users, items) in [(20, 30), (30, 20)] {
        let mut config = MatrixFactorizationConfig::default();
        config.data.synthetic =
            RatingGenerator { users, items, ratings: 300, ..Default::default() };
        let app = build(&AppConfig::MatrixFactorization(config), &[1, 2]);
        let begun = app.evaluate(&app.initial_model(SEED)).unwrap();
        let mean = app.trivial_predictor().unwrap().unwrap();
        assert_eq!(begun.metric, mean.evaluation.metric);
        assert!(begun.objective > mean.evaluation.objective, "no factor is random");
    }
}

#[test]
fn a_worker_without_examples_changes_nothing() {
    for mut config in defaults() {
        match &mut config {
            AppConfig::MatrixFactorization(config) => config.data.synthetic.ratings = 10,
            AppConfig::SoftmaxRegression(config) => config.data.synthetic.examples = 10,
            AppConfig::Perceptron(config) => config.data.synthetic.examples = 10,
            AppConfig::ConvolutionalNetwork(config) => config.data.synthetic.examples = 10,
            AppConfig::LogisticRegression(config) => config.data.synthetic.examples = 10,
            AppConfig::TopicModel(config) => config.data.synthetic.documents = 10,
            AppConfig::External(_) => unreachable!("no program hands one in"),
        }
        let app = build(&config, &[7, 0, 8]);
        let model = app.initial_model(SEED);
        let mut task = app.task(14, SEED);
        task.rows(Clock(0));
        let (deltas, work) = task.iterate(Clock(0), &model).unwrap();
        assert_eq!(deltas, Deltas::none(app.layout()), "{}", config.kind());
        assert_eq!(work.examples, 0);
        assert!(app.evaluate(&model).unwrap().objective.is_finite());
    }
}

#[test]
fn a_run_repeats_to_the_bit() {
    for config in defaults() {
        let once = train(&config, &[1, 2], 12);
        let again = train(&config, &[1, 2], 12);
        assert_eq!(once.objective.to_bits(), again.objective.to_bits());
        assert_eq!(once.metric.to_bits(), again.metric.to_bits());
    }
}

#[test]
fn what_counts_is_known_before_there_is_data() {
    for config in defaults() {
        let counts = matches!(config, AppConfig::TopicModel(_));
        assert_eq!(config.deltas_are_counts(), counts, "{}", config.kind());
        assert_eq!(build(&config, &[1]).deltas_are_counts(), counts, "{}", config.kind());
    }
}

#[test]
fn a_task_reads_every_row_that_it_changes() {
    for config in defaults() {
        let app = build(&config, &[1, 2]);
        let model = app.initial_model(SEED);
        let mut task = app.task(1, SEED);
        for clock in 0..3 {
            let read = task.rows(Clock(clock));
            let (deltas, _) = task.iterate(Clock(clock), &model).unwrap();
            let tables = read.tables.iter().zip(&deltas.tables);
            for (id, (read, changed)) in app.layout().table_ids().zip(tables) {
                let table = app.layout().table(id);
                let rows: Vec<u32> = changed.rows.iter(table.rows).collect();
                assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
                assert_eq!(changed.values.len(), rows.len() * table.width);
                if let TableRows::Listed(read) = read {
                    assert!(rows.iter().all(|row| read.binary_search(row).is_ok()));
                }
            }
        }
    }
}

#[test]
fn movielens_is_predicted_within_nine_tenths_of_a_star() {
    let Some(path) = real_data("movielens_latest_small/ratings.csv.gz") else { return };
    let mut config = MatrixFactorizationConfig::default();
    config.data.source = RatingSource::MovieLens;
    config.data.path = Some(path);
    let reached = train(&AppConfig::MatrixFactorization(config), &[2; 11], 100);
    assert!(reached.metric < 0.87, "{reached:?}");
    assert!(reached.objective < 0.66, "{reached:?}");
}

#[test]
fn handwritten_digits_are_read_by_softmax_regression() {
    let Some(path) = real_data("mnist") else { return };
    let mut config = SoftmaxRegressionConfig::default();
    config.data.source = ImageSource::Idx;
    config.data.path = Some(path);
    let reached = train(&AppConfig::SoftmaxRegression(config), &[2, 2, 2], 150);
    assert!(reached.metric > 0.89, "{reached:?}");
}

#[test]
fn handwritten_digits_are_read_better_by_a_convolutional_network() {
    let Some(path) = real_data("mnist") else { return };
    let mut config = ConvolutionalNetworkConfig {
        learning_rate: Some(0.05),
        momentum: 0.9,
        ..Default::default()
    };
    config.data.source = ImageSource::Idx;
    config.data.path = Some(path);
    let reached = train(&AppConfig::ConvolutionalNetwork(config), &[2, 2, 2], 200);
    assert!(reached.metric > 0.95, "{reached:?}");
}

#[test]
fn incomes_are_guessed_by_logistic_regression() {
    let Some(path) = real_data("libsvm/a9a.gz") else { return };
    let mut config = LogisticRegressionConfig::default();
    config.data.source = SparseSource::Libsvm;
    config.data.path = Some(path);
    let reached = train(&AppConfig::LogisticRegression(config), &[2, 2, 2], 200);
    assert!(reached.metric > 0.845, "{reached:?}");
}

/// One topic for all words is the unigram model: what topics must beat.
#[test]
fn topics_of_a_blog_tell_more_than_how_often_words_occur() {
    let Some(path) = real_data("uci_kos/docword.kos.txt.gz") else { return };
    let mut config = TopicModelConfig { topics: 50, ..Default::default() };
    config.data.source = DocumentSource::Docword;
    config.data.path = Some(path);
    let one = TopicModelConfig { topics: 1, ..config.clone() };
    let unigram = train(&AppConfig::TopicModel(one), &[1], 0);
    for split in [Split::Even, Split::ByLabel] {
        config.data.split = split;
        let reached = train(&AppConfig::TopicModel(config.clone()), &[2; 11], 60);
        assert!(reached.metric < 0.7 * unigram.metric, "{split:?} {reached:?} {unigram:?}");
        assert!(reached.objective < unigram.objective - 0.5, "{split:?} {reached:?} {unigram:?}");
    }
}

fn build(config: &AppConfig, workers_per_dc: &[usize]) -> Arc<dyn Application> {
    gaia_data::build(Some(config), &homes(workers_per_dc), SEED).expect("data that is there")
}

/// A bulk-synchronous cluster as a loop: all workers iterate on one model, then all deltas are added.
fn train(config: &AppConfig, workers_per_dc: &[usize], clocks: u64) -> Evaluation {
    descend(&*build(config, workers_per_dc), workers_per_dc.iter().sum(), clocks)
}

fn descend(app: &dyn Application, workers: usize, clocks: u64) -> Evaluation {
    let mut model = app.initial_model(SEED.child("model"));
    let mut tasks: Vec<_> = (0..workers).map(|worker| app.task(worker, SEED.nth(worker))).collect();
    for clock in 0..clocks {
        let mut all = Vec::new();
        for task in &mut tasks {
            task.rows(Clock(clock));
            all.push(task.iterate(Clock(clock), &model).expect("deltas").0);
        }
        for deltas in &all {
            add(&mut model, deltas);
        }
    }
    let reached = app.evaluate(&model).expect("data in memory");
    check_breakdown(app, &model, reached.metric);
    reached
}

/// The parts of the held-out examples come to the metric over all of them.
fn check_breakdown(app: &dyn Application, model: &Model, metric: f64) {
    let found = match app.breakdown(model).expect("data in memory") {
        None => {
            assert_eq!(app.metric().name, "perplexity", "documents have no answers");
            return;
        }
        Some(Breakdown::Classes(classes)) => {
            let all: u64 = classes.counts.iter().flatten().sum();
            let right: u64 = classes.counts.iter().enumerate().map(|(at, row)| row[at]).sum();
            let auc = classes.auc.expect("every class has examples");
            assert!((0.4..=1.0).contains(&auc) && classes.log_loss > 0.0, "{classes:?}");
            right as f64 / all as f64
        }
        Some(Breakdown::Ratings(groups)) => {
            let all: u64 = groups.iter().map(|group| group.count).sum();
            let squares: f64 =
                groups.iter().map(|group| group.rmse * group.rmse * group.count as f64).sum();
            (squares / all as f64).sqrt()
        }
    };
    assert!((found - metric).abs() < 1e-6 * metric.abs(), "{found} of the parts, {metric} of all");
}

fn add(model: &mut Model, deltas: &Deltas) {
    let layout = model.layout().clone();
    for (id, table) in layout.table_ids().zip(&deltas.tables) {
        let TableLayout { rows, width, .. } = *layout.table(id);
        for (row, change) in table.rows.iter(rows).zip(table.values.chunks(width)) {
            for (value, change) in model.row_mut(id, row as usize).iter_mut().zip(change) {
                *value += change;
            }
        }
    }
}

fn defaults() -> Vec<AppConfig> {
    let deserialize = |kind| AppConfig::deserialize(kind, toml::Table::new());
    AppConfig::built_in()
        .iter()
        .map(|kind| deserialize(kind).expect("no keys are right keys"))
        .collect()
}

/// Where `gaia_data::build` draws made-up data from.
fn generator_seed() -> Seed {
    SEED.child("data").child("synthetic")
}

const SEED: Seed = Seed(42);
