// A server with tickets of scripted agents, for the checks of the dashboard. Everything is below one
// temporary directory, listens on loopback, and is ended and removed by `end`.
import { spawn, execFileSync, execFile } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync, openSync, closeSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export class Scene {
  constructor(binary) {
    this.binary = binary;
    this.root = mkdtempSync(join(tmpdir(), "browser-"));
    this.home = join(this.root, "home");
    this.repo = join(this.root, "words");
    this.data = join(this.root, "data");
    mkdirSync(this.home);
    mkdirSync(this.repo);
    writeFileSync(join(this.home, ".gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n");
    this.env = { PATH: process.env.PATH, HOME: this.home, LANG: "C.UTF-8" };
    this.children = new Set();
  }

  file(name, text) { const path = join(this.root, name); writeFileSync(path, text); return path; }
  script(name, roles) { return `scripted:${this.file(`${name}.json`, JSON.stringify({ version: 1, ...roles }))}`; }

  repository(files) {
    for (const [name, text] of Object.entries(files)) {
      const path = join(this.repo, name);
      mkdirSync(join(path, ".."), { recursive: true });
      writeFileSync(path, text);
    }
    const git = (...words) => execFileSync("git", words, { cwd: this.repo, env: this.env, stdio: "ignore" });
    git("init", "--initial-branch=main");
    git("add", ".");
    git("commit", "-m", "A small shell project");
  }

  words(args) { return ["--data-dir", this.data, ...args]; }
  // Runs a command and gives its output and its exit code; the exit code is the outcome of a ticket.
  cli(args, input) {
    return new Promise((done) => {
      const child = execFile(this.binary, this.words(args), { cwd: this.repo, env: this.env, maxBuffer: 64 << 20 },
        (error, stdout, stderr) => done({ code: error ? error.code : 0, stdout, stderr }));
      this.children.add(child);
      child.on("exit", () => this.children.delete(child));
      if (input) child.stdin.end(input);
    });
  }
  async json(args) {
    const { stdout, stderr } = await this.cli([...args, "--json"]);
    try { return JSON.parse(stdout); } catch { throw new Error(`${args.join(" ")}: ${stdout} ${stderr}`); }
  }

  async serve(port = 0) {
    const log = openSync(join(this.root, "serve.log"), "a");
    this.server = spawn(this.binary, this.words(["serve", "--listen", `127.0.0.1:${port}`]),
      { cwd: this.repo, env: this.env, stdio: ["ignore", "pipe", log] });
    closeSync(log);
    let text = "";
    const printed = new Promise((done, fail) => {
      this.server.stdout.on("data", (chunk) => { text += chunk; if (text.includes("dashboard: ")) done(); });
      this.server.on("exit", () => fail(new Error(`the server ended: ${text} ${readFileSync(join(this.root, "serve.log"))}`)));
    });
    await Promise.race([printed, sleep(60000).then(() => { throw new Error("the server does not start"); })]);
    this.url = /listening on (\S+)/.exec(text)[1];
    this.printedLink = /dashboard: (\S+)/.exec(text)[1];
    this.servedAt = Date.now();
    this.sign = JSON.parse(readFileSync(join(this.data, "server.json")));
    return this.printedLink;
  }
  get port() { return Number(new URL(this.url).port); }
  async kill() {
    const gone = new Promise((done) => this.server.once("exit", done));
    this.server.removeAllListeners("exit");
    const ended = new Promise((done) => this.server.once("exit", done));
    this.server.kill("SIGKILL");
    await Promise.race([gone, ended, sleep(5000)]);
  }
  // Memory of the server in MB.
  memory() {
    const status = readFileSync(`/proc/${this.server.pid}/status`, "utf8");
    return Number(/VmRSS:\s+(\d+)/.exec(status)[1]) / 1024;
  }

  async link() { return (await this.json(["open"])).login; }
  async token(agent, role, more = []) {
    return (await this.json(["token", "create", "--agent", agent, "--role", role, ...more])).secret;
  }

  async rest(method, path, body, token = this.sign.token) {
    const response = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    let value = text;
    try { value = JSON.parse(text); } catch { /* a page */ }
    return { status: response.status, value };
  }
  async add(id, title, more = {}) {
    const { status, value } = await this.rest("POST", "/api/v1/tickets", { id, title, repository: this.repo, ...more });
    if (status !== 201) throw new Error(`${id}: ${status} ${JSON.stringify(value)}`);
    return value;
  }
  async ticket(id) { return (await this.rest("GET", `/api/v1/tickets/${id}`)).value.ticket; }
  async events(id) { return (await this.rest("GET", `/api/v1/tickets/${id}/events?limit=500`)).value.items; }

  // A request with headers that a browser does not let a page write, such as Host.
  raw(method, path, headers, body = "") {
    return new Promise((done, fail) => {
      const request = http.request({ host: "127.0.0.1", port: this.port, method, path, headers }, (response) => {
        let text = "";
        response.on("data", (chunk) => { text += chunk; });
        response.on("end", () => done({ status: response.statusCode, text, headers: response.headers }));
      });
      request.on("error", fail);
      request.end(body);
    });
  }

  async end() {
    if (this.server && this.server.exitCode === null) {
      this.server.removeAllListeners("exit");
      const ended = new Promise((done) => this.server.once("exit", done));
      this.server.kill("SIGTERM");
      if (await Promise.race([ended.then(() => true), sleep(10000).then(() => false)]) === false) this.server.kill("SIGKILL");
    }
    for (const child of this.children) child.kill("SIGKILL");
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

// Scripts of agents.
const usage = { usage: { usd: 0.1, tokens_in: 5000, tokens_out: 500 } };
const finding = (file, line, more = {}) => ({
  severity: "critical", category: "security", file, line, title: "eval runs whatever the text holds",
  problem: "The text is pasted into a command line.", impact: "Anybody runs commands.", fix: "Treat it as data.", ...more,
});
export const build = (command, summary = "Done.") => [{ say: "reading the ticket" }, { run: { command } }, usage, { result: { summary } }];
export const verdict = (word, findings = []) => [{ say: "reading the change" }, usage,
  { result: { verdict: word, commit: "$COMMIT", complete: true, findings } }];
export const verify = (outcome) => ({ always: [{ result: { answers: [{ finding: "F1", outcome, evidence: "seen" }] } }] });
export { finding };

export const PROJECT = {
  "README.md": "# words\n\nSmall tools for words.\n",
  "test.sh": "exit 0\n",
  "countersign.toml": "[checks]\ntest = \"sh test.sh\"\n",
};

// Tickets that escalate in their first round, all with the same finding. `names` are their ids.
export async function addEscalated(scene, names) {
  const agent = scene.script("quarrel", {
    build: { always: build("printf 'eval \"echo $1\"\\nexit 0\\n' > $COUNTERSIGN_TICKET.sh") },
    review: { always: verdict("request_changes", [finding("README.md", 1)]) },
    verify: verify("confirmed"),
  });
  const tickets = names.map((id) => `  - {id: ${id}, title: "Decide about ${id}"}`).join("\n");
  const epic = scene.file("epic.yaml", `id: checks\ntitle: Tickets that wait for a person\ntickets:\n${tickets}\n`);
  const { code, stdout, stderr } = await scene.cli(["run", epic, "--jobs", "4", "--builder", agent, "--reviewer", agent, "--max-rounds", "1"]);
  if (code !== 4) throw new Error(`the tickets did not escalate: ${code} ${stdout} ${stderr}`);
}

// One ticket with a script of its own.
export async function run(scene, id, title, roles, more = []) {
  const agent = scene.script(id, roles);
  const file = scene.file(`${id}.md`, `---\nid: ${id}\n---\n# ${title}\n`);
  return scene.cli(["run", file, "--builder", agent, "--reviewer", agent, ...more]);
}
