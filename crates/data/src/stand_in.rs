//! Generated data of the shape of data that this process does not have.

use crate::homes::summary::{DataShape, DataSummary};
use gaia_core::types::ModelLayout;
use gaia_ml::apps::{
    AppConfig, CorpusConfig, ImageGenerator, MixtureGenerator, PlantedGenerator, RatingGenerator,
    TeacherGenerator, TopicGenerator,
};
use gaia_ml::config::{DataConfig, Split};

/// What stands in for an application whose data is elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct StandIn {
    /// The same application over generated data, which makes a model of the same shape.
    pub config: AppConfig,
    /// The share of the examples of a clock that generated data has.
    pub share: f64,
}

/// The same application over generated data of the sizes of all data, of which these are the summaries. There are fewer
/// examples if there are very many. Each data center gets labels or users of its own, since summaries do not say how alike the
/// data of data centers is, and what trains on such data trains on all. `None` for an application that is not built in.
pub fn stand_in(
    config: &AppConfig,
    summaries: &[DataSummary],
    layout: &ModelLayout,
) -> Option<StandIn> {
    let all = summaries.iter().map(|summary| summary.train + summary.test).sum::<u64>() as usize;
    let shape = &summaries.first()?.shape;
    // A clock has a batch of any data, or a share of all.
    let (mut config, mut share) = (config.clone(), 1.0);

    match (&mut config, shape) {
        (AppConfig::MatrixFactorization(config), DataShape::Ratings(_)) => {
            let rows = |table: usize| layout.tables().get(table).map_or(1, |table| table.rows);
            let ratings = all.clamp(EXAMPLES_MIN, RATINGS_MAX);
            share = ratings as f64 / all.max(1) as f64;
            let rank = config.rank.min(RANK_MAX);
            let sizes = RatingGenerator {
                users: rows(0),
                items: rows(1),
                ratings,
                rank,
                ..Default::default()
            };
            config.data =
                DataConfig { split: Split::ByUser, synthetic: sizes, ..Default::default() };
        }
        (AppConfig::SoftmaxRegression(config), DataShape::Images(dense)) => {
            let features = dense.channels * dense.height * dense.width;
            let (classes, examples) = (dense.classes.max(2), examples(all, features));
            let sizes = MixtureGenerator { classes, features, examples, ..Default::default() };
            config.data = by_label(sizes);
        }
        (AppConfig::Perceptron(config), DataShape::Images(dense)) => {
            let features = dense.channels * dense.height * dense.width;
            let (classes, examples) = (dense.classes.max(2), examples(all, features));
            let sizes = TeacherGenerator { classes, features, examples, ..Default::default() };
            config.data = by_label(sizes);
        }
        (AppConfig::ConvolutionalNetwork(config), DataShape::Images(dense)) => {
            let (channels, classes) = (dense.channels, dense.classes.max(2));
            let side = ((dense.height * dense.width) as f64).sqrt().round().max(SIDE_MIN) as usize;
            let examples = examples(all, channels * side * side);
            let sizes = ImageGenerator { classes, channels, side, examples, ..Default::default() };
            config.data = by_label(sizes);
        }
        (AppConfig::LogisticRegression(config), DataShape::Sparse(sparse)) => {
            let default = PlantedGenerator::default();
            let features = sparse.width.max(1);
            let active = default.active.min(features);
            let examples = examples(all, active);
            config.data = by_label(PlantedGenerator { features, active, examples, ..default });
        }
        (AppConfig::TopicModel(config), DataShape::Documents(_)) => {
            let tokens: u64 = summaries.iter().map(tokens_of).sum();
            let default = TopicGenerator::default();
            let vocabulary = layout.tables().first().map_or(default.vocabulary, |words| words.rows);
            let length = (tokens as f64 / all.max(1) as f64).round().max(1.0) as usize;
            let documents = examples(all, length);
            share = documents as f64 / all.max(1) as f64;
            let sizes = TopicGenerator { vocabulary, documents, length, ..default };
            config.data =
                CorpusConfig { split: Split::ByLabel, synthetic: sizes, ..Default::default() };
        }
        _ => return None,
    }
    Some(StandIn { config, share })
}

fn by_label<S, G>(synthetic: G) -> DataConfig<S, G>
where
    S: gaia_ml::columns::DataSource + Default,
    G: Default,
{
    DataConfig { split: Split::ByLabel, synthetic, ..Default::default() }
}

/// How many examples are generated of so many, each with so many values.
fn examples(all: usize, values: usize) -> usize {
    all.min(EXAMPLES_MAX).min(VALUES_MAX / values.max(1)).max(EXAMPLES_MIN)
}

fn tokens_of(summary: &DataSummary) -> u64 {
    match &summary.shape {
        DataShape::Documents(documents) => documents.counts.iter().sum(),
        _ => 0,
    }
}

/// More than some dozens of clocks of many workers need.
const EXAMPLES_MAX: usize = 20_000;
const EXAMPLES_MIN: usize = 10;
/// A gigabyte of numbers.
const VALUES_MAX: usize = 1 << 28;
/// As many ratings as fit in some megabytes.
const RATINGS_MAX: usize = 1_000_000;
const RANK_MAX: usize = 8;
const SIDE_MIN: f64 = 5.0;
