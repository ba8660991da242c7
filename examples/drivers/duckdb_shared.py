"""DuckDB by its Python package as a driver for Margay (docs/EXEC.md).

    margay run 'exec:python3 examples/drivers/duckdb_shared.py x.duckdb' --workload predicate

One process at a time may open a DuckDB file. So the first client serves the others, over a socket beside the file.
"""
import fcntl, json, os, socket, sys, threading

import duckdb

PATH = sys.argv[1]


def answer(cursor, ask):
    op = ask["op"]
    if op == "hello":
        return {"name": "duckdb", "version": duckdb.__version__, "levels": ["SNAPSHOT"],
                "promises": ["snapshot-isolation"], "speaks": "sql", "parameters": "$1", "returning": True}
    if op != "sql":
        try:
            cursor.execute(op)
        except duckdb.TransactionException:
            if op == "commit":
                raise
        return {}
    text = ask["text"].removesuffix(" FOR UPDATE")
    result = cursor.execute(text, ask["params"])
    rows = result.fetchall() if result.description else []
    if [column[0] for column in result.description or []] == ["Count"]:
        return {"count": rows[0][0] if rows else 0}
    plain = lambda cell: cell if cell is None or isinstance(cell, (int, str)) else str(cell)
    return {"rows": [[plain(cell) for cell in row] for row in rows]}


def serve(database, connection):
    cursor, lines = database.cursor(), connection.makefile("rw")
    for line in lines:
        try:
            told = answer(cursor, json.loads(line))
        except (duckdb.TransactionException, duckdb.ConstraintException) as error:
            told = {"refused": str(error)}
        except duckdb.Error as error:
            told = {"failed": str(error)}
        lines.write(json.dumps(told) + "\n")
        lines.flush()


def host():
    """Serves whoever comes, until this process ends and nobody is left."""
    if os.path.exists(PATH + ".sock"):
        os.remove(PATH + ".sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(PATH + ".sock")
    listener.listen(64)
    database = duckdb.connect(PATH)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(database, connection)).start()

    threading.Thread(target=accept, daemon=True).start()


turn = open(PATH + ".lock", "w")
try:
    fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    host()
except BlockingIOError:
    pass  # Another client has it.
server = socket.socket(socket.AF_UNIX)
for _ in range(100):
    try:
        server.connect(PATH + ".sock")
        break
    except OSError:
        threading.Event().wait(0.1)
talk = server.makefile("rw")
for line in sys.stdin:
    talk.write(line)
    talk.flush()
    print(talk.readline(), end="", flush=True)
talk.close()
server.close()
for thread in threading.enumerate():
    if not thread.daemon and thread is not threading.main_thread():
        thread.join()  # Others are still served.
os._exit(0)  # At its usual end, the package lists what it did not free.
