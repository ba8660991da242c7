"""Records what your application saw, for `margay check` (docs/RECORD.md). One file, nothing but Python: paste it in.

    recorder = Recorder("history.jsonl", initial=[("x", 0)])
    session = recorder.session()                  # one per client: a thread, a connection
    txn = session.begin(lambda: db.begin())
    x = txn.read("x", lambda: db.get("x"))        # calls, records, returns what the call returned
    txn.write("x", x + 1, lambda: db.put("x", x + 1))
    txn.commit(lambda: db.commit(), refused=(Conflict,))

An object is a key, or `(table, key)` for a row, whose value is a dictionary of columns.
"""
import itertools
import json
import threading
import time


class Recorder:
    def __init__(self, path, initial=(), **header):
        """`initial` lists (object, value): what is there before the first transaction. `header` may have
        `dbms`, `level`, `tables` (docs/FORMAT.md)."""
        self.file = open(path, "w")
        self.lock = threading.Lock()
        self.sessions, self.txns = itertools.count(), itertools.count()
        self.put({"margay": 1, "unit": "ns", **header, "initial": [[plain(o), v] for o, v in initial]})

    def put(self, line):
        with self.lock:
            self.file.write(json.dumps(line) + "\n")
            self.file.flush()

    def session(self):
        return Session(self)


class Session:
    """One client, which does one thing after another."""

    def __init__(self, recorder):
        self.recorder, self.number = recorder, next(recorder.sessions)

    def begin(self, call=lambda: None):
        txn = Transaction(self.recorder, self.number, next(self.recorder.txns))
        txn.called(call, lambda _: {"begin": True})
        return txn


class Transaction:
    def __init__(self, recorder, session, number):
        self.recorder, self.names = recorder, {"session": session, "txn": number}

    def called(self, call, told, failed=None):
        """Calls, and records what `told` makes of the answer, or `failed` if there was none."""
        before = time.monotonic_ns()
        try:
            answer = call()
        except BaseException as error:
            line = failed and failed(error)
            if line:
                self.recorder.put({**self.names, "at": [before, time.monotonic_ns()], **line})
            raise
        self.recorder.put({**self.names, "at": [before, time.monotonic_ns()], **told(answer)})
        return answer

    def read(self, key, call):
        return self.called(call, lambda value: {"read": [[plain(key), value]]})

    def write(self, key, value, call=lambda: None):
        """A value of None deletes. Also what was not answered may have been written."""
        line = {"write": [[plain(key), value]]}
        return self.called(call, lambda _: line, lambda _: line)

    def append(self, key, element, call=lambda: None):
        line = {"append": [[plain(key), element]]}
        return self.called(call, lambda _: line, lambda _: line)

    def sql(self, text, params, call):
        """`call` returns the rows of a query, or the count of an update."""
        line = {"sql": text, "params": list(params)}
        told = lambda answer: {"count": answer} if isinstance(answer, int) else {"rows": [list(row) for row in answer]}
        return self.called(call, lambda answer: {**line, **told(answer)}, lambda _: line)

    def commit(self, call=lambda: None, refused=()):
        """After an error of the classes `refused` the transaction has certainly not committed; after any
        other one nobody knows."""
        ended = lambda error: {"abort": True} if isinstance(error, tuple(refused)) else {"unknown": True}
        return self.called(call, lambda _: {"commit": True}, ended)

    def abort(self, call=lambda: None):
        return self.called(call, lambda _: {"abort": True}, lambda _: {"abort": True})


def plain(key):
    return list(key) if isinstance(key, tuple) else key
