//! The run for the tests of this room.

use gaia_config::{Plan, RunFile};

/// One data center with a server and two workers.
pub(super) fn plan() -> Plan {
    RunFile::from_text("r", RUN, &[]).unwrap().plan().unwrap()
}

const RUN: &str = "name = \"r\"\ndriver = \"real\"\n[app]\nkind = \"matrix-factorization\"\n\
    [sync.remote]\nmodel = \"bsp\"\n[stop]\nclocks = 1\n[topology]\nname = \"t\"\n\
    defaults.workers = 2\nwan.bandwidth = \"1 Mbit/s\"\nwan.rtt = \"1 ms\"\n\
    [[topology.data_center]]\nname = \"a\"\n";
