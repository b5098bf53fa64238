//! Handwritten digits that lie in three data centers, each of which has a few of the digits and sees its own folder alone.

use std::fs;
use std::path::Path;

use gaia_data::read_idx;
use gaia_ml::examples::{DenseExamples, Features};

use crate::cluster::{Cluster, Data, Setting, images};
use crate::network::{DATA_CENTERS, Network};
use crate::real_data::real_data;
use crate::{SETTING, soak};

/// The digits of each data center.
const DIGITS: [std::ops::Range<u32>; 3] = [0..4, 4..7, 7..10];

/// Every so many images is taken, so that a test has few.
const ONE_IN: usize = 10;

const CLOCKS: u64 = 150;

#[test]
fn digits_that_stay_home_are_learnt_as_well_as_in_one_place() {
    if std::env::var_os(soak::SOAK).is_some() {
        return;
    }
    let Some(mnist) = real_data("mnist") else { return };
    let Some(network) = Network::new("50mbit") else {
        println!("skipped: network namespaces are not allowed here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (train, test) = read_idx(&mnist).unwrap();
    for (name, digits) in DATA_CENTERS.iter().zip(DIGITS) {
        write_images(&folder.path().join(name), [&train, &test], |label| digits.contains(&label));
    }
    let together = folder.path().join("together");
    write_images(&together, [&train, &test], |_| true);

    let setting = Setting {
        stop: format!("clocks = {CLOCKS}"),
        data: Data::Images(folder.path().into()),
        evaluate_every: 25,
        ..SETTING
    };
    let outcome = Cluster::start(network, &setting).end();
    assert!(outcome.copies_equal, "{outcome:?}");
    let expected = in_one_place(&together);
    println!("accuracy {} at home, {expected} in one place", outcome.metric);
    assert!(outcome.metric > expected - 0.03, "{} {expected}", outcome.metric);
    assert!(expected > 0.8, "{expected}");
}

/// The accuracy of the same run in one process, with all images in one folder and dealt evenly.
fn in_one_place(folder: &Path) -> f64 {
    let mut text = format!(
        "name = \"together\"\nseed = 7\ndriver = \"simulated\"\n[app]\n{}\n\
         [sync.remote]\nmodel = \"asp\"\nthreshold = 0.05\n[compute]\nclock_overhead = \"50 ms\"\n\
         [evaluate]\nevery = 25\n[stop]\nclocks = {CLOCKS}\n[topology]\nname = \"together\"\n\
         [topology.wan]\nbandwidth = \"50 Mbit/s\"\nrtt = \"1 ms\"\n",
        images(folder)
    );
    for name in DATA_CENTERS {
        text += &format!("[[topology.data_center]]\nname = \"{name}\"\n");
    }
    let plan = gaia::RunFile::from_text("together.toml", &text, &[]).unwrap().plan().unwrap();
    let application = gaia::build(&plan).unwrap();
    let outcome = gaia::run(&plan, &application, &mut gaia::Unobserved).unwrap();
    outcome.summary.metric.value
}

/// Writes the images of some labels as IDX files: those that train, and those that test.
fn write_images(folder: &Path, sets: [&DenseExamples; 2], has: impl Fn(u32) -> bool) {
    fs::create_dir(folder).unwrap();
    for (set, name) in sets.into_iter().zip(["train", "t10k"]) {
        let chosen = (0..set.len()).step_by(ONE_IN).filter(|at| has(set.labels[*at]));
        let chosen: Vec<u32> = chosen.map(|at| at as u32).collect();
        let set = set.select(&chosen);
        let Features::Bytes(pixels) = &set.features else { panic!("images are bytes") };
        let labels: Vec<u8> = set.labels.iter().map(|label| *label as u8).collect();
        let sizes = [set.len(), set.shape.height, set.shape.width].map(|size| size as u32);
        write_idx(&folder.join(format!("{name}-images-idx3-ubyte")), &sizes, pixels);
        write_idx(&folder.join(format!("{name}-labels-idx1-ubyte")), &sizes[..1], &labels);
    }
}

fn write_idx(file: &Path, sizes: &[u32], values: &[u8]) {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| bytes.extend_from_slice(&size.to_be_bytes()));
    bytes.extend_from_slice(values);
    fs::write(file, bytes).unwrap();
}
