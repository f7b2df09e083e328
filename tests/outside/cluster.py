"""Two processes of the service on one SurrealDB server: they agree on records, order, revocation, rate limits and on what
the clock does.

Usage: cluster.py MERCATO_BINARY DATABASE_SERVER_BINARY, with a Python that has events/requirements.txt
"""

import base64
import collections
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "events"))
from inbox import Authority, Inbox  # noqa: E402

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PASSWORD = "only-for-this-test"


def call(method, url, token=None, body=None, form=None, key=None):
    """One request: (status, headers, JSON)."""
    headers = {}
    data = None
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if key:
        headers["Idempotency-Key"] = key
    if body is not None:
        data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    if form is not None:
        data = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with OPENER.open(request, timeout=30) as answer:
            return answer.status, answer.headers, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.loads(error.read() or b"null")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, condition, seconds=60):
    """Bounded waiting for something that takes its time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def stop(process, name):
    process.send_signal(signal.SIGTERM)
    status = process.wait(timeout=12)
    assert status == 0, f"{name} ended with {status}"


class Cluster:
    """A database server and the service's processes on it."""

    def __init__(self, binary, server, folder, authority):
        self.binary, self.folder = binary, folder
        self.port = free_port()
        self.environment = {
            **os.environ,
            "MERCATO_DATABASE": f"ws://127.0.0.1:{self.port}",
            "MERCATO_DATABASE_USER": "root",
            "MERCATO_DATABASE_PASSWORD": PASSWORD,
            "MERCATO_SECRET_KEY": base64.b64encode(os.urandom(32)).decode(),
            "MERCATO_WEBHOOK_ALLOW_SUBNET": "127.0.0.0/8",
            "MERCATO_WEBHOOK_EXTRA_CA": authority.file,
        }
        self.log = open(os.path.join(folder, "log"), "wb")
        address = f"127.0.0.1:{self.port}"
        command = [server, "start", "--user", "root", "--pass", PASSWORD, "--bind", address, "--log", "warn"]
        self.server = subprocess.Popen([*command, f"surrealkv://{folder}/db"], stdout=self.log, stderr=self.log)
        self.processes = []

    def begin(self):
        """Starts one process of the service; the address is known once it answers."""
        ready = os.path.join(self.folder, f"ready-{len(self.processes)}.json")
        command = [self.binary, "serve", "--listen", "127.0.0.1:0", "--ready-file", ready, "--log", "json"]
        self.processes.append(subprocess.Popen(command, env=self.environment, stdout=self.log, stderr=self.log))
        return ready

    def serve(self, count):
        """Starts processes at the same time, so that they race for the migrations too."""
        files = [self.begin() for _ in range(count)]
        for file in files:
            wait_until(file, lambda file=file: os.path.exists(file))
        return [json.load(open(file))["baseUrl"] for file in files]

    def command(self, *arguments):
        run = subprocess.run([self.binary, *arguments], env=self.environment, capture_output=True, text=True)
        assert run.returncode == 0, f"{arguments}: {run.stderr}"
        return run.stdout

    def query(self, query):
        """What the database itself answers."""
        login = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
        headers = {
            "Authorization": f"Basic {login}",
            "Accept": "application/json",
            "Surreal-NS": "mercato",
            "Surreal-DB": "production",
        }
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/sql", query.encode(), headers)
        with OPENER.open(request, timeout=30) as answer:
            (result,) = json.load(answer)
        assert result["status"] == "OK", result
        return result["result"]

    def application(self, organization, *limits):
        made = self.command("application", "create", "--organization", organization, "--name", "Cluster", "--json", *limits)
        return json.loads(made)

    def end(self):
        for process in [*self.processes, self.server]:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.log.close()


def token_of(base, application):
    form = {
        "grant_type": "client_credentials",
        "client_id": application["clientId"],
        "client_secret": application["clientSecret"],
    }
    status, _, body = call("POST", f"{base}/oauth/token", form=form)
    assert status == 200, body
    return body["access_token"]


def check_writes(bases, application):
    """Parallel writers at both processes, each request sent to both under one key: one change, one event each."""
    token = token_of(bases[0], application)
    answers = {}

    def write(number, base):
        body = {"vendor": "cloud_a", "cloudAccountId": f"acct-{number}", "companyName": f"Company {number}"}
        end = time.monotonic() + 30
        while time.monotonic() < end:
            status, headers, answer = call("POST", f"{base}/api/v1/customers", token, body, key=f"key-{number}")
            if status in (409, 503) and headers.get("Retry-After"):
                time.sleep(0.2)
                continue
            break
        answers[number, base] = (status, answer)

    threads = [threading.Thread(target=write, args=(number, base)) for number in range(40) for base in bases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(40):
        first, second = (answers[number, base] for base in bases)
        assert first[0] == 201 and first == second, (first, second)
    items = call("GET", f"{bases[1]}/api/v1/customers?limit=100", token)[2]["data"]["items"]
    assert len(items) == 40, len(items)
    print("  80 requests at two processes made 40 customers, each answered alike")


def check_cursors(bases, application):
    token = token_of(bases[0], application)
    first = call("GET", f"{bases[0]}/api/v1/customers?limit=5", token)[2]["data"]
    cursor = first["nextCursor"]
    status, _, second = call("GET", f"{bases[1]}/api/v1/customers?limit=5&cursor={cursor}", token)
    assert status == 200 and second["data"]["items"], second
    print("  a cursor of one process opens the list of the other")


def check_revocation(bases, application):
    token = token_of(bases[0], application)
    url = f"{bases[0]}/oauth/applications/{application['id']}"
    assert call("GET", url, token)[0] == 200
    rotated = call("POST", f"{bases[1]}/oauth/applications/{application['id']}/regenerate-secret", token)
    assert rotated[0] == 200, rotated
    status, _, body = call("GET", url, token)
    assert status == 401, body
    print("  a secret regenerated at one process voids the token at the other at once")


def check_rates(bases, application):
    """Units taken at one process count at the other within a second."""
    token = token_of(bases[0], application)
    for _ in range(49):
        assert call("GET", f"{bases[0]}/api/v1/customers?limit=1", token)[0] == 200
    time.sleep(1.0)
    status, headers, _ = call("GET", f"{bases[1]}/api/v1/customers?limit=1", token)
    assert (status, headers["X-RateLimit-Remaining"]) == (200, "0"), (status, headers["X-RateLimit-Remaining"])
    assert call("GET", f"{bases[1]}/api/v1/customers?limit=1", token)[0] == 429
    print("  50 requests a minute are counted over both processes")


def check_clock(cluster, bases, application):
    """Both processes look for what is due; of each offer that expires, one does it."""
    token = token_of(bases[0], application)
    new = {"vendor": "cloud_a", "cloudAccountId": "clock", "companyName": "Clock"}
    customer = call("POST", f"{bases[0]}/api/v1/customers", token, new)[2]["data"]["id"]
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=6)
    offer = {
        "vendor": "cloud_a",
        "listingId": "lst_clock",
        "customerId": customer,
        "details": {"pricing": {"duration": 12, "discountPercentage": 5}},
        "expiresAt": soon.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    offers = set()
    for number in range(30):
        status, _, answer = call("POST", f"{bases[number % 2]}/api/v1/private-offers", token, offer)
        assert status == 201, answer
        offers.add(answer["data"]["id"])

    def are_expired():
        lists = [call("GET", f"{base}/api/v1/private-offers?limit=100", token)[2]["data"]["items"] for base in bases]
        return all(one["status"] == "expired" for items in lists for one in items)

    wait_until("the expiry of the offers", are_expired)
    # Whoever came second has noticed by now.
    time.sleep(2.5)
    told = cluster.query("SELECT VALUE envelope FROM event WHERE kind = 'private_offer.expired'")
    events = collections.Counter(json.loads(envelope)["data"]["id"] for envelope in told)
    assert events == dict.fromkeys(offers, 1), events
    print("  30 offers expired, each once, with two clocks at work")


def follow(base, token, count, found):
    """Reads so many events of an event stream."""
    query = "subscription { events(afterSequence: 0) { sequence } }"
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/graphql", json.dumps({"query": query}).encode(), headers)
    with OPENER.open(request, timeout=60) as stream:
        for line in stream:
            if line.startswith(b"data: {"):
                found.append(json.loads(line[5:])["data"]["events"]["sequence"])
                if len(found) == count:
                    return


def check_events(cluster, bases, authority, limits):
    """Events of both processes reach a webhook once and a subscription in order; when the process that serves the webhook is
    killed, the other takes over where the lease ends, with the same bytes."""
    organization = json.loads(cluster.command("organization", "create", "--name", "Events", "--json"))["id"]
    token = token_of(bases[0], cluster.application(organization, *limits))
    inbox = Inbox(authority.context())
    new = {"name": "Both", "url": f"{inbox.url}/hook", "events": ["customer.created"]}
    status, _, made = call("POST", f"{bases[0]}/api/v1/webhook", token, new)
    assert status == 201, made

    def write(number, base):
        body = {"vendor": "cloud_a", "cloudAccountId": f"event-{number}", "companyName": f"Company {number}"}
        status, _, answer = call("POST", f"{base}/api/v1/customers", token, body, key=f"event-{number}")
        assert status == 201, answer

    def sequences():
        return sorted(json.loads(received.body)["sequence"] for received in inbox.at("/hook"))

    found = []
    follower = threading.Thread(target=follow, args=(bases[1], token, 60, found))
    follower.start()
    for number in range(60):
        write(number, bases[number % 2])
    follower.join(timeout=60)
    assert found == list(range(1, 61)), found
    wait_until("60 deliveries", lambda: len(sequences()) >= 60)
    time.sleep(1.0)
    assert sequences() == list(range(1, 61)), sequences()
    # The process that commits hears of it first, so it is the one that serves the webhook when it is killed.
    for number in range(60, 70):
        write(number, bases[0])
    victim = cluster.processes.pop(0)
    victim.kill()
    victim.wait()
    bases.pop(0)
    for number in range(70, 80):
        write(number, bases[0])
    wait_until("20 deliveries after a kill", lambda: len(set(sequences())) >= 80, 60)
    bodies = {}
    for received in inbox.at("/hook"):
        known = bodies.setdefault(received.headers["webhook-id"], received.body)
        assert known == received.body, received.headers["webhook-id"]
    assert len(bodies) == 80, len(bodies)
    inbox.close()
    print(f"  80 events of two processes, one of them killed, reached a webhook ({len(sequences()) - 80} twice) and a subscription")


def main():
    binary, server = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(folder)
        cluster = Cluster(binary, server, folder, authority)
        try:
            bases = cluster.serve(2)
            organization = json.loads(cluster.command("organization", "create", "--name", "Cluster", "--json"))["id"]
            unlimited = ["--per-hour", "1000000", "--per-minute", "1000000"]
            check_writes(bases, cluster.application(organization, *unlimited))
            application = cluster.application(organization, *unlimited)
            check_cursors(bases, application)
            check_revocation(bases, application)
            check_rates(bases, cluster.application(organization))
            check_clock(cluster, bases, cluster.application(organization, *unlimited))
            check_events(cluster, bases, authority, unlimited)
            print("  " + cluster.command("doctor").replace("\n", "\n  ").rstrip())
            for process in cluster.processes:
                stop(process, "mercato")
        except BaseException:
            sys.stderr.write(open(os.path.join(folder, "log")).read()[-6000:])
            raise
        finally:
            cluster.end()
    print("two processes on one server: 6 passed, 0 failed")


if __name__ == "__main__":
    main()
