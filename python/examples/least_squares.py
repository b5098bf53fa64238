"""A linear model of NumPy arrays, trained over all workers' examples.

    python examples/least_squares.py                                   # alone
    gaia train examples/regions.toml --script examples/least_squares.py   # over three simulated regions
"""

import numpy

import gaia

FEATURES, EXAMPLES, RATE = 50, 200, 0.1

draws = numpy.random.default_rng(gaia.rank())
x = draws.normal(size=(EXAMPLES, FEATURES)).astype(numpy.float32)
y = x @ numpy.linspace(-1, 1, FEATURES, dtype=numpy.float32)


def mean_square(params):
    return float(numpy.mean((x @ params["weights"] - y) ** 2))


run = gaia.join({"weights": numpy.zeros(FEATURES, numpy.float32)}, evaluate=mean_square, metric="mse")
params = run.params
while not run.over and run.clock < 100:
    gradient = 2 / EXAMPLES * x.T @ (x @ params["weights"] - y)
    params["weights"] -= RATE * gradient
    run.step(examples=EXAMPLES)

run.end()
print(f"rank {gaia.rank()} of {gaia.size()}: mean square {mean_square(params):.2g} after {run.clock} clocks")
