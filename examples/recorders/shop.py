"""Two customers buy the last items of a shop in SQLite; what they saw is recorded.

    python3 examples/recorders/shop.py shop.jsonl && margay check shop.jsonl --level serializable

The shop reads the stock, and writes one less: without a transaction around both, an item is sold twice. With
the argument `careful` there is one.
"""
import sqlite3
import sys
import tempfile

from recorder import Recorder

path, careful = sys.argv[1], "careful" in sys.argv
folder = tempfile.TemporaryDirectory()
connect = lambda: sqlite3.connect(folder.name + "/shop.db", isolation_level=None, timeout=0.1)
connect().executescript("CREATE TABLE stock (item TEXT PRIMARY KEY, n INT); INSERT INTO stock VALUES ('tea', 10)")
recorder = Recorder(path, initial=[(("stock", "tea"), {"n": 10})])
TEA = ("stock", "tea")


class Customer:
    def __init__(self):
        self.database, self.session = connect(), recorder.session()

    def look(self):
        begin = "BEGIN IMMEDIATE" if careful else "SELECT 1"
        self.txn = self.session.begin(lambda: self.database.execute(begin))
        query = "SELECT n FROM stock WHERE item = 'tea'"
        found = self.txn.read(TEA, lambda: {"n": self.database.execute(query).fetchone()[0]})
        self.left = found["n"] - 1

    def buy(self):
        statement = "UPDATE stock SET n = ? WHERE item = 'tea'"
        self.txn.write(TEA, {"n": self.left}, lambda: self.database.execute(statement, [self.left]))
        commit = "COMMIT" if careful else "SELECT 1"
        self.txn.commit(lambda: self.database.execute(commit))


one, other = Customer(), Customer()
one.look()
try:
    other.look()
except sqlite3.OperationalError:  # The careful shop lets nobody look meanwhile.
    one.buy()
    other.look()
else:
    one.buy()
other.buy()
