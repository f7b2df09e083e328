//! The face of a marketplace: what workers ask for without knowing which one it is.

use std::collections::BTreeMap;

use super::accounts::Account;
use super::cloud_a::CloudA;
use super::cloud_a::catalog::Change;
use super::cloud_a::metering::UsageRecord;
use super::cloud_b::CloudB;
use super::cloud_b::fulfillment::Subscription;
use super::cloud_b::metering::UsageEvent;
use super::http::{Client, MarketplaceError, Result};
use super::terms::{AcceptedUsage, Contract, Draft, Job, JobState, RowVerdict, UsageItem};
use crate::model::metering::Verdict;
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;

/// An account with what is remembered of it between calls: make one per account and keep it. Cheap to clone.
#[derive(Clone)]
pub enum Adapter {
    CloudA(CloudA),
    CloudB(CloudB),
}

impl Adapter {
    pub fn new(account: Account, client: Client) -> Self {
        match account {
            Account::CloudA(account) => Self::CloudA(CloudA::new(account, client)),
            Account::CloudB(account) => Self::CloudB(CloudB::new(account, client)),
        }
    }

    pub fn vendor(&self) -> Vendor {
        match self {
            Self::CloudA(_) => Vendor::CloudA,
            Self::CloudB(_) => Vendor::CloudB,
        }
    }

    /// Begins to publish an offer. To be repeated after a failure that is transient; what an earlier call has made is
    /// found again.
    pub async fn publish(&self, draft: &Draft) -> Result<Job> {
        match self {
            Self::CloudA(cloud) => Ok(submitted(cloud.publish(draft).await?, None)),
            Self::CloudB(cloud) => cloud.publish(draft).await,
        }
    }

    /// Begins to move the expiry of an offer that is published to what the record says.
    pub async fn change_expiry(&self, draft: &Draft) -> Result<Job> {
        let vendor_offer_id = published(draft)?;
        match self {
            Self::CloudA(cloud) => {
                let id = cloud.change(draft, Change::ChangeExpiry { vendor_offer_id }).await?;
                Ok(submitted(id, Some(vendor_offer_id)))
            }
            Self::CloudB(cloud) => cloud.change_expiry(draft, vendor_offer_id).await,
        }
    }

    /// Begins to take back an offer that is published and was not accepted.
    pub async fn withdraw(&self, draft: &Draft) -> Result<Job> {
        let vendor_offer_id = published(draft)?;
        match self {
            Self::CloudA(cloud) => {
                let id = cloud.change(draft, Change::Withdraw { vendor_offer_id }).await?;
                Ok(submitted(id, Some(vendor_offer_id)))
            }
            Self::CloudB(cloud) => cloud.withdraw(draft, vendor_offer_id).await,
        }
    }

    /// How far a job is.
    pub async fn job(&self, job: &Job) -> Result<JobState> {
        match (self, job) {
            (_, Job::Done { vendor_offer_id }) => Ok(JobState::Live { vendor_offer_id: vendor_offer_id.clone() }),
            (Self::CloudA(cloud), Job::Submitted { id, .. }) => cloud.change_set(id).await,
            (Self::CloudB(cloud), Job::Submitted { id, vendor_offer_id }) => {
                cloud.job(id, vendor_offer_id.as_deref()).await
            }
        }
    }

    /// The verdicts of the rows, in their order. What could not be said to the marketplace, or what it could not answer,
    /// is a `VENDOR_ERROR`: to be reported again.
    pub async fn report_usage(&self, items: Vec<UsageItem>) -> Vec<RowVerdict> {
        match self {
            Self::CloudA(cloud) => report_by_product(cloud, items).await,
            Self::CloudB(cloud) => {
                let rows: Vec<UsageEvent> = items.into_iter().map(event).collect();
                cloud.report_usage(&rows).await
            }
        }
    }

    /// Every contract that the marketplace has, whatever its state.
    pub async fn contracts(&self) -> Result<Vec<Contract>> {
        match self {
            Self::CloudA(cloud) => Ok(cloud.agreements().await?.into_iter().map(|listed| listed.contract).collect()),
            Self::CloudB(cloud) => {
                let subscriptions = cloud.subscriptions().await?;
                Ok(subscriptions.into_iter().map(Subscription::into_contract).collect())
            }
        }
    }

    /// The usage that the marketplace has accepted since, if it tells.
    pub async fn accepted_usage(&self, since: Timestamp) -> Result<Option<Vec<AcceptedUsage>>> {
        match self {
            Self::CloudA(_) => Ok(None),
            Self::CloudB(cloud) => cloud.accepted_usage(since).await.map(Some),
        }
    }
}

fn submitted(id: String, vendor_offer_id: Option<&str>) -> Job {
    Job::Submitted { id, vendor_offer_id: vendor_offer_id.map(str::to_owned) }
}

fn published(draft: &Draft) -> Result<&str> {
    draft.vendor_offer_id.as_deref().ok_or_else(|| MarketplaceError::Refused {
        status: 409,
        code: String::new(),
        message: "the offer is not published".to_owned(),
    })
}

/// One call takes one product.
async fn report_by_product(cloud: &CloudA, items: Vec<UsageItem>) -> Vec<RowVerdict> {
    let mut verdicts = vec![(Verdict::VendorError, None); items.len()];
    let mut products: BTreeMap<String, (Vec<usize>, Vec<UsageRecord>)> = BTreeMap::new();
    for (index, item) in items.into_iter().enumerate() {
        let (places, rows) = products.entry(item.product.clone()).or_default();
        places.push(index);
        rows.push(record(item));
    }
    for (product, (places, rows)) in products {
        let said = cloud.report_usage(&product, &rows).await;
        places.into_iter().zip(said).for_each(|(place, verdict)| verdicts[place] = verdict);
    }
    verdicts
}

fn record(item: UsageItem) -> UsageRecord {
    UsageRecord {
        account: item.customer,
        licence: item.licence,
        dimension: item.dimension,
        quantity: item.quantity,
        at: item.at,
    }
}

fn event(item: UsageItem) -> UsageEvent {
    UsageEvent {
        subscription: item.customer,
        plan: item.plan.unwrap_or_default(),
        dimension: item.dimension,
        quantity: item.quantity,
        at: item.at,
    }
}
