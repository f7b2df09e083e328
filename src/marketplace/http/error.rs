//! What can go wrong between us and a marketplace, in words for people.

use std::time::Duration;

use crate::error::Error;

pub type Result<T, E = MarketplaceError> = std::result::Result<T, E>;

/// How much of the other side's words is repeated, in characters.
pub const TEXT_MAX: usize = 500;

/// Why a marketplace did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarketplaceError {
    /// There was no whole answer.
    #[error("The marketplace could not be reached: {0}")]
    Unreachable(Unreached),
    /// It has too many requests; `retry_after` is what it asked to wait.
    #[error("The marketplace asks to slow down{}", wait(*.retry_after))]
    Throttled { retry_after: Option<Duration> },
    /// It understood and would not, or (5xx) could not. `code` is its own word, `message` its own words.
    #[error("The marketplace answered with status {status}{}", said(.code, .message))]
    Refused { status: u16, code: String, message: String },
    /// The account's credentials are not accepted.
    #[error("The marketplace does not accept the account's credentials{}", said("", .message))]
    Unauthorized { message: String },
    /// Its protocol has no way to say what was agreed. Nothing was sent.
    #[error("The marketplace cannot be told: {reason}")]
    Impossible { reason: String },
    /// The answer makes no sense. Whether the request was carried out is open.
    #[error("The marketplace's answer cannot be understood: {reason}")]
    Garbled { reason: String },
}

/// Why there was no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreached {
    /// Nothing was sent.
    #[error("the connection could not be made")]
    Connect,
    #[error("it did not answer in time")]
    Timeout,
    #[error("the connection broke off")]
    Broken,
    /// The account names an address that is not to be connected to.
    #[error("its address is not admitted")]
    Blocked,
}

impl MarketplaceError {
    pub fn garbled(reason: impl AsRef<str>) -> Self {
        Self::Garbled { reason: bounded(reason.as_ref()) }
    }

    /// For those who can only try again.
    pub fn unavailable(self) -> Error {
        Error::Unavailable(self.to_string())
    }

    pub fn impossible(reason: &str) -> Self {
        Self::Impossible { reason: reason.to_owned() }
    }

    /// Whether the same call may well succeed later without anybody doing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(why) => *why != Unreached::Blocked,
            Self::Throttled { .. } | Self::Garbled { .. } => true,
            Self::Refused { status, .. } => is_passing(*status),
            Self::Unauthorized { .. } | Self::Impossible { .. } => false,
        }
    }

    /// Whether nobody can say now if it was done.
    pub fn is_unclear(&self) -> bool {
        self.may_have_happened() || matches!(self, Self::Garbled { .. })
    }

    /// Whether the marketplace may have done it although it said otherwise, or nothing.
    pub(super) fn may_have_happened(&self) -> bool {
        match self {
            Self::Unreachable(why) => matches!(why, Unreached::Timeout | Unreached::Broken),
            Self::Refused { status, .. } => is_passing(*status),
            Self::Throttled { .. } | Self::Unauthorized { .. } | Self::Impossible { .. } | Self::Garbled { .. } => {
                false
            }
        }
    }
}

fn is_passing(status: u16) -> bool {
    status >= 500 || status == 408
}

fn wait(asked: Option<Duration>) -> String {
    asked.map(|asked| format!(" and to wait {} seconds", asked.as_secs())).unwrap_or_default()
}

fn said(code: &str, message: &str) -> String {
    match (code, message) {
        ("", "") => String::new(),
        ("", text) | (text, "") => format!(": {text}"),
        (code, message) => format!(": {code}: {message}"),
    }
}

/// The other side's words, fit for a record and a log line.
pub fn bounded(text: &str) -> String {
    text.trim().chars().take(TEXT_MAX).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
