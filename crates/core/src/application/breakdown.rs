//! Where a model is right and where it is wrong: the metric by class, or by rating.

/// The held-out examples of a final model, by their answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Breakdown {
    /// Of examples with classes.
    Classes(Classes),
    /// Of ratings, from the lowest to the highest.
    Ratings(Vec<RatingError>),
}

/// Which classes examples have, and which the model gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    /// The names of the classes.
    pub names: Vec<String>,
    /// For each class, how many of its examples the model gives each class. Empty where there are too many classes.
    pub counts: Vec<Vec<u64>>,
    /// The mean of −ln of the probability that the model gives to an example's class.
    pub log_loss: f64,
    /// The area under the ROC curve: the probability that an example of a class has a higher score for it than one of
    /// another class. Of two classes that of the second; of more the mean over classes. `None` where it has no meaning.
    pub auc: Option<f64>,
}

/// The error of predicted ratings around one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatingError {
    /// The middle of the ratings.
    pub rating: f64,
    /// How many there are.
    pub count: u64,
    /// The root mean square error.
    pub rmse: f64,
    /// The mean of prediction minus rating.
    pub bias: f64,
}
