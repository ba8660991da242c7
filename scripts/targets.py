"""The databases that scripts/matrix and scripts/campaign run: how each is started, and what it can be asked.

What is not installed is left out: `Target.missing` says why. Python's packages are looked for in the folder that
`./test clients` makes, or where the Python that MARGAY_PYTHON names has them.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DRIVERS = ROOT / "examples" / "drivers"
SERVE = ROOT / "target/release/examples/serve"
JARS = pathlib.Path("/usr/share/java")
LIBRARIES = pathlib.Path("usr/lib/x86_64-linux-gnu")
FIREBIRD = "/" / LIBRARIES / "firebird/3.0"
FIREBIRD_LEVELS = ["SNAPSHOT", "TABLE STABILITY", "READ COMMITTED"]
LOCKING = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]


# Workloads that stores of keys and values cannot run.
SQL = {"blindw-rw-plus", "blindw-pred", "smallbank", "tpcc", "c-twitter", "rubis", "bank-server"}
RANDOM = ("random-sql", "random-sql-reuse")
SQL |= set(RANDOM)
APPENDS = {"list-append", "mixed", "emme-predicate"}


@dataclasses.dataclass
class Target:
    """A database: how its arguments of `margay run` are made, and what it can do."""

    name: str
    start: object  # a context manager that yields the arguments
    levels: list = dataclasses.field(default_factory=lambda: [None])
    sql: bool = True
    recovery: bool = False
    faults: tuple = ()
    needs: object = lambda: None  # says what is missing
    without: tuple = ()  # workloads that it cannot run, for a reason that docs/EXEC.md tells
    weak: tuple = ()  # levels that may lose updates: appends of stores of keys are not run there
    found: tuple = ()  # workloads that may find what docs/FINDINGS.md tells
    # A few transactions each: every statement goes through a pipe, or a process of Java.
    slow: bool = False
    serve: object = None  # like `start`, but one start serves many runs

    def for_many(self):
        """Starts it for many runs, if that can be done and the program for it was built."""
        return self.serve() if self.serve and SERVE.exists() else self.start()

    def runs(self, workload, level):
        """Whether the workload can be run at this level."""
        of_sql = workload in SQL and not self.sql
        appends = workload in APPENDS and level in self.weak
        return not of_sql and not appends and workload not in self.without

    def missing(self, margay):
        """Why it cannot be run here, or None."""
        if self.needs():
            return self.needs()
        with self.start() as arguments:
            command = [margay, "run", *arguments, "--workload", "increment", "--transactions", "1", "--no-report"]
            told = subprocess.run(command, capture_output=True, text=True, timeout=120).stderr
        return next((why for why in ("not installed", "built without") if why in told), None)


def python():
    own = ROOT / "target" / "clients" / "bin" / "python3"
    return os.environ.get("MARGAY_PYTHON") or (str(own) if own.exists() else "python3")


def lacks_program(name):
    return lambda: None if shutil.which(name) else f"{name} is not installed"


def lacks_module(name):
    def lacks():
        found = subprocess.run([python(), "-c", f"import {name}"], capture_output=True).returncode == 0
        return None if found else f"Python has no {name}"

    return lacks


def lacks_file(path):
    return lambda: None if path.exists() else f"{path} is missing"


def all_of(*needs):
    return lambda: next((why for why in (need() for need in needs) if why), None)


@contextlib.contextmanager
def plain(*arguments):
    yield list(arguments)


@contextlib.contextmanager
def folder():
    place = tempfile.mkdtemp(prefix="margay-target-")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def small_disk():
    """SQLite on a disk that is full after a few hundred transactions."""
    with folder() as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
        try:
            yield [f"sqlite:{place}/x.sqlite"]
        finally:
            subprocess.run(["umount", place], check=True)


@contextlib.contextmanager
def server(command):
    """Starts a server on a free port, which stands in its command as PORT, and waits until it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen([part.replace("PORT", str(port)) for part in command], stdout=quiet, stderr=quiet)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or child.poll() is not None:
                    raise RuntimeError(f"{command[0]} does not listen") from None
                time.sleep(0.05)
        yield port
    finally:
        child.kill()
        child.wait()


def script(name, *arguments):
    return " ".join(["exec:" + python(), str(DRIVERS / name), *map(str, arguments)])


@contextlib.contextmanager
def in_folder(name, file):
    """A driver in Python that keeps its data in a file."""
    with folder() as place:
        yield [script(name, f"{place}/{file}")]


@contextlib.contextmanager
def redis(program="redis-server"):
    with server(f"{program} --port PORT --bind 127.0.0.1 --appendonly no --save".split() + [""]) as port:
        yield [script("redis_watch.py", port)]


@contextlib.contextmanager
def etcd():
    url = "http://127.0.0.1:PORT"
    with folder() as place:
        command = f"etcd --data-dir {place} --listen-client-urls {url} --advertise-client-urls {url}"
        command += " --listen-peer-urls http://127.0.0.1:0 --log-level error --max-txn-ops 20000"
        with server(command.split()) as port:
            yield [script("etcd.py", port)]


@contextlib.contextmanager
def jdbc(jar, name, url, promise="snapshot-isolation", keys=""):
    with folder() as place:
        subprocess.run(["javac", "-d", place, str(DRIVERS / "Jdbc.java")], check=True)
        url = url.replace("FOLDER", place)
        java = f"exec:java -Xshare:auto -XX:TieredStopAtLevel=1 -cp {JARS / jar}:{place}"
        yield [f'{java} Jdbc {name} "{url}" {keys}', "--promises", promise]


@contextlib.contextmanager
def hsqldb():
    database = "mem:x;hsqldb.tx=mvcc;sql.syntax_mys=true;user=sa"
    command = ["java", "-cp", str(JARS / "hsqldb.jar"), "org.hsqldb.server.Server", "--database.0", database]
    command += "--dbname.0 x --port PORT --address 127.0.0.1 --silent true".split()
    with server(command) as port, jdbc("hsqldb.jar", "hsqldb", f"jdbc:hsqldb:hsql://127.0.0.1:{port}/x") as arguments:
        yield arguments


@contextlib.contextmanager
def derby():
    """Its clients find out about deadlocks after a second, not after twenty."""
    with folder() as place:
        command = f"java -Dderby.system.home={place} -Dderby.locks.deadlockTimeout=1 -Dderby.locks.waitTimeout=2"
        command += f" -cp {JARS}/derby.jar:{JARS}/derbynet.jar org.apache.derby.drda.NetworkServerControl"
        command += " start -h 127.0.0.1 -p PORT -noSecurityManager"
        with server(command.split()) as port:
            url = f"jdbc:derby://127.0.0.1:{port}/x;create=true"
            with jdbc("derbyclient.jar", "derby", url, "serializable", "keys") as arguments:
                yield arguments


@contextlib.contextmanager
def firebird(installed=FIREBIRD, engine="Engine12", interpreter=None):
    """Without a server: several processes share a file, which wants a configuration of its own."""
    with folder() as place:
        # Links will not do: Firebird 4 loads no plugin that is elsewhere than its name says.
        for part in installed.iterdir():
            if part.is_dir():
                shutil.copytree(part, f"{place}/{part.name}", ignore_dangling_symlinks=True)
            elif part.exists() and part.name != "firebird.conf":
                shutil.copy(part, place)
        (pathlib.Path(place) / "firebird.conf").write_text(f"ServerMode = Classic\nProviders = {engine}\n")
        settings = f"env FIREBIRD={place} FIREBIRD_LOCK={place} FIREBIRD_TMP={place}"
        yield [f"exec:{settings} {interpreter or python()} {DRIVERS}/firebird_pairs.py {place}/x.fdb"]


def firebird_4(root):
    """Firebird of scripts/servers. Python loads its engine, and therefore runs by the loader of its root."""
    libraries, real = root.resolve() / LIBRARIES, os.path.realpath(shutil.which(python()))
    loader = f"{libraries}/ld-linux-x86-64.so.2 --library-path {libraries} --argv0 {python()}"
    return firebird(libraries / "firebird/4.0", "Engine13", f"{loader} {real}")


@contextlib.contextmanager
def seekdb():
    program = "import pylibseekdb as s; s.open('db'); print(s.connection_options()['unix_socket'], flush=True); input()"
    pipe = subprocess.PIPE
    with folder() as place:
        child = subprocess.Popen([python(), "-c", program], cwd=place, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        try:
            yield ["mysql://root@localhost/test?socket=" + child.stdout.readline().decode().strip()]
        finally:
            child.kill()
            child.wait()


@contextlib.contextmanager
def go():
    with folder() as place:
        subprocess.run(["go", "build", "-o", f"{place}/toy", str(DRIVERS / "toy.go")], check=True)
        yield [f"exec:{place}/toy {place}/data"]


@contextlib.contextmanager
def serving(*kind):
    """A server that the example of crates/servers starts, for many runs."""
    pipe = subprocess.PIPE
    with subprocess.Popen([SERVE, *kind], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            url = child.stdout.readline().strip()
            if not url:
                raise RuntimeError(child.stderr.read().strip())
            yield [url]
        finally:
            child.stdin.close()


def started(kind, levels, fetched):
    """A server of `--start`: the installed one, and those that scripts/servers has fetched."""
    faults = ("kill=1s" if kind == "postgres" else "kill=2s", "pause=1s", "disconnect=500ms")
    yield Target(kind, lambda: plain("--start", kind), levels, recovery=True, faults=faults, serve=lambda: serving(kind))
    for root in sorted(fetched.glob(f"{kind}*/.complete")):
        place = root.parent
        start = lambda place=place: plain("--start", kind, "--binaries", str(place))
        name = f"{kind}-fetched" if place.name == kind else place.name
        serve = lambda place=place: serving(kind, str(place))
        yield Target(name, start, levels, recovery=True, faults=faults, serve=serve)


def targets(fetched=ROOT / "target" / "servers"):
    """All that are known, by name."""
    known = [
        *started("postgres", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"], fetched),
        *started("mariadb", LOCKING, fetched),
        *started("mysql", LOCKING, fetched),
        Target("sqlite", lambda: plain("sqlite"), ["SERIALIZABLE", "WAL"]),
        Target("sqlite-immediate", lambda: plain("sqlite:?begin=immediate"), ["SERIALIZABLE", "WAL"]),
        Target("sqlite-small-disk", small_disk, ["SERIALIZABLE", "WAL"],
               needs=lambda: None if os.geteuid() == 0 else "only root mounts a small disk"),
        Target("sqlite-shared", lambda: plain("sqlite:?cache=shared"), ["SERIALIZABLE", "WAL"]),
        *(Target(store, lambda store=store: plain(store), sql=False) for store in ["fjall", "redb", "surrealkv"]),
        Target("h2", lambda: jdbc("h2.jar", "h2", "jdbc:h2:FOLDER/x;AUTO_SERVER=TRUE;MODE=MySQL"),
               needs=all_of(lacks_program("javac"), lacks_file(JARS / "h2.jar")), slow=True,
               without=("mixed", "predicate", "list-append", *RANDOM)),
        Target("hsqldb", hsqldb, needs=all_of(lacks_program("javac"), lacks_file(JARS / "hsqldb.jar")),
               slow=True, without=RANDOM),
        Target("derby", derby, sql=False, slow=True,
               needs=all_of(lacks_program("javac"), lacks_file(JARS / "derbynet.jar"), lacks_file(JARS / "derbyclient.jar"))),
        Target("valkey", lambda: redis(fetched / "valkey/usr/bin/valkey-server"), sql=False, slow=True,
               needs=all_of(lacks_file(fetched / "valkey/.complete"), lacks_module("redis"))),
        Target("redis", redis, sql=False, slow=True, needs=all_of(lacks_program("redis-server"), lacks_module("redis"))),
        Target("etcd", etcd, sql=False, slow=True, needs=lacks_program("etcd")),
        Target("lmdb", lambda: in_folder("lmdb_one_writer.py", "x.lmdb"), sql=False, slow=True, needs=lacks_module("lmdb")),
        Target("firebird", firebird, FIREBIRD_LEVELS, sql=False, slow=True,
               weak=("READ COMMITTED",),
               needs=all_of(lacks_module("firebird.driver"), lacks_file(FIREBIRD))),
        Target("firebird-4", lambda: firebird_4(fetched / "firebird-4"), FIREBIRD_LEVELS, sql=False, slow=True,
               weak=("READ COMMITTED",),
               needs=all_of(lacks_module("firebird.driver"), lacks_file(fetched / "firebird-4/.complete"))),
        Target("seekdb", seekdb, ["READ COMMITTED", "REPEATABLE READ"], needs=lacks_module("pylibseekdb")),
        Target("duckdb-2", lambda: in_folder("duckdb_shared.py", "x.duckdb"), slow=True,
               found=("predicate", "mixed", "tpcc"), needs=lacks_module("duckdb")),
        Target("toy-go", go, sql=False, slow=True, needs=lacks_program("go")),
    ]
    return {target.name: target for target in known}
