//! Files that Gaia writes.

use std::fs;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, LargeStringArray, StringArray};
use gaia_data::TableWriter;

use super::build;
use super::files::{
    Folder, batch, bools, float_lists, float32, float64, int16, int64, text, uint64, views,
};

#[test]
fn csv_has_the_shortest_numbers_that_are_the_same() {
    let folder = Folder::new();
    let missing: ArrayRef = Arc::new(Float32Array::from(vec![Some(0.1), None, Some(1e30)]));
    let rows = batch(&[
        ("name", text(&["a,b", "say \"x\"", ""])),
        ("large", Arc::new(LargeStringArray::from(vec!["é", "two\nlines", "c"]))),
        ("view", views(&["x", "y", "z"])),
        ("whole", int16([-1, 0, 7])),
        ("largest", uint64([u64::MAX, 0, 1])),
        ("narrow", missing),
        ("wide", float64([0.1, 1.0 / 3.0, f64::MAX])),
        ("is", bools(&[true, false, true])),
    ]);
    let expected = "name,large,view,whole,largest,narrow,wide,is\n\
                    \"a,b\",é,x,-1,18446744073709551615,0.1,0.1,true\n\
                    \"say \"\"x\"\"\",\"two\nlines\",y,0,0,,0.3333333333333333,false\n\
                    ,c,z,7,1,1e30,1.7976931348623157e308,true\n";
    let path = folder.path().join("out.csv");
    let mut writer = TableWriter::create(&path, rows.schema()).unwrap();
    writer.write(&rows.slice(0, 1)).unwrap();
    writer.write(&rows.slice(1, 2)).unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn what_is_written_is_read_as_the_same_ratings() {
    let folder = Folder::new();
    let rows = batch(&[
        ("user", text(&["ann", "bob", "cy,\"d\"", "ann"])),
        ("item", int64([1, 2, 1, 2])),
        ("rating", float32([0.1, 2.5, 3.0, 4.0])),
    ]);
    let read = |name: &str, source: &str| {
        let path = folder.path().join(name);
        let mut writer = TableWriter::create(&path, rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        let keys = format!("data = {{ source = '{source}', path = '{}' }}", path.display());
        super::trained(&*build("matrix-factorization", &keys, &[1]).unwrap(), 5)
    };
    let expected = read("a.csv", "csv");
    assert_eq!(read("a.csv.gz", "csv"), expected);
    assert_eq!(read("a.parquet", "parquet"), expected);
}

#[test]
fn an_unfinished_file_leaves_nothing_and_the_file_before_it_stays() {
    let folder = Folder::new();
    let names = || {
        let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.collect();
        names.sort();
        names
    };
    let rows = batch(&[("x", int64([1, 2]))]);
    for name in ["a.csv", "a.csv.gz", "a.parquet"] {
        let before = folder.text(name, "before");
        let mut writer = TableWriter::create(&before, rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        assert_eq!(names().len(), 2);
        drop(writer);
        assert_eq!(names(), [name]);
        assert_eq!(fs::read_to_string(&before).unwrap(), "before");

        let mut writer = TableWriter::create(&before, rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
        assert_eq!(names(), [name]);
        assert_ne!(fs::read(&before).unwrap(), b"before");
        fs::remove_file(before).unwrap();
    }
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let folder = Folder::new();
    let rows = batch(&[("x", int64([1, 2]))]);
    let path = folder.path().join("rows.tsv");
    let error = TableWriter::create(&path, rows.schema()).err().unwrap().to_string();
    let expected =
        ": found the name \"rows.tsv\", expected a name that ends in .csv, .csv.gz or .parquet";
    assert_eq!(error, format!("{}{expected}", path.display()));

    let path = folder.path().join("none/rows.csv");
    let error = TableWriter::create(&path, rows.schema()).err().unwrap().to_string();
    assert!(error.starts_with(&format!("{}: cannot be written: ", path.display())), "{error}");

    let path = folder.path().join("rows.csv");
    let lists = batch(&[("x", float_lists(&[&[1.0]]))]);
    let error = TableWriter::create(&path, lists.schema()).err().unwrap().to_string();
    assert!(error.contains("found a column \"x\" of type List"), "{error}");

    let mut writer = TableWriter::create(&path, rows.schema()).unwrap();
    let other = batch(&[("x", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]);
    let error = writer.write(&other).unwrap_err().to_string();
    assert!(error.contains("found rows with the columns") && error.contains("Int64"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_is_written_to_none_that_a_link_leads_to() {
    let folder = Folder::new();
    let (path, victim) = (folder.path().join("out.csv"), folder.path().join("victim"));
    fs::write(&victim, "of somebody else").unwrap();
    let unfinished = folder.path().join(format!(".out.csv.{}.partial", std::process::id()));
    for name in [&path, &unfinished] {
        std::os::unix::fs::symlink(&victim, name).unwrap();
    }

    let rows = batch(&[("user", text(&["ann"]))]);
    let mut writer = TableWriter::create(&path, rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();

    assert!(!path.is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "user\nann\n");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "of somebody else");
}
