"""Queries databases with the questions of the server bench, on the same spans: those of its Parquet files.

    peers.py WHO QUESTIONS FILES ROOM

WHO is duckdb (its own table), duckdb-parquet (the files themselves) or chdb (a MergeTree with a Bloom filter on
trace ids). FILES is the folder of the Parquet files. ROOM is the database's folder: if it is empty, the spans are
loaded into it, otherwise its contents are reused. A line of JSON reports the cost of loading. Then each line
`FROM TO` on standard input selects a range of QUESTIONS, whose results are printed as a line: a list of
[kind, nanoseconds, number of results].
"""

import json
import os
import sys
import time

LIMIT = 20
SHARES = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999]


def size_of(folder):
    """Total size of all files below a folder."""
    walk = os.walk(folder)
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in walk for name in names)


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class DuckDb:
    def __init__(self, files, room, owns):
        import duckdb

        self.room = room
        path = os.path.join(room, "spans.duckdb")
        is_loaded = owns and os.path.exists(path)
        self.connection = duckdb.connect(path if owns else ":memory:")
        source = f"read_parquet({quoted(files + '/**/*.parquet')})"
        if owns and not is_loaded:
            # Statistics of blocks are most selective in time order.
            self.connection.execute(f"CREATE TABLE spans AS SELECT * FROM {source} ORDER BY start_time")
            self.connection.execute("CHECKPOINT")
        elif not owns:
            self.connection.execute(f"CREATE VIEW spans AS SELECT * FROM {source}")
        types = self.connection.execute("DESCRIBE spans").fetchall()
        (self.time_type,) = [row[1] for row in types if row[0] == "start_time"]

    def rows(self):
        return self.connection.execute("SELECT count(*) FROM spans").fetchone()[0]

    def bytes(self):
        return size_of(self.room)

    def moment(self, ns):
        """A literal of the column's type, so that statistics apply."""
        if self.time_type == "TIMESTAMP_NS":
            return f"make_timestamp_ns({ns})"
        return f"make_timestamp({ns // 1000})::{self.time_type}"

    def percentiles(self):
        return f"approx_quantile(duration_ns, {SHARES})"

    def run(self, sql):
        return self.connection.execute(sql).fetchall()


class ChDb:
    def __init__(self, files, room):
        from chdb import session

        is_loaded = bool(os.listdir(room))
        self.session = session.Session(room)
        if not is_loaded:
            self.load(files)
        self.session.query("USE bench")

    def load(self, files):
        source = f"file({quoted(files + '/**/*.parquet')}, Parquet)"
        self.session.query("CREATE DATABASE bench ENGINE = Atomic")
        self.session.query(
            "CREATE TABLE bench.spans ENGINE = MergeTree ORDER BY start_time SETTINGS allow_nullable_key = 1 "
            f"AS SELECT * FROM {source}"
        )
        self.session.query(
            "ALTER TABLE bench.spans ADD INDEX requests trace_id TYPE bloom_filter(0.01) GRANULARITY 1"
        )
        self.session.query(
            "ALTER TABLE bench.spans MATERIALIZE INDEX requests SETTINGS mutations_sync = 2"
        )
        self.session.query("OPTIMIZE TABLE bench.spans FINAL")

    def rows(self):
        return int(self.run("SELECT count() FROM spans")[0][0])

    def bytes(self):
        """Size of the active parts; merged ones are kept for a while."""
        parts = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'bench'"
        return int(self.run(parts)[0][0])

    def moment(self, ns):
        return f"fromUnixTimestamp64Nano({ns})"

    def percentiles(self):
        return f"quantiles({', '.join(str(share) for share in SHARES)})(duration_ns)"

    def run(self, sql):
        lines = str(self.session.query(sql, "TabSeparated")).splitlines()
        return [line.split("\t") for line in lines]


def sql(peer, question):
    kind = question["kind"]
    if kind == "trace":
        return f"SELECT * FROM spans WHERE trace_id = {quoted(question['trace_id'])}"
    start, end = peer.moment(question["start_ns"]), peer.moment(question["end_ns"])
    window = f"start_time >= {start} AND start_time <= {end}"
    if kind == "dependencies":
        # Counts only remote sides recorded by client spans: less work than BlkKin's server does,
        # and no join.
        failed = "CASE WHEN error THEN 1 ELSE 0 END"
        return (
            f"SELECT service, remote_service, count(*), sum({failed}) FROM spans "
            f"WHERE lower(kind) IN ('client', 'producer') AND {window} GROUP BY service, remote_service"
        )
    if kind == "percentiles of each":
        return (
            f"SELECT service, name, count(*), {peer.percentiles()} FROM spans "
            f"WHERE {window} GROUP BY service, name"
        )
    which = f"service = {quoted(question['service'])} AND name = {quoted(question['name'])} AND {window}"
    if kind == "percentiles":
        return f"SELECT count(*), {peer.percentiles()} FROM spans WHERE {which}"
    return (
        "SELECT trace_id, max(start_time) AS began FROM spans "
        f"WHERE {which} AND duration_ns >= {question['duration_ns']} "
        f"GROUP BY trace_id ORDER BY began DESC LIMIT {LIMIT}"
    )


def amount(kind, rows):
    """Number of results as counted for the server; for percentiles, the number of spans."""
    counts = {"percentiles": 0, "percentiles of each": 2}
    return sum(int(row[counts[kind]]) for row in rows) if kind in counts else len(rows)


def main():
    who, questions, files, room = sys.argv[1:]
    with open(questions, encoding="utf-8") as lines:
        questions = [json.loads(line) for line in lines]
    os.makedirs(room, exist_ok=True)
    start = time.monotonic()
    peer = ChDb(files, room) if who == "chdb" else DuckDb(files, room, who == "duckdb")
    seconds = time.monotonic() - start
    ready = {"rows": peer.rows(), "load_seconds": seconds, "bytes": peer.bytes()}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        begin, end = map(int, line.split())
        answers = []
        for question in questions[begin:end]:
            text = sql(peer, question)
            before = time.perf_counter_ns()
            found = peer.run(text)
            ns = time.perf_counter_ns() - before
            answers.append([question["kind"], ns, amount(question["kind"], found)])
        print(json.dumps(answers), flush=True)


main()
