// Inserts and works jobs that do nothing, as benchmarks/peers_pg.py tells it.
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const BATCH = 5000;
const POLL_MS = 2;
const [jobs, warm] = process.argv.slice(2).map(Number);
const connectionString = process.env.PEER_URL;
// what its page on performance recommends
const worker = {
  connectionString,
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
  logger: new Logger(() => (level, message) => level === "error" && console.error(message)),
};

const orders = createInterface({ input: process.stdin });
const told = once(orders, "line");
const over = once(orders, "close");
let done = 0;
const utils = await makeWorkerUtils({ preset: { worker } });
await utils.migrate();
const client = new pg.Client({ connectionString });
await client.connect();
const runner = await run({ preset: { worker }, taskList: { nothing: () => { done += 1; } } });

async function insert(count) {
  for (let first = 0; first < count; first += BATCH) {
    const length = Math.min(BATCH, count - first);
    await utils.addJobs(Array.from({ length }, (_, at) => ({ identifier: "nothing", payload: { number: first + at } })));
  }
}

async function finish(count) {
  for (let left = true; left; await sleep(POLL_MS)) {
    if (done >= count) {
      const found = await client.query("SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS left");
      left = found.rows[0].left;
    }
  }
}

await insert(warm);
await finish(warm);
console.log("ready");
await told;
const began = performance.now();
await insert(jobs);
const inserted = performance.now();
await finish(warm + jobs);
const all = performance.now();
console.log(JSON.stringify({ insert_s: (inserted - began) / 1000, all_s: (all - began) / 1000, done: done - warm }));
await over;
await runner.stop();
await utils.release();
await client.end();
