"""The programs in `bench/` run, and count what they say."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PYTHON, environment

pytest.importorskip("torch", reason="skipped: torch is not installed")

BENCH = PYTHON / "bench"


def bench(program, *arguments):
    """Runs a program of the folder, and returns its lines of JSON."""
    command = [sys.executable, BENCH / program, *map(str, arguments), "--json"]
    ended = subprocess.run(command, env=environment(PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


@pytest.fixture
def evaluations(bench_module):
    return bench_module("evaluations")


def test_the_cost_of_a_synchronisation_is_measured_over_two_processes():
    lines = bench("sync.py", "--parameters", "2e4", "--systems", "bsp", "--runs", 1, "--steps", 16)
    found = {line["name"]: line for line in lines}
    time, memory = found["sync/bsp/0.02M"], found["memory/bsp/0.02M"]
    assert time["value"] > 0 and time["unit"] == "ms"
    assert time["reference"] == "a pass" and memory["reference"] == "a copy of the parameters"
    # How many times as good it is as the reference.
    assert time["ratio"] * time["value"] == pytest.approx(time["reference_value"])
    assert (time["bench"], time["runs"], time["range"]) == ("sync", 1, [time["value"]] * 2)
    # At the least the process has a copy of the parameters, and one of what it has sent.
    assert memory["value"] > 8


def test_what_steps_between_two_synchronisations_cost_is_measured():
    lines = bench("sync.py", "--parameters", "2e4", "--systems", "bsp-16", "--runs", 1, "--steps", 32, "--warm-up", 16)
    found = {line["name"]: line for line in lines}
    between, wall = found["between/bsp-16/0.02M"], found["wall/bsp-16/0.02M"]
    # The reference is the step of the plain script. Both are far shorter than a synchronisation.
    assert 0 < between["reference_value"] + between["value"] < 16 * wall["value"]
    assert not any(name.startswith(("between/bsp/", "device/")) for name in found)


def test_steps_that_end_within_a_round_are_refused():
    command = [sys.executable, BENCH / "sync.py", "--systems", "bsp,local-steps", "--warm-up", "4", "--steps", "8"]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2 and "local-steps synchronises every 16 steps, expected multiples" in ended.stderr, ended.stderr


def test_copies_are_measured_beside_plain_ones():
    lines = bench("copies.py", "--device", "cpu", "--parameters", "2e4", "--types", "float32,bfloat16", "--repeats", 3)
    assert [line["name"] for line in lines] == [
        f"copies/{way}/0.02M/{dtype}" for dtype in ("float32", "bfloat16") for way in ("out", "in")
    ]
    assert all(line["value"] > 0 and line["reference"] > 0 and line["device_bytes_per_parameter"] == 0 for line in lines)


def test_a_push_and_a_pull_are_measured_beside_a_stream():
    lines = bench("push_pull.py", "--megabytes", "0.4", "--runs", 1)
    assert [line["name"] for line in lines] == ["push and pull of 0.4 MB, TLS", "push and pull of 0.4 MB, no TLS"]
    for line in lines:
        # Of rates more is better.
        assert 0 < line["ratio"] and line["ratio"] * line["reference_value"] == pytest.approx(line["value"]), line
        assert (line["bench"], line["reference"], line["runs"]) == ("push_pull", "a TCP stream", 1)


def test_a_folder_that_is_no_checkout_of_ps_lite_is_refused(tmp_path):
    command = [sys.executable, BENCH / "push_pull.py", "--ps-lite", tmp_path]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and ended.stderr.startswith("error: "), ended.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="skipped: processes are found in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_measurement_that_is_killed_leaves_no_process_behind(number):
    command = [sys.executable, BENCH / "sync.py", "--parameters", "2e4", "--systems", "bsp", "--steps", "100000000"]
    variables = environment(PYTHONDONTWRITEBYTECODE="1")
    with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
            nodes = until(lambda: found if len(found := children.read_text().split()) == 2 else None)
            running.send_signal(number)
            assert running.wait(120) != 0
            until(lambda: not any(is_alive(node) for node in nodes))
        finally:
            running.kill()


#: A process as torchrun is one: what it starts has a session of its own.
STARTS_A_SESSION = """
import subprocess, sys, time
started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(started.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="skipped: processes are found in /proc")
def test_processes_in_sessions_of_their_own_end_with_those_that_have_started_them(bench_module, tmp_path):
    with bench_module("running").Processes(tmp_path) as processes:
        processes.start("agent", [sys.executable, "-c", STARTS_A_SESSION])
        worker = until(lambda: (tmp_path / "agent.log").read_text().strip())
        assert is_alive(worker)
    until(lambda: not is_alive(worker))


def is_alive(process):
    """Whether a process runs, and is not one whose end nobody has taken note of."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(found, seconds=120):
    """What is found, once there is something."""
    end = time.monotonic() + seconds
    while not (it := found()):
        assert time.monotonic() < end, f"nothing in {seconds} s"
        time.sleep(0.05)
    return it


def test_the_digits_change_at_most_five_lines_for_gaia_and_fewer_than_for_peers():
    rows = {row["system"]: row for row in bench("lines.py")}
    gaia = rows.pop("Gaia, in regions")
    assert gaia["added"] <= 5 and gaia["removed"] <= 1
    assert all(row["added"] > gaia["added"] for name, row in rows.items() if not name.startswith("Gaia"))


@pytest.mark.parametrize(
    ("higher_is_better", "target", "metrics", "reached"),
    [
        # One good evaluation is not enough.
        (True, 0.9, (0.5, 0.99, 0.5), None),
        (True, 0.9, (0.88, 0.89, 0.92, 0.93), 4),
        # A loss has to fall.
        (False, 1.2, (2.0, 1.3, 1.2, 1.1), 4),
        (True, 0.9, (0.95, 0.95), None),
    ],
)
def test_a_target_is_reached_by_the_mean_of_three_evaluations(evaluations, higher_is_better, target, metrics, reached):
    judged = [evaluations.Reached(False, 16 * at, float(at), 2.0 * at, metric) for at, metric in enumerate(metrics, start=1)]
    found = evaluations.crossing(judged, target, higher_is_better)
    assert found.is_there == (reached is not None)
    assert found.seconds == (reached or len(metrics))


def test_a_target_that_is_missed_has_the_mean_that_has_missed_it(evaluations):
    metrics = (0.95, 0.95, 0.98)
    judged = [evaluations.Reached(False, 16 * at, float(at), 2.0 * at, metric) for at, metric in enumerate(metrics, start=1)]
    found = evaluations.crossing(judged, 0.97, True)
    # The last evaluation alone is beyond the target.
    assert (found.is_there, found.step, found.metric) == (False, 48, pytest.approx(0.96))
    assert evaluations.crossing(judged[:2], 0.97, True).metric == pytest.approx(0.95)
    assert evaluations.crossing([], 0.97, True).metric == 0.0


def test_a_result_of_regions_is_judged_where_all_have_judged_it(evaluations, tmp_path):
    names = ["a", "b"]
    for name, seconds, steps in (("a", 100.0, (16, 32)), ("b", 101.0, (16,))):
        first = {"time": seconds, "sent_bytes": 0, "step": 0}
        judged = [
            {"time": seconds + step, "sent_bytes": 1e6 * step, "step": step, "metric": 0.5 if name == "a" else 0.8, "examples": 300}
            for step in steps
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [first, *judged]) + '{"time": 1')
    (only,) = evaluations.evaluated(tmp_path, names)
    assert (only.step, only.seconds, only.sent_mb) == (16, 17.0, 16.0)
    assert only.metric == pytest.approx(0.65)
