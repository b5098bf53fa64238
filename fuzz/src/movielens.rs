//! MovieLens ratings in their three forms, plain and gzip.

use gaia_data::read_movielens;

use super::files::{check_error, gzip, in_folder, write};
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "movielens", check, seeds };

fn check(data: &[u8]) {
    in_folder(|folder| {
        let file = write(folder, "ratings", data);
        match read_movielens(&file) {
            Ok(ratings) => {
                let examples = ratings.len();
                assert!(examples >= 2);
                assert_eq!((ratings.user.len(), ratings.item.len()), (examples, examples));
                assert!(ratings.user.iter().all(|user| (*user as usize) < ratings.users));
                assert!(ratings.item.iter().all(|item| (*item as usize) < ratings.items));
                assert!(ratings.value.iter().all(|value| value.is_finite()));
            }
            Err(error) => check_error(&error, &file),
        }
    });
}

fn seeds() -> Vec<Seed> {
    let csv = "userId,movieId,rating,timestamp\n7,30,4.5,964982703\n7,10,3,1\n2,30,0.5,2\n";
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("csv", text(csv)),
        ("csv-gzip", gzip(csv.as_bytes())),
        ("tabs", text("7\t30\t4.5\t9\n7\t10\t3\t1\n2\t30\t0.5\t2\n")),
        ("colons", text("7::30::4.5::9\n7::10::3::1\n2::30::0.5::2\n")),
    ]
}
