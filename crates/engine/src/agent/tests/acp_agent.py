"""A small agent that speaks ACP: it asks before it writes, and does not exit at the end of stdin."""
import json
import os
import sys
import time


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(**fields):
    send(method="session/update", params={"sessionId": "s-1", "update": fields})


print("a banner that is no JSON", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        send(id=number, result={"protocolVersion": 1, "agentCapabilities": {}})
    elif method == "session/new":
        if os.environ.get("LOGIN") == "no":
            send(id=number, error={"code": -32000, "message": "Authentication required"})
        else:
            send(id=number, result={"sessionId": "s-1", "models": {"currentModelId": "m-1"}})
    elif method == "session/prompt":
        prompt, turn = message["params"]["prompt"][0]["text"], number
        update(sessionUpdate="tool_call", toolCallId="t", title="Write out.txt", kind="edit")
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        call = {"toolCallId": "t", "title": "Write out.txt", "kind": "edit"}
        send(id=99, method="session/request_permission",
             params={"sessionId": "s-1", "toolCall": call, "options": options})
    elif number == 99:
        if message["result"]["outcome"].get("optionId") == "yes":
            with open("out.txt", "w") as file:
                file.write(prompt)
        if os.environ.get("HANGS"):
            continue
        for piece in ("All ", "done."):
            update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": piece})
        send(id=turn, result={"stopReason": "end_turn", "usage": {"inputTokens": 10, "outputTokens": 2}})
    elif method == "session/cancel":
        with open("cancelled", "w") as file:
            file.write("yes")
time.sleep(600)
