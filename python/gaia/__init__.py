"""Train one model over data that stays in many data centers.

A script joins a run with one call, and counts its batches with another::

    import gaia

    run = gaia.join(model, optimizer, evaluate=validate)   # validate(model) -> loss, or (loss, metric)
    for epoch in range(100):
        for x, y in run(loader):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()                               # the exchange with other workers

Which run it is decides how the script is started, never the script. ``python train.py`` trains alone, as without Gaia.
``gaia train run.toml --script train.py`` trains over the data centers of the run file, simulated, emulated or real.
``GAIA_RUN=run.toml GAIA_DC=tokyo python train.py`` is one worker of a real run.
"""

from gaia._arrays import ArraysRun
from gaia._gaia import VERSION as __version__
from gaia._errors import GaiaError, RunStopped
from gaia._join import join
from gaia._place import rank, size
from gaia._run import Batches, Run
from gaia._simulate import Result, simulate

__all__ = [
    "ArraysRun",
    "Batches",
    "GaiaError",
    "Result",
    "Run",
    "RunStopped",
    "__version__",
    "join",
    "rank",
    "simulate",
    "size",
]
