#!/bin/sh
# An MCP server in shell. `stubborn` ignores signals and the end of stdin; `fail` ends at once.
[ "$1" != fail ] || { echo 'this line
and this one' >&2; exit 3; }
[ "$1" != stubborn ] || trap '' TERM INT HUP
# A message of the protocol on stderr is none.
echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[]}}' >&2

reply() {
  printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"
}

text() {
  reply '"result":{"content":[{"type":"text","text":"'"$(tr '\n\t"\\' '.   ' | tr -s ' ')"'"}]}'
}

facts() {
  echo "call: $calls"
  echo "uid: $(id -u)"
  grep -E 'NoNewPrivs|CapEff' /proc/self/status
  echo "net: $(ls /sys/class/net)"
  touch /x 2>/dev/null && echo 'root: writable' || echo 'root: read-only'
  touch /tmp/x 2>/dev/null && echo 'tmp: writable' || echo 'tmp: read-only'
  env
}

while :; do
  read -r line || { [ "$1" = stubborn ] && sleep 1000; exit 0; }
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) reply '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"box","version":"1"}}' ;;
    *'"tools/list"'*) reply '"result":{"tools":[{"name":"facts","inputSchema":{"type":"object"}},{"name":"linger","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"facts"'*) calls=$((calls + 1)); facts | text ;;
    *'"name":"linger"'*) setsid sleep 1000 >/dev/null 2>&1 & echo lingering | tr -d '\n' | text ;;
    *'"ping"'*) reply '"result":{}' ;;
    *'"id":'*) reply '"error":{"code":-32601,"message":"no such method"}' ;;
  esac
done
