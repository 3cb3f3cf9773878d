// A program's day over REST, with a client whose types are generated from the OpenAPI document. tsc checks every field
// that is read here; the server's answers prove it again.
import createClient from "openapi-fetch";
import type { paths } from "./api.d.ts";

declare const process: { env: Record<string, string | undefined> };

const wanted = (name: string): string => {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
};
const api = createClient<paths>({
  baseUrl: wanted("URL"),
  headers: { Authorization: `Bearer ${wanted("TOKEN")}` },
});
const repository = wanted("REPO");

function ok<T>(name: string, answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(`${name}: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

function must(truth: boolean, what: string): asserts truth {
  if (!truth) throw new Error(what);
}

const me = ok("me", await api.GET("/api/v1/me"));
must(me.role === "human" && me.ticket === null, "the caller is not a person");

const added = ok("add", await api.POST("/api/v1/tickets", {
  params: { header: { "Idempotency-Key": "typed-ts" } },
  body: { id: "typed-ts", title: "Greet the tide", repository, priority: 70 },
}));
must(added.stage === "queued", `it is ${added.stage}`);
const found = ok("list", await api.GET("/api/v1/tickets", {
  params: { query: { q: "tide", stage: "queued", sort: "-priority", counts: "true" } },
}));
must(found.items.some((row) => row.id === "typed-ts" && row.priority === 70), "it is not found");
must((found.counts?.queued ?? 0) >= 1, "it is not counted");

const shown = await api.GET("/api/v1/tickets/{ticket}", { params: { path: { ticket: "typed-ts" } } });
must(ok("show", shown).ticket.spec.title === "Greet the tide", "another ticket");
const version = shown.response.headers.get("etag") ?? "";
const stale = await api.POST("/api/v1/tickets/{ticket}/cancel", {
  params: { path: { ticket: "typed-ts" }, header: { "If-Match": '"99"' } },
  body: { why: "not now" },
});
must(stale.response.status === 409 && (stale.error?.detail ?? "") !== "", "a stale version counts");
const cancelled = ok("cancel", await api.POST("/api/v1/tickets/{ticket}/cancel", {
  params: { path: { ticket: "typed-ts" }, header: { "If-Match": version } },
  body: { why: "not now" },
}));
must(cancelled.stage === "cancelled", "it is not cancelled");
const events = ok("events", await api.GET("/api/v1/tickets/{ticket}/events", { params: { path: { ticket: "typed-ts" } } }));
must(events.items.length >= 2 && events.items.every((event) => event.by !== ""), "events are missing");

const escalated = ok("escalations", await api.GET("/api/v1/escalations"));
const first = escalated.items[0];
must(first !== undefined && first.feedback.length > 0, "nobody waits for a person");
const runs = ok("runs", await api.GET("/api/v1/tickets/{ticket}/runs", { params: { path: { ticket: first.id } } }));
const run = runs.items[0];
must(run !== undefined, "there was no run");
const bytes = await api.GET("/api/v1/tickets/{ticket}/runs/{run}/transcript", {
  params: { path: { ticket: first.id, run: run.id } },
  parseAs: "text",
});
must((bytes.data ?? "").length === run.bytes, "the transcript has another size");
const diff = ok("diff", await api.GET("/api/v1/tickets/{ticket}/diff", { params: { path: { ticket: first.id } } }));
must(diff.files.length > 0, "the diff is empty");
const resolved = ok("resolve", await api.POST("/api/v1/escalations/{ticket}", {
  params: { path: { ticket: first.id } },
  body: { choice: "reject", why: "not wanted any more" },
}));
must(resolved.by !== "", "nobody decided");

ok("pause", await api.POST("/api/v1/pauses", { body: { scope: "queue", name: "typed" } }));
must(ok("pauses", await api.GET("/api/v1/pauses")).items.some((pause) => pause.scope.name === "typed"), "no pause");
ok("resume", await api.DELETE("/api/v1/pauses/{scope}/{name}", { params: { path: { scope: "queue", name: "typed" } } }));
const task = ok("task", await api.POST("/api/v1/tasks", {
  body: { agent_id: "typist", task_type: "review", title: "Look at it", description: "All of it" },
}));
ok("cancel task", await api.POST("/api/v1/tasks/{task}/cancel", { params: { path: { task: task.task_id } }, body: { why: "done" } }));
const days = ok("days", await api.GET("/api/v1/costs/days", { params: { query: { days: "3" } } }));
must(days.items.length === 3 && days.items.every((day) => day.spent.usd_micros >= 0), "days are missing");
ok("status", await api.GET("/api/v1/status"));
ok("jobs", await api.GET("/api/v1/jobs"));
ok("messages", await api.GET("/api/v1/messages"));
const missing = await api.GET("/api/v1/tickets/{ticket}", { params: { path: { ticket: "nowhere" } } });
must(missing.response.status === 404 && missing.error !== undefined, "a missing ticket is found");
console.log("story told");
