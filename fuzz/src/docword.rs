//! Documents as counts of words, plain and gzip.

use gaia_data::read_docword;

use super::files::{check_error, gzip, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "docword", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        let file = write(folder, "docword", data);
        match read_docword(&file) {
            Ok(documents) => {
                assert!(documents.len() >= 2);
                for document in 0..documents.len() {
                    let (words, counts) = documents.document(document);
                    assert!(words.is_sorted_by(|a, b| a < b) && words.len() == counts.len());
                    assert!(words.last().is_some_and(|w| (*w as usize) < documents.vocabulary));
                    assert!(counts.iter().all(|count| *count > 0));
                }
            }
            Err(error) => check_error(&error, &file),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let text = "3\n4\n5\n1 2 3\n2 4 1\n2 1 2\n3 3 1\n3 3 1048576\n";
    vec![("counts", text.as_bytes().to_vec()), ("counts-gzip", gzip(text.as_bytes()))]
}
