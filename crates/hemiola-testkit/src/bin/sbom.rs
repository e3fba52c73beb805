//! Prints the software bill of materials of a full build as `CycloneDX` JSON:
//! `cargo run -p hemiola-testkit --bin sbom > hemiola.cdx.json`.
#![expect(clippy::print_stdout, reason = "a command-line program")]

use hemiola_testkit::supply_chain::{bill_of_materials, third_party_crates};

fn main() -> Result<(), String> {
    println!("{:#}", bill_of_materials(&third_party_crates()?, env!("CARGO_PKG_VERSION")));
    Ok(())
}
