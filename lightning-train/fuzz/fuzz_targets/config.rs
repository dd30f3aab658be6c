//! Any text is a `config.json` of the family or an error; what is accepted is written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightning_train::hf::HfConfig;

fuzz_target!(|data: &[u8]| {
    let Ok(config) = HfConfig::parse("config.json", &String::from_utf8_lossy(data)) else { return };
    let again = HfConfig::parse("again", &config.to_text()).expect("our own text");
    assert_eq!(again.model.layers, config.model.layers);
});
