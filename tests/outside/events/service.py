"""The service as a stranger has it: a binary, flags, HTTP. Shared by the suites of this folder."""

import collections
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse

KINDS = [
    *(f"entitlement.{what}" for what in ("created", "expired", "renewed", "cancelled", "updated")),
    *(f"private_offer.{what}" for what in ("created", "accepted", "expired", "updated", "cancelled")),
    *(f"customer.{what}" for what in ("created", "updated", "deleted")),
    *(f"metering.{what}" for what in ("submitted", "confirmed", "failed")),
]

Answer = collections.namedtuple("Answer", "status headers raw")


class Failed(Exception):
    """A plain sentence about what the service did not do."""


def check(condition, sentence):
    if not condition:
        raise Failed(sentence)


def wait_until(what, condition, seconds=30):
    """Bounded waiting for something that takes its time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise Failed(f"{what} did not happen within {seconds} s")


class Service:
    """One process of the service, `serve` or `demo`, that can be killed and started again on the same data."""

    def __init__(self, binary, folder, *flags, demo=False):
        self.binary, self.folder, self.flags, self.demo = binary, folder, flags, demo
        self.data = os.path.join(folder, "data")
        self.database = ["--database", f"surrealkv://{self.data}"]
        self.log_path = os.path.join(folder, "log")
        self.log = open(self.log_path, "ab")
        self.process = None
        self.ready = None
        self.token = None

    def command(self, *arguments):
        """A command that works offline; its JSON."""
        run = subprocess.run(
            [self.binary, *arguments, "--json", *self.database], capture_output=True, text=True, timeout=60
        )
        check(run.returncode == 0, f"`mercato {' '.join(arguments)}` failed: {run.stderr}")
        return json.loads(run.stdout)

    def first_records(self):
        """An organization, and an application that nothing holds back."""
        organization = self.command("organization", "create", "--name", "Events")["id"]
        limits = ["--per-hour", "1000000", "--per-minute", "1000000"]
        return self.command("application", "create", "--organization", organization, "--name", "Events", *limits)

    def begin(self):
        """Starts it, without waiting for anything."""
        file = os.path.join(self.folder, "ready.json")
        with contextlib.suppress(FileNotFoundError):
            os.remove(file)
        form = ["demo", "--data", self.data] if self.demo else ["serve", *self.database]
        command = [self.binary, *form, "--listen", "127.0.0.1:0", "--ready-file", file, *self.flags]
        environment = {"RUST_LOG": "warn", **os.environ, "NO_COLOR": "1"}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=self.log)
        self.ready_file = file

    def start(self, seconds=120):
        """Starts it and waits until it answers; the seconds that took."""
        begun = time.monotonic()
        self.begin()

        def is_ready():
            check(self.process.poll() is None, f"the service ended with {self.process.returncode} before it was ready")
            return os.path.exists(self.ready_file)

        wait_until("the service's start", is_ready, seconds)
        with open(self.ready_file) as ready:
            self.ready = json.load(ready)
        return time.monotonic() - begun

    @property
    def base(self):
        return self.ready["baseUrl"]

    def stop(self):
        """SIGTERM, and exit status 0 within 10 s."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            raise Failed("the service still runs 10 s after SIGTERM") from None
        check(status == 0, f"the service ended with status {status} after SIGTERM")

    def last_words(self, count=15):
        """The end of its log, for whoever looks into a failure."""
        with open(self.log_path, errors="replace") as log:
            return "the service's last words:\n" + "".join(log.readlines()[-count:])

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def memory(self):
        """Resident memory in MiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            (line,) = (line for line in status if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def obtain_token(self, client_id, client_secret):
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        answer = self.send("POST", "/oauth/token", form=form)
        check(answer.status == 200, f"POST /oauth/token answered {answer.status}: {answer.raw.decode()}")
        self.token = json.loads(answer.raw)["access_token"]

    def send(self, method, path, body=None, form=None, key=None, seconds=20):
        """One request on a connection of its own."""
        headers, data = {"Connection": "close"}, None
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if key:
            headers["Idempotency-Key"] = key
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        if form is not None:
            data = urllib.parse.urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.base).netloc, timeout=seconds)
        try:
            connection.request(method, path, body=data, headers=headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def ask(self, method, path, body=None, status=None, **more):
        """One request that must succeed; the `data` of its answer."""
        answer = self.send(method, path, body, **more)
        expected = status or (200, 201, 202)
        told = f"{method} {path} {json.dumps(body) if body is not None else ''} answered {answer.status}: "
        check(answer.status in (expected if isinstance(expected, tuple) else (expected,)), told + answer.raw.decode())
        return json.loads(answer.raw)["data"]

    def new_customer(self, name, vendor="cloud_a", key=None):
        place = {"cloud_a": "cloudAccountId", "cloud_b": "tenantId"}[vendor]
        return self.ask("POST", "/api/v1/customers", {"vendor": vendor, place: name, "companyName": name}, 201, key=key)

    def new_webhook(self, url, kinds=None, secret=None):
        body = {"name": url[-60:], "url": url, "events": kinds or KINDS}
        if secret is not None:
            body["secret"] = secret
        return self.ask("POST", "/api/v1/webhook", body, 201)

    def webhook(self, identifier):
        return self.ask("GET", f"/api/v1/webhook/{identifier}", status=200)

    def deliveries(self, identifier):
        """All of a webhook's deliveries, the newest event first."""
        items, cursor = [], ""
        while cursor is not None:
            more = f"&cursor={urllib.parse.quote(cursor)}" if cursor else ""
            page = self.ask("GET", f"/api/v1/webhook/{identifier}/deliveries?limit=100{more}", status=200)
            items, cursor = items + page["items"], page["nextCursor"]
        return items


def main(suite):
    """Runs a suite: its failure is a sentence and exit status 1."""
    try:
        suite()
    except Failed as failure:
        print(f"\nfailed: {failure}", file=sys.stderr)
        sys.exit(1)
