"""`bench.py tune` from the outside: what it prints and keeps, and that wrong plans are reported and
never timed. Other commands and ops then use what it found.

When this fails, a tuned plan is wrong, or is not used afterwards.
"""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from _bench.commands import runner
from _bench.machine import other_load
from _bench.measure import bound, verify
from _bench.tune import tune
from _console.problems import UsageError

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.ops.tiles import tuned_plans


@pytest.fixture(autouse=True)
def others(monkeypatch):
    """What other processes take of the machine, to be set; nothing."""
    share = [0.0]
    monkeypatch.setattr(other_load.Watch, "others", lambda self: share[0])
    return share


@pytest.fixture
def tuned_file(home):
    return home / "tuned.json"


def kept(path):
    document = json.loads(path.read_text())
    (kernels,) = document["devices"].values()
    return kernels


def test_it_prints_writes_and_keeps(bench, tuned_file, tmp_path, capsys):
    out = tmp_path / "t.json"
    for budget in ("0.5", "10"):  # the second for a machine that got to nothing in the first
        assert bench("tune", "gemm_f32", "-a", "size=40", "--budget", budget, "--json", out) == 0
        text = capsys.readouterr().out
        assert "model's plan" in text
        assert "gemm_f32" in text
        document = json.loads(out.read_text())
        (row,) = document["results"]
        if row["outcome"]["tried"] > 1:
            break
    assert (document["command"], document["interrupted"]) == ("tune", False)
    assert row["outcome"]["best_s"] > 0
    assert row["outcome"]["tried"] > 1
    assert row["wrong"] == []
    low, high = row["distance_percent"][1:]
    assert low <= row["distance_percent"][0] <= high
    assert row["kept"] is True
    (shape,) = kept(tuned_file)["gemm_f32"]
    assert shape == tuned_plans.gemm_shape(40, 40, 40)
    with sp.open("cpu") as dev:
        assert ops.gemm.plan(dev, 40, 40, 40).tile.source == "tuned"
        assert ops.gemm.plan(dev, 40, 40, 41).tile.source == "model"


def test_an_output_that_cannot_be_is_refused_before_anything_is_measured(bench, tmp_path, capsys):
    words = ("tune", "gemm_f32", "-a", "size=64", "--budget", "600")
    assert bench(*words, "--json", str(tmp_path / "not there" / "x.json")) == 2
    assert "its folder does not exist" in capsys.readouterr().err


def test_run_takes_the_tuned_plan_and_says_so(bench, home, tmp_path):
    entry = tuned_plans.TunedPlan(sp.TilePlan(algo="naive"), 1.0, 1.0)
    with sp.open("cpu") as dev:
        tuned_plans.Tuned(str(home)).put(
            dev.info, "gemm_f32", tuned_plans.gemm_shape(24, 24, 24), entry
        )
    out = tmp_path / "r.json"
    assert bench("run", "gemm_f32", "-a", "size=24,25", "--quick", "--json", out) == 0
    plans = [row["plan"] for row in json.loads(out.read_text())["results"]]
    assert [(p["algo"], p["source"]) for p in plans] == [("naive", "tuned"), ("blocked", "model")]


def test_convolutions_too(bench, tuned_file):
    axes = ("-a", "c=4", "-a", "oc=4", "-a", "h=8", "-a", "w=8")
    assert bench("tune", "conv2d", *axes, "--budget", "0.3") == 0
    (shape,) = kept(tuned_file)["conv2d_f32"]
    assert shape.startswith("NCHW 1,4,8,8,4,3,3,")


@pytest.mark.parametrize("algo", ["direct", "winograd", "winograd2", "winograd6"])
def test_each_plan_is_held_to_the_limit_of_its_algorithm(cpu, algo):
    axes = ["c=4", "oc=4", "h=16", "w=16"]
    (job,) = tune.jobs_for(["conv2d"], axes, cpu.info, runner.manifest(cpu), 1)
    with bound.Bound(job, cpu, 1) as held:
        arm = tune.Bench(held, print).admit(sp.TilePlan(algo=algo))
        assert arm is not None
        arm.close()
        op = algo if algo.startswith("winograd") else "conv2d"
        assert held.job.tolerance == ops.ref.tolerance(op, np.float32, 4 * 9)


def test_egl_plans(bench, tuned_file, capsys):
    words = ("-d", "egl:0", "--budget", "0.5", "-a")
    assert bench("tune", "gemm_f32", *words, "size=16") == 0
    assert bench("tune", "reduce_sum_f32", *words, "n=4096") == 0
    assert "blocked" in capsys.readouterr().out
    assert set(kept(tuned_file)) == {"gemm_f32", "reduce_sum_f32"}
    with sp.open("egl:0") as dev:
        assert ops.gemm.plan(dev, 16, 16, 16).tile.source == "tuned"


def test_a_wrong_plan_is_loud_and_never_timed(bench, tuned_file, monkeypatch, tmp_path, capsys):
    timed, checked = [], []
    check, steady = bound.Bound.check, tune.timing.steady

    def spoiled(self, phase):
        checked.append(self.kernel)
        return verify.broken("a wrong result") if len(checked) == 2 else check(self, phase)

    def watched(held, mode):
        timed.append(held.kernel)
        return steady(held, mode)

    monkeypatch.setattr(bound.Bound, "check", spoiled)
    monkeypatch.setattr(tune.timing, "steady", watched)
    out = tmp_path / "t.json"
    assert bench("tune", "gemm_f32", "-a", "size=20", "--budget", "0.5", "--json", out) == 1
    said = capsys.readouterr()
    assert "WRONG RESULT gemm_f32" in said.err
    assert "1 WRONG" in said.out
    assert checked[1] not in timed
    (row,) = json.loads(out.read_text())["results"]
    assert len(row["wrong"]) == 1


def test_a_best_that_fails_its_last_check_is_not_kept(bench, tuned_file, monkeypatch, capsys):
    check = bound.Bound.check
    monkeypatch.setattr(
        bound.Bound,
        "check",
        lambda self, phase: verify.broken("late") if phase else check(self, phase),
    )
    assert bench("tune", "gemm_f32", "-a", "size=20", "--budget", "0.3") == 1
    assert "not kept" in capsys.readouterr().out
    assert not tuned_file.exists()


def test_on_a_busy_machine_nothing_is_kept_unless_asked(bench, tuned_file, others, capsys):
    others[0] = 0.5
    words = ("tune", "gemm_f32", "-a", "size=20", "--budget", "0.3")
    assert bench(*words) == 0
    assert "not kept, others took 50% of the cpus" in capsys.readouterr().out
    assert not tuned_file.exists()
    assert bench(*words, "--busy") == 0
    assert tuned_file.exists()


def test_the_watch_sees_others_only(tmp_path, monkeypatch):
    monkeypatch.undo()
    stat, ticks = tmp_path / "stat", os.sysconf("SC_CLK_TCK")
    stat.write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
    watch = other_load.Watch(stat)
    assert watch.others() == 0.0
    stat.write_text(f"cpu  {10**6 * ticks} 0 0 5 0 0 0 0 0 0\ncpu0 1\n")
    assert watch.others() > 1.0
    stat.write_text("nonsense")
    assert watch.others() == 0.0
    assert other_load.Watch(tmp_path / "nothing").others() == 0.0


def test_ctrl_c_keeps_the_rows_that_are_done(bench, monkeypatch, tmp_path, capsys):
    done = tune.tune

    def once(job, *rest):
        if "22" in job.label:
            raise KeyboardInterrupt
        return done(job, *rest)

    monkeypatch.setattr(tune, "tune", once)
    out = tmp_path / "t.json"
    words = ("-a", "size=21,22", "--budget", "0.3", "--json", out)
    assert bench("tune", "gemm_f32", *words) == 1
    document = json.loads(out.read_text())
    assert (len(document["results"]), document["interrupted"]) == (1, True)


def test_a_device_that_gets_stuck_ends_the_run_with_the_rows_so_far(bench, monkeypatch, tmp_path):
    done = tune.tune

    def stuck(job, *rest):
        if "22" in job.label:
            raise sp.FenceTimeout("it never ended")
        return done(job, *rest)

    monkeypatch.setattr(tune, "tune", stuck)
    out = tmp_path / "t.json"
    words = ("-a", "size=21,22,23", "--budget", "0.3", "--json", out)
    assert bench("tune", "gemm_f32", *words) == 1
    first, last = json.loads(out.read_text())["results"]
    assert first["kept"]
    assert last["failure"] == "FenceTimeout: it never ended"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["saxpy_f32"], "takes no plan"),
        (["nonsense"], "no kernel is called"),
        (["gemm_f32", "-a", "kh=3"], "unknown axis"),
    ],
)
def test_usage(bench, words, said, capsys):
    assert bench("tune", *words) == 2
    assert said in capsys.readouterr().err


def test_what_has_one_way_to_run_says_so(bench, capsys):
    assert bench("tune", "reduce_sum_f32", "-a", "n=64", "--budget", "0.2") == 1
    assert "nothing to tune" in capsys.readouterr().out


def test_no_such_device(bench):
    assert bench("tune", "gemm_f32", "-d", "egl:99") == 3


def test_a_device_whose_kernels_no_plan_changes_is_refused():
    info = replace(sp.open("cpu").info, backend="cuda")
    with pytest.raises(UsageError, match="whose kernels have fixed tiles"):
        tune.jobs_for((), (), info, {}, 1)
