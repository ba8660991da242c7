// Two clients count in a row of PostgreSQL; what they saw is recorded. Needs node-postgres: npm install pg
//
//     node examples/recorders/count_in_postgres.js counter.jsonl postgres://user:password@localhost/test "READ COMMITTED"
//
// At READ COMMITTED they lose updates. At REPEATABLE READ and SERIALIZABLE PostgreSQL refuses the second of two.
const { Client } = require("pg");
const { Recorder } = require("./recorder.js");

const [path, url, level] = process.argv.slice(2);
const recorder = new Recorder(path, { initial: [["x", 0]] });
const isRefused = (error) => error.code === "40001"; // The code of a refused transaction: it has not committed.

async function once(database, session) {
  const txn = await session.begin(() => database.query("BEGIN ISOLATION LEVEL " + level));
  try {
    const x = await txn.read("x", async () => (await database.query("SELECT n FROM counter")).rows[0].n);
    await new Promise((go) => setTimeout(go, 2));
    await txn.write("x", x + 1, () => database.query("UPDATE counter SET n = $1", [x + 1]));
  } catch (error) {
    if (!isRefused(error)) throw error;
    return txn.abort(() => database.query("ROLLBACK"));
  }
  // A refused commit is recorded as the end of the transaction.
  await txn.commit(() => database.query("COMMIT"), isRefused).catch((error) => {
    if (!isRefused(error)) throw error;
  });
}

async function count(session) {
  const database = new Client({ connectionString: url });
  await database.connect();
  for (let i = 0; i < 20; i++) await once(database, session);
  await database.end();
}

async function main() {
  const database = new Client({ connectionString: url });
  await database.connect();
  await database.query("DROP TABLE IF EXISTS counter; CREATE TABLE counter (n INT); INSERT INTO counter VALUES (0)");
  await Promise.all([count(recorder.session()), count(recorder.session())]);
  await database.end();
}

main();
