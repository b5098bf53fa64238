//! Training data in memory, as applications read it.

use std::fmt;

use gaia_core::application::Names;

/// Ratings that users gave to items, in columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ratings {
    /// Number of users.
    pub users: usize,
    /// Number of items.
    pub items: usize,
    /// The user of each rating, below `users`.
    pub user: Vec<u32>,
    /// The item of each rating, below `items`.
    pub item: Vec<u32>,
    /// The value of each rating.
    pub value: Vec<f32>,
}

/// The arrangement of the features of one example, or of the values of a layer: `channels` planes, one after the other,
/// of `height` rows of `width` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of planes.
    pub channels: usize,
    /// Rows of each plane.
    pub height: usize,
    /// Values of each row.
    pub width: usize,
}

/// Examples with the same number of features each, and one of several classes.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseExamples {
    /// The shape of each example. Features that are no image are one row of one plane.
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// The names of the classes, in their order, where the data has names for them.
    pub class_names: Option<Names>,
    /// `labels.len() × shape.values()` values, example by example.
    pub features: Features,
    /// The class of each example, below `classes`.
    pub labels: Vec<u32>,
}

/// Dense features, in the form of their source.
#[derive(Clone, Debug, PartialEq)]
pub enum Features {
    /// Pixels: 0 stands for 0.0 and 255 for 1.0.
    Bytes(Vec<u8>),
    /// Numbers as they are.
    Floats(Vec<f32>),
}

/// Examples with few features each, and one of two classes.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseExamples {
    /// Features that there are; columns are below it.
    pub width: usize,
    /// Where each example begins in `columns` and `values`; one more than there are examples.
    pub offsets: Vec<usize>,
    /// Strictly ascending within an example.
    pub columns: Vec<u32>,
    /// The value of each feature in `columns`.
    pub values: Vec<f32>,
    /// +1 or -1 for each example.
    pub labels: Vec<f32>,
    /// The names of the classes -1 and +1, where the data has names for them.
    pub class_names: Option<Names>,
}

/// Documents as bags of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documents {
    /// Number of words.
    pub vocabulary: usize,
    /// Where each document begins in `words` and `counts`; one more than there are documents.
    pub offsets: Vec<usize>,
    /// Below `vocabulary`, and strictly ascending within a document.
    pub words: Vec<u32>,
    /// How often each word occurs in its document, at least once.
    pub counts: Vec<u32>,
}

impl Ratings {
    /// Number of ratings.
    pub fn len(&self) -> usize {
        self.value.len()
    }

    /// Whether there is no rating.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Adds ratings of the same users and items.
    pub fn append(&mut self, other: Self) {
        debug_assert_eq!((self.users, self.items), (other.users, other.items));
        self.user.extend(other.user);
        self.item.extend(other.item);
        self.value.extend(other.value);
    }

    /// The ratings at some positions, in their order, of the same users and items.
    #[must_use]
    pub fn select(&self, positions: &[u32]) -> Self {
        Self {
            users: self.users,
            items: self.items,
            user: positions.iter().map(|&at| self.user[at as usize]).collect(),
            item: positions.iter().map(|&at| self.item[at as usize]).collect(),
            value: positions.iter().map(|&at| self.value[at as usize]).collect(),
        }
    }
}

impl Shape {
    /// Values that lie in no plane.
    pub const fn row(width: usize) -> Self {
        Self { channels: 1, height: 1, width }
    }

    /// Values in one plane.
    pub const fn plane(self) -> usize {
        self.height * self.width
    }

    /// Values in all planes.
    pub const fn values(self) -> usize {
        self.channels * self.plane()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { channels, height, width } = *self;
        if self.values() == width {
            return write!(f, "{width}");
        }
        write!(f, "{channels}×{height}×{width}")
    }
}

impl Features {
    /// The values as a network sees them.
    pub(crate) fn into_floats(self) -> Vec<f32> {
        match self {
            Self::Floats(values) => values,
            Self::Bytes(values) => values.into_iter().map(of_pixel).collect(),
        }
    }
}

/// The value that a pixel stands for.
fn of_pixel(value: u8) -> f32 {
    f32::from(value) * (1.0 / 255.0)
}

impl DenseExamples {
    /// Number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Features of each example.
    pub fn width(&self) -> usize {
        self.shape.values()
    }

    /// No examples of a shape.
    pub fn empty(shape: Shape, classes: usize) -> Self {
        let features = Features::Bytes(Vec::new());
        Self { shape, classes, class_names: None, features, labels: Vec::new() }
    }

    /// Adds examples of the same shape. The classes are those of both. Features in two forms become numbers.
    ///
    /// # Panics
    ///
    /// Where `other` has another shape.
    pub fn append(&mut self, other: Self) {
        assert_eq!(self.shape, other.shape);
        if self.is_empty() {
            self.features = other.features;
            self.labels = other.labels;
            self.classes = self.classes.max(other.classes);
            return;
        }
        match (&mut self.features, other.features) {
            (Features::Bytes(all), Features::Bytes(more)) => all.extend(more),
            (Features::Floats(all), Features::Floats(more)) => all.extend(more),
            (all, more) => {
                let one = std::mem::replace(all, Features::Floats(Vec::new())).into_floats();
                *all = Features::Floats([one, more.into_floats()].concat());
            }
        }
        self.labels.extend(other.labels);
        self.classes = self.classes.max(other.classes);
    }

    /// The examples at some positions, in their order.
    #[must_use]
    pub fn select(&self, positions: &[u32]) -> Self {
        let width = self.width();
        let range = |at: u32| at as usize * width..(at as usize + 1) * width;
        let features = match &self.features {
            Features::Bytes(values) => Features::Bytes(
                positions.iter().flat_map(|&at| values[range(at)].iter().copied()).collect(),
            ),
            Features::Floats(values) => Features::Floats(
                positions.iter().flat_map(|&at| values[range(at)].iter().copied()).collect(),
            ),
        };
        let labels = positions.iter().map(|&at| self.labels[at as usize]).collect();
        Self { features, labels, class_names: self.class_names.clone(), ..*self }
    }

    /// Writes one example's features into `out`, [`Self::width`] long.
    pub fn copy_features(&self, example: usize, out: &mut [f32]) {
        self.copy_from(example * self.width(), out);
    }

    /// Writes one plane of one example into `out`, as long as a plane.
    pub fn copy_plane(&self, example: usize, channel: usize, out: &mut [f32]) {
        self.copy_from(example * self.width() + channel * self.shape.plane(), out);
    }

    fn copy_from(&self, start: usize, out: &mut [f32]) {
        let range = start..start + out.len();
        match &self.features {
            Features::Floats(values) => out.copy_from_slice(&values[range]),
            Features::Bytes(values) => {
                for (out, &value) in out.iter_mut().zip(&values[range]) {
                    *out = of_pixel(value);
                }
            }
        }
    }
}

impl SparseExamples {
    /// No examples of `width` features.
    pub fn empty(width: usize) -> Self {
        let (offsets, columns, values, labels) = (vec![0], vec![], vec![], vec![]);
        Self { width, offsets, columns, values, labels, class_names: None }
    }

    /// Adds one example; `columns` strictly ascending and below `width`, `label` +1 or -1.
    pub fn push(&mut self, columns: &[u32], values: &[f32], label: f32) {
        debug_assert!(columns.windows(2).all(|pair| pair[0] < pair[1]));
        self.columns.extend_from_slice(columns);
        self.values.extend_from_slice(values);
        self.offsets.push(self.columns.len());
        self.labels.push(label);
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Adds examples. The features are those of both.
    pub fn append(&mut self, other: Self) {
        let start = self.columns.len();
        self.width = self.width.max(other.width);
        self.columns.extend(other.columns);
        self.values.extend(other.values);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| start + offset));
        self.labels.extend(other.labels);
    }

    /// The columns and values of one example.
    pub fn example(&self, example: usize) -> (&[u32], &[f32]) {
        let range = self.offsets[example]..self.offsets[example + 1];
        (&self.columns[range.clone()], &self.values[range])
    }

    /// The examples at some positions, in their order.
    #[must_use]
    pub fn select(&self, positions: &[u32]) -> Self {
        let mut selected =
            Self { class_names: self.class_names.clone(), ..Self::empty(self.width) };
        for &position in positions {
            let (columns, values) = self.example(position as usize);
            selected.push(columns, values, self.labels[position as usize]);
        }
        selected
    }
}

impl Documents {
    /// No documents of `vocabulary` words.
    pub fn empty(vocabulary: usize) -> Self {
        Self { vocabulary, offsets: vec![0], words: vec![], counts: vec![] }
    }

    /// Adds one document; `words` strictly ascending and below `vocabulary`, `counts` at least 1.
    pub fn push(&mut self, words: &[u32], counts: &[u32]) {
        debug_assert!(words.windows(2).all(|pair| pair[0] < pair[1]));
        debug_assert!(words.len() == counts.len() && !counts.contains(&0));
        self.words.extend_from_slice(words);
        self.counts.extend_from_slice(counts);
        self.offsets.push(self.words.len());
    }

    /// Adds one document given token by token; sorts its words.
    pub fn push_tokens(&mut self, words: &mut [u32]) {
        words.sort_unstable();
        for same in words.chunk_by(|a, b| a == b) {
            self.words.push(same[0]);
            self.counts.push(same.len() as u32);
        }
        self.offsets.push(self.words.len());
    }

    /// Adds the documents of `other`, which has as many words.
    pub fn append(&mut self, other: Self) {
        debug_assert_eq!(self.vocabulary, other.vocabulary);
        let start = self.words.len();
        self.words.extend(other.words);
        self.counts.extend(other.counts);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| start + offset));
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The words of one document and how often each occurs.
    pub fn document(&self, document: usize) -> (&[u32], &[u32]) {
        let range = self.offsets[document]..self.offsets[document + 1];
        (&self.words[range.clone()], &self.counts[range])
    }

    /// The words of one document, each as often as it occurs.
    pub fn tokens(&self, document: usize) -> impl Iterator<Item = u32> {
        let (words, counts) = self.document(document);
        words.iter().zip(counts).flat_map(|(&word, &count)| (0..count).map(move |_| word))
    }

    /// How often each word occurs in all documents.
    pub fn count_words(&self) -> Vec<u64> {
        let mut counts = vec![0; self.vocabulary];
        for (&word, &count) in self.words.iter().zip(&self.counts) {
            counts[word as usize] += u64::from(count);
        }
        counts
    }

    /// Tokens in all documents.
    pub fn token_count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// The documents at some positions, in their order, of the same words.
    #[must_use]
    pub fn select(&self, positions: &[u32]) -> Self {
        let mut selected = Self::empty(self.vocabulary);
        for &position in positions {
            let (words, counts) = self.document(position as usize);
            selected.push(words, counts);
        }
        selected
    }
}
