"""What no OpenAPI document can tell the fuzzer: who may be sacrificed, where client credentials go, what exists.

The fuzzer acts as one application (MERCATO_TOKEN). That application could void its own token: narrow its scopes,
regenerate its secret, delete itself. Nothing is excluded for that; such calls are made by sacrifices.py instead.

Where a request's schema can only say "string" or "moment", most requests get one that exists or fits (records.py); the
rest keep what was made up, and are refused for it.
"""

import base64
import copy
import csv
import io
import itertools
import re
import urllib.error
import urllib.parse

import schemathesis
from schemathesis import hook
from schemathesis.core.parameters import ParameterLocation
from schemathesis.openapi.checks import RejectedPositiveData, UseAfterFree

import moments
import records
import sacrifices
from reached import Reached
from records import OWN, chance, mostly

SELF_MANAGEMENT = {"applications.update", "applications.regenerate_secret", "applications.delete"}
CLIENT_AUTHENTICATED = {"token.issue", "token.revoke", "token.introspect"}
# Of a record that is written back as it was read, what may be changed.
CHANGEABLE = {
    "applications.update": {"name", "description", "scopes"},
    "customers.update": {"email", "companyName", "status"},
    "private_offers.update": {"details", "expiresAt"},
    "webhooks.update": {"name", "url", "events", "status"},
}
# Whose ids in the document's examples exist nowhere.
MADE_UP = {"webhooks", "deliveries", "events"}
DISCOUNTS = {"discountPercentage", "discountAmount"}
# Makes what must be unique so.
turn = itertools.count()

records.create_webhooks(12)


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
    if name in SELF_MANAGEMENT:
        let_a_sacrifice_do_it(name, case)
    elif name in CLIENT_AUTHENTICATED:
        authenticate_client(case)
    else:
        take_a_real_record(name, case)
    if not is_negative(case, ParameterLocation.QUERY):
        improve_query(name, case)
    if isinstance(case.body, dict) and not is_negative(case, ParameterLocation.BODY):
        # Parts of a body may be shared with other cases.
        case.body = copy.deepcopy(case.body)
        improve_body(name, case)


def improve_query(name, case):
    if "cursor" in case.query and name in records.cursors and mostly():
        case.query["cursor"] = records.cursors[name]
    if name == "analytics.contracts" and mostly():
        move(case.query, "startDate", moments.in_the_past)
        move(case.query, "endDate", chance.choice((moments.in_the_past, moments.in_the_future)))


def improve_body(name, case):
    if name == "customers.create":
        take_a_free_account(case.body)
    elif name == "private_offers.create":
        offer_to_a_real_customer(case.body)
    elif name == "metering.submit":
        report_for_a_real_customer(case.body)
    if name == "webhooks.test" and mostly():
        case.body["webhookId"] = records.pick("webhooks") or case.body["webhookId"]
    elif name == "webhooks.replay" and mostly():
        case.body |= {"fromSequence": 1}
        case.body.pop("toSequence", None)
    elif name in ("webhooks.create", "webhooks.update") and "url" in case.body and mostly():
        case.body["url"] = f"https://hooks.example.com/{next(turn)}"
    if name in ("private_offers.create", "private_offers.update") and mostly():
        move(case.body, "expiresAt", moments.in_the_future)
    if name in CHANGEABLE:
        write_back(name, case)


def take_a_free_account(body):
    """Mostly. The fuzzer likes short identifiers, and a customer's is taken by the first (409)."""
    for field in ("cloudAccountId", "tenantId"):
        if body.get(field) and mostly():
            body[field] = f"{body[field][:50]}-{next(turn)}"


def offer_to_a_real_customer(body):
    """Mostly, on the marketplace of the offer; a replacement to one who has an agreement to replace."""
    cloud, vendor = body["details"].get("cloud", {}), body["vendor"]
    agreement = records.agreement(vendor) if cloud.get("isReplacement") and mostly() else None
    if agreement:
        cloud["agreementId"], body["customerId"] = agreement
    elif mostly():
        body["customerId"] = records.customer(vendor)


def report_for_a_real_customer(body):
    details = body["details"]
    if mostly():
        details["customer"]["id"] = records.customer()
    if mostly():
        move(details, "reportingDate", moments.in_the_last_day)
        for row in details.get("usage", []):
            move(row, "startTime", moments.in_the_last_day)


def move(fields, name, when):
    if moments.is_one(fields.get(name)):
        fields[name] = when(fields[name])


written_back = set()


def write_back(name, case):
    """Whatever cannot be changed may come as it was read, but is made up here. So it is left out, or the whole record
    comes back, or, at times, it stays and is refused."""
    way = chance.randrange(4)
    if way == 0:
        return
    changes = {field: value for field, value in case.body.items() if field in CHANGEABLE[name]}
    changes.get("details", {}).pop("cloud", None)
    if way == 3 and (record := as_it_is(name, case)):
        if DISCOUNTS & changes.get("details", {}).get("pricing", {}).keys():
            # One discount takes the other's place.
            for discount in DISCOUNTS:
                del record["details"]["pricing"][discount]
        changes = merged(record, changes)
        written_back.add(case.id)
    case.body = changes


def as_it_is(name, case):
    """The record that a request is about, if the caller has it."""
    resource, id = name.split(".")[0], case.path_parameters.get("id")
    try:
        return records.ask(f"{records.URLS[resource]}/{urllib.parse.quote(str(id), safe='')}", case.headers["Authorization"])
    except (KeyError, urllib.error.HTTPError):
        return None


def merged(record, changes):
    nested = {
        field: merged(record[field], value)
        for field, value in changes.items()
        if isinstance(value, dict) and isinstance(record.get(field), dict)
    }
    return record | changes | nested


def use_a_key_once(case):
    """Mostly. The fuzzer likes short keys, and a second request under a key is refused or not done."""
    if "Authorization" not in case.headers or is_negative(case, ParameterLocation.HEADER) or not mostly():
        return
    if "Idempotency-Key" in case.headers:
        case.headers.pop("X-Idempotency-Key", None)
    for name in ("Idempotency-Key", "X-Idempotency-Key"):
        if name in case.headers:
            case.headers[name] = f"{case.headers[name][:240]}-{next(turn)}"


def take_a_real_record(name, case):
    """Mostly, where an id was made up: most rules are only seen on a record that exists."""
    resource, id = name.split(".")[0], case.path_parameters.get("id")
    if id is None or is_negative(case, ParameterLocation.PATH) or not mostly():
        return
    if name == "deliveries.list":
        resource = "webhooks"
    if name == "private_offers.update":
        id = offer_to_change(id, case)
    elif name in ("customers.delete", "webhooks.delete"):
        id = records.deletable(resource, id) or id
    elif resource in MADE_UP or name == "customers.update" or not records.is_id(resource, id):
        id = records.pick(resource) or id
    case.path_parameters["id"] = id


def offer_to_change(id, case):
    """Mostly one that is open, and whose marketplace knows the discount."""
    details = {} if is_negative(case, ParameterLocation.BODY) else case.body.get("details", {})
    vendors = {"cloud_b"} if details.get("pricing", {}).get("discountAmount") else records.VENDORS
    return records.open_offer(vendors, id) or id


def let_a_sacrifice_do_it(name, case):
    """About the fuzzer's own application always; about any other id, which would be unknown (404), mostly."""
    about = case.path_parameters.get("id")
    if case.headers.get("Authorization") != OWN:
        return
    if about != sacrifices.OWN_ID and (is_negative(case, ParameterLocation.PATH) or not mostly()):
        return
    if name == "applications.delete" and len(sacrifices.alive) <= sacrifices.STAY:
        case.path_parameters["id"] = sacrifices.deleted[-1]["id"]
        return
    sacrifice = sacrifices.following()
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
    client = sacrifices.following()
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
    if case.headers.get("Authorization") == OWN and name.split(".")[0] in records.known and is_success(response):
        records.learn(name, response.json()["data"])
    if name == "applications.delete" and response.status_code == 200:
        sacrifices.was_deleted(case.path_parameters["id"])
    elif name == "applications.regenerate_secret" and response.status_code == 200:
        sacrifices.was_rotated(case.path_parameters["id"], response.json()["data"]["clientSecret"])


def is_success(response):
    return response.status_code in (200, 201) and response.headers["content-type"] == ["application/json"]


# Refused for what else was sent or exists, which a schema of one request cannot know: field and message.
LIST = {("cursor", "is not a cursor of this list")}
KEYED = {
    ("Idempotency-Key", "is given twice with different values"),
    ("Idempotency-Key", "was used with a different request"),
}
# A field that may only be sent back as it was read.
ECHO = "cannot be changed"
OFFER = {("expiresAt", "must be in the future")}
TARGET = {
    ("url", reason)
    for reason in (
        "must be a URL such as https://example.com/hooks (RFC 3986: other characters are percent-encoded, those of a host "
        "name written as xn--)",
        "must not point to a private or reserved address", "must not have the port 0", "must not contain credentials",
    )
}
MOMENTS = {"must not be more than 24 hours ago", "must not be more than 5 minutes ahead"}
BEYOND_A_SCHEMA = {
    "applications.list": LIST,
    "customers.list": LIST,
    "customers.create": KEYED,
    "customers.update": KEYED | {("status", "can only be set to active or inactive")},
    "customers.delete": KEYED,
    "entitlements.list": LIST,
    "private_offers.list": LIST,
    "private_offers.create": KEYED | OFFER | {
        ("customerId", "is not a known customer"),
        ("vendor", "must be that of the customer, cloud_a"),
        ("vendor", "must be that of the customer, cloud_b"),
        ("details.cloud.agreementId", "is not an active agreement of the customer"),
    },
    "private_offers.update": KEYED | OFFER | {
        ("details.pricing.discountAmount", "does not apply to cloud_a; use discountPercentage"),
        ("details.pricing.discountPercentage", "cannot be removed without a discountAmount"),
    },
    "private_offers.delete": KEYED,
    "private_offers.publish": KEYED,
    "metering.list": LIST,
    "metering.submit": KEYED
    | {("details.customer.id", "is not a known customer")}
    | {(field, message) for field in ("details.reportingDate", "details.usage[].startTime") for message in MOMENTS}
    | {("details.usage[].startTime", "is in the same hour as another row of this dimension")},
    "analytics.contracts": {("endDate", "must not be before startDate")},
    "events.list": LIST | {("cursor", "cannot be combined with afterSequence")},
    "webhooks.list": LIST,
    "webhooks.create": KEYED | TARGET | {("secret", "must be whsec_ followed by the base64 of 24 to 64 bytes")},
    "webhooks.update": KEYED | TARGET,
    "webhooks.delete": KEYED,
    "webhooks.rotate_secret": KEYED | {("secret", "must be whsec_ followed by the base64 of 24 to 64 bytes")},
    "webhooks.test": {("webhookId", "is not a webhook of this organization")},
    "webhooks.replay": KEYED | {("toSequence", "must not be before fromSequence")},
    "deliveries.list": LIST,
    "deliveries.resend": KEYED,
}
# A point that is still to come.
AHEAD = "is ahead of the last event"


def is_beyond_a_schema(case, error):
    name = case.operation.definition.raw["operationId"]
    field, message = re.sub(r"\[\d+\]", "[]", error.get("field", "")), error.get("message")
    if (message or "").startswith(AHEAD):
        return True
    if message == ECHO:
        return name in CHANGEABLE and case.id not in written_back
    return (field, message) in BEYOND_A_SCHEMA.get(name, set())


@hook
def filter_failure(context, failure, case, response):
    if isinstance(failure, RejectedPositiveData) and response.status_code == 410:
        # What is no longer kept.
        return False
    if isinstance(failure, RejectedPositiveData):
        errors = response.json().get("errors") or [{}]
        return not all(is_beyond_a_schema(case, error) for error in errors)
    if isinstance(failure, UseAfterFree) and "/private-offers/" in case.path:
        # A private offer is not gone: it is cancelled, and tells so.
        return response.json()["data"]["status"] != "cancelled"
    return True


@schemathesis.check
def csv_conformance(ctx, response, case):
    """An export has the documented header, and in each line as many cells."""
    if not case.operation.path.endswith("/export.csv") or response.status_code != 200:
        return
    example = case.operation.definition.raw["responses"]["200"]["content"]["text/csv"]["example"]
    documented, lines = (
        list(csv.reader(io.StringIO(text, newline=""), strict=True)) for text in (example, response.content.decode())
    )
    assert lines[0] == documented[0], f"another header than documented: {lines[0]}"
    odd = [line for line in lines if len(line) != len(lines[0])]
    assert not odd, f"a line with another number of cells: {odd[0]}"
    assert response.content.endswith(b"\r\n"), "the last line does not end"


@schemathesis.check
class EveryOperationSucceeds(Reached):
    def __init__(self):
        # That one is for people only: every bearer token is refused.
        super().__init__(exempt={"applications.create"})

    def after_response(self, ctx, response, case):
        self.note(case, case.operation.definition.raw["operationId"], response.status_code < 300)
