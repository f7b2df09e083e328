"""A retry comes when it is due: after its pause, give or take a tenth, and a moment for looking and delivering; also while
another attempt of the same webhook takes its time, and while nothing else happens.

Usage: punctual.py MERCATO_BINARY
       (alone: python3 -m venv v && v/bin/pip install -r requirements.txt && v/bin/python punctual.py ...)
"""

import datetime
import json
import sys
import tempfile
import time

from inbox import Authority, Inbox
from service import Service, check, main, wait_until

PAUSE = 0.2
# Seconds beyond the pause and its jitter.
LATE = 0.6
SLOW = 3.0


def moment(attempt):
    return datetime.datetime.fromisoformat(attempt["startedAt"].replace("Z", "+00:00"))


def retried_after(service, hook, sequence):
    """The seconds from the end of the first attempt to the begin of the second."""

    def find():
        found = [one for one in service.deliveries(hook["id"]) if one["sequence"] == sequence]
        return next((one for one in found if len(one["attempts"]) > 1), None)

    first, second = wait_until(f"a second attempt for the event {sequence}", find)["attempts"][:2]
    return (moment(second) - moment(first)).total_seconds() - first["durationMs"] / 1000


def run(binary, folder):
    authority, seen = Authority(folder), set()

    def answer(received):
        name = json.loads(received.body)["data"]["companyName"]
        is_new = name not in seen
        seen.add(name)
        return 500 if is_new and name.startswith("retried") else 204

    inbox = Inbox(authority.context(), answer, lambda body: SLOW if b'"slow-' in body else 0)
    flags = ["--webhook-allow-subnet", "127.0.0.0/8", "--webhook-extra-ca", authority.file]
    service = Service(binary, folder, *flags, "--webhook-retries", f"{PAUSE * 1000:.0f}ms,1s")
    try:
        application = service.first_records()
        service.start()
        service.obtain_token(application["clientId"], application["clientSecret"])
        hook = service.new_webhook(f"{inbox.url}/punctual", ["customer.created"])
        sequence, pauses = hook["lastSequence"], {}
        for number in range(3):
            service.new_customer(f"retried-alone-{number}")
            sequence += 1
            pauses[f"{number + 1}, with nothing else to do"] = retried_after(service, hook, sequence)
        for number in range(3):
            service.new_customer(f"slow-{number}")
            time.sleep(0.1)
            service.new_customer(f"retried-beside-{number}")
            sequence += 2
            pauses[f"{number + 1}, beside a slow attempt"] = retried_after(service, hook, sequence)
        for name, pause in pauses.items():
            print(f"  {name}: tried again after {pause * 1000:.0f} ms; asked for {PAUSE * 1000:.0f}")
        for name, pause in pauses.items():
            check(0.9 * PAUSE - 0.01 <= pause, f"{name}: tried again after {pause:.3f} s, before it was due")
            check(pause <= 1.1 * PAUSE + LATE, f"{name}: tried again after {pause:.3f} s, which is late")
        service.stop()
    except BaseException:
        sys.stderr.write(service.last_words())
        raise
    finally:
        service.kill()
        inbox.close()
    print("retries are punctual")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(lambda: run(sys.argv[1], place))
