// The acceptance checks of the dashboard. `perform` gets the browser, the scene and a report; it
// opens its own contexts, and what it changes in the scene is its own tickets.
import { execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import AxeBuilder from "@axe-core/playwright";
import { addEscalated, build, finding, run, sleep, verdict, verify } from "./scene.mjs";

const PAYLOADS = JSON.parse(readFileSync(new URL("./payloads.json", import.meta.url)));
const p95 = (values) => values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(values.length * 0.95) - 1)];

// Pages for pictures and accessibility, on tickets that `prepare` makes.
export const PAGES = { inbox: "/", board: "/board", tickets: "/tickets", ticket: "/tickets/rework", escalated: "/tickets/show",
  diff: "/tickets/rework/diff", runs: "/tickets/rework/runs", run: "/tickets/rework/runs/1", agents: "/agents", queues: "/queues",
  newTicket: "/new", newEpic: "/epics/new", epics: "/epics", epic: "/epics/checks", costs: "/costs", log: "/log", settings: "/settings" };

// Every address that takes a form.
const FORMS = ["escalation", "cancel", "budget", "findings", "findings/F1/waive", "shares", "viewed"].map((form) => `/tickets/show/${form}`).concat(
  ["/tickets", "/new", "/epics/new", "/epics/checks/accept", "/pauses", "/pauses/queue/build/end", "/limits", "/messages/1/read",
    "/settings/tokens", "/settings/tokens/none/revoke", "/settings/sessions/none/revoke", "/settings/links/none/revoke", "/logout"]);
const CHOICES = ["accept", "continue", "take-over", "reset", "reassign", "reject"];
const ESCALATED = [...CHOICES.flatMap((choice) => [`web-${choice}`, `cli-${choice}`]), "show", "tabs", "waive", "keys", "plain", "phone", "shared"];

// Makes the tickets that the wanted checks need, and starts the server.
export async function prepare(scene, wanted) {
  const need = (...numbers) => wanted.length === 0 || numbers.some((number) => wanted.includes(number));
  const works = [addEscalated(scene, ESCALATED), run(scene, "rework", "Two rounds: the reviewer finds a defect", {
    build: { rounds: [build("seq 1 40 > numbers.txt; printf 'eval $1\\n' > run.sh"), build("sed -i 's/^7$/seven/' numbers.txt; printf 'echo \"$1\"\\n' > run.sh")] },
    review: { rounds: [verdict("request_changes", [finding("run.sh", 1)]), verdict("approve", [finding("numbers.txt", 7, { severity: "low", title: "A word among numbers" })])] },
    verify: verify("fixed"),
  })];
  if (need(8)) {
    const findings = Array.from({ length: 10 }, (_, index) => finding(`file-${String(index * 2).padStart(2, "0")}.txt`, 11 + index * 17, { severity: "low", title: `Line ${index} of ten` }));
    works.push(run(scene, "big", "5,000 lines in 25 files", {
      build: { always: build("for i in $(seq -w 0 24); do seq 1 200 | sed \"s/^/let value_$i = compute(/; s/$/);/\" > file-$i.txt; done") },
      review: { always: verdict("approve", findings) }, verify: verify("fixed"),
    }));
  }
  if (need(9)) {
    works.push(run(scene, "huge", "One long line and one long file", {
      build: { always: build("head -c 2000000 /dev/zero | tr '\\0' 'x' > min.js; seq 1 20000 | sed 's/^/let a = /' > long.js; head -c 3000 /dev/urandom > blob.bin; printf x > 'odd name; $(x) \"q\" ü.txt'") },
      review: { always: verdict("approve") }, verify: verify("fixed"),
    }));
  }
  await Promise.all(works);
  await scene.serve();
}

// Opens a context that is logged in, with a list of everything that went wrong in it.
export async function logIn(browser, scene, options = {}, secret = null) {
  const context = await browser.newContext(options);
  const trouble = [];
  context.on("weberror", (error) => trouble.push(`script: ${error.error()}`));
  context.on("page", (page) => {
    page.on("console", (message) => { if (message.type() === "error") trouble.push(`${page.url()}: ${message.text()}`); });
    page.on("dialog", (dialog) => { trouble.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  });
  const page = await context.newPage();
  // A window behind another one counts as hidden, and a hidden tab lets go of its stream.
  await page.bringToFront();
  if (secret) {
    await page.goto(`${scene.url}/login`);
    await page.fill("#secret", secret);
    await page.click("form#login button[type=submit]");
  } else {
    await page.goto(await scene.link());
  }
  await page.waitForURL((url) => !url.pathname.startsWith("/login"), { timeout: 15000 });
  return { context, page, trouble };
}

const formOf = (page, ticket) => page.locator(`form[action="/tickets/${ticket}/escalation"]`).first();
const stageOf = async (scene, id) => (await scene.ticket(id)).stage;
// The event of a decision without the person and the time.
async function settledEvent(scene, id, name = "settled") {
  const event = (await scene.events(id)).findLast((one) => one.name === name);
  const text = JSON.stringify(event.body, (key, value) => (["at", "by", "expects", "why"].includes(key) ? undefined : value));
  return { text, by: event.by, why: JSON.stringify(event.body) };
}
const settle = async (page, scene, id, choice, why) => {
  await page.goto(`${scene.url}/tickets/${id}`);
  const form = formOf(page, id);
  if (why) await form.locator("[name=why]").fill(why);
  if (choice === "reassign") await form.locator("[name=builder]").fill("claude");
  await form.locator(`button[name=choice][value="${choice}"]`).click();
};

// Records in the page when the card of a ticket is first seen in a column.
const watchBoard = (page) => page.evaluate(() => {
  window.seen = {};
  const look = () => {
    for (const card of document.querySelectorAll("[id^=card-]")) {
      const column = card.closest("[id^=column-]");
      const key = `${card.id} ${column && column.id}`;
      window.seen[key] ??= Date.now();
    }
  };
  look();
  new MutationObserver(look).observe(document.querySelector(".board"), { subtree: true, childList: true, attributes: true });
});
const seenAt = async (page, id, column, within = 8000) => {
  const key = `card-${id} column-${column}`;
  await page.waitForFunction((key) => window.seen[key], key, { timeout: within, polling: 20 });
  return page.evaluate((key) => window.seen[key], key);
};
const heap = async (page) => {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return usedSize / 1e6;
};
// Time of the first frame with content, after the navigation began.
const firstFrame = async (page) => {
  await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0, null, { polling: 20 });
  return page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
};
const nodes = (page) => page.evaluate(() => document.querySelectorAll("*").length);
// Writes notes into the event log as another process would, at a rate. Gives how many were written.
const flood = (scene, rate, seconds) => new Promise((done, fail) => {
  execFile("python3", ["-c", `
import sqlite3, sys, time
path, rate, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = sqlite3.connect(path, timeout=30, isolation_level=None)
ids = [row[0] for row in db.execute("SELECT id FROM tickets LIMIT 200")]
began, wrote = time.time(), 0
while time.time() - began < seconds:
    due = int((time.time() - began) * rate)
    if due > wrote:
        now = int(time.time() * 1000)
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO events (ticket, at, name, by, body) VALUES (?, ?, 'checkpoint', 'load', '{}')",
            [(ids[number % len(ids)], now) for number in range(wrote, due)])
        db.execute("COMMIT")
        wrote = due
    time.sleep(0.02)
print(wrote)
`, join(scene.data, "countersign.db"), String(rate), String(seconds)], (error, stdout) => (error ? fail(error) : done(Number(stdout))));
});

export const CHECKS = [
  { number: 1, name: "the printed link logs in, once", async perform({ browser, scene, report }) {
    const context = await browser.newContext();
    const page = await context.newPage();
    // A login link lasts a minute; if the server is older, `open` prints another.
    const link = Date.now() - scene.servedAt < 45000 ? scene.printedLink : await scene.link();
    await page.goto(link);
    await page.waitForSelector("h1:has-text('Inbox')");
    report.holds(new URL(page.url()).pathname === "/" && !page.url().includes("#"), "the code stays in the address");
    report.holds(scene.printedLink.includes("/login#"), "serve prints no link");
    // The limit of 40 MB is that of a release build; scripts/figures measures it.
    report.note(`server ${scene.memory().toFixed(0)} MB`);
    const again = await (await browser.newContext()).newPage();
    await again.goto(link);
    const alert = await again.waitForSelector("[role=alert]");
    report.holds((await alert.textContent()).includes("works once"), "the second use is not refused in words");
    const cookie = (await context.cookies())[0];
    report.holds(cookie.httpOnly && cookie.sameSite === "Lax", `the cookie is ${JSON.stringify(cookie)}`);
  } },
  { number: 2, name: "without a session nothing is shown or changed", async perform({ browser, scene, report }) {
    const page = await (await browser.newContext()).newPage();
    for (const path of Object.values(PAGES)) {
      await page.goto(scene.url + path);
      report.holds(new URL(page.url()).pathname === "/login", `${path} is shown`);
    }
    const form = { "Content-Type": "application/x-www-form-urlencoded" };
    for (const path of FORMS) {
      const { status } = await scene.raw("POST", path, form, "choice=reject&why=x");
      report.holds(status === 401, `POST ${path} is ${status}`);
    }
    for (const path of ["/pages/events?topic=board", "/pages/alerts"]) report.holds((await scene.raw("GET", path, {})).status === 401, `${path} is open`);
    for (const role of ["builder", "reviewer", "verifier", "service"]) {
      const secret = await scene.token(`robot-${role}`, role);
      const { status } = await scene.raw("POST", "/login", form, `secret=${secret}`);
      report.holds(status === 403, `a token of a ${role} gets ${status}`);
    }
    report.note(`${Object.keys(PAGES).length} pages, ${FORMS.length} forms, 2 streams, 4 roles`);
  } },
  { number: 3, name: "moves appear on an open board", async perform({ browser, scene, report }) {
    const { page, trouble } = await logIn(browser, scene);
    await page.goto(`${scene.url}/board`);
    let loads = 0;
    page.on("load", () => { loads += 1; });
    await sleep(500);
    await watchBoard(page);
    const times = [];
    for (let index = 0; index < 25; index += 1) {
      const id = `move-${index}`;
      await scene.add(id, `Moves, number ${index}`);
      const shown = await seenAt(page, id, "queued");
      await scene.rest("POST", `/api/v1/tickets/${id}/cancel`, { why: "moved" });
      const gone = await seenAt(page, id, "ended");
      const at = Object.fromEntries((await scene.events(id)).map((event) => [event.name, event.at]));
      times.push(shown - at.created, gone - at.cancelled);
    }
    report.figure("event to screen, p95 of 50", p95(times), 500, " ms");
    const agent = run(scene, "journey", "Goes through every stage", {
      build: { always: [{ wait_ms: 600 }, ...build("echo 1 > journey.txt"), { wait_ms: 300 }] },
      review: { always: [{ wait_ms: 600 }, ...verdict("approve")] }, verify: verify("fixed"),
    });
    await seenAt(page, "journey", "building", 30000);
    await seenAt(page, "journey", "ended", 60000);
    await agent;
    const columns = await page.evaluate(() => Object.keys(window.seen).filter((key) => key.startsWith("card-journey ")).length);
    report.holds(columns >= 3, `the card was seen in ${columns} columns`);
    report.note(`a run crossed ${columns} columns`);
    report.holds(loads === 0, "the page was loaded again");
    report.holds(trouble.length === 0, trouble.join(" | "));
  } },
  { number: 4, name: "kill -9 of the server under an open page", async perform({ browser, scene, report }) {
    // Once under a page that is connected, and once under one that is still loading its parts.
    for (const [which, wait] of [["connected", 1000], ["loading", 0]]) {
      const { page, trouble } = await logIn(browser, scene);
      await page.goto(`${scene.url}/board`);
      await sleep(wait);
      const port = scene.port;
      await scene.kill();
      // While it is down, another process goes on working.
      const ids = ["down-1", "down-2", "up-1", "up-2"].map((id) => `${which}-${id}`);
      for (const id of ids.slice(0, 2)) await scene.cli(["ticket", "add", scene.file(`${id}.md`, `---\nid: ${id}\n---\n# Added while the server was down, ${id}\n`)]);
      await scene.serve(port);
      const began = Date.now();
      for (const id of ids.slice(2)) await scene.add(id, `Added after the restart, ${id}`);
      await page.waitForFunction((ids) => ids.every((id) => document.getElementById(`card-${id}`)), ids, { timeout: 15000, polling: 50 }).catch(() => {});
      report.figure(`${which}: the true state after`, (Date.now() - began) / 1000, 5, " s");
      const cards = await page.evaluate(() => [...document.querySelectorAll("[id^=card-]")].map((card) => card.id));
      report.holds(new Set(cards).size === cards.length, "a card is there twice");
      for (const id of ids) report.holds(cards.includes(`card-${id}`), `${id} is missing`);
      const lines = (await scene.rest("GET", "/api/v1/log?limit=1000")).value.items;
      for (const id of ids) report.holds(lines.filter((line) => line.ticket === id && line.event === "created").length === 1, `the log has ${id} not once`);
      if (report.faults.length > 0) report.faults.push(page.url(), JSON.stringify(await page.evaluate(() => [document.hidden, Boolean(document.querySelector("#live")?._htmx?.sse), document.querySelector("#offline")?.hidden, document.querySelectorAll("[id^=card-]").length, document.querySelector("#column-queued")?.innerText.slice(0, 200)])), ...trouble);
    }
  } },
  { number: 8, name: "a diff of 5,000 lines in 25 files with 10 findings", async perform({ browser, scene, report }) {
    const { page } = await logIn(browser, scene, { viewport: { width: 1440, height: 900 } });
    await page.goto(`${scene.url}/tickets/big/diff`);
    report.figure("first frame", await firstFrame(page) / 1000, 1.5, " s");
    report.holds(await page.locator("[data-file]").count() >= 25, "files are missing");
    const worst = await page.evaluate(async () => {
      let worst = 0, last = performance.now();
      for (let y = 0; y < document.documentElement.scrollHeight && y < 60000; y += 900) {
        window.scrollTo(0, y);
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        worst = Math.max(worst, now - last);
        last = now;
      }
      return worst;
    });
    report.figure("worst frame while scrolling", worst, 250, " ms");
    await page.evaluate(() => { window.scrollTo(0, 0); document.activeElement.blur(); });
    const walked = new Set();
    for (let index = 0; index < 10; index += 1) {
      await page.keyboard.press("n");
      walked.add(await page.evaluate(() => document.querySelector("[data-current]")?.id));
    }
    report.holds(walked.size === 10, `n walks ${walked.size} findings`);
    const { ledger } = await scene.ticket("big");
    const placed = await page.evaluate((ids) => ids.map((id) => {
      let row = document.getElementById(id)?.closest("tr");
      while (row && !row.querySelector("[data-line]")) row = row.previousElementSibling;
      return Number(row?.querySelector("[data-line]").dataset.line);
    }), ledger.map((entry) => entry.id));
    ledger.forEach((entry, index) => report.holds(placed[index] === entry.finding.line, `${entry.id} stands at line ${placed[index]}, not ${entry.finding.line}`));
    report.note(`${ledger.length} findings at their lines`);
  } },
  { number: 9, name: "one line of 2 MB, 20,000 lines, a binary file, odd names", async perform({ browser, scene, report }) {
    const { page, trouble } = await logIn(browser, scene);
    const began = Date.now();
    await page.goto(`${scene.url}/tickets/huge/diff`, { waitUntil: "domcontentloaded" });
    await page.locator("[data-file] summary").first().click({ timeout: 10000 });
    report.figure("usable after", (Date.now() - began) / 1000, 2, " s");
    const text = await page.locator("main").textContent();
    report.holds(/binary/i.test(text), "the binary file is not named");
    report.holds(/Without highlighting: /.test(text), "the line of 2 MB has no note about colours");
    // The file of 20,000 lines has pages of its own, to its last line.
    let address = await page.locator("[data-file]", { hasText: "long.js" }).locator("a", { hasText: "Show this file" }).getAttribute("href");
    let parts = 0;
    for (; address && parts < 9; parts += 1) {
      await page.goto(new URL(address, page.url()).href, { waitUntil: "domcontentloaded" });
      report.holds(await page.locator("a[data-line]").count() > 0, `part ${parts + 1} of the long file is empty`);
      const next = page.locator("a[rel=next]");
      address = await next.count() > 0 ? await next.getAttribute("href") : null;
    }
    report.holds(await page.locator("a[data-line='20000']").count() === 1, "its last line is not reached");
    report.note(`20,000 lines in ${parts} pages`);
    report.holds(text.includes("odd name; $(x)"), "the odd name is not shown");
    report.holds(trouble.length === 0, trouble.join(" | "));
  } },
  { number: 10, name: "a round against a round shows only the rework", async perform({ browser, scene, report }) {
    const { page } = await logIn(browser, scene);
    const rounds = (await scene.ticket("rework")).rounds;
    await page.goto(`${scene.url}/tickets/rework/diff?from=1&to=2`);
    const shown = await page.evaluate(() => [...document.querySelectorAll("tr.added, tr.removed")].map((row) => {
      const cell = row.querySelector("td.code").cloneNode(true);
      cell.querySelectorAll(".sign").forEach((sign) => sign.remove());
      return (row.classList.contains("added") ? "+" : "-") + cell.textContent;
    }));
    const text = execFileSync("git", ["diff", rounds[0].commit, rounds[1].commit], { cwd: scene.repo, env: scene.env, encoding: "utf8" });
    const wanted = text.split("\n").filter((line) => /^[+-](?![+-]{2} )/.test(line));
    report.holds(JSON.stringify(shown) === JSON.stringify(wanted), `shown ${JSON.stringify(shown)}, git says ${JSON.stringify(wanted)}`);
    report.note(`${shown.length} rows as git diff`);
  } },
  { number: 11, name: "every choice of an escalation, as at the terminal", async perform({ browser, scene, report }) {
    const { page, context } = await logIn(browser, scene);
    for (const choice of CHOICES) {
      const [web, cli] = [`web-${choice}`, `cli-${choice}`];
      if (choice === "accept") {
        // Without a reason: refused in place, the page stays and so does the ticket.
        await settle(page, scene, web, choice, "");
        await sleep(300);
        report.holds(new URL(page.url()).pathname === `/tickets/${web}` && await stageOf(scene, web) === "escalated", "accept without a reason is not refused in place");
        const said = await page.evaluate((id) => document.getElementById(id).validationMessage, `why-${web}`);
        report.holds(/reason/.test(said), `the field says ${JSON.stringify(said)}`);
      }
      await settle(page, scene, web, choice, `because of ${choice}`);
      await page.waitForURL(`**/tickets/${web}`);
      const more = choice === "reassign" ? ["--builder", "claude"] : [];
      await scene.cli(["escalation", "resolve", cli, choice, "--why", `because of ${choice}`, ...more]);
      const [ours, theirs] = [await settledEvent(scene, web), await settledEvent(scene, cli)];
      report.holds(ours.text === theirs.text, `${choice}: ${ours.text} in the browser, ${theirs.text} at the terminal`);
      report.holds(ours.by && ours.why.includes(`because of ${choice}`), `${choice} has no name or reason`);
      // An accepted change lands by itself, so both may still be on their way.
      let stages = [];
      for (let tries = 0; tries < 50 && (tries === 0 || stages[0] !== stages[1]); tries += 1) {
        if (tries > 0) await sleep(200);
        stages = [await stageOf(scene, web), await stageOf(scene, cli)];
      }
      report.holds(stages[0] === stages[1], `${choice} ends as ${stages[0]} in the browser and as ${stages[1]} at the terminal`);
    }
    // Two tabs: the second one is told in words.
    const second = await context.newPage();
    await page.goto(`${scene.url}/tickets/tabs`);
    await second.goto(`${scene.url}/tickets/tabs`);
    await formOf(second, "tabs").locator("[name=why]").fill("I was first here");
    await formOf(page, "tabs").locator("[name=why]").fill("first");
    await formOf(page, "tabs").locator("button[value=take-over]").click();
    await page.waitForURL("**/tickets/tabs");
    const answer = second.waitForResponse((response) => response.request().method() === "POST");
    await formOf(second, "tabs").locator("button[value=reject]").click();
    report.holds((await answer).status() === 409, `the second tab gets ${(await answer).status()}`);
    report.holds(/Not possible any more/.test(await second.textContent("body")), "409 is not told in words");
    report.holds(await stageOf(scene, "tabs") !== "failed", "the second tab has decided");
    report.note("6 choices the same event; two tabs: 409 in words");
  } },
  { number: 12, name: "a finding is waived with a reason, and not by a viewer", async perform({ browser, scene, report }) {
    const secret = await scene.token("vic", "viewer");
    const viewer = await logIn(browser, scene, {}, secret);
    await viewer.page.goto(`${scene.url}/tickets/waive`);
    report.holds(await viewer.page.locator("main form").count() === 0, "a viewer sees forms");
    const cookie = (await viewer.context.cookies()).map((one) => `${one.name}=${one.value}`).join("; ");
    const token = await viewer.page.locator("input[name=form_token]").first().inputValue();
    const headers = { Cookie: cookie, Origin: scene.url, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded" };
    // A viewer may end its own sessions, and nothing else.
    const forbidden = FORMS.filter((path) => path !== "/logout" && !path.includes("sessions"));
    for (const path of forbidden) {
      const { status } = await scene.raw("POST", path, headers, `form_token=${token}&why=x&choice=reject&scope=queue&name=build&title=x&repository=${encodeURIComponent(scene.repo)}`);
      report.holds(status === 403, `a viewer's POST ${path} is ${status}`);
    }
    report.holds(await stageOf(scene, "show") === "escalated", "a viewer has changed a ticket");
    report.note(`${forbidden.length} forms refused`);
    const { page } = await logIn(browser, scene);
    await page.goto(`${scene.url}/tickets/waive`);
    const form = page.locator("form[action='/tickets/waive/findings/F1/waive']").first();
    await page.locator("details:has(> form[action='/tickets/waive/findings/F1/waive']) > summary").first().click();
    report.holds(await form.locator("[name=why]").getAttribute("required") !== null, "the reason is not required");
    await form.locator("[name=why]").fill("legacy callers need it");
    await form.locator("button").click();
    await page.waitForLoadState();
    const event = await settledEvent(scene, "waive", "waived");
    report.holds(event.by !== "" && event.why.includes("legacy callers"), `the event is ${event.why}`);
    report.holds((await page.textContent("main")).includes("legacy callers need it"), "the reason is not shown");
  } },
  { number: 13, name: "forms of other sites and foreign hosts change nothing", async perform({ browser, scene, report }) {
    const { page, context } = await logIn(browser, scene);
    await page.goto(`${scene.url}/tickets/show`);
    const token = await page.locator("input[name=form_token]").first().inputValue();
    const cookie = (await context.cookies()).map((one) => `${one.name}=${one.value}`).join("; ");
    const form = { Cookie: cookie, "Content-Type": "application/x-www-form-urlencoded" };
    const own = { Origin: scene.url, "Sec-Fetch-Site": "same-origin" };
    const body = `why=x&form_token=${token}`;
    const attacks = [
      [{ Origin: "http://evil.example" }, body], [{ Origin: "null" }, body], [{ Origin: `${scene.url}.evil.example` }, body],
      [{ ...own, "Sec-Fetch-Site": "cross-site" }, body], [{ ...own, "Sec-Fetch-Site": "same-site" }, body],
      [{ ...own }, "why=x"], [{ ...own }, "why=x&form_token="], [{ ...own }, `why=x&form_token=${"0".repeat(token.length)}`],
      [{ Host: "evil.example" }, body], [{ Host: `evil.example:${scene.port}` }, body], [{ Host: `127.0.0.1.evil.example:${scene.port}` }, body],
    ];
    for (const [headers, text] of attacks) {
      const { status } = await scene.raw("POST", "/tickets/show/cancel", { ...form, ...headers }, text);
      report.holds(status === 403, `${JSON.stringify(headers)} ${text.slice(0, 20)}: ${status}`);
    }
    for (const path of ["/tickets/show/cancel", "/logout", "/pauses"]) {
      const { status } = await scene.raw("GET", path, { Cookie: cookie });
      report.holds([404, 405].includes(status), `GET ${path} is ${status}`);
    }
    // A page of another origin in the same browser: its form arrives without our cookie or is refused.
    await page.route("http://evil.example/**", (route) => route.fulfill({ contentType: "text/html",
      body: `<form method=post action="${scene.url}/tickets/show/cancel"><input name=why value=x><input name=form_token value="${token}"></form><script>document.forms[0].submit()</script>` }));
    const answer = page.waitForResponse((response) => response.url().endsWith("/cancel"));
    await page.goto("http://evil.example/").catch(() => {});
    report.holds([401, 403].includes((await answer).status()), `a foreign page gets ${(await answer).status()}`);
    report.holds(await stageOf(scene, "show") === "escalated", "the ticket has changed");
    report.note(`${attacks.length + 1} attacks refused`);
  } },
  { number: 14, name: "40 payloads in every field", async perform({ browser, scene, report }) {
    const every = PAYLOADS.join("\n");
    // A page that is open meanwhile gets the same texts as updates.
    const watcher = await logIn(browser, scene);
    await watcher.page.goto(`${scene.url}/board`);
    for (const [index, payload] of PAYLOADS.entries()) {
      await scene.add(`xss-${index}`, payload, { description: every, acceptance: [payload, every], priority: 90 });
    }
    const agent = scene.script("xss", {
      build: { always: [{ say: every }, { write: { path: "<img src=x onerror=alert(1)>.txt", text: every } }, { say: "[x](javascript:alert(1))" }, { result: { summary: every } }] },
      review: { always: verdict("request_changes", PAYLOADS.slice(0, 12).map((payload) => finding("README.md", 1, { title: payload, problem: every, impact: payload, fix: payload }))) },
      verify: verify("confirmed"),
    });
    const file = scene.file("xss.md", `---\nid: xss\n---\n# ${PAYLOADS[0]}\n\n${every.replace(/[\x00-\x1f]+/g, "\n")}\n`);
    const { code, stderr } = await scene.cli(["run", file, "--builder", agent, "--reviewer", agent, "--max-rounds", "1", "--check", `hostile=cat "<img src=x onerror=alert(1)>.txt"; exit 0`]);
    report.holds(code === 4, `the ticket of the hostile agents ended with ${code}: ${stderr.slice(0, 300)}`);
    for (const [scope, name] of [["agent", PAYLOADS[0]], ["provider", PAYLOADS[8]]]) await scene.rest("POST", "/api/v1/pauses", { scope, name, why: every });
    await scene.token(PAYLOADS[8], "viewer");
    await watcher.page.waitForSelector("#card-xss-39");
    report.holds(await watcher.page.locator(".board :is(script, iframe, img, [onerror], [hx-get])").count() === 0, "an update has become markup");
    report.holds(watcher.trouble.length === 0, `updates: ${watcher.trouble.slice(0, 3).join(" | ")}`);
    const shared = (await scene.json(["token", "share", "--ticket", "xss", "--expires", "1h"])).link.replace(scene.url, "");
    const { page, trouble } = await logIn(browser, scene);
    const paths = [...Object.values(PAGES), shared, `${shared}/diff`, "/tickets/xss", "/tickets/xss/diff", "/tickets/xss/runs", "/tickets/xss/runs/1", "/tickets/xss/runs/2", "/tickets/xss/runs/3",
      ...PAYLOADS.map((_, index) => `/tickets/xss-${index}`), `/tickets?q=${encodeURIComponent(PAYLOADS[10])}`, `/login?next=${encodeURIComponent(PAYLOADS[8])}`];
    await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)));
    let literal = 0;
    for (const path of paths) {
      const response = await page.goto(scene.url + path);
      if (response.status() >= 500) report.holds(false, `${path} is ${response.status()}`);
      const bad = await page.evaluate(() => {
        const active = document.querySelectorAll("iframe, object, embed, base, style, math, img:not([src^='/']):not([src^='data:']), [onerror], [onload], [onclick], [onmouseover], [onfocus], [hx-get]:not(#jump-text), a[href^='javascript:' i], script:not([src^='/assets/'])");
        return [...active].map((element) => element.outerHTML.slice(0, 80));
      });
      report.holds(bad.length === 0, `${path}: ${bad.join(" | ")}`);
      const number = /xss-(\d+)$/.exec(path);
      if (number) {
        const wanted = PAYLOADS[Number(number[1])].replace(/[\x00-\x1f\u202e]/g, "");
        const text = (await page.evaluate(() => document.body.textContent)).replace(/\s+/g, " ");
        if (text.includes(wanted.replace(/\s+/g, " "))) literal += 1;
      }
    }
    report.holds(literal >= 39, `${literal} of 40 titles are shown literally`);
    report.holds(trouble.length === 0, `${trouble.length} errors: ${trouble.slice(0, 3).join(" | ")}`);
    report.note(`${paths.length} pages, ${literal} of 40 titles literal, 0 dialogs, 0 violations`);
    await scene.rest("DELETE", `/api/v1/pauses/agent/${encodeURIComponent(PAYLOADS[0])}`);
  } },
  { number: 15, name: "axe: nothing serious in both themes and widths", async perform({ browser, scene, report, long }) {
    let looked = 0;
    const faults = [];
    const pairs = long ? ["light", "dark"].flatMap((theme) => [320, 1440].map((width) => [theme, width])) : [["light", 1440], ["dark", 320]];
    await Promise.all(pairs.map(async ([theme, width]) => {
      const { page } = await logIn(browser, scene, { colorScheme: theme, viewport: { width, height: 900 } });
      for (const [name, path] of Object.entries({ ...PAGES, missing: "/tickets/none" })) {
        await page.goto(scene.url + path);
        const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).analyze();
        const bad = violations.filter((one) => ["serious", "critical"].includes(one.impact));
        for (const one of bad) faults.push(`${name} ${theme} ${width}: ${one.id} ${one.nodes.length}× ${one.nodes[0].html.slice(0, 90)}`);
        looked += 1;
      }
    }));
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${scene.url}/login`);
    const { violations } = await new AxeBuilder({ page }).analyze();
    for (const one of violations.filter((one) => ["serious", "critical"].includes(one.impact))) faults.push(`login: ${one.id}`);
    report.figure(`serious or critical on ${looked + 1} pages`, faults.length, 0);
    for (const fault of faults.slice(0, 12)) report.faults.push(fault);
  } },
  { number: 16, name: "an escalation by keyboard alone, under live updates", async perform({ browser, scene, report }) {
    const { page } = await logIn(browser, scene);
    await page.goto(`${scene.url}/tickets`);
    await page.keyboard.press("/");
    await page.keyboard.type("half a wor");
    // The list is patched while somebody types.
    for (let index = 0; index < 5; index += 1) await scene.add(`patch-${index}`, `Patched in, number ${index}`);
    await scene.rest("POST", "/api/v1/tickets/patch-0/cancel", { why: "patched" });
    await sleep(900);
    const state = await page.evaluate(() => ({ value: document.activeElement.value, tag: document.activeElement.tagName }));
    report.holds(state.tag === "INPUT" && state.value === "half a wor", `the field has ${JSON.stringify(state)}`);
    await page.keyboard.press("Escape");
    await page.goto(`${scene.url}/tickets?q=keys`);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/tickets/keys");
    await page.keyboard.press("e");
    await page.keyboard.type("by keyboard");
    // An update arrives while somebody writes: text and focus stay.
    await scene.rest("POST", "/api/v1/tickets/keys/findings", { findings: [{ text: "Another thing" }] });
    await sleep(900);
    report.holds(await page.evaluate(() => document.activeElement.value) === "by keyboard", "the text or the focus is lost");
    const visible = [];
    let settled = false;
    for (let index = 0; index < 12 && !settled; index += 1) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const element = document.activeElement;
        const style = getComputedStyle(element);
        return { value: element.value, outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 };
      });
      visible.push(at.outline);
      if (at.value === "take-over") { await page.keyboard.press("Enter"); settled = true; }
    }
    await page.waitForLoadState();
    await sleep(300);
    let stage = await stageOf(scene, "keys");
    if (stage === "escalated") {
      // The ticket has moved on, which the page says: decide again on its present state.
      report.note("the first try was a 409, as it must be after a change");
      await page.goto(`${scene.url}/tickets/keys`);
      await page.keyboard.press("e");
      await page.keyboard.type("by keyboard");
      for (let index = 0; index < 12; index += 1) {
        await page.keyboard.press("Tab");
        if (await page.evaluate(() => document.activeElement.value) === "take-over") { await page.keyboard.press("Enter"); break; }
      }
      await page.waitForLoadState();
      await sleep(300);
      stage = await stageOf(scene, "keys");
    }
    report.holds(stage === "blocked", `the ticket is ${stage}`);
    report.holds(visible.every(Boolean), "the focus is not visible");
    await page.keyboard.press("?");
    report.holds(await page.locator("dialog[open]").count() === 1, "? opens no help");
  } },
  { number: 17, name: "without JavaScript", async perform({ browser, scene, report }) {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(`${scene.url}/login`);
    await page.fill("#secret", (await scene.link()).split("#")[1]);
    await page.click("form#login button[type=submit]");
    for (const [name, path] of Object.entries(PAGES)) {
      const response = await page.goto(scene.url + path);
      report.holds(response.status() === 200 && await page.locator("h1").count() > 0, `${name} is ${response.status()}`);
    }
    await page.goto(`${scene.url}/tickets/plain`);
    const waive = "form[action='/tickets/plain/findings/F1/waive']";
    if (!await page.locator(waive).isVisible()) await page.locator(`details:has(> ${waive}) > summary`).first().click();
    await page.fill(`${waive} [name=why]`, "waived without script");
    await page.click(`${waive} button`);
    report.holds((await page.textContent("main")).includes("waived without script"), "the finding is not waived");
    // A comment at a line: the number leads to a form.
    await page.goto(`${scene.url}/tickets/plain/diff`);
    await page.locator("a[data-line]").first().click();
    await page.fill("#comment-form [name=text]", "commented without script");
    await page.click("#comment-form button.primary");
    report.holds((await page.textContent("main")).includes("commented without script"), "the comment is not shown");
    await page.goto(`${scene.url}/tickets/plain`);
    const form = formOf(page, "plain");
    if (await form.count() > 0) {
      await form.locator("[name=why]").fill("decided without script");
      await form.locator("button[value=reject]").click();
    }
    report.holds(["failed", "done"].includes(await stageOf(scene, "plain")), `the ticket is ${await stageOf(scene, "plain")}`);
  } },
  { number: 18, name: "a link to one ticket", async perform({ browser, scene, report }) {
    const share = async (ticket, expires) => (await scene.json(["token", "share", "--ticket", ticket, "--expires", expires])).link;
    const link = await share("rework", "7d");
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    const first = await page.goto(link);
    const text = await page.textContent("body");
    report.holds(first.status() === 200 && text.includes("Story") && text.includes("eval runs"), "the ticket is not shown");
    report.holds(!text.includes("$0"), "costs are shown");
    report.holds(first.headers()["referrer-policy"] === "no-referrer" && first.headers()["x-robots-tag"].includes("noindex"), "the headers are missing");
    report.holds(await page.locator("form").count() === 0, "there is a form");
    const diff = await page.goto(`${link}/diff`);
    report.holds(diff.status() === 200 && (await page.textContent("body")).includes("numbers.txt"), "the diff is not shown");
    for (const path of [link.replace("rework", "show"), `${link}/runs`, `${link}/runs/1`, link.replace("/tickets/rework", ""), link.replace(/cs_.{6}/, "cs_000000")]) {
      const answer = await context.request.get(path, { maxRedirects: 0 });
      report.holds(answer.status() === 404, `${path.slice(-40)} is ${answer.status()}`);
    }
    // The link opens nothing else: no session, no API.
    report.holds((await context.request.get(`${scene.url}/tickets/rework`, { maxRedirects: 0 })).status() === 303, "the link opens the dashboard");
    const secret = /shared\/([^/]+)/.exec(link)[1];
    report.holds((await scene.rest("GET", "/api/v1/tickets/rework", undefined, secret)).status === 401, "the link is a token of the API");
    const login = await scene.raw("POST", "/login", { "Content-Type": "application/x-www-form-urlencoded" }, `secret=${secret}`);
    report.holds([401, 403].includes(login.status), `the link logs in: ${login.status}`);
    const short = await share("rework", "1s");
    await sleep(1200);
    report.holds((await context.request.get(short)).status() === 410, "an expired link is not 410");
    const listed = (await scene.json(["token", "list"])).items ?? await scene.json(["token", "list"]);
    const ours = listed.filter((one) => one.kind === "shared_link" && one.ticket === "rework").find((one) => one.uses >= 2);
    report.holds(Boolean(ours), `the uses are not counted: ${JSON.stringify(listed.filter((one) => one.kind === "shared_link"))}`);
    await scene.cli(["token", "revoke", ours.id]);
    report.holds((await context.request.get(link)).status() === 410, "a revoked link is not 410");
    // The same from the page of the ticket.
    const person = await logIn(browser, scene);
    await person.page.goto(`${scene.url}/tickets/shared`);
    await person.page.locator("details:has(> form[action='/tickets/shared/shares']) > summary").click();
    await person.page.click("form[action='/tickets/shared/shares'] button");
    const made = await person.page.getAttribute("#shared-link a", "href");
    report.holds((await context.request.get(scene.url + made)).status() === 200, "the link of the page does not open");
    report.note(`${ours.uses} uses counted; neighbours 404, expired and revoked 410`);
  } },
  { number: 19, name: "on a phone", async perform({ browser, scene, report }) {
    const { page } = await logIn(browser, scene, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    let wide = 0;
    for (const [name, path] of Object.entries(PAGES)) {
      await page.goto(scene.url + path);
      const more = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (more > 0) { wide += 1; report.holds(false, `${name} is ${more} px too wide`); }
    }
    report.figure("pages that scroll sideways", wide, 0);
    await page.goto(`${scene.url}/board`);
    for (const column of await page.locator("[id^=column-]").all()) {
      await column.scrollIntoViewIfNeeded();
      const box = await column.boundingBox();
      report.holds(box && box.x < 390 && box.x + box.width > 0, `${await column.getAttribute("id")} cannot be reached`);
    }
    // In the inbox: open the choices, the field, the choice.
    await page.goto(scene.url);
    let taps = 0;
    const tap = async (locator) => { await locator.tap(); taps += 1; };
    await tap(page.locator("#wait-phone [data-decision] > summary"));
    await tap(formOf(page, "phone").locator("[name=why]"));
    await page.keyboard.type("from the phone");
    await tap(formOf(page, "phone").locator("button[value=reject]"));
    await page.waitForURL("**/tickets/phone");
    await sleep(300);
    report.holds(await stageOf(scene, "phone") === "failed", `the ticket is ${await stageOf(scene, "phone")}`);
    report.figure("taps to settle", taps, 4);
  } },
  { number: 20, name: "one notification over two hidden tabs; log out ends everything", async perform({ browser, scene, report }) {
    const { context, page } = await logIn(browser, scene);
    const notes = [];
    await context.exposeFunction("noteRaised", (title, body) => { notes.push({ title, body }); });
    await context.addInitScript(() => {
      window.Notification = class {
        static permission = "granted";
        static async requestPermission() { return "granted"; }
        constructor(title, options) { window.noteRaised(title, options.body); (window.raised ??= []).push(this); }
        close() {}
      };
    });
    await page.goto(`${scene.url}/settings`);
    report.holds(await page.locator("#notify").isVisible(), "there is no switch for notifications");
    await page.click("#notify-switch");
    const second = await context.newPage();
    await second.goto(`${scene.url}/board`);
    await page.goto(`${scene.url}/board`);
    for (const tab of [page, second]) {
      await tab.evaluate(() => {
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      });
    }
    await sleep(1000);
    await run(scene, "note", "Needs a person", {
      build: { always: build("echo 'eval' > note.sh") }, review: { always: verdict("request_changes", [finding("note.sh", 1)]) }, verify: verify("confirmed"),
    }, ["--max-rounds", "1"]);
    await sleep(2500);
    const own = notes.filter((note) => note.title.includes("note"));
    report.figure("notifications over two tabs", own.length, 1);
    report.holds(own.length === 1, `${JSON.stringify(notes)}`);
    for (const tab of [page, second]) {
      await tab.evaluate(() => { if (window.raised) window.raised[0].onclick(); });
    }
    await Promise.race([page, second].map((tab) => tab.waitForURL("**/tickets/note", { timeout: 5000 }))).catch(() => report.holds(false, "a click does not open the ticket"));
    // Log out in one tab.
    const third = await context.newPage();
    await third.goto(`${scene.url}/tickets/show`);
    await third.locator("form.person button").click();
    await third.waitForURL("**/login");
    await second.waitForURL("**/login", { timeout: 5000 }).catch(() => report.holds(false, "the other tab stays open"));
    await third.goBack().catch(() => {});
    await sleep(500);
    report.holds(!(await third.textContent("body")).includes("Decide about show"), "the back button shows the ticket");
    report.holds((await context.request.get(`${scene.url}/pages/events?topic=board`)).status() === 401, "the stream is open after the log out");
  } },
  { number: 21, name: "a stolen session, and one that is made up", async perform({ browser, scene, report }) {
    const owner = await logIn(browser, scene);
    const cookies = await owner.context.cookies();
    const thief = await browser.newContext();
    await thief.addCookies(cookies);
    const stolen = await thief.newPage();
    await stolen.goto(`${scene.url}/board`);
    report.holds(await stolen.locator(".board").count() === 1, "the copied cookie shows nothing");
    // The form of one session is none of another one.
    await owner.page.goto(`${scene.url}/tickets/show`);
    const token = await owner.page.locator("input[name=form_token]").first().inputValue();
    const other = await logIn(browser, scene);
    const cookie = (await other.context.cookies()).map((one) => `${one.name}=${one.value}`).join("; ");
    const headers = { Cookie: cookie, Origin: scene.url, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded" };
    const foreign = await scene.raw("POST", "/tickets/show/cancel", headers, `why=x&form_token=${token}`);
    report.holds(foreign.status === 403, `a form of another session is ${foreign.status}`);
    // The owner ends it elsewhere: the open page of the thief gets nothing more.
    await owner.page.goto(`${scene.url}/settings`);
    const own = await owner.page.locator("tr", { hasText: "this one" }).locator("form").getAttribute("action");
    await other.page.goto(`${scene.url}/settings`);
    await other.page.locator(`form[action="${own}"] button`).click();
    const began = Date.now();
    await stolen.waitForURL("**/login**", { timeout: 10000 }).catch(() => report.holds(false, "the open page of the thief stays"));
    report.figure("the stolen page ends after", (Date.now() - began) / 1000, 5, " s");
    for (const value of ["", "x", "cs_0", `cs_${"0".repeat(64)}`, "%00", `${cookies[0].value}x`, cookies[0].value.toUpperCase()]) {
      const { status } = await scene.raw("GET", "/board", { Cookie: `${cookies[0].name}=${value}` });
      report.holds(status === 303, `the cookie ${value.slice(0, 12)} gets ${status}`);
    }
    report.holds(await stageOf(scene, "show") === "escalated", "the ticket has changed");
  } },
  { number: 22, name: "a browser whose clock is three days ahead", async perform({ browser, scene, report }) {
    const { page, trouble } = await logIn(browser, scene);
    await page.clock.install({ time: Date.now() + 3 * 86400000 });
    await scene.add("clocked", "Added under another clock");
    await page.goto(`${scene.url}/tickets/clocked`);
    await page.clock.runFor(40000);
    const age = await page.locator("#head time").first().textContent();
    // Ages are renewed every 15 seconds.
    report.holds(/^(2[5-9]|[345][0-9]) s ago$/.test(age), `the age is ${age}`);
    report.note(`a ticket that the page has shown for 40 s: ${age}`);
    report.holds(trouble.length === 0, trouble.join(" | "));
  } },
  { number: 7, name: "a transcript of 100,000 lines that grows", async perform({ browser, scene, report, long }) {
    const seconds = long ? 600 : 15;
    const lines = Array.from({ length: 99500 }, (_, index) => ({ say: `line ${index} of a long transcript with some words in it` }));
    const grows = Array.from({ length: (seconds + 60) * 4 }, (_, index) => [{ wait_ms: 250 }, { say: `later ${index}` }, { say: `and ${index}` }]).flat();
    const agent = run(scene, "chatty", "Talks and talks", { build: { always: [...lines, ...grows, ...build("echo 1 > chatty.txt")] }, review: { always: verdict("approve") }, verify: verify("fixed") });
    agent.catch(() => {});
    for (let tries = 0; tries < 120; tries += 1) {
      const runs = (await scene.rest("GET", "/api/v1/tickets/chatty/runs")).value;
      const items = runs.items ?? runs;
      if (Array.isArray(items) && items[0] && items[0].bytes > 5e6) break;
      await sleep(500);
    }
    const { page } = await logIn(browser, scene);
    const before = scene.memory();
    const began = Date.now();
    await page.goto(`${scene.url}/tickets/chatty/runs/1`);
    report.note(`opened in ${Date.now() - began} ms`);
    const first = await page.evaluate(() => document.querySelector("#turns").lastElementChild.id);
    let most = 0;
    for (let index = 0; index < seconds; index += 1) {
      await sleep(1000);
      most = Math.max(most, await nodes(page));
    }
    const last = await page.evaluate(() => document.querySelector("#turns").lastElementChild.id);
    const turn = (id) => Number(id.replace("turn-", ""));
    report.holds(turn(last) >= turn(first) + seconds, `it does not follow: ${first} to ${last}`);
    report.figure(`nodes in ${seconds} s`, most, 20000);
    report.figure("heap", await heap(page), 150, " MB");
    report.figure("server growth", Math.max(0, scene.memory() - before), 30, " MB");
    report.holds(turn(last) > 99000, `the last turn is ${last}`);
    for (const child of scene.children) child.kill("SIGKILL");
  } },
  { number: 5, name: "10,000 tickets", async perform({ browser, scene, report }) {
    const began = Date.now();
    const stages = 100;
    for (let from = 0; from < 10000; from += 100) {
      const tickets = Array.from({ length: 100 }, (_, index) => ({ id: `many-${from + index}`, spec: { title: `One of ten thousand, number ${from + index}` } }));
      const { status, value } = await scene.rest("POST", "/api/v1/batches", { tickets, repository: scene.repo });
      if (status >= 300) throw new Error(`${status} ${JSON.stringify(value).slice(0, 200)}`);
    }
    for (let index = 0; index < stages; index += 1) await scene.rest("POST", `/api/v1/tickets/many-${index * 7}/cancel`, { why: "so that the board has two columns" });
    report.note(`seeded in ${((Date.now() - began) / 1000).toFixed(0)} s`);
    const { page } = await logIn(browser, scene, { viewport: { width: 1440, height: 900 } });
    const frames = [];
    let html = "";
    for (let index = 0; index < 3; index += 1) {
      const response = await page.goto(`${scene.url}/board`);
      html = await response.text();
      frames.push(await firstFrame(page));
    }
    report.figure("first frame of the board", frames.toSorted((a, b) => a - b)[1] / 1000, 1, " s");
    report.figure("HTML compressed", gzipSync(html).length / 1000, 150, " kB");
    report.figure("elements", await nodes(page), 6000);
    const times = [];
    for (const query of ["stage:queued number 42", "stage:cancelled", "number 9999", "stage:queued,escalated", "nothing has these words", "agent:claude", "finding:high age<1d"]) {
      const start = Date.now();
      const response = await page.request.get(`${scene.url}/tickets?q=${encodeURIComponent(query)}`);
      times.push(Date.now() - start);
      report.holds(response.status() === 200, `${query}: ${response.status()}`);
    }
    report.figure("slowest filter", Math.max(...times), 300, " ms");
    const assets = [];
    for (const path of await page.evaluate(() => [...document.querySelectorAll("script[src], link[rel=stylesheet]")].map((one) => one.getAttribute("src") || one.getAttribute("href")))) {
      assets.push(gzipSync(await (await page.request.get(scene.url + path)).body()).length / 1000);
    }
    report.figure("script and style, compressed", assets.reduce((sum, one) => sum + one, 0), 60, " kB");
    report.note(`server ${scene.memory().toFixed(0)} MB`);
  } },
  { number: 6, name: "1,000 events a second under an open board", async perform({ browser, scene, report, long }) {
    const seconds = long ? 60 : 10;
    const { page } = await logIn(browser, scene);
    await page.goto(`${scene.url}/board`);
    await sleep(1000);
    await page.evaluate(() => {
      window.keys = [];
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (entry.name === "keydown") window.keys.push(entry.duration);
      }).observe({ type: "event", durationThreshold: 16 });
    });
    const before = { heap: await heap(page), nodes: await nodes(page), server: scene.memory() };
    const written = flood(scene, 1000, seconds);
    const end = Date.now() + seconds * 1000;
    let pressed = 0;
    while (Date.now() < end) { await page.keyboard.press(pressed % 40 < 20 ? "j" : "k"); pressed += 1; await sleep(150); }
    const count = await written;
    await scene.add("final", "The last state", { priority: 99 });
    const shown = await page.waitForSelector("#card-final", { timeout: 10000 }).then(() => true, () => false);
    report.holds(shown, "the final state is not shown");
    report.holds(count >= 950 * seconds, `only ${count} events in ${seconds} s`);
    report.note(`${count} events in ${seconds} s`);
    // Keys that took less than 16 ms are not listed.
    const listed = await page.evaluate(() => window.keys);
    const keys = [...Array(Math.max(0, pressed - listed.length)).fill(8), ...listed];
    report.figure("key to frame, p95", p95(keys), 100, " ms");
    report.figure("heap growth", Math.max(0, await heap(page) - before.heap), 20, " MB");
    report.note(`elements ${before.nodes} → ${await nodes(page)}, server ${before.server.toFixed(0)} → ${scene.memory().toFixed(0)} MB`);
  } },
];
