"""Real CLIs that come to the server by themselves: over MCP (HTTP, and stdio with `countersign mcp`), each with its own
token, in a clone of its own, without access to the server's repository and data."""
import json
import os
import subprocess
import sys
import tempfile
import shutil
import time
from dataclasses import dataclass

import clis
import namespace
import plays
from rehearse import build
from scene import Scene

TURNS_MAX = 8


# The agent has a directory of its own: the server's repository and data are covered for it and all that it starts.
COVERED = 'for place in "$1" "$2"; do mount -t tmpfs none "$place" || exit 1; done; shift 2; exec "$@"'


def claude(server, token, prompt, folder):
    config = os.path.join(folder, "mcp.json")
    if server.binary:
        entry = {"type": "stdio", "command": server.binary, "args": ["mcp"],
                 "env": {"COUNTERSIGN_SERVER": server.url, "COUNTERSIGN_TOKEN": token}}
    else:
        entry = {"type": "http", "url": f"{server.url}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    with open(config, "w", encoding="utf-8") as out:
        json.dump({"mcpServers": {"countersign": entry}}, out)
    words = ["claude", "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits",
             "--allowedTools", "mcp__countersign__*", "Bash", "--strict-mcp-config", "--mcp-config", config, "--setting-sources", ""]
    return words, {"ENABLE_TOOL_SEARCH": "false", "IS_SANDBOX": "1"}, prompt


def codex(server, token, prompt, folder):
    if server.binary:
        entry = (f'command = {json.dumps(server.binary)}, args = ["mcp"], '
                 f'env = {{COUNTERSIGN_SERVER = {json.dumps(server.url)}, COUNTERSIGN_TOKEN = {json.dumps(token)}}}')
    else:
        entry = f'url = {json.dumps(server.url + "/mcp")}, bearer_token_env_var = "COUNTERSIGN_TOKEN"'
    entry = f'{{{entry}, default_tools_approval_mode = "approve", required = true}}'
    words = ["codex", "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "-m", clis.MODEL,
             "-c", f"mcp_servers.countersign={entry}", *clis.CLIS["codex"].settings(folder_url(folder)).args, "-"]
    return words, {"COUNTERSIGN_TOKEN": token}, prompt


@dataclass
class Server:
    url: str
    binary: str | None  # the countersign that the agent starts to speak over standard input and output


def folder_url(folder):
    with open(os.path.join(folder, "model.url"), encoding="utf-8") as file:
        return file.read()


WAYS = {"claude": claude, "codex": codex}


def main(words, binary=None):
    if os.environ.get(namespace.INSIDE) != "yes":
        sys.argv += [] if "--binary" in sys.argv else ["--binary", binary or build()]
    namespace.enter()
    names = words or [name for name in WAYS if clis.is_installed(clis.CLIS[name])]
    strange = [name for name in names if name not in WAYS]
    if strange or not names:
        sys.exit(f"real-agents: only {', '.join(WAYS)} are sent to the server, where they are installed")
    fine = True
    for name in names:
        for way in ("http", "stdio"):
            fine &= tell(os.path.abspath(binary), clis.CLIS[name], way)
    return 0 if fine else 1


def tell(binary, cli, way):
    work = tempfile.mkdtemp(prefix="served-", dir=clis.folder())
    scene = Scene(os.path.join(work, cli.name), cli, cli, plays.PYTHON)
    began = time.monotonic()
    try:
        with scene.model() as url:
            scene.build(url)
            scene.write(scene.root, {"model.url": url})
            turns, stage = story(binary, scene, cli, url, way)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{cli.name} {cli.version}, {way}: {turns}; the ticket is {stage}, {time.monotonic() - began:.0f} s")
    return stage == "done"


def story(binary, scene, cli, url, way):
    env = scene.environment(url)
    elsewhere = os.path.join(scene.root, "elsewhere")
    os.mkdir(elsewhere)
    ask = lambda *words: json.loads(subprocess.run([binary, *words, "--json"], env=env, cwd=scene.repository, text=True,
                                                   capture_output=True, check=True).stdout)
    with scene.serve(binary, env) as place:
        ask("ticket", "add", os.path.join(scene.root, "ticket.md"))
        tokens = {role: ask("token", "create", "--agent", f"{cli.name}-{role}", "--role", role)["secret"]
                  for role in ("builder", "reviewer")}
        done = []
        for number in range(TURNS_MAX):
            stage = settled(ask)
            if stage not in ("queued", "building", "rework", "reviewing"):
                break
            role = "reviewer" if stage == "reviewing" else "builder"
            done.append(role)
            turn(scene, cli, role, (Server(place, binary if way == "stdio" else None), tokens[role]), (elsewhere, f"clone-{number}"), env)
        return ", ".join(done), settled(ask)


def settled(ask):
    """The stage, once the house's own work (checks, the merge) is done."""
    for _ in range(600):
        stage = ask("ticket", "show", "T-1")["ticket"]["stage"]
        if stage not in ("checking", "approved", "merging"):
            return stage
        time.sleep(0.1)
    return stage


def turn(scene, cli, role, where, place, env):
    """One start of the CLI, with a prompt that says no more than who it is."""
    elsewhere, clone = place
    prompt = (f"You are a {role}. Ask the countersign server for your assignment and do it.\n"
              f"Rehearsal over MCP: role={role} language={scene.project.language} tree={elsewhere}/{clone}\n")
    words, more, said = WAYS[cli.name](*where, prompt, scene.root)
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    covered = ["unshare", *user, "--mount", "--", "sh", "-c", COVERED, "sh", scene.repository, scene.data]
    env = {name: value for name, value in {**env, **more}.items() if name != "COUNTERSIGN_DATA_DIR"}
    ended = subprocess.run([*covered, *words], env=env, cwd=elsewhere, input=said, text=True, capture_output=True, timeout=120)
    if ended.returncode:
        print(f"{cli.name} as {role}: exit {ended.returncode}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}", file=sys.stderr)
