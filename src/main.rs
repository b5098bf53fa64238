//! The command line program; what its verbs do is in [`gaia::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    gaia::cli::run(std::env::args_os(), &gaia::BuiltIn).into()
}
