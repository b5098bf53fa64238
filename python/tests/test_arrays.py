"""Arrays of NumPy, alone and in a run."""

import json
import random
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import EXAMPLES, SHRINKING, environment, gaia as command, write
from processes import Cluster, said

import gaia

FEATURES = 12


def data(rank):
    draws = numpy.random.default_rng(rank)
    x = draws.normal(size=(40, FEATURES)).astype(numpy.float32)
    return x, x @ numpy.linspace(-1, 1, FEATURES, dtype=numpy.float32)


def gradient(weights, x, y):
    return 2 / len(x) * x.T @ (x @ weights - y)


def least_squares(weights_of=None, steps_per_clock=1, average=True, rate=0.1):
    """A script. `weights_of` collects the final weights by rank."""

    def main():
        x, y = data(gaia.rank())
        evaluate = lambda params: float(numpy.mean((x @ params["w"] - y) ** 2))  # noqa: E731
        run = gaia.join(
            {"w": numpy.zeros(FEATURES, numpy.float32)},
            evaluate=evaluate,
            steps_per_clock=steps_per_clock,
            average=average,
        )
        while not run.over:
            weights = run.params["w"]
            weights -= rate * gradient(weights, x, y)
            run.step(examples=len(x))
        if weights_of is not None:
            weights_of[gaia.rank()] = run.params["w"].copy()

    return main


def test_batches_are_for_one_loop():
    run = gaia.join({"w": numpy.zeros(1, numpy.float32)}, evaluate=lambda params: 0.0)
    whole, broken = run([1, 2, 3]), run([1, 2, 3])
    assert isinstance(run, gaia.ArraysRun) and isinstance(whole, gaia.Batches)
    assert [next(whole), list(whole), list(whole)] == [1, [2, 3], []]
    for batch in broken:
        assert batch == 1
        break
    with pytest.raises(gaia.GaiaError, match=r"expected run\(loader\) in each loop"):
        next(iter(broken))


def test_alone_a_script_trains_as_without_gaia():
    x, y = data(0)
    plain = numpy.zeros(FEATURES, numpy.float32)
    run = gaia.join({"w": plain.copy()}, evaluate=lambda params: 0.0)
    assert (gaia.rank(), gaia.size(), run.over) == (0, 1, False)
    for _ in run(range(10)):
        plain -= 0.1 * gradient(plain, x, y)
        run.params["w"] -= 0.1 * gradient(run.params["w"], x, y)
        run.step()
    assert (run.params["w"] == plain).all()
    assert run.clock == 10
    run.end()
    assert run.over


def test_one_worker_under_bsp_is_the_plain_loop(one):
    x, y = data(0)
    plain = numpy.zeros(FEATURES, numpy.float32)
    weights = {}
    result = gaia.simulate(least_squares(weights), one)
    for _ in range(result["clocks"]):
        plain -= 0.1 * gradient(plain, x, y)
    # The run goes on for the clocks that had begun when it was told to stop.
    for _ in range(3):
        if numpy.abs(weights[0] - plain).max() < 1e-6:
            break
        plain -= 0.1 * gradient(plain, x, y)
    assert numpy.abs(weights[0] - plain).max() < 1e-6


def test_under_bsp_a_clock_is_a_step_on_the_examples_of_all(three):
    weights = {}
    result = gaia.simulate(least_squares(weights), three)
    plain = numpy.zeros(FEATURES, numpy.float32)
    states = []
    for _ in range(result["clocks"] + 3):
        plain -= 0.1 * numpy.mean([gradient(plain, *data(rank)) for rank in range(6)], axis=0)
        states.append(plain.copy())
    assert min(numpy.abs(weights[0] - state).max() for state in states) < 1e-5


@pytest.mark.parametrize("remote", ["bsp", "ssp", "asp", "tap", "local-steps"])
def test_the_final_weights_are_equal_everywhere_and_trained(three, remote):
    weights = {}
    settings = {"sync.remote.model": remote, "stop.clocks": 60}
    if remote == "ssp":
        settings["sync.remote.staleness"] = 2
    result = gaia.simulate(least_squares(weights), three, set=settings)
    assert sorted(weights) == list(range(6))
    for rank in range(1, 6):
        assert (weights[rank] == weights[0]).all()
    assert result["copies_equal"] and result["objective"] < 0.1
    assert gaia.rank() == 0, "the thread of the test is no worker"


@pytest.mark.parametrize(("apart", "said_of_copies"), [(0.0, "lose little"), (3.0, "of the initial loss")])
def test_a_choice_sees_copies_part_where_a_script_judges_examples_of_all_kinds(three, apart, said_of_copies):
    targets = [numpy.linspace(-1, 1, FEATURES, dtype=numpy.float32) + apart * (region - 1) for region in range(3)]

    def main():
        # Two workers a region. Each trains on examples of its region, and judges those of all.
        x, _ = data(gaia.rank())
        y = x @ targets[gaia.rank() // 2]
        judge = lambda params: float(numpy.mean([(x @ (params["w"] - target)) ** 2 for target in targets]))  # noqa: E731
        run = gaia.join({"w": numpy.full(FEATURES, 10, numpy.float32)}, evaluate=judge)
        while not run.over:
            run.params["w"][:] -= 0.1 * gradient(run.params["w"], x, y)
            run.step(examples=len(x))

    result = gaia.simulate(main, three, set={"sync.remote.model": "auto", "stop.clocks": 20})
    assert said_of_copies in result["remote_sync_reason"]


def test_a_simulated_run_repeats_to_the_byte(three):
    settings = {"sync.remote.model": "asp"}
    first, second = (gaia.simulate(least_squares(), three, set=settings) for _ in range(2))
    read = lambda result: (result.directory / "progress.jsonl").read_bytes()  # noqa: E731
    assert read(first) == read(second)
    assert len(first.progress) == 20
    assert "<iframe" in first._repr_html_()


def test_the_emulated_driver_trains_the_same_script(three):
    weights = {}
    result = gaia.simulate(least_squares(weights), three, driver="emulated", set={"compute.examples_per_second": 4000})
    assert result["copies_equal"]
    assert all((weights[rank] == weights[0]).all() for rank in weights) and len(weights) == 6


@pytest.mark.parametrize("said", [False, True])
def test_a_threshold_falls_with_the_learning_rate_of_a_script(three, said):
    """Changes of the same sizes: only where a script says that its rate has fallen, smaller ones are sent."""

    def main():
        draws = numpy.random.default_rng(gaia.rank())
        run = gaia.join({"w": numpy.ones(4000, numpy.float32)}, evaluate=lambda params: 1.0)
        while not run.over:
            run.params["w"] += draws.normal(size=4000).astype(numpy.float32) * 0.01
            run.step(learning_rate=0.1 if run.clock < 5 or not said else 1e-6)

    asp = {"model": "asp", "function": "absolute", "threshold": 0.5, "goal": "cost"}
    settings = {f"sync.remote.{key}": value for key, value in asp.items()}
    result = gaia.simulate(main, three, set=settings)
    assert (result["significant_fraction"] > 0.5) == said


def test_local_steps_between_clocks_stay_local(three):
    every, tenth = (
        gaia.simulate(least_squares(steps_per_clock=steps), three, set={"stop.clocks": 5}) for steps in (1, 10)
    )
    assert tenth["objective"] < every["objective"]
    assert tenth["time_s"] > 3 * every["time_s"], "a clock is ten steps"


def test_an_exception_of_a_script_is_that_of_the_run(three):
    def main():
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 0.0)
        for clock in range(10):
            if clock == 3 and gaia.rank() == 4:
                raise LookupError("the fourth batch is gone")
            run.step()

    with pytest.raises(LookupError, match="the fourth batch is gone"):
        gaia.simulate(main, three)
    _no_script_is_left()


def test_an_exception_in_an_evaluation_is_that_of_the_run(three):
    def evaluate(params):
        raise ArithmeticError("no held-out data")

    def main():
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=evaluate)
        while not run.over:
            run.step()

    with pytest.raises(ArithmeticError, match="no held-out data"):
        gaia.simulate(main, three)
    _no_script_is_left()


def test_a_script_that_ends_its_loop_ends_the_run(three):
    clocks = {}

    def main():
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 1.0)
        for _ in run(range(7 if gaia.rank() == 2 else 1000)):
            run.params["w"] += 1
            run.step()
        run.end()
        clocks[gaia.rank()] = float(run.params["w"][0])

    result = gaia.simulate(main, three, set={"stop.clocks": 500})
    assert result["stopped_by"] == "ended" and result["clocks"] < 20
    assert len(set(clocks.values())) == 1 and len(clocks) == 6


def test_workers_build_the_same_model(three):
    def other_values():
        weights = numpy.full(3, 1.0 if gaia.rank() == 5 else 0.0, numpy.float32)
        gaia.join({"bias": numpy.zeros(2, numpy.float32), "w": weights}, evaluate=lambda params: 0.0).step()

    with pytest.raises(gaia.GaiaError, match=r"rank 5: the initial values of tensor 2, w, differ.*seed of the weights"):
        gaia.simulate(other_values, three)

    def other_shape():
        shape = (2, 3) if gaia.rank() == 1 else (3, 2)
        gaia.join({"w": numpy.zeros(shape, numpy.float32)}, evaluate=lambda params: 0.0).step()

    with pytest.raises(gaia.GaiaError, match=r"rank 1: tensor 1 is w \[2, 3\], expected w \[3, 2\]"):
        gaia.simulate(other_shape, three)


def test_initial_values_that_are_no_numbers_are_named(three):
    """No NaN is equal to another, so workers seemed to differ."""

    def main():
        tree = {"bias": numpy.zeros(2, numpy.float32), "w": numpy.full(3, numpy.nan, numpy.float32)}
        gaia.join(tree, evaluate=lambda params: 0.0).step()

    with pytest.raises(gaia.GaiaError, match=r"rank \d: tensor 2, w, begins with values that are NaN, expected numbers"):
        gaia.simulate(main, three)


def test_arguments_that_are_wrong_are_named(three):
    zeros = numpy.zeros(3, numpy.float32)
    with pytest.raises(gaia.GaiaError, match="steps_per_clock is 0, expected at least 1"):
        gaia.join({"w": zeros}, evaluate=len, steps_per_clock=0)
    with pytest.raises(gaia.GaiaError, match="evaluate is not a function"):
        gaia.join({"w": zeros}, evaluate=3)
    with pytest.raises(gaia.GaiaError, match="a.0 holds int64, expected floating-point numbers"):
        gaia.join({"a": [numpy.arange(3)]}, evaluate=len)
    with pytest.raises(gaia.GaiaError, match="sharded=True with arrays"):
        gaia.join({"w": zeros}, evaluate=len, sharded=True)
    run = gaia.join({"w": zeros, "b": [zeros]}, evaluate=len)
    with pytest.raises(gaia.GaiaError, match=r"run.step was given w \(2,\), expected w \(3,\)"):
        run.step({"w": zeros[:2], "b": [zeros]})

    def twice():
        gaia.join({"w": zeros}, evaluate=lambda params: 0.0)
        gaia.join({"w": zeros}, evaluate=lambda params: 0.0)

    with pytest.raises(gaia.GaiaError, match=r"gaia.join\(...\) was called before"):
        gaia.simulate(twice, three)
    with pytest.raises(gaia.GaiaError, match="ended without gaia.join") as raised:
        gaia.simulate(lambda: None, three)
    assert raised.value.exit_code == 2
    with pytest.raises(gaia.GaiaError, match="stop.clocks"):
        gaia.simulate(twice, three, set={"stop.clocks": "soon"})


def test_each_worker_has_its_own_random_numbers(three):
    """The numbers of a script do not depend on others, nor on evaluations."""
    drawn = {}

    def main(evaluates):
        def evaluate(params):
            return random.random() + numpy.random.rand() if evaluates else 0.0

        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=evaluate)
        own = drawn.setdefault((evaluates, gaia.rank()), [])
        while not run.over:
            own += [random.random(), numpy.random.rand()]
            run.step()

    for evaluates in (False, True):
        gaia.simulate(lambda evaluates=evaluates: main(evaluates), three)
    for rank in range(6):
        assert drawn[False, rank] == drawn[True, rank] == drawn[True, 0]


def test_scripts_that_set_no_seed_begin_alike_and_repeat(tmp_path):
    script = write(
        tmp_path / "unseeded.py",
        "import gaia, random, numpy\n"
        "weights = numpy.random.rand(5).astype(numpy.float32) + random.random()\n"
        "run = gaia.join({'w': weights}, evaluate=lambda params: float(params['w'].sum()))\n"
        "while not run.over:\n"
        "    run.params['w'] += numpy.random.rand(5)\n"
        "    run.step()\n",
    )
    arguments = [EXAMPLES / "regions.toml", "--script", script, "--set", "stop.clocks=10"]
    for out in ("one", "other"):
        ended = command("train", *arguments, "--out", out, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
    one, other = ((tmp_path / out / "progress.jsonl").read_bytes() for out in ("one", "other"))
    assert one == other


def test_a_script_has_its_own_imports_from_the_future(tmp_path):
    """Libraries that read annotations, as `dataclasses` does, found text in place of types."""
    text = 'def f(x: int): ...\n\nassert f.__annotations__["x"] is int, f.__annotations__\n' + SHRINKING
    ended = command("train", EXAMPLES / "regions.toml", "--script", write(tmp_path / "train.py", text), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_a_script_is_seeded_in_its_turn(three, monkeypatch):
    """A busy machine started a script while another one drew numbers, which then were those of neither."""
    seeding = []
    seed = random.seed
    monkeypatch.setattr(random, "seed", lambda value: (seeding.append(threading.current_thread().name), seed(value)))

    def main():
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=len)
        while not run.over:
            run.step()

    gaia.simulate(main, three)
    assert sorted(seeding) == [f"gaia-script-{rank}" for rank in range(6)]


def test_a_run_is_saved_by_names_and_shapes(three, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy", reason="skipped: safetensors is not installed")
    run = gaia.join({"layer": [numpy.ones((2, 3, 4), numpy.float32), numpy.float32(7)]}, evaluate=len)
    run.save(tmp_path / "model.safetensors")
    saved = safetensors.load_file(tmp_path / "model.safetensors")
    assert saved["layer.0"].shape == (2, 3, 4) and saved["layer.1"] == 7


@pytest.mark.parametrize("driver", ["simulated", "emulated", "real"])
def test_the_command_line_trains_a_script_with_every_driver(tmp_path, driver):
    script, run = EXAMPLES / "least_squares.py", EXAMPLES / "regions.toml"
    settings = ["--set", "compute.examples_per_second=20000", "--set", "stop.clocks=30"]
    ended = command("train", run, "--script", script, "--driver", driver, *settings, "--out", "out", "--json", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    # What scripts print is beside the object.
    summary = json.loads(ended.stdout)
    assert summary["copies_equal"] and summary["objective"] < 5
    assert (tmp_path / "out" / "model.safetensors").is_file()
    # The run file of the directory repeats the run.
    assert str(script) in (tmp_path / "out" / "run.toml").read_text()


def test_the_command_line_compares_and_checks_a_script(tmp_path):
    script, run = EXAMPLES / "least_squares.py", EXAMPLES / "regions.toml"
    arguments = [run, "--script", script, "--set", "stop.clocks=20"]
    ended = command("compare", *arguments, "--remote", "bsp,asp,local-steps", "--out", "out", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "out" / "compare.html").is_file()
    checked = command("check", *arguments, "--json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["app"] == "external"


def test_the_command_line_plans_for_a_script(tmp_path):
    script, run = EXAMPLES / "least_squares.py", EXAMPLES / "regions.toml"
    settings = ["--set", "compute.examples_per_second=20000", "--budget", "20", "--json"]
    ended = command("plan", run, "--script", script, *settings, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    verdicts = {row["candidate"]: row["verdict"]["is"] for row in plan["rows"]}
    assert plan["rows"][0]["is_own"] and {"bsp", "rounds 10"} <= verdicts.keys(), verdicts
    assert plan["choice"]["candidate"] in verdicts and "reached" in verdicts.values()
    # The script of one simulation does not disturb the next: the plan repeats.
    again = command("plan", run, "--script", script, *settings, cwd=tmp_path)
    assert again.stdout == ended.stdout


def test_the_command_line_names_what_fails(tmp_path):
    run = EXAMPLES / "regions.toml"
    missing = command("train", run, "--script", "nothing.py", cwd=tmp_path)
    assert missing.returncode == 2 and "nothing.py, expected a Python script" in missing.stderr
    none = command("train", run, cwd=tmp_path)
    assert none.returncode == 2 and "expected --script or app.script" in none.stderr

    text = """
        import gaia, numpy
        run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 0.0)
        for _ in run(range(100)):
            if run.clock == 4 and gaia.rank() == 3:
                raise LookupError("no more data")
            run.step()
    """
    script = write(tmp_path / "fails.py", "\n".join(line[8:] for line in text.splitlines()))
    for driver in ("simulated", "real"):
        failed = command("train", run, "--script", script, "--driver", driver, cwd=tmp_path)
        assert failed.returncode == 1, failed.stderr
        assert "rank 3: LookupError: no more data (fails.py:5)" in failed.stderr, failed.stderr


def test_a_script_is_a_node_by_itself(tmp_path):
    """Processes that are started as `python train.py`, and a coordinator."""
    cluster, script = Cluster(tmp_path), EXAMPLES / "least_squares.py"
    nodes = [cluster.coordinator(script), cluster.worker(script, "east"), cluster.worker(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0, 0, 0], texts
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["copies_equal"] and summary["clocks"] >= 15
    finals = [out.split("mean square")[1].split("after")[1] for out, _ in texts[1:]]
    assert finals[0] == finals[1]

    wrong = cluster.worker(script, "north")
    _, error = wrong.communicate(timeout=60)
    assert wrong.returncode == 1 and "GAIA_DC is `north`, expected one of east, west" in error


def test_scripts_that_are_nodes_get_the_remote_model_that_their_coordinator_chooses(tmp_path):
    cluster, script = Cluster(tmp_path, remote="auto"), EXAMPLES / "least_squares.py"
    nodes = [cluster.coordinator(script), cluster.worker(script, "east"), cluster.worker(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [0, 0, 0], texts
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["copies_equal"] and summary["remote_sync_reason"].startswith("A clock takes"), summary
    assert f'{summary["remote_sync"]} was chosen by model = "auto"' in texts[0][1], texts


def test_an_exception_in_one_process_ends_all(tmp_path):
    cluster = Cluster(tmp_path, clocks=100_000)
    script = write(
        tmp_path / "fails.py",
        "import gaia, numpy, os\n"
        "run = gaia.join({'w': numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 0.0)\n"
        "for _ in run(range(10**9)):\n"
        "    if run.clock == 20 and os.environ.get('GAIA_DC') == 'west':\n"
        "        raise LookupError('no more data')\n"
        "    run.step()\n",
    )
    nodes = [cluster.coordinator(script), cluster.worker(script, "east"), cluster.worker(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [1, 1, 1], texts
    for _, error in texts[:2]:
        assert "rank 1: LookupError: no more data (fails.py:5)" in error, texts
    assert "LookupError: no more data" in texts[2][1], texts


def test_a_run_that_fails_while_a_script_waits_at_its_end_fails_that_script(tmp_path):
    cluster = Cluster(tmp_path, clocks=100_000)
    script = write(
        tmp_path / "late.py",
        "import gaia, numpy, os, time\n"
        "from pathlib import Path\n"
        "run = gaia.join({'w': numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 0.0)\n"
        "east = os.environ.get('GAIA_DC') == 'east'\n"
        "for _ in run(range(3 if east else 1000)):\n"
        "    while run.clock == 3 and not Path('at-its-end').exists():\n"
        "        time.sleep(0.01)\n"
        "    if run.clock == 3:\n"
        "        raise LookupError('no more data')\n"
        "    run.step()\n"
        "Path('at-its-end').touch()\n",
    )
    nodes = [cluster.coordinator(script), cluster.worker(script, "east"), cluster.worker(script, "west")]
    texts = said(nodes)
    assert [node.returncode for node in nodes] == [1, 1, 1], texts
    assert "LookupError: no more data" in texts[1][1], texts


def test_another_seed_in_one_data_center_is_refused(tmp_path):
    cluster = Cluster(tmp_path)
    script = write(
        tmp_path / "seeds.py",
        "import gaia, numpy, os\n"
        "first = 1.0 if os.environ.get('GAIA_DC') == 'west' else 0.0\n"
        "run = gaia.join({'a': numpy.zeros(2, numpy.float32), 'w': numpy.full(3, first, numpy.float32)}, evaluate=len)\n"
        "while not run.over:\n"
        "    run.step()\n",
    )
    east, west = cluster.coordinator(script), cluster.worker(script, "west")
    _, error = west.communicate(timeout=60)
    east.kill()
    east.communicate()
    assert west.returncode == 1 and "refused" in error and "table `w` differs in its initial values" in error, error


def test_an_interrupted_run_ends_in_order(tmp_path):
    script = write(
        tmp_path / "endless.py",
        "import gaia, numpy, time\n"
        "run = gaia.join({'w': numpy.zeros(3, numpy.float32)}, evaluate=lambda params: 1.0)\n"
        "while not run.over:\n"
        "    time.sleep(0.002)\n"
        "    run.step()\n",
    )
    command_line = [sys.executable, "-m", "gaia", "train", EXAMPLES / "regions.toml", "--script", script]
    command_line += ["--set", "stop.clocks=1000000", "--out", "out"]
    ended = subprocess.Popen(command_line, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    progress = tmp_path / "out" / "progress.jsonl"
    while not (progress.exists() and progress.stat().st_size):
        assert ended.poll() is None, ended.stderr.read()
        time.sleep(0.01)
    ended.send_signal(signal.SIGINT)
    _, error = ended.communicate(timeout=30)
    assert ended.returncode == 75, error
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["stopped_by"] == "interrupted"


def test_the_cells_of_the_notebook_run(capsys):
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    shown = capsys.readouterr().out
    assert all(remote in shown for remote in ("bsp", "local-steps", "asp")), shown
    assert all(one["objective"] < 1 for one in names["results"].values()), shown


def kinds(tree):
    """The types of the arrays in a tree."""
    return {path: (type(one), str(one.dtype)) for path, one in tree.items()}


def test_alone_arrays_keep_their_types_and_all_of_their_digits():
    x, y = (part.astype(numpy.float64) for part in data(0))
    handed_over, in_place = numpy.zeros(FEATURES), numpy.zeros(FEATURES)
    plain = numpy.zeros(FEATURES)
    handing = gaia.join({"w": handed_over}, evaluate=lambda params: 0.0)
    changing = gaia.join({"w": in_place}, evaluate=lambda params: 0.0)
    for _ in range(10):
        plain = plain - 0.1 * gradient(plain, x, y)
        handed_over = handing.step({"w": handed_over - 0.1 * gradient(handed_over, x, y)})["w"]
        changing.params["w"][...] = changing.params["w"] - 0.1 * gradient(changing.params["w"], x, y)
        changing.step()
    assert kinds(handing.params) == kinds(changing.params) == {"w": (numpy.ndarray, "float64")}
    assert (handed_over == plain).all() and (changing.params["w"] == plain).all()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("remote", ["bsp", "asp", "local-steps"])
def test_in_a_run_arrays_keep_their_types(three, remote, in_place):
    """Those of fewer bits are trained as the others are: the servers have a copy of single precision."""
    given = {"half": "float16", "single": "float32", "double": "float64"}
    expected = {name: (numpy.ndarray, dtype) for name, dtype in given.items()}
    finals = {}

    def main():
        def evaluate(params):
            assert kinds(params) == expected
            return float(numpy.square(params["single"] - 1).mean())

        run = gaia.join({name: numpy.zeros(4, dtype) for name, dtype in given.items()}, evaluate=evaluate)
        while not run.over:
            assert kinds(run.params) == expected
            if in_place:
                for one in run.params.values():
                    one += one.dtype.type(0.1) * (1 - one)
                run.step()
            else:
                changed = {name: one + one.dtype.type(0.1) * (1 - one) for name, one in run.params.items()}
                assert kinds(run.step(changed)) == expected
        assert kinds(run.params) == expected
        finals[gaia.rank()] = {name: one.copy() for name, one in run.params.items()}

    assert gaia.simulate(main, three, set={"sync.remote.model": remote, "stop.clocks": 80})["copies_equal"]
    for name in given:
        assert all((final[name] == finals[0][name]).all() for final in finals.values()), name
        assert numpy.abs(finals[0][name] - finals[0]["single"]).max() < 0.01 < finals[0]["single"].min(), finals[0]
    assert (finals[0]["double"] == finals[0]["double"].astype(numpy.float32)).all(), "what crosses is of single precision"


def test_statistics_among_arrays_are_averaged_and_not_extrapolated(three):
    """All change alike, and an outer momentum moves weights alone further."""
    finals = {}

    def main():
        tree = {"norm": {"mean": numpy.zeros(3, numpy.float32), "scale": numpy.zeros(2)}, "w": numpy.zeros(3, numpy.float32)}
        run = gaia.join(tree, evaluate=lambda params: 1.0, statistics=["norm"])
        assert run._parameters.statistics == 2
        assert [name for name, _ in run._parameters.tensors] == ["w", "norm.mean", "norm.scale"]
        while not run.over:
            for one in (run.params["w"], *run.params["norm"].values()):
                one += 1
            run.step()
        finals[gaia.rank()] = run.clock, run.params

    settings = {"sync.remote": {"model": "local-steps", "steps": 5, "overlap": 0, "outer": "nesterov", "outer_momentum": 0.5}}
    settings["stop.clocks"] = 20
    assert gaia.simulate(main, three, set=settings)["copies_equal"]
    clocks, params = finals[0]
    # The last clocks are not those of all workers.
    assert all((abs(one - clocks) <= 1).all() for one in params["norm"].values()), finals
    assert (params["w"] > clocks + 3).all(), finals


@pytest.mark.parametrize("remote", ["bsp", "asp", "local-steps"])
def test_statistics_are_averaged_where_changes_are_added(three, remote):
    """All six workers change alike: weights add up over them, and statistics do not."""
    finals = {}

    def main():
        tree = {"mean": numpy.zeros(3, numpy.float32), "w": numpy.zeros(3, numpy.float32)}
        run = gaia.join(tree, evaluate=lambda params: 1.0, average=False, statistics=["mean"])
        while not run.over:
            for one in run.params.values():
                one += 1
            run.step()
        finals[gaia.rank()] = run.clock, run.params

    settings = {"sync.remote": {"model": remote}, "stop.clocks": 20}
    if remote == "local-steps":
        settings["sync.remote"] |= {"steps": 5, "overlap": 0, "combine": "sum", "outer_learning_rate": 1.0, "values": "f32"}
    assert gaia.simulate(main, three, set=settings)["copies_equal"]
    clocks, params = finals[0]
    # The last clocks are not those of all workers.
    assert numpy.abs(params["mean"] - clocks).max() <= 2, finals
    assert (params["w"] > 5 * clocks).all(), finals


def test_the_momentum_and_the_statistics_of_arrays_are_declared(tmp_path):
    text = SHRINKING.replace('metric="distance"', 'metric="distance", momentum=0.9, statistics=["kernel"]')
    script, run = write(tmp_path / "train.py", text), EXAMPLES / "regions.toml"
    ended = command("init", run, "--script", script, "--out", "model.safetensors", "--json", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    written = json.loads(ended.stdout)
    assert (written["momentum"], written["statistics"], written["tensors"]) == (0.9, 1, 2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"statistics": "b"}, 'statistics is "b", expected a list of paths'),
        ({"statistics": ["c"]}, "statistics names c, expected paths of arrays: w, b.0"),
        ({"momentum": 1.0}, "momentum is 1.0, expected from 0 to below 1"),
        ({"momentum": 0.9, "steps_per_clock": 2}, "expected clocks of one step, or no momentum"),
    ],
)
def test_roles_of_arrays_that_are_wrong_are_named(settings, said):
    tree = {"w": numpy.zeros(3, numpy.float32), "b": [numpy.zeros(3, numpy.float32)]}
    with pytest.raises(gaia.GaiaError, match=said) as raised:
        gaia.join(tree, evaluate=len, **settings)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("change", ["replaced", "given"])
def test_changes_of_other_arrays_than_those_of_the_run_are_refused(one, alone, change):
    """A step without arrays sent nothing of them, without a word."""
    said = {
        "replaced": r"layer.w of run.params was replaced, expected it to be changed in place, or params = run.step\(params\)",
        "given": r"the script has changed the layer.w that it gave to gaia.join\(...\), which has copied it, expected that",
    }

    def main():
        given = {"b": numpy.ones(2, numpy.float32), "layer": {"w": numpy.ones((3, 2), numpy.float64).T}}
        run = gaia.join(given, evaluate=lambda params: 1.0)
        if change == "replaced":
            run.params["b"] -= 0.1
            run.params["layer"]["w"] = run.params["layer"]["w"] - 0.1
        else:
            given["layer"]["w"] -= 0.1
        run.step()

    with pytest.raises(gaia.GaiaError, match=said[change]) as raised:
        main() if alone else gaia.simulate(main, one)
    assert raised.value.exit_code == 2


def test_arrays_that_were_given_are_the_scripts_own_after_the_first_step(one):
    def main():
        given = {"w": numpy.ones(3, numpy.float32)}
        run = gaia.join(given, evaluate=lambda params: 1.0)
        # A copy of the script's own.
        given["w"] += 1
        run.params["w"] *= 2
        run.step()
        assert run._parameters._given == []
        while not run.over:
            given["w"] += 1
            assert run.step() is run.params

    gaia.simulate(main, one, set={"stop.clocks": 3})


def test_arrays_that_replace_those_of_the_run_are_taken_where_they_are_given_to_a_step(three):
    """The ones that were replaced stayed in `run.params`, where they are not changed by others."""
    finals = {}

    def main():
        run = gaia.join({"w": numpy.ones(3, numpy.float32)}, evaluate=lambda params: 1.0)
        while not run.over:
            params = run.params
            params["w"] = params["w"] * (0.9 - 0.1 * gaia.rank())
            returned = run.step(params)
            assert (run.params["w"] == returned["w"]).all()
        finals[gaia.rank()] = run.params["w"].copy()

    assert gaia.simulate(main, three, set={"stop.clocks": 5})["copies_equal"]
    assert all((final == finals[0]).all() for final in finals.values()), finals


@pytest.mark.parametrize(
    ("loops", "examples", "counted"),
    [(True, None, 2 * 32), (True, 5, 2 * 5), (False, None, 2 * 1), (False, 5, 2 * 5)],
)
def test_examples_of_a_step_are_counted_once(loops, examples, counted, monkeypatch):
    """The ones of the loop and those that a step was given were added."""
    clocks = []
    monkeypatch.setattr(gaia.ArraysRun, "_end_clock", lambda self, examples, needed: clocks.append(examples))
    run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=len, steps_per_clock=2)
    batches = [numpy.zeros((16, 3))] * 8
    for at, _ in enumerate(run(batches) if loops else batches):
        # Two batches to a step.
        if at % 2:
            run.step(examples=examples)
    assert clocks == [counted] * 2


def test_two_arrays_of_one_path_are_refused():
    zeros = numpy.zeros(3, numpy.float32)
    with pytest.raises(gaia.GaiaError, match="2 arrays are called a.b, expected a path of its own for each") as raised:
        gaia.join({"a.b": zeros, "a": {"b": zeros}}, evaluate=len)
    assert raised.value.exit_code == 2


def test_a_leaf_that_is_no_array_is_named_by_its_type():
    with pytest.raises(gaia.GaiaError, match="a.0 is of type NoneType, expected an array of floating-point numbers, or dicts") as raised:
        gaia.join({"a": [None]}, evaluate=len)
    assert raised.value.exit_code == 2


def test_no_statistics_may_be_said_as_none():
    run = gaia.join({"w": numpy.zeros(3, numpy.float32)}, evaluate=len, statistics=None)
    assert run._parameters.statistics == 0


def test_arrays_of_jax_come_back_as_such(three):
    jax = pytest.importorskip("jax", reason="skipped: jax is not installed")
    tree = {"w": jax.numpy.zeros(3), "half": jax.numpy.zeros(3, jax.numpy.bfloat16), "b": numpy.zeros(3)}

    def are_alike(given):
        types = {name: str(one.dtype) for name, one in given.items()}
        assert types == {"w": "float32", "half": "bfloat16", "b": "float64"}
        assert [isinstance(one, jax.Array) for one in given.values()] == [True, True, False]
        assert all(given[name].devices() == tree[name].devices() for name in ("w", "half"))
        assert [given[name].committed for name in ("w", "half")] == [False, False]
        return float(given["w"].sum())

    finals = {}

    # Scripts of JAX give the memory of the arrays before a step to those after it.
    half_way = jax.jit(lambda params: jax.tree.map(lambda one: one + (1 - one) / 2, params), donate_argnums=0)

    def train(run):
        params = run.params
        while not run.over and run.clock < 20:
            are_alike(params)
            changed = half_way({name: params[name] for name in ("w", "half")})
            params = run.step({**changed, "b": params["b"] + (1 - params["b"]) / 2})
        run.end()
        are_alike(run.params)
        return {name: numpy.asarray(one, numpy.float64) for name, one in run.params.items()}

    def copies():
        return {name: one.copy() for name, one in tree.items()}

    def main():
        finals[gaia.rank()] = train(gaia.join(copies(), evaluate=are_alike))

    assert gaia.simulate(main, three)["copies_equal"]
    finals["alone"] = train(gaia.join(copies(), evaluate=are_alike))
    assert all(numpy.abs(one - 1).max() < 0.01 for final in finals.values() for one in final.values()), finals

    run = gaia.join(copies(), evaluate=are_alike)
    with pytest.raises(gaia.GaiaError, match=r"w is an array of JAX, .*expected run.step\(params\)"):
        run.step()


def test_arrays_of_jax_stay_committed_to_their_devices():
    jax = pytest.importorskip("jax", reason="skipped: jax is not installed")
    committed = jax.device_put(jax.numpy.zeros(3), jax.devices()[0])
    arrays = gaia.join({"w": committed, "free": jax.numpy.zeros(3)}, evaluate=len)._parameters
    arrays.load(False)
    assert (arrays.tree["w"].committed, arrays.tree["free"].committed) == (True, False)


def test_arrays_of_jax_that_were_donated_are_named(tmp_path):
    jax = pytest.importorskip("jax", reason="skipped: jax is not installed")
    update = jax.jit(lambda params: jax.tree.map(lambda one: one + 1, params), donate_argnums=0)
    run = gaia.join({"layer": {"w": jax.numpy.zeros(3)}}, evaluate=len, steps_per_clock=2)
    params = run.step(update(run.params))
    changed = update(params)
    with pytest.raises(gaia.GaiaError, match=r"run.step was given layer.w, which was donated, expected the array after"):
        run.step(params)
    with pytest.raises(gaia.GaiaError, match=r"layer.w was donated after run.step, expected run.step\(arrays\) with") as raised:
        run.save(tmp_path / "model.safetensors")
    assert raised.value.exit_code == 2
    # The arrays after the update make up for them.
    assert (run.step(changed)["layer"]["w"] == 2).all() and run.clock == 1
    run.save(tmp_path / "model.safetensors")


def test_jax_trains_over_three_regions(tmp_path):
    pytest.importorskip("jax", reason="skipped: jax is not installed")
    arguments = ["--script", EXAMPLES / "jax_regression.py", "--set", "stop.clocks=60", "--out", "out", "--json"]
    ended = command("train", EXAMPLES / "regions.toml", *arguments, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["metric"]["value"] > 0.9


def _no_script_is_left():
    scripts = [thread.name for thread in threading.enumerate() if thread.name.startswith("gaia-script")]
    assert scripts == []
