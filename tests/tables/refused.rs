//! Columns and values that cannot be used: one error with the file, the place, what was found and what was expected.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};

use super::files::{Folder, float_lists, float32, float64, index_lists, int64, text};
use super::refuse;

const RATINGS: &str = "matrix-factorization";
const SPARSE: &str = "logistic-regression";

/// Refuses ratings as csv, with an error that begins with the file and goes on with `error`.
#[track_caller]
fn csv(rows: &str, error: &str) {
    let folder = Folder::new();
    let file = folder.text("file.csv", rows).display().to_string();
    let keys = format!("data = {{ source = 'csv', path = '{file}' }}");
    refuse(RATINGS, &keys, &[&format!("{file}{error}")]);
}

/// Refuses ratings as Parquet.
#[track_caller]
fn parquet(columns: &[(&str, ArrayRef)], error: &str) {
    let folder = Folder::new();
    let file = folder.parquet("file.parquet", columns).display().to_string();
    let keys = format!("data = {{ source = 'parquet', path = '{file}' }}");
    refuse(RATINGS, &keys, &[&format!("{file}{error}")]);
}

#[test]
fn columns_that_are_missing_or_of_another_type_are_named() {
    csv(
        "userId,movieId,rating\n1,1,1\n2,2,2\n",
        ": found the columns \"userId\", \"movieId\", \"rating\", expected a column \"user\" \
         (app.data.columns.user)",
    );
    csv(
        "user,user,item,rating\n1,1,1,1\n",
        ": found two columns \"user\", expected columns of different names",
    );
    let columns =
        || [("user", int64([1, 2])), ("item", int64([1, 2])), ("rating", float32([1.0, 2.0]))];
    let mut renamed = columns();
    renamed[1].0 = "movie";
    parquet(
        &renamed,
        ": found the columns \"user\" (Int64), \"movie\" (Int64), \"rating\" (Float32), expected a column \
         \"item\" (app.data.columns.item)",
    );
    for (place, array, kind, expected) in [
        (2, text(&["1", "2"]), "Utf8View", "numbers in \"rating\""),
        (0, float64([1.0, 2.0]), "Float64", "whole numbers or text in \"user\""),
        (2, float_lists(&[&[1.0], &[2.0]]), "List", "numbers in \"rating\""),
    ] {
        let mut others = columns();
        others[place].1 = array;
        let name = others[place].0;
        let folder = Folder::new();
        let file = folder.parquet("file.parquet", &others).display().to_string();
        let keys = format!("data = {{ source = 'parquet', path = '{file}' }}");
        let found = format!("{file}: found the column \"{name}\" of type {kind}");
        refuse(RATINGS, &keys, &[&found, "in the columns \"user\"", expected]);
    }

    let folder = Folder::new();
    let file = folder.text("file.csv", "label,i,v\n1,0,1\n0,0,2\n").display().to_string();
    let keys = format!(
        "data = {{ source = 'csv', path = '{file}', columns = {{ indices = 'i', values = 'v' }} }}"
    );
    refuse(
        SPARSE,
        &keys,
        &[
            ": found the column \"i\" of type text in the columns",
            "lists of whole numbers in \"i\"",
        ],
    );
}

#[test]
fn values_that_cannot_be_used_are_named_with_their_row() {
    let row = |row: &str, error: &str| csv(&format!("user,item,rating\n1,1,1\n{row}\n"), error);
    let number = "in the column \"rating\", expected a finite number of 32 bits";
    row("2,2,NaN", &format!(", row 3: found \"NaN\" {number}"));
    row("2,2,inf", &format!(", row 3: found \"inf\" {number}"));
    row("2,2,1e39", &format!(", row 3: found \"1e39\" {number}"));
    row("2,2,", &format!(", row 3: found \"\" {number}"));
    row("2,2,many", &format!(", row 3: found \"many\" {number}"));
    row("2,2,1e30", ", row 3: found 1");
    row(
        ",2,1",
        ", row 3: found \"\" in the column \"user\", expected a number or text of 1 to 1024 bytes",
    );
    row(&format!("{},2,1", "u".repeat(1025)), ", row 3: found \"uuu");
    row("2,2", ", row 3: found 2 fields, expected 3 fields, as in row 1");
    row("2,2,2,2", ", row 3: found 4 fields, expected 3 fields, as in row 1");
    row("\"2\n\",2,2\n3,3,x", ", row 5: found \"x\"");
    row("\n\n3,3,x", ", row 5: found \"x\"");
    row("2,2,2\r\n\r\n3,3,x\r", ", row 5: found \"x\"");
    row("\"2\r\n\",2,2\r\n3,3,x", ", row 5: found \"x\"");
    row("\"2\n\",2,2\n3,3,\"x\"", ", row 5: found \"x\"");
    csv("user,item,rating\n1,1,1\n\n2,2,x", ", row 4: found \"x\"");
    csv("user,item,rating\r\n1,1,1\r\n2,2", ", row 3: found 2 fields, expected 3 fields");
    csv("user,item,rating\n1,1,1\n", ": found 1 in all, expected at least 2 ratings");

    let with = |place: usize, array: ArrayRef, error: &str| {
        let mut columns = [
            ("user", int64(0..9000)),
            ("item", int64(0..9000)),
            ("rating", float64((0..9000).map(|_| 1.0))),
        ];
        columns[place].1 = array;
        parquet(&columns, error);
    };
    let ratings = |at: usize, value: Option<f64>| -> ArrayRef {
        let values = (0..9000).map(|row| if row == at { value } else { Some(1.0) });
        Arc::new(values.collect::<Float64Array>())
    };
    with(2, ratings(8999, Some(f64::NAN)), &format!(", row 9000: found NaN {number}"));
    with(2, ratings(0, Some(f64::INFINITY)), &format!(", row 1: found inf {number}"));
    with(2, ratings(8500, Some(1e300)), &format!(", row 8501: found inf {number}"));
    with(2, ratings(8192, None), &format!(", row 8193: found NULL {number}"));
    with(2, ratings(4, Some(1001.0)), ", row 5: found 1001, expected a rating, -1000 to 1000");
    let users: ArrayRef =
        Arc::new((0..9000).map(|row| (row != 7).then_some(row)).collect::<Int64Array>());
    with(0, users, ", row 8: found NULL in the column \"user\", expected a whole number");
    with(
        0,
        int64((0..9000).map(|row| row - 1)),
        ", row 1: found -1 in the column \"user\", expected a whole number, 0 to 18446744073709551615",
    );
}

#[test]
fn a_quote_that_is_not_closed_is_named_with_its_row_and_hides_no_rows() {
    let rows = |noted: &[usize]| -> String {
        let row = |at: usize| {
            let note = if noted.contains(&at) { "\"12 inch" } else { "\"a \"\"wide\"\"\none\"" };
            format!("{at},1,1,{note}\n")
        };
        "user,item,rating,note\n".to_owned() + &(1..=1000).map(row).collect::<String>()
    };
    let refuse_quote = |rows: &str, row: usize| {
        let found = "found a quote that is not closed";
        let expected = "expected a closing quote at the end of its field";
        csv(rows, &format!(", row {row}: {found}, {expected}"));
    };
    // The rows before have two lines each.
    refuse_quote(&rows(&[1000]), 2000);
    refuse_quote(rows(&[1000]).trim_end(), 2000);
    refuse_quote(&rows(&[100]), 200);
    refuse_quote(&rows(&[100, 900]), 200);
    refuse_quote("user,item,rating\n1,1,1\n2,\"2,2\n3,3,3\n", 3);
    refuse_quote("user,\"item,rating\n1,1,1\n2,2,2\n", 1);
    csv("user,item,rating\n1,1,x\n2,2,\"2\n", ", row 2: found \"x\"");
}

#[test]
fn lists_that_do_not_fit_together_are_named_with_their_row() {
    let folder = Folder::new();
    let refuse_lists = |indices: &[&[u32]], values: &[&[f32]], error: &str| {
        let labels = int64((0..indices.len() as i64).map(|row| row % 2));
        let columns = [("label", labels), ("i", index_lists(indices)), ("v", float_lists(values))];
        let file = folder.parquet("sparse", &columns).display().to_string();
        let columns = "columns = { indices = 'i', values = 'v' }";
        let keys = format!("data = {{ source = 'parquet', path = '{file}', {columns} }}");
        refuse(SPARSE, &keys, &[&format!("{file}{error}")]);
    };
    refuse_lists(
        &[&[1], &[1, 2]],
        &[&[1.0], &[1.0]],
        ", row 2: found 2 indices and 1 values, expected a value for each index",
    );
    refuse_lists(
        &[&[1], &[2, 0, 2]],
        &[&[1.0], &[1.0, 2.0, 3.0]],
        ", row 2: found index 2 twice, expected each index once",
    );
    refuse_lists(
        &[&[1], &[5_000_000]],
        &[&[1.0], &[1.0]],
        ", row 2: found index 5000000, expected below 1048576 for 2 entries in all",
    );
    refuse_lists(
        &[&[1], &[u32::MAX]],
        &[&[1.0], &[1.0]],
        ", row 2: found index 4294967295, expected at most 67108863",
    );
    refuse_lists(
        &[&[1], &[1, 2]],
        &[&[1.0], &[1.0, f32::NAN]],
        ", row 2: found NaN in the column \"v\", expected a finite number of 32 bits",
    );

    let file = folder.parquet(
        "dense",
        &[("label", int64([0, 1, 0])), ("x", float_lists(&[&[1.0, 2.0], &[1.0, 2.0], &[1.0]]))],
    );
    let keys = format!("data = {{ source = 'parquet', path = '{}' }}", file.display());
    let error = ", row 3: found a list of 1 features, expected 2, as in the rows before";
    refuse("softmax-regression", &keys, &[error]);
    refuse(
        SPARSE,
        &keys,
        &["found lists of features, expected columns of numbers, or lists named by indices"],
    );
}

#[test]
fn settings_that_name_no_columns_are_refused() {
    let check = |kind: &str, columns: &str, error: &str| {
        refuse(
            kind,
            &format!("data = {{ source = 'csv', path = 'x', columns = {{ {columns} }} }}"),
            &[error],
        );
    };
    let separator = "app.data.columns.separator is";
    check(RATINGS, "separator = '\"'", separator);
    check(RATINGS, "separator = 'é'", separator);
    check(SPARSE, "separator = \"\\n\"", separator);
    check(SPARSE, "indices = 'i'", "app.data.columns.values is missing, expected a column beside");
    check(SPARSE, "values = 'i'", "app.data.columns.indices is missing, expected a column beside");
    check(
        SPARSE,
        "features = ['a'], indices = 'i', values = 'v'",
        "app.data.columns.features is set, expected either features or indices and values",
    );
    for kind in [SPARSE, "softmax-regression"] {
        check(
            kind,
            "label = 'y', features = ['a', 'y']",
            "app.data.columns.features is a list with the label, \"y\", expected columns other than the label",
        );
        check(
            kind,
            "features = ['a', 'b', 'a']",
            "app.data.columns.features is a list with \"a\" twice, expected each column once",
        );
    }
    check(SPARSE, "features = []", "app.data.columns.features is a list of 0, expected 1 to");
    check(
        "softmax-regression",
        "shape = [0, 1, 1]",
        "app.data.columns.shape is 0, expected a whole number, 1 to",
    );
}
