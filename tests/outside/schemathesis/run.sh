#!/usr/bin/env bash
# Fuzzes every operation of a served OpenAPI document with every check: run.sh SCHEMATHESIS URL (../run.sh calls it)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Two identities of different organizations: what one may read, the other must not.
export MERCATO_IDENTITIES=$work/identities.json
python3 > "$MERCATO_IDENTITIES" -c '
import json, os
def identity(name, token):
    return {"name": name, "fixedHeaders": [{"name": "Authorization", "value": "Bearer " + os.environ[token]}]}
print(json.dumps({"auth": [identity("own", "MERCATO_TOKEN"), identity("stranger", "MERCATO_STRANGER_TOKEN")]}))'

PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 "$1" --config-file "$here/schemathesis.toml" --no-color run "$2" \
  --checks all --phases examples,coverage,fuzzing,stateful --workers 1 --continue-on-failure \
  --max-time "${MERCATO_FUZZ_SECONDS:-60}"
