"""Bad receivers hurt only themselves: whatever they do, an attempt ends in its time and is logged as what it was, the
service's memory stays where it is, and a healthy webhook beside them is sent everything at once. After ten failures in a
row they are disabled; what comes then is held, and once they are back a replay brings all of it.

Usage: receivers.py MERCATO_BINARY
       (alone: python3 -m venv v && v/bin/pip install -r requirements.txt && v/bin/python receivers.py ...)
"""

import collections
import json
import statistics
import sys
import tempfile
import threading
import time

from bad import FAILING, RUDE, Bad
from inbox import Authority, Inbox
from service import Service, check, main, wait_until

TIMEOUT = 1.0
# What a machine that is busy with something else may add; without a deadline it would be minutes.
SLACK = 5.0
# Nine pauses: ten attempts.
RETRIES = ",".join(["50ms"] * 9)
FAILURES = 10
# What the service may hold of all receivers together, in MiB.
MEMORY = 48
# What one connection may swallow: the socket's buffers, the TLS records under way, and the 64 KiB that are read.
SWALLOWED = 16 << 20
# How long after its customer was acknowledged an event may come to the healthy webhook.
PROMPT = 1.0
LATE = ("timeout", None)


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
    check(longest <= TIMEOUT + SLACK, f"a receiver that {receiver.name}: an attempt took {longest} s")
    held = f"a receiver that {receiver.name}: a connection was kept for {receiver.longest:.1f} s"
    check(receiver.longest <= TIMEOUT + SLACK, held)
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
