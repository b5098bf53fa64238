"""Scripts that keep their changes between rounds of local steps, beside the server of their process.

Changes are whole numbers, so that sums are exact: a run ends with the bits that its clocks lead to, however they are handed over.
"""

import json

import numpy
import pytest
from conftest import write
from processes import Cluster, said

SCRIPT = """
import gaia, numpy, os

SETUP
run = gaia.join({"w": numpy.zeros(COUNT, numpy.float32)}, evaluate=lambda params: float(EVALUATED), steps_per_clock=EACH)
LOOP
    w = run.params["w"]
    change = change_of(gaia.rank(), step, w)
    if step % 7 == 3 and NAMES:
        change[FEW:] = 0
    w += change
    if NAMES and step % 7 == 2:
        run.step(rows={"w": list(range(FEW))})
    else:
        run.step()
    if step == LAST:
        w += AFTER
        break
if not run.over:
    # What a script does after its loop is its own.
    run.params["w"][...] = 1e6
run.end()
numpy.save(f"final-{gaia.rank()}.npy", run.params["w"])
"""

#: The same of a module whose tensors are not in the buffer of the run, as those of an accelerator are not.
STAGED = """
import gaia, numpy, os, torch
from gaia._staging import Staging

SETUP
class Weights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(COUNT, dtype=torch.float64))

def arrays(model):
    return {"w": model.w.detach().numpy().astype(numpy.float32)}

def evaluate(model):
    params = arrays(model)
    return float(EVALUATED)

copies = {"store": 0, "load": 0}
def counted(name, copy):
    def copied(self):
        copies[name] += 1
        copy(self)
    return copied
for name in copies:
    setattr(Staging, name, counted(name, getattr(Staging, name)))

model = Weights()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
run = gaia.join(model, optimizer, evaluate=evaluate, steps_per_clock=EACH)
LOOP
    model.w.grad = -torch.from_numpy(change_of(gaia.rank(), step, arrays(model)["w"])).double()
    optimizer.step()
    if step == LAST:
        with torch.no_grad():
            model.w.add_(AFTER)
        break
if not run.over:
    with torch.no_grad():
        model.w.fill_(1e6)
run.end()
numpy.save(f"final-{gaia.rank()}.npy", arrays(model)["w"])
numpy.save(f"copies-{gaia.rank()}.npy", [copies["store"], copies["load"]])
"""

UNNAMED = "for step in run(range(STEPS)):"

#: Loops over batches that the script has a name for, so that they outlive the loop.
NAMED = [
    "batches = run(range(STEPS))\nfor step in batches:",
    "batches = run(range(STEPS))\nfor _, step in zip(range(STEPS), batches):",
]

#: The run does not know when a script takes no further batch.
BY_HAND = "batches = run(range(STEPS))\nwhile (step := next(batches, None)) is not None:"

#: Steps towards numbers of the data center, by one. They depend on the values that the worker has.
TOWARDS = """
COUNT, FEW = 300, 10

def change_of(rank, step, w):
    target = numpy.random.default_rng(rank).integers(-30, 31, COUNT)
    return numpy.where(target > w, 1, -1).astype(numpy.float32)
"""

#: Steps that depend on their number alone, so that it does not matter when rounds end.
FIXED = """
COUNT, FEW = 300, 10

def change_of(rank, step, w):
    return numpy.random.default_rng([rank, step]).integers(-8, 9, COUNT).astype(numpy.float32)
"""


class Trained:
    """A run of two data centers that has ended. `state` is whether each keeps a state on disk, and so hands over each clock."""

    def __init__(self, folder, setup=TOWARDS, steps=10_000, overlap=0, clocks=1_000, state=False, each=1, names=False, **more):
        folder.mkdir()
        self.setup, self.steps, self.each, self.names = setup, more.get("last", steps - 1) + 1, each, names
        outer = more.get("outer", 'outer = "plain", outer_learning_rate = 1.0, values = "f32"').removesuffix('"')
        remote = f'local-steps", steps = 5, overlap = {overlap}, fragments = {more.get("fragments", 1)}, {outer}'
        keys = f"evaluate.every = 4\n{more.get('stop', '')}"
        cluster = Cluster(folder, clocks=clocks, remote=remote, keys=keys)
        values = {"SETUP": setup, "EVALUATED": more.get("evaluated", "0"), "STEPS": steps, "EACH": each, "NAMES": names}
        text = more.get("script", SCRIPT).replace("LOOP", more.get("loop", UNNAMED))
        for name, value in {**values, "LAST": more.get("last", -1), "AFTER": more.get("after", 0)}.items():
            text = text.replace(name, str(value))
        script = write(folder / "script.py", text)
        states = {dc: {"GAIA_STATE": f"state-{dc}"} if state else {} for dc in ("east", "west")}
        nodes = [cluster.coordinator(script), *(cluster.worker(script, dc, **states[dc]) for dc in states)]
        texts = said(nodes)
        assert [node.returncode for node in nodes] == [0] * 3, texts
        self.summary = json.loads((folder / "out" / "summary.json").read_text())
        assert self.summary["copies_equal"] and self.summary["conservation"]["broken"] == [], self.summary
        self.values, others = (numpy.load(folder / f"final-{rank}.npy") for rank in range(2))
        assert numpy.array_equal(self.values, others)
        copies = folder / "copies-0.npy"
        #: How often a clock has copied tensors to the buffer, and back.
        self.copies_of_a_clock = numpy.load(copies) / max(self.summary["data_center_clocks"]) if copies.exists() else None

    def expected(self):
        """What the clocks of the run lead to, if their changes are handed over in each."""
        found = {"numpy": numpy}
        exec(self.setup, found)
        count, few, change_of = found["COUNT"], found["FEW"], found["change_of"]
        clocks = set(self.summary["data_center_clocks"])
        assert len(clocks) == 1
        agreed, own = numpy.zeros(count, numpy.float32), numpy.zeros((2, count), numpy.float32)
        for clock in range(min(clocks.pop(), self.steps // self.each)):
            for rank in range(2):
                w = agreed + 2 * own[rank]
                for step in range(clock * self.each, (clock + 1) * self.each):
                    change = change_of(rank, step, w)
                    if step % 7 == 3 and self.names:
                        change[few:] = 0
                    w += change
                own[rank] = (w - agreed) / 2
            if (clock + 1) % 5 == 0:
                agreed, own = agreed + own.sum(axis=0), 0 * own
        return agreed + own.sum(axis=0)

    def passes_of_a_clock(self):
        """How often all values go between worker and server in a clock, in both directions."""
        size = 4 * len(self.values)
        return self.summary["lan_bytes"] / sum(self.summary["data_center_clocks"]) / size


def check(trained, keeps):
    """Checks the values at the end of a run, and whether its scripts have kept their changes."""
    assert numpy.array_equal(trained.values, trained.expected())
    assert numpy.abs(trained.values).mean() > 1
    assert (trained.passes_of_a_clock() < 1.3) == keeps, trained.summary["lan_bytes"]


@pytest.mark.parametrize("state", [False, True])
def test_a_script_that_ends_its_loop_has_the_values_of_its_clocks(tmp_path, state):
    # A state has what is changed in each clock, so nothing is kept.
    check(Trained(tmp_path / "run", steps=43, state=state), keeps=not state)


def test_a_script_that_breaks_off_its_loop_hands_over_what_it_has_kept(tmp_path):
    check(Trained(tmp_path / "run", last=37), keeps=True)


def test_what_follows_a_loop_over_rows_that_is_broken_off_is_the_scripts_own(tmp_path):
    loop = 'for step in run(range(9), rows={"w": lambda step: [0]}):\n    break\n'
    script = SCRIPT.replace("if not run.over:", f"{loop}if not run.over:")
    check(Trained(tmp_path / "run", last=37, script=script), keeps=True)


@pytest.mark.parametrize("loop", NAMED)
def test_a_loop_that_is_broken_off_has_ended_where_its_batches_have_a_name(tmp_path, loop):
    check(Trained(tmp_path / "run", last=37, loop=loop), keeps=True)


def test_batches_that_are_taken_by_hand_hand_over_each_clock(tmp_path):
    check(Trained(tmp_path / "run", last=37, loop=BY_HAND), keeps=False)


@pytest.mark.parametrize("clocks", [36, 38, 39])
def test_a_run_that_is_stopped_between_two_rounds_has_what_was_kept(tmp_path, clocks):
    trained = Trained(tmp_path / "run", clocks=clocks)
    assert trained.summary["stopped_by"] == "clocks"
    check(trained, keeps=True)


def test_a_run_that_reaches_its_target_has_what_was_kept(tmp_path):
    trained = Trained(tmp_path / "run", evaluated="50 - abs(params['w']).mean()", stop="stop.objective = 45")
    assert trained.summary["stopped_by"] == "objective"
    check(trained, keeps=True)


def test_a_run_that_settles_has_what_was_kept(tmp_path):
    trained = Trained(tmp_path / "run", evaluated="1.0", stop="stop.change = { clocks = 22 }")
    assert trained.summary["stopped_by"] == "converged"
    check(trained, keeps=True)


@pytest.mark.parametrize("fragments", [1, 2])
def test_a_round_that_arrives_while_changes_are_kept_enters_beside_them(tmp_path, fragments):
    trained = Trained(tmp_path / "run", FIXED, steps=43, overlap=2, fragments=fragments)
    check(trained, keeps=fragments == 1)
    assert trained.passes_of_a_clock() < 1.9


def test_a_run_that_is_stopped_while_a_round_is_under_way_has_what_was_kept(tmp_path):
    check(Trained(tmp_path / "run", FIXED, clocks=36, overlap=3), keeps=True)


def test_a_clock_of_several_steps_counts_whole_or_not_at_all(tmp_path):
    check(Trained(tmp_path / "run", steps=43, each=2), keeps=False)


def test_a_clock_that_names_rows_begins_with_all_that_was_kept(tmp_path):
    trained = Trained(tmp_path / "run", steps=43, names=True)
    assert numpy.array_equal(trained.values, trained.expected())


def test_what_rounding_and_momentum_make_of_kept_changes_is_what_they_make_of_each(tmp_path):
    # The runs end before a further round, which would move the values again.
    more = {"steps": 41, "outer": 'values = "int4"'}
    kept, each = (Trained(tmp_path / f"run-{state}", state=state, **more) for state in (False, True))
    assert all(40 < clock < 45 for run in (kept, each) for clock in run.summary["data_center_clocks"])
    assert numpy.array_equal(kept.values, each.values)
    assert kept.summary["significant_fraction"] == pytest.approx(each.summary["significant_fraction"], rel=0.15)
    assert kept.passes_of_a_clock() < 0.7 * each.passes_of_a_clock()


#: How runs of modules end: what the script, the run and its evaluations do.
ENDS = {
    "its loop ends": {"steps": 43},
    "it breaks off": {"last": 37},
    "its batches have a name": {"last": 37, "loop": NAMED[1]},
    "between two rounds": {"clocks": 38},
    "at a target": {"evaluated": "50 - abs(params['w']).mean()", "stop": "stop.objective = 45"},
    "a round arrives while changes are kept": {"setup": FIXED, "steps": 43, "overlap": 2},
    "while a round is under way": {"setup": FIXED, "clocks": 36, "overlap": 3},
}


@pytest.mark.parametrize("name", ENDS)
def test_tensors_that_are_not_in_the_buffer_are_copied_where_somebody_needs_them(tmp_path, name):
    pytest.importorskip("torch", reason="skipped: torch is not installed")
    trained = Trained(tmp_path / "run", script=STAGED, **ENDS[name])
    check(trained, keeps=True)
    # Of five clocks one or two begin or end a round, and of four one is evaluated, which loads twice.
    stores, loads = trained.copies_of_a_clock
    assert 0.1 < stores < 0.7 and 0.1 < loads < 0.95, trained.copies_of_a_clock


@pytest.mark.parametrize("last", [34, 35, 36], ids=["handed over", "evaluated", "kept"])
@pytest.mark.parametrize("script", [SCRIPT, STAGED], ids=["arrays", "tensors"])
def test_what_a_script_changes_in_its_loop_goes_with_its_last_step(tmp_path, script, last):
    if script == STAGED:
        pytest.importorskip("torch", reason="skipped: torch is not installed")
    trained = Trained(tmp_path / "run", last=last, after=1000, script=script)
    assert numpy.array_equal(trained.values, trained.expected() + 1000)


def test_tensors_that_are_not_in_the_buffer_are_copied_in_each_clock_where_nothing_is_kept(tmp_path):
    pytest.importorskip("torch", reason="skipped: torch is not installed")
    trained = Trained(tmp_path / "run", script=STAGED, steps=43, state=True)
    check(trained, keeps=False)
    stores, loads = trained.copies_of_a_clock
    assert stores > 0.9 and loads > 1.2, trained.copies_of_a_clock
