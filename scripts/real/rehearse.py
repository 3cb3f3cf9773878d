"""Each CLI through a whole two-round loop, and a table of what came of it."""
import contextlib
import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import clis
import judge
import namespace
import plays
from scene import Scene

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# In turns; without a Rust toolchain only the other two.
LANGUAGES = [each for each in plays.PROJECTS.values() if each is not plays.RUST or shutil.which("cargo")]


def main(words, binary=None, keep=None, confined=True, hired=False):
    if os.environ.get(namespace.INSIDE) != "yes":
        binary = binary or build()
        sys.argv += [] if "--binary" in sys.argv else ["--binary", binary]
    namespace.enter()
    binary, pairs = os.path.abspath(binary), chosen(words)
    work = os.path.abspath(keep) if keep else tempfile.mkdtemp(prefix="rehearsal-", dir=clis.folder())
    rows = []
    try:
        for at, (builder, reviewer) in enumerate(pairs):
            rows.append(rehearse(binary, work, builder, reviewer, LANGUAGES[at % len(LANGUAGES)], confined, hired))
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
    print(table(rows, binary, hired))
    return 1 if any(row["wrong"] for row in rows) else 0


def build():
    """The program as it is now; outside of the namespace, where dependencies can still be fetched."""
    subprocess.run(["cargo", "build", "--locked", "--package", "countersign", "--bin", "countersign"], cwd=ROOT, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "debug", "countersign")


def chosen(words):
    """Pairs of builder and reviewer. Unless some are named: all that are installed, each with itself, and one mixed pair."""
    if not words:
        words = [cli.name for cli in clis.CLIS.values() if cli.wanted and clis.is_installed(cli)]
        words += ["claude+codex"] if {"claude", "codex"} <= set(words) else []
    pairs = [tuple(clis.CLIS[name] for name in (word.split("+") * 2)[:2]) for word in words]
    missing = {cli.name for pair in pairs for cli in pair if not clis.is_installed(cli)}
    if missing or not pairs:
        sys.exit(f"real-agents: not installed: {', '.join(sorted(missing)) or 'any CLI'}; scripts/real-agents install")
    return pairs


def rehearse(binary, work, builder, reviewer, project, confined, hired):
    name = builder.name if builder is reviewer else f"{builder.name}+{reviewer.name}"
    print(f"{name}, {project.language} …", file=sys.stderr, flush=True)
    scene = Scene(os.path.join(work, name), builder, reviewer, project, confined)
    with scene.model() as url:
        scene.build(url)
        before = judge.outside(scene)
        with scene.serve(binary, scene.environment()) if hired else contextlib.nullcontext():
            code, said, seconds = scene.run(binary, url)
    scene.write(scene.root, {"said.txt": said})
    ticket = scene.ask(binary, "ticket", "show", "T-1")
    result = judge.judge(scene, before, code, ticket.get("ticket", ticket))
    if hired:
        judge.judge_calls(scene, scene.ask(binary, "log", "T-1"), result)
    left = leftovers(scene)
    if left:
        result.wrong.append(f"{left} processes were left behind")
    for each in result.wrong:
        print(f"  not as it should be: {each}", file=sys.stderr)
    if result.wrong:
        print("    " + "\n    ".join(said.splitlines()[-25:]), file=sys.stderr, flush=True)
    return {"name": name, "version": versions(scene), "language": project.language, "seconds": seconds,
            "left": left, "wrong": result.wrong, "result": result}


def leftovers(scene):
    """Processes that still carry this rehearsal's data directory in their environment."""
    mark, found = os.fsencode(scene.data), 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ:
                found += mark in environ.read()
        except OSError:
            continue
    return found


def versions(scene):
    return ", ".join(version(scene, cli) for cli in scene.agents())


def version(scene, cli):
    """What the program itself says it is; a package and what is in it may be numbered apart."""
    words = [clis.program(cli), "--version"]
    told = subprocess.run(words, env=scene.environment(), cwd=scene.root, text=True, capture_output=True, check=False, timeout=60)
    found = re.search(r"\d+\.\d+[\w.]*", told.stdout)
    return found[0].rstrip(".") if found else "?"


HEAD = ["CLI", "version", "project", "builds", "reviews", "writes blocked", "escapes blocked", "rounds", "wall",
        "tokens", "cost", "session resumed", "processes left"]


def table(rows, binary, hired):
    told = subprocess.run([binary, "--version"], text=True, capture_output=True, check=False).stdout.strip()
    lines = [f"{told}, Linux {platform.release().split('-')[0]}, {datetime.date.today().isoformat()}", "",
             row_of(head := HEAD + ["calls"] * hired), row_of(["---"] * len(head))]
    for row in rows:
        result = row["result"]
        lines.append(row_of([
            row["name"].replace("+", " builds, ") + (" reviews" if "+" in row["name"] else ""), row["version"], row["language"],
            yes(result.builds), yes(result.reviews), result.tampers, result.escapes, str(result.rounds),
            f"{row['seconds']:.0f} s", str(result.tokens or "not told"),
            f"${result.usd:.2f}" if result.usd else "not told", result.resumed, str(row["left"]),
            *[result.calls] * hired]))
    wrong = [f"- {row['name']}: {each}" for row in rows for each in row["wrong"]]
    return "\n".join(lines + (["", "Not as it should be:", *wrong] if wrong else []))


def row_of(cells):
    return "| " + " | ".join(cells) + " |"


def yes(fact):
    return "yes" if fact else "NO"
