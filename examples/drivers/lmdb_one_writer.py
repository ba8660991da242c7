"""LMDB by Python's binding as a driver for Margay (docs/EXEC.md): one writer at a time, snapshots for readers.

    margay run 'exec:python3 examples/drivers/lmdb_one_writer.py store.lmdb' --workload mixed
"""
import json, sys

import lmdb

store = lmdb.open(sys.argv[1], map_size=1 << 28, sync=False)
open_now = None


def answer(ask):
    global open_now
    op, key = ask["op"], ask.get("key", "").encode()
    if op == "hello":
        version = ".".join(map(str, lmdb.version()))
        return {"name": "lmdb", "version": version, "levels": ["WRITER"], "promises": ["strict-serializable"],
                "scans": True}
    if op == "begin":
        open_now = store.begin(write=not ask["reading"])
    if op == "read":
        found = open_now.get(key)
        return {"value": found and found.decode() if found != b"" else ""}
    if op == "write":
        open_now.delete(key) if ask["value"] is None else open_now.put(key, ask["value"].encode())
    if op == "scan":
        cursor, pairs = open_now.cursor(), []
        found = cursor.set_range(ask["from"].encode())
        while found and cursor.key() < ask["to"].encode():
            pairs.append([cursor.key().decode(), cursor.value().decode()])
            found = cursor.next()
        return {"pairs": pairs}
    if op in ("commit", "rollback") and open_now:
        open_now.commit() if op == "commit" else open_now.abort()
        open_now = None
    return {}


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
