"""Fails unless a result of "run --smoke" has all phases, run to their ends, and a verdict for each claim."""
import json
import sys

with open(sys.argv[1]) as file:
    result = json.load(file)
wrong = [] if result["simulated"] else ["not of the simulated device"]
for phase, p in result["phases"].items():
    if not p["complete"]:
        wrong.append(f"{phase}: not complete")
    for claim in p["claims"]:
        if claim["verdict"] not in ("held", "not held") and not (claim["verdict"] == "not measured"
                                                                 and claim.get("why")):
            wrong.append(f"{phase}: {claim}")
try:
    import numpy  # noqa: F401
except ImportError:
    numpy = None
for step, r in result["phases"]["training"]["steps"].items():  # torch or its stand-in has trained
    if numpy and not step.startswith("pyg") and "ms_per_batch" not in r:
        wrong.append(f"training: {step}: {r}")
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
