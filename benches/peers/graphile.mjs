// graphile-worker with its defaults: no-op jobs put in one by one, then drained, jobs/s printed.
import { makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [url, jobs, concurrency] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const pgPool = new pg.Pool({ connectionString: url, max: concurrency + 2 });
const quiet = { error() {}, warn() {}, info() {}, debug() {}, scope() { return quiet; } };
const utils = await makeWorkerUtils({ pgPool, logger: quiet });
await utils.migrate();

let done = 0;
let finish;
const finished = new Promise((resolve) => { finish = resolve; });
const began = process.hrtime.bigint();
await Promise.all(Array.from({ length: concurrency }, async (_, lane) => {
  for (let job = lane; job < jobs; job += concurrency) await utils.addJob("nothing", { job });
}));
const runner = await run({
  pgPool,
  concurrency,
  logger: quiet,
  noHandleSignals: true,
  taskList: { nothing: () => { if (++done === jobs) finish(); } },
});
await finished;
const seconds = Number(process.hrtime.bigint() - began) / 1e9;
await runner.stop();
await utils.release();
await pgPool.end();
console.log(Math.round(jobs / seconds));
