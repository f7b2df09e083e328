//! What is created: as a facade asks it of the resolver, and as the block that the store would commit for it.

use mercato::call::{Call, Caller};
use mercato::clock::Clock;
use mercato::model::customer::{Customer, NewCustomer};
use mercato::model::decimal::Decimal;
use mercato::model::event::EventKind;
use mercato::model::id::{CustomerId, OrganizationId, PrivateOfferId};
use mercato::model::offer::Buyer;
use mercato::model::offer_input::NewOffer;
use mercato::model::offer_terms::Terms;
use mercato::model::vendor::Vendor;
use mercato::resolvers::{customers, offers};
use mercato::store::Store;

use crate::bare_block::{Block, Creation};
use crate::rows;
use crate::writes::Subject;

/// Customers of one organization.
pub struct Customers(OrganizationId);

impl Subject for Customers {
    const WHAT: &'static str = "creating customers durably, 32 organizations";
    type Request = NewCustomer;

    fn prepare(_: &Store, organization: OrganizationId) -> impl Future<Output = Self> {
        std::future::ready(Self(organization))
    }

    fn organization(&self) -> OrganizationId {
        self.0
    }

    fn request(&self, clock: &Clock) -> NewCustomer {
        new_customer(clock)
    }

    async fn create(call: &Call, request: NewCustomer) {
        customers::create(call, request).await.expect("the customer is new and breaks no rule");
    }

    /// From `src/store/customers.rs`.
    fn block(&self, clock: &Clock, _: i64) -> Block {
        let valid = new_customer(clock).check().expect("the bench's customers break no rule");
        let detail = valid.into_customer(CustomerId(clock.mint()), self.0);
        let customer = &detail.customer;
        let creation = Creation {
            table: "customer",
            save: "CREATE ONLY $record CONTENT $content RETURN NONE;",
            organization: self.0,
            id: customer.id.0,
            content: rows::customer(customer),
            words: rows::words_of_customer(customer),
            seen: None,
            kind: EventKind::CustomerCreated,
            vendor: customer.vendor,
            form: &detail,
        };
        creation.block(clock)
    }
}

/// Private offers to one customer.
pub struct Offers(Customer);

impl Subject for Offers {
    const WHAT: &'static str = "creating private offers durably, 32 organizations";
    type Request = NewOffer;

    async fn prepare(store: &Store, organization: OrganizationId) -> Self {
        let call = Call::new(store.clone(), Caller::Operator { organization }, None);
        let created = customers::create(&call, new_customer(store.clock())).await;
        Self(created.expect("the customer is new and breaks no rule").customer)
    }

    fn organization(&self) -> OrganizationId {
        self.0.organization_id
    }

    fn request(&self, _: &Clock) -> NewOffer {
        new_offer(&self.0)
    }

    async fn create(call: &Call, request: NewOffer) {
        offers::create(call, request).await.expect("the offer breaks no rule");
    }

    /// From `src/store/offers.rs`.
    fn block(&self, clock: &Clock, seen: i64) -> Block {
        let checked = new_offer(&self.0).check(PrivateOfferId(clock.mint()), Some(&self.0), None);
        let offer = checked.expect("the bench's offers break no rule");
        let creation = Creation {
            table: "private_offer",
            save: "UPSERT ONLY $record CONTENT $content RETURN NONE;",
            organization: offer.organization_id,
            id: offer.id.0,
            content: rows::offer(&offer),
            words: rows::words_of_offer(&offer),
            seen: Some(seen),
            kind: EventKind::PrivateOfferCreated,
            vendor: offer.vendor,
            form: &offer,
        };
        creation.block(clock)
    }
}

fn new_customer(clock: &Clock) -> NewCustomer {
    NewCustomer {
        vendor: Some(Vendor::CloudA),
        company_name: Some("Northwind Analytics Inc".to_owned()),
        email: Some("procurement@northwind-analytics.example".to_owned()),
        cloud_account_id: Some(clock.mint().to_string()),
        ..NewCustomer::default()
    }
}

/// An offer as most are: for a year, with a discount and one buyer to tell.
pub fn new_offer(customer: &Customer) -> NewOffer {
    let buyer = Buyer {
        name: "Purchasing of Northwind Analytics".to_owned(),
        email: "purchasing@northwind-analytics.example".to_owned(),
    };
    NewOffer {
        vendor: Some(customer.vendor),
        listing_id: Some("lst_analytics".to_owned()),
        customer_id: Some(customer.id.to_string()),
        terms: Terms {
            buyer_notifications: Some(vec![buyer]),
            discount_percentage: Some(Some(Decimal::from(15))),
            duration: Some(12),
            annual_value: Some(Some(Decimal::from(24_000))),
            ..Terms::default()
        },
        ..NewOffer::default()
    }
}
