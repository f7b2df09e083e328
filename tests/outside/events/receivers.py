"""Bad receivers hurt only themselves: whatever they do, an attempt ends in its time and is logged as what it was, the
service's memory stays where it is, and a healthy webhook beside them is sent everything at once. After ten failures in a
row they are disabled; what comes then is held, and once they are back a replay brings all of it.

Usage: receivers.py MERCATO_BINARY
       (alone: python3 -m venv v && v/bin/pip install -r requirements.txt && v/bin/python receivers.py ...)
"""

import collections
import json
import socket
import ssl
import statistics
import struct
import sys
import tempfile
import threading
import time

import trustme

from inbox import Authority, Inbox
from service import Service, check, main, wait_until

TIMEOUT = 1.0
# Nine pauses: ten attempts.
RETRIES = ",".join(["50ms"] * 9)
FAILURES = 10
# What the service may hold of all receivers together, in MiB.
MEMORY = 48
# What one connection may swallow: the socket's buffers, the TLS records under way, and the 64 KiB that are read.
SWALLOWED = 16 << 20
# How long after its customer was acknowledged an event may come to the healthy webhook.
PROMPT = 1.0

MIB = b"x" * (1 << 20)


def read_request(connection):
    """The body of one request."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("no request came")
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(65536)
    return body


def wait_for_the_end(connection):
    """Until the service closes the connection."""
    while connection.recv(65536):
        pass


def trickle(connection, data):
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(1)


LATE = ("timeout", None)


class Bad:
    """A receiver of its own kind on a port of its own, until it is `repaired`."""

    # The error and the status of each attempt.
    expected = ("timeout", None)
    over_tls = True

    def __init__(self, context, trap):
        self.context, self.trap = context, trap
        self.is_repaired, self.bodies = False, []
        self.requests, self.swallowed, self.longest = 0, 0, 0.0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}/"
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def name(self):
        return self.__doc__.split("\n")[0].rstrip(".")

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        begun = time.monotonic()
        is_repaired = self.is_repaired
        connection.settimeout(20)
        try:
            if is_repaired:
                connection = self.trusted.wrap_socket(connection, server_side=True)
                while True:
                    self.bodies.append(read_request(connection))
                    connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            if self.over_tls:
                connection = self.context.wrap_socket(connection, server_side=True)
            self.requests += 1
            self.misbehave(connection)
        except (OSError, ValueError):
            pass
        finally:
            if not is_repaired:
                self.longest = max(self.longest, time.monotonic() - begun)
            connection.close()

    def pour(self, connection, data=MIB):
        """Gigabytes, until the service has had enough."""
        sent = 0
        try:
            while sent < 4 << 30:
                sent += connection.send(data)
        finally:
            self.swallowed = max(self.swallowed, sent)

    def misbehave(self, connection):
        read_request(connection)
        wait_for_the_end(connection)


class NeverAnswers(Bad):
    """never answers."""


class NeverShakesHands(Bad):
    """accepts and says nothing, not even TLS."""

    over_tls = False

    def misbehave(self, connection):
        wait_for_the_end(connection)


class TricklesHeaders(Bad):
    """trickles its headers, a byte a second."""

    def misbehave(self, connection):
        read_request(connection)
        trickle(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


class TricklesBody(Bad):
    """trickles its body, a byte a second."""

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        trickle(connection, b"x" * 1000)


class RefusesWithGigabytes(Bad):
    """refuses with gigabytes."""

    expected = ("http", 500)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 500 Too Much\r\nContent-Length: 4294967296\r\n\r\n")
        self.pour(connection)


class EndlessHeaders(Bad):
    """answers gigabytes of headers."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        self.pour(connection, b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1000) for number in range(1000)))


class OneEndlessHeader(Bad):
    """answers one header of gigabytes."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        self.pour(connection)


class EndlessHints(Bad):
    """sends early hints without end."""

    def misbehave(self, connection):
        # Not at full speed: the service reads all of them until the time is over, and both of us would only burn.
        read_request(connection)
        while True:
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * 20)
            time.sleep(0.01)


class SpeaksAnotherLanguage(Bad):
    """answers what is no HTTP."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        wait_for_the_end(connection)


class Resets(Bad):
    """resets the connection instead of an answer."""

    expected = ("connect", None)

    def misbehave(self, connection):
        read_request(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Redirects(Bad):
    """redirects to another receiver."""

    expected = ("http", 307)

    def misbehave(self, connection):
        read_request(connection)
        answer = f"HTTP/1.1 307 There\r\nLocation: {self.trap.url}/caught\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        connection.sendall(answer.encode())


class SpeaksPlainly(Bad):
    """speaks plain HTTP."""

    over_tls = False
    expected = ("tls", None)

    def misbehave(self, connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


class Untrusted(Bad):
    """has a certificate of an authority that nobody trusts."""

    expected = ("tls", None)

    def __init__(self, context, trap):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        super().__init__(context, trap)


class WrongName(Bad):
    """has a certificate for another name."""

    expected = ("tls", None)

    def __init__(self, context, trap):
        super().__init__(context, trap)
        self.context = self.authority.context("elsewhere.example")


class AcceptsWithGigabytes(Bad):
    """accepts with gigabytes."""

    expected = (None, 200)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4294967296\r\n\r\n")
        self.pour(connection)


class AcceptsEndlessly(Bad):
    """accepts with an endless chunked body."""

    expected = (None, 200)

    def misbehave(self, connection):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.pour(connection, b"1000\r\n" + b"x" * 0x1000 + b"\r\n")


FAILING = [
    NeverAnswers,
    NeverShakesHands,
    TricklesHeaders,
    TricklesBody,
    RefusesWithGigabytes,
    EndlessHeaders,
    OneEndlessHeader,
    EndlessHints,
    SpeaksAnotherLanguage,
    Resets,
    Redirects,
    SpeaksPlainly,
    Untrusted,
    WrongName,
]
# A 2xx counts, whatever comes after it: no more than 64 KiB of that is read (contract.md §14).
RUDE = [AcceptsWithGigabytes, AcceptsEndlessly]


class Memory:
    """The service's resident memory, watched from now on."""

    def __init__(self, service):
        self.service, self.before = service, service.memory()
        self.highest, self.over = self.before, threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while not self.over.wait(0.05):
            try:
                self.highest = max(self.highest, self.service.memory())
            except (OSError, ValueError):
                return


class Customers:
    """Makes customers and notes when each was acknowledged."""

    def __init__(self, service):
        self.service, self.acknowledged, self.count = service, {}, 0

    def make(self, count):
        for _ in range(count):
            self.count += 1
            name = f"receivers-{self.count}"
            self.service.new_customer(name)
            self.acknowledged[name] = time.monotonic()

    def delays(self, inbox):
        """How long after its acknowledgement each came to a receiver."""
        came = {json.loads(one.body)["data"]["companyName"]: one.at for one in reversed(inbox.at("/healthy"))}
        missing = set(self.acknowledged) - set(came)
        check(not missing, f"the healthy webhook was not sent {len(missing)} events, such as {sorted(missing)[:3]}")
        return [max(0.0, came[name] - at) for name, at in self.acknowledged.items()]


def attempts_of(deliveries):
    return [attempt for delivery in deliveries for attempt in delivery["attempts"]]


def check_attempts(receiver, deliveries):
    """Each ended in its time and is logged as what it was."""
    attempts = attempts_of(deliveries)
    longest = max(attempt["durationMs"] for attempt in attempts) / 1000
    told = collections.Counter((attempt["error"], attempt["statusCode"]) for attempt in attempts)
    # On a machine that is busy with something else, a receiver here may be late now and then.
    fitting = set(told) <= {receiver.expected, LATE} and told[receiver.expected] * 4 >= len(attempts) * 3
    check(fitting, f"a receiver that {receiver.name}: logged as {dict(told)}, not {receiver.expected}")
    check(longest <= TIMEOUT + 1, f"a receiver that {receiver.name}: an attempt took {longest} s")
    held = f"a receiver that {receiver.name}: a connection was kept for {receiver.longest:.1f} s"
    check(receiver.longest <= TIMEOUT + 2.5, held)
    check(receiver.swallowed <= SWALLOWED, f"a receiver that {receiver.name} got rid of {receiver.swallowed} bytes")
    answers = [len(attempt["answer"]) for attempt in attempts if attempt["answer"]]
    check(max(answers, default=0) <= 16 << 10, f"an answer of {max(answers, default=0)} characters was kept")
    return len(attempts), longest


def check_disabled(service, receiver, late):
    """It is disabled after ten failures, and what came later is held."""
    hook = service.webhook(receiver.hook["id"])
    told = f"a receiver that {receiver.name}: {hook}"
    check((hook["status"], hook["failureCount"]) == ("disabled", FAILURES) and hook["disabledAt"], told)

    def all_settled():
        deliveries = service.deliveries(hook["id"])
        settled = all(one["status"] in ("held", "failed", "delivered") for one in deliveries)
        return deliveries if settled and len(deliveries) == len(late["all"]) else None

    deliveries = wait_until(f"an end of the deliveries to a receiver that {receiver.name}", all_settled, 15)
    states = [one["status"] for one in deliveries]
    check(set(states[: late["count"]]) == {"held"}, f"{told}: its later events are {states[: late['count']]}")
    check("delivered" not in states, f"{told}: one is delivered")
    return deliveries, states.count("held")


def all_delivered(service, receiver, count):
    def delivered():
        deliveries = service.deliveries(receiver.hook["id"])
        return [one["status"] for one in deliveries] == ["delivered"] * count and deliveries

    return wait_until(f"`delivered` on each of {count} events at a receiver that {receiver.name}", delivered)


def check_return(service, receiver, customers):
    """Repaired, enabled and replayed, it gets everything."""
    identifier = receiver.hook["id"]
    hook = service.ask("PUT", f"/api/v1/webhook/{identifier}", {"status": "active"})
    check((hook["status"], hook["failureCount"]) == ("active", 0), f"enabling answered {hook}")
    first = receiver.hook["lastSequence"] + 1
    service.ask("POST", f"/api/v1/webhook/{identifier}/replay", {"fromSequence": first, "onlyUndelivered": True})

    def missing():
        came = {json.loads(body)["data"]["companyName"] for body in list(receiver.bodies)}
        return set(customers.acknowledged) - came

    wait_until(f"the return of everything to a receiver that {receiver.name}", lambda: not missing(), 20)
    all_delivered(service, receiver, len(customers.acknowledged))


def misbehave(service, receivers, inbox, customers):
    """All of them at once, until the failing ones are disabled; customers come all the while."""
    memory = Memory(service)
    begun = time.monotonic()
    failing = [receiver for receiver in receivers if receiver.expected[0]]

    def all_disabled():
        customers.make(1)
        time.sleep(0.1)
        return all(service.webhook(receiver.hook["id"])["status"] == "disabled" for receiver in failing)

    try:
        wait_until("the end of all failing webhooks", all_disabled, 60)
    except Exception:
        for receiver in failing:
            hook = service.webhook(receiver.hook["id"])
            print(f"  {receiver.name}: {hook['status']}, {hook['failureCount']} failures, {receiver.requests} requests")
        raise
    print(f"  {len(failing)} failing webhooks are disabled after {time.monotonic() - begun:.1f} s")
    customers.make(5)
    time.sleep(PROMPT)
    delays = customers.delays(inbox)
    memory.over.set()
    grown = memory.highest - memory.before
    print(f"  memory: {memory.before:.0f} MiB before, at most {memory.highest:.0f} meanwhile")
    print(
        f"  healthy: {len(delays)} events, each {statistics.median(delays) * 1000:.0f} ms after its acknowledgement in"
        f" the median, at most {max(delays) * 1000:.0f}"
    )
    check(grown <= MEMORY, f"the service grew by {grown:.0f} MiB, more than {MEMORY}")
    check(max(delays) <= PROMPT, f"an event came to the healthy webhook {max(delays):.2f} s after its acknowledgement")


def run(binary, folder):
    authority = Authority(folder)
    Bad.authority, Bad.trusted = authority, authority.context()
    inbox, trap = Inbox(authority.context()), Inbox(authority.context())
    flags = ["--webhook-allow-subnet", "127.0.0.0/8", "--webhook-extra-ca", authority.file]
    flags += ["--webhook-timeout", f"{TIMEOUT * 1000:.0f}ms", "--webhook-retries", RETRIES]
    service = Service(binary, folder, *flags)
    try:
        application = service.first_records()
        service.start()
        service.obtain_token(application["clientId"], application["clientSecret"])
        customers = Customers(service)
        healthy = service.new_webhook(f"{inbox.url}/healthy", ["customer.created"])
        # Warm: what it takes for deliveries at all is not the bad receivers' doing.
        customers.make(40)
        wait_until("a delivery to the healthy webhook", lambda: len(inbox.at("/healthy")) >= 40)
        customers.acknowledged.clear()
        receivers = [form(authority.context(), trap) for form in FAILING + RUDE]
        for receiver in receivers:
            receiver.hook = service.new_webhook(receiver.url, ["customer.created"])
        misbehave(service, receivers, inbox, customers)
        late = {"count": 5, "all": customers.acknowledged}
        for receiver in receivers:
            if receiver.expected[0]:
                deliveries, held = check_disabled(service, receiver, late)
                count, longest = check_attempts(receiver, deliveries)
                how = f"{receiver.expected[0]}, {held} held"
            else:
                deliveries = all_delivered(service, receiver, len(late["all"]))
                count, longest = check_attempts(receiver, deliveries)
                how = "delivered"
            print(f"  {receiver.name}: {how}, {count} attempts, the longest {longest:.2f} s")
        check(not trap.received, f"a redirect was followed: {trap.received[:1]}")
        for receiver in receivers:
            receiver.is_repaired = True
        for receiver in receivers:
            if receiver.expected[0]:
                check_return(service, receiver, customers)
        print(f"  repaired, enabled and replayed, each of them got all {len(customers.acknowledged)} events")
        check(service.webhook(healthy["id"])["failureCount"] == 0, "a delivery to the healthy webhook failed")
        service.stop()
    except BaseException:
        sys.stderr.write(service.last_words())
        raise
    finally:
        service.kill()
        inbox.close()
        trap.close()
    print(f"bad receivers hurt only themselves: {len(receivers)} kinds")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(lambda: run(sys.argv[1], place))
