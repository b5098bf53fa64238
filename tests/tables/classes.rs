//! Examples of classes in columns, dense and sparse.

use gaia_core::application::Names;
use gaia_core::types::{Clock, Seed};
use gaia_ml::apps::{AppConfig, SoftmaxRegressionConfig, softmax_regression};
use gaia_ml::divided::Divided;
use gaia_ml::examples::{DenseExamples, Features, Shape};

use super::files::{
    Folder, bools, float_lists, float32, float64, index_lists, int16, int64, text, uint64,
};
use super::{build, refuse, trained};

const DENSE: &str = "softmax-regression";
const SPARSE: &str = "logistic-regression";

fn keys(source: &str, path: &str, columns: &str) -> String {
    format!("data = {{ source = '{source}', path = '{path}', columns = {{ {columns} }} }}")
}

/// 60 rows of two features and a class.
fn rows() -> Vec<(f32, f32, usize)> {
    (0..60).map(|at| ((at % 7) as f32 / 2.0, (at % 5) as f32 - 2.0, at % 3)).collect()
}

fn csv(header: &str, row: impl Fn((f32, f32, usize)) -> String) -> String {
    rows().into_iter().map(row).fold(format!("{header}\n"), |all, row| all + &row + "\n")
}

#[test]
fn the_same_examples_train_the_same_classifier_in_every_form() {
    let folder = Folder::new();
    folder.text("plain.csv", &csv("a,b,label", |(a, b, class)| format!("{a},{b},{class}")));
    folder.text("more.csv", &csv("n,b,kind,a", |(a, b, class)| format!("x,{b},{class}.0,{a}")));
    let names = ["ash", "elm", "oak"];
    folder
        .text("named.csv", &csv("a,b,label", |(a, b, class)| format!("{a},{b},{}", names[class])));
    let (a, b): (Vec<f32>, Vec<f32>) = rows().into_iter().map(|row| (row.0, row.1)).unzip();
    let classes = || rows().into_iter().map(|row| row.2);
    let own = || ("a", float64(a.iter().map(|value| f64::from(*value))));
    folder.parquet(
        "columns.parquet",
        &[
            own(),
            ("b", int16(b.iter().map(|value| *value as i16))),
            ("label", float32(classes().map(|class| class as f32))),
        ],
    );
    let lists: Vec<[f32; 2]> = rows().into_iter().map(|row| [row.0, row.1]).collect();
    let lists: Vec<&[f32]> = lists.iter().map(<[f32; 2]>::as_slice).collect();
    let lists = || ("pixels", float_lists(&lists));
    folder.parquet(
        "lists.parquet",
        &[("label", uint64(classes().map(|class| class as u64))), lists()],
    );

    let model = |source: &str, file: &str, columns: &str| {
        trained(&*build(DENSE, &keys(source, &folder.at(file), columns), &[2, 1]).unwrap(), 5)
    };
    let expected = model("csv", "plain.csv", "");
    assert!(expected.iter().any(|value| value.abs() > 1e-2));
    assert_eq!(model("csv", "more.csv", "label = 'kind', features = ['a', 'b']"), expected);
    assert_eq!(model("csv", "named.csv", ""), expected);
    assert_eq!(model("parquet", "columns.parquet", ""), expected);
    assert_eq!(model("parquet", "lists.parquet", ""), expected);
    assert_eq!(model("parquet", "lists.parquet", "features = ['pixels']"), expected);
}

/// 43,211,503 and 43,211,504 are the same in 32 bits.
#[test]
fn large_whole_numbers_of_64_bits_are_classes_of_their_own() {
    let folder = Folder::new();
    let codes = [43_211_503_u32, 43_211_504];
    let x = || ("x", float32((0..20).map(|at| at as f32)));
    let labels = (0..20).map(|at| f64::from(codes[at % 2]));
    folder.parquet("codes", &[x(), ("label", float64(labels))]);
    let application = build(DENSE, &keys("parquet", &folder.at("codes"), ""), &[1]).unwrap();
    let names = application.attachments()["classes.names"].clone().names();
    assert_eq!(names, Some(Names::Numbers(codes.map(u64::from).to_vec())));

    let almost = (0..20).map(|at| if at == 7 { 0.999_999_99 } else { f64::from(at % 2) });
    folder.parquet("almost", &[x(), ("label", float64(almost))]);
    let says = ["row 8: found 0.99999999 in the column \"label\", expected a whole number"];
    refuse(DENSE, &keys("parquet", &folder.at("almost"), ""), &says);
}

#[test]
fn a_class_that_a_data_center_lacks_has_the_same_number_everywhere() {
    let folder = Folder::new();
    let kinds = ["ash", "elm", "oak"];
    let write = |name: &str, has: &dyn Fn(usize) -> bool| {
        let rows: String = (0..60)
            .filter(|at| has(at % 3))
            .map(|at| format!("{},{}\n", f64::from(at as u32 % 3), kinds[at % 3]))
            .collect();
        folder.text(name, &format!("x,label\n{rows}"));
    };
    write("dc-0.csv", &|class| class != 1);
    write("dc-1.csv", &|class| class != 0);
    let keys = keys("csv", &folder.at("{dc}.csv"), "") + "\noptimizer = 'sgd'";
    let app = build(DENSE, &keys, &[1, 1]).unwrap();
    assert!(app.describe().starts_with("softmax regression 1-3 "), "{}", app.describe());

    // The bias of a class goes up where it is and down where it is not.
    let model = app.initial_model(Seed(1));
    let mut grown = Vec::new();
    for worker in 0..2 {
        let mut task = app.task(worker, Seed(1));
        task.rows(Clock(0));
        let (deltas, _) = task.iterate(Clock(0), &model).unwrap();
        let biases = &deltas.tables.last().unwrap().values;
        grown.push(biases.iter().map(|bias| *bias > 0.0).collect::<Vec<_>>());
    }
    assert_eq!(grown, [[true, false, true], [false, true, true]]);
}

#[test]
fn images_in_columns_have_the_shape_of_the_run_file() {
    let folder = Folder::new();
    let lists: Vec<Vec<f32>> = (0..20)
        .map(|at| (0..72).map(|pixel| ((at * pixel) % 11) as f32 / 11.0).collect())
        .collect();
    let lists: Vec<&[f32]> = lists.iter().map(Vec::as_slice).collect();
    folder.parquet(
        "images",
        &[("label", int64((0..20).map(|at| at % 2))), ("x", float_lists(&lists))],
    );
    let keys = |shape| keys("parquet", &folder.at("images"), shape);
    let app = build("convolutional-network", &keys("shape = [2, 6, 6]"), &[1]).unwrap();
    assert!(app.describe().starts_with("convolutional network 2×6×6-"), "{}", app.describe());
    assert!(trained(&*app, 2).iter().all(|value| value.is_finite()));
    refuse(
        "convolutional-network",
        &keys("shape = [3, 6, 6]"),
        &["app.data.columns.shape is [3, 6, 6], expected a shape of 72 values"],
    );
}

#[test]
fn the_names_of_features_and_classes_agree_in_all_data_centers() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| folder.text(name, text);
    write("dc-0.csv", "a,b,label\n1,2,0\n3,4,1\n5,1,1\n");
    write("dc-1.csv", "a,c,label\n1,2,0\n3,4,1\n5,1,1\n");
    for kind in [DENSE, SPARSE] {
        let error = "the data of dc-1: found the feature 2 \"c\", expected the feature 2 \"b\", as in the \
                     data of dc-0";
        refuse(kind, &keys("csv", &folder.at("{dc}.csv"), ""), &[error]);
        let error = "dc-1.csv: found the feature 2 \"c\", expected the feature 2 \"b\", as in ";
        refuse(kind, &keys("csv", &folder.at("dc-*.csv"), ""), &[error, "dc-0.csv"]);
    }

    write("dc-1.csv", "a,b,label\n1,2,yes\n3,4,no\n5,1,no\n");
    let error = "the data of dc-1: found the classes `no`, `yes`, expected two classes in all, with `0`, `1`, \
                 as in the data of dc-0";
    refuse(SPARSE, &keys("csv", &folder.at("{dc}.csv"), ""), &[error]);
    write("three.csv", "a,label\n1,2\n3,4\n5,1\n");
    let error = "three.csv, row 4: found a third class, one of `1`, `2`, `4`, expected two classes";
    refuse(SPARSE, &keys("csv", &folder.at("three.csv"), ""), &[error]);
    write("one.csv", "a,label\n1,2\n3,2\n5,2\n");
    let error = "app.data is of the class `2` alone, expected examples of two classes";
    refuse(SPARSE, &keys("csv", &folder.at("one.csv"), ""), &[error]);
    let error = "app.data is of the class `2` alone, expected examples of at least two classes";
    refuse(DENSE, &keys("csv", &folder.at("one.csv"), ""), &[error]);
}

#[test]
fn labels_that_are_quantities_are_no_classes() {
    let folder = Folder::new();
    let prices = |step: u32| {
        let rows = (0..60).map(|at| format!("{at},{},{}.5\n", at % 7, at / step));
        format!("a,b,price\n{}", rows.collect::<String>())
    };
    folder.text("prices.csv", &prices(1));
    let label = "label = 'price'";
    let error = "app.data is of 60 different labels in 60 examples, expected classes with at least two examples";
    refuse(DENSE, &keys("csv", &folder.at("prices.csv"), label), &[error]);
    folder.text("pairs.csv", &prices(2));
    build(DENSE, &keys("csv", &folder.at("pairs.csv"), label), &[1]).unwrap();
}

#[test]
fn the_second_of_two_classes_is_the_positive_one_in_every_form() {
    let folder = Folder::new();
    let rows: Vec<(f32, f32, usize)> = (0..40)
        .map(|at| (f32::from(at % 3 == 0), (at % 4) as f32 - 1.0, usize::from(at % 3 == 0)))
        .collect();
    let csv = |name: &str, labels: [&str; 2]| {
        let row = |row: &(f32, f32, usize)| format!("{},{},{}\n", row.0, row.1, labels[row.2]);
        folder.text(name, &format!("a,b,label\n{}", rows.iter().map(row).collect::<String>()));
    };
    csv("numbers", ["0", "1"]);
    csv("signs", ["-1", "+1"]);
    csv("floats", ["-1.0", "1.0"]);
    csv("truth", ["false", "true"]);
    csv("names", ["no", "yes"]);
    let libsvm = rows.iter().map(|(a, b, class)| {
        let entry = |at: usize, value: &f32| match *value {
            0.0 => String::new(),
            value => format!(" {at}:{value}"),
        };
        format!("{class}{}{}\n", entry(1, a), entry(2, b))
    });
    folder.text("libsvm", &libsvm.collect::<String>());
    let positive = || rows.iter().map(|row| row.2 == 1);
    folder.parquet(
        "truth.parquet",
        &[
            ("a", float32(rows.iter().map(|row| row.0))),
            ("label", bools(&positive().collect::<Vec<_>>())),
            ("b", float32(rows.iter().map(|row| row.1))),
        ],
    );
    let entries = rows.iter().map(|(a, b, _)| {
        // Not in the order of the indices.
        [(1, *b), (0, *a)].into_iter().filter(|(_, value)| *value != 0.0).unzip()
    });
    let (indices, values): (Vec<Vec<u32>>, Vec<Vec<f32>>) = entries.unzip();
    folder.parquet(
        "lists.parquet",
        &[
            ("i", index_lists(&indices.iter().map(Vec::as_slice).collect::<Vec<_>>())),
            ("v", float_lists(&values.iter().map(Vec::as_slice).collect::<Vec<_>>())),
            ("label", int16(positive().map(|is| if is { 1 } else { -1 }))),
        ],
    );

    let model = |source: &str, file: &str, columns: &str| {
        trained(&*build(SPARSE, &keys(source, &folder.at(file), columns), &[2]).unwrap(), 4)
    };
    let expected = model("libsvm", "libsvm", "");
    assert!(expected[0] > 0.01, "feature `a` is that of the positive class");
    for name in ["numbers", "signs", "floats", "truth", "names"] {
        assert_eq!(model("csv", name, ""), expected, "{name}");
    }
    assert_eq!(model("parquet", "truth.parquet", ""), expected);
    let lists = "indices = 'i', values = 'v'";
    assert_eq!(model("parquet", "lists.parquet", lists), expected);
}

#[test]
fn a_data_center_with_one_class_alone_has_the_right_sign() {
    let folder = Folder::new();
    folder.text("dc-0.csv", "a,label\n1,1\n2,1\n1,1\n");
    folder.text("dc-1.csv", "a,label\n-1,-1\n-2,-1\n-1,1\n-3,-1\n-1,-1\n");
    let app = build(SPARSE, &keys("csv", &folder.at("{dc}.csv"), ""), &[1, 1]).unwrap();
    let model = trained(&*app, 1);
    assert!(model[0] > 0.0, "{model:?}");
}

#[test]
fn a_validation_set_is_of_the_same_columns_and_classes() {
    let folder = Folder::new();
    folder.parquet("train", &[("x", float32([1.0, 2.0, 3.0])), ("label", text(&["a", "c", "a"]))]);
    let validation =
        folder.parquet("valid", &[("x", float32([1.0, 2.0])), ("label", text(&["b", "c"]))]);
    let keys = keys("parquet", &folder.at("train"), "");
    let keys = toml::Deserializer::parse(&keys).unwrap();
    let config = AppConfig::deserialize(DENSE, keys).unwrap();
    let (homes, seed) = (super::homes(&[1]), Seed(1));
    let app = gaia_data::build_validated(Some(&config), &homes, seed, Some(&validation)).unwrap();
    assert!(app.describe().contains("1-3 on"), "{}", app.describe());
    assert!(app.describe().contains("3 examples and 2 held out"), "{}", app.describe());
}

#[test]
fn an_application_knows_the_names_of_its_classes() {
    let names = Names::Text(["ash", "elm"].map(str::to_owned).to_vec());
    let examples = DenseExamples {
        shape: Shape::row(1),
        classes: 2,
        class_names: Some(names.clone()),
        features: Features::Floats(vec![1.0, 2.0]),
        labels: vec![0, 1],
    };
    let divided = Divided::new(examples.clone(), examples, vec![[0, 1].into()]);
    let app = softmax_regression(&SoftmaxRegressionConfig::default(), divided, Seed(1), "");
    assert_eq!(app.class_names(), Some(&names));
}
