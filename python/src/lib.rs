//! The extension module `gaia._gaia`: the command line of Gaia, for scripts of Python's.
//!
//! The package `gaia` around it, in `python/gaia`, is what users import. Here is what has to be close to the nodes: a script
//! is an application of the run (`program.rs`), and meets its nodes at an exchange (`exchange.rs`).

mod buffer;
mod exchange;
mod interrupt;
mod log;
mod own_statistics;
mod parts;
mod program;
mod scripts;

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};

use self::buffer::numbers;
use self::exchange::Exchange;
use self::interrupt::Interrupt;
use self::parts::NOT_CONTIGUOUS;
use self::scripts::Scripts;
use gaia::{InitialRows, Override, RunFile};

/// The command line, the scripts' side of a run, and files of models.
#[pymodule(gil_used = true)]
mod _gaia {
    #[pymodule_export]
    use super::Exchange;
    #[pymodule_export]
    use super::Interrupt;
    #[pymodule_export]
    use super::log::log_from;
    #[pymodule_export]
    use super::log::log_take;
    #[pymodule_export]
    use super::log::log_wait;
    #[pymodule_export]
    use super::place;
    #[pymodule_export]
    use super::run;
    #[pymodule_export]
    use super::try_run;
    #[pymodule_export]
    use super::write_initial_rows;
    #[pymodule_export]
    use super::write_tensors;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}

/// Runs the command line with these arguments, the first of which is the program's name, and returns the exit code. Errors are
/// shown on standard error.
///
/// `start(exchange, script, seed)` starts the script of a worker. `program` is the command that starts this program again.
#[pyfunction]
fn run(py: Python<'_>, arguments: Vec<OsString>, start: Py<PyAny>, program: Vec<OsString>) -> u8 {
    let scripts = Scripts::new(start, program, None);
    py.detach(|| gaia::cli::run(arguments, &scripts))
}

/// As `run`, but returns the exit code and what went wrong, which is not shown. `interrupt` ends a run of `train` in order, in
/// place of signals.
#[pyfunction]
#[pyo3(signature = (arguments, start, program, interrupt=None))]
fn try_run(
    py: Python<'_>,
    arguments: Vec<OsString>,
    start: Py<PyAny>,
    program: Vec<OsString>,
    interrupt: Option<&Interrupt>,
) -> (u8, Option<String>) {
    let scripts = Scripts::new(start, program, interrupt.map(Interrupt::flag));
    match py.detach(|| gaia::cli::try_run(arguments, &scripts)) {
        Ok(code) => (code, None),
        Err(error) => (error.exit_code, Some(error.text)),
    }
}

/// The rank of a worker of a data center, the number of all workers, whether the data center has a server of the same number,
/// and the number of its workers.
#[pyfunction]
fn place(
    run_file: PathBuf,
    data_center: &str,
    index: usize,
) -> PyResult<(usize, usize, bool, usize)> {
    let external = Override::parse("app.kind=external");
    let read = external.and_then(|kind| RunFile::read(&run_file, &[kind])?.plan());
    let plan = read.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let topology = &plan.topology;
    let names = || topology.data_centers.iter().map(|dc| dc.name.as_str());
    let dc = topology.dc_named(data_center).ok_or_else(|| {
        let names = names().collect::<Vec<_>>().join(", ");
        PyValueError::new_err(format!("GAIA_DC is `{data_center}`, expected one of {names}"))
    })?;
    let own = topology.dc(dc);
    if index >= own.workers {
        let most = own.workers.saturating_sub(1);
        let text = format!("GAIA_INDEX is `{index}`, expected 0 to {most} for {data_center}");
        return Err(PyValueError::new_err(text));
    }
    let rank = topology.first_worker(dc) + index;
    Ok((rank, topology.workers(), index < own.servers, own.workers))
}

/// Writes the initial values of a table into a buffer of whole rows, the first of which is row 0.
#[pyfunction]
fn write_initial_rows(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    width: usize,
    seed: u64,
    mean: f32,
    std: f32,
) -> PyResult<()> {
    let invalid = || PyValueError::new_err(format!("no rows have mean {mean}, deviation {std}"));
    let rule = InitialRows::new(seed, mean, std).filter(|_| width > 0).ok_or_else(invalid)?;
    let values = PyBuffer::<f32>::get(values)?;
    let values = numbers(py, &values).ok_or_else(|| PyValueError::new_err(NOT_CONTIGUOUS))?;
    let mut made = vec![0.0; width];
    for (row, values) in values.chunks_exact(width).enumerate() {
        rule.write(row, &mut made);
        values.iter().zip(&made).for_each(|(value, made)| value.set(*made));
    }
    Ok(())
}

/// Writes tensors, by name and shape, to a safetensors file. `values` holds those of all, one tensor after the other.
#[pyfunction]
fn write_tensors(
    py: Python<'_>,
    path: PathBuf,
    tensors: Vec<(String, Vec<usize>)>,
    values: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let values = PyBuffer::<f32>::get(values)?.to_vec(py)?;
    py.detach(|| {
        let mut offset = 0;
        let view = |(name, shape): (String, Vec<usize>)| {
            let end = offset + shape.iter().product::<usize>();
            let bytes = values.get(offset..end).map(bytemuck::cast_slice);
            offset = end;
            let bytes = bytes.ok_or_else(|| format!("{name} has values that are missing"))?;
            let view = TensorView::new(Dtype::F32, shape, bytes);
            view.map(|view| (name, view)).map_err(|error| error.to_string())
        };
        let views = tensors.into_iter().map(view).collect::<Result<Vec<_>, String>>();
        let views = views.map_err(PyValueError::new_err)?;
        serialize_to_file(views, None, &path)
            .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
    })
}
