//! Reporting usage in batches, so that each row gets its own verdict: rows that were passed over are sent again, and a
//! batch that is refused because of one of its rows is halved until that row is alone.

use std::time::Duration;

use super::http::{Client, MarketplaceError};
use super::terms::RowVerdict;
use crate::model::metering::Verdict;

/// Rows of one request, at either marketplace.
pub const BATCH_MAX: usize = 25;
/// How often rows that the marketplace passes over are sent.
const ROUNDS: usize = 4;

/// What came of one request.
pub enum Sent {
    /// One for each row; none for a row that was passed over.
    Answered(Vec<Option<RowVerdict>>),
    /// Refused because of one of its rows: what is said of that one.
    Poisoned(RowVerdict),
    /// Refused, whatever the rows.
    Refused(RowVerdict),
    /// The marketplace cannot be spoken to for now.
    Failed(MarketplaceError),
}

/// Sends rows, by their indices.
pub trait Wire {
    fn send(&self, rows: &[usize]) -> impl Future<Output = Sent> + Send;
}

struct Batch {
    rows: Vec<usize>,
    round: usize,
}

/// The verdicts of `count` rows, in their order. Once the marketplace cannot be spoken to, the rest is not tried.
pub async fn report(client: &Client, wire: &impl Wire, count: usize) -> Vec<RowVerdict> {
    let mut verdicts: Vec<Option<RowVerdict>> = vec![None; count];
    let rows: Vec<usize> = (0..count).collect();
    let mut waiting: Vec<Batch> =
        rows.chunks(BATCH_MAX).rev().map(|rows| Batch { rows: rows.to_vec(), round: 0 }).collect();
    let mut why = "The marketplace did not answer for this row".to_owned();
    while let Some(Batch { rows, round }) = waiting.pop() {
        match wire.send(&rows).await {
            Sent::Answered(answers) => {
                let left = note(&mut verdicts, &rows, answers);
                if !left.is_empty() && round + 1 < ROUNDS {
                    client.pause(round, Duration::ZERO).await;
                    waiting.push(Batch { rows: left, round: round + 1 });
                }
            }
            Sent::Poisoned(_) if rows.len() > 1 => {
                let (first, second) = rows.split_at(rows.len() / 2);
                waiting.extend([second, first].map(|rows| Batch { rows: rows.to_vec(), round }));
            }
            Sent::Poisoned(verdict) | Sent::Refused(verdict) => {
                for row in rows {
                    verdicts[row] = Some(verdict.clone());
                }
            }
            Sent::Failed(error) => {
                why = error.to_string();
                break;
            }
        }
    }
    let unsaid = || (Verdict::VendorError, Some(why.clone()));
    verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(unsaid)).collect()
}

/// Writes down what was said, and answers of which rows nothing was.
fn note(verdicts: &mut [Option<RowVerdict>], rows: &[usize], answers: Vec<Option<RowVerdict>>) -> Vec<usize> {
    let mut answers = answers.into_iter();
    let mut left = Vec::new();
    for row in rows {
        match answers.next().flatten() {
            Some(verdict) => verdicts[*row] = Some(verdict),
            None => left.push(*row),
        }
    }
    left
}
