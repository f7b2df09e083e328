"""kill -9 loses nothing that was acknowledged: under load the service is killed again and again, at random moments and now
and then while it starts. Then every acknowledged customer's event has come to both webhooks, the sequences are 1 to n
without a gap, whatever came twice is the same bytes under the same webhook-id, every signature verifies, and a replay that
is killed halfway is finished.

Usage: crash.py MERCATO_BINARY [CYCLES]     5 cycles unless told; MERCATO_SEED=N repeats the moments of a run
       (alone: python3 -m venv v && v/bin/pip install -r requirements.txt && v/bin/python crash.py ...)
"""

import collections
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import standardwebhooks

from inbox import Authority, Inbox
from service import Failed, Service, check, main, wait_until

WRITERS = 8
RETRIES = ",".join(["100ms", "200ms", "400ms", *["1s"] * 6])
# The receiver at /flaky refuses every fifth request, so that retries too are under way when the service dies.
REFUSED = 5


class Load:
    """Writers that create customers, each under its idempotency key until it is acknowledged."""

    def __init__(self, service):
        self.service, self.over = service, threading.Event()
        self.acknowledged, self.again, self.faults = {}, collections.Counter(), []
        self.longest = 0.0
        self.threads = [threading.Thread(target=self.write, args=(number,), daemon=True) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self, writer):
        number = 0
        while not self.over.is_set() and not self.faults:
            number += 1
            name = f"crash-{writer}-{number}"
            body = {"vendor": "cloud_a", "cloudAccountId": name, "companyName": name}
            while not self.faults:
                status, answer = self.attempt(name, body)
                if status == 201:
                    self.acknowledged[name] = json.loads(answer)["data"]["id"]
                    break
                # The service is gone, or has just come back and still holds the key for the request that died.
                if status not in (None, 409, 503):
                    self.faults.append(f"POST /api/v1/customers {body} answered {status}: {answer.decode()}")
                self.again[status or "no answer"] += 1
                time.sleep(0.02)
            time.sleep(0.005)

    def attempt(self, name, body):
        begun = time.monotonic()
        try:
            answer = self.service.send("POST", "/api/v1/customers", body, key=name, seconds=10)
            self.longest = max(self.longest, time.monotonic() - begun)
            return answer.status, answer.raw
        except (OSError, http.client.HTTPException):
            return None, b""

    def end(self):
        """Every writer has its last request acknowledged."""
        self.over.set()
        for thread in self.threads:
            thread.join(timeout=30)
        check(not any(thread.is_alive() for thread in self.threads), "a request was not acknowledged within 30 s")
        check(not self.faults, f"a writer was refused: {self.faults[0] if self.faults else ''}")


class Receiver:
    """An inbox that verifies each delivery when it comes, and times how long after a restart the first one comes."""

    def __init__(self, authority):
        self.secrets, self.unverified, self.count = {}, [], 0
        self.restarted_at, self.recoveries = None, []
        self.inbox = Inbox(authority.context(), self.answer)

    def answer(self, received):
        try:
            standardwebhooks.Webhook(self.secrets[received.path]).verify(received.body, received.headers)
        except standardwebhooks.WebhookVerificationError as error:
            self.unverified.append(f"{received.path}: {error}: {received.headers}")
        if self.restarted_at is not None:
            self.recoveries.append(received.at - self.restarted_at)
            self.restarted_at = None
        if received.path == "/flaky":
            self.count += 1
            return 503 if self.count % REFUSED == 0 else 200
        return 200

    def restarted(self):
        """One that did not live to deliver anything adds to the time of the next."""
        if self.restarted_at is None:
            self.restarted_at = time.monotonic()


def kill_and_restart(service, receiver, chance, cycle):
    """The seconds until it was ready again."""
    if cycle % 5 == 4:
        service.kill()
        receiver.restarted()
        service.begin()
        time.sleep(chance.uniform(0.05, 0.6))
    else:
        time.sleep(chance.uniform(0.3, 1.5))
    service.kill()
    receiver.restarted()
    return service.start(30)


def check_inbox(receiver, path, last, acknowledged):
    """What came to one webhook; how many came again."""
    bodies, sequences, arrivals, customers = {}, {}, collections.Counter(), collections.Counter()
    for one in receiver.inbox.at(path):
        identifier = one.headers["webhook-id"]
        arrivals[identifier] += 1
        if identifier in bodies:
            same = bodies[identifier] == one.body
            check(same, f"{path}: {identifier} came again as other bytes: {bodies[identifier]} and {one.body}")
            continue
        bodies[identifier] = one.body
        event = json.loads(one.body)
        check(event["id"] == identifier, f"{path}: the webhook-id {identifier} is not the event's, {event['id']}")
        other = sequences.setdefault(event["sequence"], identifier)
        check(other == identifier, f"{path}: {other} and {identifier} both have the sequence {event['sequence']}")
        if event["type"] == "customer.created":
            customers[event["data"]["companyName"], event["data"]["id"]] += 1
    told = set(sequences)
    check(told == set(range(1, last + 1)), f"{path}: of 1 to {last} these never came: {set(range(1, last + 1)) ^ told}")
    lost = set(acknowledged.items()) - set(customers)
    check(not lost, f"{path}: {len(lost)} acknowledged customers were never told of, such as {sorted(lost)[:3]}")
    extra = [pair for pair, count in customers.items() if count > 1 or pair not in set(acknowledged.items())]
    check(not extra, f"{path}: told more than once, or made twice under one key: {extra[:3]}")
    return sum(count - 1 for count in arrivals.values())


def settle(service, receiver, hooks):
    """Deliveries are quiet: both webhooks are at the end of the log, and all of it has come."""

    def log_end():
        return max(service.webhook(hook["id"])["lastSequence"] for hook in hooks.values())

    def is_quiet():
        last = log_end()
        came = (len({one.headers["webhook-id"] for one in receiver.inbox.at(path)}) for path in hooks)
        level = all(service.webhook(hook["id"])["lastSequence"] == last for hook in hooks.values())
        pending = any(one["status"] != "delivered" for hook in hooks.values() for one in newest(service, hook))
        return last if level and not pending and all(count >= last for count in came) else None

    quiet_after = time.monotonic()
    try:
        last = wait_until("quiet at both webhooks", is_quiet, 60)
    except Exception:
        for path, hook in hooks.items():
            came = {json.loads(one.body)["sequence"] for one in receiver.inbox.at(path)}
            missing = sorted(set(range(1, log_end() + 1)) - came)
            print(f"  {path}: {service.webhook(hook['id'])}; never came: {missing[:20]} ({len(missing)})")
        raise
    return last, time.monotonic() - quiet_after


def replay_across_a_kill(service, receiver, hook, last, chance):
    """A replay that was begun is finished by whoever comes after; how many events of it came twice."""
    path = "/steady"
    before = len(receiver.inbox.at(path))
    service.ask("POST", f"/api/v1/webhook/{hook['id']}/replay", {"fromSequence": 1})
    wait_until("the begin of a replay", lambda: len(receiver.inbox.at(path)) > before)
    time.sleep(chance.uniform(0.0, 0.1))
    service.kill()
    at_kill = len(receiver.inbox.at(path)) - before
    service.start(30)

    def missing():
        again = receiver.inbox.at(path)[before:]
        return set(range(1, last + 1)) - {json.loads(one.body)["sequence"] for one in again}

    try:
        wait_until("the end of a replay that was cut off", lambda: not missing(), 60)
    except Failed as failure:
        raise Failed(f"{failure}; never came again: {sorted(missing())[:20]}") from None
    return at_kill


def newest(service, hook):
    return service.ask("GET", f"/api/v1/webhook/{hook['id']}/deliveries?limit=100", status=200)["items"]


def run(binary, cycles, folder):
    seed = int(os.environ.get("MERCATO_SEED") or random.SystemRandom().randrange(1 << 32))
    chance, authority = random.Random(seed), Authority(folder)
    receiver = Receiver(authority)
    flags = ["--webhook-allow-subnet", "127.0.0.0/8", "--webhook-extra-ca", authority.file]
    service = Service(binary, folder, *flags, "--webhook-retries", RETRIES)
    print(f"  {cycles} cycles; MERCATO_SEED={seed}")
    try:
        application = service.first_records()
        service.start()
        service.obtain_token(application["clientId"], application["clientSecret"])
        hooks = {path: service.new_webhook(receiver.inbox.url + path) for path in ("/steady", "/flaky")}
        receiver.secrets.update({path: hook["secret"] for path, hook in hooks.items()})
        load = Load(service)
        starts = []
        for cycle in range(cycles):
            starts.append(kill_and_restart(service, receiver, chance, cycle))
            if cycle % 10 == 9 or cycle == cycles - 1:
                print(f"  {cycle + 1} cycles, {len(load.acknowledged)} acknowledged", flush=True)
        load.end()
        last, quiet_after = settle(service, receiver, hooks)
        duplicates = {path: check_inbox(receiver, path, last, load.acknowledged) for path in hooks}
        received = {path: len(receiver.inbox.at(path)) for path in hooks}
        at_kill = replay_across_a_kill(service, receiver, hooks["/steady"], last, chance)
        check_inbox(receiver, "/steady", last, load.acknowledged)
        check(not receiver.unverified, f"{len(receiver.unverified)} do not verify: {receiver.unverified[:1]}")
        for hook in hooks.values():
            status = service.webhook(hook["id"])["status"]
            check(status == "active", f"the webhook at {hook['url']} is {status}")
        service.stop()
        doctor = subprocess.run([binary, "doctor", *service.database], capture_output=True, text=True, timeout=60)
        check(doctor.returncode == 0, f"`mercato doctor` finds fault: {doctor.stdout}{doctor.stderr}")
    except BaseException:
        sys.stderr.write(service.last_words())
        raise
    finally:
        service.kill()
        receiver.inbox.close()
    print(f"  cycles              {cycles} (a start of those took at most {max(starts):.2f} s)")
    print(f"  acknowledged        {len(load.acknowledged)} customers, the slowest in {load.longest:.2f} s; the log ends at {last}")
    print(f"  sent again          {', '.join(f'{count} after {status}' for status, count in load.again.items())}")
    print(f"  received            {', '.join(f'{count} at {path}' for path, count in received.items())}")
    print(f"  duplicates          {', '.join(f'{count} at {path}' for path, count in duplicates.items())}")
    print(f"  longest recovery    {max(receiver.recoveries):.2f} s from a restart to the next delivery")
    print(f"  quiet               {quiet_after:.2f} s after the last acknowledgement")
    print(f"  replay              all {last} again, though killed when {at_kill} of them had come")
    print("  doctor              no fault")
    print("kill -9 under load: nothing was lost")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(lambda: run(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 5, place))
