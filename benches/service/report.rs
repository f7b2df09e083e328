//! The table at the end.

/// One measured promise.
pub struct Line {
    pub what: String,
    pub floor: String,
    pub ours: String,
    pub ratio: String,
    pub target: String,
    /// None for what is only told.
    pub passed: Option<bool>,
}

impl Line {
    /// A number that stands for itself.
    pub fn note(what: impl Into<String>, ours: String) -> Self {
        Self {
            what: what.into(),
            floor: String::new(),
            ours,
            ratio: String::new(),
            target: String::new(),
            passed: None,
        }
    }

    /// A number below a bound.
    pub fn at_most(what: impl Into<String>, value: f64, bound: f64, unit: &str) -> Self {
        Self {
            target: format!("< {bound:.0} {unit}"),
            passed: Some(value < bound),
            ..Self::note(what, format!("{value:.1} {unit}"))
        }
    }

    /// Rates of floor and service, and the median of their ratios round by round.
    pub fn rate_ratio(what: impl Into<String>, rounds: &[Round], least: f64) -> Self {
        let of = |pick: fn(&Round) -> f64| crate::scale::median(&rounds.iter().map(pick).collect::<Vec<_>>());
        let ratio = of(|round| round.ours / round.floor);
        Self {
            floor: format!("{:.0}/s", of(|round| round.floor)),
            ratio: format!("{ratio:.3}"),
            target: format!(">= {least:.2}"),
            passed: Some(ratio >= least),
            ..Self::note(what, format!("{:.0}/s", of(|round| round.ours)))
        }
    }

    fn cells(&self) -> [&str; 6] {
        let verdict = match self.passed {
            Some(true) => "pass",
            Some(false) => "MISS",
            None => "",
        };
        [&self.what, &self.floor, &self.ours, &self.ratio, &self.target, verdict]
    }
}

/// Operations a second of both, measured one right after the other.
pub struct Round {
    pub floor: f64,
    pub ours: f64,
}

pub fn print(lines: &[Line]) {
    let head = ["what", "floor", "ours", "ratio", "target", ""];
    let rows: Vec<[&str; 6]> = std::iter::once(head).chain(lines.iter().map(Line::cells)).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    println!();
    for (index, row) in rows.iter().enumerate() {
        println!("{}", aligned(row, &widths));
        if index == 0 {
            println!("{}", widths.map(|width| "-".repeat(width)).join("  "));
        }
    }
}

/// Words to the left, numbers to the right.
fn aligned(row: &[&str; 6], widths: &[usize; 6]) -> String {
    let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
        0 | 5 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}
