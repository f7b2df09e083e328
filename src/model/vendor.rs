//! The two marketplaces.

super::wire_enum! {
    /// The marketplace that a record belongs to.
    Vendor {
        CloudA = "cloud_a",
        CloudB = "cloud_b",
    }
}
