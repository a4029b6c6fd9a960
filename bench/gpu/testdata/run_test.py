"""How the bundle's steps are run, with steps that are programs of no use. bundle_test.go runs it: no device is
needed."""
import argparse
import contextlib
import io
import json
import math
import os
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True
import model
import bench
import report
import phases
import run
from bench import Bench
from phases import CLAIM, MORE, PEER, Shared, Step

ABOUT = {"bundle": {"commit": "c"}, "cuda": {"devices": [{"name": "none"}]}, "smoke": True, "simulated": True}


class Steps(unittest.TestCase):
    def setUp(self):
        self.ran, folder = [], tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.out = self.dir / "out.json"

    def run_steps(self, phases, **options):
        """Runs the steps of phases, (name, worth, seconds, work), as run does, and returns what it writes."""
        def phase(steps):
            def noted(name, work):
                self.ran.append(name)
                return work(self.bench)
            return lambda b: [Step(name, lambda name=name, work=work: noted(name, work), worth, seconds) for name,
                              worth, seconds, work in steps]
        args = argparse.Namespace(**{"phases": list(phases), "minutes": 8, "total": math.inf, "earlier": None,
                                     "again": False, "more": True, **options})
        self.bench, self.ran[:] = Bench(self.dir, True), []
        with mock.patch.dict(run.PHASES, {name: phase(steps) for name, steps in phases.items()}, clear=True), \
                mock.patch.dict("os.environ", {"OUT": str(self.out)}), mock.patch.object(report, "claims",
                                                                                         lambda phase, state: []), \
                contextlib.redirect_stderr(io.StringIO()):
            one = run.Run(args, self.bench, ABOUT)
            try:
                one.go()
            finally:
                one.save()
        return json.loads(self.out.read_text())["phases"]

    def test_what_is_worth_most_runs_first_and_once(self):
        work = lambda b: {"figure": 1}
        phases = {"a": [("a1", MORE, 9, work), ("a2", CLAIM, 9, work)],
                  "b": [("b1", PEER, 9, work), ("b2", CLAIM, 9, work)]}
        result = self.run_steps(phases)
        self.assertEqual(self.ran, ["a2", "b2", "b1", "a1"])
        self.assertTrue(result["a"]["complete"] and result["b"]["complete"])
        self.run_steps(phases)
        self.assertEqual(self.ran, [], "they are done")
        self.run_steps(phases, again=True)
        self.assertEqual(len(self.ran), 4, "they are to be forgotten")
        self.assertTrue(self.run_steps(phases, again=True, more=False)["a"]["complete"], "without what is for more")
        self.assertEqual(self.ran, ["a2", "b2", "b1"])

    def test_a_step_that_fails_keeps_what_it_had_and_is_tried_again_last(self):
        broken = lambda b: b.json(["sh", "-c", 'echo "{\\"cells\\": [1, 2]}"; echo "no more" >&2; exit 1'])
        number = lambda b: b.json(["sh", "-c", "echo 5; exit 1"])
        phases = {"a": [("broken", CLAIM, 9, broken), ("odd", CLAIM, 9, lambda b: {}["key"]),
                        ("number", CLAIM, 9, number), ("fine", MORE, 9, lambda b: {})]}
        steps = self.run_steps(phases)["a"]["steps"]
        self.assertEqual(steps["broken"]["cells"], [1, 2])
        self.assertTrue(steps["broken"]["failed"].startswith("no more\nstatus 1: sh"), steps["broken"])
        self.assertIn("KeyError", steps["odd"]["failed"])
        self.assertIn("status 1", steps["number"]["failed"])
        self.assertNotIn("failed", steps["fine"])
        phases["a"].append(("new", MORE, 9, lambda b: {}))
        self.run_steps(phases)
        self.assertEqual(self.ran, ["new", "broken", "odd", "number"])

    def test_a_program_that_hangs_is_ended(self):
        hangs = lambda b: b.json(["sh", "-c", "sleep 100 & sleep 100"])
        start = time.monotonic()
        steps = self.run_steps({"a": [("hangs", CLAIM, 1, hangs), ("fine", MORE, 9, lambda b: {})]})["a"]["steps"]
        self.assertIn("takes too long", steps["hangs"]["failed"])
        self.assertIn("fine", steps)
        self.assertLess(time.monotonic() - start, 30)

    def test_out_of_time_is_no_failure(self):
        slow = lambda b: b.json(["sleep", "100"])
        phases = {"a": [("long", CLAIM, 500, slow), ("done", CLAIM, 2, lambda b: {}), ("slow", CLAIM, 20, slow),
                        ("later", MORE, 20, lambda b: {})]}
        result = self.run_steps(phases, total=6 / 60)
        self.assertEqual(list(result["a"]["steps"]), ["done"])
        self.assertFalse(result["a"]["complete"])
        self.assertNotIn("long", self.ran, "it could not end in time")

    def test_what_is_stopped_was_written_before(self):
        def stop(b):
            self.assertIn("first", json.loads(self.out.read_text())["phases"]["a"]["steps"])
            raise SystemExit(143)
        with self.assertRaises(SystemExit):
            self.run_steps({"a": [("first", CLAIM, 9, lambda b: {"figure": 7}), ("stopped", MORE, 9, stop)]})
        self.assertEqual(json.loads(self.out.read_text())["phases"]["a"]["steps"]["first"]["figure"], 7)

    def test_another_machine_goes_on_from_the_object(self):
        phases = {"a": [("done", CLAIM, 9, lambda b: {"figure": 1}), ("broken", CLAIM, 9, lambda b: {"failed": "why"})]}
        self.run_steps(phases)
        self.out.rename(self.dir / "earlier.json")
        (self.dir / "state.json").unlink()
        steps = self.run_steps(phases, earlier=self.dir / "earlier.json")["a"]["steps"]
        self.assertEqual(self.ran, ["broken"])
        self.assertEqual(steps["done"]["figure"], 1)
        with mock.patch.dict(ABOUT, {"bundle": {"commit": "other"}}), self.assertRaises(SystemExit):
            self.run_steps(phases, earlier=self.dir / "earlier.json")


class Claims(unittest.TestCase):
    def test_a_peer_that_cannot_run_leaves_the_claim_not_measured_and_says_why(self):
        ours = {"edges_per_s": 8e8, "seconds": 1, "batches": 10}
        peer = lambda rate: {"edges_per_s": rate, "threads": 16}
        for steps, measured, holds, why in (
            ({"pyg-15": {"skipped": "no torch"}, "pyg-0": {"skipped": "no torch"}}, None, None, "no torch"),
            ({"pyg-15": {"failed": "it broke"}}, None, None, "it broke"),
            ({}, None, None, "steps that it needs were not run"),
            ({"pyg-15": peer(1e7), "pyg-8": peer(4e7), "pyg-0": {"skipped": "no torch"}}, 20, True, None),
            ({"pyg-4": peer(1e8)}, 8, False, None),
        ):
            found = [c for c in report.claims("sampling", {"sampling": {"card, new": ours, **steps}})
                     if "PyG" in c["claim"]]
            self.assertEqual([(c["measured"], c["holds"], c.get("why")) for c in found], [(measured, holds, why)])
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                report.table("sampling", {"simulated": False, "smoke": False,
                                          "phases": {"sampling": {"complete": True, "steps": {}, "claims": found}}})
            self.assertIn(": " + {None: "not measured", True: "held", False: "not held"}[holds], said.getvalue())
            self.assertIn(why or "", said.getvalue())

    def test_every_claim_says_what_became_of_it(self):
        state = {"gather": {"file 1 GiB": {"failed": "no memory"}}}
        for phase in run.PHASES:
            for c in report.claims(phase, state):
                self.assertEqual(c["verdict"], "not measured", c)
                self.assertTrue("no memory" in c["why"] if phase == "gather" else c["why"], c)


class Design(unittest.TestCase):
    def test_a_whole_run_fits_its_time_by_guess(self):
        seconds = sum(sum(of[:MORE]) for of in model.spent().values())
        self.assertLess(seconds, 60 * model.LIMIT)
        self.assertGreater(seconds, 60 * model.LIMIT / 4, "some step is missing")


class Programs(unittest.TestCase):
    """Steps over programs that a test makes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bench = Bench(pathlib.Path(folder.name), False)
        self.bench.programs = self.bench.dir / "programs"
        self.bench.begin(60, math.inf)

    def program(self, name, text):
        path = self.bench.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def test_a_start_makes_all_steps_that_are_wanted_and_another_those_after_one_that_broke_it(self):
        self.program("each", f"""
echo "$@" >>{self.bench.dir}/starts
for name; do
    if [ $name = broken ]; then echo "no more" >&2; exit 1; fi
    if [ $name = hangs ]; then sleep 100; fi
    all="$all${{all:+,}}\\"$name\\":{{\\"figure\\":1}}"; echo "{{$all}}"
done
""")
        names = ["a", "broken", "done before", "b", "hangs", "c"]
        self.bench.todo = {("phase", name) for name in names if name != "done before"}
        shared = Shared(self.bench, "phase", lambda *ways: bench._parsed(
            self.bench.call([self.bench.dir / "each", *ways])[1]), names)
        found = {}
        for name in names:
            if name != "done before":
                self.bench.begin(5, math.inf)
                found[name] = shared.step(name)
        self.assertIn("no more", found["broken"]["failed"])
        self.assertIn("takes too long", found["hangs"]["failed"])
        self.assertEqual([found[name] for name in "abc"], 3 * [{"figure": 1}])
        self.assertEqual((self.bench.dir / "starts").read_text().splitlines(),
                         ["a broken b hangs c", "b hangs c", "c"])
        shared = Shared(self.bench, "phase", lambda *ways: {"skipped": "no torch"}, names)
        self.assertEqual(shared.step("a"), {"skipped": "no torch"})

    def test_a_test_that_skips_on_a_real_driver_has_failed(self):
        for reason, failed in (("needs 2 devices", False), ("needs the simulated device", True)):
            self.program("programs/gather/test",
                         f"printf -- '--- PASS: TestA (0.00s)\\n--- SKIP: TestB (0.00s)\\n    b.go:7: {reason}\\n'")
            result = phases.run_tests(self.bench, "gather", "^(TestA|TestB)$")
            self.assertEqual(("failed" in result, result["passed"], result["skipped"]),
                             (failed, 1, [] if failed else ["TestB"]), result)

    def test_memcheck_leaves_calls_out_that_the_driver_refuses(self):
        self.program("compute-sanitizer", 'echo "========= $*"')
        self.bench.dataset = lambda *_: "D"
        with mock.patch.dict("os.environ", {"PATH": f"{self.bench.dir}:{os.environ['PATH']}"}):
            self.assertIn("--report-api-errors no", phases.sanitize(self.bench, "memcheck")["summary"][0])
            self.assertNotIn("--report-api-errors", phases.sanitize(self.bench, "racecheck")["summary"][0])

    def test_the_board_is_found_by_its_name(self):
        self.bench.uuid = "GPU-7"
        code = """
import sys, types
sys.modules["numpy"] = types.ModuleType("numpy")
n = sys.modules["pynvml"] = types.ModuleType("pynvml")
n.nvmlInit = lambda: None
n.nvmlDeviceGetHandleByUUID = lambda uuid: uuid
n.nvmlDeviceGetTotalEnergyConsumption = lambda handle: {b"GPU-7": 5000}[handle]
import meter
print(meter.Board().joules())
"""
        self.assertEqual(self.bench.call([sys.executable, "-c", code], env=self.bench._environment())[1].strip(), "5.0")


unittest.main()
