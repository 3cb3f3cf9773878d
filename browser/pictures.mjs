// Pictures of every page in both themes and three widths, to look at.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { logIn, PAGES } from "./checks.mjs";
import { sleep } from "./scene.mjs";

export async function takePictures(browser, scene, directory) {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  let wide = 0;
  for (const theme of ["light", "dark"]) {
    for (const width of [390, 1024, 1440]) {
      const { context, page } = await logIn(browser, scene, { colorScheme: theme, viewport: { width, height: 900 } });
      for (const [name, path] of Object.entries({ ...PAGES, missing: "/tickets/none" })) {
        await page.goto(scene.url + path);
        const more = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (more > 0) { wide += 1; console.log(`FAILED  ${name} is ${more} px too wide at ${width} px`); }
        await page.screenshot({ path: join(directory, `${name}-${theme}-${width}.png`) });
      }
      await context.close();
    }
  }
  console.log(`pictures of ${Object.keys(PAGES).length} pages in ${directory}`);
  return wide;
}

// Pictures for the documentation and the README, from `countersign demo --serve` as anybody sees it.
export async function takeDocsPictures(browser, binary, directory) {
  const home = mkdtempSync(join(tmpdir(), "demo-"));
  writeFileSync(join(home, ".gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n");
  const env = { PATH: process.env.PATH, HOME: home, LANG: "C.UTF-8" };
  const demo = spawn(binary, ["--data-dir", join(home, "data"), "demo", "--serve"], { cwd: home, env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let text = "";
    const printed = new Promise((done) => demo.stdout.on("data", (chunk) => { text += chunk; if (text.includes("dashboard: ")) done(); }));
    await Promise.race([printed, sleep(60000).then(() => { throw new Error("the demo does not start"); })]);
    const [link] = /http\S+login#\S+/.exec(text);
    const url = new URL(link).origin;
    const first = await browser.newContext();
    const page = await first.newPage();
    await page.goto(link);
    await page.waitForURL((url) => !url.pathname.startsWith("/login"));
    const take = async (name, path, theme, size, prepare = async () => {}) => {
      const context = await browser.newContext({ colorScheme: theme, viewport: size });
      await context.addCookies(await first.cookies());
      const page = await context.newPage();
      await page.goto(url + path);
      await prepare(page);
      await page.screenshot({ path: join(directory, `dashboard-${name}.png`) });
      await context.close();
    };
    const desk = { width: 1440, height: 860 };
    // Something waits for a person, something has landed, and the rest moves.
    await page.goto(`${url}/board`);
    await page.waitForFunction(() => ["escalated", "ended", "building"].every((name) => document.querySelector(`#column-${name} .card`)), null, { timeout: 120000 });
    await take("board", "/board", "light", desk);
    await take("board-dark", "/board", "dark", desk);
    await page.waitForFunction(() => document.querySelectorAll("#column-escalated .card").length >= 2, null, { timeout: 120000 });
    const [ticket] = await page.locator("#column-escalated .card code").allTextContents();
    await take("inbox", "/", "light", desk, async (page) => { await page.locator("[data-decision] > summary").first().click(); });
    await take("ticket", `/tickets/${ticket}`, "dark", desk);
    await take("diff", `/tickets/${ticket}/diff`, "light", desk, async (page) => { await page.locator("a[data-line]").first().click(); });
    await page.waitForFunction(() => document.querySelectorAll("#column-ended .card").length >= 6, null, { timeout: 180000 });
    await take("costs", "/costs", "light", desk);
    await take("phone", "/", "light", { width: 390, height: 844 });
    console.log(`pictures of the documentation in ${directory}`);
    return 0;
  } finally {
    const ended = new Promise((done) => demo.once("exit", done));
    demo.kill("SIGINT");
    if (await Promise.race([ended.then(() => true), sleep(20000).then(() => false)]) === false) demo.kill("SIGKILL");
    rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}
