include!("program.rs");
