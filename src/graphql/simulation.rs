//! Rehearsals over GraphQL: only in staging and in the demo there is something behind these mutations.

use std::sync::Arc;

use async_graphql::{Context, ID, InputObject, Json, Object, Result};
use serde::Serialize;
use serde_json::Value;

use super::call;
use super::connections::payload;
use crate::marketplace::stage::Stage;
use crate::model::simulation::{Action, Decision, Simulated};
use crate::model::time::Timestamp;
use crate::model::vendor::Vendor;
use crate::resolvers::simulation;

/// What the simulator did.
pub struct Simulation(Simulated);

#[Object]
impl Simulation {
    /// Of the subscription or the agreement that it is about.
    async fn id(&self) -> Option<ID> {
        self.0.id.clone().map(ID)
    }
    /// The purchase token with which a buyer of CLOUD_B comes to the seller's page.
    async fn token(&self) -> Option<&str> {
        self.0.token.as_deref()
    }
    /// All that the simulator answered (`docs/marketplaces.md`, "Control of the simulator").
    async fn answer(&self) -> Json<&Value> {
        Json(&self.0.answer)
    }
}

impl From<Simulated> for Simulation {
    fn from(simulated: Simulated) -> Self {
        Self(simulated)
    }
}

payload!(SimulationPayload, simulation: Simulation);

/// Notifications that are late.
#[derive(InputObject, Serialize)]
pub struct DelayInput {
    count: u32,
    seconds: u32,
}

/// Calls that are answered late.
#[derive(InputObject, Serialize)]
pub struct SlowAnswersInput {
    count: u32,
    milliseconds: u32,
}

/// What goes wrong from now on; each counts down as it is used.
#[derive(InputObject, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatorFaultsInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_notifications: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_notifications: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_notifications: Option<DelayInput>,
    /// So many are held, then sent in reverse.
    #[serde(skip_serializing_if = "Option::is_none")]
    reorder_notifications: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_errors: Option<u32>,
    /// The work is done, and then 500 is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttle: Option<u32>,
    /// A dimension that spoils every batch of usage that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    poison: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fail_publications: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_answers: Option<SlowAnswersInput>,
}

/// A purchase at CLOUD_B.
#[derive(InputObject, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulateSubscriptionInput {
    #[graphql(name = "listingId")]
    offer_id: String,
    plan_id: String,
    /// The buyer's.
    tenant_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// 1 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    months: Option<u32>,
    /// True unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_renew: Option<bool>,
}

/// A number of something.
#[derive(InputObject, Serialize)]
pub struct SimulatedDimensionInput {
    key: String,
    value: i32,
}

/// A purchase at CLOUD_A.
#[derive(InputObject, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulateAgreementInput {
    #[graphql(name = "listingId")]
    product_id: String,
    /// The buyer's.
    #[graphql(name = "cloudAccountId")]
    account_id: String,
    /// 12 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    months: Option<u32>,
    /// At once unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<Vec<SimulatedDimensionInput>>,
    /// False unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_renew: Option<bool>,
}

/// What changes: of CLOUD_B `planId` and `quantity`, of CLOUD_A the others.
#[derive(InputObject, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedChangeInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    months: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<Vec<SimulatedDimensionInput>>,
}

/// What the buyer takes: of CLOUD_B `planId` and `quantity`, of CLOUD_A `dimensions`.
#[derive(InputObject, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedTermsInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<Vec<SimulatedDimensionInput>>,
}

/// An input as the simulator reads it; none is an empty one.
fn body(input: Option<impl Serialize>) -> Value {
    let body = serde_json::to_value(input).expect("an input is plain data");
    if body.is_null() { Value::Object(serde_json::Map::new()) } else { body }
}

fn stage<'a>(ctx: &Context<'a>) -> Option<&'a Stage> {
    ctx.data_unchecked::<Option<Arc<Stage>>>().as_deref()
}

#[derive(Default)]
pub struct SimulationMutation;

#[Object]
impl SimulationMutation {
    /// In staging and demo: moves the clock of the simulator, which all who rehearse with it share.
    async fn advance_simulator(&self, ctx: &Context<'_>, seconds: i32) -> Option<Result<SimulationPayload>> {
        Some(SimulationPayload::of(simulation::advance(call(ctx), stage(ctx), seconds.into()).await))
    }

    /// In staging and demo: sets what goes wrong at the simulator, for all who rehearse with it, in the place of what was
    /// set before.
    async fn set_simulator_faults(
        &self,
        ctx: &Context<'_>,
        input: SimulatorFaultsInput,
    ) -> Option<Result<SimulationPayload>> {
        Some(SimulationPayload::of(simulation::set_faults(call(ctx), stage(ctx), body(Some(input))).await))
    }

    /// In staging and demo: somebody buys at CLOUD_B.
    async fn simulate_subscription(
        &self,
        ctx: &Context<'_>,
        input: SimulateSubscriptionInput,
    ) -> Option<Result<SimulationPayload>> {
        let purchase = simulation::purchase(call(ctx), stage(ctx), Vendor::CloudB, body(Some(input)));
        Some(SimulationPayload::of(purchase.await))
    }

    /// In staging and demo: somebody buys at CLOUD_A.
    async fn simulate_agreement(
        &self,
        ctx: &Context<'_>,
        input: SimulateAgreementInput,
    ) -> Option<Result<SimulationPayload>> {
        let purchase = simulation::purchase(call(ctx), stage(ctx), Vendor::CloudA, body(Some(input)));
        Some(SimulationPayload::of(purchase.await))
    }

    /// In staging and demo: something happens to a subscription or an agreement, which is named by the marketplace's id.
    async fn simulate_action(
        &self,
        ctx: &Context<'_>,
        id: ID,
        action: Action,
        change: Option<SimulatedChangeInput>,
    ) -> Option<Result<SimulationPayload>> {
        Some(SimulationPayload::of(simulation::act(call(ctx), stage(ctx), &id, action, body(change)).await))
    }

    /// In staging and demo: the buyer of a published private offer accepts it, or it expires at once.
    async fn simulate_decision(
        &self,
        ctx: &Context<'_>,
        offer_id: ID,
        decision: Decision,
        terms: Option<SimulatedTermsInput>,
    ) -> Option<Result<SimulationPayload>> {
        Some(SimulationPayload::of(simulation::decide(call(ctx), stage(ctx), &offer_id, decision, body(terms)).await))
    }
}
