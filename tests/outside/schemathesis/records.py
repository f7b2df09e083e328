"""What exists: the records that requests may name, as the demo has them and as the fuzzer's own requests change them."""

import json
import os
import random
import re
import urllib.request

OWN = f"Bearer {os.environ['MERCATO_TOKEN']}"
URLS = {
    "applications": f"{os.environ['MERCATO_AUTH_URL']}/oauth/applications",
    "customers": f"{os.environ['MERCATO_BASE_URL']}/api/v1/customers",
    "entitlements": f"{os.environ['MERCATO_BASE_URL']}/api/v1/entitlements",
    "private_offers": f"{os.environ['MERCATO_BASE_URL']}/api/v1/private-offers",
    "metering": f"{os.environ['MERCATO_BASE_URL']}/api/v1/metering",
}
PREFIXES = {"customers": "cus", "entitlements": "ent", "private_offers": "off", "metering": "mtr"}

# Not the global one: the fuzzer seeds that for each example.
chance = random.Random(1)


def mostly():
    return chance.random() < 0.75


def read(url, authorization=OWN):
    request = urllib.request.Request(url, headers={"Authorization": authorization})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)["data"]


def listed(url):
    """Every item of a list."""
    cursor = ""
    while cursor is not None:
        page = read(f"{url}?limit=100{cursor and '&cursor=' + cursor}")
        yield from page["items"]
        cursor = page["nextCursor"]


applications = list(listed(URLS["applications"]))
known = {resource: {one["id"]: one for one in listed(URLS[resource])} for resource in PREFIXES}
# A place in each list, by its operation.
cursors = {}


def learn(operation, data):
    """Takes in what a successful answer tells."""
    resource, verb = operation.split(".")
    if verb == "list":
        if data["nextCursor"]:
            cursors[operation] = data["nextCursor"]
    elif resource not in known:
        return
    elif data["status"] == "deleted":
        known[resource].pop(data["id"], None)
    else:
        known[resource][data["id"]] = known[resource].get(data["id"], {}) | data


def is_id(resource, text):
    return re.fullmatch(PREFIXES[resource] + "_[0-9A-HJKMNP-TV-Z]{26}", str(text)) is not None


def pick(resource, fits=lambda one: True):
    """The id of a record that fits, if there is any; those in a rare state are as likely as the others."""
    by_status = {}
    for id, one in known[resource].items():
        if fits(one):
            by_status.setdefault(one["status"], []).append(id)
    return chance.choice(by_status[chance.choice(sorted(by_status))]) if by_status else None


def newest(resource):
    return next(reversed(known[resource]), None)


def customer(vendor=None):
    return pick("customers", lambda one: vendor in (None, one["vendor"]))


def open_offer(id, vendors):
    """This one, or another, that can be changed and is on one of these marketplaces."""

    def fits(one):
        return one["status"] in ("created", "expired") and one["vendor"] in vendors

    named = known["private_offers"].get(id)
    return id if named and fits(named) else pick("private_offers", fits)


def agreement(vendor):
    """One that is active, and its customer."""
    id = pick("entitlements", lambda one: (one["vendor"], one["status"]) == (vendor, "active") and one["agreementId"])
    return id and (known["entitlements"][id]["agreementId"], known["entitlements"][id]["customerId"])
