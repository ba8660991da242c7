// Records what your application saw, for `margay check` (docs/RECORD.md). One file, nothing but Node.js: paste it in.
//
//     const recorder = new Recorder("history.jsonl", { initial: [["x", 0]] });
//     const session = recorder.session();                       // one per client
//     const txn = await session.begin(() => db.begin());
//     const x = await txn.read("x", () => db.get("x"));          // calls, records, returns what the call returned
//     await txn.write("x", x + 1, () => db.put("x", x + 1));
//     await txn.commit(() => db.commit(), (error) => error instanceof Conflict);
//
// An object is a key, or [table, key] for a row, whose value is an object of columns.
const fs = require("fs");

const nothing = () => undefined;
// Margay wants nanoseconds as whole numbers, which are exact in JSON; a JavaScript number holds them for 104 days.
const now = () => Number(process.hrtime.bigint());

class Recorder {
  // `header` may have `initial`, `dbms`, `level`, `tables` (docs/FORMAT.md).
  constructor(path, header = {}) {
    this.file = fs.openSync(path, "w");
    this.sessions = this.txns = 0;
    this.put({ margay: 1, unit: "ns", ...header });
  }

  put(line) {
    fs.writeSync(this.file, JSON.stringify(line) + "\n");
  }

  session() {
    return new Session(this, this.sessions++);
  }
}

// One client, which does one thing after another.
class Session {
  constructor(recorder, number) {
    Object.assign(this, { recorder, number });
  }

  async begin(call = nothing) {
    const txn = new Transaction(this.recorder, { session: this.number, txn: this.recorder.txns++ });
    await txn.called(call, () => ({ begin: true }));
    return txn;
  }
}

class Transaction {
  constructor(recorder, names) {
    Object.assign(this, { recorder, names });
  }

  // Calls, and records what `told` makes of the answer, or `failed` if there was none.
  async called(call, told, failed = nothing) {
    const before = now();
    const put = (line) => line && this.recorder.put({ ...this.names, at: [before, now()], ...line });
    let answer;
    try {
      answer = await call();
    } catch (error) {
      put(failed(error));
      throw error;
    }
    put(told(answer));
    return answer;
  }

  read(key, call) {
    return this.called(call, (value) => ({ read: [[key, value ?? null]] }));
  }

  // A value of null deletes. Also what was not answered may have been written.
  write(key, value, call = nothing) {
    const line = () => ({ write: [[key, value]] });
    return this.called(call, line, line);
  }

  append(key, element, call = nothing) {
    const line = () => ({ append: [[key, element]] });
    return this.called(call, line, line);
  }

  // `call` returns the rows of a query, each a list, or the count of an update.
  sql(text, params, call) {
    const told = (answer) => (typeof answer === "number" ? { count: answer } : { rows: answer });
    return this.called(call, (answer) => ({ sql: text, params, ...told(answer) }), () => ({ sql: text, params }));
  }

  // After an error that is refused the transaction has certainly not committed; after any other one nobody knows.
  commit(call = nothing, isRefused = () => false) {
    return this.called(call, () => ({ commit: true }), (e) => (isRefused(e) ? { abort: true } : { unknown: true }));
  }

  abort(call = nothing) {
    const line = () => ({ abort: true });
    return this.called(call, line, line);
  }
}

module.exports = { Recorder };
