//! The sample organization: made once, through the resolvers that every caller uses.

use futures_util::{StreamExt, stream};

use crate::call::{Call, Caller};
use crate::error::Result;
use crate::model::application::{ApplicationInput, ApplicationWithSecret, RateLimits};
use crate::model::customer::{CustomerPatch, CustomerStatus, NewCustomer};
use crate::model::id::OrganizationId;
use crate::model::page::PageRequest;
use crate::model::scope::Scope;
use crate::model::vendor::Vendor;
use crate::resolvers::{applications, customers};
use crate::store::Store;

/// What the demo prints.
pub struct Credentials {
    pub organization: OrganizationId,
    /// All scopes, the documented limits.
    pub client: ApplicationWithSecret,
    /// All scopes, no limits.
    pub load_client: ApplicationWithSecret,
}

const ORGANIZATION: &str = "Aurora Software";
const CLIENT: &str = "Sample integration";
const LOAD_CLIENT: &str = "Load test";
/// Customers that are made at the same time; their writes queue in one lane anyway.
const PARALLEL: usize = 8;

/// Makes the organization, or finds it, and gives its two applications fresh secrets.
pub async fn fill(store: &Store, wanted: usize, progress: impl Fn(&str)) -> Result<Credentials> {
    let found = store.find_organization(ORGANIZATION).await?;
    let organization = match found {
        Some(organization) => organization,
        None => store.create_organization(ORGANIZATION).await?,
    };
    let call = Call::new(store.clone(), Caller::Operator { organization }, None);
    let client = credentials(&call, CLIENT, RateLimits::DOCUMENTED).await?;
    let load_client = credentials(&call, LOAD_CLIENT, RateLimits::UNLIMITED).await?;
    if customers::list(&call, PageRequest::from_query("limit=1")).await?.items.is_empty() {
        progress(&format!("Filling {ORGANIZATION} with {wanted} customers …"));
        make_customers(&call, wanted, progress).await?;
    }
    Ok(Credentials { organization, client, load_client })
}

async fn credentials(call: &Call, name: &str, limits: RateLimits) -> Result<ApplicationWithSecret> {
    let existing = applications::list(call, PageRequest::from_query("limit=100")).await?;
    if let Some(application) = existing.items.iter().find(|application| application.name == name) {
        return applications::regenerate_secret(call, &application.id.to_string()).await;
    }
    let input = ApplicationInput {
        name: Some(name.to_owned()),
        scopes: Some(Scope::ALL.to_vec()),
        ..ApplicationInput::default()
    };
    applications::create_with_limits(call, input, limits).await
}

async fn make_customers(call: &Call, wanted: usize, progress: impl Fn(&str)) -> Result<()> {
    let made = stream::iter((0..wanted).map(|index| make_customer(call, index))).buffered(PARALLEL);
    let mut made = std::pin::pin!(made.enumerate());
    while let Some((index, result)) = made.next().await {
        result?;
        if (index + 1) % 80 == 0 {
            progress(&format!("  {} of {wanted}", index + 1));
        }
    }
    Ok(())
}

/// One customer; every seventeenth has left.
async fn make_customer(call: &Call, index: usize) -> Result<()> {
    let made = customers::create(call, sample_customer(index)).await?;
    if index % 17 == 16 {
        let patch = CustomerPatch { status: Some(CustomerStatus::Inactive), ..CustomerPatch::default() };
        customers::update(call, &made.customer.id.to_string(), patch).await?;
    }
    Ok(())
}

const FIRST: [&str; 20] = [
    "Northwind",
    "Blue Harbor",
    "Summit",
    "Cedar",
    "Lakeside",
    "Ironwood",
    "Silverline",
    "Redwood",
    "Granite",
    "Maple",
    "Coastal",
    "Prairie",
    "Falcon",
    "Beacon",
    "Juniper",
    "Sterling",
    "Willow",
    "Orchard",
    "Tidewater",
    "Highland",
];
const SECOND: [&str; 12] = [
    "Analytics",
    "Logistics",
    "Health",
    "Foods",
    "Robotics",
    "Energy",
    "Media",
    "Insurance",
    "Textiles",
    "Mobility",
    "Security",
    "Education",
];
const FORM: [&str; 4] = ["Inc", "GmbH", "Ltd", "SA"];

/// The customer of a number: every pair of names once before any comes back.
fn sample_customer(index: usize) -> NewCustomer {
    let (first, second) = (FIRST[index % FIRST.len()], SECOND[(index / FIRST.len() + index) % SECOND.len()]);
    let vendor = if index % 5 < 3 { Vendor::CloudA } else { Vendor::CloudB };
    let mailbox = ["procurement", "billing", "it", "cloud"][index % 4];
    let host = first.to_ascii_lowercase().replace(' ', "-");
    let account = format!("{:012}", 104_729_u64.wrapping_mul(index as u64 + 7919) % 1_000_000_000_000);
    let tenant = format!("{:08x}-5c1e-4b7a-9d20-{:012x}", index * 7919 + 41, index * 104_729 + 977);
    let (cloud_account_id, tenant_id) = match vendor {
        Vendor::CloudA => (Some(account), None),
        Vendor::CloudB => (None, Some(tenant)),
    };
    NewCustomer {
        vendor: Some(vendor),
        company_name: Some(format!("{first} {second} {}", FORM[index % FORM.len()])),
        email: (index % 9 != 8).then(|| format!("{mailbox}@{host}-{}.example", second.to_ascii_lowercase())),
        cloud_account_id,
        tenant_id,
        ..NewCustomer::default()
    }
}
