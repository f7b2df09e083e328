//! The media types of GraphQL over HTTP: which one an `Accept` header asks for.

use http::{HeaderMap, header};

/// The two forms of a GraphQL answer. They differ in when a status other than 200 is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/graphql-response+json`: the status tells whether the request could be run.
    Response,
    /// `application/json`: a well-formed request is answered with 200 whatever comes of it.
    Json,
}

impl Form {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Response => "application/graphql-response+json; charset=utf-8",
            Self::Json => "application/json; charset=utf-8",
        }
    }

    /// The form with the highest weight, in the client's order where weights tie; `None` when it takes neither.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let values: Vec<&str> =
            headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        if values.is_empty() {
            return Some(Self::Json);
        }
        let mut best: Option<(Self, f32)> = None;
        for range in values.iter().flat_map(|value| value.split(',')) {
            let (form, weight) = read_range(range)?;
            if let Some(form) = form
                && weight > best.map_or(0.0, |(_, weight)| weight)
            {
                best = Some((form, weight));
            }
        }
        best.map(|(form, _)| form)
    }
}

/// One media range and its weight; the form is none when the range is of no use to us.
fn read_range(range: &str) -> Option<(Option<Form>, f32)> {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next()?.to_ascii_lowercase();
    let weight = parts.find_map(|parameter| parameter.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
    let form = match kind.as_str() {
        "application/graphql-response+json" => Some(Form::Response),
        "application/json" | "application/*" | "*/*" => Some(Form::Json),
        _ => None,
    };
    Some((form, weight))
}
