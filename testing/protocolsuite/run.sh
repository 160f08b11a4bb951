#!/bin/sh
# Builds the fixture and runs the protocol tests against it.
#
#   testing/protocolsuite/run.sh            our own tests
#   OFFICIAL=<checkout of socketio/socket.io> testing/protocolsuite/run.sh
#                                           the suites of the Socket.IO project as well
set -eu
cd "$(dirname "$0")"
suite=$PWD
work=$(mktemp -d)
pid=
stop() {
	if [ -n "$pid" ]; then
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
		pid=
	fi
}
trap 'stop; rm -rf "$work"' EXIT INT TERM

[ -d node_modules/ws ] || npm ci --no-audit --no-fund --silent
(cd ../.. && go build -o "$work/fixture" ./testing/protocolfixture)

# start <protocol> <port> [flags]; sets base once the fixture listens.
start() {
	: >"$work/out"
	protocol=$1 port=$2
	shift 2
	"$work/fixture" -protocol "$protocol" -port "$port" "$@" >"$work/out" &
	pid=$!
	while ! grep -q listening "$work/out"; do
		kill -0 "$pid" || { echo "the fixture did not start" >&2; exit 1; }
		sleep 0.05
	done
	base="http://127.0.0.1:$(sed -n 's/^listening .*:\([0-9]*\) .*/\1/p' "$work/out")"
}

# official <directory> <protocol>: the suite as it is, with a ws that delivers
# each message in its own turn; the locked version loses messages that arrive together.
official() {
	mkdir "$work/$2"
	cp "$OFFICIAL/docs/$1/test-suite.js" "$OFFICIAL/docs/$1/package.json" "$OFFICIAL/docs/$1/package-lock.json" "$work/$2/"
	cp "$suite/official-imports.js" "$work/$2/node-imports.js"
	# A polling test of theirs takes three ping rounds, about a second, before it joins.
	start "$2" 3000 -connect-timeout 5s
	(cd "$work/$2" && npm ci --no-audit --no-fund --silent && npm install --no-audit --no-fund --silent ws@8.23.0 && npx mocha test-suite.js --exit) || failed=1
	stop
}

# run <name>: <name>.test.mjs against the fixture just started.
run() {
	PROTOCOL_BASE=$base node --test --test-reporter=spec "$1.test.mjs" >"$work/$1.log" || { failed=1; cat "$work/$1.log"; }
	echo "$1: $(sed -n 's/^ℹ \(pass\|fail\) /\1 /p' "$work/$1.log" | tr '\n' ' ')"
	stop
}

failed=0
start engine 0
run engine
start socket 0
run socket
# Pongs may be late on a busy machine; how late is not what these tests are about.
start socket 0 -ping-timeout 5s
run official-client
if [ -n "${OFFICIAL:-}" ]; then
	official engine.io-protocol/v4-test-suite engine
	official socket.io-protocol/v5-test-suite socket
fi
exit "$failed"
