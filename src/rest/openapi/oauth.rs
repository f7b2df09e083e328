//! What the token endpoints take and give (RFC 6749, 7009, 7662).

use serde_json::{Value, json};

use super::parts::{object, record};
use crate::model::application::TOKEN_LIFETIME;
use crate::model::scope::Scope;

/// Scopes, space-separated.
fn scope_pattern() -> String {
    let one = format!("({})", Scope::ALL.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join("|"));
    format!("^{one}( {one})*$")
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

pub fn token_request() -> Value {
    let string = json!({ "type": "string" });
    form_body(
        json!({
            "grant_type": { "type": "string", "const": "client_credentials" },
            "client_id": string, "client_secret": string,
            "scope": {
                "type": "string", "pattern": scope_pattern(),
                "description": "Narrows the token to these scopes, space-separated.",
            },
        }),
        &["grant_type"],
        json!({ "grant_type": "client_credentials", "client_id": "mci_...", "client_secret": "mcs_..." }),
    )
}

/// A request about a token that was issued before.
pub fn about_token() -> Value {
    let string = json!({ "type": "string" });
    form_body(
        json!({ "token": { "type": "string", "minLength": 1 }, "client_id": string, "client_secret": string }),
        &["token"],
        json!({ "token": "mct_...", "client_id": "mci_...", "client_secret": "mcs_..." }),
    )
}

/// For secret scanners.
const TOKEN_FORM: &str = "Opaque. For secret scanners: `mct_([a-z]+_)?[A-Za-z0-9_-]{49}`; client secrets begin with `mcs_` \
    instead. Those of staging go on with `test_`, those of a demo with `demo_`. The last six characters are base64url of the \
    first four bytes of the SHA-256 of all before them.";

pub fn token() -> Value {
    let schema = record(json!({
        "access_token": { "type": "string", "description": TOKEN_FORM },
        "token_type": { "type": "string", "const": "Bearer" },
        "expires_in": { "type": "integer", "const": TOKEN_LIFETIME, "description": "Seconds." },
        "scope": {
            "type": "string", "pattern": scope_pattern(), "description": "The granted scopes, space-separated.",
        },
    }));
    json!({ "schema": schema, "example": {
        "access_token": "mct_...", "token_type": "Bearer", "expires_in": TOKEN_LIFETIME,
        "scope": "read:customers write:customers",
    } })
}

pub fn revocation() -> Value {
    json!({ "schema": object(&[], json!({})), "example": {} })
}

pub fn introspection() -> Value {
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
