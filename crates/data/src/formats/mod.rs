//! What files are: which a path names, how their bytes are read, and how the rows of each format become examples.
//!
//! Readers know nothing of data centers and workers.

pub(crate) mod cifar;
pub(crate) mod class_names;
pub(crate) mod data_file;
pub(crate) mod dense_tables;
pub(crate) mod docword;
pub(crate) mod example_tables;
pub(crate) mod feature_columns;
pub(crate) mod files;
pub(crate) mod idx;
pub(crate) mod image_sets;
pub(crate) mod libsvm;
pub(crate) mod movielens;
pub(crate) mod name_index;
pub(crate) mod rating_rows;
pub(crate) mod rating_tables;
pub(crate) mod source;
pub(crate) mod sparse_tables;
pub mod table;
