"""What no OpenAPI document can tell the fuzzer: who may be sacrificed, where client credentials go, what exists.

The fuzzer acts as one application (MERCATO_TOKEN). That application could void its own token: narrow its scopes,
regenerate its secret, delete itself. Nothing is excluded for that; such calls are made by *sacrifices* instead,
applications made for it, each with its own token and each about itself (MERCATO_SACRIFICES, a JSON file).
"""

import base64
import itertools
import json
import os
import random
import urllib.error
import urllib.parse
import urllib.request

from schemathesis import hook
from schemathesis.core.parameters import ParameterLocation
from schemathesis.openapi.checks import RejectedPositiveData

SELF_MANAGEMENT = {"applications.update", "applications.regenerate_secret", "applications.delete"}
CLIENT_AUTHENTICATED = {"token.issue", "token.revoke", "token.introspect"}
WITH_ECHO = {"applications.update", "customers.update"}
ABOUT_A_CUSTOMER = {"customers.get", "customers.update", "customers.delete"}

OWN = f"Bearer {os.environ['MERCATO_TOKEN']}"


def listed(url):
    request = urllib.request.Request(f"{url}?limit=100", headers={"Authorization": OWN})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["data"]["items"]


def bearer(sacrifice):
    form = {
        "grant_type": "client_credentials",
        "client_id": sacrifice["clientId"],
        "client_secret": sacrifice["clientSecret"],
    }
    url = f"{os.environ['MERCATO_AUTH_URL']}/oauth/token"
    with urllib.request.urlopen(url, urllib.parse.urlencode(form).encode(), timeout=10) as answer:
        return f"Bearer {json.load(answer)['access_token']}"


APPLICATIONS = listed(f"{os.environ['MERCATO_AUTH_URL']}/oauth/applications")
OWN_ID = next(one["id"] for one in APPLICATIONS if one["clientId"] == os.environ["MERCATO_CLIENT_ID"])
customers = [one["id"] for one in listed(f"{os.environ['MERCATO_BASE_URL']}/api/v1/customers")]
with open(os.environ["MERCATO_SACRIFICES"], encoding="utf-8") as file:
    alive = [{**made, "authorization": bearer(made)} for made in json.load(file)]
deleted = []
# Token requests are limited for each client, so deletion leaves half of them to share the work.
STAY = len(alive) // 2
turn = itertools.count()
# Not the global one: the fuzzer seeds that for each example.
chance = random.Random(1)


def mostly():
    return chance.random() < 0.75


def next_sacrifice():
    return alive[next(turn) % len(alive)]


@hook
def before_load_schema(context, raw_schema):
    """The fuzzer tests the authentication of `http` schemes only. An OAuth 2.0 access token is a bearer token."""
    raw_schema["components"]["securitySchemes"]["bearer"] = {"type": "http", "scheme": "bearer"}
    for item in raw_schema["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and "oauth2" in operation.get("security", [{}])[0]:
                operation["security"] = [{"bearer": []}]


@hook
def before_call(context, case, kwargs):
    name = case.operation.definition.raw["operationId"]
    use_a_key_once(case)
    if name == "customers.create":
        take_a_free_account(case)
    elif name in SELF_MANAGEMENT:
        let_a_sacrifice_do_it(name, case)
    elif name in CLIENT_AUTHENTICATED:
        authenticate_client(case)
    elif name in ABOUT_A_CUSTOMER:
        take_a_real_customer(name, case)
    if name in WITH_ECHO:
        leave_the_echo_out(case)


def leave_the_echo_out(case):
    """Mostly. What a client may send back as it read it is made up here, and so refused."""
    if not isinstance(case.body, dict) or is_negative(case, ParameterLocation.BODY) or not mostly():
        return
    changeable = {"email", "companyName", "status", "name", "description", "scopes"}
    for field in set(case.body) - changeable:
        del case.body[field]


def take_a_free_account(case):
    """Mostly. The fuzzer likes short identifiers, and a customer's is taken by the first (409)."""
    if not isinstance(case.body, dict) or is_negative(case, ParameterLocation.BODY) or not mostly():
        return
    for field in ("cloudAccountId", "tenantId"):
        if case.body.get(field):
            case.body[field] = f"{case.body[field][:50]}-{next(turn)}"


def use_a_key_once(case):
    """Mostly. The fuzzer likes short keys, and a second request under a key is refused or not done."""
    if "Authorization" not in case.headers or is_negative(case, ParameterLocation.HEADER) or not mostly():
        return
    if "Idempotency-Key" in case.headers:
        case.headers.pop("X-Idempotency-Key", None)
    for name in ("Idempotency-Key", "X-Idempotency-Key"):
        if name in case.headers:
            case.headers[name] = f"{case.headers[name][:240]}-{next(turn)}"


def take_a_real_customer(name, case):
    """Mostly, where an id was made up: most rules are only seen on a record that exists."""
    made_up = not str(case.path_parameters.get("id")).startswith("cus_")
    if not made_up or is_negative(case, ParameterLocation.PATH) or not mostly() or len(customers) == 1:
        return
    case.path_parameters["id"] = customers.pop() if name == "customers.delete" else chance.choice(customers)


def let_a_sacrifice_do_it(name, case):
    """About the fuzzer's own application always; about any other id, which would be unknown (404), mostly."""
    about = case.path_parameters.get("id")
    if case.headers.get("Authorization") != OWN:
        return
    if about != OWN_ID and (is_negative(case, ParameterLocation.PATH) or not mostly()):
        return
    if name == "applications.delete" and len(alive) <= STAY:
        case.path_parameters["id"] = deleted[-1]["id"]
        return
    sacrifice = next_sacrifice()
    case.path_parameters["id"] = sacrifice["id"]
    case.headers["Authorization"] = sacrifice["authorization"]


def authenticate_client(case):
    """Client credentials go into the form or into HTTP Basic, never both; OpenAPI cannot say so. Both ways are taken; at
    times the made-up credentials stay, if there are any."""
    case.headers.pop("Authorization", None)
    if not isinstance(case.body, dict) or is_negative(case, ParameterLocation.BODY):
        return
    way = chance.randrange(3)
    if way == 0 and case.body.get("client_id") and case.body.get("client_secret"):
        return
    for field in ("client_id", "client_secret"):
        case.body.pop(field, None)
    client = next_sacrifice()
    client_id, client_secret = client["clientId"], client["clientSecret"]
    if way == 1:
        both = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        case.headers["Authorization"] = f"Basic {both}"
    else:
        case.body |= {"client_id": client_id, "client_secret": client_secret}


def is_negative(case, location):
    return case.meta is not None and case.meta.is_negative_at(location)


@hook
def after_call(context, case, response):
    name = case.operation.definition.raw["operationId"]
    if name == "customers.create" and response.status_code == 201:
        customers.append(response.json()["data"]["id"])
    if name not in SELF_MANAGEMENT or response.status_code != 200:
        return
    sacrifice = next((one for one in alive if one["id"] == case.path_parameters["id"]), None)
    if sacrifice is None:
        return
    if name == "applications.delete":
        alive.remove(sacrifice)
        deleted.append(sacrifice)
    elif name == "applications.regenerate_secret":
        sacrifice["clientSecret"] = response.json()["data"]["clientSecret"]
        try:
            sacrifice["authorization"] = bearer(sacrifice)
        except urllib.error.HTTPError as error:
            # Over its token limit: the others go on.
            if error.code != 429 or len(alive) == 1:
                raise
            alive.remove(sacrifice)


# Refused for what else was sent or exists, which a schema of one request cannot know.
BEYOND_A_SCHEMA = {
    ("cursor", "is not a cursor of this list"),
    ("Idempotency-Key", "is given twice with different values"),
    ("Idempotency-Key", "was used with a different request"),
}
# A field that may only be sent back as it was read.
ECHO = "cannot be changed"


@hook
def filter_failure(context, failure, case, response):
    if not isinstance(failure, RejectedPositiveData):
        return True
    errors = response.json().get("errors") or [{}]
    return not all(
        error.get("message") == ECHO or (error.get("field"), error.get("message")) in BEYOND_A_SCHEMA for error in errors
    )
