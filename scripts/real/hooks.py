"""Real CLIs with our hooks in a session of a person: findings go back into the session until they are settled."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import clis
import namespace
import plays
from rehearse import build
from scene import Scene

SESSION_SECS = 240


def claude(_scene, _url):
    return ["claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"], {"IS_SANDBOX": "1"}


def codex(scene, url):
    # A person is asked at the start whether to trust new hooks; without a terminal the flag stands for that.
    trusted = f'projects.{json.dumps(scene.repository)}.trust_level="trusted"'
    return ["codex", "exec", "--json", "-s", "workspace-write", "-m", clis.MODEL, "-c", trusted, *scene.flags,
            *clis.CLIS["codex"].settings(url).args, "-"], {}


def gemini(scene, _url):
    # As a person's own settings would be after the first start.
    own = {"general": {"enableAutoUpdate": False}, "security": {"auth": {"selectedType": "gemini-api-key"}}}
    scene.write(scene.person, {".gemini/settings.json": json.dumps(own)})
    return ["gemini", "-m", clis.MODEL, "--skip-trust", "--approval-mode", "yolo", "-o", "stream-json"], \
        {"GEMINI_CLI_TRUST_WORKSPACE": "true"}


WAYS = {"claude": claude, "codex": codex, "gemini": gemini, "opencode": None}


def main(words, binary=None, keep=None):
    if os.environ.get(namespace.INSIDE) != "yes":
        sys.argv += [] if "--binary" in sys.argv else ["--binary", binary or build()]
    namespace.enter()
    names = words or [name for name in WAYS if clis.is_installed(clis.CLIS[name])]
    strange = [name for name in names if name not in WAYS or not clis.is_installed(clis.CLIS[name])]
    if strange or not names:
        sys.exit(f"real-agents: hooks are tried with {', '.join(WAYS)}, where they are installed")
    work = os.path.abspath(keep) if keep else tempfile.mkdtemp(prefix="hooks-", dir=clis.folder())
    fine = True
    try:
        for name in names:
            fine &= rehearse(os.path.abspath(binary), work, clis.CLIS[name])
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
    return 0 if fine else 1


def rehearse(binary, work, cli):
    scene = Scene(os.path.join(work, cli.name), cli, cli, plays.PYTHON)
    # Codex skips a hook that nobody has accepted; the control shows that it does.
    runs = [("hooks not accepted", []), ("", ["--dangerously-bypass-hook-trust"])] if cli.name == "codex" else [("", [])]
    fine = True
    for name, flags in runs:
        scene.flags = flags
        began = time.monotonic()
        with scene.model() as url:
            seen = story(binary, scene, cli, url)
        expected = EXPECTED if not name else UNHEARD
        wrong = [f"{key} is {seen[key]!r}" for key, value in expected.items() if seen[key] != value]
        fine &= not wrong
        print(f"{cli.name} {cli.version}{', ' + name if name else ''}: {'; '.join(wrong) if wrong else 'as it should be'}: "
              f"{seen['reviews']}, {time.monotonic() - began:.0f} s", flush=True)
    return fine


EXPECTED = {"exit": 0, "reviews": ["1 to be fixed", "clean"], "sent back": 1, "mended": True, "waiting shown": True,
            "skill listed": True, "files left": []}
UNHEARD = {"exit": 0, "reviews": [], "sent back": 0, "mended": False, "waiting shown": False}


def story(binary, scene, cli, url):
    scene.build(url)
    # The person has it on the path.
    os.makedirs(os.path.join(scene.root, "bin"))
    os.symlink(binary, os.path.join(scene.root, "bin", "countersign"))
    env = scene.environment(url)
    env["PATH"] = os.path.join(scene.root, "bin") + os.pathsep + env["PATH"]
    env |= {"DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "TMPDIR": os.path.join(scene.root, "tmp")}
    os.makedirs(env["TMPDIR"])
    run = lambda *words: subprocess.run([binary, *words], env=env, cwd=scene.repository, text=True, capture_output=True, check=True)
    before = tree(scene.repository)
    run("agent", "install", cli.name, "--", "--reviewer", cli.name)
    # A commit with a finding, reviewed in the background as the post-commit hook does it.
    scene.write(scene.repository, {"key.txt": "-----BEGIN RSA PRIVATE " + "KEY-----\n"})
    scene.git("add", "--all")
    scene.git("commit", "--quiet", "--message", "Countersign in the session, and a key")
    run("review", "--background", "--commit", "HEAD", "--linters-only")
    prompt = f"Add `mean` in mean.py. The mean of nothing is 0.\nRehearsal in a session: language={scene.project.language}\n"
    code = opencode_session(scene, env, prompt) if cli.name == "opencode" else cli_session(scene, cli, url, env, prompt)
    log = json.loads(run("log", "--json", "--limit", "1000").stdout)
    told = [json.dumps(event) for event in log["events"]]
    reviews = [word for line in told for word in ("1 to be fixed", "clean") if "the session" in line and word in line]
    mended = plays.first_line(scene.project.mended) in text_of(os.path.join(scene.repository, scene.project.place))
    heard = [line for line in scene.heard() if line.get("role") == "session"]
    run("agent", "uninstall", cli.name)
    # OpenCode writes the last one itself.
    expected = {"key.txt", *scene.project.files, ".opencode/.gitignore"}
    left = sorted(tree(scene.repository) - before - expected)
    return {"exit": code, "reviews": reviews, "sent back": max([line["backs"] for line in heard], default=0), "mended": mended,
            "waiting shown": any(line["waiting"] for line in heard), "skill listed": cli.name in ("gemini", "opencode")
            or any(line["skill"] for line in heard), "files left": left}


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def tree(folder):
    """The files of the project, without git's own and what tests leave."""
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
            if ".git" not in at.split(os.sep) and "__pycache__" not in at and "node_modules" not in at}


def cli_session(scene, cli, url, env, prompt):
    """One prompt without a terminal; the hooks keep the session going."""
    words, more = WAYS[cli.name](scene, url)
    try:
        ended = subprocess.run(words, env={**env, **more}, cwd=scene.repository, input=prompt, text=True, capture_output=True,
                               timeout=SESSION_SECS)
    except subprocess.TimeoutExpired as late:
        return f"no end after {late.timeout} s"
    scene.write(scene.root, {"session.out": ended.stdout, "session.err": ended.stderr})
    return ended.returncode


def opencode_session(scene, env, prompt):
    """A session of the server behind OpenCode's screen; `opencode run` would end before the review."""
    with open(os.path.join(scene.root, "session.out"), "w", encoding="utf-8") as out, \
            subprocess.Popen(["opencode", "serve", "--port", "0", "--hostname", "127.0.0.1"], env=env, cwd=scene.repository,
                             stdout=subprocess.PIPE, stderr=out, text=True) as server:
        with ending(server):
            line = next(line for line in server.stdout if "http://" in line)
            address = "http://" + line.split("http://")[1].strip()
            session = post(f"{address}/session", {})["id"]
            post(f"{address}/session/{session}/message", {"parts": [{"type": "text", "text": prompt}]})
            # The plugin works after the answer: it is done when nothing has been heard for a while after the last review.
            for _ in range(SESSION_SECS * 2):
                time.sleep(0.5)
                ends = [line for line in scene.heard() if line.get("role") == "session" and line.get("move") == "answer"]
                if any(line["backs"] for line in ends) and done_reviewing(scene):
                    return 0
    return "the session was not sent back, or not reviewed again"


def done_reviewing(scene):
    """Two reviews have been kept."""
    folder = os.path.join(scene.data, "tickets")
    kept = [name for name in os.listdir(folder) if os.path.exists(os.path.join(folder, name, "review.json"))]
    return len(kept) >= 3  # with the one in the background


@contextlib.contextmanager
def ending(server):
    try:
        yield
    finally:
        server.terminate()
        server.wait(30)


def post(address, body):
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SESSION_SECS) as answer:
        return json.loads(answer.read() or b"null")
