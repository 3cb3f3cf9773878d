// The story that every client tells: build, submit, be rejected, mend, be approved. `connect(token)`
// gives a client of whichever kind, with callTool.
import { execFileSync } from "node:child_process";
import { appendFileSync } from "node:fs";
import { join } from "node:path";

const { REPO, TREE } = process.env;

function git(...words) {
  execFileSync("git", words, { cwd: REPO });
}

async function call(client, name, args) {
  const answer = await client.callTool({ name, arguments: args });
  if (answer.isError) throw new Error(`${name}: ${answer.content[0].text}`);
  return answer.structuredContent;
}

async function next(client, kind) {
  for (let turn = 0; turn < 20; turn += 1) {
    const { assignment } = await call(client, "wait_for_work", { timeout_secs: 5 });
    if (assignment) {
      if (assignment.kind !== kind) throw new Error(`a ${assignment.kind} instead of a ${kind}`);
      return assignment;
    }
  }
  throw new Error(`there was no ${kind}`);
}

function work(line) {
  appendFileSync(join(TREE, "greet.txt"), `${line}\n`);
  git("-C", TREE, "add", "-A");
  git("-C", TREE, "commit", "-qm", line);
}

export async function tell(connect) {
  const builder = await connect(process.env.BUILDER);
  const reviewer = await connect(process.env.REVIEWER);
  const tools = async (client) => (await client.listTools()).tools.map((tool) => tool.name);
  const [its, theirs] = [await tools(builder), await tools(reviewer)];
  if (its.includes("submit_review_result") || theirs.includes("submit_for_review")) throw new Error("roles are mixed");
  console.log(`a builder has ${its.length} tools, a reviewer ${theirs.length}`);

  const first = await next(builder, "build");
  await call(builder, "accept_assignment", { assignment_id: first.id });
  git("worktree", "add", "-q", "-b", first.branch_name, TREE, "main");
  work("hello");
  const put = await call(builder, "submit_for_review", { assignment_id: first.id, attempt: first.attempt });
  console.log(`submitted ${put.commit.slice(0, 10)}: ${put.status}`);

  const review = await next(reviewer, "review");
  const context = await call(reviewer, "get_review_context", {});
  if (!JSON.stringify(context).includes("greet.txt")) throw new Error("the change is not in the context");
  let said = await call(reviewer, "submit_review_result", { assignment_id: review.id, attempt: review.attempt, approved: false, feedback: "Greet by name." });
  console.log(`reviewed: ${said.status}, attempt ${said.review_attempt} of ${said.max_cycles}`);

  const again = await next(builder, "build");
  if (!again.review_feedback.includes("Greet by name")) throw new Error("the feedback did not come back");
  work("hello, Ada");
  await call(builder, "submit_for_review", { assignment_id: again.id, attempt: again.attempt });
  // A fresh review, and the word on what was found before, in whichever order.
  while (said.status !== "approved") {
    const { assignment } = await call(reviewer, "wait_for_work", { timeout_secs: 30 });
    const { id, attempt, kind } = assignment;
    const answer = kind === "verify"
      ? { answers: [{ finding: "F1", outcome: "fixed", evidence: "the name is greeted" }] }
      : { approved: true, feedback: "" };
    said = await call(reviewer, "submit_review_result", { assignment_id: id, attempt, ...answer });
    console.log(`answered a ${kind}: ${said.status}`);
  }
  await builder.close();
  await reviewer.close();
}
