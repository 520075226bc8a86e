#!/usr/bin/env python3
"""wrk as the load generator of `quadrille run-one`, by QUADRILLE_GENERATOR=crates/bench/wrk.py.

A closed loop over as many connections as the order says, by one thread, for whole seconds. Latencies are wrk's own. The
protocol is that of src/generate: `begin` once the server is warm, a line of the server's process, then what was seen.
"""
import json
import re
import subprocess
import sys

UNITS = {"us": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}


def wrk(address, connections, seconds):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency", f"http://{address}/"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wrong = re.search(r"Non-2xx or 3xx responses|Socket errors", said)
    if wrong:
        sys.exit(f"wrk.py: {said}")
    requests, seconds = re.search(r"(\d+) requests in ([\d.]+)s", said).groups()
    latency = {}
    for part, number, unit in re.findall(r"(\d+)%\s+([\d.]+)(us|ms|s|m)\b", said):
        latency[int(part)] = int(float(number) * UNITS[unit])
    number, unit = re.search(r"Latency\s+\S+\s+\S+\s+([\d.]+)(us|ms|s|m)\b", said).groups()
    return int(requests), float(seconds), latency, int(float(number) * UNITS[unit])


def main():
    command, order = sys.argv[1], json.loads(sys.argv[2])
    serve = order["serve"]
    if command != "generate" or serve["service"] != "http" or serve["rate"] != 0:
        sys.exit("wrk.py: HTTP in a closed loop is what wrk can do")
    wrk(order["address"], serve["connections"], 1)
    print("begin", flush=True)
    sys.stdin.readline()
    seconds = max(1, serve["millis"] // 1000)
    requests, seconds, latency, longest = wrk(order["address"], serve["connections"], seconds)
    counters = {"p50_ns": latency[50], "p99_ns": latency[99]}
    print(json.dumps({"requests": requests, "wall_ns": int(seconds * 1e9), "longest_ns": longest, "counters": counters}))


main()
