//! Rehearsals: what the marketplaces do, done on demand at the simulator, where there is one. It is asked over its control,
//! and an organization reaches only what is its own there; its clock and its faults are everybody's who rehearses with it.

use http::Method;
use serde_json::{Value, json};

use crate::call::Call;
use crate::error::{Error, Result};
use crate::marketplace::stage::Stage;
use crate::model::environment::Environment;
use crate::model::id::PrivateOfferId;
use crate::model::operation::Operation;
use crate::model::simulation::{Action, Decision, Simulated};
use crate::model::vendor::Vendor;
use crate::store::Tenant;

/// The guard, and the stage behind it.
async fn grant<'a>(call: &Call, operation: Operation, stage: Option<&'a Stage>) -> Result<(Tenant, &'a Stage)> {
    let tenant = call.grant(operation.access())?;
    let stage = match stage {
        Some(stage) => stage,
        None if tenant.environment() == Environment::Production => {
            return Err(Error::NotHere(
                "Marketplaces are simulated in staging and in the demo only; this is production",
            ));
        }
        None => return Err(Error::NotHere("This service runs without a simulator")),
    };
    stage.enrol(tenant.organization()).await?;
    Ok((tenant, stage))
}

/// Moves the simulator's clock.
pub async fn advance(call: &Call, stage: Option<&Stage>, seconds: i64) -> Result<Simulated> {
    let (_, stage) = grant(call, Operation::SimulatorAdvance, stage).await?;
    let answer = stage.control(Method::POST, &["advance"], &json!({ "seconds": seconds })).await?;
    Ok(Simulated::of(answer))
}

/// Sets what goes wrong, in the place of what did.
pub async fn set_faults(call: &Call, stage: Option<&Stage>, faults: Value) -> Result<Simulated> {
    let (_, stage) = grant(call, Operation::SimulatorFaults, stage).await?;
    Ok(Simulated::of(stage.control(Method::PUT, &["faults"], &faults).await?))
}

/// Somebody buys without an offer: a subscription of `cloud_b`, an agreement of `cloud_a`.
pub async fn purchase(call: &Call, stage: Option<&Stage>, vendor: Vendor, mut purchase: Value) -> Result<Simulated> {
    let operation = match vendor {
        Vendor::CloudA => Operation::SimulatorAgree,
        Vendor::CloudB => Operation::SimulatorSubscribe,
    };
    let (tenant, stage) = grant(call, operation, stage).await?;
    purchase["publisher"] = json!(tenant.organization());
    let kind = match vendor {
        Vendor::CloudA => "agreements",
        Vendor::CloudB => "subscriptions",
    };
    let answer = stage.control(Method::POST, &[vendor.as_str(), kind], &purchase).await?;
    Ok(Simulated::of(answer))
}

/// Something happens to a subscription or an agreement of the organization.
pub async fn act(call: &Call, stage: Option<&Stage>, id: &str, action: Action, change: Value) -> Result<Simulated> {
    let (tenant, stage) = grant(call, Operation::SimulatorAct, stage).await?;
    let place = stage.find(tenant.organization(), id).await?;
    let Some(word) = action.word(place.vendor) else {
        return Err(Error::invalid("action", format!("is unknown at {}", place.vendor)));
    };
    let kind = match place.vendor {
        Vendor::CloudA => "agreements",
        Vendor::CloudB => "subscriptions",
    };
    let answer = stage.control(Method::POST, &[place.vendor.as_str(), kind, &place.id, word], &change).await?;
    // An answer about an operation does not say of what it is one.
    let simulated = Simulated::of(answer);
    Ok(Simulated { id: simulated.id.or(Some(place.id)), ..simulated })
}

/// The buyer of a published offer of the organization accepts it, or it expires at once.
pub async fn decide(
    call: &Call,
    stage: Option<&Stage>,
    offer: &str,
    decision: Decision,
    terms: Value,
) -> Result<Simulated> {
    let (tenant, stage) = grant(call, Operation::SimulatorDecide, stage).await?;
    let offer = tenant.get_offer(PrivateOfferId::named(offer)?).await?;
    let Some(id) = offer.vendor_offer_id else {
        return Err(Error::conflict(
            "The offer is not published yet; publication takes 60 seconds of the simulator's clock",
        ));
    };
    let answer = stage.control(Method::POST, &["offers", &id, decision.as_str()], &terms).await?;
    Ok(Simulated::of(answer))
}
