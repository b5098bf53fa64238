//! Claims that cannot be checked here, each with the reason.

use gaia_report::paper::{SystemRow, SystemVerdict};

pub(super) fn rows() -> impl Iterator<Item = SystemRow> {
    UNCHECKED.into_iter().map(|(system, claim, reason)| SystemRow {
        system: system.into(),
        claim: claim.into(),
        check: String::new(),
        figures: Vec::new(),
        verdict: SystemVerdict::CannotBeChecked,
        reason: reason.into(),
    })
}

const UNCHECKED: [(&str, &str, &str); 9] = [
    (
        "Project Adam",
        "Activation and error vectors of K examples instead of an M × N gradient: K(M + N) values instead of MN (slide 21).",
        "workers send matrices; no exchange sends factors.",
    ),
    (
        "DistBelief",
        "Adagrad makes asynchronous training robust (slide 17).",
        "the claim is about one speech model on thousands of cores; AdaGrad is there, but each network of this evaluation trains with SGD.",
    ),
    (
        "DistBelief",
        "Sandblaster L-BFGS can be competitive and is easier to scale (slide 24).",
        "there is no second-order method.",
    ),
    (
        "Parameter Server",
        "The KKT filter keeps more than 95 % of keys from being sent (OSDI 2014).",
        "no application has a proximal step for a sparse penalty, so there is no KKT filter.",
    ),
    (
        "Synchronous multinode SGD (Intel)",
        "42 times on 64 nodes with OverFeat-FAST, 6.5 times on 16 nodes with a network of 7 layers (abstract).",
        "each network has one printed figure, and one constant to fit to it.",
    ),
    (
        "RPC to RDMA tensors",
        "Up to 25 times gRPC, up to 169 % over an RPC made for RDMA (abstract).",
        "it needs network cards with RDMA, and none crosses a WAN.",
    ),
    (
        "Clipper",
        "Answers within a latency objective, by adaptive batches, a cache and ensembles (slides 9 to 14).",
        "it serves predictions of trained models; this evaluation trains.",
    ),
    (
        "Langer's taxonomy",
        "Four axes compare systems for distributed training: parallelism, optimisation, scheduling and communication (abstract).",
        "it is an order of things, not a result. Each run of `gaia compare` has its place on the axes, and a page of the documentation \
         has that of every remote model and of these systems.",
    ),
    (
        "Project Adam, DistBelief, Parameter Server, Baidu",
        "ImageNet-22k, 636 TB of data, 40 GPUs.",
        "neither the data nor the machines are there; runs here are simulations of small models.",
    ),
];
