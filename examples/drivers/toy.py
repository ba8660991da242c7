"""A store in a file as a driver for Margay (docs/EXEC.md). It loses updates unless it is told to be careful.

    margay run 'exec:python3 examples/drivers/toy.py toy.json' --workload increment
    margay run 'exec:python3 examples/drivers/toy.py toy.json careful' --workload increment
"""
import fcntl, json, os, sys

path, careful = sys.argv[1], "careful" in sys.argv
snapshot, written = {}, {}


def load():
    return json.load(open(path)) if os.path.exists(path) else {}


def answer(ask):
    op, key = ask["op"], ask.get("key")
    if op == "hello":
        return {"name": "toy", "version": "1", "levels": ["SNAPSHOT"], "promises": ["snapshot-isolation"]}
    if op == "read":
        return {"value": written.get(key, snapshot.get(key))}
    if op == "write":
        written[key] = ask["value"]
        return {}
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        now = load()
        changed = any(now.get(key) != snapshot.get(key) for key in written)
        if op == "commit" and written and not (careful and changed):
            with open(path + ".new", "w") as file:
                json.dump({**now, **written}, file)
            os.replace(path + ".new", path)
    refused = op == "commit" and careful and changed
    snapshot.clear(), written.clear(), snapshot.update(now)
    return {"refused": "somebody else has written it"} if refused else {}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
