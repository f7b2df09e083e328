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

const CUSTOMER: &str = "id organizationId vendor cloudAccountId tenantId email companyName status createdAt updatedAt \
                        entitlements { id listingId status }";

impl Facade {
    pub async fn create_customer(self, party: &Party, input: Value) -> Outcome {
        match self {
            Self::Rest => rest(&party.post("/api/v1/customers", &input).await),
            Self::Graphql => {
                let query = format!(
                    "mutation ($input: CreateCustomerInput!) {{ it: createCustomer(input: $input) \
                     {{ customer {{ {CUSTOMER} }} userErrors {{ field message code }} }} }}"
                );
                graphql(&party.graphql(&query, json!({ "input": shout(input) })).await)
            }
        }
    }

    pub async fn customer(self, party: &Party, id: &str) -> Outcome {
        match self {
            Self::Rest => rest(&party.get(&format!("/api/v1/customers/{id}")).await),
            Self::Graphql => {
                let query = format!("query ($id: ID!) {{ it: customer(id: $id) {{ {CUSTOMER} }} }}");
                graphql(&party.graphql(&query, json!({ "id": id })).await)
            }
        }
    }

    /// A page: its items without `entitlements`, and the cursor of the next one.
    pub async fn customers(self, party: &Party, limit: i64, cursor: Option<&str>) -> Outcome {
        match self {
            Self::Rest => {
                let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
                rest(&party.get(&format!("/api/v1/customers?limit={limit}{cursor}")).await)
            }
            Self::Graphql => {
                let fields = CUSTOMER.split(" entitlements").next().unwrap_or_default();
                let query = format!(
                    "query ($first: Int, $after: String) {{ it: customers(first: $first, after: $after) \
                     {{ items: nodes {{ {fields} }} pageInfo {{ hasNextPage endCursor }} }} }}"
                );
                graphql(&party.graphql(&query, json!({ "first": limit, "after": cursor })).await)
            }
        }
    }

    pub async fn update_customer(self, party: &Party, id: &str, patch: Value) -> Outcome {
        match self {
            Self::Rest => rest(&party.put(&format!("/api/v1/customers/{id}"), &patch).await),
            Self::Graphql => {
                let query = format!(
                    "mutation ($id: ID!, $input: UpdateCustomerInput!) {{ it: updateCustomer(id: $id, input: $input) \
                     {{ customer {{ {CUSTOMER} }} userErrors {{ field message code }} }} }}"
                );
                graphql(&party.graphql(&query, json!({ "id": id, "input": shout(patch) })).await)
            }
        }
    }

    pub async fn delete_customer(self, party: &Party, id: &str) -> Outcome {
        match self {
            Self::Rest => rest(&party.delete(&format!("/api/v1/customers/{id}")).await),
            Self::Graphql => {
                let query = "mutation ($id: ID!) { it: deleteCustomer(id: $id) \
                             { customer { id status } userErrors { field message code } } }";
                graphql(&party.graphql(query, json!({ "id": id })).await)
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
    it.get("customer").unwrap_or(it).clone()
}

fn failure(status: u16, code: &Value, message: &Value, errors: &Value) -> Outcome {
    json!({ "status": status, "code": code, "message": message, "errors": errors })
}

const ENUMS: [&str; 2] = ["vendor", "status"];

/// REST's words as GraphQL's enums.
fn shout(input: Value) -> Value {
    convert(input, &str::to_ascii_uppercase)
}

/// GraphQL's enums as REST's words.
fn whisper(output: Value) -> Value {
    convert(output, &str::to_ascii_lowercase)
}

fn convert(value: Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| match value {
                Value::String(text) if ENUMS.contains(&name.as_str()) => (name, Value::String(change(&text))),
                other => (name, convert(other, change)),
            };
            Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(|item| convert(item, change)).collect(),
        other => other,
    }
}
