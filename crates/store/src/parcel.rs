//! Objects on their way between repositories that reach each other by no other way.

/// More than this is not carried through the database.
pub const PARCEL_BYTES_MAX: usize = 32 << 20;
/// Older ones go when a new one comes; who still needs one asks again.
pub(crate) const PARCEL_MS_MAX: i64 = 7 * 24 * 3_600_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    pub key: String,
    /// The commit that it is about.
    pub tip: String,
    /// Why it cannot be had, where it cannot.
    pub why: Option<String>,
    pub bytes: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParcelUpdate {
    /// Puts it where others find it, and serves whoever wanted it.
    Put(Parcel),
    /// Asks for the parcel of this key, or for a newer one.
    Want(String),
}
