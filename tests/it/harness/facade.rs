//! One scenario through both doors: the same operation over REST or GraphQL, its outcome in one normal form.

use serde_json::{Map, Value, json};

use super::{Party, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facade {
    Rest,
    Graphql,
}

/// What an operation led to, whichever door it came through: `{"ok": …}` or `{"status", "code", "message", "errors"}`.
pub type Outcome = Value;

/// A resource as both doors show it: where REST has it, what GraphQL calls it, and its fields there.
#[derive(Clone, Copy)]
pub struct Resource {
    path: &'static str,
    one: &'static str,
    many: &'static str,
    create: &'static str,
    update: &'static str,
    delete: &'static str,
    /// Of the single form.
    fields: &'static str,
    /// Of the list form.
    listed: &'static str,
}

pub const CUSTOMERS: Resource = Resource {
    path: "/api/v1/customers",
    one: "customer",
    many: "customers",
    create: "createCustomer(input: $input): CreateCustomerInput",
    update: "updateCustomer(id: $id, input: $input): UpdateCustomerInput",
    delete: "deleteCustomer(id: $id)",
    fields: "id organizationId vendor cloudAccountId tenantId email companyName status createdAt updatedAt \
             entitlements: entitlementSummaries { id listingId status }",
    listed: "id organizationId vendor cloudAccountId tenantId email companyName status createdAt updatedAt",
};

pub const ENTITLEMENTS: Resource = Resource {
    path: "/api/v1/entitlements",
    one: "entitlement",
    many: "entitlements",
    create: "",
    update: "",
    delete: "",
    fields: "id organizationId customerId listingId vendor status startDate endDate \
             dimensions { key value description } planId privateOfferId agreementId vendorSubscriptionId autoRenew \
             createdAt updatedAt history { action timestamp changes }",
    listed: "id organizationId customerId listingId vendor status startDate endDate dimensions { key value } planId \
             privateOfferId agreementId vendorSubscriptionId autoRenew createdAt updatedAt",
};

pub const OFFERS: Resource = Resource {
    path: "/api/v1/private-offers",
    one: "privateOffer",
    many: "privateOffers",
    create: "createPrivateOffer(input: $input): CreatePrivateOfferInput",
    update: "updatePrivateOffer(id: $id, input: $input): UpdatePrivateOfferInput",
    delete: "deletePrivateOffer(id: $id)",
    fields: "id organizationId listingId customerId vendor status vendorOfferId expiresAt entitlementId details { \
             summary { offerName companyName buyerNotifications { name email } } \
             pricing { discountPercentage discountAmount duration annualValue currency } \
             cloud { offerType agreementId isReplacement publication { state message } } } createdAt updatedAt",
    listed: "id organizationId listingId customerId vendor status vendorOfferId expiresAt entitlementId details { \
             summary { offerName companyName } pricing { discountPercentage discountAmount duration currency } \
             cloud { offerType publication { state message } } } createdAt updatedAt",
};

pub const METERING: Resource = Resource {
    path: "/api/v1/metering",
    one: "meteringSubmission",
    many: "meteringSubmissions",
    create: "submitMetering(input: $input): SubmitMeteringInput",
    update: "",
    delete: "",
    fields: "id organizationId vendor status message listingId details { customer { id } reportingDate usage { \
             dimension quantity startTime billedQuantity carriedQuantity verdict message } } createdAt updatedAt",
    listed: "id organizationId vendor status message listingId details { customer { id } reportingDate usage { \
             dimension quantity startTime billedQuantity carriedQuantity verdict message } } createdAt updatedAt",
};

pub const WEBHOOKS: Resource = Resource {
    path: "/api/v1/webhook",
    one: "webhook",
    many: "webhooks",
    create: "createWebhook(input: $input): CreateWebhookInput",
    update: "updateWebhook(id: $id, input: $input): UpdateWebhookInput",
    delete: "deleteWebhook(id: $id)",
    fields: "id organizationId name url events status failureCount lastTriggeredAt disabledAt hasSecret lastSequence \
             createdAt updatedAt",
    listed: "id organizationId name url events status failureCount lastTriggeredAt disabledAt hasSecret lastSequence \
             createdAt updatedAt",
};

impl Resource {
    /// What the payload of a mutation calls the record, and what REST answers of it.
    fn payload(&self, answered: Option<&str>) -> String {
        format!(
            "{{ record: {} {{ {} }} userErrors {{ field message code }} }}",
            self.one,
            answered.unwrap_or(self.fields)
        )
    }
}

/// `name(arguments): InputType` of a mutation.
fn with_input(mutation: &str) -> (&str, &str) {
    mutation.rsplit_once(": ").expect("a mutation with an input")
}

impl Facade {
    pub async fn get(self, party: &Party, of: Resource, id: &str) -> Outcome {
        match self {
            Self::Rest => rest(&party.get(&format!("{}/{id}", of.path)).await),
            Self::Graphql => {
                let query = format!("query ($id: ID!) {{ it: {}(id: $id) {{ {} }} }}", of.one, of.fields);
                graphql(&party.graphql(&query, json!({ "id": id })).await)
            }
        }
    }

    /// A page in the list form, and the cursor of the next one.
    pub async fn list(self, party: &Party, of: Resource, limit: i64, cursor: Option<&str>) -> Outcome {
        match self {
            Self::Rest => {
                let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
                rest(&party.get(&format!("{}?limit={limit}{cursor}", of.path)).await)
            }
            Self::Graphql => {
                let query = format!(
                    "query ($first: Int, $after: String) {{ it: {}(first: $first, after: $after) \
                     {{ items: nodes {{ {} }} pageInfo {{ hasNextPage endCursor }} }} }}",
                    of.many, of.listed
                );
                graphql(&party.graphql(&query, json!({ "first": limit, "after": cursor })).await)
            }
        }
    }

    pub async fn create(self, party: &Party, of: Resource, input: Value) -> Outcome {
        match self {
            Self::Rest => rest(&party.post(of.path, &input).await),
            Self::Graphql => {
                let (call, input_type) = with_input(of.create);
                // REST answers these three of a usage report, and a new webhook's secret.
                let with_secret = format!("{} secret", WEBHOOKS.fields);
                let answered = match of.one {
                    "meteringSubmission" => Some("id status message"),
                    "webhook" => Some(with_secret.as_str()),
                    _ => None,
                };
                let query = format!("mutation ($input: {input_type}!) {{ it: {call} {} }}", of.payload(answered));
                graphql(&party.graphql(&query, json!({ "input": shout(input) })).await)
            }
        }
    }

    pub async fn update(self, party: &Party, of: Resource, id: &str, patch: Value) -> Outcome {
        match self {
            Self::Rest => rest(&party.put(&format!("{}/{id}", of.path), &patch).await),
            Self::Graphql => {
                let (call, input_type) = with_input(of.update);
                let query = format!("mutation ($id: ID!, $input: {input_type}!) {{ it: {call} {} }}", of.payload(None));
                graphql(&party.graphql(&query, json!({ "id": id, "input": shout(patch) })).await)
            }
        }
    }

    pub async fn delete(self, party: &Party, of: Resource, id: &str) -> Outcome {
        match self {
            Self::Rest => rest(&party.delete(&format!("{}/{id}", of.path)).await),
            Self::Graphql => {
                // REST answers these two of a deleted customer.
                let answered = (of.one == CUSTOMERS.one).then_some("id status");
                let query = format!("mutation ($id: ID!) {{ it: {} {} }}", of.delete, of.payload(answered));
                graphql(&party.graphql(&query, json!({ "id": id })).await)
            }
        }
    }

    /// Contract statistics; the arguments have the same names at both doors.
    pub async fn statistics(self, party: &Party, arguments: &[(&str, &str)]) -> Outcome {
        match self {
            Self::Rest => {
                let query: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
                rest(&party.get(&format!("/api/v1/analytics/contracts?{}", query.join("&"))).await)
            }
            Self::Graphql => {
                let text = |(name, value): &(&str, &str)| match *name {
                    "vendor" | "status" => format!("{name}: {}", value.to_uppercase()),
                    _ => format!("{name}: \"{value}\""),
                };
                let arguments: Vec<String> = arguments.iter().map(text).collect();
                let arguments =
                    if arguments.is_empty() { String::new() } else { format!("({})", arguments.join(", ")) };
                let query = format!(
                    "{{ it: contractStatistics{arguments} {{ newContracts totalContracts expiringContracts }} }}"
                );
                graphql(&party.graphql(&query, json!({})).await)
            }
        }
    }
}

fn rest(reply: &Reply) -> Outcome {
    let body = reply.json();
    if reply.status < 300 {
        return json!({ "ok": body["data"] });
    }
    failure(reply.status, &body["error"]["code"], &body["message"], &body["errors"])
}

fn graphql(reply: &Reply) -> Outcome {
    let body = reply.json();
    if let Some(error) = body["errors"].get(0) {
        let extensions = &error["extensions"];
        let status = u16::try_from(extensions["status"].as_u64().unwrap_or_default()).unwrap_or_default();
        let errors = extensions["errors"].to_string();
        // The two parameters of a page have Relay's names here.
        let errors = errors.replace("\"first\"", "\"limit\"").replace("\"after\"", "\"cursor\"");
        return failure(status, &extensions["code"], &error["message"], &errors.parse().unwrap_or_default());
    }
    let it = &body["data"]["it"];
    let user_errors = it["userErrors"].as_array().cloned().unwrap_or_default();
    match user_errors.first() {
        Some(error) if error["code"] == "CONFLICT" => failure(409, &error["code"], &error["message"], &Value::Null),
        Some(error) => {
            let plain = |error: &Value| json!({ "field": error["field"], "message": error["message"] });
            let errors: Vec<Value> = user_errors.iter().map(plain).collect();
            failure(422, &error["code"], &json!("Validation failed"), &json!(errors))
        }
        None => json!({ "ok": whisper(result(it)) }),
    }
}

/// The record or the page inside an answer.
fn result(it: &Value) -> Value {
    if let Some(items) = it.get("items") {
        let page = &it["pageInfo"];
        let next = if page["hasNextPage"] == true { page["endCursor"].clone() } else { Value::Null };
        return json!({ "items": items, "nextCursor": next });
    }
    it.get("record").unwrap_or(it).clone()
}

fn failure(status: u16, code: &Value, message: &Value, errors: &Value) -> Outcome {
    json!({ "status": status, "code": code, "message": message, "errors": errors })
}

const ENUMS: [&str; 5] = ["vendor", "status", "offerType", "state", "action"];

/// REST's words as GraphQL's enums.
fn shout(input: Value) -> Value {
    convert(input, &|word| word.to_ascii_uppercase().replace('.', "_"))
}

/// GraphQL's enums as REST's words; those of kinds of events have a dot before their verb.
fn whisper(output: Value) -> Value {
    convert(output, &|word| {
        let kind = mercato::model::event::EventKind::ALL
            .iter()
            .find(|kind| kind.as_str().replace('.', "_") == word.to_ascii_lowercase());
        kind.map_or_else(|| word.to_ascii_lowercase(), ToString::to_string)
    })
}

fn convert(value: Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| match value {
                Value::String(text) if ENUMS.contains(&name.as_str()) => (name, Value::String(change(&text))),
                Value::Array(words) if name == "events" => {
                    let word = |word: Value| word.as_str().map_or(Value::Null, |word| Value::String(change(word)));
                    (name, words.into_iter().map(word).collect())
                }
                other => (name, convert(other, change)),
            };
            Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(|item| convert(item, change)).collect(),
        other => other,
    }
}
