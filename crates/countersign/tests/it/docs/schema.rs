//! The schemas for editors.

use expect_test::expect_file;

use super::root;
use crate::support::World;

#[test]
fn the_schemas_are_those_of_the_readers() {
    let world = World::empty();
    for kind in ["config", "ticket", "epic"] {
        let schema = world.call(&["config", "schema", kind]).ends_with(0).out;
        let file = root().join(format!("docs/schema/{kind}.schema.json"));
        expect_file![file].assert_eq(&schema);
    }
}
