"""etcd by its JSON gateway as a driver for Margay (docs/EXEC.md): reads at one revision, and a commit that compares.

    margay run 'exec:python3 examples/drivers/etcd.py 2379' --workload increment

The first transaction of a run writes all keys. etcd allows 128 writes in a transaction: for workloads with more keys,
start it with --max-txn-ops 20000.
"""
import base64, json, sys, urllib.error, urllib.request

encode = lambda text: base64.b64encode(text.encode()).decode()
decode = lambda text: base64.b64decode(text or "").decode()
revision, read, written = 0, {}, {}


def call(what, body):
    url = f"http://127.0.0.1:{sys.argv[1]}/v3/{what}"
    request = urllib.request.Request(url, json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request, timeout=20))


def get(key):
    found = call("kv/range", {"key": encode(key), "revision": revision}).get("kvs", [])
    read[key] = found[0]["mod_revision"] if found else "0"
    return decode(found[0].get("value")) if found else None


def commit():
    compare = [{"key": encode(key), "target": "MOD", "result": "EQUAL", "mod_revision": at} for key, at in read.items()]
    put = lambda key, value: {"request_put": {"key": encode(key), "value": encode(value)}}
    remove = lambda key: {"request_delete_range": {"key": encode(key)}}
    writes = [put(key, value) if value is not None else remove(key) for key, value in written.items()]
    return call("kv/txn", {"compare": compare, "success": writes}).get("succeeded", not compare)


def answer(ask):
    global revision
    op, key = ask["op"], ask.get("key")
    if op == "hello":
        version = call("maintenance/status", {})["version"]
        return {"name": "etcd", "version": version, "levels": ["TXN"], "promises": ["strict-serializable"]}
    if op == "read":
        return {"value": written[key] if key in written else get(key)}
    if op == "write":
        written[key] = ask["value"]
        return {}
    if op == "begin":
        revision = call("kv/range", {"key": encode("margay")})["header"]["revision"]
    refused = op == "commit" and not commit()
    read.clear(), written.clear()
    return {"refused": "something that was read has changed"} if refused else {}


for line in sys.stdin:
    try:
        told = answer(json.loads(line))
    except urllib.error.HTTPError as error:
        told = {"failed": error.read().decode()}
    except OSError as error:
        told = {"lost": str(error)}
    print(json.dumps(told), flush=True)
