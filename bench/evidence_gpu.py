#!/usr/bin/env python3
"""What was shown on a GPU, in one run: tests, golden files and compute-sanitizer, as
one JSON object with the commit, the device, the driver and each command.

    CGO_ENABLED=0 go test -c -o cuda.test ./internal/cuda
    CGO_ENABLED=0 go test -c -o public.test ./cuda
    CGO_ENABLED=0 go build ./cmd/flashdec
    python3 bench/evidence_gpu.py --commit $(git rev-parse --short HEAD) --out FILE

The exit code is 1 where something failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time

SANITIZED = "NaN|States|TestTraps/(01|09|10|25)"
STEPS = [
    ("tests of the backend: conformance, traps by name, random steps, 1000 repeats", "{dir}/cuda.test -test.v"),
    ("tests of caches, steps and graphs", "{dir}/public.test -test.v"),
    ("golden files, every number of splits", "{dir}/flashdec verify testdata/golden --backend cuda --splits all --page-size 16 --json"),
    ("golden files, as planned", "{dir}/flashdec verify testdata/golden --backend cuda --json"),
] + [
    (f"{tool}, backend", f"compute-sanitizer --tool {tool} {{dir}}/cuda.test -test.run {SANITIZED!r}")
    for tool in ("memcheck", "racecheck", "initcheck")
] + [
    (f"{tool}, steps and graphs", f"compute-sanitizer --tool {tool} {{dir}}/public.test -test.run 'Replay|Foreign|Length'")
    for tool in ("memcheck", "racecheck", "initcheck")
]


def run(what, command):
    start = time.time()
    p = subprocess.run(command, shell=True, capture_output=True, text=True, env={**os.environ, "FLASHDEC_REQUIRE": "cuda"})
    text = p.stdout + p.stderr
    step = dict(what=what, command=command, ok=p.returncode == 0, seconds=round(time.time() - start, 1))
    verdicts = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S.*?) \(", text, re.M)
    if verdicts:
        step["passed"] = sum(v == "PASS" for v, _ in verdicts)
        step["failed"] = [name for v, name in verdicts if v == "FAIL"]
        step["skipped"] = [name for v, name in verdicts if v == "SKIP"]
        step["traps"] = {name.split("/", 1)[1]: v == "PASS" for v, name in verdicts if name.startswith("TestTraps/")}
    if "verify" in command:
        step["verified"] = json.loads(p.stdout.strip().splitlines()[-1])
    if "sanitizer" in command:
        step["summary"] = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", text)
        step["ok"] = step["ok"] and all(re.match(r"\w+ SUMMARY: 0 ", s) for s in step["summary"]) and bool(step["summary"])
    if not step["ok"]:
        step["tail"] = text[-3000:]
    print(("ok    " if step["ok"] else "FAILED"), f"{step['seconds']:6.1f} s", what, flush=True)
    return step


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--commit", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--dir", default=".", help="where the programs are")
    args = args.parse_args()
    device = subprocess.run("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader", shell=True, capture_output=True, text=True)
    name, driver = device.stdout.strip().splitlines()[0].split(", ")
    steps = [run(what, command.format(dir=args.dir)) for what, command in STEPS]
    ok = all(s["ok"] for s in steps)
    with open(args.out, "w") as f:
        json.dump(dict(ok=ok, commit=args.commit, device=name, driver=driver, command="python3 bench/evidence_gpu.py", steps=steps), f, indent=1)
        f.write("\n")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
