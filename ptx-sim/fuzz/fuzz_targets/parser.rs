//! Any text is a module or an error with a line. What follows the fixed head reaches the statements of a kernel at once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ptx_sim::check::mutate;
use ptx_sim::exec::Module;

const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\t.reg .pred %p<4>;\n\t.reg .b32 %r<8>;\n\t.reg .b64 %rd<8>;\n\t.reg .f32 %f<8>;\n\t.shared .align 16 .b8 s[64];\n";

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = Module::load(&text);
    let _ = Module::load(&format!("{HEAD}{text}\n\tret;\n}}\n"));
    if let Ok(sites) = mutate::sites(&text) {
        for site in sites.iter().take(4) {
            let _ = Module::load(&site.apply(&text));
        }
    }
});
