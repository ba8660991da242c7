//! The page about the fragment names tests; they must be there.

use std::path::Path;

#[test]
fn every_named_test_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/SQL.md")).unwrap();
    let mut named = 0;
    for name in page.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::") else { continue };
        if file == "file" {
            continue;
        }
        let source = ["tests", "src", "src/reading"].iter().find_map(|folder| {
            let text = std::fs::read_to_string(root.join(folder).join(format!("{file}.rs"))).ok()?;
            text.contains(&format!("fn {test}(")).then_some(())
        });
        assert!(source.is_some(), "docs/SQL.md names {name}, which is not there");
        named += 1;
    }
    assert!(named > 40, "{named} tests are named");
}
