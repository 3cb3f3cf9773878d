"""The story of story.mjs, told with the official Python client."""
import asyncio
import os
import pathlib
import subprocess

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

REPO, TREE = os.environ["REPO"], os.environ["TREE"]


def git(*words):
    subprocess.run(["git", *words], cwd=REPO, check=True)


def work(line):
    with open(pathlib.Path(TREE) / "greet.txt", "a", encoding="utf-8") as file:
        file.write(line + "\n")
    git("-C", TREE, "add", "-A")
    git("-C", TREE, "commit", "-qm", line)


async def call(client, name, **args):
    answer = await client.call_tool(name, args)
    assert not answer.is_error, f"{name}: {answer.content[0].text}"
    return answer.structured_content


async def next_one(client, kind):
    for _ in range(20):
        found = (await call(client, "wait_for_work", timeout_secs=5))["assignment"]
        if found:
            assert found["kind"] == kind, f"a {found['kind']} instead of a {kind}"
            return found
    raise AssertionError(f"there was no {kind}")


async def story(builder, reviewer):
    first = await next_one(builder, "build")
    await call(builder, "accept_assignment", assignment_id=first["id"])
    git("worktree", "add", "-q", "-b", first["branch_name"], TREE, "main")
    work("hello")
    put = await call(builder, "submit_for_review", assignment_id=first["id"], attempt=first["attempt"])
    print(f"submitted {put['commit'][:10]}: {put['status']}")
    review = await next_one(reviewer, "review")
    said = await call(reviewer, "submit_review_result", assignment_id=review["id"], attempt=review["attempt"],
                      approved=False, feedback="Greet by name.")
    print(f"reviewed: {said['status']}, attempt {said['review_attempt']} of {said['max_cycles']}")
    again = await next_one(builder, "build")
    assert "Greet by name" in again["review_feedback"]
    work("hello, Ada")
    await call(builder, "submit_for_review", assignment_id=again["id"], attempt=again["attempt"])
    # A fresh review, and the word on what was found before, in whichever order.
    while said["status"] != "approved":
        given = (await call(reviewer, "wait_for_work", timeout_secs=30))["assignment"]
        answer = {"approved": True, "feedback": ""}
        if given["kind"] == "verify":
            answer = {"answers": [{"finding": "F1", "outcome": "fixed", "evidence": "the name is greeted"}]}
        said = await call(reviewer, "submit_review_result", assignment_id=given["id"], attempt=given["attempt"], **answer)
        print(f"answered a {given['kind']}: {said['status']}")


async def main():
    async with connected(os.environ["BUILDER"]) as builder, connected(os.environ["REVIEWER"]) as reviewer:
        await story(builder, reviewer)


class connected:
    """A client with this token."""

    def __init__(self, token):
        self.http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})

    async def __aenter__(self):
        self.transport = streamable_http_client(os.environ["URL"], http_client=self.http)
        streams = await self.transport.__aenter__()
        self.session = ClientSession(*streams[:2])
        client = await self.session.__aenter__()
        await client.initialize()
        return client

    async def __aexit__(self, *why):
        await self.session.__aexit__(*why)
        await self.transport.__aexit__(*why)


asyncio.run(main())
