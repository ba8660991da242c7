// Two clients count in a map, with waits in between; what they saw is recorded.
//
//     node examples/recorders/counter.js counter.jsonl && margay check counter.jsonl --level serializable
const { Recorder } = require("./recorder.js");

const later = () => new Promise((go) => setTimeout(go, 1));
const map = new Map([["x", 0]]);
const recorder = new Recorder(process.argv[2], { initial: [["x", 0]] });

async function count(session, times) {
  for (let i = 0; i < times; i++) {
    const txn = await session.begin();
    const x = await txn.read("x", async () => (await later(), map.get("x")));
    await txn.write("x", x + 1, async () => (await later(), map.set("x", x + 1)));
    await txn.commit();
  }
}

Promise.all([count(recorder.session(), 20), count(recorder.session(), 20)]);
