#!/usr/bin/env bash
# Runs the outside suites against a demo of their own: bash tests/outside/run.sh
#
#   MERCATO_BIN           the binary (target/debug/mercato)
#   MERCATO_DATABASE_SERVER  a SurrealDB server (tests/outside/database-server), for the suite of two processes
#   MERCATO_CACHE         keeps npm and pip packages between runs (~/.cache/mercato)
#   MERCATO_FUZZ_SEED     what the fuzzers' inputs are made from (1, so that a gate judges the change and not the dice;
#                         $RANDOM to hunt)
#   MERCATO_FUZZ_SECONDS  how long the fuzzer runs on REST (60); on GraphQL, MERCATO_GRAPHQL_FUZZ_SECONDS (30)
#
# Needs Node 20, Python 3.11 with venv, curl. Runs every suite, then exits 1 if any failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=${MERCATO_BIN:-$here/../../target/debug/mercato}
work=$(mktemp -d)
data=$work/data
pid=

say() { printf '\n== %s\n' "$*"; }
die() { printf 'outside: %s\n' "$*" >&2; exit 1; }

cleanup() {
  if [[ -n $pid ]]; then kill -KILL "$pid" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The field of a JSON object on standard input.
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
ready() { field "$1" < "$work/ready.json"; }

# The first time it fills a year.
start_demo() {
  rm -f "$work/ready.json"
  "$binary" demo --data "$data" --listen 127.0.0.1:0 --ready-file "$work/ready.json" --address-limit 1000000 \
    > "$work/demo.out" 2> "$work/demo.err" &
  pid=$!
  for _ in $(seq 3000); do
    if [[ -s $work/ready.json ]]; then return; fi
    kill -0 "$pid" 2>/dev/null || { tail -20 "$work/demo.err" >&2; die "the demo ended before it was ready"; }
    sleep 0.1
  done
  die "the demo was not ready within 300 s"
}

# SIGTERM, and exit status 0 within 10 s.
stop_demo() {
  local status=0
  kill -TERM "$pid"
  for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 "$pid" 2>/dev/null; then die "still running 10 s after SIGTERM"; fi
  wait "$pid" || status=$?
  pid=
  [[ $status == 0 ]] || { tail -20 "$work/demo.err" >&2; die "exit status $status after SIGTERM"; }
}

offline() { "$binary" "$@" --json --database "surrealkv://$data" --environment demo; }

# token CLIENT_ID CLIENT_SECRET
token() {
  curl -sS --fail-with-body --max-time 10 "$auth/oauth/token" \
    -d grant_type=client_credentials -d client_id="$1" -d client_secret="$2" | field access_token
}

# A folder for packages that outlives this run if it can.
cache=${MERCATO_CACHE:-${HOME:-}/.cache/mercato}
if ! { mkdir -p "$cache" && [[ -w $cache ]]; } 2>/dev/null; then cache=$work/cache; fi
# packages NAME FILE...: a folder of its own for each content of these files.
packages() { echo "$cache/$1-$(cat "${@:2}" | sha256sum | cut -c1-16)"; }

install_audits() {
  audits=$(packages graphql-http "$here"/graphql-http/package*.json)
  if [[ ! -e $audits/installed ]]; then
    rm -rf "$audits"
    mkdir -p "$audits"
    cp "$here"/graphql-http/package*.json "$audits"
    (cd "$audits" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error)
    touch "$audits/installed"
  fi
  cp "$here/graphql-http/audit.mjs" "$audits"
}

install_fuzzer() {
  venv=$(packages schemathesis "$here/schemathesis/requirements.txt" <(python3 --version))
  if [[ ! -e $venv/installed ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/schemathesis/requirements.txt"
    touch "$venv/installed"
  fi
}

install_events() {
  clients=$(packages events-clients "$here"/events/clients/package*.json)
  if [[ ! -e $clients/installed ]]; then
    rm -rf "$clients"
    mkdir -p "$clients"
    cp "$here"/events/clients/package*.json "$clients"
    (cd "$clients" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error)
    touch "$clients/installed"
  fi
  cp "$here"/events/clients/*.mjs "$clients"
  receiver_venv=$(packages events-receivers "$here/events/requirements.txt" <(python3 --version))
  if [[ ! -e $receiver_venv/installed ]]; then
    rm -rf "$receiver_venv"
    python3 -m venv "$receiver_venv"
    "$receiver_venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/events/requirements.txt"
    touch "$receiver_venv/installed"
  fi
}

failed=()
suite() {
  say "$1"
  "${@:2}" || failed+=("$1")
}

[[ -x $binary ]] || die "no binary at $binary; build it or set MERCATO_BIN"
say "Packages, in $cache"
install_audits
install_fuzzer
install_events

say "A demo, stopped again, and records made offline beside it"
start_demo
organization=$(ready organizationId)
stop_demo
stranger_organization=$(offline organization create --name Stranger | field id)
application() { offline application create --per-hour 1000000 --per-minute 1000000 "$@"; }
stranger=$(application --organization "$stranger_organization" --name Stranger)
# Applications for the fuzzer to update, rotate and delete: see schemathesis/sacrifices.py.
sacrifices() {
  for number in $(seq "$1"); do application --organization "$organization" --name "Sacrifice $number"; done \
    | python3 -c 'import json, sys; print(json.dumps([json.loads(line) for line in sys.stdin]))'
}
sacrifices 20 > "$work/sacrifices-rest.json"
sacrifices 8 > "$work/sacrifices-graphql.json"

say "The demo again, on the same data"
start_demo
base=$(ready baseUrl) auth=$(ready authUrl)
echo "$base"
MERCATO_TOKEN=$(token "$(ready loadClientId)" "$(ready loadClientSecret)")
MERCATO_STRANGER_TOKEN=$(token "$(field clientId <<< "$stranger")" "$(field clientSecret <<< "$stranger")")
export MERCATO_TOKEN MERCATO_STRANGER_TOKEN

suite "Commands to paste" bash "$here/paste.sh" "$work/demo.out"
suite "GraphQL over HTTP" node "$audits/audit.mjs" --url "$(ready graphqlUrl)"
export MERCATO_BASE_URL=$base MERCATO_AUTH_URL=$auth MERCATO_CLIENT_ID
MERCATO_CLIENT_ID=$(ready loadClientId)
fuzz() { MERCATO_SACRIFICES=$work/sacrifices-$1.json bash "$here/schemathesis/run.sh" "$venv/bin/schemathesis" "$@"; }
suite "Fuzzing REST" fuzz rest "$base/openapi.json"
suite "Fuzzing GraphQL" fuzz graphql "$(ready graphqlUrl)"

say "Stop"
stop_demo
echo "exit status 0"

# Each of these has processes of its own.
# These start services of their own, which would take the demo's address for theirs.
alone() {
  env -u MERCATO_BASE_URL -u MERCATO_AUTH_URL -u MERCATO_CLIENT_ID PYTHONDONTWRITEBYTECODE=1 "$receiver_venv/bin/python" "$@"
}
events() { alone "$here/events/$1.py" "$binary" "${@:2}"; }
suite "Events: the same bytes everywhere" events same_bytes "$clients"
suite "Events: kill -9 under load" events crash 5
suite "Events: bad receivers" events receivers
suite "Events: punctual retries" events punctual
if [[ -n ${MERCATO_DATABASE_SERVER:-} ]]; then
  suite "Two processes on one SurrealDB server" \
    alone "$here/cluster.py" "$binary" "$MERCATO_DATABASE_SERVER"
fi

if (( ${#failed[@]} )); then
  printf '\nfailed: %s\n' "$(IFS=,; echo "${failed[*]}")"
  exit 1
fi
printf '\nall outside suites passed\n'
