// graphile-worker's side of the bench: install URL | load URL COUNT | work URL (its words: bench/peers/crew.py).
import { createInterface } from "node:readline";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";

const BULK = 1000;
const [verb, connectionString, count] = process.argv.slice(2);
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));
const preset = {
  worker: {
    connectionString,
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};

async function load() {
  const utils = await makeWorkerUtils({ preset, logger });
  for (let from = 0; from < Number(count); from += BULK) {
    const length = Math.min(BULK, Number(count) - from);
    await utils.addJobs(Array.from({ length }, (_, n) => ({ identifier: "noop", payload: { n: from + n } })));
  }
  await utils.release();
}

async function work() {
  let handled = 0;
  const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log("ready");
  await told.next();
  const noop = async () => void handled++;
  const runner = await run({ preset, logger, taskList: { noop }, noHandleSignals: true });
  await told.next();
  await runner.stop();
  console.log(handled);
}

await { install: () => runMigrations({ preset, logger }), load, work }[verb]();
