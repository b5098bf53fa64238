//! What the lanes make of a link: its rate in steady state, from idle, with loss, and for control frames beside it, over links in
//! memory; and the processor time of a gigabyte over UDP, beside a stream of quinn.
//!
//! The links in memory carry QUIC and TLS as it is. Their time is virtual where only the link decides, and that of the machine
//! where it has to keep up.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench measures and prints")]

mod links;
mod many;
#[path = "../../tests/mesh/mod.rs"]
mod mesh;
#[allow(dead_code, reason = "other benches measure the time of a thread")]
#[path = "../rows/mod.rs"]
mod rows;
mod udp;

use rows::Rows;

fn main() {
    let mut rows = Rows::new();
    links::measure(&mut rows);
    many::measure(&mut rows);
    udp::measure(&mut rows);
}
