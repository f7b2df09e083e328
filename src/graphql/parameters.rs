//! The four parameters of a GraphQL request: from a body, from a query string, from a message of a socket.

use async_graphql::Variables;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::http::json;
use crate::model::input::Problems;

pub struct Parameters {
    pub query: String,
    pub operation_name: Option<String>,
    pub variables: Map<String, Value>,
}

impl Parameters {
    pub fn into_request(self) -> async_graphql::Request {
        let mut request =
            async_graphql::Request::new(self.query).variables(Variables::from_json(Value::Object(self.variables)));
        request.operation_name = self.operation_name;
        request
    }

    pub fn from_body(parsed: Result<Value, String>) -> Result<Self, Error> {
        let body = parsed.map_err(|reason| Error::malformed("body", reason))?;
        let Value::Object(body) = body else {
            return Err(Error::malformed("body", "must be a JSON object; batches are not supported"));
        };
        Self::from_object(body)
    }

    pub fn from_object(mut object: Map<String, Value>) -> Result<Self, Error> {
        let query = object.remove("query");
        let name = object.remove("operationName");
        build(query, name, object.remove("variables"), object.remove("extensions"))
    }

    pub fn from_query(query: &str) -> Result<Self, Error> {
        let mut fields: Map<String, Value> = Map::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            fields.insert(name.into_owned(), Value::String(value.into_owned()));
        }
        let mut parsed = |name: &'static str| match fields.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => {
                json::parse(text.as_bytes()).map(Some).map_err(|reason| Error::malformed(name, reason))
            }
            _ => Ok(None),
        };
        let (variables, extensions) = (parsed("variables")?, parsed("extensions")?);
        let name = fields.remove("operationName").filter(|name| name.as_str() != Some(""));
        build(fields.remove("query"), name, variables, extensions)
    }
}

/// Checks the types of the parameters. Others than the four are ignored, as the draft demands.
fn build(
    query: Option<Value>,
    name: Option<Value>,
    variables: Option<Value>,
    extensions: Option<Value>,
) -> Result<Parameters, Error> {
    let mut problems = Problems::default();
    let query = match query {
        Some(Value::String(query)) => query,
        None | Some(Value::Null) => {
            problems.malformed("query", "is required");
            String::new()
        }
        Some(_) => {
            problems.malformed("query", "must be a string");
            String::new()
        }
    };
    let operation_name = match name {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => {
            problems.malformed("operationName", "must be a string");
            None
        }
    };
    let mut object = |field: &str, value: Option<Value>| match value {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(object)) => object,
        Some(_) => {
            problems.malformed(field, "must be an object");
            Map::new()
        }
    };
    let variables = object("variables", variables);
    object("extensions", extensions);
    problems.raise()?;
    Ok(Parameters { query, operation_name, variables })
}
