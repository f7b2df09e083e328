//! The media types of GraphQL over HTTP: which one an `Accept` header asks for.

use http::{HeaderMap, header};

/// The forms of a GraphQL answer. The first two differ in when a status other than 200 is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/graphql-response+json`: the status tells whether the request could be run.
    Response,
    /// `application/json`: a well-formed request is answered with 200 whatever comes of it.
    Json,
    /// `text/event-stream` (graphql-sse): results as events.
    Stream,
}

impl Form {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Response => "application/graphql-response+json; charset=utf-8",
            Self::Json => "application/json; charset=utf-8",
            Self::Stream => "text/event-stream; charset=utf-8",
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Response => "application/graphql-response+json",
            Self::Json => "application/json",
            Self::Stream => "text/event-stream",
        }
    }

    /// The form with the highest weight, in the client's order where weights tie; `None` when it takes none.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let ranges = ranges(headers);
        if ranges.is_empty() {
            return Some(Self::Json);
        }
        // Of equals the last one counts.
        let forms = [Self::Stream, Self::Response, Self::Json].into_iter();
        let wanted = forms.filter_map(|form| form.wanted(&ranges).map(|weight| (weight, form)));
        wanted.max_by_key(|(weight, _)| *weight).map(|(_, form)| form)
    }

    /// How much this form is wanted: its weight, then how early it comes. The most specific range decides (RFC 9110
    /// §12.5.1).
    fn wanted(self, ranges: &[Range]) -> Option<(u32, usize)> {
        let specificity = |range: &Range| match range.kind.as_str() {
            kind if kind == self.media_type() => 3,
            // Who takes anything does not ask for a stream.
            _ if self == Self::Stream => 0,
            "application/*" => 2,
            "*/*" => 1,
            _ => 0,
        };
        let matching = ranges.iter().enumerate().filter(|(_, range)| specificity(range) > 0);
        let (index, range) = matching.max_by_key(|(_, range)| specificity(range))?;
        (range.weight > 0).then_some((range.weight, ranges.len() - index))
    }
}

/// Whether event streams are taken, whatever else is liked better.
pub fn takes_stream(headers: &HeaderMap) -> bool {
    Form::Stream.wanted(&ranges(headers)).is_some()
}

fn ranges(headers: &HeaderMap) -> Vec<Range> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(Range::read).collect()
}

/// One media range, and its weight in thousandths.
struct Range {
    kind: String,
    weight: u32,
}

impl Range {
    fn read(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|parameter| parameter.strip_prefix("q=")).map_or(1000, thousandths);
        Self { kind, weight }
    }
}

/// `1`, `0.5`, `0.123`; what is none of these counts as refused.
fn thousandths(weight: &str) -> u32 {
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    let number = format!("{whole}{fraction:0<3}");
    if fraction.len() > 3 { 0 } else { number.parse().unwrap_or(0).min(1000) }
}
