//! Writes the seeds of every target into `corpus/`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for target in gaia_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in (target.seeds)() {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
