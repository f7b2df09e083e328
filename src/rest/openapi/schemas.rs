//! The schemas and examples of what each operation takes and gives. Limits come from the model, so that the document and
//! the checks are one.

use serde_json::{Map, Value, json};

use crate::model::application::{self as applications, DESCRIPTION_MAX, NAME_MAX, TOKEN_LIFETIME};
use crate::model::customer::{self as customers, ACCOUNT_MAX, COMPANY_NAME_MAX, CustomerStatus};
use crate::model::entitlement::EntitlementStatus;
use crate::model::input::EMAIL_MAX;
use crate::model::operation::Operation;
use crate::model::scope::Scope;
use crate::model::vendor::Vendor;

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Text for people: not blank, no control characters.
fn text(max: usize) -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": max,
        "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    })
}

fn id(prefix: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^{prefix}_[0-9A-HJKMNP-TV-Z]{{26}}$") })
}

fn timestamp() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

fn email() -> Value {
    json!({ "type": ["string", "null"], "format": "email", "maxLength": EMAIL_MAX })
}

fn account() -> Value {
    json!({ "type": "string", "pattern": format!("^[A-Za-z0-9._:-]{{1,{ACCOUNT_MAX}}}$") })
}

/// An object with exactly these fields.
fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

fn field_errors() -> Value {
    let item = object(&["field", "message"], json!({ "field": { "type": "string" }, "message": { "type": "string" } }));
    json!({ "type": "array", "items": item })
}

/// `components.schemas`.
pub fn all() -> Value {
    json!({
        "Vendor": { "type": "string", "enum": Vendor::ALL },
        "Scope": { "type": "string", "enum": Scope::ALL },
        "Error": object(&["code", "message", "error"], json!({
            "code": { "type": "integer", "description": "The HTTP status." },
            "message": { "type": "string" },
            "errors": field_errors(),
            "retryAfter": { "type": "integer", "description": "Seconds; with 429." },
            "error": object(&["type", "message", "code"], json!({
                "type": { "type": "string" }, "message": { "type": "string" }, "code": { "type": "string" },
                "errors": field_errors(),
            })),
        })),
        "OAuthError": object(&["code", "message", "error", "error_description"], json!({
            "code": { "type": "integer" }, "message": { "type": "string" },
            "error": { "type": "string" }, "error_description": { "type": "string" },
            "retryAfter": { "type": "integer" },
        })),
        "Customer": customer(false),
        "CustomerDetail": customer(true),
        "EntitlementSummary": object(&["id", "listingId", "status"], json!({
            "id": id("ent"), "listingId": { "type": "string" },
            "status": { "type": "string", "enum": EntitlementStatus::ALL },
        })),
        "NewCustomer": new_customer(),
        "CustomerPatch": customer_patch(),
        "Application": application(false),
        "ApplicationWithSecret": application(true),
        "NewApplication": application_input(&["name", "scopes"], Map::new()),
        "ApplicationPatch": application_input(&[], echo(&applications::READ_ONLY)),
    })
}

fn customer(detail: bool) -> Value {
    let mut schema = object(
        &[
            "id",
            "organizationId",
            "vendor",
            "cloudAccountId",
            "tenantId",
            "email",
            "companyName",
            "status",
            "createdAt",
            "updatedAt",
        ],
        json!({
            "id": id("cus"), "organizationId": id("org"), "vendor": reference("Vendor"),
            "cloudAccountId": { "type": ["string", "null"], "description": "The account id of a `cloud_a` customer." },
            "tenantId": { "type": ["string", "null"], "description": "The tenant id of a `cloud_b` customer." },
            "email": { "type": ["string", "null"] },
            "companyName": { "type": "string" },
            "status": {
                "type": "string",
                "enum": [CustomerStatus::Active, CustomerStatus::Suspended, CustomerStatus::Inactive],
            },
            "createdAt": timestamp(), "updatedAt": timestamp(),
        }),
    );
    if detail {
        schema["properties"]["entitlements"] = json!({ "type": "array", "items": reference("EntitlementSummary") });
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!("entitlements"));
        }
    }
    schema
}

/// One form for each vendor, because each identifies its customers in its own field.
fn new_customer() -> Value {
    let form = |vendor: Vendor, field: &str, other: &str| {
        let mut properties = json!({
            "vendor": { "type": "string", "const": vendor },
            "companyName": text(COMPANY_NAME_MAX),
            "email": email(),
        });
        properties[field] = account();
        properties[other] = json!({ "type": "null" });
        object(&["vendor", "companyName", field], properties)
    };
    json!({ "oneOf": [
        form(Vendor::CloudA, "cloudAccountId", "tenantId"),
        form(Vendor::CloudB, "tenantId", "cloudAccountId"),
    ] })
}

fn application(with_secret: bool) -> Value {
    let mut schema = object(
        &[
            "id",
            "organizationId",
            "name",
            "description",
            "scopes",
            "clientId",
            "createdAt",
            "updatedAt",
            "lastUsedAt",
            "secretRotatedAt",
        ],
        json!({
            "id": id("app"), "organizationId": id("org"),
            "name": { "type": "string" }, "description": { "type": "string" },
            "scopes": { "type": "array", "items": reference("Scope") },
            "clientId": { "type": "string" },
            "createdAt": timestamp(), "updatedAt": timestamp(), "secretRotatedAt": timestamp(),
            "lastUsedAt": {
                "type": ["string", "null"], "format": "date-time", "description": "When it last obtained a token.",
            },
        }),
    );
    if with_secret {
        schema["properties"]["clientSecret"] = json!({ "type": "string", "description": "Shown once." });
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!("clientSecret"));
        }
    }
    schema
}

fn application_input(required: &[&str], mut properties: Map<String, Value>) -> Value {
    properties.insert("name".to_owned(), text(NAME_MAX));
    let description = json!({ "anyOf": [{ "type": "string", "maxLength": 0 }, text(DESCRIPTION_MAX)] });
    properties.insert("description".to_owned(), description);
    let scopes = json!({ "type": "array", "minItems": 1, "items": reference("Scope") });
    properties.insert("scopes".to_owned(), scopes);
    object(required, properties.into())
}

fn customer_patch() -> Value {
    let mut properties = echo(&customers::READ_ONLY);
    properties.insert("email".to_owned(), email());
    properties.insert("companyName".to_owned(), text(COMPANY_NAME_MAX));
    let statuses = [CustomerStatus::Active, CustomerStatus::Inactive];
    properties.insert("status".to_owned(), json!({ "type": "string", "enum": statuses }));
    object(&[], properties.into())
}

/// Scopes, space-separated.
fn scope_pattern() -> String {
    let one = format!("({})", Scope::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join("|"));
    format!("^{one}( {one})*$")
}

/// What a client may send back as it read it: accepted with its current value, refused with another.
fn echo(fields: &[&str]) -> Map<String, Value> {
    let echoed = json!({ "description": "May be sent back as it was read; cannot be changed." });
    fields.iter().map(|field| ((*field).to_owned(), echoed.clone())).collect()
}

fn json_body(schema: &str, example: Value) -> Value {
    json!({
        "required": true,
        "content": { "application/json": { "schema": reference(schema), "example": example } },
    })
}

fn form_body(properties: Value, required: &[&str], example: Value) -> Value {
    // Other fields are ignored (RFC 6749 §3.2), each at most once.
    let schema = json!({
        "type": "object", "required": required, "properties": properties, "additionalProperties": { "type": "string" },
    });
    json!({
        "required": true,
        "content": { "application/x-www-form-urlencoded": { "schema": schema, "example": example } },
    })
}

/// What an operation takes, if anything.
pub fn request_body(operation: Operation) -> Option<Value> {
    let string = || json!({ "type": "string" });
    let about_token = || {
        form_body(
            json!({ "token": { "type": "string", "minLength": 1 }, "client_id": string(), "client_secret": string() }),
            &["token"],
            json!({ "token": "mct_...", "client_id": "mci_...", "client_secret": "mcs_..." }),
        )
    };
    Some(match operation {
        Operation::TokenIssue => form_body(
            json!({
                "grant_type": { "type": "string", "const": "client_credentials" },
                "client_id": string(), "client_secret": string(),
                "scope": { "type": "string", "pattern": scope_pattern(), "description": "Narrows the token to these scopes, space-separated." },
            }),
            &["grant_type"],
            json!({ "grant_type": "client_credentials", "client_id": "mci_...", "client_secret": "mcs_..." }),
        ),
        Operation::TokenRevoke | Operation::TokenIntrospect => about_token(),
        Operation::ApplicationsCreate => {
            json_body("NewApplication", application_example(&["name", "description", "scopes"]))
        }
        Operation::ApplicationsUpdate => json_body("ApplicationPatch", application_example(&["name", "description"])),
        Operation::CustomersCreate => {
            json_body("NewCustomer", customer_example(&["vendor", "cloudAccountId", "email", "companyName"]))
        }
        Operation::CustomersUpdate => json_body("CustomerPatch", json!({ "email": "billing@northwind.example" })),
        Operation::ApplicationsList
        | Operation::ApplicationsGet
        | Operation::ApplicationsRegenerateSecret
        | Operation::ApplicationsDelete
        | Operation::CustomersList
        | Operation::CustomersGet
        | Operation::CustomersDelete => return None,
    })
}

/// Some fields of an example.
fn only(example: &Value, fields: &[&str]) -> Value {
    fields.iter().map(|field| ((*field).to_owned(), example[*field].clone())).collect::<serde_json::Map<_, _>>().into()
}

fn customer_example(fields: &[&str]) -> Value {
    only(&full_customer(), fields)
}

fn full_customer() -> Value {
    json!({
        "id": "cus_01KE6X17G0C9ZQ4T8V2N5B7XKD", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP", "vendor": "cloud_a",
        "cloudAccountId": "123456789012", "tenantId": null, "email": "ops@northwind.example",
        "companyName": "Northwind Analytics", "status": "active",
        "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-01-05T10:00:00.000Z",
    })
}

fn application_example(fields: &[&str]) -> Value {
    only(&full_application(), fields)
}

fn full_application() -> Value {
    json!({
        "id": "app_01KE6X17G0C9ZQ4T8V2N5B7XKD", "organizationId": "org_01KE6X0MRGW3T5Y8J1R6F4HSAP",
        "name": "Billing sync", "description": "Nightly export", "scopes": ["read:customers"],
        "clientId": "mci_8q3Zt0vYb1xN4kLw7uFh2A", "createdAt": "2026-01-05T10:00:00.000Z",
        "updatedAt": "2026-01-05T10:00:00.000Z", "lastUsedAt": null, "secretRotatedAt": "2026-01-05T10:00:00.000Z",
    })
}

/// Schema and example of an operation's success.
pub fn success(operation: Operation) -> Value {
    let wrapped = |data: Value, example: Value| {
        let code = operation.spec().status;
        json!({
            "schema": object(&["code", "data"], json!({ "code": { "type": "integer", "const": code }, "data": data })),
            "example": { "code": code, "data": example },
        })
    };
    let list = |item: &str, example: Value| {
        let data = object(
            &["items", "nextCursor"],
            json!({
                "items": { "type": "array", "items": reference(item) },
                "nextCursor": { "type": ["string", "null"], "description": "Null on the last page." },
            }),
        );
        wrapped(data, json!({ "items": [example], "nextCursor": null }))
    };
    let deleted = |prefix: &str, example: &Value| {
        let data =
            object(&["id", "status"], json!({ "id": id(prefix), "status": { "type": "string", "const": "deleted" } }));
        wrapped(data, json!({ "id": example["id"], "status": "deleted" }))
    };
    let mut detail = full_customer();
    detail["entitlements"] = json!([
        { "id": "ent_01KE6X2V5Z8M1P3R6T9W4YBCFH", "listingId": "lst_analytics_pro", "status": "active" },
    ]);
    let mut with_secret = full_application();
    with_secret["clientSecret"] = json!("mcs_...");
    match operation {
        Operation::TokenIssue => token(),
        Operation::TokenRevoke => json!({ "schema": object(&[], json!({})), "example": {} }),
        Operation::TokenIntrospect => introspection(),
        Operation::ApplicationsList => list("Application", full_application()),
        Operation::ApplicationsGet | Operation::ApplicationsUpdate => {
            wrapped(reference("Application"), full_application())
        }
        Operation::ApplicationsCreate | Operation::ApplicationsRegenerateSecret => {
            wrapped(reference("ApplicationWithSecret"), with_secret)
        }
        Operation::ApplicationsDelete => deleted("app", &full_application()),
        Operation::CustomersList => list("Customer", full_customer()),
        Operation::CustomersGet | Operation::CustomersCreate | Operation::CustomersUpdate => {
            wrapped(reference("CustomerDetail"), detail)
        }
        Operation::CustomersDelete => deleted("cus", &full_customer()),
    }
}

fn token() -> Value {
    let schema = object(
        &["access_token", "token_type", "expires_in", "scope"],
        json!({
            "access_token": { "type": "string", "description": "Opaque." },
            "token_type": { "type": "string", "const": "Bearer" },
            "expires_in": { "type": "integer", "const": TOKEN_LIFETIME, "description": "Seconds." },
            "scope": { "type": "string", "pattern": scope_pattern(), "description": "The granted scopes, space-separated." },
        }),
    );
    json!({ "schema": schema, "example": {
        "access_token": "mct_...", "token_type": "Bearer", "expires_in": TOKEN_LIFETIME,
        "scope": "read:customers write:customers",
    } })
}

fn introspection() -> Value {
    let schema = object(
        &["active"],
        json!({
            "active": { "type": "boolean" },
            "scope": { "type": "string" }, "client_id": { "type": "string" }, "token_type": { "type": "string" },
            "exp": { "type": "integer" }, "iat": { "type": "integer" },
        }),
    );
    json!({ "schema": schema, "example": { "active": false } })
}
