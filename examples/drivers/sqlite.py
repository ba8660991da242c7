"""SQLite by Python's own module as a driver for Margay (docs/EXEC.md).

    margay run 'exec:python3 examples/drivers/sqlite.py some.db' --workload smallbank
"""
import json, sqlite3, sys

database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)


def answer(ask):
    op = ask["op"]
    if op == "hello":
        return {"name": "sqlite", "version": sqlite3.sqlite_version, "levels": ["SERIALIZABLE"],
                "promises": ["strict-serializable"], "speaks": "sql", "returning": True}
    if op in ("commit", "rollback"):
        if database.in_transaction:
            database.execute(op)
        return {}
    if op == "begin":
        database.execute("begin immediate")
        return {}
    cursor = database.execute(ask["text"].removesuffix(" FOR UPDATE"), ask["params"])
    return {"rows": cursor.fetchall()} if cursor.description else {"count": cursor.rowcount}


for line in sys.stdin:
    try:
        told = answer(json.loads(line))
    except (sqlite3.OperationalError, sqlite3.IntegrityError) as error:
        # What is locked or already there is refused; anything else no run can go on with.
        refused = "locked" in str(error) or isinstance(error, sqlite3.IntegrityError)
        told = {"refused" if refused else "failed": str(error)}
    print(json.dumps(told), flush=True)
