"""Moments on another day: how their time is written stays as the fuzzer made it up."""

import datetime
import re

from records import chance


def on(day, moment):
    return f"{day}{moment[10:]}"


def is_one(text):
    return isinstance(text, str) and re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:", text) is not None


def days_from_now(least, most):
    return datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=chance.randrange(least, most))


def in_the_past(moment):
    return on(days_from_now(-400, 0), moment)


def in_the_future(moment):
    return on(days_from_now(1, 400), moment)


def in_the_last_day(moment):
    """Today, or yesterday if that hour is still to come."""
    now = datetime.datetime.now(datetime.UTC)
    is_over = (int(moment[11:13]), int(moment[14:16])) < (now.hour, now.minute)
    return on(now.date() - datetime.timedelta(days=not is_over), moment)
