#!/usr/bin/env python3
"""What was shown on a GPU, in one run: tests, golden files and compute-sanitizer, as
one JSON object with the commit, the device, the driver and each command.

    CGO_ENABLED=0 go test -c -o cuda.test ./internal/cuda
    CGO_ENABLED=0 go test -c -o public.test ./cuda
    CGO_ENABLED=0 go test -c -o gpubench.test ./internal/gpubench
    CGO_ENABLED=0 go build ./cmd/flashdec
    python3 bench/evidence_gpu.py --commit $(git rev-parse --short HEAD) --out FILE

It wants an NVIDIA GPU with its driver's nvidia-smi, and the CUDA toolkit's
compute-sanitizer in PATH. The exit code is 1 where something failed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

STEPS = [
    ("tests of the backend: conformance, traps by name, random steps, 1000 repeats", "{dir}/cuda.test -test.v"),
    ("tests of caches, steps and graphs", "{dir}/public.test -test.v"),
    ("tests of bench and trace on a GPU", "{dir}/gpubench.test -test.v"),
    ("golden files, every number of splits", "{dir}/flashdec verify testdata/golden --backend cuda --splits all --page-size 16 --json"),
    ("golden files, as planned", "{dir}/flashdec verify testdata/golden --backend cuda --json"),
] + [
    (f"{tool}, {part}", f"compute-sanitizer --tool {tool} {{dir}}/{program} -test.run {tests!r}")
    for part, program, tests in (
        ("backend", "cuda.test", "NaN|States|Parts|TestTraps/(01|09|10|25)"),
        ("steps and graphs", "public.test", "Replay|Foreign|Length"),
    )
    for tool in ("memcheck", "racecheck", "initcheck")
]

# Failures that decode-attention systems have had, and shapes worth a sweep: what each is
# about, and the tests that try it, as they are named in the output (a regular expression).
C = "TestConformance/"
CASES = {
    "1": ("merge of empty states", f"TestTraps/01|{C}Empty/"),
    "2": ("empty prefix and empty suffix", f"TestTraps/02|{C}Empty/NoKeyBesideOthers"),
    "3": ("LSE of no context", f"TestTraps/03|{C}Empty/NoKey"),
    "4": ("first tiles fully masked", f"TestTraps/04|{C}Rule/MaskHidesFirstTiles"),
    "5": ("split sizes beside the tile", f"TestTraps/05|{C}Law/SplitBordersInsideTiles"),
    "6": ("nothing to do", f"TestTraps/06|{C}Empty/No(Sequence|Query|Key)$"),
    "7": ("ragged, paged, two splits", f"TestTraps/07|{C}Memory/EveryRowIsWritten"),
    "8": ("strides of outputs of several queries", f"TestTraps/08|{C}Memory/NothingBesideOutIsWritten"),
    "9": ("window smaller than a split", f"TestTraps/09|{C}Rule/WindowLeavesFewerSplits"),
    "10": ("groups of 7 over tiles of rows", f"TestTraps/10|{C}Sweep/ManyQueriesWithSevenAGroup"),
    "11": ("window parts that are empty, 1000 times", "TestTrapRepeats"),
    "12": ("one plan run again and again", f"TestTrapRepeats|{C}Bits/(OnePlanManyTimes|ThousandTimes)"),
    "13": ("two queries a sequence", f"TestTraps/13|{C}Sweep/ManySplitsWithTwoQueries"),
    "14": ("padding keys of the last tile", f"TestTraps/14|{C}Numbers/PaddingKeysHaveNoWeight"),
    "15": ("lengths beyond the page table", "TestTrapBorders|TestTrapCapacity"),
    "16": ("one length for all sequences", "TestTrapOneLengthForAll"),
    "17": ("offsets beyond 2^32 elements of sequences", "TestTrapOffsets"),
    "18": ("offsets beyond 2^31 elements of pages", "TestTrapOffsets"),
    "19": ("poison in unused pages and table entries", f"TestTraps/19|{C}Memory/UnusedSlotsAndPageEntries"),
    "20": ("tiles over several pages", f"TestTraps/20|{C}Memory/ValuesOfOneTileOnManyPages"),
    "21": ("append at capacity", "TestTrapCapacity"),
    "22": ("keys and values interleaved, and other strides", f"TestTrapStrides|{C}Memory/KeysAndValuesInterleaved"),
    "23": ("softcap of large scores", f"TestTraps/23|{C}Rule/SoftcapOfHugeScores"),
    "24": ("softcap before the mask", f"TestTraps/24|{C}Rule/SoftcapGivesMaskedKeysNoWeight"),
    "25": ("scales on every path", f"TestTraps/25|{C}Quantised/"),
    "26": ("weights beyond an 8-bit type", "TestTraps/26"),
    "27": ("scales that overflow an f16 query", f"TestTraps/27|{C}Quantised/.*LargeQueriesTimesScales"),
    "28": ("large values, long sums", f"TestTraps/28|{C}Numbers/(LargeHalfValues|ManyEqualTerms)"),
    "29": ("replays at other lengths, windows and scales", "TestTrapReplays|TestReplay"),
    "30": ("numbers of threads", None),
    "sweep of lengths": ("", f"{C}Sweep/(Lengths|Batches)"),
    "sweep of query lengths, page sizes, heads and groups": ("", f"{C}Sweep/(QueryLengths|PageSizes|Heads)"),
    "sweep of head dims": ("", f"{C}Sweep/Dims|{C}Quantised/.*EveryDim"),
    "sweep of windows, softcap and sinks": ("", f"{C}Sweep/Windows|{C}Rule/S(inks|oftcapOfHugeScores)"),
    "every number of splits": ("", f"{C}Law/AnySplitEqualsDirect|{C}Quantised/.*EverySplit"),
    "masked rows at borders, empty sequences and splits": ("", f"{C}Rule/MaskHides|{C}Empty/"),
    "poison in unused slots and table entries": ("", f"{C}Memory/UnusedSlotsAndPageEntries"),
    "a constant added to all scores; pages in another order": ("", f"{C}Law/AddedConstantShiftsOnlyTheLSE|{C}Bits/PagesDoNotMatter"),
    "offsets beyond 2^31 and 2^32 elements": ("", "TestTrapOffsets"),
    "zero, negative and subnormal scales": ("", f"{C}Quantised/.*(ZeroScales|SubnormalScales)|TestRandomSteps"),
    "tolerances": ("", f"{C}Sweep/Types|{C}Numbers/"),
}
ELSEWHERE = "a matter of a processor's threads: the CPU backend's tests"


def run_cases(verdicts):
    """Each case with the tests that try it, and whether they passed."""
    cases = []
    for name, (what, tests) in CASES.items():
        case = dict(case=name, what=what)
        if tests is None:
            case["not_run"] = ELSEWHERE
        else:
            ran = {test: verdict for test, verdict in verdicts.items() if re.match(tests, test) and verdict != "SKIP"}
            case.update(tests=tests, passed=sum(v == "PASS" for v in ran.values()), failed=[t for t, v in ran.items() if v == "FAIL"])
            case["ok"] = case["passed"] > 0 and not case["failed"]
        cases.append(case)
    return cases


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
        step["verdicts"] = {name: v for v, name in verdicts}
    if "verify" in command:
        step["verified"] = json.loads(p.stdout.strip().splitlines()[-1])
    if "sanitizer" in command:
        step["summary"] = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", text)
        step["ok"] = step["ok"] and all(re.match(r"\w+ SUMMARY: 0 ", s) for s in step["summary"]) and bool(step["summary"])
    if not step["ok"]:
        step["tail"] = text[-3000:]
    print(("ok    " if step["ok"] else "FAILED"), f"{step['seconds']:6.1f} s", what, flush=True)
    return step


def device(folder):
    """The first GPU's name and driver. What is missing ends the program, in a line."""
    for program in ["nvidia-smi", "compute-sanitizer"] + [os.path.join(folder, p) for p in ("cuda.test", "public.test", "gpubench.test", "flashdec")]:
        if not shutil.which(program):
            raise SystemExit(f"{__file__}: no {program}; what it wants stands at its head")
    asked = subprocess.run("nvidia-smi --query-gpu=name,driver_version --format=csv,noheader", shell=True, capture_output=True, text=True)
    if asked.returncode != 0 or not asked.stdout.strip():
        raise SystemExit(f"{__file__}: nvidia-smi finds no GPU: {(asked.stdout + asked.stderr).strip().splitlines()[:1]}")
    return asked.stdout.strip().splitlines()[0].split(", ")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--commit", required=True)
    args.add_argument("--out", required=True)
    args.add_argument("--dir", default=".", help="where the programs are")
    args = args.parse_args()
    name, driver = device(args.dir)
    steps = [run(what, command.format(dir=args.dir)) for what, command in STEPS]
    cases = run_cases({name: v for s in steps for name, v in s.pop("verdicts", {}).items()})
    for c in cases:
        if not c.get("ok", True):
            print("FAILED case", c["case"], c["what"], c["failed"] or "no test ran")
    ok = all(s["ok"] for s in steps) and all(c.get("ok", True) for c in cases)
    with open(args.out, "w") as f:
        json.dump(dict(ok=ok, commit=args.commit, device=name, driver=driver, command="python3 bench/evidence_gpu.py", steps=steps, cases=cases), f, indent=1)
        f.write("\n")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
