//! Git bundles that travel through the database between repositories without another connection.

/// Maximum size of a bundle in the database.
pub const BUNDLE_BYTES_MAX: usize = 32 << 20;
/// Maximum age of a bundle. Adding one removes older ones; a worker that still needs one requests
/// it again.
pub(crate) const BUNDLE_MS_MAX: i64 = 7 * 24 * 3_600_000;

/// A git bundle, or the reason why it is not available.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredBundle {
    pub key: String,
    /// Commit that the bundle contains.
    pub tip: String,
    /// Reason why the bundle is not available.
    pub why: Option<String>,
    pub bytes: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleUpdate {
    /// Stores a bundle and clears the request for it.
    Put(StoredBundle),
    /// Requests the bundle with this key, or a newer one.
    Want(String),
}
