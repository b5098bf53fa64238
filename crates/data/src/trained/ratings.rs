//! A trained matrix factorisation, and ratings or pairs of users and items that it is given.
//!
//! A user or an item that the model does not know is predicted from what is known: as one whose factors and bias are zero,
//! which is what the model would say of somebody without ratings. The application has one row more for all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::predictions::{PredictionValues, Predictions, check_finite};
use super::{GIVEN, for_one_worker};
use crate::error::{DataError, FilePosition};
use crate::formats::rating_rows::{RatingRows, Values};
use crate::kinds::ratings::add_files;
use gaia_core::application::{Application, Attachment, Names};
use gaia_core::types::{Model, ModelLayout, TableLayout};
use gaia_ml::apps::{
    ITEM_NAMES, MEAN, MatrixFactorization, MatrixFactorizationConfig, RatingTotals, UNIT,
    USER_NAMES,
};
use gaia_ml::examples::Ratings;
use gaia_model::{ModelError, TrainedModel};

/// Ratings in the order of their files, of users and items of a trained model.
pub(super) struct GivenRatings {
    pub(super) application: MatrixFactorization,
    /// The users and items as the application numbers them.
    pub(super) given: Ratings,
    /// The names in the files, and which of them each rating has.
    names: [Names; 2],
    named: Ratings,
    path: PathBuf,
}

/// Reads ratings, and the model with a row for users and items that it does not know.
pub(super) fn read(
    config: &MatrixFactorizationConfig,
    path: &Path,
    trained: &TrainedModel,
) -> Result<(GivenRatings, Model), DataError> {
    let known = [names(trained, USER_NAMES)?, names(trained, ITEM_NAMES)?];
    let model = known_rows(config, trained, &known)?;

    let mut rows = RatingRows::default();
    rows.add_any(|rows| add_files(&config.data, path, rows, Values::Optional))?;
    let (mut sets, names) = rows.into_ratings_as_read()?;
    let named = sets.remove(0).into_memory()?;
    if named.is_empty() {
        return Err(DataError::broken(path, FilePosition::Whole, "no row", "at least one rating"));
    }
    let [users, items] = [0, 1].map(|side| places(&names[side], &known[side]));
    let given = Ratings {
        users: known[0].len() + 1,
        items: known[1].len() + 1,
        user: named.user.iter().map(|&user| users[user as usize]).collect(),
        item: named.item.iter().map(|&item| items[item as usize]).collect(),
        value: named.value.clone(),
    };

    let mean = f64::from(mean(trained)?);
    let totals = RatingTotals::of(&given).around(mean, unit(trained)?);
    let divided = for_one_worker(given.clone());
    let known = known.map(with_one_more);
    let application = MatrixFactorization::new(config.clone(), divided, &totals, known, GIVEN);
    let model = with_rows_of_zeros(&model, application.layout());
    let path = path.to_owned();
    Ok((GivenRatings { application, given, names, named, path }, model))
}

impl GivenRatings {
    /// Checks that every row has a rating.
    pub(super) fn check_values(&self) -> Result<(), DataError> {
        let Some(at) = self.named.value.iter().position(|value| value.is_nan()) else {
            return Ok(());
        };
        let found = format!("{} without a rating", self.pair(at));
        Err(DataError::broken(&self.path, FilePosition::Whole, found, "a rating in each row"))
    }

    /// What a rating is called.
    fn pair(&self, at: usize) -> String {
        let shown = |side: usize, place: u32| {
            self.names[side].get(place as usize).map(|name| name.to_string()).unwrap_or_default()
        };
        let [user, item] = [shown(0, self.named.user[at]), shown(1, self.named.item[at])];
        format!("user {user} and item {item}")
    }

    /// The users, the items, their ratings where there are any, and the predictions.
    ///
    /// # Errors
    /// [`DataError::Broken`] with the first rating of which the model predicts no finite number.
    pub(super) fn predictions(&self, model: &Model) -> Result<Predictions, DataError> {
        let predictions = self.application.predictions(model, &self.given);
        check_finite(&predictions, 1, &self.path, |at| self.pair(at))?;
        let named = |side: usize, places: &[u32]| match &self.names[side] {
            Names::Numbers(numbers)
                if numbers.iter().all(|&number| i64::try_from(number).is_ok()) =>
            {
                let number = |&place: &u32| numbers[place as usize] as i64;
                PredictionValues::Integers(places.iter().map(number).collect())
            }
            names => {
                let text = |&place: &u32| names.get(place as usize).map(|name| name.to_string());
                PredictionValues::Texts(places.iter().filter_map(text).collect())
            }
        };
        let mut columns = vec![
            ("user".into(), named(0, &self.named.user)),
            ("item".into(), named(1, &self.named.item)),
        ];
        if self.named.value.iter().any(|value| !value.is_nan()) {
            columns.push(("rating".into(), PredictionValues::Floats(self.named.value.clone())));
        }
        columns.push(("prediction".into(), PredictionValues::Floats(predictions)));
        Ok(Predictions::new(columns))
    }
}

/// The names of the rows of a table, ascending.
fn names(trained: &TrainedModel, name: &str) -> Result<Names, DataError> {
    let names = trained.attachments.get(name).cloned().and_then(Attachment::names);
    names.filter(Names::is_ascending).ok_or_else(|| missing(trained, name, "ascending names"))
}

fn mean(trained: &TrainedModel) -> Result<f32, DataError> {
    match trained.attachments.get(MEAN) {
        Some(Attachment::Floats(mean)) if mean.len() == 1 => Ok(mean[0]),
        _ => Err(missing(trained, MEAN, "the mean of all ratings")),
    }
}

/// The unit of the ratings that trained the model, in which it pays for its rows. A file of an earlier version has none.
fn unit(trained: &TrainedModel) -> Result<Option<f64>, DataError> {
    match trained.attachments.get(UNIT) {
        None => Ok(None),
        Some(Attachment::Floats(unit)) if unit.len() == 1 && unit[0] > 0.0 => {
            Ok(Some(f64::from(unit[0])))
        }
        Some(_) => Err(missing(trained, UNIT, "the unit of all ratings, above 0")),
    }
}

fn missing(trained: &TrainedModel, name: &str, expected: &str) -> DataError {
    DataError::Model(ModelError::Broken {
        file: trained.file.clone(),
        found: format!("no `{name}` of a model that gaia train has written"),
        expected: expected.into(),
    })
}

/// The model as it was trained.
fn known_rows(
    config: &MatrixFactorizationConfig,
    trained: &TrainedModel,
    [users, items]: &[Names; 2],
) -> Result<Model, DataError> {
    let width = config.rank + usize::from(config.bias);
    let table = |name: &str, rows| TableLayout { name: name.into(), rows, width };
    let tables = vec![table("users", users.len()), table("items", items.len())];
    let attachments = trained.attachments.clone();
    Ok(trained.model(&Arc::new(ModelLayout::new(tables)), &attachments)?)
}

/// For each of the names its place among those that are known, or the place after the last of these.
fn places(names: &Names, known: &Names) -> Vec<u32> {
    let place = |at: usize| {
        let found = names.get(at).and_then(|name| known.place(name));
        found.unwrap_or(known.len()) as u32
    };
    (0..names.len()).map(place).collect()
}

/// Names with one more, of the row of all that are not known.
fn with_one_more(names: Names) -> Names {
    match names {
        Names::Numbers(mut numbers) => {
            numbers.push(u64::MAX);
            Names::Numbers(numbers)
        }
        Names::Text(mut texts) => {
            texts.push(String::new());
            Names::Text(texts)
        }
    }
}

/// The tables of a model in a layout that has more rows.
fn with_rows_of_zeros(model: &Model, layout: &Arc<ModelLayout>) -> Model {
    let mut wider = Model::zeros(layout.clone());
    for id in layout.table_ids() {
        let values = model.table(id);
        wider.table_mut(id)[..values.len()].copy_from_slice(values);
    }
    wider
}
