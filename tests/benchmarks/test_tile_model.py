"""benchmarks/tile_model.py: its space of plans, its check, its report, and a tiny run.

When this fails, the reported distance between the tile model and the best plan is wrong.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from peerskit import ALL, SMALL, tile_model

import sparkle_drv as sp
from sparkle_drv.ops import tiles
from sparkle_drv.types import CacheLevel, DeviceInfo, TilePlan

measure, report = tile_model.measure, tile_model.report
timed_product, space = measure.timed_product, measure.space
CACHES = (CacheLevel(1, 32 << 10, 1), CacheLevel(2, 1 << 20, 1), CacheLevel(3, 32 << 20, 2))
INFO = DeviceInfo("cpu", "cpu", "a cpu", "cpu", isa="avx512", compute_units=1, caches=CACHES)
SHAPES = ["gemm f32 8x8x8", "gemm f32 2048x2048x2048", "gemm f32 8x2048x2048", "gemm f64 64x64x64"]


def made(name, kept=False):
    of = ALL[name].of
    return space.Space(of, tiles.gemm(INFO, of.m, of.n, of.k, 8 if "64" in of.dtype else 4), kept)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_every_candidate_is_another_way_and_whole_micro_tiles(name, kept):
    one = made(name, kept)
    seeds = one.seeds(1000)
    assert seeds[0] == one.model
    mr, nr, _ = one.model.levels[1]
    for found in (seeds, one.neighbours(one.model)):
        blocked = [plan for plan in found if plan.algo != "naive"]
        keys = [(one.pieces(plan), plan.pack) for plan in blocked]
        assert len(set(keys)) == len(keys)
        assert any(plan.pack for plan in blocked) is kept
        for plan in blocked:
            mc, nc, kc = plan.levels[0]
            assert plan is one.model or (mc % mr, nc % nr) == (0, 0)
            assert min(mc, nc, kc) >= space.LEAST_TERMS


def test_a_large_product_is_looked_at_from_far_and_a_small_one_has_few_ways():
    terms = {plan.levels[0][2] for plan in made("gemm f32 2048x2048x2048").seeds(1000)}
    assert min(terms) <= 16
    assert max(terms) == 2048
    small = made("gemm f32 8x8x8").seeds(1000)
    assert [plan.algo for plan in small] == ["blocked", "naive"]
    few = made("gemm f32 2048x2048x2048").seeds(0)
    assert len(few) == space.LEAST_FAR
    assert made("gemm f32 8x8x8").neighbours(small[-1]) == []


def test_pieces_are_what_the_kernels_make_of_blocks():
    one = made("gemm f32 64x64x64")
    plan = replace(one.model, levels=((14, 32, 24), one.model.levels[1]))
    assert one.pieces(plan) == (3, 5, 2)
    # 64 terms in place of 1024: sixteen times as many rows go into a block.
    assert one.pieces(replace(plan, levels=((14, 32, 1024), plan.levels[1]))) == (1, 1, 2)
    assert one.pieces(replace(plan, pack=True)) == (3, 5, 1)


@pytest.mark.parametrize("name", ["gemm f32 8x8x8", "gemm f64 64x64x64"])
def test_a_right_plan_is_timed_and_a_wrong_one_is_not(name, monkeypatch):
    of = ALL[name].of
    with sp.open("cpu", threads=1) as dev, timed_product.TimedProduct(dev, of, 1) as operands:
        plan = tiles.gemm(dev.info, of.m, of.n, of.k, 8 if "64" in of.dtype else 4)
        for one in (plan, replace(plan, pack=True), TilePlan(algo="naive")):
            arm = operands.admit(one)
            assert arm.sample() > 0
            arm.close()
        assert operands.confirm(plan)
        assert operands.admit(TilePlan(algo="nonsense")) is None  # refused
        assert operands.wrong == []
        operands._want = operands._want + 1
        assert operands.admit(plan) is None
        assert "wrong result" in operands.wrong[0]


def row(far=1.0, tried=20, note="", isa="avx2"):
    distance = None if far is None else [far, far / 2, 2 * far]
    return {"case": SMALL.name, "isa": isa, "b": "fresh", "distance_percent": distance,
            "model_s": 2e-6, "best_s": 1e-6, "model": "a", "best": "b", "tried": tried,
            "note": note}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "holds", "said"),
    [
        ([row(4.9)], True, "1 of 1; gemm f32 8x8x8 (fresh b) +4.9 %"),
        ([row(5.1), row(1.0)], False, "1 of 2; gemm f32 8x8x8 (fresh b) +5.1 %"),
        ([row(), row(None, note="left out: too long")], True, "not judged: gemm"),
        ([row(), row(None, note="WRONG")], None, "not judged: gemm"),
        ([row(), row(0.0, tried=2, note="out of time")], None, "1 of 1; "),
        ([row(0.0, tried=2)], True, "1 of 1; "),
        ([row(None)], None, "nothing"),
    ],
)
def test_a_line_says_whether_the_model_is_near_everywhere(rows, holds, said):
    (line,) = report.lines(rows)
    assert line.holds is holds
    assert said in line.figure
    told = {"rows": rows, "shows": [line.as_json()], "label": "", "interrupted": True,
            "budget_s": 1.0,
            "env": dict.fromkeys(("cpu", "date", "commit", "load_1min"), "?")}  # fmt: skip
    assert "Not whole" in report.markdown(told)
    assert report.is_failed(row(None, note="WRONG"))
    assert not report.is_failed(row(None, note="left out: too long"))


def test_a_plan_in_words():
    plan = TilePlan(algo="blocked", levels=((84, 2048, 1024), (14, 32, 1)), pack=True)
    assert report.plan(plan) == "84x2048x1024 packed"
    assert report.plan(TilePlan(algo="naive")) == "naive"


def test_time_goes_to_long_products_and_those_beyond_reason_are_left_out(monkeypatch):
    tasks = measure.todo([ALL[name] for name in SHAPES], ["ref"], ["fresh"])
    wishes = {task.case.name: task.wish_s for task in tasks}
    assert max(wishes, key=wishes.get) == "gemm f32 2048x2048x2048"
    assert min(wishes.values()) == measure.LEAST_S
    monkeypatch.setattr(measure, "LONGEST_S", 0.0)
    (one,) = measure.run(tasks[:1], 1.0, 1)
    assert report.is_left_out(one)


def test_a_run(tmp_path, capsys):
    words = ("--only", "gemm f32 8x8x8|map four 1k", "--isa", "ref", "--budget-s", "0.5")
    out = [tmp_path / "t.json", tmp_path / "t.md"]
    assert tile_model.main([*words, "--json", str(out[0]), "--md", str(out[1])]) == 0
    told = json.loads(out[0].read_text())
    assert [(one["isa"], one["b"]) for one in told["rows"]] == [("ref", "fresh"), ("ref", "kept")]
    assert all(one["distance_percent"][0] >= 0 for one in told["rows"])
    assert told["interrupted"] is False
    text = out[1].read_text()
    assert "tile model on ref" in text
    assert text.strip() in capsys.readouterr().out


def test_what_was_measured_before_an_interrupt_is_written(tmp_path, monkeypatch):
    def one(*rest):
        yield row()
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "run", one)
    out = tmp_path / "t.json"
    assert tile_model.main(["--only", "8x8x8", "--json", str(out)]) == 1
    assert len(json.loads(out.read_text())["rows"]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "("), "--only: "),
        (("--only", "map four"), "no product has a name that matches 'map four'"),
        (("--isa", "avx1024"), "--isa: 'avx1024' is none of"),
        (("--b", "stale"), "--b: 'stale' is none of fresh, kept"),
    ],
)
def test_wrong_usage_is_one_line(words, said, capsys):
    assert tile_model.main(list(words)) == 2
    assert said in capsys.readouterr().err
