"""Applications that may be changed, rotated and deleted in place of the one that the fuzzer acts as: each has a token of
its own, and does it to itself (MERCATO_SACRIFICES, a JSON file)."""

import itertools
import json
import os
import urllib.error
import urllib.parse
import urllib.request

import records

applications = records.known["applications"].values()
OWN_ID = next(one["id"] for one in applications if one["clientId"] == os.environ["MERCATO_CLIENT_ID"])


def bearer(sacrifice):
    form = {
        "grant_type": "client_credentials",
        "client_id": sacrifice["clientId"],
        "client_secret": sacrifice["clientSecret"],
    }
    url = f"{os.environ['MERCATO_AUTH_URL']}/oauth/token"
    with urllib.request.urlopen(url, urllib.parse.urlencode(form).encode(), timeout=60) as answer:
        return f"Bearer {json.load(answer)['access_token']}"


with open(os.environ["MERCATO_SACRIFICES"], encoding="utf-8") as file:
    alive = [{**made, "authorization": bearer(made)} for made in json.load(file)]
deleted = []
# Token requests are limited for each client, so deletion leaves half of them to share the work.
STAY = len(alive) // 2
turn = itertools.count()


def following():
    return alive[next(turn) % len(alive)]


def was_deleted(id):
    for sacrifice in [one for one in alive if one["id"] == id]:
        alive.remove(sacrifice)
        deleted.append(sacrifice)


def was_rotated(id, secret):
    for sacrifice in [one for one in alive if one["id"] == id]:
        sacrifice["clientSecret"] = secret
        try:
            sacrifice["authorization"] = bearer(sacrifice)
        except urllib.error.HTTPError as error:
            # Over its token limit: the others go on.
            if error.code != 429 or len(alive) == 1:
                raise
            alive.remove(sacrifice)
