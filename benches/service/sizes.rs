//! The same readings in databases of very different sizes: the cost must not grow.

use std::pin::Pin;
use std::time::Duration;

use crate::report::Line;
use crate::scale::median;

const WARM_UP: usize = 20;
/// For the engine to put its files in order after they were filled.
const SETTLING: Duration = Duration::from_secs(5);

type Reading = Pin<Box<dyn Future<Output = Duration>>>;

/// One kind of reading in one database.
pub struct Case {
    name: String,
    /// Reads once, and says how long it took.
    read: Box<dyn Fn() -> Reading>,
    took: Vec<Duration>,
}

impl Case {
    pub fn new<F: Future<Output = Duration> + 'static>(name: String, read: impl Fn() -> F + 'static) -> Self {
        Self { name, read: Box::new(move || Box::pin(read())), took: Vec::new() }
    }

    fn micros(&self) -> f64 {
        median(&self.took).as_secs_f64() * 1e6
    }
}

/// Reads them all again and again. Interleaved, so that whatever else the machine does hits all alike.
pub async fn read<'a>(cases: impl IntoIterator<Item = &'a mut Case>, readings: usize) {
    let mut cases: Vec<&mut Case> = cases.into_iter().collect();
    tokio::time::sleep(SETTLING).await;
    for round in 0..WARM_UP + readings {
        for case in &mut cases {
            let took = (case.read)().await;
            if round >= WARM_UP {
                case.took.push(took);
            }
        }
    }
}

/// The slowest median against the fastest, and each of them.
pub fn lines(what: &str, cases: &[Case], most: f64) -> Vec<Line> {
    let medians: Vec<f64> = cases.iter().map(Case::micros).collect();
    let fastest = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = medians.iter().copied().fold(0.0, f64::max);
    let promise = Line {
        floor: format!("{fastest:.0} us"),
        ratio: format!("{:.3}", slowest / fastest),
        target: format!("<= {most:.2}"),
        passed: Some(slowest / fastest <= most),
        ..Line::note(format!("{what}, slowest median against fastest"), format!("{slowest:.0} us"))
    };
    let told = cases.iter().zip(&medians).map(|(case, median)| Line {
        ratio: format!("{:.3}", median / fastest),
        ..Line::note(format!("  {}", case.name), format!("{median:.0} us"))
    });
    std::iter::once(promise).chain(told).collect()
}
