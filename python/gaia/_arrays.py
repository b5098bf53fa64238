"""Models that are arrays: of NumPy, of JAX, or anything with the buffer protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


from gaia._errors import GaiaError

from gaia._run import Parameters, Run


class Arrays(Parameters):
    """Arrays as leaves of dicts, lists and tuples. Each is named by its path, such as ``layers.0.weight``."""

    def __init__(self, tree: Any) -> None:
        try:
            import numpy
        except ImportError:
            raise GaiaError("arrays need NumPy, expected it to be installed: pip install numpy", 2) from None
        self._numpy = numpy
        leaves = [(path, numpy.asarray(leaf)) for path, leaf in _leaves(tree, "")]
        for path, leaf in leaves:
            if leaf.dtype.kind != "f" and str(leaf.dtype) != "bfloat16":
                raise GaiaError(f"{path} holds {leaf.dtype}, expected floating-point numbers", 2)
        self.tensors = [(path, leaf.shape) for path, leaf in leaves]
        self.values = numpy.empty(sum(leaf.size for _, leaf in leaves), dtype=numpy.float32)
        offset, views = 0, []
        for _, leaf in leaves:
            view = self.values[offset : offset + leaf.size].reshape(leaf.shape)
            view[...] = leaf
            views.append(view)
            offset += leaf.size
        self._views = views
        #: The arrays of the run, in the form of those that were given. They are views: what is written to them is trained.
        self.tree = _rebuilt(tree, iter(views))

    def subject(self) -> Any:
        return self.fresh()

    def fresh(self) -> Any:
        """Copies of the values, in the form of the arrays that were given."""
        return _rebuilt(self.tree, (view.copy() for view in self._views))

    def take(self, tree: Any) -> None:
        """Takes values over.

        Raises:
            GaiaError: Their names or shapes are others.
        """
        # The keys of dicts may have changed their order, which some libraries sort.
        leaves = dict(_leaves(tree, ""))
        for (path, shape), view in zip(self.tensors, self._views, strict=True):
            if path not in leaves:
                raise GaiaError(f"run.step was given no {path}, expected the arrays of gaia.join(...)", 2)
            leaf = leaves.pop(path)
            if self._numpy.shape(leaf) != shape:
                raise GaiaError(f"run.step was given {path} {self._numpy.shape(leaf)}, expected {path} {shape}", 2)
            view[...] = leaf
        for path in leaves:
            raise GaiaError(f"run.step was given {path}, expected the arrays of gaia.join(...)", 2)


class ArraysRun(Run):
    """The part in a run of a script that trains arrays."""

    _parameters: Arrays

    @property
    def params(self) -> Any:
        """The arrays, as views: what is written to them before :meth:`step` is what it sends."""
        return self._parameters.tree

    def step(
        self, params: Any = None, *, examples: int = 1, rows: Mapping[str, Any] | None = None, learning_rate: float | None = None
    ) -> Any:
        """Says that a step is done, and returns the arrays to go on with.

        Args:
            params: The arrays after the step, in the form of those that were given to :func:`gaia.join`. ``None`` where
                :attr:`params` were changed in place; then those views are returned.
            examples: How many examples the step was made on.
            rows: By the path of an array: the rows of its first dimension that steps read and change in the clock that begins
                after this step, as an array or a list of whole numbers. Said with the last step of a clock. That clock reads
                no other rows of these arrays, which stay what they were, and none of them may change.
            learning_rate: The rate of the step, where it changes: ASP's threshold falls with it.

        Raises:
            GaiaError: ``params`` have other names or shapes, or ``rows`` names no array or a row that it does not have.
        """
        if params is not None:
            self._parameters.take(params)
        self._examples += examples
        self._stepped(rows, learning_rate)
        return self.params if params is None else self._parameters.fresh()


def _children(tree: Any) -> list[tuple[str, Any]] | None:
    """The parts of a tree by name. ``None`` of a leaf."""
    if isinstance(tree, dict):
        return [(str(key), tree[key]) for key in tree]
    if isinstance(tree, (list, tuple)):
        return [(str(at), part) for at, part in enumerate(tree)]
    return None


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    children = _children(tree)
    if children is None:
        yield path or "array", tree
        return
    for name, part in children:
        yield from _leaves(part, f"{path}.{name}" if path else name)


def _rebuilt(tree: Any, leaves: Iterator[Any]) -> Any:
    children = _children(tree)
    if children is None:
        return next(leaves)
    parts = [_rebuilt(part, leaves) for _, part in children]
    if isinstance(tree, dict):
        return dict(zip(tree, parts, strict=True))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*parts)
    return type(tree)(parts)


