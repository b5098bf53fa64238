//! `mutate TARGET [RUNS [SEED]]`: a plain loop over mutations of a target's corpus, for where libFuzzer is not.
//!
//! It knows nothing of coverage, and repeats from its seed. An input that panics is left in `artifacts/`.

use std::error::Error;
use std::panic::catch_unwind;
use std::path::Path;

use gaia_fuzz::{Mutations, Target};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("mutate TARGET [RUNS [SEED]]")?;
    let runs: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let target = Target::named(&name).ok_or("no such target")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut corpus = Vec::new();
    for entry in std::fs::read_dir(root.join("corpus").join(target.name))? {
        corpus.push(std::fs::read(entry?.path())?);
    }
    corpus.sort();
    let mut mutations = Mutations::new(&target, corpus, seed);
    for run in 0..runs {
        let input = mutations.next_input();
        if catch_unwind(|| (target.check)(&input)).is_err() {
            let folder = root.join("artifacts").join(target.name);
            std::fs::create_dir_all(&folder)?;
            let file = folder.join(format!("panic-{seed}-{run}"));
            std::fs::write(&file, &input)?;
            return Err(format!("run {run} panicked on {}", file.display()).into());
        }
    }
    println!("{name}: {runs} runs from seed {seed}, no panic");
    Ok(())
}
