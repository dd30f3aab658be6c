//! The kernel table, as Rust that `kernels-sys` includes and as text that `cargo xtask kernel-facts` reads.

use std::fmt::Write as _;
use std::path::Path;

use crate::nvcc::{Image, parse_entries};
use crate::sources::{ARCHS, Outcome, Source, read, write};

pub fn write_table(out: &Path, sources: &[Source], images: &[Image], absent: Option<&str>) -> Outcome<()> {
    let variant = |arch: &str| ARCHS.iter().find(|(known, _)| *known == arch).map_or("", |(_, variant)| variant);
    let mut rust = String::from("// Made by build.rs from csrc/.\n");
    _ = writeln!(rust, "pub(crate) const ABSENT: Option<&str> = {absent:?};");
    let mut blocks: Vec<&str> = sources.iter().flat_map(|s| &s.kernels).map(|k| k.params.as_str()).collect();
    blocks.sort_unstable();
    blocks.dedup();
    for block in blocks {
        _ = writeln!(rust, "parameter_block!({block});");
    }
    rust.push_str("pub(crate) static KERNELS: &[Kernel] = &[\n");
    for source in sources {
        let arch = source.arch.map_or("None".to_string(), |arch| format!("Some(Arch::{})", variant(arch)));
        for k in &source.kernels {
            _ = writeln!(
                rust,
                "Kernel {{ name: {:?}, module: {:?}, family: {:?}, arch: {arch}, dtype: DType::{}, params: {:?}, \
                 params_bytes: size_of::<{}>(), block_threads: {}, min_blocks: {}, dynamic_shared_bytes: {} }},",
                k.name,
                source.module,
                source.family,
                k.dtype,
                k.params,
                k.params,
                k.threads,
                k.min_blocks,
                k.dynamic_shared
            );
        }
    }
    rust.push_str("];\npub(crate) static IMAGES: &[Image] = &[\n");
    let mut list = String::new();
    let mut checks = String::new();
    for image in images {
        let source = &sources[image.source];
        let ptx = read(&out.join(&image.ptx))?;
        // The driver takes PTX as a C string.
        let terminated = format!("{}z", image.ptx);
        write(&out.join(&terminated), format!("{ptx}\0").as_bytes())?;
        _ = writeln!(
            rust,
            "Image {{ module: {:?}, arch: Arch::{}, cubin: &Aligned(*include_bytes!({:?})).0, \
             ptx: include_bytes!({:?}) }},",
            source.module,
            variant(image.arch),
            out.join(&image.cubin),
            out.join(&terminated)
        );
        for (name, (_, bytes)) in parse_entries(&ptx) {
            if let (Some(bytes), Some(kernel)) = (bytes, source.kernels.iter().find(|k| k.name == name)) {
                _ = writeln!(
                    checks,
                    "const _: () = assert!(size_of::<{}>() == {bytes}, \"kernel {name}: the device expects {bytes} bytes \
                     of parameters; run `cargo xtask bindgen`\");",
                    kernel.params
                );
            }
        }
        let names: Vec<&str> = source.kernels.iter().map(|k| k.name.as_str()).collect();
        _ = writeln!(
            list,
            "{}\t{}\t{}\t{}\t{}\t{}",
            source.module,
            image.arch,
            image.ptx,
            image.cubin,
            image.ptxas_log,
            names.join(",")
        );
    }
    rust.push_str("];\n");
    rust.push_str(&checks);
    write(&out.join("kernel_table.rs"), rust.as_bytes())?;
    write(&out.join("images.tsv"), list.as_bytes())
}
