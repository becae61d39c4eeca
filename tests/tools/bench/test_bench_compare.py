"""compare: verdicts on synthetic results, what it refuses, and baselines.

When this fails, a regression is missed, or an alarm is false.
"""

from __future__ import annotations

import copy
import json
import sys

import numpy as np
import pytest
from _bench.commands import baseline
from _bench.machine import env
from _bench.rows import compare, results
from _console.problems import NotComparable
from uris import OF_TOOLS

pytestmark = pytest.mark.devices(*OF_TOOLS)


def row(samples, kernel="saxpy_f32", mode="hot", verified=True, name="CPU A", axes=None):
    return {
        "kernel": kernel,
        "device": "cpu",
        "device_name": name,
        "emulated": False,
        "axes": axes or {"n": 16},
        "mode": mode,
        "verified": verified,
        "error": {},
        "samples_ns": list(map(float, samples)),
    }


def document(*rows):
    return {"schema": 1, "env": {}, "results": list(rows)}


def times(median, spread=1.0, n=100, seed=0):
    return median + np.random.default_rng(seed).gamma(2, spread, n)


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (times(100, seed=1), "SAME"),
        (times(102, seed=1), "SAME"),  # a difference, but within the threshold
        (times(120, seed=1), "SLOW"),
        (times(80, seed=1), "FAST"),
        (np.random.default_rng(1).normal(102, 20, 30), "AMBIGUOUS"),
        (times(103.5, spread=3, n=8, seed=1), "AMBIGUOUS"),  # the interval straddles the threshold
    ],
)
def test_verdicts(new, verdict):
    (pair,) = compare.compare(document(row(times(100))), document(row(new)))
    assert pair.verdict == verdict
    assert pair.is_regression == (verdict == "SLOW")
    low, high = pair.interval
    assert low <= pair.shift <= high


@pytest.mark.parametrize(
    ("ns", "others", "verdict"),
    [
        (150e3, 60, "AMBIGUOUS"),  # 15 % of 150 us are less than a thread may be late
        (600e3, 60, "SLOW"),
        (150e3, 10, "SLOW"),
        (150e3, None, "SLOW"),  # a system that does not report it
    ],
)
def test_threads_start_late_beside_other_work(ns, others, verdict):
    old, new = (row(times(ns * factor, spread=ns / 1e3)) for factor in (1, 1.15))
    new["noise"] = {"noise_percent": 1.0, "others_percent": others}
    (pair,) = compare.compare(document(old), document(new))
    assert pair.verdict == verdict


def test_same_data_is_never_a_regression():
    """Two draws of one distribution: over 200 comparisons not one is called SLOW or FAST."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        old, new = (100 + rng.gamma(2, 2, 40) for _ in range(2))
        (pair,) = compare.compare(document(row(old)), document(row(new)))
        assert pair.verdict in ("SAME", "AMBIGUOUS")


def bursts(rng, n):
    """What a machine with neighbours takes longer by: stretches of 5 to 40 samples undisturbed or
    with fewer cores, and a scheduler's slice now and then."""
    speeds = rng.choice([1.0, 1.6, 2.0], n // 5, p=[0.4, 0.3, 0.3])
    slow = np.repeat(speeds, rng.integers(5, 40, n // 5))
    return slow[:n] * rng.choice([1.0, 4.0], n, p=[0.8, 0.2])


def on_a_busy_machine(rng, time_ns, n=400, speed=1.0, probes=True):
    """A row and a probe in rounds: the machine's bursts meet both, its slices either."""
    machine = speed * bursts(rng, n)
    own = (machine * rng.choice([1.0, 1.5], n, p=[0.9, 0.1]) * rng.normal(1, 0.02, n) for _ in "ab")
    mine, others = (list(map(float, factor)) for factor in own)
    made = row([time_ns * factor for factor in mine])
    return {**made, "probes": {"peak_fma_f32": [1e2 / f for f in others]}} if probes else made


def verdicts(planted=1.0, number=100, **how):
    rng = np.random.default_rng(11)
    found = []
    for _ in range(number):
        old = document(on_a_busy_machine(rng, 1e6, **how))
        new = document(on_a_busy_machine(rng, 1e6 * planted, **how))
        (pair,) = compare.compare(old, new)
        found.append(pair.verdict)
    return found


def test_a_busy_machine_is_no_regression():
    """Samples of one process follow each other: taken for independent, they make every second
    comparison of a kernel with itself significant."""
    assert verdicts().count("SLOW") <= 1


def test_a_regression_is_found_on_a_busy_machine():
    assert verdicts(planted=1.15, number=20).count("SLOW") >= 19


def test_the_machine_is_told_from_the_row(bench, files, capsys):
    """All rows take four times as long, and so does the reference; one is slower by itself."""
    rng = np.random.default_rng(3)
    kernels = ("copy_f32", "saxpy_f32", "gemm_f32")
    old = document(*({**on_a_busy_machine(rng, 1e6), "kernel": kernel} for kernel in kernels))
    new = document(
        *(
            {**on_a_busy_machine(rng, 1.4e6 if k == "gemm_f32" else 1e6, speed=4.0), "kernel": k}
            for k in kernels
        )
    )
    assert bench("compare", files("old", old), files("new", new)) == 3
    *_, machine, counts = capsys.readouterr().out.splitlines()
    assert machine.startswith("the machine was slower: the references' times moved by +")
    assert "1 SLOW" in counts
    (pair,) = (pair for pair in compare.compare(old, new) if pair.is_regression)
    assert pair.name[0] == "gemm_f32"
    assert pair.machine > 1
    assert pair.shift == pytest.approx(0.4, abs=0.1)


def test_files_without_a_common_reference_are_compared_by_times(bench, files, capsys):
    """Older files have none; a row is then told to be alone."""
    new = document({**row(times(100, seed=1)), "probes": {"copy_f32": [1.0] * 100}})
    for old in (document(row(times(100))), document({**row(times(100)), "probes": {}})):
        assert bench("compare", files("old", old), files("new", new)) == 0
        out = capsys.readouterr().out
        assert "1 rows have no reference in both files" in out
        assert "1 SAME" in out


@pytest.mark.parametrize("probes", [[1.0], {"k": [1.0]}, {"k": [0.0] * 100}, {"k": "fast"}])
def test_probes_that_are_no_rates_of_the_samples(bench, files, capsys, probes):
    good, bad = document(row(times(100))), document({**row(times(100)), "probes": probes})
    assert bench("compare", files("good", good), files("bad", bad)) == 2
    assert "expected positive rates in 'probes', one per sample" in capsys.readouterr().err


@pytest.mark.parametrize("noise", [5, "x", {"others_percent": "y"}, {"others_percent": [1]}])
def test_noise_that_is_no_number(bench, files, capsys, noise):
    good, bad = document(row(times(100))), document({**row(times(100)), "noise": noise})
    assert bench("compare", files("good", good), files("bad", bad)) == 2
    assert "expected a number or null as noise.others_percent" in capsys.readouterr().err


@pytest.mark.parametrize("noise", [None, {}, {"noise_percent": 1.0}])
def test_rows_without_the_share_of_other_processes(noise):
    old, new = document(row(times(100))), document({**row(times(100)), "noise": noise})
    assert compare.compare(old, new)[0].verdict == "SAME"


def test_threshold():
    old, new = document(row(times(100))), document(row(times(108, seed=1)))
    assert compare.compare(old, new, threshold=0.05)[0].verdict == "SLOW"
    assert compare.compare(old, new, threshold=0.2)[0].verdict == "SAME"


def test_rows_are_matched_by_kernel_device_axes_and_mode():
    old = document(row(times(100)), row(times(200), mode="cold"), row(times(300), axes={"n": 32}))
    new = document(
        row(times(200), mode="cold"), row(times(100)), row(times(900), kernel="gemm_f32")
    )
    verdicts = {(p.name[0], p.name[2], p.name[3]): p.verdict for p in compare.compare(old, new)}
    assert verdicts == {
        ("saxpy_f32", '{"n": 16}', "hot"): "SAME",
        ("saxpy_f32", '{"n": 16}', "cold"): "SAME",
        ("saxpy_f32", '{"n": 32}', "hot"): "only in old",
        ("gemm_f32", '{"n": 16}', "hot"): "only in new",
    }


def test_unverified_rows_are_not_compared():
    good, bad = row(times(100)), row([], verified=False)
    assert compare.compare(document(good), document(bad))[0].is_broken
    assert compare.compare(document(bad), document(good))[0].verdict == "no time"
    timed = row(times(100), verified=False)
    assert compare.compare(document(timed), document(timed))[0].verdict == "unverified"


def test_different_devices_are_refused():
    old, new = document(row(times(100))), document(row(times(100), name="CPU B"))
    with pytest.raises(NotComparable, match="cpu is 'CPU A' in the old file and 'CPU B'"):
        compare.compare(old, new)
    assert compare.compare(old, new, force=True)[0].verdict == "SAME"


def elsewhere(old):
    """The same document as of another device: "cuda:0"."""
    other = copy.deepcopy(old)
    for entry in other["results"]:
        entry |= {"device": "cuda:0", "device_name": "other"}
    return other


def test_what_else_is_of_another_device():
    old = document(row(times(100)), row(times(100), mode="cold"))
    mixed = copy.deepcopy(old)
    mixed["results"][0]["device_name"] = "CPU B"  # one row only: the others do not excuse it
    host = {**old, "env": {"cpu": "Host B"}}
    for before, after, said in (
        (old, elsewhere(old), "cpu in the old file and cuda:0 in the new file"),
        (old, mixed, "cpu is 'CPU A' in the old file and 'CPU A' or 'CPU B' in the new one"),
        (mixed, mixed, "'CPU A' or 'CPU B'"),
        ({**old, "env": {"cpu": "Host A"}}, host, "on 'Host A' in the old file and on 'Host B'"),
        (
            {**old, "env": {"cpu": "EPYC", "cpu_model": "25-17"}},
            {**old, "env": {"cpu": "EPYC", "cpu_model": "26-2"}},
            "on model '25-17' in the old file and on model '26-2'",
        ),
    ):
        with pytest.raises(NotComparable, match=said):
            compare.compare(before, after)
    assert len(compare.compare({**old, "env": {"cpu": "Host A"}}, host, force=True)) == 2
    assert len(compare.compare(old, mixed, force=True)) == 2


def test_nothing_in_common_is_no_success():
    old = document(row(times(100)))
    for new, said in (
        (document(row(times(100), kernel="gemm_f32")), "1 such as gemm_f32 cpu hot in the new"),
        (document(), "no rows in the new file"),
    ):
        for force in (False, True):
            with pytest.raises(NotComparable, match=said):
                compare.compare(old, new, force=force)
    with pytest.raises(NotComparable, match="no rows in the old file"):
        compare.compare(document(), old)
    with pytest.raises(NotComparable, match="no row"):
        compare.compare(old, elsewhere(old), force=True)


@pytest.fixture
def files(tmp_path):
    """files(name, document) -> its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


@pytest.mark.parametrize(
    ("new", "code", "said"),
    [(100, 0, "SAME"), (80, 0, "FAST"), (130, 3, "SLOW"), (None, 1, "BROKEN")],
)
def test_exit_codes(bench, files, capsys, new, code, said):
    after = row([], verified=False) if new is None else row(times(new, seed=1))
    old, new = files("old.json", document(row(times(100)))), files("new.json", document(after))
    assert bench("compare", old, new) == code
    out = capsys.readouterr().out
    assert out.startswith("# old: no date\n# new: no date\n")
    assert said in out.splitlines()[4]
    assert f"1 {said}" in out.splitlines()[-1]


def test_files_that_cannot_be_compared(bench, files, capsys):
    good = files("good.json", document(row(times(100))))
    bad_row = document(row(times(100)))
    del bad_row["results"][0]["axes"]
    negative = document(row([-1.0]))
    for path, said in (
        (files("a", "{"), "is not JSON"),
        (files("b", "[1]"), "expected a results file"),
        (files("c", {"schema": 2, "results": []}), "expected schema 1, got 2"),
        (files("d", bad_row), "results[0]: expected 'axes' with the type that the schema"),
        (files("e", negative), "positive"),
        (good.with_name("missing"), "No such file"),
        (good.parent, "Is a directory"),
    ):
        assert bench("compare", good, path) == 2
        err = capsys.readouterr().err
        assert said in err
        assert len(err.splitlines()) == 1
    assert bench("compare", good) == 2
    assert bench("compare", good, good, "--baseline", good.parent) == 2
    other = files("other.json", document(row(times(100), name="CPU B")))
    empty = files("empty.json", document())
    capsys.readouterr()
    for words, said in (((good, other), "--force"), ((good, empty, "--force"), "no rows")):
        assert bench("compare", *words) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert line.startswith("bench.py: compare: ")
        assert said in line
    assert bench("compare", good, other, "--force") == 0


def nodes(value, path=()):
    yield path
    entries = enumerate(value) if isinstance(value, list) else getattr(value, "items", list)()
    for key, entry in entries:
        yield from nodes(entry, (*path, key))


def replaced(value, path, by):
    if not path:
        return by
    copied = copy.copy(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], by)
    return copied


def test_any_value_of_another_type_ends_in_one_line(bench, files, capsys):
    """Each value of a file in turn becomes one of each type of JSON, and an extreme number."""
    noise = {"noise_percent": 1.0, "others_percent": 30.0}
    timed = row([9.0, 9.5]) | {"probes": {"copy_f32": [1.0, 2.0]}, "noise": noise, "label": "n"}
    env = {"cpu": "A", "cpu_model": "m", "commit": "c", "load_1min": 0.5, "date": "d"}
    good = document(timed) | {"env": env}
    old = files("old", good)
    for path in nodes(good):
        for by in ([], [[1]], {}, {"a": []}, "x", -1, 10**400, 1e308, 5e-324, None, True):
            code = bench("compare", old, files("new", replaced(good, path, by)), "--force")
            err = capsys.readouterr().err
            assert code in (0, 1, 2, 3), (path, by)
            assert len(err.splitlines()) == (code in (1, 2) and bool(err)), (path, by, err)
    assert bench("compare", old, files("new", good | {"env": [[]]})) == 2
    assert "expected an object or null as env" in capsys.readouterr().err


QUICK = ("--names", "saxpy", "-a", "n=100", "--timeout", "0.1")


def test_without_scipy_compare_says_what_to_install(bench, files, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    path = files("o.json", document(row(times(100))))
    assert bench("compare", path, path) == 2
    assert "sparkle_drv[tools]" in capsys.readouterr().err


def test_a_device_without_a_baseline_gets_one(bench, tmp_path, capsys):
    folder = tmp_path / "baseline"
    assert bench("compare", "--baseline", folder, *QUICK) == 2  # a typo makes no folder
    folder.mkdir()
    assert bench("compare", "--baseline", folder, *QUICK) == 0
    (path,) = folder.iterdir()
    assert path.name.startswith("cpu-")
    written = results.load(path)
    assert written["results"][0]["verified"]
    assert 0 < len(written["results"][0]["samples_ns"]) <= 200
    assert "command" not in written["env"]
    assert "written" in capsys.readouterr().out


def scaled(path, factor):
    written = json.loads(path.read_text())
    for entry in written["results"]:
        entry["samples_ns"] = [s * factor for s in entry["samples_ns"]]
    path.write_text(json.dumps(written))


def test_a_regression_against_the_baseline_exits_3(bench, tmp_path, capsys):
    """The baseline is made a hundred times slower, then faster, than this machine."""
    assert bench("compare", "--baseline", tmp_path, *QUICK) == 0
    (path,) = tmp_path.glob("cpu-*.json")
    scaled(path, 100)
    assert bench("compare", "--baseline", tmp_path, *QUICK) == 0
    assert "1 FAST" in capsys.readouterr().out
    scaled(path, 1e-4)
    assert bench("compare", "--baseline", tmp_path, *QUICK) == 3
    assert "1 SLOW" in capsys.readouterr().out


def test_slow_rows_are_measured_again(monkeypatch, device):
    """A row that is SLOW once and not again is no regression."""
    old, new = document(row(times(100))), document(row(times(200, seed=1)))
    again = copy.deepcopy(document(row(times(100, seed=2))))["results"]

    class Again:
        def as_json(self):
            return again[0]

    class Subject:
        key = compare.key(old["results"][0])

    monkeypatch.setattr(baseline.engine, "run", lambda *_: Again())
    monkeypatch.setattr(baseline.engine, "subject_of", lambda *_: Subject())

    class Session:
        settings = None

    pairs = baseline._confirmed(old, new, device, Session(), [(None, "hot")], 0.05)
    assert [pair.verdict for pair in pairs] == ["SAME"]
    again[0] = row(times(200, seed=3))
    new = document(row(times(200, seed=1)))
    pairs = baseline._confirmed(old, new, device, Session(), [(None, "hot")], 0.05)
    assert [pair.verdict for pair in pairs] == ["SLOW"]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("model name\t: AMD EPYC\ncpu family\t: 25\nmodel\t\t: 17\n\nmodel\t\t: 18\n", "25-17"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "0x41-0xd40"),
        ("isa : rv64\n", None),
    ],
)
def test_a_cpu_is_known_by_its_model(monkeypatch, text, model):
    monkeypatch.setattr(env, "_read", lambda path: text)
    assert env.cpu_model() == model


def test_baselines_of_two_generations_have_two_files(monkeypatch, device):
    names = set()
    for model in ("25-17", "26-2"):
        monkeypatch.setattr(env, "cpu_model", lambda model=model: model)
        names.add(baseline.slug(device.info))
    assert len(names) == (2 if device.info.backend == "cpu" else 1)


def test_baseline_names(device):
    slug = baseline.slug(device.info)
    assert slug == slug.lower()
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
