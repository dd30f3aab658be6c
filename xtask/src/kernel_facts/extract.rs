//! Reads what `ptxas -v` said and what `cuobjdump -sass` prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process::text;

/// What ptxas says that a kernel uses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    pub registers: u64,
    pub stack: u64,
    pub spill_bytes: u64,
    pub static_shared: u64,
}

/// Resources of every kernel in the output of `ptxas -v`, by symbol.
pub fn resources(log: &str) -> Result<BTreeMap<String, Resources>> {
    let mut found: BTreeMap<String, Resources> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_string();
            found.insert(name.clone(), Resources::default());
            current = Some(name);
            continue;
        }
        let Some(entry) = current.as_ref().and_then(|name| found.get_mut(name)) else {
            continue;
        };
        if line.contains("bytes stack frame") {
            // Device functions that were not inlined have lines of their own: the kernel's worst counts.
            entry.stack = entry.stack.max(number_before(line, " bytes stack frame").unwrap_or(0));
            entry.spill_bytes += number_before(line, " bytes spill stores").unwrap_or(0)
                + number_before(line, " bytes spill loads").unwrap_or(0);
        } else if line.contains("Used ") && line.contains(" registers") {
            entry.registers = number_before(line, " registers")
                .ok_or_else(|| Failure::new(format!("cannot read this line of ptxas: {line}")))?;
            entry.static_shared = number_before(line, " bytes smem").unwrap_or(0);
            if let Some(cumulative) = number_before(line, " bytes cumulative stack size") {
                entry.stack = entry.stack.max(cumulative);
            }
        }
    }
    if let Some((name, _)) = found.iter().find(|(_, r)| r.registers == 0) {
        return Err(Failure::new(format!("ptxas did not say how many registers {name} uses")));
    }
    Ok(found)
}

/// The number that stands directly before `what`.
fn number_before(line: &str, what: &str) -> Option<u64> {
    let before = &line[..line.find(what)?];
    let digits = before.len() - before.bytes().rev().take_while(u8::is_ascii_digit).count();
    before[digits..].parse().ok()
}

/// SASS opcodes of every kernel in a cubin, by symbol, with how often each occurs.
pub fn opcodes(cuda_home: &Path, cubin: &Path) -> Result<BTreeMap<String, BTreeMap<String, u64>>> {
    let program = cuda_home.join("bin/cuobjdump");
    Ok(parse_sass(&text(Command::new(program).arg("-sass").arg(cubin))?))
}

fn parse_sass(listing: &str) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut kernels: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in listing.lines() {
        if let Some((_, name)) = line.split_once("Function : ") {
            current = Some(name.trim().to_string());
            kernels.entry(name.trim().to_string()).or_default();
            continue;
        }
        // "/*0040*/   @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;   /* encoding */"; a line with an encoding alone has no ";".
        let Some(kernel) = current.as_ref().and_then(|name| kernels.get_mut(name)) else {
            continue;
        };
        let Some((code, _)) = line.split_once(';') else {
            continue;
        };
        let Some((_, instruction)) = code.split_once("*/") else {
            continue;
        };
        if let Some(opcode) = instruction.split_whitespace().find(|word| !word.starts_with('@')) {
            *kernel.entry(opcode.to_string()).or_default() += 1;
        }
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_ptxas() {
        let log = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a_kernel' for 'sm_90a'
ptxas info    : Function properties for a_kernel
    152 bytes stack frame, 322 bytes spill stores, 488 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 152 bytes cumulative stack size, 96 bytes smem
ptxas info    : Compiling entry function 'b_kernel' for 'sm_90a'
ptxas info    : Function properties for b_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers
";
        let found = resources(log).unwrap();
        assert_eq!(found["a_kernel"], Resources { registers: 80, stack: 152, spill_bytes: 810, static_shared: 96 });
        assert_eq!(found["b_kernel"], Resources { registers: 32, ..Resources::default() });
        assert!(resources("Compiling entry function 'c' for 'sm_90a'\n").is_err());
    }

    #[test]
    fn opcodes_are_counted_without_predicates_and_encodings() {
        let listing = "
\t\tFunction : k
\t.headerflags\t@\"EF_CUDA_SM90\"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                    /* 0x00000a00ff017b82 */
                                                                             /* 0x000fe20000000800 */
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;          /* 0x0000000000027919 */
        /*0020*/               @P1 LDG.E.128 R4, desc[UR4][R2.64+0x10] ;     /* 0x0000000000027919 */
        /*0030*/                   EXIT ;                                    /* 0x0000000000027919 */
\t\tFunction : empty
";
        let kernels = parse_sass(listing);
        assert_eq!(kernels["k"]["LDG.E.128"], 2);
        assert_eq!(kernels["k"]["LDC"], 1);
        assert_eq!(kernels["k"].values().sum::<u64>(), 4);
        assert!(kernels["empty"].is_empty());
    }
}
