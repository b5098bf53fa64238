//! Run files and `--set` that mean harm: an error with its place, no panic, no wait, no memory.

use std::fs;

use gaia_config::{ConfigError, Override, Plan, RunFile, topology_from_text};

use super::allocations::peak_of;

const RUN: &str = "\
name = \"base\"
app = { kind = \"matrix-factorization\", data.source = \"synthetic\" }
topology.file = \"three-regions\"
sync.local = { model = \"ssp\", staleness = 1 }
sync.remote.model = \"asp\"
compute.flops_per_second = 1e9
stop.clocks = 10
";

/// What a file of a few kilobytes may make its reader hold.
const HELD_BYTES_MAX: usize = 8 << 20;

fn plan(settings: &[&str]) -> Result<Plan, ConfigError> {
    let overrides = settings.iter().map(|setting| Override::parse(setting));
    let overrides: Vec<Override> = overrides.collect::<Result<_, _>>()?;
    RunFile::from_text("run.toml", RUN, &overrides)?.plan()
}

/// An error that can be shown on a terminal, in a few lines.
fn check_error(error: &ConfigError, place: &str) {
    let said = error.to_string();
    assert!(said.starts_with(place), "{said:.200} is not at {place}");
    for shown in [said, error.render(false)] {
        assert!(shown.len() < SHOWN_BYTES_MAX, "{} bytes: {shown:.200}", shown.len());
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(control), "{shown:?}");
    }
}

/// A page.
const SHOWN_BYTES_MAX: usize = 4000;

/// Numbers at the edges of what can be written.
const NUMBERS: [&str; 21] = [
    "nan",
    "+nan",
    "inf",
    "-inf",
    "-0.0",
    "-0",
    "1e308",
    "1e309",
    "-1e308",
    "1e-320",
    "4.9e-324",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "99999999999999999999999999999999999999",
    "0x7fffffffffffffff",
    "0xffffffffffffffffffffffff",
    "18446744073709551615",
    "4294967296",
    "0b1",
    "1_000_000_000_000",
];

const QUANTITIES: [&str; 17] = [
    "1e308 Gbit/s",
    "1e300 h",
    "1e-320 ns",
    "1e300 GiB",
    "99999999999999999999 B",
    "nan s",
    "inf Mbit/s",
    "-1 s",
    "-0 s",
    "0 bit/s",
    "1e309 s",
    "1e20 s",
    "1 Gbit/s/s",
    "\u{0}",
    "s",
    "1e s",
    "584942417356 min",
];

#[test]
fn no_number_and_no_quantity_in_any_key_does_harm() {
    let resolved = plan(&[]).unwrap().to_toml();
    let keys = keys_of(&resolved);
    assert!(keys.len() > 40, "{keys:?}");
    for key in keys {
        for value in NUMBERS.iter().chain(&QUANTITIES) {
            let setting = format!("{key}={value}");
            let overrides = [Override::parse(&setting).unwrap()];
            let read = RunFile::from_text("run.toml", &resolved, &overrides);
            match read.and_then(|file| file.plan()) {
                Ok(plan) => {
                    let again = RunFile::from_text("again.toml", &plan.to_toml(), &[]);
                    assert_eq!(again.unwrap().plan().unwrap(), plan, "{setting}");
                }
                Err(error) => {
                    // What agreed with its neighbours before may be shown at them.
                    let said = error.to_string();
                    let place = if said.starts_with("run.toml:") { "run.toml:" } else { "--set " };
                    check_error(&error, place);
                }
            }
        }
    }
}

/// The dotted key of every value in a resolved run file.
fn keys_of(text: &str) -> Vec<String> {
    fn walk(value: &toml::Value, path: &str, keys: &mut Vec<String>) {
        let below = |key: &str| {
            if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
        };
        match value {
            toml::Value::Table(table) => {
                table.iter().for_each(|(key, value)| walk(value, &below(key), keys));
            }
            // One link and one data center are as good as any other.
            toml::Value::Array(items) => {
                items.iter().take(1).for_each(|value| walk(value, &below("0"), keys));
            }
            _ => keys.push(path.to_owned()),
        }
    }
    let mut keys = Vec::new();
    walk(&toml::Value::Table(text.parse().unwrap()), "", &mut keys);
    keys
}

#[test]
fn keys_and_values_of_any_shape_are_refused_where_they_stand() {
    let long = "x".repeat(100_000);
    let deep_key = vec!["a"; 33].join(".");
    let deep_value = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let deep_table = format!("{}1{}", "{a=".repeat(50_000), "}".repeat(50_000));
    for setting in [
        "no equals sign".to_owned(),
        "=1".into(),
        "a..b=1".into(),
        "\u{1b}[2J=1".into(),
        "name=\u{1b}[2J\u{7}".into(),
        "name=\"\\u001b[2J\"".into(),
        "driver=\u{1b}]0;owned\u{7}".into(),
        format!("{deep_key}=1"),
        format!("{long}=1"),
        format!("name={long}"),
        format!("driver={long}"),
        format!("sync.remote.model={long}"),
        format!("sync.remote.{long}=1"),
        format!("app.kind={long}"),
        format!("topology.file={long}"),
        format!("stop={deep_value}"),
        format!("app.data={deep_value}"),
        format!("sync.remote={deep_table}"),
        format!("topology={deep_table}"),
        "topology.data_center.0=1".into(),
        "topology.data_center.18446744073709551616.name=x".into(),
        "topology.link.0.from=x".into(),
        "stop.clocks.x=1".into(),
        "app=1".into(),
    ] {
        let (read, most) = peak_of(|| plan(&[&setting]));
        let Err(error) = read else { panic!("{setting:.100} is taken") };
        check_error(&error, "");
        assert!(most < HELD_BYTES_MAX + 100 * setting.len(), "{setting:.50} held {most}");
    }
}

#[test]
fn files_nested_too_deep_are_refused() {
    let depth = 200_000;
    let nested = |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    for text in [
        format!("a = {}", nested("[", "", "]")),
        format!("a = {}", "[".repeat(depth)),
        format!("a = {}", nested("{a=", "1", "}")),
        format!("{}a = 1", "a.".repeat(depth)),
        format!("[{}a]", "a.".repeat(depth)),
        format!("[[{}a]]", "a.".repeat(depth)),
        format!("a = {{ {}a = 1 }}", "a.".repeat(depth)),
        "[[a]]\n[[a.a]]\n".to_owned()
            + &(2..300).map(|d| format!("[[{}a]]\n", "a.".repeat(d))).collect::<String>(),
        format!("x = \"{}", "\\u0041".repeat(depth)),
    ] {
        for read in [
            RunFile::from_text("run.toml", &text, &[]).and_then(|file| file.plan()).map(drop),
            topology_from_text("run.toml", &text).map(drop),
        ] {
            let Err(error) = read else { panic!("{text:.40} is taken") };
            check_error(&error, "run.toml:");
        }
    }
}

/// A megabyte that is wrong in one place, whatever the place, is refused within what reading it takes.
#[test]
fn long_files_are_refused_in_a_few_lines() {
    let long = "y".repeat(1 << 20);
    for (good, bad) in [
        ("name = \"base\"", format!("name = \"{long}\"")),
        ("name = \"base\"", format!("name = \"base\"\n{long} = 1")),
        ("model = \"asp\"", format!("model = \"{long}\"")),
        ("file = \"three-regions\"", format!("file = \"{long}\"")),
        ("kind = \"matrix-factorization\"", format!("kind = \"{long}\"")),
        ("source = \"synthetic\"", format!("source = \"{long}\"")),
        ("clocks = 10", format!("clocks = [\"{long}\", 1 2]")),
        ("clocks = 10", format!("clocks = {}", "9".repeat(1 << 20))),
        ("clocks = 10", format!("clocks = 10 # {long}\nclocks = 11")),
    ] {
        assert!(RUN.contains(good));
        let text = RUN.replacen(good, &bad, 1);
        let (read, most) =
            peak_of(|| RunFile::from_text("run.toml", &text, &[]).and_then(|file| file.plan()));
        check_error(&read.unwrap_err(), "run.toml:");
        assert!(most < 64 << 20, "{good} held {most} bytes");
    }
}

#[test]
fn a_matrix_of_any_shape_is_read_or_refused_at_its_cell() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("wan.toml");
    let topology = "\
name = \"wan\"
wan.bandwidth = { matrix = \"matrix.csv\", unit = \"Mbit/s\" }
wan.rtt = \"80 ms\"
data_center = [{ name = \"north\" }, { name = \"south\" }]
";
    let read = |matrix: &str| {
        fs::write(folder.path().join("matrix.csv"), matrix).unwrap();
        topology_from_text(&name.to_string_lossy(), topology)
    };
    assert!(read("from,north,south\nnorth,,1\nsouth,1,\n").is_ok());
    let wide = format!("from,north,south{}\n", ",x".repeat(100_000));
    let long = "9".repeat(1 << 20);
    for matrix in [
        "from,north,south\nnorth,,1e308\nsouth,1,\n".to_owned(),
        "from,north,south\nnorth,,-0\nsouth,1,\n".into(),
        "from,north,south\nnorth,,nan\nsouth,1,\n".into(),
        "from,north,south\nnorth,,\"1\nsouth,1,\n".into(),
        format!("from,north,south\nnorth,,{long}\nsouth,1,\n"),
        format!("from,north,south\n{long},,1\nsouth,1,\n"),
        wide,
        ",".repeat(1 << 20),
        "\n".repeat(1 << 20),
        "\"".repeat((1 << 20) + 1),
        "\u{1b}[2J".repeat(100),
    ] {
        let (answer, most) = peak_of(|| read(&matrix));
        let Err(error) = answer else { panic!("{matrix:.60} is taken") };
        let folder = folder.path().to_string_lossy();
        check_error(&error, &folder);
        assert!(most < HELD_BYTES_MAX + 100 * matrix.len(), "{matrix:.60} held {most}");
    }
}

#[test]
fn a_file_is_as_long_as_its_kind_may_be() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str, bytes: usize| {
        let file = folder.path().join(name);
        fs::write(&file, "#".repeat(bytes)).unwrap();
        peak_of(|| RunFile::read(&file, &[]).and_then(|file| file.plan()))
    };
    let most = 1 << 21;
    let (answer, _) = read("long.toml", most);
    assert!(answer.unwrap_err().to_string().contains("missing key"));
    let (answer, held) = read("longer.toml", most + 1);
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("it is longer than 2097152 bytes"), "{error}");
    assert!(held < 4 * most, "{held}");
}

/// As many as there may nearly be, each pair with a cell of its own.
#[test]
fn a_thousand_data_centers_are_read_from_a_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..1000).map(|dc| format!("dc{dc}")).collect();
    let rows = names.iter().map(|name| format!("{name}{}\n", ",100".repeat(names.len())));
    let matrix = format!("from,{}\n{}", names.join(","), rows.collect::<String>());
    fs::write(folder.path().join("matrix.csv"), matrix).unwrap();
    let dcs = names.iter().map(|name| format!("[[data_center]]\nname = \"{name}\"\n"));
    let text = format!(
        "name = \"wan\"\nwan.rtt = \"9 ms\"\nwan.bandwidth = {{ matrix = \"matrix.csv\", unit = \"Mbit/s\" }}\n{}",
        dcs.collect::<String>()
    );
    let name = folder.path().join("wan.toml");
    let (topology, held) = peak_of(|| topology_from_text(&name.to_string_lossy(), &text));
    assert_eq!(topology.unwrap().links.len(), 1000 * 999);
    assert!(held < 200 << 20, "{held}");
}
