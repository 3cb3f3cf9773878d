//! Finds the test coverage in a check's output, for common tools.
//!
//! It reads line by line, so the output may have any length. A total takes precedence; if a tool
//! reports only parts, the lowest one counts. Output without a known figure has no coverage, so it
//! is never sufficient.

use std::sync::LazyLock;

use regex::Regex;

/// Coverage in hundredths of a percent, so that it can be compared exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoveragePercent(u32);

impl CoveragePercent {
    pub fn percent(whole: u8) -> Self {
        Self(u32::from(whole) * 100)
    }

    fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let hundredths: String = part.chars().chain("00".chars()).take(2).collect();
        let share = whole.parse::<u32>().ok()? * 100 + hundredths.parse::<u32>().ok()?;
        (share <= 10_000).then_some(Self(share))
    }
}

impl std::fmt::Display for CoveragePercent {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{:02} %", self.0 / 100, self.0 % 100)
    }
}

/// Collects coverage figures from lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoverageReader {
    total: Option<CoveragePercent>,
    lines: Option<CoveragePercent>,
    part: Option<CoveragePercent>,
}

impl CoverageReader {
    pub fn read_line(&mut self, line: &str) {
        // No tool prints such a long line with a figure.
        if line.len() > 400 {
            return;
        }
        let (figure, percent) = if let Some(percent) = parse_total(line) {
            (&mut self.total, percent)
        } else if let Some(percent) = parse_line_coverage(line) {
            (&mut self.lines, percent)
        } else if let Some(percent) = parse_part(line) {
            (&mut self.part, percent)
        } else {
            return;
        };
        *figure = Some(figure.map_or(percent, |lowest| lowest.min(percent)));
    }

    pub fn coverage(self) -> Option<CoveragePercent> {
        self.total.or(self.lines).or(self.part)
    }
}

const PERCENT: &str = r"(\d{1,3}(?:\.\d{1,4})?)\s?%";

/// Parses the last row of a table: llvm-cov, coverage.py, gcovr, `go tool cover`, coverlet,
/// istanbul.
fn parse_total(line: &str) -> Option<CoveragePercent> {
    static ROW: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)^\W*(total|all files)\b").ok());
    static SHARE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PERCENT).ok());
    let name = ROW.as_ref()?.captures(line)?.get(1)?;
    if name.as_str().eq_ignore_ascii_case("all files") {
        // The cells are statements, branches, functions and lines, without a percent sign.
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        return CoveragePercent::parse(cells.get(4)?.trim_end_matches('%').trim());
    }
    let shares: Vec<&str> = SHARE
        .as_ref()?
        .captures_iter(line)
        .filter_map(|captures| Some(captures.get(1)?.as_str()))
        .collect();
    // llvm-cov has regions, functions, lines and then branches; the others have one figure, or
    // lines first.
    let at = if line.contains('|') {
        0
    } else {
        shares.len().min(3).checked_sub(1)?
    };
    CoveragePercent::parse(shares.get(at)?)
}

/// Parses `Lines : 85.7% (6/7)`, `lines......: 85.7%`, `Line Coverage: 92.3%` and `85.32%
/// coverage, 128/150 lines covered`.
fn parse_line_coverage(line: &str) -> Option<CoveragePercent> {
    static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(&format!(
            r"(?i)^\W*lines?(?:\s+coverage)?[\s.]*:\s*{PERCENT}"
        ))
        .ok()
    });
    static TARPAULIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(&format!(r"(?i)^\W*{PERCENT}\s+coverage,.*\blines covered")).ok()
    });
    let captures = NAMED
        .as_ref()?
        .captures(line)
        .or_else(|| TARPAULIN.as_ref()?.captures(line))?;
    CoveragePercent::parse(captures.get(1)?.as_str())
}

/// Parses `coverage: 87.5% of statements`, which Go prints for each package.
fn parse_part(line: &str) -> Option<CoveragePercent> {
    static SAID: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(&format!(r"(?i)\bcoverage\s*[:=]\s*{PERCENT}")).ok());
    CoveragePercent::parse(SAID.as_ref()?.captures(line)?.get(1)?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(output: &str) -> Option<String> {
        let mut coverage = CoverageReader::default();
        output.lines().for_each(|line| coverage.read_line(line));
        coverage.coverage().map(|share| share.to_string())
    }

    #[test]
    fn the_lines_of_each_tool_are_read() {
        for (output, expected) in [
            (
                "TOTAL      412    41    90.05%    60    3    95.00%    900    72    92.00%    0    0    -",
                "92.00 %",
            ),
            (
                "Name     Stmts   Miss  Cover\nsrc/a.py     10      0   100%\nTOTAL       120     12    90%",
                "90.00 %",
            ),
            (
                "All files |   85.71 |    66.67 |      75 |   84.62 | 12,14",
                "84.62 %",
            ),
            (
                "Statements   : 90% ( 9/10 )\nBranches     : 50% ( 1/2 )\nLines        : 85.7% ( 6/7 )",
                "85.70 %",
            ),
            (
                "  lines......: 81.5% (22 of 27 lines)\n  functions..: 100.0% (3 of 3)",
                "81.50 %",
            ),
            ("85.32% coverage, 128/150 lines covered", "85.32 %"),
            ("total:\t\t\t(statements)\t\t87.5%", "87.50 %"),
            ("Line Coverage: 92.3% (12 / 13)", "92.30 %"),
            ("| Total   | 88.1% | 70% | 91% |", "88.10 %"),
            (
                "ok  a  0.1s  coverage: 87.5% of statements\nok  b  0.1s  coverage: 40.0% of statements",
                "40.00 %",
            ),
        ] {
            assert_eq!(said(output).as_deref(), Some(expected), "{output}");
        }
    }

    #[test]
    fn what_is_no_coverage_is_none() {
        for output in [
            "",
            "3 passed in 0.1 s, 100%",
            "total time: 3 s",
            "coverage: 250% of it",
            "TOTAL",
            "All files",
            &"total 9% ".repeat(100),
        ] {
            assert_eq!(said(output), None, "{output}");
        }
    }

    #[test]
    fn a_total_counts_before_its_parts() {
        let output = "coverage: 12.0% of statements\nTOTAL 10 1 90%";
        assert_eq!(said(output).as_deref(), Some("90.00 %"));
    }
}
