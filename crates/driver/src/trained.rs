//! The file of a model that a run has trained, and which evaluations it is written at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gaia_config::{KeepModel, Plan};
use gaia_core::application::{Application, Attachment, Direction};
use gaia_core::topology::DataCenter;
use gaia_core::types::{Model, ModelLayout, Seed, ShardLayout};
use gaia_model::{
    BEST_MODEL, BEST_SHARDS, HeaderTooLong, KEPT_MODELS, MODEL, MetricValue, ModelDescription,
    ModelFile, Shard, check_model, check_shard, model_bytes, shard_bytes,
};
use gaia_telemetry::{ModelSnapshot, Progress};

/// What is known of a model when it is written.
pub(crate) struct Figures<'f> {
    pub(crate) clock: u64,
    pub(crate) objective: f64,
    pub(crate) metric: (&'f str, f64),
    /// As [`data_digest`].
    pub(crate) data_digest: Option<&'f str>,
}

/// The digest of the data that an application trains on, as files have it.
pub fn data_digest(application: &dyn Application) -> Option<String> {
    application.data_digest().map(|digest| format!("{digest:016x}"))
}

/// Identifies a training by its settings and by the data that it trains on: files may change under the same path.
pub fn identity_with_data(settings: Seed, application: &dyn Application) -> u64 {
    let digest = data_digest(application).unwrap_or_default();
    settings.child(&application.describe()).child(&digest).0
}

/// The description of a model of this layout in its file, or of one shard.
fn description(
    plan: &Plan,
    layout: &ModelLayout,
    figures: &Figures<'_>,
    shard: Option<Shard>,
) -> String {
    let Figures { clock, objective, metric: (name, value), data_digest } = *figures;
    let description = ModelDescription {
        run: plan.name.clone(),
        seed: plan.seed.0,
        application: serde_json::to_value(&plan.app).expect("settings can be written as JSON"),
        settings: plan.to_toml(),
        data_digest: data_digest.map(str::to_owned),
        remote_sync: plan.remote.name().into(),
        clock,
        objective,
        metric: MetricValue { name: name.into(), value },
        shard,
        of_script: layout.has_shapes(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    serde_json::to_string(&description).expect("a description can be written as JSON")
}

/// Checks that the model of a run has files, before it is trained.
///
/// # Errors
/// [`HeaderTooLong`] if it has too many tables, or their names or the settings of the run are too long.
pub(crate) fn check(plan: &Plan, application: &dyn Application) -> Result<(), HeaderTooLong> {
    let (layout, attachments) = (application.layout(), application.attachments());
    let metric = application.metric();
    // Of all numbers the one with the longest text.
    let longest = -f64::MIN_POSITIVE;
    let data_digest = data_digest(application);
    let figures = Figures {
        clock: u64::MAX,
        objective: longest,
        metric: (&metric.name, longest),
        data_digest: data_digest.as_deref(),
    };

    match plan.model.keep {
        KeepModel::Coordinator => {
            check_model(layout, &attachments, &description(plan, layout, &figures, None))
        }
        KeepModel::Home => ShardLayout::all(layout, shards(plan)).iter().try_for_each(|shard| {
            let index = shard.shard().index();
            let of_shard = Shard { index, count: shards(plan) };
            let description = description(plan, layout, &figures, Some(of_shard));
            check_shard(shard, &attachments, &description)
        }),
    }
}

/// The files of a model that is whole in this process: one, or with `model.keep = "home"` its shards in a folder for
/// each data center. The best model of a run has them under a second name too. The model was checked.
pub(crate) fn files(
    plan: &Plan,
    model: &Model,
    attachments: &BTreeMap<String, Attachment>,
    figures: &Figures<'_>,
    is_best: bool,
) -> Vec<ModelFile> {
    match plan.model.keep {
        KeepModel::Coordinator => {
            let description = description(plan, model.layout(), figures, None);
            let bytes = model_bytes(model, attachments, Some(&description)).expect(CHECKED);
            let names = if is_best { &[BEST_MODEL, MODEL][..] } else { &[MODEL] };
            vec![ModelFile { paths: names.iter().map(PathBuf::from).collect(), bytes }]
        }
        KeepModel::Home => {
            let shard = |layout: ShardLayout| {
                let mut values = vec![0.0; layout.parameters()];
                layout.copy_from(model, &mut values);
                let file = shard_file(plan, &layout, &values, attachments, figures, is_best);
                let in_data_center = |dc: &DataCenter| {
                    let folder = Path::new(KEPT_MODELS).join(&dc.name);
                    file.paths.iter().map(|path| folder.join(path)).collect::<Vec<_>>()
                };
                let paths = plan.topology.data_centers.iter().flat_map(in_data_center).collect();
                ModelFile { paths, bytes: file.bytes }
            };
            ShardLayout::all(model.layout(), shards(plan)).into_iter().map(shard).collect()
        }
    }
}

/// The file of one shard in the folder of a data center's model. The first has what predictions need beside the model.
/// The model was checked.
pub(crate) fn shard_file(
    plan: &Plan,
    layout: &ShardLayout,
    values: &[f32],
    attachments: &BTreeMap<String, Attachment>,
    figures: &Figures<'_>,
    is_best: bool,
) -> ModelFile {
    let index = layout.shard().index();
    let shard = Shard { index, count: shards(plan) };
    let none = BTreeMap::new();
    let attachments = if index == 0 { attachments } else { &none };
    let description = description(plan, layout.model(), figures, Some(shard));
    let last = PathBuf::from(shard.file_name());
    let best = is_best.then(|| Path::new(BEST_SHARDS).join(&last));
    ModelFile {
        paths: best.into_iter().chain([last]).collect(),
        bytes: shard_bytes(layout, values, attachments, &description).expect(CHECKED),
    }
}

/// The number of shards, which is that of the servers of each data center.
fn shards(plan: &Plan) -> usize {
    plan.topology.data_centers[0].servers
}

/// The model of the last of these evaluations, to be written. `None` where its figures are not finite.
pub(crate) fn snapshot(
    plan: &Plan,
    application: &dyn Application,
    progress: &[Progress],
    model: &Model,
) -> Option<ModelSnapshot> {
    let metric = application.metric();
    let (last, is_best) = judged(plan, metric.direction, progress)?;
    let data_digest = data_digest(application);
    let figures = Figures {
        clock: last.clock,
        objective: last.objective,
        metric: (&metric.name, last.metric),
        data_digest: data_digest.as_deref(),
    };
    let files = files(plan, model, &application.attachments(), &figures, is_best);
    Some(ModelSnapshot { clock: last.clock, is_best, files })
}

/// The last of these evaluations, and whether its model is the best so far. `None` where its figures are not finite.
pub(crate) fn judged<'p>(
    plan: &Plan,
    direction: Direction,
    progress: &'p [Progress],
) -> Option<(&'p Progress, bool)> {
    let (last, before) = progress.split_last()?;
    let is_finite = last.objective.is_finite() && last.metric.is_finite();
    is_finite.then(|| (last, is_best(plan, direction, before, last.metric)))
}

/// Whether a snapshot is written at an evaluation of `clock`, after those before it.
pub(crate) fn is_due(plan: &Plan, before: &[Progress], clock: u64) -> bool {
    let last = before.last().map_or(0, |progress| progress.clock);
    plan.model.every.is_some_and(|every| clock / every > last / every)
}

/// Whether a value of the metric is better than that of every snapshot before. Of a run without snapshots none is.
pub(crate) fn is_best(plan: &Plan, direction: Direction, before: &[Progress], value: f64) -> bool {
    let is_snapshot = |at: &usize| is_due(plan, &before[..*at], before[*at].clock);
    let is_worse = |other: f64| match direction {
        Direction::Lower => other > value,
        Direction::Higher => other < value,
    };
    let mut earlier = (0..before.len()).filter(is_snapshot).map(|at| before[at].metric);
    plan.model.every.is_some()
        && value.is_finite()
        && earlier.all(|other| !other.is_finite() || is_worse(other))
}

/// Every run begins with [`check`].
const CHECKED: &str = "the model was checked before the run";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gaia_core::application::Names;
    use gaia_ml::apps::{MatrixFactorization, MatrixFactorizationConfig, RatingTotals};
    use gaia_ml::divided::Divided;
    use gaia_ml::examples::Ratings;

    /// A description has the size of data, so the digest tells them apart.
    #[test]
    fn a_training_has_one_identity_for_its_settings_and_its_data() {
        let identity = |settings, digest| {
            let ratings =
                || Ratings { users: 1, items: 1, user: vec![0], item: vec![0], value: vec![1.0] };
            let divided = Divided::new(ratings(), ratings(), vec![Arc::from([0])]);
            let application = MatrixFactorization::new(
                MatrixFactorizationConfig::default(),
                Divided { digest: Some(digest), ..divided },
                &RatingTotals::of(&ratings()),
                [Names::Numbers(vec![7]), Names::Numbers(vec![8])],
                "one rating",
            );
            (application.describe(), identity_with_data(Seed(settings), &application))
        };

        let (description, one) = identity(1, 7);
        assert_eq!(identity(1, 7).1, one);
        assert_ne!(identity(2, 7).1, one, "other settings");
        let (same, other) = identity(1, 8);
        assert_eq!(same, description);
        assert_ne!(other, one, "other data");
    }
}
