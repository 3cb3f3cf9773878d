"""What each model API looks like on the wire: pure functions, JSON in and JSON out.

Four dialects: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions, Gemini. `read` turns a
request into a `Talk`, the same for all of them; `answer` turns a `Move` into the events of a stream,
and `whole` into the one object of a request that does not stream. Nothing here chooses a move.
"""
import json
import uuid
from dataclasses import dataclass, field

TOKENS_IN, TOKENS_OUT = 1000, 50  # of every answer, so that sums can be checked


@dataclass
class Tool:
    name: str
    kind: str = "function"  # or `custom`: takes free text (Responses)
    space: str | None = None  # the namespace in which Responses groups a server's tools
    fields: dict = field(default_factory=dict)  # its arguments, as JSON schema


@dataclass
class Talk:
    """What was said so far: user texts and tool results in order, and the tools on offer."""
    said: list  # of ("user" | "result", text)
    tools: list
    model: str = ""
    streams: bool = True


@dataclass
class Move:
    """Either a tool to call or a text to end with; `status` other than 200 is an error instead."""
    tool: Tool | None = None
    args: dict | str = ""
    text: str = ""
    status: int = 200


def ident(prefix):
    return prefix + uuid.uuid4().hex[:24]


def flat(value):
    """The text in whatever a dialect nests it in."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(flat(each) for each in value)
    if isinstance(value, dict):
        for key in ("text", "content", "output"):
            if value.get(key):
                return flat(value[key])
        return "" if "type" in value else json.dumps(value)
    return ""


def properties(schema):
    return (schema or {}).get("properties") or {}


# --- Anthropic Messages ----------------------------------------------------------------------------

class Anthropic:
    name = "anthropic"

    @staticmethod
    def read(body):
        said = []
        for message in body.get("messages", []):
            if message.get("role") != "user":
                continue
            content = message["content"]
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if block.get("type") == "tool_result":
                    said.append(("result", flat(block.get("content"))))
                elif block.get("type") == "text":
                    said.append(("user", block["text"]))
        tools = [Tool(tool["name"], fields=properties(tool.get("input_schema"))) for tool in body.get("tools") or []]
        return Talk(said, tools, body.get("model", ""), bool(body.get("stream")))

    @staticmethod
    def block(move):
        if move.tool:
            return {"type": "tool_use", "id": ident("toolu_"), "name": move.tool.name, "input": move.args}
        return {"type": "text", "text": move.text}

    @staticmethod
    def envelope(talk):
        usage = {"input_tokens": TOKENS_IN, "output_tokens": 1,
                 "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"id": ident("msg_"), "type": "message", "role": "assistant", "model": talk.model, "content": [],
                "stop_reason": None, "stop_sequence": None, "usage": usage}

    @classmethod
    def whole(cls, talk, move):
        envelope = cls.envelope(talk)
        envelope["usage"]["output_tokens"] = TOKENS_OUT
        return {**envelope, "content": [cls.block(move)], "stop_reason": "tool_use" if move.tool else "end_turn"}

    @classmethod
    def answer(cls, talk, move):
        block = cls.block(move)
        if move.tool:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(move.args)}
        else:
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": move.text}
        events = [
            {"type": "message_start", "message": cls.envelope(talk)},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "usage": {"output_tokens": TOKENS_OUT},
             "delta": {"stop_reason": "tool_use" if move.tool else "end_turn", "stop_sequence": None}},
            {"type": "message_stop"},
        ]
        return [(event["type"], event) for event in events]

    @staticmethod
    def refusal(move):
        kind = "rate_limit_error" if move.status == 429 else "api_error"
        return {"type": "error", "error": {"type": kind, "message": move.text}}


# --- OpenAI Responses ------------------------------------------------------------------------------

class Responses:
    name = "responses"
    RESULTS = ("function_call_output", "custom_tool_call_output", "mcp_tool_call_output", "local_shell_call_output")

    @classmethod
    def read(cls, body):
        given = body.get("input") or []
        said = [("user", given)] if isinstance(given, str) else []
        for item in [] if isinstance(given, str) else given:
            kind = item.get("type", "message")
            if kind in cls.RESULTS:
                said.append(("result", flat(item.get("output"))))
            elif kind == "message" and item.get("role") == "user":
                said.append(("user", flat(item.get("content"))))
        tools = []
        for tool in body.get("tools") or []:
            kind = tool.get("type")
            if kind == "namespace":
                tools += [Tool(inner["name"], "function", tool["name"], properties(inner.get("parameters")))
                          for inner in tool.get("tools") or []]
            elif kind in ("function", "custom"):
                tools.append(Tool(tool["name"], kind, None, properties(tool.get("parameters"))))
        return Talk(said, tools, body.get("model", ""), bool(body.get("stream")))

    @staticmethod
    def item(move):
        if not move.tool:
            return {"type": "message", "id": ident("msg_"), "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": move.text, "annotations": []}]}
        if move.tool.kind == "custom":
            return {"type": "custom_tool_call", "id": ident("ctc_"), "call_id": ident("call_"),
                    "status": "completed", "name": move.tool.name, "input": move.args}
        space = {"namespace": move.tool.space} if move.tool.space else {}
        return {"type": "function_call", "id": ident("fc_"), "call_id": ident("call_"), "status": "completed",
                "name": move.tool.name, "arguments": json.dumps(move.args), **space}

    @staticmethod
    def envelope(talk, status, output):
        usage = {"input_tokens": TOKENS_IN, "input_tokens_details": {"cached_tokens": 0},
                 "output_tokens": TOKENS_OUT, "output_tokens_details": {"reasoning_tokens": 0},
                 "total_tokens": TOKENS_IN + TOKENS_OUT}
        return {"id": ident("resp_"), "object": "response", "created_at": 0, "model": talk.model, "status": status,
                "output": output, "error": None, "tools": [], "parallel_tool_calls": False,
                "usage": usage if status == "completed" else None}

    @classmethod
    def whole(cls, talk, move):
        return cls.envelope(talk, "completed", [cls.item(move)])

    @classmethod
    def answer(cls, talk, move):
        item = cls.item(move)
        events = [
            {"type": "response.created", "response": cls.envelope(talk, "in_progress", [])},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        ]
        if not move.tool:
            events.append({"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
                           "item_id": item["id"], "delta": move.text})
        events += [
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": cls.envelope(talk, "completed", [item])},
        ]
        return [(event["type"], {**event, "sequence_number": at}) for at, event in enumerate(events)]

    @staticmethod
    def refusal(move):
        kind = "insufficient_quota" if move.status == 429 else "server_error"
        return {"error": {"message": move.text, "type": kind, "code": kind, "param": None}}


# --- OpenAI Chat Completions -----------------------------------------------------------------------

class Chat:
    name = "chat"
    refusal = Responses.refusal

    @staticmethod
    def read(body):
        said = []
        for message in body.get("messages", []):
            if message.get("role") == "tool":
                said.append(("result", flat(message.get("content"))))
            elif message.get("role") == "user":
                said.append(("user", flat(message.get("content"))))
        functions = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
        tools = [Tool(each["name"], fields=properties(each.get("parameters"))) for each in functions]
        return Talk(said, tools, body.get("model", ""), bool(body.get("stream")))

    @staticmethod
    def message(move):
        if not move.tool:
            return {"role": "assistant", "content": move.text}
        call = {"index": 0, "id": ident("call_"), "type": "function",
                "function": {"name": move.tool.name, "arguments": json.dumps(move.args)}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    @staticmethod
    def envelope(talk, kind, choices, **more):
        return {"id": ident("chatcmpl-"), "created": 0, "model": talk.model, "object": kind,
                "choices": choices, **more}

    USAGE = {"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT, "total_tokens": TOKENS_IN + TOKENS_OUT}

    @classmethod
    def whole(cls, talk, move):
        choice = {"index": 0, "message": cls.message(move), "finish_reason": "tool_calls" if move.tool else "stop"}
        return cls.envelope(talk, "chat.completion", [choice], usage=cls.USAGE)

    @classmethod
    def answer(cls, talk, move):
        kind = "chat.completion.chunk"
        end = "tool_calls" if move.tool else "stop"
        return [
            (None, cls.envelope(talk, kind, [{"index": 0, "delta": cls.message(move), "finish_reason": None}])),
            (None, cls.envelope(talk, kind, [{"index": 0, "delta": {}, "finish_reason": end}])),
            (None, cls.envelope(talk, kind, [], usage=cls.USAGE)),
            (None, "[DONE]"),
        ]


# --- Gemini ----------------------------------------------------------------------------------------

class Gemini:
    name = "gemini"

    @staticmethod
    def read(body):
        said = []
        for content in body.get("contents", []):
            if content.get("role") == "model":
                continue
            for part in content.get("parts", []):
                if "functionResponse" in part:
                    said.append(("result", flat(part["functionResponse"].get("response"))))
                elif "text" in part:
                    said.append(("user", part["text"]))
        tools = [Tool(each["name"], fields=properties(each.get("parametersJsonSchema") or each.get("parameters")))
                 for group in body.get("tools") or [] for each in group.get("functionDeclarations", [])]
        return Talk(said, tools)

    @staticmethod
    def whole(_talk, move):
        part = {"functionCall": {"name": move.tool.name, "args": move.args}} if move.tool else {"text": move.text}
        usage = {"promptTokenCount": TOKENS_IN, "candidatesTokenCount": TOKENS_OUT,
                 "totalTokenCount": TOKENS_IN + TOKENS_OUT}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}

    @classmethod
    def answer(cls, talk, move):
        return [(None, cls.whole(talk, move))]

    @staticmethod
    def refusal(move):
        status = "RESOURCE_EXHAUSTED" if move.status == 429 else "INTERNAL"
        return {"error": {"code": move.status, "message": move.text, "status": status}}


def dialect(path):
    """Which API a request's path belongs to, if any."""
    if path.endswith("/messages"):
        return Anthropic
    if path.endswith("/responses"):
        return Responses
    if path.endswith("/chat/completions"):
        return Chat
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return Gemini
    return None
