"""The same for GraphQL: records that exist, sacrifices for what would void the fuzzer's own token, and which errors are
refusals and no failures."""

import itertools
import re

import graphql
import schemathesis
from hypothesis import strategies as st
from schemathesis import hook
from schemathesis.graphql import nodes
from schemathesis.graphql.checks import GraphQLClientError, GraphQLServerError

import moments
import records
import sacrifices
from reached import Reached
from records import chance, mostly

SELF_MANAGEMENT = {"updateApplication", "regenerateApplicationSecret", "deleteApplication"}
# For people only: every bearer token is refused.
FOR_ADMINISTRATORS = {
    "createApplication", "suspendEntitlement", "reinstateEntitlement", "renewEntitlement", "cancelEntitlement",
    "adoptMarketplaceDifference", "compareMarketplace", "rerunNotification",
}
# About what the demo has only once somebody bought something at the simulator.
NOT_THERE = {"Query.marketplaceDifferences", "Query.notification", "Mutation.simulateAction", "Mutation.simulateDecision"}
# Which id a field takes; that of an input is a customer's.
IDS = {
    None: lambda: records.pick("customers"),
    "customer": lambda: records.pick("customers"),
    "updateCustomer": lambda: records.pick("customers"),
    "deleteCustomer": lambda: records.deletable("customers"),
    "entitlement": lambda: records.pick("entitlements"),
    "privateOffer": lambda: records.pick("private_offers"),
    "updatePrivateOffer": lambda: records.open_offer(),
    "deletePrivateOffer": lambda: records.open_offer(),
    "publishPrivateOffer": lambda: records.open_offer(),
    "meteringSubmission": lambda: records.pick("metering"),
    "application": lambda: records.pick("applications"),
    "node": lambda: records.pick(chance.choice(sorted(name for name, all in records.known.items() if all))),
    **{
        name: lambda: records.pick("webhooks")
        for name in ("webhook", "updateWebhook", "deleteWebhook", "rotateWebhookSecret", "replayWebhook")
    },
    "delivery": lambda: records.pick("deliveries"),
    "resendDelivery": lambda: records.pick("deliveries"),
    "event": lambda: records.pick("events"),
}
DAYS = {
    "startDate": moments.in_the_past, "endDate": moments.in_the_future,
    "from": moments.in_the_past, "to": moments.in_the_future,
    "expiresAt": moments.in_the_future,
    "reportingDate": moments.in_the_last_day, "startTime": moments.in_the_last_day,
}
TEXTS = {"listingId", "dimension", "companyName", "offerName", "name", "description"}
LEFT_OUT = {"afterSequence", "toSequence", "secret", "kinds", "after", "cloud", "currency", "buyerNotifications", "email"}
BEYOND_A_SCHEMA = (
    r"Query is too complex\."
    r'|Invalid value for argument "[\w.]+", expected type "(Decimal|DateTime|Sequence)"'
    # The generator's integers have 64 bits, those of GraphQL 32.
    r'|Failed to parse "Int": .*'
    r"|has a number of more than 15 digits at \d+; send it as a string"
)
# Makes what must be unique so.
turn = itertools.count()

records.create_webhooks(12)

for _ in range(20):
    records.create("customers", {"vendor": "cloud_a", "cloudAccountId": f"deletable-{next(turn)}", "companyName": "Deletable"})

# What the scalars' descriptions rule out is among it: refusing that is no failure, falling over it is one.
numbers = st.one_of(st.integers(0, 100), st.integers(), st.just(10**30), st.decimals(0, 10**9, places=6)).map(str)
schemathesis.graphql.scalar("Decimal", numbers.map(nodes.Float) | numbers.map(nodes.String))
schemathesis.graphql.scalar("Sequence", st.integers(0, 2**53).map(str).map(nodes.Int))
offsets = st.sampled_from(["Z", "Z", "Z", "+00:00", "+02:00", ""])
dates = st.builds("{}T{}{}".format, st.dates(), st.times(), offsets)
schemathesis.graphql.scalar("DateTime", dates.map(nodes.String))


@hook
def before_call(context, case, kwargs):
    if case.meta is None or case.meta.generation.mode.is_positive:
        case.body = graphql.print_ast(graphql.visit(graphql.parse(case.body), Improver(kwargs)))


class Improver(graphql.Visitor):
    """Gives arguments and inputs values that have a chance: all of them, mostly, else most."""

    def __init__(self, kwargs):
        super().__init__()
        self.kwargs = kwargs
        self.all = mostly()

    def enter_field(self, field, *_):
        name = field.name.value
        if name in SELF_MANAGEMENT:
            return self.let_a_sacrifice_do_it(name, field)
        given = self.improved({one.name.value: one.value for one in field.arguments or ()}, name)
        return changed(field, arguments=tuple(named(graphql.ArgumentNode, given)))

    def enter_object_value(self, input, *_):
        given = self.improved({one.name.value: one.value for one in input.fields or ()}, None)
        return changed(input, fields=tuple(named(graphql.ObjectFieldNode, given)))

    def improved(self, given, field):
        vendor = given["vendor"].value.lower() if isinstance(given.get("vendor"), graphql.EnumValueNode) else None
        better = dict(given)
        for group, improvement in improvements(given, vendor, field):
            if self.all or mostly():
                better = {name: value for name, value in better.items() if name not in group} | improvement
        return better

    def let_a_sacrifice_do_it(self, name, field):
        given = {one.name.value: one.value for one in field.arguments or ()}
        if name == "deleteApplication" and len(sacrifices.alive) <= sacrifices.STAY:
            sacrifice = sacrifices.deleted[-1]
        else:
            sacrifice = sacrifices.following()
            self.kwargs["auth"] = lambda request: request.headers.update(Authorization=sacrifice["authorization"]) or request
        given["id"] = nodes.String(sacrifice["id"])
        # What is needed to go on with it.
        asked = graphql.parse("{ application { id clientSecret } }").definitions[0].selection_set.selections
        asked = graphql.SelectionSetNode(selections=(*field.selection_set.selections, *asked))
        return changed(field, arguments=tuple(named(graphql.ArgumentNode, given)), selection_set=asked)


def named(kind, given):
    return [kind(name=graphql.NameNode(value=name), value=value) for name, value in given.items()]


def changed(node, **changes):
    return type(node)(**{key: getattr(node, key) for key in node.keys} | changes)


def improvements(given, vendor, field):
    """Fields that belong together, and what to give instead of them."""
    if vendor and "companyName" in given:
        account = {"cloud_a": "cloudAccountId", "cloud_b": "tenantId"}[vendor]
        yield {"cloudAccountId", "tenantId", "email"}, {account: nodes.String(f"graphql-{next(turn)}")}
    if "duration" in given:
        terms = {"duration": chance.randint(1, 36), "discountPercentage": chance.randint(0, 100)}
        yield {"discountAmount", "annualValue"}, {name: nodes.Int(value) for name, value in terms.items()}
    if "id" in given and field in IDS:
        yield {"id"}, {"id": nodes.String(IDS[field]())}
    if "webhookId" in given:
        yield {"webhookId"}, {"webhookId": nodes.String(records.pick("webhooks"))}
    if "url" in given:
        yield {"url"}, {"url": nodes.String(f"https://hooks.example.com/{next(turn)}")}
    if "fromSequence" in given:
        yield {"fromSequence"}, {"fromSequence": nodes.Int(1)}
    if "customerId" in given:
        yield {"customerId"}, {"customerId": nodes.String(records.customer(vendor))}
    if "first" in given:
        yield {"first"}, {"first": nodes.Int(chance.randint(1, 120))}
    for name, value in given.items():
        text = value.value if isinstance(value, graphql.StringValueNode) else None
        if name in LEFT_OUT:
            yield {name}, {}
        elif name in DAYS and moments.is_one(text):
            yield {name}, {name: nodes.String(DAYS[name](text))}
        elif name in TEXTS and text is not None:
            yield {name}, {name: nodes.String(printable(text) or "text")}


def printable(text):
    return "".join(character for character in text if character.isprintable()).strip()[:100]


@hook
def after_call(context, case, response):
    name, answer = case.operation.definition.field_name, answered(case, response)
    if name not in SELF_MANAGEMENT or not answer or not answer["application"]:
        return
    if name == "deleteApplication":
        sacrifices.was_deleted(answer["application"]["id"])
    elif name == "regenerateApplicationSecret":
        sacrifices.was_rotated(answer["application"]["id"], answer["application"]["clientSecret"])


def answered(case, response):
    """What the field answered, if it did."""
    return (response.json().get("data") or {}).get(case.operation.definition.field_name)


def is_refusal(error, case):
    """What REST answers with these statuses. Of mutations, 409 and 422 are no errors."""
    definition, status = case.operation.definition, error.get("extensions", {}).get("status")
    if status == 403:
        return definition.field_name in SELF_MANAGEMENT | FOR_ADMINISTRATORS
    return status in (400, 404) or (status == 422 and definition.is_query)


def is_beyond_a_schema(error):
    """Refused as a whole, for what no schema tells: the limit of complexity, and the form of the scalars."""
    reasons = [one["message"] for one in error.get("extensions", {}).get("errors", [])] or [error["message"]]
    return all(re.fullmatch(BEYOND_A_SCHEMA, reason) for reason in reasons)


@hook
def filter_failure(context, failure, case, response):
    if isinstance(failure, GraphQLClientError):
        return not all(is_beyond_a_schema(error) for error in failure.errors)
    if isinstance(failure, GraphQLServerError):
        return not all(is_refusal(error, case) or is_beyond_a_schema(error) for error in failure.errors)
    return True


@schemathesis.check
class EveryFieldSucceeds(Reached):
    def __init__(self):
        super().__init__(exempt={f"Mutation.{name}" for name in FOR_ADMINISTRATORS} | NOT_THERE)

    def after_response(self, ctx, response, case):
        answer = answered(case, response)
        if answer and case.operation.definition.is_mutation:
            # Besides the record there are only errors, in a list.
            answer = any(isinstance(one, dict) for one in answer.values())
        self.note(case, case.operation.label, answer)
