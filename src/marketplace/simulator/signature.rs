//! Signature version 4 (AWS General Reference), from the other end: sign again with what we know, and compare.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use http::{HeaderMap, Method, StatusCode, Uri};
use subtle::ConstantTimeEq;

use super::answer::{Refusal, refuse_a};
use super::world::{CloudA, World};

const SERVICE: &str = "aws-marketplace";
/// How far the caller's clock may be from the machine's.
const SKEW: TimeDelta = TimeDelta::minutes(5);

/// A request as it came.
pub struct Signed<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

/// The parts of the header `Authorization`.
struct Claim<'a> {
    access_key: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
    signed_headers: Vec<&'a str>,
    signature: &'a str,
}

impl<'a> Claim<'a> {
    fn read(header: &'a str) -> Option<Self> {
        let mut parts = header.strip_prefix("AWS4-HMAC-SHA256 ")?.split(',').map(str::trim);
        let credential = parts.next()?.strip_prefix("Credential=")?;
        let signed_headers = parts.next()?.strip_prefix("SignedHeaders=")?;
        let signature = parts.next()?.strip_prefix("Signature=")?;
        let scope: Vec<&str> = credential.split('/').collect();
        let [access_key, date, region, service, "aws4_request"] = *scope.as_slice() else { return None };
        Some(Self { access_key, date, region, service, signed_headers: signed_headers.split(';').collect(), signature })
    }
}

/// The publisher that signed a request.
pub fn verify(world: &World, request: &Signed) -> Result<String, Refusal> {
    find(world, request).ok_or_else(|| {
        let message = "the signature does not match what was sent, or is too old";
        refuse_a(StatusCode::FORBIDDEN, "InvalidSignatureException", message)
    })
}

fn find(world: &World, request: &Signed) -> Option<String> {
    let header = |name: &str| request.headers.get(name)?.to_str().ok();
    let claim = Claim::read(header("authorization")?)?;
    let stamp = header("x-amz-date")?;
    let time = NaiveDateTime::parse_from_str(stamp, "%Y%m%dT%H%M%SZ").ok()?.and_utc();
    let skew = (world.machine_now().as_datetime() - time).abs();
    if skew > SKEW || !stamp.starts_with(claim.date) || claim.service != SERVICE {
        return None;
    }
    if !["host", "x-amz-date"].iter().all(|needed| claim.signed_headers.contains(needed)) {
        return None;
    }
    let account = |account: &CloudA| account.access_key_id == claim.access_key && account.region == claim.region;
    let mut publishers = world.publishers.iter();
    let (name, publisher) = publishers.find(|(_, it)| it.cloud_a.as_ref().is_some_and(account))?;
    let expected = signature(publisher.cloud_a.as_ref()?, request, &claim, time)?;
    bool::from(expected.as_bytes().ct_eq(claim.signature.as_bytes())).then(|| name.clone())
}

fn signature(account: &CloudA, request: &Signed, claim: &Claim, time: DateTime<Utc>) -> Option<String> {
    let credentials = Credentials::new(&*account.access_key_id, &*account.secret_access_key, None, None, "publisher");
    let identity = credentials.into();
    let mut settings = SigningSettings::default();
    // Signed is what the caller says that it signed.
    settings.excluded_headers = None;
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&account.region)
        .name(SERVICE)
        .time(SystemTime::from(time))
        .settings(settings)
        .build()
        .ok()?
        .into();
    let mut headers = Vec::new();
    for name in claim.signed_headers.iter().filter(|name| **name != "x-amz-date") {
        headers.push((*name, request.headers.get(*name)?.to_str().ok()?));
    }
    let host = request.headers.get("host")?.to_str().ok()?;
    let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
    let body = SignableBody::Bytes(request.body);
    let signable =
        SignableRequest::new(request.method.as_str(), format!("http://{host}{path}"), headers.into_iter(), body)
            .ok()?;
    Some(sign(signable, &params).ok()?.into_parts().1)
}
