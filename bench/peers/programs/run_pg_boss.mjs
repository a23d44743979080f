// pg-boss's side of the bench: install URL | load URL COUNT | work URL (its words: bench/peers/crew.py).
import { createInterface } from "node:readline";
import { PgBoss } from "pg-boss";

const BULK = 1000;
const [verb, connectionString, count] = process.argv.slice(2);
const working = { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };

async function opened() {
  const boss = new PgBoss({ connectionString, schedule: false });
  boss.on("error", (error) => console.error(String(error)));
  return boss.start();
}

async function install() {
  const boss = await opened();
  await boss.createQueue("noop");
  await boss.stop();
}

async function load() {
  const boss = await opened();
  for (let from = 0; from < Number(count); from += BULK) {
    const length = Math.min(BULK, Number(count) - from);
    await boss.insert("noop", Array.from({ length }, (_, n) => ({ data: { n: from + n } })));
  }
  await boss.stop();
}

async function work() {
  let handled = 0;
  const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const boss = await opened();
  console.log("ready");
  await told.next();
  await boss.work("noop", working, async (jobs) => {
    for (const _ of jobs) handled++;
  });
  await told.next();
  await boss.stop();
  console.log(handled);
}

await { install, load, work }[verb]();
