#!/usr/bin/env bash
# Runs the commands that `mercato demo` prints for pasting, and checks each answer: paste.sh FILE-WITH-ITS-OUTPUT
set -euo pipefail

block=$(sed -n '/^Paste this/,/^A second client/p' "$1" | sed '1d;$d')

# The commands are run as they are; only a status of 400 and above must not pass for success.
curl() { command curl --fail-with-body --max-time 10 "$@"; }

# An answer is JSON with data and without errors.
check() {
  python3 -c '
import json, sys
answer = json.load(sys.stdin)
sys.exit(0 if answer.get("data") and not answer.get("errors") else 1)'
}

run() {
  local answer
  printf '%s\n' "${1%%$'\n'*}"
  if [[ $1 == *TOKEN=* ]]; then
    eval "$1"
    [[ $TOKEN == mct_* ]] || { echo "  no token: $TOKEN"; exit 1; }
  else
    answer=$(eval "$1") || { echo "  refused: $answer"; exit 1; }
    check <<< "$answer" || { echo "  no data: $answer"; exit 1; }
  fi
  ran=$((ran + 1))
}

# A command ends at a blank line.
ran=0 command=
while IFS= read -r line <&3; do
  if [[ -n $line ]]; then
    command+=$line$'\n'
  elif [[ -n $command ]]; then
    run "$command"
    command=
  fi
done 3<<< "$block"$'\n'

echo "$ran commands, each with its data"
(( ran >= 4 ))
