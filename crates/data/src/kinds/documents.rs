//! Topic models from the documents of each data center: the words are the same in all.

use crate::error::{DataError, FilePosition};
use crate::formats::docword::{gather_docword, read_vocabulary};
use crate::homes::digest::{Digested, digest_of, digest_of_test, each_block};
use crate::homes::home::Home;
use crate::homes::summary::{
    DataShape, DataSummary, DocumentShape, Part, disagreement, joined, undeclared,
};
use crate::kinds::{check_clocks_per_pass, check_parameters};
use crate::synthetic;
use gaia_core::types::Seed;
use gaia_ml::apps::{
    Completion, DocumentSource, TokenCounts, TopicGenerator, TopicModel, TopicModelConfig,
    WordProbabilities,
};
use gaia_ml::divided::Divided;
use gaia_ml::examples::Documents;

/// The documents of one data center.
pub(crate) struct LocalDocuments {
    documents: Divided<Documents>,
    summary: DataSummary,
}

/// Reads the documents of a home, or makes them, with the perplexity of what made them.
pub(crate) fn read(
    config: &TopicModelConfig,
    home: &Home<DocumentSource, ()>,
    seed: Seed,
) -> Result<(LocalDocuments, Option<f64>), DataError> {
    if home.data.source == DocumentSource::Synthetic {
        return made(config, home, seed);
    }
    let space = home.space.as_ref();
    let all = gather_docword(home.path()?, space)?;
    let words = all.none().vocabulary;
    check(config, words)?;
    let file = config.data.vocabulary_path.as_deref();
    let vocabulary = file.map(|file| read_vocabulary(file, words)).transpose()?;
    let test = home.validation.as_deref().map(|path| gather_docword(path, space)).transpose()?;
    if let (Some(test), Some(path)) = (&test, &home.validation)
        && test.none().vocabulary != words
    {
        let found = format!("documents of {} words", test.none().vocabulary);
        let expected = format!("{words} words, as those that train have");
        return Err(DataError::broken(path, FilePosition::Whole, found, expected));
    }
    let documents = home.divide(all, test, most_frequent_word)?;
    let validation = home.validation.as_ref().map(|_| digest_of_test(&documents, Digested::add_to));
    Ok((LocalDocuments::new(documents, vocabulary, validation.transpose()?)?, None))
}

fn made(
    config: &TopicModelConfig,
    home: &Home<DocumentSource, ()>,
    seed: Seed,
) -> Result<(LocalDocuments, Option<f64>), DataError> {
    let generator: &TopicGenerator = &config.data.synthetic;
    check(config, generator.vocabulary)?;
    let made = synthetic::documents(generator, home.data.held_out, home.seed.child("synthetic"));
    let documents = home.split(made.train, made.test, &made.labels);
    let best = WordProbabilities::new(generator.topics, made.words)
        .perplexity(&cut(&documents, seed), generator.topic_concentration);
    Ok((LocalDocuments::new(documents, None, None)?, Some(best)))
}

impl LocalDocuments {
    fn new(
        documents: Divided<Documents>,
        vocabulary: Option<Vec<String>>,
        validation: Option<u64>,
    ) -> Result<Self, DataError> {
        let mut counts = vec![0; documents.train.vocabulary];
        let digest = digest_of(&documents, |train| add_words(train, &mut counts))?;
        let shape = DocumentShape { counts, vocabulary };
        let shape = DataShape::Documents(shape);
        let summary = DataSummary::new(&documents, digest, validation, shape);
        Ok(Self { documents, summary })
    }

    /// The number of training examples in memory.
    pub(crate) fn len(&self) -> usize {
        self.documents.train.len()
    }

    pub(crate) fn summary(&self) -> &DataSummary {
        &self.summary
    }
}

/// Adds how often each word occurs in documents.
fn add_words(documents: &Documents, counts: &mut [u64]) {
    counts.iter_mut().zip(documents.count_words()).for_each(|(all, count)| *all += count);
}

/// Builds the application from the documents that this process has, and from the summaries of all.
pub(crate) fn build(
    config: &TopicModelConfig,
    parts: Vec<Part<'_, LocalDocuments>>,
    seed: Seed,
    name: &str,
) -> Result<TopicModel, DataError> {
    check_words(&parts)?;
    let words = parts[0].counts().len();
    if let Some(declared) = config.data.declared.words.filter(|declared| *declared != words) {
        let values = (format!("documents of {words} words"), declared.to_string());
        return Err(undeclared(&parts[0], "words", values));
    }
    check(config, words)?;

    let (total, before) = (vec![0; words], vec![0; words]);
    let mut counts = TokenCounts { total, before, before_stored: Vec::new() };
    let own = parts.iter().position(|part| part.local.is_some()).unwrap_or(0);
    for (at, part) in parts.iter().enumerate() {
        if at == own {
            counts.before.clone_from(&counts.total);
        }
        let totals = counts.total.iter_mut().zip(part.counts());
        totals.for_each(|(total, count)| *total += count);
    }
    let vocabulary = parts.iter().find_map(|part| part.vocabulary()).map(<[String]>::to_vec);

    let parts = parts.into_iter().map(|part| part.map(|local| local.documents)).collect();
    let documents = joined(Documents::empty(words), parts);
    check_clocks_per_pass(&documents, config.clocks_per_pass)?;
    let mut before = counts.before.clone();
    for parts in &documents.stored {
        counts.before_stored.push(parts.as_ref().map_or_else(Vec::new, |_| before.clone()));
        if let Some(parts) = parts {
            each_block(&*parts.train, |documents| add_words(documents, &mut before))?;
        }
    }
    let held_out = cut(&documents, seed);
    let config = config.clone();
    Ok(TopicModel::new(config, documents, held_out, counts, vocabulary, seed, name))
}

/// Checks that all data centers have the same words.
fn check_words(parts: &[Part<'_, LocalDocuments>]) -> Result<(), DataError> {
    let first = &parts[0];
    let words = first.counts().len();
    if let Some(other) = parts.iter().find(|part| part.counts().len() != words) {
        let found = format!("documents of {} words", other.counts().len());
        return Err(disagreement(other, first, (found, format!("{words} words"))));
    }

    let mut named = parts.iter().filter_map(|part| Some((part, part.vocabulary()?)));
    let Some((first, words)) = named.next() else { return Ok(()) };
    for (other, others) in named {
        let differs = words.iter().zip(others).position(|(own, other)| own != other);
        if let Some(place) = differs {
            let found = format!("the word {} `{}`", place + 1, others[place]);
            return Err(disagreement(other, first, (found, format!("`{}`", words[place]))));
        }
    }
    Ok(())
}

impl Part<'_, LocalDocuments> {
    fn shape(&self) -> Option<&DocumentShape> {
        match &self.summary.shape {
            DataShape::Documents(shape) => Some(shape),
            _ => None,
        }
    }

    fn counts(&self) -> &[u64] {
        self.shape().map_or(&[], |shape| &shape.counts)
    }

    fn vocabulary(&self) -> Option<&[String]> {
        self.shape()?.vocabulary.as_deref()
    }
}

fn cut(documents: &Divided<Documents>, seed: Seed) -> Completion {
    Completion::new(&documents.test, &documents.test_parts, seed.child("completion"))
}

fn check(config: &TopicModelConfig, words: usize) -> Result<(), DataError> {
    let parameters = (words + 1).saturating_mul(config.topics);
    Ok(check_parameters("topics", config.topics, parameters)?)
}

/// The most frequent word of a document. Of equally frequent ones the first.
fn most_frequent_word(documents: &Documents, document: usize) -> u32 {
    let (words, counts) = documents.document(document);
    let most = counts.iter().copied().max().unwrap_or(0);
    let place = counts.iter().position(|&count| count == most);
    place.map_or(0, |place| words[place])
}
