//! Fat binaries and cubins: what nvcc wrote is read, what is broken is refused without a panic.

use ptx_sim::driver::cubin;
use ptx_sim::driver::fatbin::{FatbinError, Kind, entries, total_bytes};
use ptx_sim::driver::image::{decode, source_of_fatbin};
use ptx_sim::driver::status::Status;

const LZ4: &[u8] = include_bytes!("driver_data/kernels_lz4.fatbin");
const ZSTD: &[u8] = include_bytes!("driver_data/kernels_zstd.fatbin");

/// A container with one entry.
fn container(kind: u16, arch: u32, flags: u64, unpacked: u64, payload: &[u8]) -> Vec<u8> {
    let mut e = vec![0u8; 64];
    e[0..2].copy_from_slice(&kind.to_le_bytes());
    e[4..8].copy_from_slice(&64u32.to_le_bytes());
    e[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    e[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    e[28..32].copy_from_slice(&arch.to_le_bytes());
    e[40..48].copy_from_slice(&flags.to_le_bytes());
    e[56..64].copy_from_slice(&unpacked.to_le_bytes());
    e.extend_from_slice(payload);
    let mut f = 0xba55_ed50u32.to_le_bytes().to_vec();
    f.extend_from_slice(&1u16.to_le_bytes());
    f.extend_from_slice(&16u16.to_le_bytes());
    f.extend_from_slice(&(e.len() as u64).to_le_bytes());
    f.extend_from_slice(&e);
    f
}

#[test]
fn both_compressions_hold_the_same() {
    let read = |data: &[u8]| -> Vec<(Kind, u32, Vec<u8>)> {
        assert_eq!(total_bytes(data).unwrap(), data.len());
        entries(data).unwrap().iter().map(|e| (e.kind, e.arch, e.unpack().unwrap())).collect()
    };
    let (a, b) = (read(LZ4), read(ZSTD));
    let ptx = |v: &[(Kind, u32, Vec<u8>)]| v.iter().find(|e| e.0 == Kind::Ptx).map(|e| e.2.clone()).unwrap();
    assert_eq!(ptx(&a), ptx(&b));
    assert!(String::from_utf8(ptx(&a)).unwrap().contains(".entry saxpy"));
    for list in [&a, &b] {
        let elf = list.iter().find(|e| e.0 == Kind::Cubin).unwrap();
        assert_eq!((elf.1, &elf.2[..4]), (90, &b"\x7fELF"[..]));
        let mut registers = cubin::registers(&elf.2);
        registers.sort();
        let names: Vec<&str> = registers.iter().map(|r| r.0.as_str()).collect();
        assert_eq!(names, ["add_counter", "bounded", "clustered", "reverse_in_shared", "saxpy", "stop", "write_at"]);
        assert!(registers.iter().all(|r| (1..=255).contains(&r.1)), "{registers:?}");
    }
}

#[test]
fn the_best_ptx_is_taken() {
    let ptx = |target: &str| format!(".version 9.0\n.target {target}\n.address_size 64\n");
    let pick = |list: &[(u32, &str)]| {
        let mut f = container(2, 90, 0, 0, b"not an ELF file");
        for (arch, target) in list {
            let one = container(1, *arch, 0, 0, ptx(target).as_bytes());
            f.extend_from_slice(&one[16..]);
        }
        let body = (f.len() - 16) as u64;
        f[8..16].copy_from_slice(&body.to_le_bytes());
        source_of_fatbin(&f).map(|s| s.ptx).map_err(|e| e.0)
    };
    assert!(pick(&[(80, "sm_80"), (90, "sm_90"), (90, "sm_90a"), (100, "sm_100a")]).unwrap().contains("sm_90a"));
    assert!(pick(&[(80, "sm_80"), (70, "sm_70")]).unwrap().contains("sm_80"));
    assert_eq!(pick(&[(100, "sm_100"), (120, "sm_120a")]).err(), Some(Status::NO_BINARY_FOR_GPU));
    assert_eq!(pick(&[]).err(), Some(Status::NO_BINARY_FOR_GPU));
}

#[test]
fn versions_and_targets_of_other_devices_are_refused() {
    let code = |text: &str| decode(text).map(|_| ()).unwrap_err();
    let (status, text) = code(".version 9.1\n.target sm_90a\n.address_size 64\n");
    assert_eq!(status, Status::UNSUPPORTED_PTX_VERSION);
    assert!(text.contains("9.1"));
    for target in ["sm_100a", "sm_100", "sm_103f"] {
        let (status, text) = code(&format!(".version 9.0\n.target {target}\n.address_size 64\n"));
        assert_eq!(status, Status::NO_BINARY_FOR_GPU, "{text}");
        assert!(text.contains(target));
    }
    let (status, text) = code(".version 8.0\n.target sm_90a\n.address_size 64\nnonsense\n");
    assert_eq!(status, Status::INVALID_PTX);
    assert!(text.contains("line"), "{text}");
}

#[test]
fn every_truncation_and_every_flipped_byte_is_survived() {
    for data in [LZ4, ZSTD] {
        for n in 0..data.len() {
            if n < 200 || n % 37 == 0 {
                assert!(entries(&data[..n]).is_err(), "{n}");
            }
        }
        for i in 0..data.len() {
            let mut bad = data.to_vec();
            bad[i] ^= 1 << (i % 8);
            for e in entries(&bad).iter().flatten() {
                if let (Kind::Cubin, Ok(elf)) = (e.kind, e.unpack()) {
                    cubin::registers(&elf);
                }
            }
        }
    }
    let elf = entries(LZ4).unwrap().iter().find(|e| e.kind == Kind::Cubin).unwrap().unpack().unwrap();
    for i in 0..elf.len() {
        cubin::registers(&elf[..i]);
        let mut bad = elf.clone();
        bad[i] = 0xff;
        cubin::registers(&bad);
    }
}

#[test]
fn errors_say_what_is_wrong() {
    assert!(matches!(entries(b"MZ\0\0 something else"), Err(FatbinError::Magic { .. })));
    let short = container(1, 90, 0, 0, b".version 9.0");
    assert!(matches!(entries(&short[..short.len() - 1]), Err(FatbinError::Truncated { .. })));
    let mut header = short.clone();
    header[20] = 3;
    assert!(matches!(entries(&header), Err(FatbinError::Header { offset: 16 })));
    for (flags, method) in [(0x2000, "LZ4"), (0x8000, "Zstandard")] {
        let bad = container(1, 90, flags, 100, b"\xff\xff\xff\xff\xff\xff");
        let e = entries(&bad).unwrap()[0].unpack().unwrap_err();
        assert!(e.to_string().contains(method), "{e}");
        // An announced size that would take all memory is not believed.
        let huge = container(1, 90, flags, u64::MAX, b"\0\0");
        assert!(entries(&huge).unwrap()[0].unpack().is_err());
    }
}
