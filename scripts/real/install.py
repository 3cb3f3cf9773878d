"""Puts the pinned CLIs into a folder of their own, each apart from the others and from the machine's."""
import os
import shutil
import subprocess
import sys

import clis


def install(names):
    os.makedirs(clis.folder(), exist_ok=True)
    node()
    for cli in (clis.CLIS[name] for name in names):
        if clis.is_installed(cli):
            print(f"{cli.name} {cli.version} is there", flush=True)
            continue
        print(f"{cli.name}: {cli.pinned}", flush=True)
        # Made next to its place and moved there, so that a half-made one is never taken for whole.
        place, making = clis.home_of(cli), clis.home_of(cli) + ".making"
        shutil.rmtree(making, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
        if cli.python:
            # A virtual environment has its own path written into its programs, so it cannot be moved.
            try:
                run([sys.executable, "-m", "venv", place])
                run([os.path.join(place, "bin", "pip"), "install", "--quiet", cli.pinned])
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
        else:
            npm(making, cli.pinned)
            os.rename(making, place)


def node():
    if not os.path.exists(os.path.join(clis.node_bin(), "node")):
        print(f"node: {clis.NODE}", flush=True)
        npm(os.path.join(clis.folder(), "node"), clis.NODE)


def npm(prefix, package):
    """As `npm install -g` would for a person, with another prefix; by the new Node, once it is there."""
    env = {**os.environ, "PATH": f"{clis.node_bin()}{os.pathsep}{os.environ['PATH']}"}
    run(["npm", "install", "--global", "--prefix", prefix, "--no-audit", "--no-fund", "--loglevel=error", package], env=env)


def run(words, **more):
    subprocess.run(words, check=True, **more)
