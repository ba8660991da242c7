// The store of files of toy.py, with a lock: one transaction at a time. A driver for Margay (docs/EXEC.md).
//
//     margay run 'exec:node examples/drivers/toy.js toy-js' --workload increment
const fs = require("fs"), path = require("path"), readline = require("readline");

const folder = process.argv[2], lock = path.join(folder, "lock");
fs.mkdirSync(folder, { recursive: true });
const file = (key) => path.join(folder, encodeURIComponent(key));
let written = new Map(), locked = false;

async function acquire() {
  while (!locked) {
    try {
      fs.mkdirSync(lock);
      locked = true;
    } catch {
      await new Promise((later) => setTimeout(later, 1));
    }
  }
}

function end() {
  written = new Map();
  if (locked) fs.rmdirSync(lock);
  locked = false;
}

async function answer(ask) {
  switch (ask.op) {
    case "hello":
      return { name: "toy-js", levels: ["SERIALIZABLE"], promises: ["strict-serializable"] };
    case "begin":
      await acquire();
      return {};
    case "read": {
      const found = () => (fs.existsSync(file(ask.key)) ? fs.readFileSync(file(ask.key), "utf8") : null);
      return { value: written.has(ask.key) ? written.get(ask.key) : found() };
    }
    case "write":
      written.set(ask.key, ask.value);
      return {};
    case "commit":
      for (const [key, value] of written) {
        if (value === null) fs.rmSync(file(key), { force: true });
        else fs.writeFileSync(file(key), value);
      }
      end();
      return {};
    default:
      end();
      return {};
  }
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(JSON.parse(line))));
  }
})();
