//! Usage reports in the store, with the slots that they take and the remainders that they carry.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use surrealdb::types::{Array, Object, RecordId, RecordIdKey, SurrealValue, Value};

use ulid::Ulid;

use super::documents::{Owned, body, listed_columns};
use super::write::Block;
use super::{Tenant, vars};
use crate::error::{Error, Result};
use crate::model::decimal::Decimal;
use crate::model::filter::{Filter, Order, OrderBy};
use crate::model::id::{CustomerId, MeteringId};
use crate::model::metering::{Meter, MeteringSubmission, Slot};
use crate::model::page::{Page, Window};

const TABLE: &str = "metering";

impl Owned for MeteringSubmission {
    const TABLE: &'static str = TABLE;

    fn owner(&self) -> CustomerId {
        self.details.customer.id
    }

    fn ulid(&self) -> Ulid {
        self.id.0
    }
}

/// What a report is planned from.
pub struct MeteringSeen {
    /// Slots of the report that another one holds.
    pub taken: Vec<(Slot, MeteringId)>,
    pub remainders: BTreeMap<Meter, Decimal>,
}

#[derive(SurrealValue)]
struct SlotRow {
    id: RecordId,
    holder: String,
}

#[derive(SurrealValue)]
struct RemainderRow {
    id: RecordId,
    owed: Decimal,
}

#[derive(SurrealValue)]
struct SeenRow {
    slots: Vec<SlotRow>,
    remainders: Vec<RemainderRow>,
}

const SEEN: &str = "RETURN {
    slots: (SELECT * FROM $slots),
    remainders: (SELECT * FROM $meters)
}";

/// Remainders tell of themselves in no event, so each is compared with what the plan read of it.
const CARRY: &str = "FOR $meter IN $meters {
    IF $meter.id.owed != $meter.was { THROW 'moved' };
    UPSERT ONLY $meter.id SET owed = $meter.owed RETURN NONE;
};";

impl Tenant {
    pub async fn list_metering(
        &self,
        filter: &Filter,
        order: Order,
        window: Window,
    ) -> Result<Page<MeteringSubmission>> {
        self.list_documents(TABLE, filter, order, window).await
    }

    pub async fn get_metering(&self, id: MeteringId) -> Result<MeteringSubmission> {
        self.find_document(TABLE, id.key()).await?.ok_or(Error::NOT_FOUND)
    }

    /// The newest reports of each customer, in one query.
    pub async fn metering_of_each(
        &self,
        customers: &[CustomerId],
        limit: usize,
    ) -> Result<HashMap<CustomerId, Page<Arc<MeteringSubmission>>>> {
        self.children(customers, limit).await
    }

    /// For planners: what stands in the way of a report, and what it is billed with.
    pub async fn see_metering(&self, report: &MeteringSubmission) -> Result<MeteringSeen> {
        let customer = report.details.customer.id;
        let vars = vars! {
            "slots" => report.slots().map(|slot| self.slot_record(&slot)).collect::<Vec<_>>(),
            "meters" => report.meters().iter().map(|meter| self.meter_record(meter)).collect::<Vec<_>>(),
        };
        let found: Option<SeenRow> = self.store.ask(SEEN, vars).await?;
        let SeenRow { slots, remainders } = found.ok_or_else(broken)?;
        let taken = slots.into_iter().map(|row| {
            let holder =
                MeteringId::from_key(&row.holder).ok_or_else(|| Error::internal("a slot's holder is broken"))?;
            let [listing, dimension, hour] = rest_of(&row.id)?;
            let (listing, dimension) = (text(listing)?, text(dimension)?);
            Ok((Slot { customer, listing, dimension, hour: number(&hour)? }, holder))
        });
        Ok(MeteringSeen { taken: taken.collect::<Result<_>>()?, remainders: remainders_of(customer, remainders)? })
    }

    /// For planners: a report and the remainders of its meters.
    pub async fn see_settlement(&self, id: MeteringId) -> Result<(MeteringSubmission, BTreeMap<Meter, Decimal>)> {
        let report = self.get_metering(id).await?;
        let meters: Vec<RecordId> = report.meters().iter().map(|meter| self.meter_record(meter)).collect();
        let rows = self.store.ask("SELECT * FROM $meters", vars! { "meters" => meters }).await?;
        let remainders = remainders_of(report.details.customer.id, rows)?;
        Ok((report, remainders))
    }

    /// The statements that take a report in: slots first, each by its key, so that whoever is second fails.
    pub fn take_metering(&self, report: &MeteringSubmission, carried: Block) -> Result<Block> {
        const TAKE: &str = "IF $customer.id = NONE { THROW 'moved' };
            INSERT INTO metering_slot $slots RETURN NONE;";
        let holder = report.id.key();
        let slot = |slot: Slot| vars! { "id" => self.slot_record(&slot), "holder" => holder.clone() };
        let vars = vars! {
            "customer" => self.record("customer", report.details.customer.id.key()),
            "slots" => report.slots().map(slot).collect::<Vec<Object>>(),
        };
        Ok(Block::default().then(TAKE, vars).and(carried).and(self.save_metering(report)?))
    }

    /// The statements that bring a report to its next form, and fail if it was moved meanwhile: not every step of one is
    /// told in an event.
    pub fn move_metering(&self, from: &MeteringSubmission, to: &MeteringSubmission) -> Result<Block> {
        const SAME: &str = "IF $metering.body != $metering_was { THROW 'moved' };";
        Ok(Block::default().then(SAME, vars! { "metering_was" => body(from)? }).and(self.save_metering(to)?))
    }

    fn save_metering(&self, report: &MeteringSubmission) -> Result<Block> {
        const SAVE: &str = "UPSERT ONLY $metering CONTENT $metering_content RETURN NONE;";
        let order = OrderBy::Moment(Some(report.details.reporting_date));
        let mut content = listed_columns(self.organization.to_string(), report.id.0, &order);
        content.extend(vars! {
            "vendor" => report.vendor,
            "customer" => report.details.customer.id.key(),
            "listing_id" => report.listing_id.clone(),
            "status" => report.status.as_str(),
            "body" => body(report)?,
        });
        let vars = vars! { "metering" => self.record(TABLE, report.id.key()), "metering_content" => content };
        Ok(Block::default().then(SAVE, vars).and(self.save_child(report, body(report)?)))
    }

    /// The statements that move remainders from what was read to what they are now.
    pub fn carry(&self, from: &BTreeMap<Meter, Decimal>, to: &BTreeMap<Meter, Decimal>) -> Block {
        let changed = to.iter().filter(|(meter, owed)| from.get(meter) != Some(owed));
        let row = |(meter, owed): (&Meter, &Decimal)| {
            vars! { "id" => self.meter_record(meter), "was" => from.get(meter).copied(), "owed" => *owed }
        };
        let rows: Vec<Object> = changed.map(row).collect();
        if rows.is_empty() { Block::default() } else { Block::default().then(CARRY, vars! { "meters" => rows }) }
    }

    /// The statements that free the slots of rows that the marketplace holds nothing of.
    pub fn free_slots(&self, slots: impl Iterator<Item = Slot>) -> Block {
        let records: Vec<RecordId> = slots.map(|slot| self.slot_record(&slot)).collect();
        Block::default().then("DELETE $free_slots;", vars! { "free_slots" => records })
    }

    fn slot_record(&self, slot: &Slot) -> RecordId {
        let parts = [slot.listing.as_str().into_value(), slot.dimension.as_str().into_value(), slot.hour.into_value()];
        self.customers_record("metering_slot", slot.customer, parts)
    }

    fn meter_record(&self, (customer, listing, dimension): &Meter) -> RecordId {
        let parts = [listing.as_str().into_value(), dimension.as_str().into_value()];
        self.customers_record("metering_remainder", *customer, parts)
    }

    fn customers_record<const N: usize>(
        &self,
        table: &'static str,
        customer: CustomerId,
        rest: [Value; N],
    ) -> RecordId {
        let mut parts = vec![self.organization.to_string().into_value(), customer.key().into_value()];
        parts.extend(rest);
        RecordId::new(table, Array::from(parts))
    }
}

/// What follows the organization and the customer in a key.
fn rest_of<const N: usize>(id: &RecordId) -> Result<[Value; N]> {
    let RecordIdKey::Array(parts) = &id.key else { return Err(broken()) };
    parts.iter().skip(2).cloned().collect::<Vec<_>>().try_into().map_err(|_| broken())
}

fn text(value: Value) -> Result<String> {
    String::from_value(value).map_err(|_| broken())
}

fn number(value: &Value) -> Result<i64> {
    i64::from_value(value.clone()).map_err(|_| broken())
}

fn broken() -> Error {
    Error::internal("a metering key is broken")
}

fn remainders_of(customer: CustomerId, rows: Vec<RemainderRow>) -> Result<BTreeMap<Meter, Decimal>> {
    let remainder = |row: RemainderRow| {
        let [listing, dimension] = rest_of(&row.id)?;
        Ok(((customer, text(listing)?, text(dimension)?), row.owed))
    };
    rows.into_iter().map(remainder).collect()
}
