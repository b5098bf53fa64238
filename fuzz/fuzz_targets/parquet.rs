#![no_main]

include!("program.rs");
