// Login with a certified provider (npm: oidc-provider) on loopback: the way of a person, and answers
// that must be refused. The provider and the server are started and ended here.
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { Provider } from "oidc-provider";
import { Scene, PROJECT } from "./scene.mjs";

const PEOPLE = {
  ada: { email: "ada@example.org", email_verified: true, groups: ["ops"] },
  vic: { email: "vic@example.com", email_verified: true, groups: [] },
  eve: { email: "eve@evil.example", email_verified: true, groups: ["dev"] },
  mal: { email: "mal@example.com", email_verified: false, groups: [] },
};

// A provider whose address is known only when its port is open.
async function listen(makeProvider) {
  let handler = (_, response) => response.end();
  const server = http.createServer((request, response) => handler(request, response));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  handler = makeProvider(issuer).callback();
  return { server, issuer };
}

export async function checkOidc({ browser, report, binary }) {
  const scene = new Scene(binary);
  scene.repository(PROJECT);
  const port = 20000 + Math.floor(Math.random() * 20000);
  const callback = `http://127.0.0.1:${port}/login/callback`;
  const { server, issuer } = await listen((issuer) => new Provider(issuer, {
    clients: [{ client_id: "countersign", client_secret: "a secret+of/the client", redirect_uris: [callback] }],
    pkce: { required: () => true },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
    scopes: ["openid", "email", "profile", "groups"],
    findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id, ...PEOPLE[id] }) }),
    cookies: { keys: ["for a test"] },
    // The consent is given at once, so that the way is short.
    features: { devInteractions: { enabled: true } },
  }));
  try {
    const config = join(scene.home, ".config", "countersign");
    mkdirSync(config, { recursive: true });
    const secret = join(config, "oidc-secret");
    writeFileSync(secret, "a secret+of/the client\n");
    chmodSync(secret, 0o600);
    writeFileSync(join(config, "config.toml"), `[server.oidc]
issuer = "${issuer}"
client_id = "countersign"
client_secret_file = "${secret}"
scopes = ["groups"]
groups = {ops = "admin"}
emails = {"*@example.com" = "viewer"}
`);
    await scene.serve(port);
    const logIn = async (person) => {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(`${scene.url}/board`);
      await page.click("text=Log in with 127.0.0.1");
      await page.fill("input[name=login]", person);
      await page.fill("input[name=password]", "any");
      await page.click("button[type=submit]");
      await page.click("button[type=submit]:has-text('Continue')").catch(() => {});
      await page.waitForURL((url) => url.port === String(port), { timeout: 15000 });
      return { context, page };
    };
    const ada = await logIn("ada");
    report.holds(new URL(ada.page.url()).pathname === "/board", `ada comes to ${ada.page.url()}`);
    await ada.page.goto(`${scene.url}/settings`);
    const text = await ada.page.textContent("main");
    report.holds(text.includes("ada@example.org") && text.includes("admin") && text.includes("Tokens"), "ada has not her name or role");
    report.holds((await ada.context.cookies()).every((cookie) => !cookie.name.includes("login")), "the cookie of the login stays");
    const vic = await logIn("vic");
    report.holds(await vic.page.locator("text=read-only").count() > 0, "vic may change something");
    for (const [person, word] of [["eve", "none of its groups"], ["mal", "verified email"]]) {
      const { page } = await logIn(person);
      report.holds((await page.textContent("[role=alert]")).includes(word), `${person} is let in or told nothing`);
      await page.goto(`${scene.url}/board`);
      report.holds(new URL(page.url()).pathname === "/login", `${person} sees the board`);
    }
    // Answers that no login of this browser asked for.
    const { headers } = await scene.raw("GET", "/login/oidc?next=/board", {});
    const cookie = headers["set-cookie"][0].split(";")[0];
    const state = new URL(headers.location).searchParams.get("state");
    const query = new URL(headers.location).searchParams;
    report.holds(query.get("code_challenge_method") === "S256" && query.get("nonce").length > 40, "no PKCE or nonce");
    const iss = `&iss=${encodeURIComponent(issuer)}`;
    for (const [name, path, cookies, status] of [
      ["no cookie", `?code=x&state=${state}${iss}`, {}, 403],
      ["another state", `?code=x&state=${"0".repeat(64)}${iss}`, { Cookie: cookie }, 403],
      ["no state", `?code=x${iss}`, { Cookie: cookie }, 403],
      ["another issuer", `?code=x&state=${state}&iss=https://evil.example`, { Cookie: cookie }, 403],
      ["no issuer", `?code=x&state=${state}`, { Cookie: cookie }, 403],
      ["a made-up code", `?code=x&state=${state}${iss}`, { Cookie: cookie }, 502],
      ["a refusal", `?error=access_denied&state=${state}${iss}`, { Cookie: cookie }, 403],
    ]) {
      const answer = await scene.raw("GET", `/login/callback${path}`, cookies);
      report.holds(answer.status === status, `${name}: ${answer.status}`);
      report.holds(!(answer.headers["set-cookie"] || []).some((one) => /^(__Host-)?cs=/.test(one)), `${name} opens a session`);
    }
    const away = await scene.raw("GET", "/login/oidc?next=//evil.example", {});
    report.holds(!decodeURIComponent(away.headers["set-cookie"][0]).includes("evil"), "a login leads to another site");
    report.note("2 people let in by group and by address, 2 refused, 7 forged answers refused");
  } finally {
    await scene.end();
    server.closeAllConnections();
    server.close();
  }
}
