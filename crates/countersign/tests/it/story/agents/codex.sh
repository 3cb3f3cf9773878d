#!/bin/sh
# Codex as far as a story needs it, as a reviewer and a verifier inside our sandbox.
set -eu
case "$*" in
  --version) echo 'codex-cli 0.166.0'; exit 0 ;;
  'exec --help')
    echo '--json --sandbox --skip-git-repo-check --output-schema --output-last-message'
    echo '--ephemeral --ignore-user-config --ignore-rules resume'
    exit 0 ;;
esac
words=" $* "
must() { case $words in *" $1 "*) ;; *) echo "no $1 in:$words" >&2; exit 64 ;; esac; }
must 'exec --json --skip-git-repo-check -s danger-full-access'
must '--ignore-user-config --ignore-rules'
[ "$COUNTERSIGN_ROLE" = review ] || must '--ephemeral'
case $words in *' resume '*) exit 64 ;; esac
[ "$CODEX_HOME" = "$HOME/.codex" ] && [ -d "$CODEX_HOME" ]
[ "$(cat "$CODEX_HOME/auth.json")" = 'the login' ]
while [ $# -gt 0 ]; do
  case $1 in
    --output-schema) grep -q additionalProperties "$2" ;;
    --output-last-message) last=$2 ;;
  esac
  shift
done
cat > /dev/null
if touch planted 2>/dev/null; then echo 'it could write' >&2; exit 64; fi
cd "$COUNTERSIGN_CHANGE"
if touch planted 2>/dev/null; then echo 'it could write' >&2; exit 64; fi
echo '{"type":"thread.started","thread_id":"thread-1"}'
echo '{"type":"item.started","item":{"type":"command_execution","command":"cat greet.sh"}}'
case $COUNTERSIGN_ROLE in
  verify) answer='{"answers":[{"finding":"F1","outcome":"fixed","evidence":"greet.sh:1"}]}' ;;
  *)
    if grep -q 'exit 2' greet.sh; then
      answer='{"verdict":"approve","commit":"'$COUNTERSIGN_COMMIT'","complete":true,"findings":[],"notes":""}'
    else
      answer='{"verdict":"request_changes","commit":"'$COUNTERSIGN_COMMIT'","complete":true,"findings":[{"severity":"high","category":"correctness","file":"greet.sh","line":1,"title":"An empty name is accepted","problem":"It should fail.","impact":"","fix":""}],"notes":""}'
    fi ;;
esac
printf '%s' "$answer" > "$last"
echo '{"type":"item.completed","item":{"type":"agent_message","text":"In the file."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1000,"cached_input_tokens":400,"output_tokens":20}}'
