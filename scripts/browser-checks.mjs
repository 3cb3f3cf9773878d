// Checks of the dashboard in Chromium, started by scripts/browser. Prints one line for each.
import { createRequire } from "node:module";

const told = JSON.parse(process.argv[2]);
const { chromium } = createRequire(import.meta.url)(told.driver);
const browser = await chromium.launch({
  executablePath: told.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
let failed = 0;
const check = (name, passed, more = "") => {
  if (!passed) failed += 1;
  console.log(`${passed ? "passed" : "FAILED"}  ${name} ${more}`);
};
const add = (id, title) => fetch(`${told.url}/api/v1/tickets`, {
  method: "POST",
  headers: { Authorization: `Bearer ${told.token}`, "Content-Type": "application/json" },
  body: JSON.stringify({ id, title, repository: told.repository }),
});

// The link logs in, once.
const context = await browser.newContext();
const page = await context.newPage();
const trouble = [];
page.on("console", (message) => { if (message.type() === "error") trouble.push(message.text()); });
page.on("pageerror", (error) => trouble.push(String(error)));
await page.goto(told.links[0]);
await page.waitForSelector("h1:has-text('Inbox')");
check("the link opens the inbox", new URL(page.url()).pathname === "/" && !page.url().includes("#"));
const state = await context.storageState();
const again = await (await browser.newContext()).newPage();
await again.goto(told.links[0]);
await again.waitForSelector("[role=alert]");
check("the same link a second time is refused", (await again.textContent("[role=alert]")).includes("works once"));

await again.close();

// A card appears and the typed text stays. A hidden tab lets go of its stream, so it is brought to the front.
await page.bringToFront();
await page.goto(`${told.url}/board`);
await page.waitForTimeout(500);
await page.fill("#jump", "half a wor");
const sent = Date.now();
await add("live-1", "A ticket that appears by itself");
const card = await page.waitForSelector("#card-live-1", { timeout: 5000 }).catch(() => null);
check("a new card appears without a reload", card !== null, `${Date.now() - sent} ms after the request began`);
check("text in a field stays over an update", (await page.inputValue("#jump")) === "half a wor");
const before = await page.evaluate(() => document.querySelectorAll("*").length);
for (let index = 0; index < 60; index += 1) await add(`many-${index}`, `One of many, number ${index}`);
await page.waitForTimeout(1500);
const after = await page.evaluate(() => document.querySelectorAll("*").length);
const cards = await page.locator("#column-queued .card").count();
check("a column holds at most 50 cards", cards <= 50, `${cards} cards, ${before} → ${after} elements`);

// The keyboard.
await page.goto(`${told.url}/tickets`);
await page.keyboard.press("j");
await page.keyboard.press("j");
check("j moves to the second row", (await page.locator("[data-current]").count()) === 1);
await page.keyboard.press("g");
await page.keyboard.press("b");
await page.waitForURL("**/board");
check("g b goes to the board", true);
await page.keyboard.press("?");
check("? opens the help", await page.locator("dialog[open]").count() === 1);

// Every page in both themes and three widths.
const paths = { inbox: "/", board: "/board", tickets: "/tickets", ticket: "/tickets/slug", diff: "/tickets/slug/diff",
  runs: "/tickets/slug/runs", run: "/tickets/slug/runs/1", agents: "/agents", queues: "/queues", epics: "/epics",
  costs: "/costs", log: "/log", settings: "/settings" };
for (const theme of ["light", "dark"]) {
  for (const width of [390, 1024, 1440]) {
    const shown = await browser.newContext({ storageState: state, colorScheme: theme, viewport: { width, height: 900 } });
    const tab = await shown.newPage();
    tab.on("console", (message) => { if (message.type() === "error") trouble.push(`${tab.url()}: ${message.text()}`); });
    for (const [name, path] of Object.entries(paths)) {
      await tab.goto(told.url + path);
      const wide = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) check(`${name} fits ${width} px`, false, `${wide} px too wide`);
      await tab.screenshot({ path: `${told.pictures}/${name}-${theme}-${width}.png` });
    }
    await shown.close();
  }
}
const out = await (await browser.newContext()).newPage();
await out.goto(`${told.url}/login`);
await out.screenshot({ path: `${told.pictures}/login.png` });

// Without script: log in, read, decide.
const plain = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
await plain.goto(`${told.url}/login`);
await plain.fill("#secret", told.links[1].split("#")[1]);
await plain.click("button[type=submit]");
await plain.goto(`${told.url}/tickets/slug`);
await plain.fill("#why-slug", "decided without script");
await plain.click("button[value=reject]");
check("an escalation is settled without JavaScript", (await plain.textContent("main")).includes("decided without script"));
check("no script error and no violation of the content policy", trouble.length === 0, trouble.slice(0, 3).join(" | "));
await browser.close();
process.exit(failed === 0 ? 0 : 1);
