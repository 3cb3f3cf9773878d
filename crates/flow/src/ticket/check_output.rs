//! The end of a check's output, as people see it.

use super::CheckResult;

/// Lines of a red check's output that are shown to people.
const END_LINES: usize = 10;

impl CheckResult {
    /// Returns the last lines of the output. Empty lines are left out: they say nothing and push the
    /// cause out of sight.
    pub fn last_lines(&self) -> Vec<&str> {
        let lines = self.tail.lines().filter(|line| !line.trim().is_empty());
        let mut lines: Vec<&str> = lines.collect();
        lines.split_off(lines.len().saturating_sub(END_LINES))
    }

    /// Returns the name of the check and the end of its output.
    pub fn describe_end(&self) -> String {
        format!("{}:\n{}", self.name, self.last_lines().join("\n"))
    }
}
