//! What a question to the link model costs: per datagram (the emulated driver) and per frame (the simulated
//! driver), against the 7 µs that QUIC itself takes for a packet.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use gaia_core::link::{Link, LinkConfig, Transport};
use gaia_core::types::{Bandwidth, ByteSize, Instant, Seed};

fn config(loss: f64) -> LinkConfig {
    LinkConfig {
        bandwidth: Bandwidth::from_mbit(100.0),
        delay: Duration::from_millis(50),
        queue: ByteSize(1 << 20),
        loss,
    }
}

fn link(criterion: &mut Criterion) {
    for (name, loss) in [("packet", 0.0), ("packet with loss", 0.001)] {
        let mut link = Link::new(config(loss), Seed(1));
        criterion.bench_function(name, |bench| {
            bench.iter(|| link.send(black_box(link.idle_at()), black_box(1_480)));
        });
    }
    for (name, loss) in [("1 MiB frame", 0.0), ("1 MiB frame with loss", 0.001)] {
        let mut transport = Transport::new(config(loss), Seed(1));
        criterion.bench_function(name, |bench| {
            let now = Instant::ZERO;
            bench.iter(|| transport.send_data(black_box(now), black_box(1 << 20)));
        });
    }
}

criterion_group!(benches, link);
criterion_main!(benches);
