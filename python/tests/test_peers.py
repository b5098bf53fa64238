"""What `bench/regions.py` makes of its runs: shares of labels, lines of results, the best rates of learning, and a page."""

import re
import xml.etree.ElementTree as xml

import pytest

torch = pytest.importorskip("torch", reason="skipped: torch is not installed")


def test_the_processes_of_regions_count_one_by_one_and_share_a_batch(bench_module):
    place = bench_module("tasks").Place
    assert [place.of(rank, 2, 1) for rank in range(2)] == [place(0, 2), place(1, 2)]
    four = [place.of(rank, 2, 2) for rank in range(4)]
    assert [(one.region, one.process, one.rank) for one in four] == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]
    assert [one.share(256) for one in (place(0, 2), four[3])] == [128, 64]


@pytest.mark.parametrize(("regions", "sizes"), [(2, [5, 5]), (3, [4, 3, 3]), (4, [3, 3, 2, 2])])
def test_labels_are_shared_out_in_nearly_equal_ranges(bench_module, regions, sizes):
    shares = bench_module("tasks").shares(10, regions)
    assert [len(share) for share in shares] == sizes
    assert [label for share in shares for label in share] == list(range(10))


@pytest.mark.parametrize("regions", [2, 3, 4])
def test_every_held_out_image_is_judged_by_one_region(bench_module, regions):
    tasks = bench_module("tasks")
    judged = [at for rank in range(regions) for at in range(10_000)[tasks.held_out_part(rank, regions)]]
    assert sorted(judged) == list(range(tasks.JUDGED))


def test_digits_that_are_written_are_those_that_are_read(bench_module, monkeypatch, tmp_path):
    tasks = bench_module("tasks")
    values = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 4)
    (tmp_path / "mnist").mkdir()
    tasks.write_idx(tmp_path / "mnist" / "some", values)
    monkeypatch.setenv("GAIA_DATA_DIR", str(tmp_path))
    assert torch.equal(tasks.idx("some"), values)


def test_both_targets_are_found_in_one_run(bench_module):
    evaluations = bench_module("evaluations")
    judged = [evaluations.Reached(False, 16 * at, float(at), 2.0 * at, 0.9 + at / 100) for at in range(1, 8)]
    first, last = evaluations.crossings(judged, (0.95, 0.97), True)
    # Of the metrics 0.91 to 0.97 the mean of three is that of the one before.
    assert (first.is_there, first.seconds) == (True, 6.0)
    assert (last.is_there, last.seconds) == (False, 7.0)


def test_copies_are_judged_after_they_have_met(bench_module):
    systems = bench_module("systems")
    assert all(one.evaluate_every >= systems.EVERY for one in systems.SYSTEMS.values())
    assert all(one.evaluate_every % one.sync_every == 0 for one in systems.SYSTEMS.values())


def line(system="ddp", seconds=(10.0, 20.0), **fields):
    """A line of results that has reached each target after these seconds. `None`: it has not."""
    targets = [
        {
            "target": target,
            "is_there": after is not None,
            "step": 160,
            "seconds": after if after is not None else 240.0,
            "sent_mb": after if after is not None else 480.0,
            "metric": target if after is not None else 0.5,
        }
        for target, after in zip((0.95, 0.97), seconds, strict=True)
    ]
    cell = {"task": "digits", "regions": 2, "rate": "50mbit", "rtt_ms": 60.0, "slow": 1.0, "processes": 1}
    run = {"system": system, "learning_rate": 0.02, "seed": 1, "seconds_max": 240.0, "date": "2026-11-26T10:00:00+00:00"}
    machine = {"cores": 2, "load": 0.5, "processor": "a processor", "congestion_control": "bbr"}
    return {**cell, **run, **machine, "ping_ms": [60.1, 60.2, 60.9], "targets": targets, **fields}


def test_a_run_that_is_in_the_file_is_not_repeated(bench_module, tmp_path):
    results = bench_module("results")
    path = tmp_path / "peers.jsonl"
    results.Results(path).add(line())
    results.Results(path).add(line("alone", (None, None)))
    # A measurement was killed while it wrote.
    path.write_text(path.read_text() + '{"task": "dig')
    again = results.Results(path)
    assert again.has(line()) and not again.has(line(seed=2)) and not again.has(line(rtt_ms=0.0))
    # What has missed its target may take longer.
    assert again.has(line("alone")) and not again.has(line("alone", seconds_max=300.0))
    again.add(line(seed=2))
    assert [one["seed"] for one in results.Results(path).lines] == [1, 1, 2]


def test_lines_from_before_there_was_a_choice_are_of_what_was_measured_then(bench_module, tmp_path):
    results = bench_module("results")
    path, earlier = tmp_path / "peers.jsonl", line()
    del earlier["slow"], earlier["processes"]
    results.Results(path).add(earlier)
    again = results.Results(path)
    assert again.has(line()) and not again.has(line(slow=2.0)) and not again.has(line(processes=2))


@pytest.mark.parametrize(
    ("by_rate", "best"),
    [
        ({0.01: [(30.0, 60.0)], 0.02: [(20.0, 60.0)]}, 0.02),
        # A rate that reaches the target in more runs comes before a faster one.
        ({0.01: [(30.0, 60.0), (30.0, 60.0)], 0.02: [(20.0, 60.0), (None, None)]}, 0.01),
    ],
)
def test_each_system_is_shown_at_its_best_rate(bench_module, by_rate, best):
    results = bench_module("results")
    lines = [
        line(seconds=seconds, learning_rate=rate, seed=seed)
        for rate, runs in by_rate.items()
        for seed, seconds in enumerate(runs)
    ]
    (row,) = results.rows_of(lines, higher_is_better=True)
    assert row.learning_rate == best


def test_rates_that_all_miss_are_told_apart_by_how_far_they_come(bench_module):
    results = bench_module("results")
    lines = [line(seconds=(None, None), learning_rate=rate) for rate in (0.01, 0.02)]
    for end in lines[1]["targets"]:
        end["metric"] = 0.6
    (row,) = results.rows_of(lines, higher_is_better=True)
    assert row.learning_rate == 0.02


def test_systems_that_miss_the_target_come_last_and_by_how_far_they_come(bench_module):
    results = bench_module("results")
    lines = [line("alone", (None, None)), line("bsp", (None, None)), line("ddp"), line("auto", (5.0, None))]
    for end in lines[1]["targets"]:
        end["metric"] = 0.6
    rows = results.from_first_to_last(results.rows_of(lines, True), True)
    assert [row.system for row in rows] == ["auto", "ddp", "bsp", "alone"]


def test_the_page_has_a_table_and_a_picture_for_each_cell_and_keeps_its_text(bench_module, tmp_path):
    page = tmp_path / "docs" / "src" / "peers.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Title\n<!-- machine -->\n<!-- end -->\nby people\n<!-- cells -->\nold\n<!-- end -->\nthe end\n")
    lines = [line("auto", (10.0, 30.0)), line("ddp", (25.0, None)), line("alone", (None, None)), line("auto", rtt_ms=0.0)]
    lines += [line("auto", slow=2.0), line("auto", processes=2)]
    lines[0]["remote"] = {"model": "local-steps", "steps": 4, "overlap": 1, "grace": "0 ns"}
    peers_page = bench_module("peers_page")
    peers_page.write(page, lines)
    text = page.read_text()
    assert "by people" in text and text.endswith("the end\n") and "\nold\n" not in text
    assert re.findall("### (.*)", text) == [
        "Digits: 2 data centers, 50 Mbit/s, round trip 0 ms",
        "Digits: 2 data centers, 50 Mbit/s, round trip 60 ms",
        "Digits: 2 data centers of 2 processes, 50 Mbit/s, round trip 60 ms",
        "Digits: 2 data centers, one 2 times as slow, 50 Mbit/s, round trip 60 ms",
    ]
    assert "To accuracy 0.95, first: Gaia, `auto`, 10.0 s; the best peer, PyTorch DDP, takes 2.50 times as long" in text
    assert "To accuracy 0.97, first: Gaia, `auto`, 30.0 s; no peer has reached it" in text
    assert "- Gaia, `auto` chose `local-steps`, `steps = 4`, `overlap = 1` (1 of 1).\n" in text
    assert "| PyTorch DDP | 1 of 1 | 25.0 | 160 | 25.0 | never, 0.500 | in 240 | 160 | 480 |" in text
    for name in re.findall(r"\]\(\.\./(.*\.svg)\)", text):
        picture = xml.parse(page.parent.parent / name).getroot()
        assert "Gaia, auto" in [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    peers_page.write(page, lines)
    assert page.read_text() == text


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"auto": [0.1], "ddp": [0.1]}, "Learning rate 0.1."),
        ({"auto": [0.2, 0.1], "ddp": [0.1, 0.2]}, "Each system at its best learning rate of 0.1, 0.2."),
        (
            {"auto": [0.1], "ddp": [0.1, 0.2], "powersgd-2": [0.2, 0.1]},
            "Each system at its best learning rate: of 0.1 for Gaia, `auto`; of 0.1, 0.2 for PyTorch DDP and DDP, PowerSGD rank 2.",
        ),
        # One rate each, and no choice between them.
        ({"auto": [0.1], "ddp": [0.2]}, "Each system at its best learning rate: of 0.1 for Gaia, `auto`; of 0.2 for PyTorch DDP."),
    ],
)
def test_a_cell_says_which_rates_were_tried_for_which_system(bench_module, rates, said):
    lines = [line(system, learning_rate=rate) for system, tried in rates.items() for rate in tried]
    assert bench_module("peers_page").learning(lines) == said


@pytest.mark.parametrize("gathers", [False, True])
def test_factors_of_full_rank_send_a_gradient_as_it_is(bench_module, monkeypatch, gathers):
    power_sgd = bench_module("power_sgd")
    alone(power_sgd.distributed, monkeypatch)
    parameter, draws = torch.nn.Parameter(torch.zeros(8, 6)), torch.Generator().manual_seed(1)
    # Of rank 2, so that two columns say all of it.
    gradient = torch.randn(8, 2, generator=draws) @ torch.randn(2, 6, generator=draws)
    bucket = Bucket([parameter], [gradient.clone()])
    power_sgd.PowerSgd(2, seed=1, gathers=gathers).hook(None, bucket).wait()
    torch.testing.assert_close(bucket.gradients()[0], gradient, rtol=1e-4, atol=1e-5)


def test_what_factors_leave_out_is_sent_later(bench_module, monkeypatch):
    power_sgd = bench_module("power_sgd")
    alone(power_sgd.distributed, monkeypatch)
    parameter, draws = torch.nn.Parameter(torch.zeros(8, 6)), torch.Generator().manual_seed(1)
    hook, sent, gradient = power_sgd.PowerSgd(1, seed=1).hook, torch.zeros(8, 6), torch.randn(8, 6, generator=draws)
    for _ in range(400):
        bucket = Bucket([parameter], [gradient.clone()])
        hook(None, bucket).wait()
        sent += bucket.gradients()[0]
    # What is missing in the end is what the last step has left out, whatever the number of steps.
    torch.testing.assert_close(sent / 400, gradient, rtol=0.0, atol=0.1)


def alone(distributed, monkeypatch):
    """Has a process be the only one of its group."""
    monkeypatch.setattr(distributed, "all_reduce", lambda _: None)
    monkeypatch.setattr(distributed, "all_gather", lambda parts, own: parts[0].copy_(own))
    monkeypatch.setattr(distributed, "get_world_size", lambda: 1)


class Bucket:
    """A bucket of DDP."""

    def __init__(self, parameters, gradients):
        self.parameters, self.gradients = lambda: parameters, lambda: gradients
        self.buffer = lambda: gradients[0]
