//! One call that many wait for: what it brings, good or bad, is brought to all of them.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::Result;

/// A call under way or over. It moves on while anybody waits for it.
pub type Flight<T> = Shared<BoxFuture<'static, Result<T>>>;

pub fn start<T: Clone>(call: impl Future<Output = Result<T>> + Send + 'static) -> Flight<T> {
    call.boxed().shared()
}
