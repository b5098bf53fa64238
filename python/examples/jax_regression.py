"""Logistic regression with JAX and its gradients. Parameters are a pytree, and are handed over whole.

    gaia train examples/regions.toml --script examples/jax_regression.py
"""

import jax
import jax.numpy as jnp
import numpy

import gaia

draws = numpy.random.default_rng(gaia.rank())
x = draws.normal(size=(500, 20)).astype(numpy.float32)
y = (x @ numpy.linspace(-2, 2, 20) > 0).astype(numpy.float32)


def loss(params, x, y):
    return jnp.mean(jnp.logaddexp(0.0, (1 - 2 * y) * (x @ params["weights"] + params["bias"])))


def validate(params):
    answers = x[400:] @ params["weights"] + params["bias"] > 0
    return float(loss(params, x[400:], y[400:])), float(numpy.mean(answers == y[400:]))


gradient = jax.jit(jax.grad(loss))
params = {"weights": jnp.zeros(20), "bias": jnp.zeros(())}
run = gaia.join(params, evaluate=validate, metric="accuracy", higher_is_better=True)
params = run.params
while not run.over and run.clock < 200:
    changes = gradient(params, x[:400], y[:400])
    params = run.step(jax.tree.map(lambda value, change: value - 0.5 * change, params, changes), examples=400)
run.end()
print(f"rank {gaia.rank()}: loss %.3f, accuracy %.3f" % validate(run.params))
