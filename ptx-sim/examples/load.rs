//! Loads PTX files and says what each contains, or why it cannot be loaded.

use std::time::Instant;

fn main() {
    for path in std::env::args().skip(1) {
        let text = match std::fs::read_to_string(&path) {
            Ok(t) => t,
            Err(e) => {
                println!("{path}: {e}");
                continue;
            }
        };
        let start = Instant::now();
        match ptx_sim::exec::Module::load(&text) {
            Ok(m) => {
                let ms = start.elapsed().as_secs_f64() * 1e3;
                println!("{path}: {} kernels, {} variables, {ms:.1} ms", m.kernels.len(), m.variables.len());
                for k in &m.kernels {
                    println!(
                        "  {} ({} parameters, {} bytes shared, {} bytes local)",
                        k.name,
                        k.params.len(),
                        k.static_shared,
                        k.local_bytes
                    );
                }
            }
            Err(e) => println!("{path}: {e}"),
        }
    }
}
