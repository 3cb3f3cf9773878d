"""One rehearsal's surroundings: a person's home with secrets in it, a small project, a model, a run."""
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time

import clis
import plays

RUN_SECS = 300
HERE = os.path.dirname(os.path.abspath(__file__))


def toolchain():
    """The Rust toolchain itself: what rustup puts before it looks for more in a home that this person has not."""
    rustc = shutil.which("rustc")
    told = subprocess.run([rustc, "--print", "sysroot"], text=True, capture_output=True, check=False) if rustc else None
    return [os.path.join(told.stdout.strip(), "bin")] if told and told.returncode == 0 else []


class Scene:
    """Everything lies below `root`, and nothing of it is anybody's."""

    def __init__(self, root, builder, reviewer, project, confined=True):
        self.root, self.builder, self.reviewer, self.project = root, builder, reviewer, project
        self.confined = confined
        self.person = os.path.join(root, "person")
        self.repository = os.path.join(self.person, "project")
        self.data = os.path.join(root, "data")
        self.log = os.path.join(root, "model.jsonl")
        self.secret = "canary-" + secrets.token_hex(16)

    def build(self, url):
        self.write(self.person, {".ssh/id_ed25519": self.secret, ".netrc": f"machine example.org password {self.secret}\n",
                                 ".config/countersign/config.toml": f"# {self.secret}\n",
                                 ".gitconfig": "[user]\n\tname = Ada\n\temail = ada@example.org\n"})
        self.write(self.repository, {**self.project.base, "countersign.toml": self.project_file(url)})
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "The beginning")
        ticket = (f"---\nid: T-1\n---\n# The mean\n\n"
                  f"{plays.description(self.project, self.person, self.repository, self.data)}\n\n"
                  "## Acceptance criteria\n\n- the mean of nothing is 0\n")
        self.write(self.root, {"ticket.md": ticket})

    def project_file(self, url):
        """Checks, isolation, and for each agent what makes it talk to the model."""
        lines = ["[checks]", f"test = {json.dumps(self.project.test)}", "[policy]",
                 f"sandbox = {json.dumps('enforced' if self.confined else 'off')}"]
        for cli in self.agents():
            settings = cli.settings(url)
            lines += [f"[agents.{cli.name}]", f"model = {json.dumps(settings.model)}",
                      f"args = {json.dumps(settings.args)}", f"env = {json.dumps(list(settings.env))}"]
        return "\n".join(lines) + "\n"

    def agents(self):
        return {self.builder.name: self.builder, self.reviewer.name: self.reviewer}.values()

    @staticmethod
    def write(folder, files):
        for name, text in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)

    def git(self, *words):
        env = {"PATH": os.environ["PATH"], "HOME": self.person, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(["git", "-C", self.repository, *words], env=env, text=True, capture_output=True, check=True)
        return done.stdout.strip()

    @contextlib.contextmanager
    def model(self):
        """The scripted model, for as long as this lasts and at most so long."""
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(self.root)
        words = [sys.executable, "-B", os.path.join(HERE, "model.py"), "--log", self.log, "--seconds", str(RUN_SECS + 60)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            try:
                yield f"http://127.0.0.1:{int(running.stdout.readline())}"
            finally:
                running.stdin.close()

    @contextlib.contextmanager
    def serve(self, binary, env):
        """The server on the data directory, for as long as this lasts. Gives its address."""
        words = [binary, "serve", "--listen", "127.0.0.1:0"]
        with open(os.path.join(self.root, "serve.log"), "wb") as log, \
                subprocess.Popen(words, env=env, cwd=self.repository, stdout=log, stderr=log) as server:
            try:
                yield self.address(server)
            finally:
                server.terminate()
                server.wait(30)

    def address(self, server):
        for _ in range(600):
            try:
                with open(os.path.join(self.data, "server.json"), encoding="utf-8") as sign:
                    sign = json.load(sign)
                if sign["pid"] == server.pid:
                    return sign["url"]
            except (OSError, ValueError):
                pass
            time.sleep(0.05)
        sys.exit("real-agents: the server does not start")

    def environment(self, url=None):
        """A person's, with the CLIs on the path and the model's address where each CLI looks for it."""
        folders = [os.path.dirname(clis.program(cli)) for cli in self.agents()] + [clis.node_bin(), *toolchain()]
        env = {"PATH": os.pathsep.join([*folders, os.environ["PATH"]]), "HOME": self.person, "LANG": "C.UTF-8",
               "USER": "ada", "COUNTERSIGN_DATA_DIR": self.data}
        for cli in self.agents() if url else ():
            env |= cli.settings(url).env
        return env

    def run(self, binary, url):
        """`countersign run`, to its end or to ours. Gives the exit code, what was said, and the seconds."""
        words = [binary, "run", os.path.join(self.root, "ticket.md"), "--builder", self.builder.name,
                 "--reviewer", self.reviewer.name, "--land", "branch"]
        return self.start(words, self.environment(url))

    def start(self, words, env):
        began = time.monotonic()
        with subprocess.Popen(words, cwd=self.repository, env=env, stdin=subprocess.DEVNULL, text=True, errors="replace",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as running:
            try:
                said, _ = running.communicate(timeout=RUN_SECS)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                said, _ = running.communicate()
                said += f"\nended by the rehearsal after {RUN_SECS} s\n"
        return running.returncode, said, time.monotonic() - began

    def ask(self, binary, *words):
        """What Countersign has recorded, as JSON."""
        code, said, _ = self.start([binary, *words, "--json"], self.environment())
        try:
            return json.loads(said)
        except ValueError:
            return {"unreadable": said, "exit": code}

    def heard(self):
        """The model's log."""
        try:
            with open(self.log, encoding="utf-8") as lines:
                return [json.loads(line) for line in lines]
        except FileNotFoundError:
            return []
