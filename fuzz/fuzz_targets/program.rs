// What every program for libFuzzer is: it finds its target by its own name.

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = gaia_fuzz::Target::named(env!("CARGO_BIN_NAME")).expect("named as its target");
    (target.check)(data);
});
