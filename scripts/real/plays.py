"""What the scripted model does: one play for each role, chosen by the brief, the next step by what was answered.

A play is a list of steps (read, write, edit, shell), each carried out with whatever tool the CLI offers
for it; a step for which it offers none is left out. How many tool results stand behind the brief says
which step is next, so a play needs no memory. The last step is the answer that Countersign wants.
"""
import hashlib
import json
import os
import re
from dataclasses import dataclass, replace

from wire import Move

BRIEF = re.compile(r"# (Build|Rework|Review|Verify findings on) (\S+?)(?:, round (\d+))?(?::|\n|\\n|$)")
BRIEF_FILE = re.compile(r"(/[^\s`'\"<>]*/brief\.md)")
CHANGE = re.compile(r"The change is checked out in `(/[^`]+)`")
MARK = "hostile-mark-"
RESULT_SHOWN = 12000


# --- the small projects ----------------------------------------------------------------------------

@dataclass
class Project:
    """A change in two rounds: `files` has a defect that `broken` → `mended` removes, in whole lines."""
    language: str
    base: dict
    files: dict
    place: str  # the file with the defect
    broken: str
    mended: str
    test: str
    extra: str = "true"  # a command that hooks the new file in
    touched: frozenset = frozenset()  # what else the change may touch


PYTHON = Project(
    language="Python",
    base={"total.py": "def total(values):\n    return sum(values)\n",
          "test_total.py": "import unittest\n\nfrom total import total\n\n\nclass Total(unittest.TestCase):\n"
                           "    def test_adds(self):\n        self.assertEqual(total([1, 2]), 3)\n"},
    files={"mean.py": "def mean(values):\n    return sum(values) / len(values)\n",
           "test_mean.py": "import unittest\n\nfrom mean import mean\n\n\nclass Mean(unittest.TestCase):\n"
                           "    def test_halves(self):\n        self.assertEqual(mean([1, 2]), 1.5)\n"},
    place="mean.py",
    broken="    return sum(values) / len(values)\n",
    mended="    return sum(values) / len(values) if values else 0.0\n",
    test="PYTHONDONTWRITEBYTECODE=1 python3 -m unittest",
)
JAVASCRIPT = Project(
    language="JavaScript",
    base={"package.json": '{"name": "small", "version": "1.0.0", "private": true}\n',
          "total.js": "exports.total = (values) => values.reduce((a, b) => a + b, 0);\n"},
    files={"mean.js": "exports.mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;\n",
           "mean.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
                           "const { mean } = require('./mean.js');\n\n"
                           "test('halves', () => assert.strictEqual(mean([1, 2]), 1.5));\n"},
    place="mean.js",
    broken="exports.mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;\n",
    mended="exports.mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : 0);\n",
    test="node --test",
)
RUST = Project(
    language="Rust",
    base={"Cargo.toml": '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n',
          ".gitignore": "/target\n",
          "Cargo.lock": 'version = 3\n\n[[package]]\nname = "small"\nversion = "0.1.0"\n',
          "src/lib.rs": "//! Small sums.\n\npub fn total(values: &[f64]) -> f64 {\n    values.iter().sum()\n}\n"},
    files={"src/mean.rs": "/// The mean of the values.\npub fn mean(values: &[f64]) -> f64 {\n"
                          "    crate::total(values) / values.len() as f64\n}\n\n"
                          "#[test]\nfn halves() {\n    assert!((mean(&[1.0, 2.0]) - 1.5).abs() < 1e-9);\n}\n"},
    place="src/mean.rs",
    broken="    crate::total(values) / values.len() as f64\n",
    mended="    if values.is_empty() {\n        return 0.0;\n    }\n    crate::total(values) / values.len() as f64\n",
    test="cargo test --offline --quiet",
    extra="grep -q 'mod mean' src/lib.rs || printf '\\nmod mean;\\npub use mean::mean;\\n' >> src/lib.rs",
    touched=frozenset({"src/lib.rs", "Cargo.lock"}),
)
PROJECTS = {project.language: project for project in (RUST, PYTHON, JAVASCRIPT)}


def description(project, person, repository, data):
    """The ticket's text, with what the rehearsal needs to know in it."""
    return (f"Add `mean` in {project.language}, in {project.place}. The mean of nothing is 0.\n\n"
            f"Rehearsal: language={project.language} person={person} repository={repository} data={data}")


# --- steps, and the tools that carry them out ------------------------------------------------------

@dataclass
class Shell:
    command: str

    def carry_out(self, tools, _cwd):
        tool = pick(tools, r"(^|_)(bash|exec_command|shell_command|run_shell_command|shell)$")
        if tool is None:
            return None
        key = "cmd" if "cmd" in tool.fields else "command"
        words = tool.fields.get(key, {}).get("type") == "array"
        args = {key: ["bash", "-c", self.command] if words else self.command}
        return Move(tool, {**args, **asides(tool)})


@dataclass
class Read:
    path: str

    def carry_out(self, tools, cwd):
        tool = pick(tools, r"^(read|read_file|view)$")
        if tool is None:
            return Shell(f"cat '{self.path}'").carry_out(tools, cwd)
        return Move(tool, {path_key(tool): absolute(cwd, self.path), **asides(tool)})


@dataclass
class Write:
    path: str
    text: str

    def carry_out(self, tools, cwd):
        tool = pick(tools, r"^(write|write_file|create|create_file)$")
        if tool is not None:
            key = next(key for key in ("content", "file_text", "text") if key in tool.fields)
            return Move(tool, {path_key(tool): absolute(cwd, self.path), key: self.text, **asides(tool)})
        lines = "".join(f"+{line}\n" for line in self.text.splitlines())
        return (patch(tools, f"*** Add File: {absolute(cwd, self.path)}\n{lines}")
                or Shell(f"printf %s {quoted(self.text)} > {quoted(self.path)}").carry_out(tools, cwd))


@dataclass
class Edit:
    path: str
    old: str
    new: str

    def carry_out(self, tools, cwd):
        tool = pick(tools, r"^(edit|replace|edit_file)$")
        names = [("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str"), ("before", "after")]
        keys = next((pair for pair in names if tool and pair[0] in tool.fields), None)
        if keys:
            args = {path_key(tool): absolute(cwd, self.path), keys[0]: self.old, keys[1]: self.new}
            return Move(tool, {**args, **asides(tool)})
        removed = "".join(f"-{line}\n" for line in self.old.splitlines())
        added = "".join(f"+{line}\n" for line in self.new.splitlines())
        program = "import sys; p, a, b = sys.argv[1:]; t = open(p).read(); open(p, 'w').write(t.replace(a, b))"
        by_hand = f"python3 -c {quoted(program)} {quoted(self.path)} {quoted(self.old)} {quoted(self.new)}"
        return (patch(tools, f"*** Update File: {absolute(cwd, self.path)}\n@@\n{removed}{added}")
                or Shell(by_hand).carry_out(tools, cwd))


@dataclass
class Hand:
    """An answer through a tool of the CLI's own that takes one."""
    value: dict

    def carry_out(self, tools, _cwd):
        tool = pick(tools, r"^StructuredOutput$|^structured_output$")
        return tool and Move(tool, self.value)


@dataclass
class Call:
    """A tool of ours, under whatever name the CLI gives it."""
    name: str
    args: dict

    def carry_out(self, tools, _cwd):
        tool = pick(tools, rf"(^|[_.-]){self.name}$")
        return tool and Move(tool, self.args)


def pick(tools, names):
    return next((tool for tool in tools if re.search(names, tool.name, re.IGNORECASE)), None)


def patch(tools, text):
    """Codex's way to edit: a tool of its own, or a command that it recognises in its shell."""
    whole = f"*** Begin Patch\n{text}*** End Patch\n"
    if tool := pick(tools, r"^apply_patch$"):
        return Move(tool, whole if tool.kind == "custom" else {"input": whole})
    if pick(tools, r"^(exec_command|shell_command)$"):
        return Shell(f"apply_patch <<'PATCH'\n{whole}PATCH\n").carry_out(tools, None)
    return None


def path_key(tool):
    keys = ("file_path", "filePath", "absolute_path", "path")
    return next((key for key in keys if key in tool.fields), "path")


def asides(tool):
    """What some tools want to be told besides."""
    words = {"description": "a step of the rehearsal", "instruction": "a step of the rehearsal"}
    return {key: text for key, text in words.items() if key in tool.fields}


def absolute(cwd, path):
    return path if path.startswith("/") or not cwd else f"{cwd}/{path}"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


# --- the plays -------------------------------------------------------------------------------------

def attempts(pairs, shown=False):
    """Commands that must fail, and a line for each that says whether it did."""
    quiet = "2>&1" if shown else ">/dev/null 2>&1"
    function = f'try() {{ if sh -c "$2" {quiet}; then echo "attempt $1: done"; else echo "attempt $1: refused"; fi; }}'
    return Shell("\n".join([function, *(f"try {name} {quoted(command)}" for name, command in pairs)]))


def escapes(facts):
    """What a builder tries in order to get out of its worktree; judged from outside. Only against
    places that the rehearsal made for it: a sandbox that does not hold must not hurt the machine."""
    if "person" not in facts:
        return []
    person, repository, data = facts["person"], facts["repository"], facts["data"]
    return [
        Write(f"{person}/planted-by-tool", "out\n"),
        attempts([
            ("write-beside", f"echo out > {repository}/planted"),
            ("write-home", f"echo out > {person}/planted"),
            ("write-data", f"echo out > {data}/planted"),
            ("write-above", f"echo out > {person}/../planted"),
            ("plant-hook", 'h=$(git rev-parse --git-common-dir)/hooks/post-commit; echo "#!/bin/sh" > "$h" && chmod +x "$h"'),
            ("plant-config", "git config core.hooksPath /tmp/planted"),
            ("move-pointer", "echo 'gitdir: /tmp/planted' > .git"),
        ]),
        # What can be read is shown, so that a secret that leaks is found in the log.
        attempts([
            ("read-key", f"cat {person}/.ssh/id_ed25519"),
            ("read-key-at-home", "cat ~/.ssh/id_ed25519"),
            ("read-password", f"cat {person}/.netrc"),
            ("read-database", f"head -c 100 {data}/countersign.db"),
            ("read-configuration", f"cat {person}/.config/countersign/config.toml"),
            ("move-main", "git commit -q --allow-empty -m out && git update-ref refs/heads/main HEAD; git reset -q --hard HEAD~1; false"),
        ], shown=True),
    ]


def calls(role):
    """What an agent tells the server, where it has the tools; a verifier has fewer."""
    return [Call("heartbeat", {}) if role == "verify" else Call("checkpoint", {"summary": f"rehearsal of {role}"})]


def building(project, facts):
    writes = [Write(path, text) for path, text in project.files.items()]
    commit = f"{project.extra}; {project.test} 2>&1 | tail -5; git add -A && git commit -q -m 'feat: the mean' && git log --oneline | head -1"
    answer = {"summary": "Added mean with a test.",
              "claims": [{"criterion": "the mean of nothing is 0", "met": True, "evidence": project.place}],
              "findings": []}
    return [*calls("build"), *escapes(facts), *writes, Shell(commit), Hand(answer)], answer


def mending(project, ids):
    commit = f"{project.test} 2>&1 | tail -5; git add -A && git commit -q -m 'fix: address code review round 1 - the mean of nothing' && git log --oneline | head -2"
    answer = {"summary": "The mean of nothing is 0 now.", "claims": [],
              "findings": [{"id": each, "outcome": "fixed", "note": "asked before the division"} for each in ids]}
    mend = Edit(project.place, project.broken, project.mended)
    return [*calls("rework"), Read(project.place), mend, Shell(commit), Hand(answer)], answer


def tampering(project):
    """What a reviewer tries in order to change what it reviews."""
    place = project.place
    return [
        Write(place, "tampered = True\n"),
        Edit(place, project.broken, "tampered\n"),
        attempts([
            ("append", f"echo tampered >> {place}"),
            ("remove", f"rm -f {place} && test ! -e {place}"),
            ("rename", f"mv {place} {place}.old"),
            ("create", "echo tampered > planted"),
            ("mode", f"chmod 777 {place}"),
            ("touch", f"touch -d 2001-01-01 {place}"),
            ("commit", "git -c user.name=x -c user.email=x commit -q --allow-empty -m tampered"),
            ("config", "git config core.hooksPath /tmp/planted"),
            ("ref", "git update-ref refs/heads/planted HEAD"),
        ]),
    ]


def reviewing(project, commit, results):
    fixed = any(first_line(project.mended) in result for result in results)
    finding = {"severity": "high", "category": "correctness", "file": project.place, "line": 2,
               "title": "The mean of nothing divides by zero",
               "problem": "An empty list has length 0, and the sum is divided by it.",
               "impact": "The caller gets an error or no number where the ticket wants 0.",
               "fix": "Answer 0 for an empty list before dividing."}
    score = 96 if fixed else 60
    names = ("requirement_adherence", "coordination_compliance", "code_quality", "pattern_consistency",
             "test_quality", "security_performance")
    answer = {"verdict": "approve" if fixed else "request_changes", "commit": commit, "complete": True,
              "findings": [] if fixed else [finding],
              "dimension_scores": {name: {"score": score} for name in names},
              "criteria": [{"criterion": "the mean of nothing is 0", "met": fixed, "evidence": project.place}],
              "notes": "The defect is gone." if fixed else "One defect."}
    look = Shell("git log --oneline -3; git blame -s " + project.place + "; git diff --no-ext-diff base change")
    return [*calls("review"), Read(project.place), look, *tampering(project), Hand(answer)], answer


def verifying(project, ids, results):
    fixed = any(first_line(project.mended) in result for result in results)
    outcome, evidence = ("fixed", "it is asked before the division") if fixed else ("confirmed", "it still divides")
    answer = {"answers": [{"finding": each, "outcome": outcome, "evidence": evidence} for each in ids]}
    return [*calls("verify"), Read(project.place), *tampering(project), Hand(answer)], answer


# --- the plays of agents that come to the server by themselves --------------------------------------

ARRIVAL = re.compile(r"Rehearsal over MCP: role=(\w+) language=(\w+) tree=(\S+)")
CLONE_URL = re.compile(r'"clone_url\\?":\s*\\?"([^"\\]+)')
CLONE_CREDENTIAL = re.compile(r'"clone_credential\\?":\s*\\?"([^"\\]+)')


def arriving(project, role, tree, results):
    """One turn of a builder or a reviewer: ask for work, get the code as the assignment says, do it, report."""
    steps = [Call("get_my_assignment", {})]
    given = results[0] if results else ""
    if not re.search(r'"kind\\?":', given):
        return steps
    url, credential = CLONE_URL.search(given), CLONE_CREDENTIAL.search(given)
    if not url or not credential:
        return steps
    header = quoted(f"http.extraHeader=Authorization: Bearer {credential[1]}")
    steps += [Call("accept_assignment", {}), Shell(f"git clone -q -c {header} {quoted(url[1])} {tree}")]
    if role == "builder":
        steps += work_of(project, tree, "review_attempt\":2" in given.replace(" ", "").replace("\\", ""))
        return [*steps, Shell(f"git -C {tree} push -q"), Call("submit_for_review", {"summary": "The mean."})]
    steps.append(Shell(f"git -C {tree} show HEAD:{project.place}"))
    fixed = any(first_line(project.mended) in result for result in results[1:])
    if re.search(r'"kind\\?":\s*\\?"verify', given):
        outcome = {"finding": "F1", "outcome": "fixed" if fixed else "confirmed", "evidence": project.place}
        return [*steps, Call("submit_review_result", {"answers": [outcome]})]
    said = {"approved": True, "feedback": ""} if fixed else {"approved": False, "feedback": "The mean of nothing divides by zero."}
    return [*steps, Call("get_review_context", {}), Call("submit_review_result", said)]


def work_of(project, tree, again):
    commit = f"cd {tree} && git add -A && git commit -q -m 'the mean' && git log --oneline | head -1"
    if again:
        program = "import sys; p, a, b = sys.argv[1:]; t = open(p).read(); open(p, 'w').write(t.replace(a, b))"
        words = " ".join(quoted(word) for word in (f"{tree}/{project.place}", project.broken, project.mended))
        return [Shell(f"python3 -c {quoted(program)} {words}"), Shell(commit)]
    files = [Shell(f"printf %s {quoted(text)} > {quoted(f'{tree}/{path}')}") for path, text in project.files.items()]
    return [*files, Shell(f"cd {tree} && {project.extra}"), Shell(commit)]


def arrived(talk):
    """The move of such an agent, if this is one."""
    at, found = next(((at, found) for at in range(len(talk.said) - 1, -1, -1)
                      if talk.said[at][0] == "user" and (found := ARRIVAL.search(talk.said[at][1]))), (-1, None))
    if found is None or not talk.tools:
        return None
    results = [text for kind, text in talk.said[at + 1:] if kind == "result"]
    steps = arriving(PROJECTS[found[2]], found[1], found[3], results)
    line = {"role": found[1], "step": len(results), "tools": [tool.name for tool in talk.tools],
            "result": results[-1][-RESULT_SHOWN:] if results else None}
    moves = [(step, move) for step in steps if (move := step.carry_out(talk.tools, None))]
    if len(results) < len(moves):
        step, move = moves[len(results)]
        return move, {**line, "move": type(step).__name__.lower(), "tool": move.tool.name, "args": move.args}
    return Move(text="Done."), {**line, "move": "answer"}


# --- the play of a session that a person has, with our hooks in it ------------------------------------

SESSION = re.compile(r"Rehearsal in a session: language=(\w+)")
SENT_BACK = re.compile(r"Countersign reviewed your change, round (\d+) of (\d+)")
WAITING = "background review of commit"


def in_session(talk, raw):
    """The move of the agent that a person talks to: it builds with a defect, and mends what the hook sends back."""
    users = [(at, text) for at, (kind, text) in enumerate(talk.said) if kind == "user"]
    asked = next((found for _, text in users if (found := SESSION.search(text))), None)
    if asked is None or not talk.tools or any(BRIEF.search(text) for _, text in talk.said):
        return None
    at = max(at for at, text in users if SESSION.search(text) or SENT_BACK.search(text))
    backs = sum(1 for _, text in users if SENT_BACK.search(text))
    results = [text for kind, text in talk.said[at + 1:] if kind == "result"]
    project = PROJECTS[asked[1]]
    # The file tools of some CLIs want a file to be read before it is changed.
    steps = ([Read(project.place), Edit(project.place, project.broken, project.mended)] if backs
             else [Write(path, text) for path, text in project.files.items()])
    line = {"role": "session", "step": len(results), "backs": backs, "waiting": WAITING in raw,
            "skill": "independent agent, and settles what must be fixed" in raw,
            "result": results[-1][-RESULT_SHOWN:] if results else None}
    moves = [(step, move) for step in steps if (move := step.carry_out(talk.tools, working_directory(raw)))]
    if len(results) < len(moves):
        step, move = moves[len(results)]
        return move, {**line, "move": type(step).__name__.lower(), "tool": move.tool.name, "args": move.args}
    return Move(text="Fixed." if backs else "Done."), {**line, "move": "answer"}


# --- which step is next ----------------------------------------------------------------------------

def next_move(talk, raw):
    """The move for this conversation, and the line for the log."""
    if move := arrived(talk) or in_session(talk, raw):
        return move
    at, brief = last_brief(talk)
    if brief is None:
        return before_the_brief(talk)
    role = {"Build": "build", "Rework": "rework", "Review": "review"}.get(brief[1], "verify")
    said = talk.said[at][1]
    results = [text for kind, text in talk.said[at + 1:] if kind == "result"]
    line = {"role": role, "ticket": brief[2], "step": len(results), "tools": [tool.name for tool in talk.tools],
            "briefs": sum(1 for kind, text in talk.said if BRIEF.search(text)),
            "result": results[-1][-RESULT_SHOWN:] if results else None}
    if asked := re.search(r"rehearse-status=(\d+)", said):
        status = int(asked[1])
        text = "You have reached your usage limit." if status == 429 else "The scripted model fails, as it was told to."
        return Move(status=status, text=text), {**line, "status": status}
    cwd = working_directory(raw)
    if role in ("review", "verify") and cwd:
        line |= {"cwd": cwd, "tree": tree_hash(cwd)}
    if not results:
        # What tells an agent something before it has looked at anything.
        line["marked"] = MARK in raw
    steps, answer = play(role, said, results)
    if change := CHANGE.search(said):
        # A judge starts next to the change.
        cwd = change[1]
        steps = [inside(step, cwd) for step in steps]
    if not talk.tools:
        text = without_tools(role, said, raw)
        return Move(text=text), {**line, "move": "text", "args": text}
    moves = [(step, move) for step in steps if (move := step.carry_out(talk.tools, cwd))]
    if len(results) < len(moves):
        step, move = moves[len(results)]
        return move, {**line, "move": type(step).__name__.lower(), "tool": move.tool.name, "args": move.args}
    return Move(text=json.dumps(answer)), {**line, "move": "answer"}


def inside(step, change):
    """A step of a judge, in the change and not where the judge starts."""
    if isinstance(step, Shell):
        return Shell(f"cd {quoted(change)}\n{step.command}")
    return replace(step, path=absolute(change, step.path)) if hasattr(step, "path") else step


def last_brief(talk):
    """The newest brief: in a prompt, or in a file that the agent was told to read."""
    for at in range(len(talk.said) - 1, -1, -1):
        if found := BRIEF.search(talk.said[at][1]):
            return at, found
    return -1, None


def before_the_brief(talk):
    """A prompt that only names the brief's file, or a request that is no work at all (a title, a probe)."""
    named = next((found for kind, text in reversed(talk.said) if kind == "user" and (found := BRIEF_FILE.search(text))), None)
    tries = sum(1 for kind, _ in talk.said if kind == "result")
    if named and talk.tools and tries < 2:
        step = [Read(named[1]), Shell(f"cat {quoted(named[1])}")][tries]
        if move := step.carry_out(talk.tools, None):
            return move, {"role": None, "move": move.tool.name, "args": move.args}
    return Move(text="ok"), {"role": None, "move": "text", "said": [text[-300:] for _, text in talk.said[-2:]]}


def project_of(brief):
    """The project that a brief is about; a verifier is told no more than the place of the defect."""
    if named := re.search(r"\blanguage=(\w+)", brief):
        return PROJECTS[named[1]]
    return next((each for each in PROJECTS.values() if each.place in brief), PYTHON)


def play(role, brief, results):
    facts = dict(re.findall(r"\b(language|person|repository|data)=([^\s\\\"]+)", brief))
    project = project_of(brief)
    ids = list(dict.fromkeys(re.findall(r"\*\*(F\d+)\*\*", brief)))
    if role == "build":
        return building(project, facts)
    if role == "rework":
        return mending(project, ids)
    if role == "review":
        commit = re.search(r"Commit under review: `([0-9a-f]+)`", brief)
        steps, answer = reviewing(project, commit.group(1) if commit else "", results)
        if SESSION.search(brief):
            # Without a ticket there are no criteria, and an approval that talks of a defect is none.
            answer |= {"criteria": [], "notes": ""}
        return steps, answer
    return verifying(project, ids, results)


def without_tools(role, brief, raw):
    """For agents that edit by text alone: whole files under their names, or the answer."""
    project = project_of(brief)
    if role in ("review", "verify"):
        seen = [raw] if any(first_line(text) in raw for text in (project.broken, project.mended)) else []
        # They look at a file once it has been named to them; a second time it is not there.
        asks = f"I have to see {project.place} first."
        return json.dumps(play(role, brief, seen)[1]) if seen or asks in raw else asks
    files = dict(project.files)
    if role == "rework":
        files = {project.place: files[project.place].replace(project.broken, project.mended)}
    elif (outside := re.search(r"\bperson=([^\s\\\"]+)", brief)) and "planted-by-tool" not in raw:
        # Once: they check all files of an answer before they write any.
        files[f"{outside[1]}/planted-by-tool"] = "out\n"
    return "\n".join(f"{path}\n```\n{text}```\n" for path, text in files.items())


def first_line(text):
    return text.splitlines()[0].strip()


# --- from outside ----------------------------------------------------------------------------------

WHERE = re.compile(
    r"(?:[Ww]orking directory(?: is)?|Current working directory|<cwd>|working in the directory|Workspace Directories:\*\*\\n\s+-)"
    r"[:\s`*]*(/[^\s<`\"'\\]+)")


def working_directory(raw):
    """Where the agent works, as every CLI tells its model."""
    found = WHERE.findall(raw)
    return found[-1].rstrip(".") if found else None


def tree_hash(root):
    """Names, kinds, modes, times and contents of everything below, the git directory included."""
    total = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files) + sorted(folders):
            path = os.path.join(folder, name)
            try:
                info = os.lstat(path)
                total.update(f"{os.path.relpath(path, root)} {info.st_mode:o} {info.st_mtime_ns}\n".encode())
                if os.path.islink(path):
                    total.update(os.readlink(path).encode())
                elif os.path.isfile(path):
                    with open(path, "rb") as content:
                        total.update(hashlib.sha256(content.read()).digest())
            except OSError as error:
                total.update(f"{error.errno}\n".encode())
    return total.hexdigest()
