//! Columns of csv files, plain and gzip.

use gaia_data::table::TableFormat;

use super::columns::check_columns;
use super::files::gzip;
use super::{Seed, Target};

pub const TARGET: Target = Target { name: "csv", check, seeds };

fn check(data: &[u8]) {
    check_columns("columns.csv", TableFormat::csv(','), data);
}

fn seeds() -> Vec<Seed> {
    let rows =
        "label,user,rating\n0,1,2.5\n\"a \"\"b\"\",\",u2,-1e-3\n\ntrue,18446744073709551615,3\n";
    vec![("rows", rows.as_bytes().to_vec()), ("rows-gzip", gzip(rows.as_bytes()))]
}
