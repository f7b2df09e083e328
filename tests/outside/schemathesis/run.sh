#!/usr/bin/env bash
# Fuzzes a served API (../run.sh calls it): every operation of its OpenAPI document or every field of its GraphQL schema,
# with every check: run.sh SCHEMATHESIS rest|graphql URL
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

case $2 in
  rest)
    # Two identities of different organizations: what one may read, the other must not.
    export MERCATO_IDENTITIES=$work/identities.json
    python3 > "$MERCATO_IDENTITIES" -c '
import json, os
def identity(name, token):
    return {"name": name, "fixedHeaders": [{"name": "Authorization", "value": "Bearer " + os.environ[token]}]}
print(json.dumps({"auth": [identity("own", "MERCATO_TOKEN"), identity("stranger", "MERCATO_STRANGER_TOKEN")]}))'
    config=schemathesis.toml phases=examples,coverage,fuzzing,stateful seconds=${MERCATO_FUZZ_SECONDS:-60} ;;
  graphql)
    config=graphql.toml phases=fuzzing seconds=${MERCATO_GRAPHQL_FUZZ_SECONDS:-30} ;;
esac

PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 "$1" --config-file "$here/$config" --no-color run "$3" \
  --seed "${MERCATO_FUZZ_SEED:-1}" --checks all --phases "$phases" --workers 1 --continue-on-failure --max-time "$seconds"
