//! What a document costs its caller. The cost is known only after validation, so the limiter is asked here, once, and not
//! by the transport.

use std::sync::Arc;

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextValidation};
use async_graphql::{ServerError, ValidationResult, async_trait};

use super::document::refused;
use crate::auth::meter::Meter;

/// Complexity that costs one unit of the rate limit (`contract.md` §7).
const UNIT: usize = 100;

pub struct AdmissionFactory;

impl ExtensionFactory for AdmissionFactory {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Admission)
    }
}

struct Admission;

#[async_trait::async_trait]
impl Extension for Admission {
    async fn validation(
        &self,
        ctx: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let result = next.run(ctx).await?;
        if let Some(meter) = ctx.data_opt::<Arc<Meter>>() {
            let units = u32::try_from(result.complexity.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1);
            meter.charge(units).map_err(|error| vec![refused(&error)])?;
        }
        Ok(result)
    }
}
