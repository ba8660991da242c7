"""Redis or Valkey by redis-py as a driver for Margay (docs/EXEC.md): WATCH what is read, write by MULTI and EXEC.

    margay run 'exec:python3 examples/drivers/redis_watch.py 6379' --workload increment

With the argument `careless` it watches nothing, as applications do that take MULTI for a transaction.
"""
import json, sys

import redis

redis_now = redis.Redis(port=int(sys.argv[1]), decode_responses=True)
store = redis_now.pipeline()
written = {}


def answer(ask):
    op, key = ask["op"], ask.get("key")
    if op == "hello":
        server = redis_now.info()
        valkey = f" (Valkey {server['valkey_version']})" if "valkey_version" in server else ""
        return {"name": "redis", "version": server["redis_version"] + valkey, "levels": ["WATCH"],
                "promises": ["strict-serializable"]}
    if op == "read":
        if key in written:
            return {"value": written[key]}
        if "careless" not in sys.argv:
            store.watch(key)
        return {"value": store.get(key) if store.watching else redis_now.get(key)}
    if op == "write":
        written[key] = ask["value"]
        return {}
    try:
        if op == "commit":
            store.multi()
            for key, value in written.items():
                store.delete(key) if value is None else store.set(key, value)
            store.ping()  # Also who only reads wants to know whether something has changed since.
            store.execute()
        return {}
    except redis.WatchError:
        return {"refused": "somebody has changed what was read"}
    finally:
        store.reset()
        written.clear()


for line in sys.stdin:
    try:
        told = answer(json.loads(line))
    except redis.ConnectionError as error:
        told = {"lost": str(error)}
    print(json.dumps(told), flush=True)
