"""What exists: the records that requests may name, as the demo has them and as the fuzzer's own requests change them."""

import json
import os
import random
import re
import time
import urllib.request

OWN = f"Bearer {os.environ['MERCATO_TOKEN']}"
URLS = {
    "applications": f"{os.environ['MERCATO_AUTH_URL']}/oauth/applications",
    "customers": f"{os.environ['MERCATO_BASE_URL']}/api/v1/customers",
    "entitlements": f"{os.environ['MERCATO_BASE_URL']}/api/v1/entitlements",
    "private_offers": f"{os.environ['MERCATO_BASE_URL']}/api/v1/private-offers",
    "metering": f"{os.environ['MERCATO_BASE_URL']}/api/v1/metering",
    "webhooks": f"{os.environ['MERCATO_BASE_URL']}/api/v1/webhook",
    "events": f"{os.environ['MERCATO_BASE_URL']}/api/v1/events",
}
PREFIXES = {
    "applications": "app",
    "customers": "cus",
    "entitlements": "ent",
    "private_offers": "off",
    "metering": "mtr",
    "webhooks": "whk",
    "events": "evt",
    "deliveries": "dlv",
}

VENDORS = ("cloud_a", "cloud_b")

# Not the global one: the fuzzer seeds that for each example.
chance = random.Random(1)


def mostly():
    return chance.random() < 0.75


def ask(url, authorization=OWN, body=None):
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"]


def listed(url):
    """Every item of a list."""
    cursor = ""
    while cursor is not None:
        page = ask(f"{url}?limit=100{cursor and '&cursor=' + cursor}")
        yield from page["items"]
        cursor = page["nextCursor"]


known = {resource: {one["id"]: one for one in listed(URLS[resource])} for resource in URLS}
known["deliveries"] = {}
# The ids of what the fuzzer made.
made = {resource: set() for resource in known}
# A place in each list, by its operation.
cursors = {}


def learn(operation, data):
    """Takes in what a successful answer tells."""
    resource, verb = operation.split(".")
    if verb == "list":
        if data["nextCursor"]:
            cursors[operation] = data["nextCursor"]
        if resource == "deliveries":
            known[resource] |= {one["id"]: one for one in data["items"]}
    elif "id" not in data:
        # What a test or a replay led to is no record.
        return
    elif data.get("status") == "deleted":
        known[resource].pop(data["id"], None)
        made[resource].discard(data["id"])
    else:
        known[resource][data["id"]] = known[resource].get(data["id"], {}) | data
        if verb == "create":
            made[resource].add(data["id"])


def create(resource, new):
    learn(f"{resource}.create", ask(URLS[resource], body=new))


def create_webhooks(count):
    """Their receiver does not exist, so each delivery waits for its next attempt."""
    new = {"name": "Fuzzed", "url": "https://hooks.example.com/", "events": ["customer.created"]}
    for _ in range(count):
        create("webhooks", new)
    create("customers", {"vendor": "cloud_b", "tenantId": f"deliver-{time.time_ns()}", "companyName": "Delivered"})
    time.sleep(3)
    for id in list(made["webhooks"]):
        learn("deliveries.list", ask(f"{URLS['webhooks']}/{id}/deliveries"))


def is_id(resource, text):
    return re.fullmatch(PREFIXES[resource] + "_[0-9A-HJKMNP-TV-Z]{26}", str(text)) is not None


def pick(resource, fits=lambda one: True):
    """The id of a record that fits, if there is any; those in a rare state are as likely as the others."""
    by_status = {}
    for id, one in known[resource].items():
        if fits(one):
            by_status.setdefault(one.get("status", ""), []).append(id)
    return chance.choice(by_status[chance.choice(sorted(by_status))]) if by_status else None


def deletable(resource, first=None):
    """This one, or another, that the fuzzer made: what was there before has contracts."""
    own = sorted(made[resource])
    return first if first in own or not own else chance.choice(own)


def customer(vendor=None):
    return pick("customers", lambda one: vendor in (None, one["vendor"]))


def open_offer(vendors=VENDORS, first=None):
    """This one, or another, that can be changed and is on one of these marketplaces."""

    def fits(one):
        return one["status"] in ("created", "expired") and one["vendor"] in vendors

    named = known["private_offers"].get(first)
    return first if named and fits(named) else pick("private_offers", fits)


def agreement(vendor):
    """One that is active, and its customer."""
    id = pick("entitlements", lambda one: (one["vendor"], one["status"]) == (vendor, "active") and one["agreementId"])
    return id and (known["entitlements"][id]["agreementId"], known["entitlements"][id]["customerId"])
