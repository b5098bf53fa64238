//! The words of documents, one a line, plain and gzip.

use gaia_data::read_vocabulary;

use super::files::{check_error, gzip, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "vocabulary", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        let file = write(folder, "vocabulary", data);
        match read_vocabulary(&file, WORDS) {
            Ok(words) => {
                assert_eq!(words.len(), WORDS);
                assert!(words.iter().all(|word| !word.is_empty() && !word.contains('\n')));
            }
            Err(error) => check_error(&error, &file),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let words = "apple\npear tree\nÉlysée\r\nzebra\n";
    vec![("words", words.as_bytes().to_vec()), ("words-gzip", gzip(words.as_bytes()))]
}

const WORDS: usize = 4;
