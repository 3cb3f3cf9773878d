#!/bin/sh
# Claude Code as far as a story needs it: its help, its flags checked, its line format.
set -eu
case ${1-} in
  --version) echo '2.1.325 (Claude Code)'; exit 0 ;;
  --help)
    echo '--output-format --permission-mode --allowedTools --tools --json-schema'
    echo '--strict-mcp-config --mcp-config --setting-sources --no-session-persistence --resume'
    exit 0 ;;
esac
words=" $* "
must() { case $words in *" $1 "*) ;; *) echo "no $1 in:$words" >&2; exit 64 ;; esac; }
must '-p --output-format stream-json --verbose'
must '--strict-mcp-config'
must '--permission-mode acceptEdits'
must '--json-schema'
[ "$CLAUDE_CONFIG_DIR" = "$HOME/.claude" ] && [ "$DISABLE_AUTOUPDATER" = 1 ] && [ "$ANTHROPIC_API_KEY" = k-1 ]
[ -z "${OTHER_SECRET-}" ]
# With a token there is a server to connect to, and the token is in the environment alone.
servers=$(sed -n 's/.* --mcp-config \([^ ]*\) .*/\1/p' <<END
$words
END
)
if [ -n "${COUNTERSIGN_TOKEN-}" ]; then
  must 'mcp__countersign__*'
  grep -qF "\"url\":\"$COUNTERSIGN_SERVER/mcp\"" "$servers"
  grep -qF '"Bearer ${COUNTERSIGN_TOKEN}"' "$servers"
  case $words in *"$COUNTERSIGN_TOKEN"*) exit 64 ;; esac
else
  [ -z "$servers" ]
fi
mkdir -p "$CLAUDE_CONFIG_DIR"
# The brief is on stdin, and nowhere in the arguments.
brief=$(cat)
case $brief in *greet.sh*) ;; *) exit 64 ;; esac
case $words in *'prints `Hello'*) exit 64 ;; esac
case $words in
  *' --resume '*)
    must '--resume session-1'
    [ -e "$CLAUDE_CONFIG_DIR/session-1" ] || { echo 'No conversation found with session ID: session-1' >&2; exit 1; } ;;
  *) touch "$CLAUDE_CONFIG_DIR/session-1" ;;
esac
echo '{"type":"system","subtype":"init","session_id":"session-1","model":"some-opus"}'
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Write","input":{"file_path":"greet.sh"}}]}}'
if [ "$COUNTERSIGN_ROUND" = 1 ]; then
  printf 'printf "Hello, %%s\\n" "$1"\n' > greet.sh
else
  must '--resume session-1'
  printf '[ -n "$1" ] || exit 2\nprintf "Hello, %%s\\n" "$1"\n' > greet.sh
fi
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"Written."}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Written.","structured_output":{"summary":"Wrote greet.sh.","claims":[],"findings":[]},"total_cost_usd":9.5,"model_usage_since_last_result":{"some-opus":{"costUSD":0.25}},"usage":{"input_tokens":100,"cache_read_input_tokens":900,"cache_creation_input_tokens":0,"output_tokens":50}}'
