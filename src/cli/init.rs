//! `gaia init`: the model of a script as a file, for nodes that do not run the script.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Failure, InitFlags, NO_SCRIPTS, Terminal};
use crate::applications::Applications;
use gaia_model::{ModelFile, ScriptSettings, StateDict, TensorSpec};

/// What was written.
#[derive(Debug, Serialize)]
struct Written {
    file: String,
    tensors: usize,
    /// Those of the tensors that hold statistics.
    statistics: usize,
    parameters: usize,
    #[serde(flatten)]
    settings: ScriptSettings,
}

/// Runs a script until it has declared its model, and writes the model.
pub(super) fn init(
    flags: &InitFlags,
    applications: &dyn Applications,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let file = flags.run.read(applications)?;
    let plan = file.plan()?;
    if !applications.trains_scripts() {
        return Err(Failure::usage(NO_SCRIPTS));
    }
    if plan.external().is_none() {
        let found = plan.app_name();
        let expected = "expected external, the kind of a script";
        return Err(Failure::usage(format!("app.kind is {found}, {expected}")));
    }

    let failed = |error| Failure::data(error, &file);
    let mut model = applications.script_model(&plan).map_err(failed)?;
    if let Some(init) = &plan.model.init {
        if let Some(table) = model.tensors.iter().find(|tensor| tensor.sparse.is_some()) {
            let name = table.name.escape_debug();
            let expected = format!("none for a model with the sparse table `{name}`");
            return Err(Failure::usage(format!(
                "model.init is {}, expected {expected}",
                init.display()
            )));
        }
        let read = StateDict::read(init, &model.layout());
        model.values = read.map_err(|error| failed(error.into()))?.model.values.into();
    }

    let out = flags.run.output.out.as_deref().unwrap_or_else(|| Path::new(FILE));
    let bytes = model.to_bytes(env!("CARGO_PKG_VERSION")).map_err(Failure::usage)?;
    let written = ModelFile { paths: vec![PathBuf::from(out)], bytes }.write_in(Path::new(""));
    written.map_err(Failure::run)?;

    let written = Written {
        file: out.display().to_string(),
        tensors: model.tensors.len(),
        statistics: model.tensors.iter().filter(|tensor| tensor.is_statistics).count(),
        parameters: model.tensors.iter().map(TensorSpec::len).sum(),
        settings: model.settings,
    };
    let Written { file, tensors, parameters, .. } = &written;
    terminal.line(&format!("{file}: {parameters} parameters in {tensors} tensors"));
    terminal.result(&written);
    Ok(())
}

pub(super) fn file_help(out: clap::Arg) -> clap::Arg {
    out.value_name("FILE")
        .help(format!("The file to write; one that is there is replaced [default: {FILE}]"))
}

const FILE: &str = "model.safetensors";

pub(super) const INIT_HELP: &str = "\
Examples:
  gaia init run.toml --script train.py --out model.safetensors
  gaia node run.toml --set app.model=model.safetensors --coordinator

The script runs up to gaia.join(...). The file has its tensors by their names and shapes with their initial values, \
which of them are statistics, and what the script says about its training. With `app.model` in the run file, nodes \
without workers read it and need neither the script nor Python, and all workers start from its values.

The gaia of the Python package runs scripts; see the page about scripts in the documentation.";
