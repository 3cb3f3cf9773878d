//! Reads a section `[forge]` that is about to be written.

use super::forge::ForgeSection;
use crate::failure::Failure;

/// Reads the keys of the section, without its heading.
pub fn parse_section(keys: &str) -> Result<ForgeSection, Failure> {
    toml::from_str(keys).map_err(Failure::usage)
}
