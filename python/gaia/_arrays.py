"""Models that are arrays: of NumPy, of JAX, or anything with the buffer protocol."""

from __future__ import annotations

import copy
import math
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gaia._errors import GaiaError
from gaia._leaves import JaxLeaf, Leaf, NumpyLeaf, is_of_jax
from gaia._run import Parameters, Run


class Arrays(Parameters):
    """Arrays as leaves of dicts, lists and tuples. Each is named by its path, such as ``layers.0.weight``.

    Args:
        tree: The arrays.
        statistics: Paths of those that are statistics, or of the parts of the tree that have them.
    """

    def __init__(self, tree: Any, statistics: Sequence[str] = ()) -> None:
        try:
            import numpy
        except ImportError:
            raise GaiaError("arrays need NumPy, expected it to be installed: pip install numpy", 2) from None
        self._numpy = numpy
        found = list(_leaves(tree, ""))
        for path, one in found:
            _check_leaf(path, one)
        given = [(path, one, numpy.asarray(one)) for path, one in found]
        for path, one, values in given:
            if values.dtype.kind in "OUS":
                raise GaiaError(
                    f"{path} is of type {type(one).__name__}, expected an array of floating-point numbers, or dicts, lists and tuples of such",
                    2,
                )
            if values.dtype.kind != "f" and str(values.dtype) != "bfloat16":
                raise GaiaError(f"{path} holds {values.dtype}, expected floating-point numbers", 2)
        paths = [path for path, *_ in given]
        for path, count in Counter(paths).items():
            if count > 1:
                raise GaiaError(f"{count} arrays are called {path}, expected a path of its own for each", 2)
        measured = _paths_of(statistics, paths)
        self.statistics = len(measured)

        # Statistics are the last ones in the buffer, wherever they are in the tree.
        order = sorted(range(len(given)), key=lambda at: given[at][0] in measured)
        self.tensors = [(given[at][0], given[at][2].shape) for at in order]
        self.values = numpy.empty(sum(values.size for *_, values in given), dtype=numpy.float32)
        leaves: list[Leaf] = []
        for at, part in zip(order, self._parts_of(self.values), strict=True):
            path, one, values = given[at]
            leaves.append(JaxLeaf(path, one, part) if is_of_jax(one) else NumpyLeaf(path, values, part))
        self._ordered = leaves
        by_path = {leaf.path: leaf for leaf in leaves}
        self._in_tree = [by_path[path] for path, *_ in given]

        # Arrays of fewer bits round what they are given. What is sent is the change since then.
        has_fewer = any(values.dtype.itemsize < self.values.itemsize for *_, values in given)
        self.rounded = self.values.copy() if has_fewer else None
        self._form = _rebuilt(tree, iter(self._in_tree))
        self._tree: Any = None
        #: The arrays of NumPy that were given, until the first step.
        self._given = [(leaf, values) for leaf, (_, _, values) in zip(self._in_tree, given, strict=True) if leaf.changes_in_place]
        self._digests: list[tuple[int, int]] = []

    @property
    def tree(self) -> Any:
        """The arrays of the run, in the form of those that were given. What is written to those of NumPy is trained."""
        if self._tree is None:
            self._tree = _rebuilt(self._form, (leaf.now for leaf in self._in_tree))
        return self._tree

    def subject(self) -> Any:
        return self.fresh()

    def fresh(self) -> Any:
        """The values in arrays that nobody else changes, in the form and the types of those that were given."""
        return _rebuilt(self._form, (leaf.fresh() for leaf in self._in_tree))

    def load(self, evaluates: bool) -> None:
        for leaf in self._ordered:
            leaf.load()
        if self.rounded is not None:
            for leaf, rounded in zip(self._ordered, self._parts_of(self.rounded), strict=True):
                rounded[...] = self._numpy.asarray(leaf.now)
        self._forget_replaced()

    def store(self) -> None:
        for leaf in self._ordered:
            leaf.store()

    def take(self, tree: Any) -> None:
        """Takes values over.

        Raises:
            GaiaError: Their names or shapes are others.
        """
        # The keys of dicts may have changed their order, which some libraries sort.
        found = dict(_leaves(tree, ""))
        for leaf, (path, shape) in zip(self._ordered, self.tensors, strict=True):
            if path not in found:
                raise GaiaError(f"run.step was given no {path}, expected the arrays of gaia.join(...)", 2)
            values = found.pop(path)
            if self._numpy.shape(values) != shape:
                raise GaiaError(f"run.step was given {path} {self._numpy.shape(values)}, expected {path} {shape}", 2)
            leaf.take(values)
        for path in found:
            raise GaiaError(f"run.step was given {path}, expected the arrays of gaia.join(...)", 2)
        self._forget_replaced()
        self._given, self._digests = [], []

    def watch_given(self) -> None:
        """Notes the values that the script begins with, and those in the arrays that it has given: it may go on with these."""
        self._digests = [(self._digest(values), self._digest(leaf.now)) for leaf, values in self._given]

    def check_in_place(self) -> None:
        """Checks that a script can have changed the arrays where they are, and has not changed others in their place.

        Raises:
            GaiaError: One of them cannot be changed, or was replaced, or the one that was given has changed and not it.
        """
        for leaf in self._in_tree:
            if not leaf.changes_in_place:
                raise GaiaError(
                    f"run.step() without arrays, and {leaf.path} is an array of JAX, which is not changed in place, expected "
                    "run.step(params) with the arrays after the step",
                    2,
                )
        for path in self._replaced():
            raise GaiaError(
                f"run.step() without arrays, and {path} of run.params was replaced, expected it to be changed in place, or "
                "params = run.step(params) with the arrays after the step",
                2,
            )
        for (leaf, values), noted in zip(self._given, self._digests, strict=True):
            given, now = noted
            if self._digest(values) != given and self._digest(leaf.now) == now:
                raise GaiaError(
                    f"run.step() without arrays, and the script has changed the {leaf.path} that it gave to gaia.join(...), "
                    "which has copied it, expected that of run.params to be changed in place, or params = run.step(params)",
                    2,
                )
        self._given, self._digests = [], []

    def _parts_of(self, buffer: Any) -> Iterator[Any]:
        """The part of a buffer that each array has, in its shape."""
        start = 0
        for _, shape in self.tensors:
            end = start + math.prod(shape)
            yield buffer[start:end].reshape(shape)
            start = end

    def _forget_replaced(self) -> None:
        """Forgets a tree with arrays that others have replaced, or that the script has replaced."""
        if not all(leaf.changes_in_place for leaf in self._in_tree) or self._replaced():
            self._tree = None

    def _replaced(self) -> list[str]:
        """Paths at which the script has put others in place of the arrays of the tree."""
        if self._tree is None:
            return []
        found = dict(_leaves(self._tree, ""))
        return [leaf.path for leaf in self._in_tree if found.get(leaf.path) is not leaf.now]

    def _digest(self, values: Any) -> int:
        # Not all kinds of numbers, such as `bfloat16`, are let out of NumPy.
        return zlib.crc32(self._numpy.ascontiguousarray(values).reshape(-1).view("u1").data)


class ArraysRun(Run):
    """The part in a run of a script that trains arrays."""

    _parameters: Arrays

    @property
    def params(self) -> Any:
        """The arrays, in the types of those that were given. What is written to arrays of NumPy before :meth:`step` is what it
        sends. Those of JAX are others after each step, which takes them as its argument."""
        return self._parameters.tree

    def _begin(self, metric: str | None, higher_is_better: bool, momentum: float, average: bool) -> None:
        super()._begin(metric, higher_is_better, momentum, average)
        self._parameters.watch_given()

    def step(
        self,
        params: Any = None,
        *,
        examples: int | None = None,
        rows: Mapping[str, Any] | None = None,
        learning_rate: float | None = None,
    ) -> Any:
        """Says that a step is done, and returns the arrays to go on with.

        Args:
            params: The arrays after the step, in the form of those that were given to :func:`gaia.join`. ``None`` where those in
                :attr:`params` were changed in place; then they are returned.
            examples: How many examples the step was made on. By default those of the batches that a loop over the run has taken
                since the last step, or 1 without such a loop.
            rows: By the path of an array: the rows of its first dimension that steps read and change in the clock that begins
                after this step, as an array or a list of whole numbers. Said with the last step of a clock. That clock reads
                no other rows of these arrays, which stay what they were, and none of them may change.
            learning_rate: The rate of the step, where it changes: ASP's threshold falls with it.

        Raises:
            GaiaError: ``params`` have other names or shapes, or are left out where arrays are of JAX or others were changed in
                place of those in :attr:`params`, or ``rows`` names no array or a row that it does not have.
        """
        if params is None:
            self._parameters.check_in_place()
        else:
            self._parameters.take(params)
        counted = self._examples - self._stepped_examples
        self._stepped_examples += (counted or 1) if examples is None else examples
        self._examples = self._stepped_examples
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


def _check_leaf(path: str, leaf: Any) -> None:
    """Checks that a leaf comes back in its type.

    Raises:
        GaiaError: It is a tensor of torch, in whose place the script would get an array.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        raise GaiaError(
            f"{path} is a tensor of torch, expected a torch.nn.Module and its optimizer: gaia.join(module, optimizer, ...), where a "
            "torch.nn.ParameterDict may have the tensors; or arrays of NumPy or JAX",
            2,
        )


def _paths_of(names: Sequence[str], paths: Sequence[str]) -> set[str]:
    """The paths of the arrays that are named, one by one or by a part of the tree.

    Raises:
        GaiaError: A name is of no array.
    """
    if isinstance(names, str):
        raise GaiaError(f'statistics is "{names}", expected a list of paths: statistics=["{names}"]', 2)
    found: set[str] = set()
    for name in names:
        of_name = [path for path in paths if path == name or path.startswith(f"{name}.")]
        if not of_name:
            raise GaiaError(f"statistics names {name}, expected paths of arrays: {', '.join(paths)}", 2)
        found.update(of_name)
    return found


def _rebuilt(tree: Any, leaves: Iterator[Any]) -> Any:
    children = _children(tree)
    if children is None:
        return next(leaves)
    parts = [_rebuilt(part, leaves) for _, part in children]
    if isinstance(tree, dict):
        # The type tells JAX one tree from another, and may keep more than its entries.
        made = copy.copy(tree)
        made.update(zip(tree, parts, strict=True))
        return made
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*parts)
    return type(tree)(parts)
