"""One event is the same bytes wherever a stranger gets it: as a webhook, over GraphQL subscriptions (graphql-ws and
graphql-sse) and pulled by its id, for all 16 kinds; and npm's and PyPI's standardwebhooks accept every signature.

A demo with a small sample year, whose log a replay sends; on top of it whatever an application can cause over the API.

Usage: same_bytes.py MERCATO_BINARY CLIENTS     CLIENTS: a copy of clients/ after `npm ci --ignore-scripts`
       (alone: python3 -m venv v && v/bin/pip install -r requirements.txt && v/bin/python same_bytes.py ...)
"""

import base64
import collections
import datetime
import json
import os
import subprocess
import sys
import tempfile
import threading

import standardwebhooks

from inbox import Authority, Inbox
from service import KINDS, Failed, Service, check, main, wait_until

RAW_SECRET = "a secret of our own, not base64"
NAME = 'Köhler & Söhne "<\u2028\\/> 東京 🚀'


class Follower:
    """An npm client that follows the log in a process of its own, from the first event on."""

    def __init__(self, transport, service, clients):
        self.transport, self.lines = transport, []
        command = ["node", os.path.join(clients, "subscribe.mjs"), transport, service.ready["graphqlUrl"], "0"]
        environment = {**os.environ, "MERCATO_TOKEN": service.token}
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def last_words(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def wait_for(self, last):
        """By sequence, all events up to the last. It must not have ended by itself."""

        def has_come():
            check(self.process.poll() is None, f"{self.transport} ended early: {self.last_words()}")
            return self.lines and self.lines[-1]["sequence"] >= last

        wait_until(f"the event {last} over {self.transport} (the last was {len(self.lines)})", has_come)
        told = [line["sequence"] for line in self.lines]
        check(told == list(range(1, last + 1)), f"{self.transport} told {told}, not 1 to {last} once each in order")
        types = [json.loads(line["payload"])["type"].replace(".", "_").upper() for line in self.lines]
        check([line["type"] for line in self.lines] == types, f"over {self.transport} a `type` is not its payload's")
        return {line["sequence"]: line["payload"].encode() for line in self.lines}

    def end(self):
        """The client unsubscribes, and goes without an error."""
        self.process.stdin.close()
        try:
            status = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.transport}: the client was not done 10 s after it unsubscribed") from None
        check(status == 0, f"{self.transport} ended badly: {self.last_words()}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def in_seconds(seconds):
    moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def live_changes(service):
    """Every kind of event that an application can cause, and an offer that the clock ends meanwhile."""
    customers = []
    for vendor, place in [("cloud_a", "cloudAccountId"), ("cloud_b", "tenantId")]:
        new = {"vendor": vendor, place: f"bytes-{vendor}", "companyName": NAME, "email": "köhler@example.com"}
        customers.append(service.ask("POST", "/api/v1/customers", new, 201))
    for customer in customers:
        service.ask("PUT", f"/api/v1/customers/{customer['id']}", {"companyName": f"{NAME} II"})
        offer = {
            "vendor": customer["vendor"],
            "listingId": "lst_bytes",
            "customerId": customer["id"],
            "details": {
                "summary": {"offerName": NAME, "buyerNotifications": [{"name": NAME, "email": "b@example.com"}]},
                "pricing": {"duration": 12, "discountPercentage": 12.5, "annualValue": 1234567.123456},
            },
        }
        made = service.ask("POST", "/api/v1/private-offers", offer, 201)
        more = {"details": {"pricing": {"discountPercentage": 0.000001}}}
        service.ask("PUT", f"/api/v1/private-offers/{made['id']}", more)
        service.ask("DELETE", f"/api/v1/private-offers/{made['id']}")
    service.ask("POST", "/api/v1/private-offers", {**offer, "expiresAt": in_seconds(2)}, 201)
    leaver = service.new_customer("leaver")
    service.ask("DELETE", f"/api/v1/customers/{leaver['id']}")


LIVE = [
    *(f"customer.{what}" for what in ("created", "updated", "deleted")),
    *(f"private_offer.{what}" for what in ("created", "updated", "cancelled", "expired")),
]


def pull(service):
    """The whole log, by sequence: the raw bytes of `data` in the raw answer to GET /api/v1/events/:id."""
    head, tail, pulled, cursor = b'{"code":200,"data":', b"}", {}, "?limit=100&afterSequence=0"
    while cursor:
        page = service.ask("GET", f"/api/v1/events{cursor}", status=200)
        for event in page["items"]:
            raw = service.send("GET", f"/api/v1/events/{event['id']}").raw
            check(raw.startswith(head) and raw.endswith(tail), f"GET /api/v1/events/{event['id']} answered {raw[:200]}")
            pulled[event["sequence"]] = raw[len(head) : -len(tail)]
        cursor = page["nextCursor"] and f"?limit=100&cursor={page['nextCursor']}"
    check(list(pulled) == list(range(1, len(pulled) + 1)), f"the log's sequences are {list(pulled)}")
    return pulled


def by_sequence(received):
    """The bodies that came to a webhook. One that came again came as the same bytes under the same id."""
    bodies, identifiers = {}, {}
    for one in received:
        event = json.loads(one.body)
        sequence = event["sequence"]
        check(bodies.setdefault(sequence, one.body) == one.body, f"the event {sequence} came again as other bytes")
        identifier = one.headers["webhook-id"]
        check(identifier == event["id"], f"the webhook-id {identifier} is not that of the event {event['id']}")
        check(identifiers.setdefault(sequence, identifier) == identifier, f"{sequence} came again as {identifier}")
    return bodies


def wait_for_all(inbox, path, sequences):
    def missing():
        return set(sequences) - {json.loads(received.body)["sequence"] for received in inbox.at(path)}

    try:
        wait_until(f"every event at {path}", lambda: not missing())
    except Failed as failure:
        raise Failed(f"{failure}; missing: {sorted(missing())}") from None


def pypi_verdict(one, secret, is_raw, body=None):
    try:
        webhook = standardwebhooks.Webhook(secret.encode() if is_raw else secret)
        webhook.verify(body or one.body, one.headers)
    except standardwebhooks.WebhookVerificationError as error:
        return str(error)
    return None


def verify(clients, received, secret, accepted=True, change=lambda body: body):
    """Both libraries' word on each of these deliveries."""
    is_raw = not secret.startswith("whsec_")
    questions = [
        {
            "headers": {name: value for name, value in one.headers.items() if name.startswith("webhook-")},
            "body": change(one.body).decode(),
            "secret": secret,
            "format": "raw" if is_raw else None,
        }
        for one in received
    ]
    check(questions, "there is nothing to verify")
    node = ["node", os.path.join(clients, "verify.mjs")]
    run = subprocess.run(node, input=json.dumps(questions).encode(), capture_output=True, timeout=60)
    check(run.returncode == 0, f"verify.mjs failed: {run.stderr.decode()}")
    verdicts = zip(received, json.loads(run.stdout), strict=True)
    for one, npm in verdicts:
        pypi = pypi_verdict(one, secret, is_raw, change(one.body))
        for library, verdict in [("npm", npm), ("PyPI", pypi)]:
            told = f"{library}'s standardwebhooks {'refuses' if accepted else 'accepts'}"
            what = f"{one.headers['webhook-id']} at {one.path}: {verdict}; headers {one.headers}"
            check((verdict is None) == accepted, f"{told} {what}")
    return len(questions)


def check_rotation(service, inbox, clients, webhook, path, supplied):
    """For 24 h both secrets sign: the new one first, each accepted by itself."""
    rotated = service.ask("POST", f"/api/v1/webhook/{webhook['id']}/rotate-secret", supplied, 200)
    check(rotated["secret"] != webhook["secret"], "a rotation gave the same secret again")
    before = len(inbox.at(path))
    service.new_customer(f"after-the-rotation-of-{path[1:]}")
    wait_until(f"a delivery to {path} after the rotation", lambda: len(inbox.at(path)) > before)
    late = inbox.at(path)[before:]
    for one in late:
        signatures = one.headers["webhook-signature"].split(" ")
        check(len(signatures) == 2, f"after a rotation there is not a signature of each secret: {signatures}")
        for secret, signature in zip([rotated["secret"], webhook["secret"]], signatures, strict=True):
            alone = one._replace(headers={**one.headers, "webhook-signature": signature})
            verify(clients, [alone], secret)
    verify(clients, late, rotated["secret"])
    verify(clients, late, webhook["secret"])
    return rotated["secret"]


def compare(pulled, sources):
    """Prints for every kind how many events were the same everywhere."""
    kinds = {sequence: json.loads(body)["type"] for sequence, body in pulled.items()}
    counts, faults = collections.Counter(kinds.values()), []
    for name, bodies in sources.items():
        extra = sorted(set(bodies) - set(pulled))
        if extra:
            faults.append(f"{name} told events that the log does not have: {extra}")
        for sequence, body in pulled.items():
            if bodies.get(sequence) != body:
                faults.append(f"{kinds[sequence]} {sequence}: {name} told {bodies.get(sequence)}, pulled was {body}")
    print(f"  {'kind':26}{'events':>6}  the same bytes: pulled, {', '.join(sources)}")
    for kind in KINDS:
        differ = sum(1 for fault in faults if fault.startswith(f"{kind} "))
        print(f"  {kind:26}{counts[kind]:6}  {'NOT SEEN' if not counts[kind] else f'{differ} DIFFER' if differ else 'yes'}")
    unseen = [kind for kind in KINDS if not counts[kind]]
    check(not unseen, f"kinds that were not seen: {', '.join(unseen)}")
    check(set(counts) <= set(KINDS), f"kinds that are not known: {sorted(set(counts) - set(KINDS))}")
    check(not faults, f"{len(faults)} differ; the first: {faults[0] if faults else ''}")


def webhooks(service, inbox, clients):
    """Everything over webhooks and by pulling, with the signatures; what both told, by sequence."""
    generated = service.new_webhook(f"{inbox.url}/generated")
    raw = service.new_webhook(f"{inbox.url}/raw", secret=RAW_SECRET)
    begin = generated["lastSequence"]
    check(raw["secret"] == RAW_SECRET, f"a supplied secret came back as {raw['secret']!r}")
    live_changes(service)

    def seen_live():
        return {json.loads(received.body)["type"] for received in inbox.at("/generated")}

    wait_until(f"the live events {', '.join(LIVE)}", lambda: seen_live() >= set(LIVE))
    # The expiry comes last.
    last = max(json.loads(received.body)["sequence"] for received in inbox.at("/generated"))
    for path in ["/generated", "/raw"]:
        wait_for_all(inbox, path, range(begin + 1, last + 1))
    print(f"  {last - begin} live events at two webhooks, of {len(seen_live())} kinds")
    whole = service.ask("POST", f"/api/v1/webhook/{generated['id']}/replay", {"fromSequence": 1})
    check((whole["fromSequence"], whole["toSequence"]) == (1, last), f"the replay is {whole}, the log ends at {last}")
    wait_for_all(inbox, "/generated", range(1, last + 1))
    print(f"  a replay brought the log from 1 to {last}")

    count = verify(clients, inbox.at("/generated"), generated["secret"])
    count += verify(clients, inbox.at("/raw"), RAW_SECRET)
    some = inbox.at("/generated")[:3]
    verify(clients, some, "whsec_" + base64.b64encode(bytes(32)).decode(), accepted=False)
    verify(clients, some, generated["secret"], accepted=False, change=lambda body: body + b" ")
    print(f"  npm's and PyPI's standardwebhooks accept {count} deliveries, and none with another secret or body")
    check_rotation(service, inbox, clients, generated, "/generated", None)
    own = "whsec_" + base64.b64encode(os.urandom(24)).decode()
    check(check_rotation(service, inbox, clients, raw, "/raw", {"secret": own}) == own, "the rotation made another secret")
    print("  after a rotation both secrets sign, and each signature is accepted by itself")

    pulled = pull(service)
    wait_for_all(inbox, "/generated", pulled)
    wait_for_all(inbox, "/raw", range(begin + 1, len(pulled) + 1))
    told_raw = by_sequence(inbox.at("/raw"))
    check(all(pulled[sequence] == body for sequence, body in told_raw.items()), "the webhooks were told other bytes")
    for webhook in [generated, raw]:
        check(service.webhook(webhook["id"])["failureCount"] == 0, "a delivery failed")
    check(len(told_raw) == len(inbox.at("/raw")), "an event came twice although nothing failed and nobody asked for it")
    return pulled, by_sequence(inbox.at("/generated"))


def run(binary, clients, folder):
    authority = Authority(folder)
    inbox = Inbox(authority.context())
    # Everything of the sample's year, however long ago.
    flags = ["--customers", "24", "--event-retention-days", "400", "--webhook-allow-subnet", "127.0.0.0/8"]
    service = Service(binary, folder, *flags, "--webhook-extra-ca", authority.file, demo=True)
    followers = []
    try:
        print(f"  a demo with a small year, ready after {service.start():.1f} s")
        service.obtain_token(service.ready["loadClientId"], service.ready["loadClientSecret"])
        followers = [Follower(transport, service, clients) for transport in ("ws", "sse")]
        pulled, delivered = webhooks(service, inbox, clients)
        sources, troubles = {"webhook": delivered}, []
        for follower, name in zip(followers, ["graphql-ws", "graphql-sse"], strict=True):
            try:
                sources[name] = follower.wait_for(len(pulled))
                follower.end()
            except Failed as failure:
                troubles.append(str(failure))
        compare(pulled, sources)
        check(not troubles, "; ".join(troubles))
        service.stop()
    except BaseException:
        sys.stderr.write(service.last_words())
        raise
    finally:
        for follower in followers:
            follower.kill()
        service.kill()
        inbox.close()
    print("the same bytes everywhere: all 16 kinds")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(lambda: run(sys.argv[1], sys.argv[2], place))
