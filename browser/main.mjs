// Runs the checks of the dashboard, started by scripts/browser. Each check has the number of the
// contract of the dashboard, and prints its figure next to its limit.
import { resolve } from "node:path";
import { chromium } from "playwright-core";
import { Scene, PROJECT } from "./scene.mjs";
import { CHECKS, prepare } from "./checks.mjs";
import { takeDocsPictures, takePictures } from "./pictures.mjs";
import { checkOidc } from "./oidc.mjs";

const words = process.argv.slice(2);
const option = (name) => { const at = words.indexOf(`--${name}`); return at < 0 ? null : words[at + 1]; };
const has = (name) => words.includes(`--${name}`);
const only = (option("only") || "").split(",").filter(Boolean).map(Number);
const began = Date.now();
const browser = await chromium.launch({
  executablePath: option("chromium"),
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--enable-precise-memory-info", "--js-flags=--expose-gc"],
});
const binary = resolve(option("binary"));
const scene = new Scene(binary);
let failed = 0;
// A promise that nobody waits for any more, such as one of a check that has failed, ends nothing.
process.on("unhandledRejection", (error) => { failed += 1; console.log(`FAILED  ${String(error).split("\n")[0]}`); });

// Collects what one check measured. A size or a count above its limit is a failure. A time above its
// limit is marked, and is a failure with --strict: a busy machine must not turn a good build red.
const TIMES = [" ms", " s"];
class Report {
  constructor(number, name) { Object.assign(this, { number, name, parts: [], faults: [] }); }
  // A figure and its limit: at most, or exactly if the limit is 0.
  figure(what, value, limit, unit = "") {
    const shown = typeof value === "number" && !Number.isInteger(value) ? value.toFixed(1) : value;
    const isOver = !(value <= limit);
    const isTolerated = TIMES.includes(unit) && !has("strict");
    this.parts.push(`${what} ${shown}${unit} (limit ${limit}${unit}${isOver ? ", OVER" : ""})`);
    if (isOver && !isTolerated) this.faults.push(`${what} is ${shown}${unit}, the limit is ${limit}${unit}`);
  }
  holds(is, what) { if (!is) this.faults.push(what); return is; }
  note(text) { this.parts.push(text); }
  print(ms) {
    const state = this.faults.length === 0 ? "passed" : "FAILED";
    console.log(`${String(this.number).padStart(2)} ${state}  ${this.name}: ${this.parts.join("; ") || "as it should"}  [${(ms / 1000).toFixed(1)} s]`);
    for (const fault of this.faults) console.log(`          ${fault}`);
  }
}

async function runCheck({ number, name, perform }, tools) {
  const report = new Report(number, name);
  const start = Date.now();
  try {
    await Promise.race([perform({ ...tools, report }), new Promise((_, fail) => {
      const most = tools.long ? 900000 : 180000;
      setTimeout(() => fail(new Error(`no end after ${most / 1000} s`)), most).unref();
    })]);
  } catch (error) {
    report.faults.push(String(error && error.stack ? error.stack : error).split("\n").slice(0, 4).join(" | "));
  }
  report.print(Date.now() - start);
  if (report.faults.length > 0) failed += 1;
  // A check leaves no tab behind.
  for (const context of browser.contexts()) await context.close().catch(() => {});
}

try {
  scene.repository(PROJECT);
  const wanted = has("pictures") || has("docs") || has("oidc") ? [] : CHECKS.filter((check) => only.length === 0 || only.includes(check.number));
  const tools = { browser, scene, long: has("long") };
  if (has("oidc") || (wanted.length > 0 && only.length === 0)) await runCheck({ number: 0, name: "login with an identity provider", perform: checkOidc }, { ...tools, binary });
  if (has("docs")) failed += await takeDocsPictures(browser, binary, option("docs"));
  else if (!has("oidc")) await prepare(scene, wanted.map((check) => check.number));
  for (const check of wanted) await runCheck(check, tools);
  if (!has("oidc") && !has("docs") && !has("no-pictures") && only.length === 0) failed += await takePictures(browser, scene, option("pictures-dir"));
} catch (error) {
  failed += 1;
  console.log(`FAILED  ${error.stack}`);
} finally {
  await browser.close().catch(() => {});
  await scene.end();
}
console.log(`${failed === 0 ? "passed" : `FAILED: ${failed}`}, ${((Date.now() - began) / 1000).toFixed(0)} s`);
process.exit(failed === 0 ? 0 : 1);
