"""PostgreSQL by psycopg 3 as a driver for Margay (docs/EXEC.md). The address is libpq's.

    margay run 'exec:python3 examples/drivers/postgres.py "host=localhost dbname=test"' --level 'REPEATABLE READ'
"""
import json, sys

import psycopg
from psycopg import errors

LEVELS = ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"]
PROMISES = ["serializable", "strict-snapshot-isolation", "read-committed"]
connection = psycopg.connect(sys.argv[1], autocommit=True)


def answer(ask):
    op = ask["op"]
    if op == "hello":
        version = connection.execute("SHOW server_version").fetchone()[0].split()[0]
        return {"name": "postgresql", "version": version, "levels": LEVELS, "promises": PROMISES,
                "speaks": "sql", "parameters": "%s", "returning": True}
    if op == "begin":
        connection.execute("BEGIN ISOLATION LEVEL " + ask["level"])
        return {}
    if op in ("commit", "rollback"):
        ended = connection.execute(op).statusmessage
        return {"refused": "rolled back"} if op == "commit" and ended == "ROLLBACK" else {}
    cursor = connection.execute(ask["text"], ask["params"])
    if cursor.description is None:
        return {"count": max(cursor.rowcount, 0)}
    number = lambda cell: cell if cell is None or isinstance(cell, (int, str)) else str(cell)
    return {"rows": [[number(cell) for cell in row] for row in cursor]}


for line in sys.stdin:
    try:
        told = answer(json.loads(line))
    except (errors.SerializationFailure, errors.DeadlockDetected, errors.IntegrityError) as error:
        told = {"refused": str(error)}
    except psycopg.OperationalError as error:
        told = {"lost": str(error)}
    except psycopg.Error as error:
        told = {"failed": str(error)}
    print(json.dumps(told), flush=True)
