//! The command line program; everything it does is in [`gaia::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    gaia::cli::run(std::env::args_os())
}
