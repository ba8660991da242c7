"""Firebird by firebird-driver as a driver for Margay (docs/EXEC.md): keys and values in one table.

    margay run 'exec:python3 examples/drivers/firebird_pairs.py store.fdb' --level SNAPSHOT

Without a server, Firebird itself runs in every client: `ServerMode = Classic` in firebird.conf lets them share a file.
"""
import json, os, sys

from firebird.driver import DatabaseError, Isolation, connect, create_database, tpb

LEVELS = {"SNAPSHOT": ("strict-snapshot-isolation", Isolation.SNAPSHOT),
          "TABLE STABILITY": ("strict-snapshot-isolation", Isolation.SERIALIZABLE),
          "READ COMMITTED": ("read-committed", Isolation.READ_COMMITTED_RECORD_VERSION)}
GONE = ("40001", "40002")  # deadlocks, conflicts of updates, locks that took too long


def opened(path):
    if not os.path.exists(path):
        try:
            with create_database(path, user="SYSDBA") as new:
                new.execute_immediate(
                    "CREATE TABLE pairs (k VARCHAR(60) CHARACTER SET ASCII PRIMARY KEY, v VARCHAR(8000))")
                new.commit()
        except DatabaseError:
            pass  # Another client was faster.
    return connect(path, user="SYSDBA")


database, txn = opened(sys.argv[1]), None


def answer(ask):
    global txn
    op, key = ask["op"], ask.get("key")
    if op == "hello":
        return {"name": "firebird", "version": database.info.version, "levels": list(LEVELS),
                "promises": [level[0] for level in LEVELS.values()], "scans": True}
    if op == "begin":
        patience = 0 if ask["level"] == "TABLE STABILITY" else 2  # Seconds; tables that are locked are locked long.
        txn = database.transaction_manager(tpb(LEVELS[ask["level"]][1], lock_timeout=patience))
        txn.begin()
        return {}
    if op in ("commit", "rollback"):
        if txn and txn.is_active():
            getattr(txn, op)()
        return {}
    cursor = txn.cursor()
    if op == "scan":
        cursor.execute("SELECT k, v FROM pairs WHERE k >= ? AND k < ? ORDER BY k", (ask["from"], ask["to"]))
        return {"pairs": cursor.fetchall()}
    if op == "read":
        row = cursor.execute("SELECT v FROM pairs WHERE k = ?", (key,)).fetchone()
        return {"value": row[0] if row else None}
    if ask["value"] is None:
        cursor.execute("DELETE FROM pairs WHERE k = ?", (key,))
    else:
        cursor.execute("UPDATE OR INSERT INTO pairs (k, v) VALUES (?, ?) MATCHING (k)", (key, ask["value"]))
    return {}


for line in sys.stdin:
    try:
        told = answer(json.loads(line))
    except DatabaseError as error:
        raced = any(words in str(error) for words in ("violation of PRIMARY", "erased record"))
        told = {"refused" if error.sqlstate in GONE or raced else "failed": str(error)}
    print(json.dumps(told), flush=True)
database.close()
